//! By what a request, its answer and its log lines find each other.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::{HeaderMap, HeaderValue};

use super::problem::REQUEST_ID;

/// Characters of an id that a client gives.
const CHARS_MAX: usize = 128;

/// The id of one request: what the client gave, if it is of letters, digits, `.`, `_` and `-`; else our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id of the request with these headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok());
        given.and_then(Self::given).unwrap_or_else(Self::own)
    }

    /// What a client gave; none where it is too long or of other characters, which would make their way into logs.
    #[must_use]
    pub fn given(text: &str) -> Option<Self> {
        let narrow = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let good = !text.is_empty() && text.len() <= CHARS_MAX && text.bytes().all(narrow);
        good.then(|| Self(text.into()))
    }

    /// A new one: the process's random number, and a running one. It names, it does not protect.
    fn own() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(|| {
            let mut bytes = [0_u8; 8];
            crate::world::fill(&mut bytes);
            u64::from_be_bytes(bytes)
        });
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("req-{:016x}-{number:x}", *PROCESS).into())
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as a header's value.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_id_is_kept_and_any_other_replaced() {
        let of = |text: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(text).unwrap());
            RequestId::of(&headers).as_str().to_owned()
        };
        assert_eq!(of(b"Abc-1.2_3"), "Abc-1.2_3");
        for text in [&b""[..], b"a b", b"a\"b", b"\xc3\xa4", &[b'a'; 129]] {
            assert!(of(text).starts_with("req-"), "{text:?}");
        }
        assert_ne!(RequestId::own(), RequestId::own());
    }
}
