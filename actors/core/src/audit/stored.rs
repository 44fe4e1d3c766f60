//! The stored form of the rows of a chain: a mark, the number of the format, then postcard.
//!
//! The builds before the first numbered format wrote postcard alone. Their rows begin with a number,
//! which never begins like the mark.

use std::net::IpAddr;

use porchlight_schema::time::TimestampMs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{ActorKind, Group, Hash, StoredLine};

/// The first bytes of a row. In a number, the first byte says that another one follows, and the last
/// byte of a number with several is not zero.
const MARK: [u8; 2] = [0x80, 0];
/// The number of the format.
const FORMAT: u8 = 1;

/// The reason why a row of a chain cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A later release wrote the row.
    #[error("a later release wrote format {0}")]
    Newer(u8),
    /// The row is damaged.
    #[error(transparent)]
    Damaged(#[from] postcard::Error),
}

/// Encodes a row.
///
/// # Errors
///
/// Returns an error if the value has no postcard form.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, postcard::Error> {
    let [first, second] = MARK;
    postcard::to_extend(value, vec![first, second, FORMAT])
}

/// Reads a row whose form has not changed since the builds without a number.
///
/// # Errors
///
/// See [`DecodeError`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let body = numbered(bytes)?.unwrap_or(bytes);
    Ok(postcard::from_bytes(body)?)
}

/// Returns the content of a row with a number, or `None` if the row has none.
fn numbered(bytes: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    match bytes.strip_prefix(&MARK).map(<[u8]>::split_first) {
        None => Ok(None),
        Some(Some((&FORMAT, body))) => Ok(Some(body)),
        Some(Some((&format, _))) => Err(DecodeError::Newer(format)),
        Some(None) => Err(postcard::Error::DeserializeUnexpectedEnd.into()),
    }
}

/// Reads a group.
pub(super) fn decode_group(bytes: &[u8]) -> Result<Group, DecodeError> {
    match numbered(bytes)? {
        Some(body) => Ok(postcard::from_bytes(body)?),
        None => Ok(postcard::from_bytes::<EarlierGroup>(bytes)?.into()),
    }
}

/// The kind of an actor as builds without a number stored it.
#[derive(Deserialize)]
enum EarlierKind {
    Key,
    Link,
    Operator,
    Service,
}

/// A line as builds without a number stored it.
#[derive(Deserialize)]
struct EarlierLine {
    at: TimestampMs,
    kind: EarlierKind,
    key: Option<[u8; 16]>,
    name: Option<String>,
    action: String,
    object: Option<String>,
    from: Option<IpAddr>,
    hash: Hash,
}

/// A group as builds without a number stored it.
#[derive(Deserialize)]
struct EarlierGroup {
    number: u64,
    previous: Hash,
    previous_at: TimestampMs,
    lines: Vec<EarlierLine>,
}

impl From<EarlierLine> for StoredLine {
    fn from(line: EarlierLine) -> Self {
        Self {
            at: line.at,
            kind: match line.kind {
                EarlierKind::Key => ActorKind::Key,
                EarlierKind::Link => ActorKind::Link,
                EarlierKind::Operator => ActorKind::Operator,
                EarlierKind::Service => ActorKind::Service,
            },
            key: line.key,
            name: line.name,
            action: line.action,
            object: line.object,
            from: line.from,
            hash: line.hash,
        }
    }
}

impl From<EarlierGroup> for Group {
    fn from(group: EarlierGroup) -> Self {
        Self {
            number: group.number,
            previous: group.previous,
            previous_at: group.previous_at,
            lines: group.lines.into_iter().map(StoredLine::from).collect(),
        }
    }
}
