//! The kinds of rows: a name for each table, the owner of a row, and whether its payload decodes.

use porchlight_core::webhook::{AttemptResult, ManualRetry, Queued};
use porchlight_ports::{
    DeliveryRow, Endpoint, Note, Organization, PodRow, StoreResult, StoredInsight,
};
use porchlight_schema::hex;
use porchlight_schema::ids::{EndpointId, KeyId, MessageId, RecorderId, SessionId};
use porchlight_schema::key::KeyRecord;
use porchlight_schema::message::Message;
use porchlight_schema::session::{SessionEnd, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::de::DeserializeOwned;

use super::idempotency::IdempotencyRecord;
use super::{journal, restrictions, tenant_in};
use crate::engine::Space;
use crate::record;

/// The size of the payload of a row that leads to a session.
const SESSION_BYTES: usize = 16;

/// The tables of state, each with the letter that begins its keys and the name of its rows. Tests
/// verify that no table is missing here, and that a migration treats each one.
pub const TABLES: [(u8, &str); 38] = [
    (b'J', "missing batches"),
    (b'n', "note"),
    (b's', "session start"),
    (b'e', "session end"),
    (b'p', "proof of delivery"),
    (b'l', "live session"),
    (b'c', "completed session"),
    (b'y', "session to score again"),
    (b't', "list of sessions"),
    (b'd', "list by delivery"),
    (b'r', "list by rider"),
    (b'i', "idempotency key"),
    (b'I', "idempotency key by age"),
    (b'a', "snapshot"),
    (b'v', "insight"),
    (b'w', "learned place"),
    (b'm', "message"),
    (b'M', "message by id"),
    (b'h', "webhook"),
    (b'o', "waiting message"),
    (b'q', "ready message"),
    (b'u', "retry"),
    (b'z', "held message"),
    (b'b', "requested retry"),
    (b'D', "delivery"),
    (b'F', "failed delivery"),
    (b'A', "attempt"),
    (b'x', "deleted webhook"),
    (b'g', "organization"),
    (b'k', "API key"),
    (b'K', "API key by id"),
    (b'R', "recorder"),
    (b'Z', "key check value"),
    (b'B', "last backup"),
    (b'V', "review"),
    (b'W', "learned places of a session"),
    (b'#', "document"),
    (b'X', "data key"),
];

/// The name of a row with a privacy mark, which is a document.
pub(crate) const PRIVACY_MARK: &str = "privacy mark";

/// The kind and the object of a row, for reports to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowName {
    /// The kind of row.
    pub kind: &'static str,
    /// The id of the object to which the row belongs; the whole key in hexadecimal digits if there
    /// is no such id.
    pub id: String,
}

/// Names a row by its key, which need not be readable otherwise.
#[must_use]
pub fn name(space: Space, key: &[u8]) -> RowName {
    let kind = kind(space, key);
    let id = id(key).unwrap_or_else(|| hex::encode(key));
    RowName { kind, id }
}

/// Returns the session of a row of the journal or of one session's row.
pub(crate) fn session(key: &[u8]) -> Option<SessionId> {
    let id = key.get(1..17)?;
    Some(SessionId::from_bytes(<[u8; 16]>::try_from(id).ok()?))
}

fn kind(space: Space, key: &[u8]) -> &'static str {
    let Some(table) = key.first() else {
        return "unknown";
    };
    match (space, table) {
        (_, 0) => "group marker",
        (Space::Journal, b'j') => "batch",
        (Space::State, _) if restrictions::tenant_of_row(key).is_some() => PRIVACY_MARK,
        (Space::State, table) => {
            let known = TABLES.iter().find(|(letter, _)| letter == table);
            known.map_or("other", |(_, name)| name)
        }
        (Space::Journal, _) => "other",
    }
}

fn id(key: &[u8]) -> Option<String> {
    let name = |tenant: Tenant| format!("{} {}", tenant.organization_id, tenant.env.as_str());
    let first = || <[u8; 16]>::try_from(key.get(1..17)?).ok();
    let last = || key.last_chunk::<16>().copied();
    Some(match key.first()? {
        b'j' => {
            let seq = u32::from_be_bytes(*key.last_chunk::<4>()?);
            format!("{} {seq}", session(key)?)
        }
        b'J' | b'n' | b's' | b'e' | b'p' | b'l' | b'y' | b'a' | b'v' | b'm' => {
            session(key)?.to_string()
        }
        b'c' | b't' | b'd' | b'r' => SessionId::from_bytes(last()?).to_string(),
        b'D' | b'F' => MessageId::from_bytes(last()?).to_string(),
        b'M' | b'A' => MessageId::from_bytes(first()?).to_string(),
        b'i' | b'h' => name(tenant_in(key)?),
        b'#' => name(restrictions::tenant_of_row(key)?),
        b'o' | b'q' | b'u' | b'z' | b'b' | b'x' => EndpointId::from_bytes(first()?).to_string(),
        b'K' => KeyId::from_bytes(first()?).to_string(),
        b'R' => RecorderId::from_bytes(first()?).to_string(),
        b'g' => String::from_utf8(key.get(1..)?.to_vec()).ok()?,
        _ => return None,
    })
}

/// Verifies that the payload of a row decodes. Kinds without a payload, and kinds that another
/// version wrote, are not decoded: their checksum was verified before.
pub(crate) fn verify(space: Space, key: &[u8], payload: &[u8]) -> StoreResult<()> {
    let Some(table) = key.first() else {
        return Ok(());
    };
    match (space, table) {
        (Space::Journal, b'j') => journal::verify(key, payload),
        (Space::State, table) => match table {
            b'J' => decodes::<u32>(key, payload),
            b'n' => decodes::<Note>(key, payload),
            b's' => decodes::<SessionStart>(key, payload),
            b'e' => decodes::<SessionEnd>(key, payload),
            b'p' => decodes::<PodRow>(key, payload),
            b'i' => decodes::<IdempotencyRecord>(key, payload),
            b'a' => decodes::<(u64, u32, Vec<u8>)>(key, payload),
            b'v' => decodes::<StoredInsight>(key, payload),
            b'm' => decodes::<Message>(key, payload),
            b'M' => decodes::<(SessionId, u32)>(key, payload),
            b'h' => decodes::<Endpoint>(key, payload),
            b'o' => decodes::<Queued>(key, payload),
            b'b' => decodes::<ManualRetry>(key, payload),
            b'D' => decodes::<DeliveryRow>(key, payload),
            b'A' => decodes::<AttemptResult>(key, payload),
            b'g' => decodes::<Organization>(key, payload),
            b'k' => decodes::<KeyRecord>(key, payload),
            b'K' | b'Z' => decodes::<[u8; 32]>(key, payload),
            b'R' => decodes::<(u64, Vec<u8>)>(key, payload),
            b'B' => decodes::<TimestampMs>(key, payload),
            b'#' if restrictions::tenant_of_row(key).is_some() => restrictions::verify(payload),
            b'q' | b'u' | b'z' if payload.len() != SESSION_BYTES => {
                Err(record::damaged(Space::State, key, "is not a session"))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn decodes<T: DeserializeOwned>(key: &[u8], payload: &[u8]) -> StoreResult<()> {
    record::decode::<T>(Space::State, key, payload).map(drop)
}
