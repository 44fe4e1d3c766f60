//! Damaged rows of an outbox, whose content other rows repeat: the key of a due row names the lane,
//! a message's id leads to its lane, and the list of deliveries has each waiting message as its
//! lane has it.

use porchlight_core::webhook::Queued;
use porchlight_observe::webhook::WebhookMetrics;
use porchlight_ports::{DeliveryRow, StoreResult};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::message::Message;

use super::{
    DELIVERY, HELD, LISTED, WAITING, delivery_key, id_at_end, index_key, messages, session_at_end,
    waiting,
};
use crate::damage::{BODY, readable, recovered_rows, skipped};
use crate::engine::KeyRange;
use crate::record;
use crate::txn::{Read, Row, Scan};

/// Returns the lane of a message, by the message's id.
fn lane_of(read: &dyn Read, id: MessageId) -> StoreResult<Option<SessionId>> {
    let place = read.state::<(SessionId, u32)>(&messages::id_key(id));
    let place = skipped(place, "the place of a message")?;
    Ok(place.map(|(session_id, _)| session_id))
}

/// Returns the lane of a message, by the key of the message's row in an index.
fn lane_of_listed(read: &dyn Read, key: &[u8]) -> StoreResult<Option<SessionId>> {
    id_at_end(key).map_or(Ok(None), |id| lane_of(read, id))
}

/// Lists the messages of an index whose keys end with a message's id, each with its lane, and
/// counts the rows. A damaged row counts if its message is found.
pub(super) fn listed_messages(
    read: &dyn Read,
    range: KeyRange,
    limit: usize,
) -> StoreResult<Vec<(Row, SessionId)>> {
    let rows = recovered_rows(read, &Scan::state(range, limit), LISTED, |key| {
        let lane = lane_of_listed(read, key)?;
        Ok(lane.map(|lane| lane.to_bytes().to_vec()))
    })?;
    WebhookMetrics::get().on_rows_listed(rows.len());
    let mut listed = Vec::with_capacity(rows.len());
    for row in rows {
        let lane = match row.payload.first_chunk::<16>() {
            Some(lane) => Some(SessionId::from_bytes(*lane)),
            None => lane_of_listed(read, &row.key)?,
        };
        listed.extend(lane.map(|lane| (row, lane)));
    }
    Ok(listed)
}

/// Returns a waiting message as the list of deliveries has it, by the key of its row in a lane of
/// the endpoint.
fn waiting_delivery(
    read: &dyn Read,
    endpoint_id: EndpointId,
    key: &[u8],
) -> StoreResult<Option<Queued>> {
    let Some((session_id, number)) = place_in(key) else {
        return Ok(None);
    };
    let message = read.state::<Message>(&messages::key(session_id, number));
    let Some(message) = readable(message, session_id, BODY)? else {
        return Ok(None);
    };
    let row = read.state::<DeliveryRow>(&delivery_key(message.tenant, message.id));
    let row = readable(row, session_id, DELIVERY)?;
    let row = row.filter(|row| row.endpoint_id == endpoint_id && row.queued.is_waiting());
    Ok(row.map(|row| row.queued))
}

/// Returns the lane and the number in the key of a message's row in its lane.
fn place_in(key: &[u8]) -> Option<(SessionId, u32)> {
    let (before, number) = key.split_last_chunk::<4>()?;
    Some((session_at_end(before)?, u32::from_be_bytes(*number)))
}

/// Reads the waiting messages in rows of a lane.
pub(super) fn waiting_in(
    read: &dyn Read,
    endpoint_id: EndpointId,
    session_id: SessionId,
    scan: &Scan,
) -> StoreResult<Vec<Queued>> {
    let rows = recovered_rows(read, scan, LISTED, |key| {
        let queued = waiting_delivery(read, endpoint_id, key)?;
        queued.as_ref().map(record::encode).transpose()
    })?;
    let mut waiting = Vec::with_capacity(rows.len());
    for row in rows {
        let queued = match readable(row.decode().map(Some), session_id, WAITING)? {
            None => waiting_delivery(read, endpoint_id, &row.key)?,
            queued => queued,
        };
        waiting.extend(queued);
    }
    Ok(waiting)
}

/// Returns the payload of a damaged row of a lane or of an index if other rows repeat it and the
/// outbox still needs the row.
pub(crate) fn recovered(read: &dyn Read, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
    let Some((table, rest)) = key.split_first() else {
        return Ok(None);
    };
    let Some(endpoint_id) = rest.first_chunk::<16>() else {
        return Ok(None);
    };
    let endpoint_id = EndpointId::from_bytes(*endpoint_id);
    let lane = match *table {
        b'o' => {
            let queued = waiting_delivery(read, endpoint_id, key)?;
            return queued.as_ref().map(record::encode).transpose();
        }
        b'u' => session_at_end(key),
        b'q' | HELD => lane_of_listed(read, key)?,
        _ => None,
    };
    let Some(lane) = lane else { return Ok(None) };
    let waiting = waiting(read, endpoint_id, lane)?;
    let lists = |queued: &Queued| index_key(endpoint_id, queued).is_some_and(|own| own == key);
    let is_needed = waiting.iter().any(lists);
    Ok(is_needed.then(|| lane.to_bytes().to_vec()))
}
