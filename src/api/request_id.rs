//! By what a request, its answer and its log lines find each other.

use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::{HeaderMap, HeaderValue};
use actix_web::web::Bytes;

use super::problem::REQUEST_ID;

/// Characters of an id that a client gives.
const CHARS_MAX: usize = 128;

/// The id of one request: what the client gave, if it is of letters, digits, `.`, `_` and `-`; else our own. It is kept
/// as the header that it came in and goes out as, so that it costs one allocation, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id of the request with these headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get(REQUEST_ID)
            .and_then(Self::given)
            .unwrap_or_else(Self::own)
    }

    /// What a client gave; none where it is too long or of other characters, which would make their way into logs.
    #[must_use]
    pub fn given(value: &HeaderValue) -> Option<Self> {
        let narrow = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let bytes = value.as_bytes();
        let is_good = !bytes.is_empty() && bytes.len() <= CHARS_MAX && bytes.iter().all(narrow);
        is_good.then(|| Self(value.clone()))
    }

    /// A new one: the process's random number, and a running one. It names, it does not protect.
    #[must_use]
    pub fn own() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(|| {
            let mut bytes = [0_u8; 8];
            crate::world::fill(&mut bytes);
            u64::from_be_bytes(bytes)
        });
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut text = String::with_capacity(40);
        // Writing to a string can't fail, and digits can stand in a header.
        let _ = write!(text, "req-{:016x}-{number:x}", *PROCESS);
        let header = HeaderValue::from_maybe_shared(Bytes::from(text));
        Self(header.unwrap_or(HeaderValue::from_static("req-0")))
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The id as a header's value.
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_id_is_kept_and_any_other_replaced() {
        let of = |text: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(text).unwrap());
            RequestId::of(&headers).as_str().to_owned()
        };
        assert_eq!(of(b"Abc-1.2_3"), "Abc-1.2_3");
        for text in [&b""[..], b"a b", b"a\"b", b"\xc3\xa4", &[b'a'; 129]] {
            assert!(of(text).starts_with("req-"), "{text:?}");
        }
        let (one, other) = (RequestId::own(), RequestId::own());
        assert!(one != other && one.as_str().len() > 20);
    }
}
