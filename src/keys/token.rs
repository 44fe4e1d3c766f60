//! Tokens of sessions and recorders, which are derived and not stored.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use porchlight_schema::ids::{RecorderId, SessionId};
use sha2::Sha256;

use crate::keyring::SecretKeys;

/// The prefix of every session token.
const PREFIX: &str = "st_";
/// The size of the tag in bytes: 192 of the HMAC's 256 bits, a whole number of base64 characters.
const TAG_BYTES: usize = 24;
/// The number of characters of the tag.
const TAG_CHARS: usize = TAG_BYTES / 3 * 4;
/// Purpose of the derived key.
const PURPOSE: &str = "session token, version 1";

type HmacSha256 = Hmac<Sha256>;

/// The error of a text that is not a token of this service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this service")]
pub struct TokenError;

/// Creates and verifies the tokens of sessions and recorders.
#[derive(Clone)]
pub struct Tokens {
    /// Prepared HMACs; the first one signs, all verify.
    macs: Vec<HmacSha256>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens")
            .field("keys", &self.macs.len())
            .finish_non_exhaustive()
    }
}

impl Tokens {
    /// Creates the tokens of the service's secret keys: the writing key signs, all verify.
    #[must_use]
    pub fn of(secrets: &SecretKeys) -> Self {
        Self {
            macs: secrets
                .reading()
                .map(|secret| keyed(secret.derive(PURPOSE).bytes()))
                .collect(),
        }
    }

    /// Creates the tokens of dedicated keys: the first signs, all verify.
    #[must_use]
    pub fn new(first: &[u8; 32], others: &[[u8; 32]]) -> Self {
        Self {
            macs: std::iter::once(first).chain(others).map(keyed).collect(),
        }
    }

    /// Returns the token of a session. Every call with the same keys returns the same token.
    #[must_use]
    pub fn make(&self, session_id: SessionId) -> String {
        let mut token = String::with_capacity(PREFIX.len() + 26 + TAG_CHARS);
        token.push_str(PREFIX);
        token.push_str(session_id.to_string().trim_start_matches(SessionId::PREFIX));
        if let Some(mac) = self.macs.first() {
            let tag = mac
                .clone()
                .chain_update(session_id.to_bytes())
                .finalize()
                .into_bytes();
            URL_SAFE_NO_PAD.encode_string(&tag[..TAG_BYTES], &mut token);
        }
        token
    }

    /// Returns the token in a recorder's link. Every node with the same keys returns the same
    /// token.
    #[must_use]
    pub fn make_for_recorder(&self, id: RecorderId) -> String {
        let mut token = String::with_capacity(26 + TAG_CHARS);
        token.push_str(id.to_string().trim_start_matches(RecorderId::PREFIX));
        if let Some(mac) = self.macs.first() {
            let tag = of_recorder(mac, id).finalize().into_bytes();
            URL_SAFE_NO_PAD.encode_string(&tag[..TAG_BYTES], &mut token);
        }
        token
    }

    /// Returns the recorder to which the token `text` belongs. The recorder itself may have
    /// expired.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` is not a recorder's token of this service.
    pub fn check_recorder(&self, text: &str) -> Result<RecorderId, TokenError> {
        let (id, tag) = split(text)?;
        let id =
            RecorderId::from_str(&format!("{}{id}", RecorderId::PREFIX)).map_err(|_| TokenError)?;
        let mut macs = self.macs.iter();
        if macs.any(|mac| of_recorder(mac, id).verify_truncated_left(&tag).is_ok()) {
            Ok(id)
        } else {
            Err(TokenError)
        }
    }

    /// Returns whether `text` has the form of a token.
    #[must_use]
    pub fn is_token(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Returns the session to which a token belongs. Its validity also depends on the session's
    /// end.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` is not a session token of this service.
    pub fn check(&self, text: &str) -> Result<SessionId, TokenError> {
        let body = text.strip_prefix(PREFIX).ok_or(TokenError)?;
        let (id, tag) = split(body)?;
        let session_id =
            SessionId::from_str(&format!("{}{id}", SessionId::PREFIX)).map_err(|_| TokenError)?;
        let tagged = |mac: &HmacSha256| {
            let mac = mac.clone().chain_update(session_id.to_bytes());
            mac.verify_truncated_left(&tag).is_ok()
        };
        if self.macs.iter().any(tagged) {
            Ok(session_id)
        } else {
            Err(TokenError)
        }
    }
}

/// Splits a token without its prefix into the characters of the id and the tag.
fn split(token: &str) -> Result<(&str, [u8; TAG_BYTES]), TokenError> {
    let at = token.len().checked_sub(TAG_CHARS).ok_or(TokenError)?;
    let (id, encoded) = token.split_at_checked(at).ok_or(TokenError)?;
    let mut tag = [0_u8; TAG_BYTES];
    match URL_SAFE_NO_PAD.decode_slice(encoded, &mut tag) {
        Ok(TAG_BYTES) => Ok((id, tag)),
        _ => Err(TokenError),
    }
}

/// Returns the tag of a recorder. Its input is longer than a session's id, so that no tag is valid
/// for both.
fn of_recorder(mac: &HmacSha256, id: RecorderId) -> HmacSha256 {
    mac.clone()
        .chain_update(b"recorder")
        .chain_update(id.to_bytes())
}

fn keyed(key: &[u8; 32]) -> HmacSha256 {
    // A key shorter than the hash's 64-byte block is padded with zeros (RFC 2104, section 2).
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    HmacSha256::new(&block.into())
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_token_identifies_its_session() {
        let tokens = Tokens::new(&[1; 32], &[]);
        for tail in [0, 1, u128::MAX] {
            let session_id = SessionId::new(TimestampMs(1_763_636_100_000), tail);
            let token = tokens.make(session_id);
            assert_eq!(token, tokens.make(session_id));
            assert_eq!(tokens.check(&token), Ok(session_id));
        }
    }

    #[test]
    fn foreign_tokens_are_refused() {
        let tokens = Tokens::new(&[1; 32], &[]);
        let token = tokens.make(SessionId::new(TimestampMs(1_763_636_100_000), 7));
        for place in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            assert_eq!(
                tokens.check(&String::from_utf8(bytes).unwrap()),
                Err(TokenError),
                "at {place}"
            );
        }
        for text in [
            "",
            "st_",
            &token[..token.len() - 1],
            &format!("{token}A"),
            &format!("{token}="),
            "st_äöü",
        ] {
            assert_eq!(tokens.check(text), Err(TokenError), "{text}");
        }
        let others = Tokens::new(&[2; 32], &[]);
        assert_eq!(others.check(&token), Err(TokenError));
    }

    #[test]
    fn a_recorder_has_a_token_of_its_own() {
        let tokens = Tokens::new(&[1; 32], &[]);
        let at = TimestampMs(1_763_636_100_000);
        let (recorder, session) = (RecorderId::new(at, 7), SessionId::new(at, 7));
        let token = tokens.make_for_recorder(recorder);
        assert_eq!(tokens.check_recorder(&token), Ok(recorder));
        assert_eq!(tokens.check(&format!("{PREFIX}{token}")), Err(TokenError));
        let of_session = tokens.make(session);
        let body = of_session.trim_start_matches(PREFIX);
        assert_eq!(tokens.check_recorder(body), Err(TokenError));
        for place in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
            let forged = String::from_utf8(bytes).unwrap();
            assert_eq!(
                tokens.check_recorder(&forged),
                Err(TokenError),
                "at {place}"
            );
        }
        let others = Tokens::new(&[2; 32], &[]);
        assert_eq!(others.check_recorder(&token), Err(TokenError));
    }

    #[test]
    fn a_former_key_still_verifies_and_the_first_key_signs() {
        let session_id = SessionId::new(TimestampMs(1_763_636_100_000), 7);
        let (old, new) = (
            Tokens::new(&[1; 32], &[]),
            Tokens::new(&[2; 32], &[[1; 32]]),
        );
        assert_eq!(new.check(&old.make(session_id)), Ok(session_id));
        assert_eq!(old.check(&new.make(session_id)), Err(TokenError));
    }
    /// Phones and recorders keep their tokens through an upgrade.
    #[test]
    fn the_tokens_of_a_secret_key_never_change() {
        let tokens = Tokens::of(&SecretKeys::of_bytes([7; 32], &[]));
        let at = TimestampMs(1_763_636_100_000);
        assert_eq!(
            tokens.make(SessionId::new(at, 7)),
            "st_01kageeex00000000000000007PLbtwbDMriNHyT5pNC9BO5MPAfhRPAEl"
        );
        assert_eq!(
            tokens.make_for_recorder(RecorderId::new(at, 7)),
            "01kageeex000000000000000070vIihlyE6MxvsRH1URahdsPwo9HEFLep"
        );
    }
}
