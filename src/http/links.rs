//! Signed links to path images, which stand in insights and on the console's pages.

use actix_web::HttpRequest;
use hmac::{Hmac, KeyInit, Mac};
use porchlight_keys::keyring::SecretKeys;
use porchlight_schema::ids::SessionId;
use sha2::Sha256;

/// What the key of the signatures is derived for; another use of the same master key says something else.
const PURPOSE: &str = "path image link, version 1";
/// Bytes of a signature: 128 of the HMAC's 256 bits, which nobody guesses.
const SIGNATURE_BYTES: usize = 16;
type HmacSha256 = Hmac<Sha256>;

/// Makes and checks the links to path images.
pub struct PathImages {
    /// Keyed and ready; the first one makes, all check.
    macs: Vec<HmacSha256>,
    /// How the world reaches us; empty: as the request says.
    public_url: String,
}

impl std::fmt::Debug for PathImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathImages").finish_non_exhaustive()
    }
}

impl PathImages {
    /// Links signed with keys derived from the service's secrets: made with the one that writes, checked with any.
    #[must_use]
    pub fn of(secrets: &SecretKeys, public_url: &str) -> Self {
        let keys = secrets.reading().map(|secret| secret.derive(PURPOSE));
        Self::new(keys.map(|key| *key.bytes()), public_url)
    }

    /// Links signed with keys that serve nothing else: made with the first, checked with any.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = [u8; 32]>, public_url: &str) -> Self {
        // A key of any length is good for HMAC (RFC 2104): none is left out.
        let keyed = |key: [u8; 32]| HmacSha256::new_from_slice(&key).ok();
        Self {
            macs: keys.into_iter().filter_map(keyed).collect(),
            public_url: public_url.trim_end_matches('/').to_owned(),
        }
    }

    /// The link of a session's picture, for who sent `request`.
    #[must_use]
    pub fn url(&self, request: &HttpRequest, session_id: SessionId) -> Option<String> {
        let mac = self.macs.first()?.clone();
        let tag = mac.chain_update(session_id.to_bytes()).finalize();
        let tag = tag.into_bytes();
        let signature: String = tag
            .iter()
            .take(SIGNATURE_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = format!("/v1/sessions/{session_id}/path.png?signature={signature}");
        Some(format!("{}{path}", self.base(request)))
    }

    /// How the world reaches the service, without a slash at the end.
    #[must_use]
    pub fn base(&self, request: &HttpRequest) -> String {
        if self.public_url.is_empty() {
            let connection = request.connection_info();
            let (scheme, host) = (connection.scheme(), connection.host());
            format!("{scheme}://{host}")
        } else {
            self.public_url.clone()
        }
    }

    /// Whether the signature is the session's, in constant time.
    #[must_use]
    pub fn is_signed(&self, session_id: SessionId, signature: &str) -> bool {
        let Some(tag) = from_hex(signature) else {
            return false;
        };
        self.macs.iter().any(|mac| {
            let mac = mac.clone().chain_update(session_id.to_bytes());
            mac.verify_truncated_left(&tag).is_ok()
        })
    }
}

/// The bytes of a signature in lower-case hex; none for any other text.
fn from_hex(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * SIGNATURE_BYTES {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; SIGNATURE_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_link_is_good_for_its_session_and_under_any_key_that_reads() {
        let session_id = SessionId::new(TimestampMs(1_763_636_100_000), 7);
        let other = SessionId::new(TimestampMs(1_763_636_100_000), 8);
        let request = actix_web::test::TestRequest::default().to_http_request();
        let old = PathImages::new([[1; 32]], "https://api.example.com/");
        let url = old.url(&request, session_id).unwrap();
        let (before, signature) = url.split_once("?signature=").unwrap();
        assert_eq!(
            before,
            format!("https://api.example.com/v1/sessions/{session_id}/path.png")
        );
        let both = PathImages::new([[2; 32], [1; 32]], "");
        for images in [&old, &both] {
            assert!(images.is_signed(session_id, signature));
            assert!(!images.is_signed(other, signature));
            for place in 0..signature.len() {
                let mut wrong = signature.to_owned();
                let digit = if &wrong[place..=place] == "0" {
                    "1"
                } else {
                    "0"
                };
                wrong.replace_range(place..=place, digit);
                assert!(!images.is_signed(session_id, &wrong), "{wrong}");
            }
            for wrong in [
                "",
                "0",
                &signature[1..],
                &format!("{signature}0"),
                &signature.to_uppercase(),
            ] {
                let is_same = wrong == signature;
                assert!(is_same || !images.is_signed(session_id, wrong), "{wrong}");
            }
        }
        assert!(!PathImages::new([[2; 32]], "").is_signed(session_id, signature));
    }
}
