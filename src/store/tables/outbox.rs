//! Outboxes: the changes of a message on its way to its endpoint.
//!
//! A waiting message has a row in its lane (`o`). Unless the endpoint's machine has parked it
//! behind another message, it is also listed: by its id if it must be examined (`q`), by its due
//! time if it waits for a retry (`u`), by the end of its maximum holding time while the endpoint is
//! paused (`z`). All messages have a row in the tenant's list of deliveries (`D`); permanently
//! failed messages have an additional entry (`F`).

mod node;
mod recovery;

use std::sync::Arc;

use porchlight_core::webhook::{
    AttemptResult, Change, Index, Lane, Listing, ManualRetry, Queued, State, Update,
};
use porchlight_observe::webhook::WebhookMetrics;
use porchlight_ports::{DeliveryRow, MessageBody, StoreError, StoreResult};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::limits::DELIVERY_ATTEMPTS_READ_MAX;
use porchlight_schema::message::Message;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{Key, endpoints, messages, session_at_end, time_from};
use crate::damage::{readable, readable_rows, report_error, skipped};
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Row, Scan, Txn};
pub use node::{depth, sweep, work};
pub(crate) use recovery::recovered;
use recovery::{listed_messages, waiting_in};

/// The maximum number of a lane's messages that are read together. More wait only if hundreds of
/// insight updates arrived during one attempt; they are superseded in steps.
const LANE_READ_MAX: usize = 256;

/// The table of held messages, by the end of their maximum holding time.
const HELD: u8 = b'z';
/// The name of a damaged row of a lane or of an index in the log.
const LISTED: &str = "a row of an outbox";
/// The name of a damaged row of a session's lane in the log.
const WAITING: &str = "a waiting message";
/// The name of a damaged row of the list of deliveries in the log.
const DELIVERY: &str = "a delivery";

fn of_endpoint(table: u8, endpoint_id: EndpointId) -> Key {
    Key::of(table).bytes(&endpoint_id.to_bytes())
}

fn lane_range(endpoint_id: EndpointId, session_id: SessionId) -> KeyRange {
    KeyRange::prefix(of_endpoint(b'o', endpoint_id).session(session_id).build())
}

fn lane_key(endpoint_id: EndpointId, queued: &Queued) -> Vec<u8> {
    of_endpoint(b'o', endpoint_id)
        .session(queued.session_id)
        .number(queued.number)
        .build()
}

fn ready_key(endpoint_id: EndpointId, id: MessageId) -> Vec<u8> {
    of_endpoint(b'q', endpoint_id).bytes(&id.to_bytes()).build()
}

fn due_key(endpoint_id: EndpointId, due_at: TimestampMs, session_id: SessionId) -> Vec<u8> {
    of_endpoint(b'u', endpoint_id)
        .time(due_at)
        .session(session_id)
        .build()
}

fn held_key(endpoint_id: EndpointId, until: TimestampMs, id: MessageId) -> Vec<u8> {
    of_endpoint(HELD, endpoint_id)
        .time(until)
        .bytes(&id.to_bytes())
        .build()
}

/// Returns the key of the row in the index that lists a message.
fn index_key(endpoint_id: EndpointId, queued: &Queued) -> Option<Vec<u8>> {
    match queued.index() {
        Index::Ready => Some(ready_key(endpoint_id, queued.id)),
        Index::Due(due_at) => Some(due_key(endpoint_id, due_at, queued.session_id)),
        Index::Held(until) => Some(held_key(endpoint_id, until, queued.id)),
        Index::None => None,
    }
}

/// Returns the key of a requested retry.
#[must_use]
pub fn manual_key(endpoint_id: EndpointId, request: &ManualRetry) -> Vec<u8> {
    of_endpoint(b'b', endpoint_id)
        .time(request.requested_at)
        .bytes(&request.id.to_bytes())
        .build()
}

/// Returns the key of a message's row in the list of deliveries.
#[must_use]
pub fn delivery_key(tenant: Tenant, id: MessageId) -> Vec<u8> {
    Key::of(b'D').tenant(tenant).bytes(&id.to_bytes()).build()
}

/// Returns the key of a message's row in the list of failed deliveries.
#[must_use]
pub fn failed_key(tenant: Tenant, id: MessageId) -> Vec<u8> {
    Key::of(b'F').tenant(tenant).bytes(&id.to_bytes()).build()
}

fn attempts_range(id: MessageId) -> KeyRange {
    KeyRange::prefix(Key::of(b'A').bytes(&id.to_bytes()).build())
}

fn attempt_key(id: MessageId, attempt: u32) -> Vec<u8> {
    Key::of(b'A').bytes(&id.to_bytes()).number(attempt).build()
}

// --- Into the outbox
// -----------------------------------------------------------------------------------------------

/// Queues a message under the session's next number, if the tenant has a webhook. The
/// caller commits it together with its cause.
pub(crate) fn queue_message(
    txn: &mut Txn<'_>,
    tenant: Tenant,
    session_id: SessionId,
    body: MessageBody,
) -> StoreResult<()> {
    let Some(endpoint_id) = endpoints::message_endpoint(txn.as_read(), tenant)? else {
        return Ok(());
    };
    let number = messages::next_number(txn.as_read(), session_id)?;
    enqueue(
        txn,
        &Message {
            id: MessageId::derived(body.created_at, session_id, number),
            tenant,
            session_id,
            number,
            event: body.event,
            created_at: body.created_at,
            body: body.body,
        },
        endpoint_id,
    )
}

/// Stores a message and queues it for this endpoint.
pub fn enqueue(txn: &mut Txn<'_>, message: &Message, endpoint_id: EndpointId) -> StoreResult<()> {
    let (session_id, number) = (message.session_id, message.number);
    txn.put_state(messages::key(session_id, number), message)?;
    txn.put_state(messages::id_key(message.id), &(session_id, number))?;
    let queued = Queued::new(message.id, session_id, number, message.event);
    let row = DeliveryRow::new(queued, endpoint_id);
    txn.put_state(delivery_key(message.tenant, message.id), &row)?;
    add_index_rows(txn, endpoint_id, &queued)
}

/// Writes the rows of the lane and of the index in which a waiting message is listed.
fn add_index_rows(txn: &mut Txn<'_>, endpoint_id: EndpointId, queued: &Queued) -> StoreResult<()> {
    if queued.is_waiting() {
        txn.put_state(lane_key(endpoint_id, queued), queued)?;
    }
    if let Some(key) = index_key(endpoint_id, queued) {
        txn.put(Space::State, key, queued.session_id.to_bytes().to_vec());
    }
    Ok(())
}

/// Removes the rows of the lane and of the index in which a waiting message was listed.
fn remove_index_rows(txn: &mut Txn<'_>, endpoint_id: EndpointId, queued: &Queued, after: &Queued) {
    if queued.is_waiting() && !after.is_waiting() {
        txn.delete(Space::State, lane_key(endpoint_id, queued));
    }
    if queued.index() != after.index()
        && let Some(key) = index_key(endpoint_id, queued)
    {
        txn.delete(Space::State, key);
    }
}

// --- Queries of the machine
// ----------------------------------------------------------------------------------------

/// Lists an outbox. See [`porchlight_ports::Outbox::listing`].
pub fn listing(
    read: &dyn Read,
    endpoint_id: EndpointId,
    ready: Option<(TimestampMs, usize)>,
    due: Option<(TimestampMs, usize)>,
    held: Option<(TimestampMs, usize)>,
    manual: usize,
) -> StoreResult<Listing> {
    let mut listing = Listing::default();
    if let Some((from, limit)) = ready {
        let mut range = KeyRange::prefix(of_endpoint(b'q', endpoint_id).build());
        range.from = ready_key(endpoint_id, MessageId::new(from, 0));
        listing.ready = Some(ids_and_lanes(&listed_messages(read, range, limit)?));
    }
    if let Some((until, limit)) = due {
        let end = of_endpoint(b'u', endpoint_id).time(until).build();
        let range = KeyRange::prefix(of_endpoint(b'u', endpoint_id).build()).before(&end);
        // The key contains the due time and the lane, so the payload may be damaged.
        let rows = read.rows(&Scan::keys(range, limit))?;
        WebhookMetrics::get().on_rows_listed(rows.len());
        listing.due = Some(rows.iter().filter_map(due_of).collect());
    }
    if let Some((before, limit)) = held {
        let end = of_endpoint(HELD, endpoint_id).time(before).build();
        let range = KeyRange::prefix(of_endpoint(HELD, endpoint_id).build()).before(&end);
        listing.held = Some(ids_and_lanes(&listed_messages(read, range, limit)?));
    }
    let range = KeyRange::prefix(of_endpoint(b'b', endpoint_id).build());
    let rows = readable_rows(read, &Scan::state(range, manual), LISTED)?;
    WebhookMetrics::get().on_rows_listed(rows.len());
    let requests = rows
        .iter()
        .map(|row| skipped(row.decode().map(Some), LISTED));
    listing.manual = requests
        .filter_map(StoreResult::transpose)
        .collect::<StoreResult<_>>()?;
    Ok(listing)
}

/// Returns the message in the key of its row in an index.
fn id_at_end(key: &[u8]) -> Option<MessageId> {
    key.last_chunk::<16>()
        .map(|bytes| MessageId::from_bytes(*bytes))
}

fn ids_and_lanes(rows: &[(Row, SessionId)]) -> Vec<(MessageId, SessionId)> {
    let rows = rows.iter();
    rows.filter_map(|(row, session_id)| Some((id_at_end(&row.key)?, *session_id)))
        .collect()
}

fn held_until_of(row: &Row) -> Option<TimestampMs> {
    let (before, _) = row.key.split_last_chunk::<16>()?;
    Some(time_from(*before.last_chunk::<8>()?))
}

fn due_of(row: &Row) -> Option<(TimestampMs, SessionId)> {
    let (before, _) = row.key.split_last_chunk::<16>()?;
    Some((
        time_from(*before.last_chunk::<8>()?),
        session_at_end(&row.key)?,
    ))
}

/// Returns the waiting messages of a lane, in order. A damaged row is read from the list of
/// deliveries, and is missing if that row is damaged too.
pub fn waiting(
    read: &dyn Read,
    endpoint_id: EndpointId,
    session_id: SessionId,
) -> StoreResult<Vec<Queued>> {
    let scan = Scan::state(lane_range(endpoint_id, session_id), LANE_READ_MAX);
    waiting_in(read, endpoint_id, session_id, &scan)
}

/// Reads a lane. See [`porchlight_ports::Outbox::lane`].
pub fn lane(
    read: &dyn Read,
    tenant: Tenant,
    endpoint_id: EndpointId,
    session_id: SessionId,
    manual: Option<ManualRetry>,
) -> StoreResult<Lane> {
    let mut lane = Lane {
        waiting: waiting(read, endpoint_id, session_id)?,
        manual: None,
    };
    if let Some(request) = manual
        && read.has_state(&manual_key(endpoint_id, &request))?
    {
        let row = read.state::<DeliveryRow>(&delivery_key(tenant, request.id));
        let row = readable(row, session_id, DELIVERY)?;
        // Messages for a deleted endpoint are cancelled.
        let row = row.filter(|row| !row.queued.is_waiting() || row.endpoint_id == endpoint_id);
        lane.manual = row.map(|row| row.queued);
    }
    Ok(lane)
}

/// Returns the body of a message.
pub fn body(read: &dyn Read, session_id: SessionId, number: u32) -> StoreResult<Option<Arc<str>>> {
    let message: Option<Message> = read.state(&messages::key(session_id, number))?;
    Ok(message.map(|message| message.body))
}

/// Commits changes. See [`porchlight_ports::Outbox::commit`].
pub fn commit(
    txn: &mut Txn<'_>,
    tenant: Tenant,
    endpoint_id: EndpointId,
    session_id: SessionId,
    change: Change,
) -> StoreResult<Vec<Queued>> {
    if let Some(request) = &change.manual_done {
        txn.delete(Space::State, manual_key(endpoint_id, request));
    }
    for update in change.updates {
        let key = delivery_key(tenant, update.before.id);
        let stored = stored_delivery(txn.as_read(), &key, endpoint_id, &update)?;
        let Some(row) = stored.filter(|row| row.queued == update.before) else {
            // The message was removed with its session, or this commit was already made.
            remove_stale_rows(txn, endpoint_id, &update.before)?;
            continue;
        };
        let row = row.changed(update.after, update.report.as_ref());
        txn.put_state(key, &row)?;
        remove_index_rows(txn, endpoint_id, &update.before, &update.after);
        add_index_rows(txn, endpoint_id, &update.after)?;
        if let Some(report) = &update.report {
            txn.put_state(attempt_key(update.after.id, update.after.attempts), report)?;
        }
        let failed = failed_key(tenant, update.after.id);
        match (update.before.state, update.after.state) {
            (State::Failed, State::Failed) => {}
            (_, State::Failed) => txn.put(Space::State, failed, Vec::new()),
            (State::Failed, _) => txn.delete(Space::State, failed),
            _ => {}
        }
    }
    waiting(txn.as_read(), endpoint_id, session_id)
}

/// Returns the row of a message that changes. If it does not decode, or was removed as damaged, it
/// is made again from the lane: the change must not fail or be ignored, because it would be repeated
/// for ever.
fn stored_delivery(
    read: &dyn Read,
    key: &[u8],
    endpoint_id: EndpointId,
    update: &Update,
) -> StoreResult<Option<DeliveryRow>> {
    let before = &update.before;
    match read.state(key) {
        Err(error) if error.is_of_single_rows() => report_error(DELIVERY, &error),
        Ok(None) => {
            let waiting = read.state::<Queued>(&lane_key(endpoint_id, before));
            let waiting = readable(waiting, before.session_id, WAITING)?;
            if waiting.as_ref() != Some(before) || is_removed(read, before.id)? {
                return Ok(None);
            }
        }
        stored => return stored,
    }
    Ok(Some(DeliveryRow::new(*before, endpoint_id)))
}

/// Returns whether a message was removed with its session.
fn is_removed(read: &dyn Read, id: MessageId) -> StoreResult<bool> {
    match read.has_state(&messages::id_key(id)) {
        Err(StoreError::Damaged(_)) => Ok(false),
        has_row => has_row.map(|has_row| !has_row),
    }
}

/// Removes rows that may still list a message that has changed.
fn remove_stale_rows(
    txn: &mut Txn<'_>,
    endpoint_id: EndpointId,
    before: &Queued,
) -> StoreResult<()> {
    let lane_key = lane_key(endpoint_id, before);
    let now = txn.as_read().state::<Queued>(&lane_key);
    let now = readable(now, before.session_id, WAITING)?;
    let removed = is_removed(txn.as_read(), before.id)?;
    if removed {
        txn.delete(Space::State, lane_key);
    }
    if (removed || now.is_none_or(|now| now.index() != before.index()))
        && let Some(key) = index_key(endpoint_id, before)
    {
        txn.delete(Space::State, key);
    }
    Ok(())
}

/// Returns the finished attempts of a message.
pub fn attempts(read: &dyn Read, id: MessageId) -> StoreResult<Vec<(u32, AttemptResult)>> {
    let scan = Scan::state(attempts_range(id), DELIVERY_ATTEMPTS_READ_MAX);
    read.rows(&scan)?
        .iter()
        .filter_map(|row| {
            let number = u32::from_be_bytes(*row.key.last_chunk::<4>()?);
            Some(row.decode().map(|report| (number, report)))
        })
        .collect()
}

/// Removes all rows of a message whose session is removed.
pub fn remove(txn: &mut Txn<'_>, message: &Message) -> StoreResult<()> {
    let key = delivery_key(message.tenant, message.id);
    let row = txn.as_read().state::<DeliveryRow>(&key);
    if let Some(row) = readable(row, message.session_id, DELIVERY)? {
        let gone = Queued {
            state: State::Superseded,
            ..row.queued
        };
        remove_index_rows(txn, row.endpoint_id, &row.queued, &gone);
    }
    txn.delete(Space::State, key);
    txn.delete(Space::State, failed_key(message.tenant, message.id));
    for row in txn.rows(&Scan::keys(attempts_range(message.id), usize::MAX))? {
        txn.delete(Space::State, row.key);
    }
    Ok(())
}
