//! Queries a node's outboxes together, and removes the outbox of a deleted endpoint.

use porchlight_core::webhook::Queued;
use porchlight_ports::{Depth, Endpoint, StoreError, StoreResult, Work};
use porchlight_schema::ids::{EndpointId, ShardSet};
use porchlight_schema::limits::DEPTH_COUNTED_MAX;
use porchlight_schema::time::TimestampMs;

use super::{HELD, LISTED, due_of, endpoints, held_until_of, listed_messages, of_endpoint};
use crate::damage::{due_despite_damage, readable_rows};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Row, Scan, Txn};

/// Returns the pending work. See [`porchlight_ports::Outbox::work`].
pub fn work(read: &dyn Read, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>> {
    let mut work = Vec::new();
    for endpoint in endpoints::all(read)? {
        if !shards.contains(endpoint.tenant.organization_id.shard()) {
            continue;
        }
        let due_at = due_despite_damage(first_due(read, &endpoint))?;
        if let Some(due_at) = due_at.filter(|&due_at| due_at < until) {
            work.push(Work {
                tenant: endpoint.tenant,
                due_at,
            });
        }
    }
    Ok(work)
}

/// Returns the time from which an endpoint has work; 0 if it can be done immediately.
fn first_due(read: &dyn Read, endpoint: &Endpoint) -> StoreResult<Option<TimestampMs>> {
    let range = |table| KeyRange::prefix(of_endpoint(table, endpoint.id).build());
    let held = listed_messages(read, range(HELD), 1)?;
    let manual = || readable_rows(read, &Scan::state(range(b'b'), 1), LISTED);
    // While the endpoint is paused, only manual requests and messages that were held for too long
    // can be acted on.
    let can_send = endpoint.enabled && !held.is_empty() || !manual()?.is_empty();
    if can_send || !listed_messages(read, range(b'q'), 1)?.is_empty() {
        return Ok(Some(TimestampMs(0)));
    }
    let due = read.rows(&Scan::keys(range(b'u'), 1))?;
    let due = due.first().and_then(due_of).map(|(due_at, _)| due_at);
    let held_until = held.first().and_then(|(row, _)| held_until_of(row));
    Ok(due.into_iter().chain(held_until).min())
}

/// Returns the queue depths. See [`porchlight_ports::Outbox::depth`].
pub fn depth(read: &dyn Read, now: TimestampMs) -> StoreResult<Depth> {
    let mut depth = Depth::default();
    for endpoint in endpoints::all(read)? {
        depth.overlaps += u64::from(endpoint.overlap(now).is_some());
        let range = KeyRange::prefix(of_endpoint(b'o', endpoint.id).build());
        visit(read, range, |row| {
            match row.decode::<Queued>() {
                Ok(queued) if queued.attempts == 0 => depth.pending += 1,
                // Reading the lane reports a row that cannot be decoded.
                Ok(_) | Err(StoreError::Damaged(_) | StoreError::Newer(_)) => depth.retrying += 1,
                Err(error) => return Err(error),
            }
            Ok(depth.pending.max(depth.retrying) < DEPTH_COUNTED_MAX)
        })?;
    }
    visit(read, KeyRange::prefix([b'F']), |_| {
        depth.failed += 1;
        Ok(depth.failed < DEPTH_COUNTED_MAX)
    })?;
    Ok(depth)
}

/// Reads a range in steps until `take` returns `false`.
fn visit(
    read: &dyn Read,
    mut range: KeyRange,
    mut take: impl FnMut(&Row) -> StoreResult<bool>,
) -> StoreResult<()> {
    const STEP_ROWS: usize = 1_000;
    loop {
        let rows = readable_rows(read, &Scan::state(range.clone(), STEP_ROWS), LISTED)?;
        for row in &rows {
            if !take(row)? {
                return Ok(());
            }
        }
        match rows.last() {
            Some(last) if rows.len() == STEP_ROWS => range = range.after(&last.key),
            _ => return Ok(()),
        }
    }
}

/// Removes up to `rows_max` rows of the outbox of a deleted endpoint. Returns `false` when no rows
/// are left.
pub fn sweep(txn: &mut Txn<'_>, endpoint_id: EndpointId, rows_max: usize) -> StoreResult<bool> {
    for table in [b'o', b'q', b'u', HELD, b'b'] {
        let range = KeyRange::prefix(of_endpoint(table, endpoint_id).build());
        let rows = txn.rows(&Scan::keys(range, rows_max))?;
        if !rows.is_empty() {
            for row in rows {
                txn.delete(Space::State, row.key);
            }
            return Ok(true);
        }
    }
    endpoints::finish_sweep(txn, endpoint_id);
    Ok(false)
}
