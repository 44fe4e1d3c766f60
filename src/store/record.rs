//! Encoding of a row's value: its payload, the number of the group that wrote it, and a checksum
//! over space, key, payload and number. A truncated, flipped or misplaced value is an error, never
//! an absence.

use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::hex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::Space;

/// The number of bytes after the payload: the group's number and the CRC-32.
pub(crate) const TRAILER_BYTES: usize = 12;

/// The number of the payload format: postcard. Every format ever written stays readable.
const FORMAT: u8 = 1;

fn checksum(space: Space, key: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[space as u8]);
    hasher.update(&(key.len() as u32).to_be_bytes());
    hasher.update(key);
    hasher.update(body);
    hasher.finalize()
}

/// Returns the value of a row: its payload, followed by the number of the group that writes it and
/// the checksum.
pub(crate) fn with_checksum(
    space: Space,
    key: &[u8],
    mut payload: Vec<u8>,
    group_number: u64,
) -> Vec<u8> {
    payload.reserve_exact(TRAILER_BYTES);
    payload.extend_from_slice(&group_number.to_be_bytes());
    let checksum = checksum(space, key, &payload);
    payload.extend_from_slice(&checksum.to_be_bytes());
    payload
}

/// Returns the error for a damaged row, named by its space and key. Keys contain only ids, times,
/// hashes and names of organizations.
pub(crate) fn damaged(space: Space, key: &[u8], reason: &str) -> StoreError {
    StoreError::Damaged(format!(
        "{} row {}: {reason}",
        space.as_str(),
        hex::encode(key)
    ))
}

/// Returns the error for a sound row that only a later release can decode, with the reason.
pub(crate) fn newer(space: Space, key: &[u8], reason: &str) -> StoreError {
    StoreError::Newer(format!(
        "{} row {}: {reason}",
        space.as_str(),
        hex::encode(key)
    ))
}

/// Returns whether a value's checksum matches.
pub(crate) fn is_sound(space: Space, key: &[u8], value: &[u8]) -> bool {
    let parts = value.split_last_chunk::<4>();
    parts.is_some_and(|(body, stored)| {
        body.len() >= TRAILER_BYTES - 4 && checksum(space, key, body) == u32::from_be_bytes(*stored)
    })
}

/// Verifies a value's checksum and returns its payload and the number of the group that wrote it.
pub(crate) fn verified(
    space: Space,
    key: &[u8],
    mut value: Vec<u8>,
) -> StoreResult<(Vec<u8>, u64)> {
    let (body, stored) = value
        .split_last_chunk::<4>()
        .ok_or_else(|| damaged(space, key, "too short"))?;
    if checksum(space, key, body) != u32::from_be_bytes(*stored) {
        return Err(damaged(space, key, "checksum does not match"));
    }
    let (payload, group_number) = body
        .split_last_chunk::<8>()
        .ok_or_else(|| damaged(space, key, "too short"))?;
    let (length, group_number) = (payload.len(), u64::from_be_bytes(*group_number));
    value.truncate(length);
    Ok((value, group_number))
}

/// Splits a value into its payload and the number of the group that wrote it, without verifying the
/// checksum. Returns `None` if the value is too short.
pub(crate) fn parts(value: &[u8]) -> Option<(&[u8], u64)> {
    let (rest, _) = value.split_last_chunk::<4>()?;
    let (payload, group_number) = rest.split_last_chunk::<8>()?;
    Some((payload, u64::from_be_bytes(*group_number)))
}

/// Encodes a payload: the number of the format, then postcard. The buffer has room for the bytes
/// that [`with_checksum`] appends.
pub(crate) fn encode<T: Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    encode_about(value, 0)
}

/// Encodes a payload of which about `bytes` bytes are known.
pub(crate) fn encode_about<T: Serialize>(value: &T, bytes: usize) -> StoreResult<Vec<u8>> {
    let mut payload = Vec::with_capacity(128 + bytes);
    payload.push(FORMAT);
    postcard::to_extend(value, payload).map_err(StoreError::unavailable)
}

/// Decodes a payload that [`encode`] wrote and whose checksum was verified. If a sound payload does
/// not decode, only another release can have written it.
pub(crate) fn decode<T: DeserializeOwned>(
    space: Space,
    key: &[u8],
    payload: &[u8],
) -> StoreResult<T> {
    match payload.split_first() {
        Some((&FORMAT, body)) => postcard::from_bytes(body)
            .map_err(|error| newer(space, key, &format!("does not decode: {error}"))),
        Some((0, _)) => Err(damaged(space, key, "no format")),
        Some((format, _)) => Err(newer(space, key, &format!("unknown format {format}"))),
        None => Err(damaged(space, key, "empty")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let value = with_checksum(Space::State, b"key", b"payload".to_vec(), 7);
        assert_eq!(
            verified(Space::State, b"key", value.clone()).unwrap(),
            (b"payload".to_vec(), 7)
        );
        for bit in 0..8 * value.len() {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                verified(Space::State, b"key", flipped).is_err(),
                "bit {bit}"
            );
        }
        for length in 0..value.len() {
            assert!(verified(Space::State, b"key", value[..length].to_vec()).is_err());
        }
        assert!(verified(Space::State, b"kez", value.clone()).is_err());
        assert!(verified(Space::Journal, b"key", value).is_err());
    }

    #[test]
    fn a_row_of_a_later_release_is_not_damaged() {
        let mut payload = encode(&(1_u32, "a")).unwrap();
        let decode = |payload: &[u8]| decode::<(u32, String)>(Space::State, b"k", payload);
        assert_eq!(decode(&payload).unwrap(), (1, "a".to_owned()));
        let cut_off = &payload[..payload.len() - 1];
        assert!(matches!(decode(cut_off), Err(StoreError::Newer(_))));
        payload[0] = 9;
        assert!(matches!(decode(&payload), Err(StoreError::Newer(_))));
        payload[0] = 0;
        for damaged in [payload.as_slice(), &[]] {
            assert!(matches!(decode(damaged), Err(StoreError::Damaged(_))));
        }
    }
}
