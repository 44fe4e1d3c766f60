//! Snapshots: the newest of each session.

use std::borrow::Cow;
use std::fmt;

use porchlight_ports::{Snapshot, StoreResult};
use porchlight_schema::ids::SessionId;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Key;
use crate::engine::Space;
use crate::record;
use crate::txn::{Read, Txn};

pub(crate) fn key(session_id: SessionId) -> Vec<u8> {
    Key::of(b'a').session(session_id).build()
}

/// Writes a snapshot unless a newer one is stored.
pub(crate) fn put(
    txn: &mut Txn<'_>,
    session_id: SessionId,
    snapshot: &Snapshot,
) -> StoreResult<()> {
    if txn.journal_heads.is_erased(session_id) {
        return Ok(());
    }
    let key = key(session_id);
    // The row begins with the snapshot's position, so the state behind it need not be decoded.
    let stored: Option<(u64, u32)> = txn.as_read().state(&key)?;
    if stored.is_some_and(|stored| stored > (snapshot.generation, snapshot.next_seq)) {
        return Ok(());
    }
    let row = (
        snapshot.generation,
        snapshot.next_seq,
        Bytes(Cow::Borrowed(&snapshot.state)),
    );
    let payload = record::encode_about(&row, snapshot.state.len())?;
    txn.put(Space::State, key, payload);
    Ok(())
}

/// Returns the newest snapshot.
pub(crate) fn newest(read: &dyn Read, session_id: SessionId) -> StoreResult<Option<Snapshot>> {
    let row: Option<(u64, u32, Bytes<'static>)> = read.state(&key(session_id))?;
    Ok(row.map(|(generation, next_seq, state)| Snapshot {
        generation,
        next_seq,
        state: state.0.into_owned(),
    }))
}

/// Bytes that are encoded as one piece. A vector would be encoded byte by byte; the stored form is
/// identical.
struct Bytes<'a>(Cow<'a, [u8]>);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        deserializer
            .deserialize_bytes(Whole)
            .map(|bytes| Self(Cow::Owned(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_bytes_are_written_like_a_vector() {
        for length in [0, 1, 127, 128, 3_000] {
            let state: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let vector = postcard::to_stdvec(&(7_u64, 300_u32, &state)).unwrap();
            let piece = (7_u64, 300_u32, Bytes(Cow::Borrowed(&state)));
            assert_eq!(postcard::to_stdvec(&piece).unwrap(), vector);
            let (_, _, read): (u64, u32, Bytes<'static>) = postcard::from_bytes(&vector).unwrap();
            assert_eq!(read.0.as_ref(), state);
            assert_eq!(postcard::from_bytes(&vector), Ok((7_u64, 300_u32)));
        }
    }
}
