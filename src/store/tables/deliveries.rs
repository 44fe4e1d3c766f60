//! The list of deliveries, and requested retries.

use porchlight_core::webhook::{ManualRetry, State};
use porchlight_ports::{
    DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus, Page, RetryOutcome, RetryRefusal,
    StoreResult,
};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::message::Message;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{Key, endpoints, messages, outbox};
use crate::damage::{BODY, readable, readable_rows, skipped};
use crate::engine::KeyRange;
use crate::txn::{Read, Row, Scan, Txn};

/// The maximum number of rows that one page examines.
const EXAMINED_ROWS_MAX: usize = 20_000;
/// Rows read in one step.
const STEP_ROWS: usize = 500;
/// The name of a damaged row of this table in the log.
const DAMAGED: &str = "a delivery";

/// Returns the rows of a tenant that a filter may match, as a range of keys that end with the
/// message's id.
fn range(tenant: Tenant, filter: &DeliveryFilter) -> KeyRange {
    let table = match filter.status {
        Some(DeliveryStatus::Failed) => b'F',
        _ => b'D',
    };
    let key = || Key::of(table).tenant(tenant);
    let mut range = KeyRange::prefix(key().build());
    if let Some(from) = filter.from {
        range.from = key().bytes(&MessageId::new(from, 0).to_bytes()).build();
    }
    if let Some(to) = filter.to {
        range = range.before(&key().bytes(&MessageId::new(to, 0).to_bytes()).build());
    }
    range
}

/// Calls `take` with the rows that pass the filter, in the order of the scan, until it returns
/// `false` or the maximum number of rows was examined. Returns the last examined id if there may be
/// more rows.
fn scan_rows(
    read: &dyn Read,
    tenant: Tenant,
    filter: &DeliveryFilter,
    mut scan: Scan,
    examined_rows_max: usize,
    take: &mut dyn FnMut(DeliveryRow) -> bool,
) -> StoreResult<Option<MessageId>> {
    let current = endpoints::find(read, tenant)?.map(|endpoint| endpoint.id);
    if let Some(session_id) = filter.session_id {
        let of = SessionScan {
            tenant,
            session_id,
            filter,
            current,
            scan: &scan,
        };
        return of.run(read, take);
    }
    let mut examined_rows = 0;
    scan.rows_max = STEP_ROWS;
    loop {
        let rows = readable_rows(read, &scan, DAMAGED)?;
        let Some(last) = rows.last() else {
            return Ok(None);
        };
        scan.range = match scan.order {
            crate::engine::Order::Ascending => scan.range.after(&last.key),
            crate::engine::Order::Descending => scan.range.before(&last.key),
        };
        let is_last_step = rows.len() < STEP_ROWS;
        for row in &rows {
            examined_rows += 1;
            let Some(id) = row.key.last_chunk::<16>() else {
                continue;
            };
            let id = MessageId::from_bytes(*id);
            let delivery = decode(read, tenant, id, row)?;
            let more = delivery
                .filter(|delivery| filter.matches(delivery, current))
                .is_none_or(&mut *take);
            if !more || examined_rows >= examined_rows_max {
                return Ok(Some(id));
            }
        }
        if is_last_step {
            return Ok(None);
        }
    }
}

fn decode(
    read: &dyn Read,
    tenant: Tenant,
    id: MessageId,
    row: &Row,
) -> StoreResult<Option<DeliveryRow>> {
    if row.key.first() == Some(&b'D') {
        return skipped(row.decode().map(Some), DAMAGED);
    }
    skipped(read.state(&outbox::delivery_key(tenant, id)), DAMAGED)
}

/// A scan of the deliveries of one session, which reads its messages instead of the tenant's table.
struct SessionScan<'s> {
    tenant: Tenant,
    session_id: SessionId,
    filter: &'s DeliveryFilter,
    /// The tenant's present endpoint.
    current: Option<EndpointId>,
    /// The order and the range of the scan of the tenant's table.
    scan: &'s Scan,
}

impl SessionScan<'_> {
    /// Calls `take` with the rows that pass the filter until it returns `false`. Returns the last
    /// examined id if there may be more rows.
    fn run(
        &self,
        read: &dyn Read,
        take: &mut dyn FnMut(DeliveryRow) -> bool,
    ) -> StoreResult<Option<MessageId>> {
        let Self {
            tenant,
            session_id,
            filter,
            current,
            scan,
        } = *self;
        let mut ids = message_ids(read, tenant, session_id)?;
        ids.sort_unstable();
        if scan.order == crate::engine::Order::Descending {
            ids.reverse();
        }
        for id in ids {
            // The range of the scan also excludes the rows before the page.
            let key = outbox::delivery_key(tenant, id);
            let is_outside = key.get(1..) < scan.range.from.get(1..)
                || (!scan.range.to.is_empty() && key.get(1..) >= scan.range.to.get(1..));
            if is_outside {
                continue;
            }
            let delivery = skipped(read.state(&key), DAMAGED)?;
            let more = delivery
                .filter(|delivery| filter.matches(delivery, current))
                .is_none_or(&mut *take);
            if !more {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }
}

/// Returns the ids of a session's messages to a tenant. Reads one message at a time, because bodies
/// are large, and leaves out damaged ones.
fn message_ids(
    read: &dyn Read,
    tenant: Tenant,
    session_id: SessionId,
) -> StoreResult<Vec<MessageId>> {
    let mut ids = Vec::new();
    for row in read.rows(&Scan::keys(messages::range(session_id), usize::MAX))? {
        let message = readable(read.state::<Message>(&row.key), session_id, BODY)?;
        let own = message.filter(|message| message.tenant == tenant);
        ids.extend(own.map(|message| message.id));
    }
    Ok(ids)
}

/// Returns the key of a message in the table of a range.
fn key_in(range: &KeyRange, tenant: Tenant, id: MessageId) -> Vec<u8> {
    let mut key = outbox::delivery_key(tenant, id);
    if let (Some(table), Some(byte)) = (range.from.first(), key.first_mut()) {
        *byte = *table;
    }
    key
}

/// Lists deliveries. See [`porchlight_ports::Outbox::deliveries`].
pub fn list(
    read: &dyn Read,
    tenant: Tenant,
    filter: &DeliveryFilter,
    limit: u32,
    after: Option<MessageId>,
) -> StoreResult<Page<DeliveryRow, MessageId>> {
    let mut range = range(tenant, filter);
    if let Some(after) = after {
        let key = key_in(&range, tenant, after);
        range = range.before(&key);
    }
    let (limit, mut rows) = (limit as usize, Vec::new());
    let scan = Scan::state(range, STEP_ROWS).descending();
    // One row more than requested shows whether there is a next page.
    let stopped = scan_rows(read, tenant, filter, scan, EXAMINED_ROWS_MAX, &mut |row| {
        rows.push(row);
        rows.len() <= limit
    })?;
    let next = if rows.len() > limit {
        rows.truncate(limit);
        rows.last().map(|row| row.queued.id)
    } else {
        stopped
    };
    Ok(Page { rows, next })
}

/// Finds a delivery. See [`porchlight_ports::Outbox::delivery`].
pub fn find(read: &dyn Read, tenant: Tenant, id: MessageId) -> StoreResult<Option<DeliveryDetail>> {
    let Some(row) = read.state::<DeliveryRow>(&outbox::delivery_key(tenant, id))? else {
        return Ok(None);
    };
    let (session_id, number) = (row.queued.session_id, row.queued.number);
    let body = readable(outbox::body(read, session_id, number), session_id, BODY)?;
    let current = endpoints::find(read, tenant)?.map(|endpoint| endpoint.id);
    let attempts = outbox::attempts(read, id)?;
    Ok(Some(DeliveryDetail {
        status: row.status(current),
        row,
        body,
        attempts,
    }))
}

fn queue_retry(
    txn: &mut Txn<'_>,
    endpoint_id: EndpointId,
    row: &DeliveryRow,
    at: TimestampMs,
) -> StoreResult<()> {
    let request = ManualRetry {
        requested_at: at,
        id: row.queued.id,
        session_id: row.queued.session_id,
        again: row.queued.state == State::Delivered,
    };
    txn.put_state(outbox::manual_key(endpoint_id, &request), &request)
}

/// Requests a retry. See [`porchlight_ports::Outbox::request_retry`].
pub fn request_retry(
    txn: &mut Txn<'_>,
    tenant: Tenant,
    id: MessageId,
    at: TimestampMs,
) -> StoreResult<RetryOutcome> {
    let key = outbox::delivery_key(tenant, id);
    let Some(row) = txn.as_read().state::<DeliveryRow>(&key)? else {
        return Ok(RetryOutcome::Unknown);
    };
    let current = endpoints::find(txn.as_read(), tenant)?.map(|endpoint| endpoint.id);
    if let Some(refusal) = row.retry_refusal(current) {
        return Ok(RetryOutcome::Refused(refusal));
    }
    let Some(endpoint_id) = current else {
        return Ok(RetryOutcome::Refused(RetryRefusal::NoWebhook));
    };
    queue_retry(txn, endpoint_id, &row, at)?;
    Ok(RetryOutcome::Requested)
}

/// Returns the next deliveries that a bulk retry may select. See
/// [`porchlight_ports::Outbox::retryable`]. A page may contain fewer than `limit` and not be the
/// last, because the number of examined rows is bounded.
pub fn retryable(
    read: &dyn Read,
    tenant: Tenant,
    filter: &DeliveryFilter,
    limit: usize,
    after: Option<MessageId>,
) -> StoreResult<Page<DeliveryRow, MessageId>> {
    let current = endpoints::find(read, tenant)?.map(|endpoint| endpoint.id);
    let mut rows = Vec::new();
    if current.is_none() {
        return Ok(Page { rows, next: None });
    }
    let mut range = range(tenant, filter);
    if let Some(after) = after {
        let key = key_in(&range, tenant, after);
        range = range.after(&key);
    }
    let scan = Scan::state(range, STEP_ROWS);
    let next = scan_rows(read, tenant, filter, scan, EXAMINED_ROWS_MAX, &mut |row| {
        if row.retry_refusal(current).is_none() {
            rows.push(row);
        }
        rows.len() < limit
    })?;
    Ok(Page { rows, next })
}

/// Requests retries of all these messages in one step. Returns their number.
pub fn request_retries(
    txn: &mut Txn<'_>,
    tenant: Tenant,
    chosen: &[DeliveryRow],
    at: TimestampMs,
) -> StoreResult<usize> {
    let Some(endpoint) = endpoints::find(txn.as_read(), tenant)? else {
        return Ok(0);
    };
    for row in chosen {
        queue_retry(txn, endpoint.id, row, at)?;
    }
    Ok(chosen.len())
}
