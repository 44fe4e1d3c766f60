//! Messages, which are numbered within their session without gaps.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::message::Message;

use super::Key;
use crate::engine::{KeyRange, Space};
use crate::record::damaged;
use crate::txn::{Read, Row, Scan};

/// Returns the key of a message.
#[must_use]
pub fn key(session_id: SessionId, number: u32) -> Vec<u8> {
    Key::of(b'm').session(session_id).number(number).build()
}

/// Returns the session and the number in the key of a message.
pub(crate) fn place_in(key: &[u8]) -> Option<(SessionId, u32)> {
    let (session, number) = key.strip_prefix(b"m")?.split_first_chunk::<16>()?;
    let number = u32::from_be_bytes(*number.first_chunk::<4>()?);
    Some((SessionId::from_bytes(*session), number))
}

/// Returns the key that maps a message's id to its session and number.
#[must_use]
pub fn id_key(id: MessageId) -> Vec<u8> {
    Key::of(b'M').bytes(&id.to_bytes()).build()
}

/// Returns all messages of a session.
#[must_use]
pub fn range(session_id: SessionId) -> KeyRange {
    KeyRange::prefix(Key::of(b'm').session(session_id).build())
}

/// Returns the number of the next message of a session.
pub(crate) fn next_number(read: &dyn Read, session_id: SessionId) -> StoreResult<u32> {
    // The key is enough, and a damaged message must not keep the session from ending.
    let last = read.rows(&Scan::keys(range(session_id), 1).descending())?;
    match last.first() {
        None => Ok(0),
        Some(row) => match row.key.last_chunk::<4>() {
            Some(number) => Ok(u32::from_be_bytes(*number).saturating_add(1)),
            None => Err(damaged(Space::State, &row.key, "key too short")),
        },
    }
}

/// Returns a session's messages in order.
pub fn all(read: &dyn Read, session_id: SessionId) -> StoreResult<Vec<Message>> {
    read.rows(&Scan::state(range(session_id), usize::MAX))?
        .iter()
        .map(Row::decode)
        .collect()
}

/// Returns a message by its id.
pub fn find(read: &dyn Read, id: MessageId) -> StoreResult<Option<Message>> {
    let place: Option<(SessionId, u32)> = read.state(&id_key(id))?;
    match place {
        Some((session_id, number)) => read.state(&key(session_id, number)),
        None => Ok(None),
    }
}
