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

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::TryFutureExt;
use porchlight_core::ownership::{Incarnation, NodeName};
use porchlight_ports::{StoreError, StoreResult};
use scylla::statement::prepared::PreparedStatement;

use super::db::{Db, Lwt};
use super::{Inner, schema, state};
use crate::committer::OnFatal;

/// The interval at which a serving process verifies that it still serves.
const WATCH_EVERY: Duration = Duration::from_secs(3);
/// The time that active nodes need to notice that a single process has started.
const NODES_END_WITHIN: Duration = Duration::from_secs(12);
/// The row that counts the starts of single processes.
const ALONE: &str = "alone";

/// Returns the generation under which a process writes that acts in this generation of a shard.
#[must_use]
pub fn written_generation(epoch: u64, generation: u64) -> u64 {
    (epoch << 32) | generation.min(u64::from(u32::MAX))
}

/// Heartbeats of nodes as a single process first saw them.
type Seen = BTreeMap<NodeName, (Incarnation, u64)>;

/// Verifies from time to time that no other process serves. A process that cannot read cannot write
/// either.
pub(super) async fn watch(inner: Weak<Inner>, on_fatal: OnFatal, alone: bool) {
    let began = tokio::time::Instant::now();
    let mut seen: Option<Seen> = None;
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let Some(inner) = inner.upgrade().filter(|inner| inner.check_open().is_ok()) else {
            return;
        };
        let outrun = match newest(&inner.db).await {
            Ok(newest) if newest > inner.epoch => {
                Ok(Some("another process serves from this keyspace now"))
            }
            Ok(_) if alone && began.elapsed() > NODES_END_WITHIN => works(&inner, &mut seen).await,
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        match outrun {
            Ok(Some(reason)) => {
                inner.closed.store(true, Ordering::Release);
                return on_fatal(reason);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "whether this process still serves cannot be read")
            }
        }
    }
}

/// Returns whether a node's heartbeat has advanced since it was first seen.
async fn works(inner: &Arc<Inner>, seen: &mut Option<Seen>) -> StoreResult<Option<&'static str>> {
    let rows = inner.members(false).await?.into_iter();
    let now: Seen = rows
        .map(|row| (row.member.node, (row.member.incarnation, row.beat)))
        .collect();
    let Some(before) = seen else {
        *seen = Some(now);
        return Ok(None);
    };
    let has_risen =
        |(node, is): (&NodeName, &(Incarnation, u64))| before.get(node).is_none_or(|was| is > was);
    let one_works = now.iter().any(has_risen);
    Ok(one_works.then_some("several nodes serve from this keyspace now"))
}

/// Returns the stored epoch; 0 if no single process ever ran.
pub(super) async fn newest(db: &Db) -> StoreResult<u64> {
    stored(db, &db.statements.generation_get).await
}

async fn stored(db: &Db, statement: &PreparedStatement) -> StoreResult<u64> {
    let row: Option<(i64,)> = db.row(statement, (ALONE,)).await?;
    Ok(row.map_or(0, |(epoch,)| epoch.unsigned_abs()))
}

/// Returns the stored epoch, read serially for a node that starts.
pub(super) async fn current(db: &Db) -> StoreResult<u64> {
    until_a_quorum(|| stored(db, &db.statements.generation_serial).map_ok(Some)).await
}

/// Raises the epoch by one and returns it.
pub(super) async fn next(db: &Db) -> StoreResult<u64> {
    until_a_quorum(|| raise(db)).await
}

/// Retries until there is an answer. A cluster that is starting, or a large number of concurrent
/// requests, may cause failures for some time.
async fn until_a_quorum<F>(mut once: impl FnMut() -> F) -> StoreResult<u64>
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
        if began.elapsed() > schema::QUORUM_WITHIN {
            return Err(failed);
        }
        state::pause().await;
    }
}

/// Attempts to raise the epoch once; `None` if another process was faster or the outcome is unknown.
/// An unused number is harmless.
async fn raise(db: &Db) -> StoreResult<Option<u64>> {
    let statements = &db.statements;
    let found: Option<(i64,)> = db.row(&statements.generation_serial, (ALONE,)).await?;
    let next = found.map_or(1, |(found,)| found + 1);
    let raised = match found {
        None => {
            db.lightweight(&statements.generation_make, (ALONE,))
                .await?
        }
        Some((found,)) => {
            let values = (next, ALONE, found);
            db.lightweight(&statements.generation_raise, values).await?
        }
    };
    Ok(matches!(raised, Lwt::Applied).then(|| next.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
