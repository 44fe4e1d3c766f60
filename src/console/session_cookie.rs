//! The ticket that a signed-in browser holds instead of a key: a sealed record of the key and the
//! sign-in time. It is encrypted under a key for this purpose only, so that it reveals nothing to
//! its holder, and every node can read it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use dashmap::DashMap;
use hmac::{Hmac, Mac};
use porchlight_schema::time::{HOUR_MS, TimestampMs};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use porchlight_keys::keyring::{SecretKey, SecretKeys};

/// The purpose for which ticket keys are derived from the keys of a file; used nowhere else.
const PURPOSE: &str = "console ticket, version 1";
/// The purpose for which the keys of CSRF tokens are derived.
const CSRF_PURPOSE: &str = "console form word, version 1";
/// The maximum duration of a console session.
const SESSION_MS_MAX: i64 = 12 * HOUR_MS;
/// The maximum idle time of a session.
const IDLE_MS: i64 = 30 * 60_000;
/// The age of a ticket's last renewal after which it is renewed again.
const RENEWED_AFTER_MS: i64 = 60_000;
/// The length of a nonce in bytes.
const NONCE_BYTES: usize = 24;
/// The maximum number of characters in a sealed ticket; longer ones are not read.
const SEALED_CHARS_MAX: usize = 512;
/// The maximum number of signed-out but otherwise valid sessions that this node remembers.
const SIGNED_OUT_MAX: usize = 65_536;

/// The identity of a signed-in visitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// The SHA-256 of the key.
    pub(super) key_hash: [u8; 32],
    /// The random number of the session.
    session: [u8; 16],
    issued_at: i64,
    seen_at: i64,
}

/// Issues and reads tickets.
pub(super) struct Tickets {
    sealing_key: SecretKey,
    opening_keys: Vec<SecretKey>,
    csrf_keys: Vec<SecretKey>,
    signed_out: DashMap<[u8; 16], TimestampMs>,
}

impl Tickets {
    pub(super) fn new(secrets: &SecretKeys) -> Self {
        Self {
            sealing_key: secrets.writing().derive(PURPOSE),
            opening_keys: secrets.reading().map(|key| key.derive(PURPOSE)).collect(),
            csrf_keys: secrets
                .reading()
                .map(|key| key.derive(CSRF_PURPOSE))
                .collect(),
            signed_out: DashMap::new(),
        }
    }

    /// Issues a ticket to a visitor who has just presented the key with this hash.
    pub(super) fn issue(&self, key_hash: [u8; 32], now: TimestampMs) -> Ticket {
        let mut session = [0; 16];
        porchlight_world::fill_random(&mut session);
        Ticket {
            key_hash,
            session,
            issued_at: now.0,
            seen_at: now.0,
        }
    }

    /// Seals the ticket for the browser.
    pub(super) fn seal(&self, ticket: &Ticket) -> Option<String> {
        let mut nonce = [0; NONCE_BYTES];
        porchlight_world::fill_random(&mut nonce);
        let plain = postcard::to_stdvec(ticket).ok()?;
        let payload = Payload {
            msg: &plain,
            aad: PURPOSE.as_bytes(),
        };
        let encrypted = cipher(&self.sealing_key).encrypt(&XNonce::from(nonce), payload);
        let mut sealed = nonce.to_vec();
        sealed.extend(encrypted.ok()?);
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Returns the ticket in a cookie, if it was sealed under one of the current keys and is still
    /// valid at `now`.
    pub(super) fn open(&self, text: &str, now: TimestampMs) -> Option<Ticket> {
        if text.len() > SEALED_CHARS_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, msg) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let aad = PURPOSE.as_bytes();
        let plain = self.opening_keys.iter().find_map(|key| {
            let payload = Payload { msg, aad };
            cipher(key).decrypt(&XNonce::from(*nonce), payload).ok()
        })?;
        let ticket: Ticket = postcard::from_bytes(&plain).ok()?;
        let is_good = now.0 - ticket.issued_at < SESSION_MS_MAX
            && now.0 - ticket.seen_at < IDLE_MS
            && !self.signed_out.contains_key(&ticket.session);
        is_good.then_some(ticket)
    }

    /// Returns the renewed ticket, or `None` while the current one is fresh.
    pub(super) fn renewed(&self, ticket: &Ticket, now: TimestampMs) -> Option<Ticket> {
        (now.0 - ticket.seen_at >= RENEWED_AFTER_MS).then(|| Ticket {
            seen_at: now.0,
            ..ticket.clone()
        })
    }

    /// Ends a session: this node refuses its ticket from now on.
    pub(super) fn sign_out(&self, ticket: &Ticket) {
        // A full map holds only sessions signed out within twelve hours. The entry is then skipped,
        // because the browser has deleted its own copy.
        if self.signed_out.len() < SIGNED_OUT_MAX {
            let until = TimestampMs(ticket.issued_at).plus_ms(SESSION_MS_MAX);
            self.signed_out.insert(ticket.session, until);
        }
    }

    /// Removes the entries of sessions that have expired.
    pub(super) fn clean_up(&self, now: TimestampMs) {
        self.signed_out.retain(|_, until| *until > now);
    }

    /// Returns the CSRF token of this session.
    pub(super) fn csrf_token(&self, ticket: &Ticket) -> String {
        let mac = self.csrf_keys.first().map(|key| csrf_mac(key, ticket));
        URL_SAFE_NO_PAD.encode(mac.unwrap_or_default())
    }

    /// Returns whether `given` is the CSRF token of this session.
    pub(super) fn is_csrf_token(&self, ticket: &Ticket, given: &str) -> bool {
        let Ok(given) = URL_SAFE_NO_PAD.decode(given) else {
            return false;
        };
        let matches =
            |key| subtle::ConstantTimeEq::ct_eq(given.as_slice(), &csrf_mac(key, ticket)).into();
        !given.is_empty() && self.csrf_keys.iter().any(matches)
    }
}

fn cipher(key: &SecretKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key.bytes()))
}

/// Returns the HMAC-SHA-256 of the session's random number under `key`.
fn csrf_mac(key: &SecretKey, ticket: &Ticket) -> Vec<u8> {
    // HMAC accepts a key of any length (RFC 2104), so this cannot fail.
    Hmac::<Sha256>::new_from_slice(key.bytes())
        .map(|mac| mac.chain_update(ticket.session).finalize().into_bytes())
        .map(|bytes| bytes.to_vec())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimestampMs = TimestampMs(1_763_636_100_000);

    fn tickets(byte: u8) -> Tickets {
        Tickets::new(&SecretKeys::of_bytes([byte; 32], &[]))
    }

    #[test]
    fn a_ticket_is_read_only_by_its_issuer_and_is_opaque() {
        let (here, elsewhere) = (tickets(0xab), tickets(0xcd));
        let ticket = here.issue([7; 32], NOW);
        let sealed = here.seal(&ticket).unwrap();
        assert_eq!(here.open(&sealed, NOW), Some(ticket.clone()));
        assert_eq!(elsewhere.open(&sealed, NOW), None);
        assert_ne!(here.seal(&ticket).unwrap(), sealed);
        let bytes = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        assert!(!bytes.windows(4).any(|window| window == [7; 4]));
        for index in 0..sealed.len() {
            let mut broken = sealed.clone().into_bytes();
            broken[index] = if broken[index] == b'A' { b'B' } else { b'A' };
            let broken = String::from_utf8(broken).unwrap();
            assert_eq!(here.open(&broken, NOW), None, "at {index}");
        }
        for text in ["", "A", &"A".repeat(10_000)] {
            assert_eq!(here.open(text, NOW), None);
        }
    }

    #[test]
    fn a_session_ends_by_age_idleness_or_sign_out() {
        let tickets = tickets(0xab);
        let mut ticket = tickets.issue([7; 32], NOW);
        let is_good = |ticket: &Ticket, now| {
            let sealed = tickets.seal(ticket).unwrap();
            tickets.open(&sealed, now).is_some()
        };
        assert!(is_good(&ticket, NOW.plus_ms(IDLE_MS - 1)));
        assert!(!is_good(&ticket, NOW.plus_ms(IDLE_MS)));
        let mut now = NOW;
        while now.0 < NOW.0 + SESSION_MS_MAX {
            assert!(is_good(&ticket, now));
            ticket = tickets.renewed(&ticket, now).unwrap_or(ticket);
            now = now.plus_ms(10 * 60_000);
        }
        assert!(!is_good(&ticket, now));

        let other = tickets.issue([7; 32], NOW);
        tickets.sign_out(&other);
        assert!(!is_good(&other, NOW));
        tickets.clean_up(NOW.plus_ms(SESSION_MS_MAX));
        assert!(tickets.signed_out.is_empty());
    }

    #[test]
    fn a_csrf_token_is_valid_only_for_its_own_session() {
        let tickets = tickets(0xab);
        let (one, two) = (tickets.issue([7; 32], NOW), tickets.issue([7; 32], NOW));
        assert!(tickets.is_csrf_token(&one, &tickets.csrf_token(&one)));
        assert!(!tickets.is_csrf_token(&one, &tickets.csrf_token(&two)));
        assert!(!tickets.is_csrf_token(&one, ""));
    }
}
