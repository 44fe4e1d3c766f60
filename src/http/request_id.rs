//! Request ids, which connect a request, its answer and its log lines.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use porchlight_observe::request::RequestName;

/// The header with the request's id.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of a request: the client's, if it consists of letters, digits, `.`, `_` and `-`;
/// otherwise a generated one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(RequestName);

impl RequestId {
    /// Returns the id for a request with these headers.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get(REQUEST_ID)
            .and_then(Self::given)
            .unwrap_or_else(Self::own)
    }

    /// Returns an id given by a client; `None` if it is too long or contains other characters.
    #[must_use]
    pub fn given(value: &HeaderValue) -> Option<Self> {
        RequestName::given(value.as_bytes()).map(Self)
    }

    /// Generates an id from the process's random number and a counter.
    #[must_use]
    pub fn own() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(|| {
            let mut bytes = [0_u8; 8];
            porchlight_world::fill_random(&mut bytes);
            u64::from_be_bytes(bytes)
        });
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(RequestName::own(
            *PROCESS,
            NEXT.fetch_add(1, Ordering::Relaxed),
        ))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the id for log lines.
    #[must_use]
    pub fn name(&self) -> RequestName {
        self.0.clone()
    }

    /// Returns the id as a header value.
    #[must_use]
    pub fn header(&self) -> HeaderValue {
        let header = HeaderValue::from_maybe_shared(self.0.bytes());
        header.unwrap_or(HeaderValue::from_static("req-0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_request_id_is_kept_and_any_other_replaced() {
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
