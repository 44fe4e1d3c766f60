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
use porchlight_observe::chain;
use porchlight_ports::{StoreError, StoreResult};
use scylla::statement::prepared::PreparedStatement;

use super::db::{Db, Lwt};
use super::{Inner, schema, state};
use crate::committer::OnFatal;

/// The interval at which a serving process verifies that it still serves.
const WATCH_INTERVAL: Duration = Duration::from_secs(3);
/// The time that active nodes need to notice that a single process has started.
const NODES_STOP_TIMEOUT: Duration = Duration::from_secs(12);
/// The row that counts the starts of single processes.
const EPOCH_ROW: &str = "alone";

/// Returns the generation under which a process writes that acts in this generation of a shard.
#[must_use]
pub fn written_generation(epoch: u64, generation: u64) -> u64 {
    (epoch << 32) | generation.min(u64::from(u32::MAX))
}

/// Heartbeats of nodes as a single process first saw them.
type Heartbeats = BTreeMap<NodeName, (Incarnation, u64)>;

/// Verifies from time to time that no other process serves. A process that cannot read cannot write
/// either.
pub(super) async fn watch(inner: Weak<Inner>, on_fatal: OnFatal, alone: bool) {
    let began = tokio::time::Instant::now();
    let mut seen: Option<Heartbeats> = None;
    loop {
        tokio::time::sleep(WATCH_INTERVAL).await;
        let Some(inner) = inner.upgrade().filter(|inner| inner.check_open().is_ok()) else {
            return;
        };
        let takeover = match stored_epoch(&inner.db).await {
            Ok(epoch) if epoch > inner.epoch => {
                Ok(Some("another process serves from this keyspace now"))
            }
            Ok(_) if alone && began.elapsed() > NODES_STOP_TIMEOUT => {
                active_nodes_reason(&inner, &mut seen).await
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        match takeover {
            Ok(Some(reason)) => {
                inner.closed.store(true, Ordering::Release);
                return on_fatal(reason);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "cannot read whether this process still serves"
                )
            }
        }
    }
}

/// Returns the reason to stop if a node's heartbeat has advanced since it was first seen.
async fn active_nodes_reason(
    inner: &Arc<Inner>,
    seen: &mut Option<Heartbeats>,
) -> StoreResult<Option<&'static str>> {
    let rows = inner.members(false).await?.into_iter();
    let now: Heartbeats = rows
        .map(|row| (row.member.node, (row.member.incarnation, row.heartbeat)))
        .collect();
    let Some(before) = seen else {
        *seen = Some(now);
        return Ok(None);
    };
    let has_risen =
        |(node, is): (&NodeName, &(Incarnation, u64))| before.get(node).is_none_or(|was| is > was);
    let is_active = now.iter().any(has_risen);
    Ok(is_active.then_some("several nodes serve from this keyspace now"))
}

/// Returns the stored epoch; 0 if no single process ever ran.
pub(super) async fn stored_epoch(db: &Db) -> StoreResult<u64> {
    read_epoch(db, &db.statements.generation_get).await
}

async fn read_epoch(db: &Db, statement: &PreparedStatement) -> StoreResult<u64> {
    let row: Option<(i64,)> = db.row(statement, (EPOCH_ROW,)).await?;
    Ok(row.map_or(0, |(epoch,)| epoch.unsigned_abs()))
}

/// Returns the stored epoch, read serially for a node that starts.
pub(super) async fn serial_epoch(db: &Db) -> StoreResult<u64> {
    retry_until_quorum(|| read_epoch(db, &db.statements.generation_serial).map_ok(Some)).await
}

/// Raises the epoch by one and returns it.
pub(super) async fn begin_epoch(db: &Db) -> StoreResult<u64> {
    retry_until_quorum(|| try_raise_epoch(db)).await
}

/// Retries a read or write of the epoch until it succeeds or [`schema::QUORUM_TIMEOUT`] passes. It may fail for some
/// time while a cluster starts or many requests run concurrently.
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

/// Attempts to raise the epoch once. Returns `None` if another process was faster or the outcome is unknown.
/// An unused number is harmless.
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
