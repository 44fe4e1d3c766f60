//! The payload of a sealed row: a mark, the number of its data key, a nonce, the ciphertext and its
//! tag. XChaCha20-Poly1305 binds it to the row's space and key.

use std::sync::atomic::{AtomicU64, Ordering};

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{Key, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use porchlight_world::fill_random;

use super::key_folder::Secret;
use crate::engine::Space;
use crate::record::TRAILER_BYTES;

/// The first byte of a sealed payload. No other payload begins with it: they begin with the number
/// of a format, or with the first character of JSON.
const MARK: u8 = 0xe5;
/// The size of the number of the data key in bytes.
const NUMBER_BYTES: usize = 8;
/// The size of the stored nonce in bytes. The cipher's nonce ends in zeros.
const NONCE_BYTES: usize = 16;
/// The size of the cipher's nonce in bytes.
const CIPHER_NONCE_BYTES: usize = 24;
/// The size of the tag in bytes.
const TAG_BYTES: usize = 16;
/// The size of the bytes before the ciphertext.
const HEAD_BYTES: usize = 1 + NUMBER_BYTES + NONCE_BYTES;

/// A source of nonces that never repeat: random bytes of this process, then a running number.
pub(super) struct Nonces {
    random: [u8; NONCE_BYTES - size_of::<u64>()],
    next: AtomicU64,
}

impl Nonces {
    pub(super) fn new() -> Self {
        let mut random = [0; NONCE_BYTES - size_of::<u64>()];
        fill_random(&mut random);
        Self {
            random,
            next: AtomicU64::new(0),
        }
    }

    fn next(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        let (random, number) = nonce.split_at_mut(self.random.len());
        random.copy_from_slice(&self.random);
        number.copy_from_slice(&self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        nonce
    }
}

/// Returns the number of the data key that sealed a payload, or `None` if it is not sealed.
pub(super) fn number(payload: &[u8]) -> Option<u64> {
    let (&mark, rest) = payload.split_first()?;
    let (number, _) = rest.split_first_chunk::<NUMBER_BYTES>()?;
    let is_sealed = mark == MARK && payload.len() >= HEAD_BYTES + TAG_BYTES;
    is_sealed.then(|| u64::from_be_bytes(*number))
}

/// Returns the data that a sealed payload is bound to.
fn bound(space: Space, key: &[u8]) -> Vec<u8> {
    let mut bound = Vec::with_capacity(1 + key.len());
    bound.push(space as u8);
    bound.extend_from_slice(key);
    bound
}

fn cipher(secret: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(**secret))
}

fn cipher_nonce(stored: &[u8; NONCE_BYTES]) -> XNonce {
    let mut nonce = [0; CIPHER_NONCE_BYTES];
    for (byte, stored) in nonce.iter_mut().zip(stored) {
        *byte = *stored;
    }
    XNonce::from(nonce)
}

/// Seals the payload of a row. `None`: it is too long for the cipher, which takes 256 GiB.
pub(super) fn seal(
    (space, key): (Space, &[u8]),
    (number, secret): (u64, &Secret),
    nonces: &Nonces,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let nonce = nonces.next();
    // There is room for the checksum.
    let mut sealed = Vec::with_capacity(HEAD_BYTES + payload.len() + TAG_BYTES + TRAILER_BYTES);
    sealed.push(MARK);
    sealed.extend_from_slice(&number.to_be_bytes());
    sealed.extend_from_slice(&nonce);
    sealed.extend_from_slice(payload);
    let text = sealed.get_mut(HEAD_BYTES..)?;
    let tag = cipher(secret)
        .encrypt_inout_detached(&cipher_nonce(&nonce), &bound(space, key), text.into())
        .ok()?;
    sealed.extend_from_slice(&tag);
    Some(sealed)
}

/// Opens a sealed payload of a row. `None`: it is damaged, or this is not its key.
pub(super) fn open(
    (space, key): (Space, &[u8]),
    secret: &Secret,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let nonce = payload
        .get(1 + NUMBER_BYTES..)?
        .first_chunk::<NONCE_BYTES>()?;
    let (text, tag) = payload.get(HEAD_BYTES..)?.split_last_chunk::<TAG_BYTES>()?;
    let mut opened = Vec::with_capacity(text.len() + TRAILER_BYTES);
    opened.extend_from_slice(text);
    cipher(secret)
        .decrypt_inout_detached(
            &cipher_nonce(nonce),
            &bound(space, key),
            opened.as_mut_slice().into(),
            &Tag::from(*tag),
        )
        .ok()?;
    Some(opened)
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn only_the_row_and_the_key_that_sealed_a_payload_open_it() {
        let (secret, nonces) = (Zeroizing::new([7; 32]), Nonces::new());
        let row = (Space::Journal, b"row".as_slice());
        let payload = b"Knochenhauergasse 17".as_slice();
        let sealed = seal(row, (42, &secret), &nonces, payload).unwrap();
        assert_eq!(number(&sealed), Some(42));
        assert_eq!(open(row, &secret, &sealed).as_deref(), Some(payload));
        assert_ne!(seal(row, (42, &secret), &nonces, payload).unwrap(), sealed);

        assert_eq!(open((Space::State, b"row"), &secret, &sealed), None);
        assert_eq!(open((Space::Journal, b"other"), &secret, &sealed), None);
        assert_eq!(open(row, &Zeroizing::new([8; 32]), &sealed), None);
        for bit in 8 * (1 + NUMBER_BYTES)..8 * sealed.len() {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(row, &secret, &flipped), None, "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(open(row, &secret, &sealed[..length]), None);
        }
        assert!(!sealed.windows(8).any(|bytes| bytes == &payload[..8]));
    }

    #[test]
    fn payloads_of_other_rows_are_not_sealed() {
        for payload in [
            b"".as_slice(),
            b"\x01 of postcard",
            b"{\"json\": 1}",
            &[MARK; 30],
        ] {
            assert_eq!(number(payload), None);
        }
    }
    #[test]
    fn the_form_of_a_sealed_payload_never_changes() {
        let nonces = Nonces {
            random: [3; 8],
            next: AtomicU64::new(9),
        };
        let (row, key) = ((Space::Journal, b"row".as_slice()), Zeroizing::new([7; 32]));
        let sealed = seal(row, (42, &key), &nonces, b"payload").unwrap();
        assert_eq!(
            porchlight_schema::hex::encode(&sealed),
            "e5000000000000002a0303030303030303000000000000000997357b35ec006c54ac01f818e9925a03afcaab7811f9f4"
        );
    }
}
