//! Determines which processes serve from a keyspace: a single process, or nodes that share the
//! work.
//!
//! One row counts the starts of single processes: the **epoch**. Rows written under a generation
//! (lane cursors, snapshots) carry `epoch << 32 | generation of the shard`; a single process has
//! generation 0 everywhere. Newer rows therefore sort above older ones, whichever way a keyspace
//! moved between one process and several.
//!
//! A single process exits when the epoch rises, which means that another one started, or when it
//! sees an active node. A node exits when the epoch rises.
//!
//! **A process does not write a session that a later single process has created a while after its
//! start.** An operation of the earlier process begins only within [`EPOCH_READ_MS`] after that
//! process last read its own epoch as the newest. So it begins less than that time after the start
//! of the later process. Sessions that the later one creates more than [`ALONE_AFTER_MS`] after its
//! start do not exist yet at that time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::TryFutureExt;
use porchlight_core::ownership::{Incarnation, NodeName, ReadMode};
use porchlight_observe::restarts::Restarts;
use porchlight_observe::{Task, error_text};
use porchlight_ports::{StoreError, StoreResult};
use scylla::statement::prepared::PreparedStatement;

use crate::committer::OnFatal;
use crate::cql::Inner;
use crate::cql::connection::connect::next_timestamp_us;
use crate::cql::connection::schema;
use crate::cql::sessions::state;
use crate::cql::statements::db::{Db, Lwt};

/// The interval at which a serving process verifies that it still serves.
const WATCH_INTERVAL: Duration = Duration::from_secs(3);
/// The time that active nodes need to notice that a single process has started.
const NODES_STOP_TIMEOUT: Duration = Duration::from_secs(12);
/// The time for which a read of the epoch permits operations, in milliseconds. It is longer than
/// the interval of reads, so that an operation reads the epoch itself only if the process was
/// suspended or the database did not answer.
const EPOCH_READ_MS: i64 = 10_000;
/// The time after its start from which a single process knows that no earlier process writes the
/// sessions that it creates, in milliseconds.
const ALONE_AFTER_MS: i64 = 2 * EPOCH_READ_MS;
/// The time for which a single process relies on a verification that no node is active, in
/// milliseconds.
const ALONE_VERIFIED_MS: i64 = 5_000;
const _: () = assert!(
    WATCH_INTERVAL.as_millis() < ALONE_VERIFIED_MS as u128 && ALONE_VERIFIED_MS < EPOCH_READ_MS,
    "a process that verifies in time reads nothing else"
);
/// The row that counts the starts of single processes.
const EPOCH_ROW: &str = "alone";
/// The reason to stop after the epoch has risen.
const TAKEN_OVER: &str = "another process serves from this keyspace now";

/// Returns the generation that a process writes into rows while it acts in this generation of a
/// shard.
#[must_use]
pub fn written_generation(epoch: u64, generation: u64) -> u64 {
    (epoch << 32) | generation.min(u64::from(u32::MAX))
}

/// The times at which a process has verified that no other one serves. They are milliseconds of its
/// monotonic clock.
#[derive(Debug)]
pub(in crate::cql) struct Verified {
    /// The time taken just after the process began its epoch.
    began_ms: i64,
    /// The time taken just before the process last read that its epoch is the newest.
    epoch_read_ms: AtomicI64,
    /// The time taken just before a single process last read that no node is active.
    alone_ms: AtomicI64,
}

impl Verified {
    pub(in crate::cql) fn new(began_ms: i64) -> Self {
        Self {
            began_ms,
            epoch_read_ms: AtomicI64::new(began_ms),
            alone_ms: AtomicI64::new(i64::MIN),
        }
    }

    fn on_epoch_read(&self, at_ms: i64) {
        self.epoch_read_ms.fetch_max(at_ms, Ordering::AcqRel);
    }

    fn on_alone(&self, at_ms: i64) {
        self.alone_ms.fetch_max(at_ms, Ordering::AcqRel);
    }

    fn must_read_epoch(&self, now_ms: i64) -> bool {
        now_ms - self.epoch_read_ms.load(Ordering::Acquire) >= EPOCH_READ_MS
    }

    fn is_alone(&self, now_ms: i64) -> bool {
        let verified_ms = self.alone_ms.load(Ordering::Acquire);
        let is_verified = now_ms < verified_ms.saturating_add(ALONE_VERIFIED_MS);
        is_verified && now_ms - self.began_ms >= ALONE_AFTER_MS
    }
}

impl Inner {
    /// Returns whether this process is the only one that writes the sessions that it creates now.
    pub(in crate::cql) fn serves_alone(&self) -> bool {
        self.verified.is_alone(self.clock.uptime_ms())
    }

    /// Returns an error if the store is closed, or if a single process has started since. Every
    /// operation that writes begins with this check.
    pub(in crate::cql) async fn check_serving(&self) -> StoreResult<()> {
        self.check_open()?;
        let now_ms = self.clock.uptime_ms();
        if self.is_command || !self.verified.must_read_epoch(now_ms) {
            return Ok(());
        }
        if stored_epoch(&self.db).await? > self.epoch {
            return Err(StoreError::unavailable(TAKEN_OVER));
        }
        self.verified.on_epoch_read(now_ms);
        Ok(())
    }
}

/// The way in which a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Serving {
    /// The process runs all sessions and sends all webhooks.
    Alone,
    /// The process is one of several nodes.
    AsNode,
}

/// The heartbeats of nodes.
type Heartbeats = BTreeMap<NodeName, (Incarnation, u64)>;

/// Verifies from time to time that no other process serves, and then sends the deletes that have
/// waited for it. A process that cannot read cannot write either.
pub(in crate::cql) async fn watch(inner: Weak<Inner>, on_fatal: OnFatal, serving: Serving) {
    let began = tokio::time::Instant::now();
    let mut restarts = Restarts::new(Task::ServingWatch);
    let mut nodes = match serving {
        Serving::Alone => Some(NodesWatch::default()),
        Serving::AsNode => None,
    };
    if let (Some(nodes), Some(inner)) = (&mut nodes, inner.upgrade()) {
        let read = restarts.run(heartbeats(&inner)).await;
        nodes.last = read.and_then(Result::ok);
    }
    let mut may_stop = false;
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        let Some(inner) = inner.upgrade().filter(|inner| inner.check_open().is_ok()) else {
            return;
        };
        let had_time = began.elapsed() > NODES_STOP_TIMEOUT;
        let verifying = verify(&inner, nodes.as_mut(), may_stop);
        match restarts.run(verifying).await {
            Some(Ok(Some(reason))) => {
                inner.is_closed.store(true, Ordering::Release);
                return on_fatal(reason);
            }
            Some(Ok(None)) | None => {}
            Some(Err(error)) => {
                tracing::warn!(
                    error = error_text(&error),
                    "the epoch of this keyspace cannot be read"
                )
            }
        }
        may_stop = had_time;
    }
}

/// Verifies once that no other process serves. Returns the reason to stop if one does. `may_stop`
/// is false if, at the previous verification, nodes may not have noticed yet that a single process
/// had started.
async fn verify(
    inner: &Arc<Inner>,
    nodes: Option<&mut NodesWatch>,
    may_stop: bool,
) -> StoreResult<Option<&'static str>> {
    let (began_ms, began_us) = (inner.clock.uptime_ms(), next_timestamp_us());
    if stored_epoch(&inner.db).await? > inner.epoch {
        return Ok(Some(TAKEN_OVER));
    }
    inner.verified.on_epoch_read(began_ms);
    if let Some(nodes) = nodes {
        match nodes.compare(heartbeats(inner).await?, may_stop) {
            Nodes::Unknown => return Ok(None),
            Nodes::Silent => inner.verified.on_alone(began_ms),
            Nodes::Active => return Ok(Some("several nodes serve from this keyspace now")),
        }
    }
    inner.send_deletes(began_us).await;
    Ok(None)
}

/// The activity of nodes, as a single process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// Nodes may be active that have not noticed the single process yet.
    Unknown,
    /// No heartbeat has advanced since the read before.
    Silent,
    /// Nodes are active.
    Active,
}

/// The heartbeats of nodes as a single process has read them.
#[derive(Debug, Default)]
struct NodesWatch {
    /// The last heartbeats.
    last: Option<Heartbeats>,
}

impl NodesWatch {
    /// Compares the heartbeats with those of the read before.
    fn compare(&mut self, now: Heartbeats, may_stop: bool) -> Nodes {
        let Some(last) = self.last.replace(now.clone()) else {
            return Nodes::Unknown;
        };
        let has_risen = |(node, is): (&NodeName, &(Incarnation, u64))| {
            last.get(node).is_none_or(|was| is > was)
        };
        match now.iter().any(has_risen) {
            false => Nodes::Silent,
            true if may_stop => Nodes::Active,
            true => Nodes::Unknown,
        }
    }
}

async fn heartbeats(inner: &Inner) -> StoreResult<Heartbeats> {
    let rows = inner.members(ReadMode::Plain).await?.into_iter();
    let heartbeats = rows.map(|row| (row.member.node, (row.member.incarnation, row.heartbeat)));
    Ok(heartbeats.collect())
}

/// Returns the stored epoch; 0 if no single process ever ran.
pub(in crate::cql) async fn stored_epoch(db: &Db) -> StoreResult<u64> {
    read_epoch(db, &db.statements.generation_get).await
}

async fn read_epoch(db: &Db, statement: &PreparedStatement) -> StoreResult<u64> {
    let row: Option<(i64,)> = db.row(statement, (EPOCH_ROW,)).await?;
    Ok(row.map_or(0, |(epoch,)| epoch.unsigned_abs()))
}

/// Returns the stored epoch, read serially for a node that starts.
pub(in crate::cql) async fn serial_epoch(db: &Db) -> StoreResult<u64> {
    retry_until_quorum(|| read_epoch(db, &db.statements.generation_serial).map_ok(Some)).await
}

/// Raises the epoch by one and returns it.
pub(in crate::cql) async fn begin_epoch(db: &Db) -> StoreResult<u64> {
    retry_until_quorum(|| try_raise_epoch(db)).await
}

/// Retries a read or write of the epoch until it succeeds or [`schema::QUORUM_TIMEOUT`] passes. It
/// may fail for some time while a cluster starts or many requests run concurrently.
async fn retry_until_quorum<F>(mut once: impl FnMut() -> F) -> StoreResult<u64>
where
    F: Future<Output = StoreResult<Option<u64>>>,
{
    let began = tokio::time::Instant::now();
    loop {
        let failed = match once().await {
            Ok(Some(epoch)) => return Ok(epoch),
            Ok(None) => StoreError::Overloaded,
            Err(error) => error,
        };
        if began.elapsed() > schema::QUORUM_TIMEOUT {
            return Err(failed);
        }
        state::back_off().await;
    }
}

/// Attempts to raise the epoch once. Returns `None` if another process was faster or the outcome is
/// unknown. An unused number is harmless.
async fn try_raise_epoch(db: &Db) -> StoreResult<Option<u64>> {
    let statements = &db.statements;
    let found: Option<(i64,)> = db.row(&statements.generation_serial, (EPOCH_ROW,)).await?;
    let next = found.map_or(1, |(found,)| found + 1);
    let raised = match found {
        None => {
            db.lightweight(&statements.generation_make, (EPOCH_ROW,))
                .await?
        }
        Some((found,)) => {
            let values = (next, EPOCH_ROW, found);
            db.lightweight(&statements.generation_raise, values).await?
        }
    };
    Ok(matches!(raised, Lwt::Applied).then(|| next.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_begins_only_soon_after_a_read_of_the_epoch() {
        let verified = Verified::new(1_000);
        assert!(!verified.must_read_epoch(1_000 + EPOCH_READ_MS - 1));
        assert!(verified.must_read_epoch(1_000 + EPOCH_READ_MS));
        verified.on_epoch_read(5_000);
        // A read that began earlier and ends later changes nothing.
        verified.on_epoch_read(2_000);
        assert!(!verified.must_read_epoch(5_000 + EPOCH_READ_MS - 1));
    }

    #[test]
    fn serving_alone_requires_time_since_the_start_and_a_recent_verification() {
        let (verified, after_ms) = (Verified::new(1_000), 1_000 + ALONE_AFTER_MS);
        assert!(
            !verified.is_alone(after_ms),
            "the process has not verified that it is alone"
        );
        verified.on_alone(after_ms - 1);
        assert!(!verified.is_alone(after_ms - 1));
        assert!(verified.is_alone(after_ms));
        assert!(!verified.is_alone(after_ms - 1 + ALONE_VERIFIED_MS));
    }

    #[test]
    fn nodes_are_active_if_a_heartbeat_advances_between_two_reads() {
        let read = |heartbeat| {
            let node = NodeName("a:1".to_owned());
            Heartbeats::from([(node, (Incarnation(1), heartbeat))])
        };
        let mut nodes = NodesWatch::default();
        assert_eq!(nodes.compare(read(1), false), Nodes::Unknown);
        // The node has not noticed the single process yet.
        assert_eq!(nodes.compare(read(2), false), Nodes::Unknown);
        assert_eq!(nodes.compare(read(2), true), Nodes::Silent);
        assert_eq!(nodes.compare(Heartbeats::new(), true), Nodes::Silent);
        // A node starts while the single process runs.
        assert_eq!(nodes.compare(read(2), true), Nodes::Active);
    }

    #[test]
    fn newer_writes_sort_above_older_ones() {
        let ways = [
            written_generation(1, 0),
            written_generation(2, 0),
            written_generation(2, 1),
            written_generation(2, 700),
            written_generation(3, 0),
            written_generation(3, 701),
        ];
        assert!(ways.is_sorted());
        assert!(i64::try_from(written_generation(1 << 30, 9)).is_ok());
    }
}
