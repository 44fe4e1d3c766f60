//! The request that caused a log line. The HTTP layer sets it once around a request, and every
//! [`Fact`](super::Fact) written during the request includes it. Work that a request leaves to
//! actors is identified by its session.

use bytes::Bytes;

/// Maximum length of an id given by a client, in characters.
const CHARS_MAX: usize = 128;

tokio::task_local! {
    static REQUEST: RequestName;
}

/// The id that connects a request, its answer and its log lines: letters, digits, `.`, `_` and `-`,
/// at most 128 of them, so that it is safe in headers and logs. Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestName(Bytes);

impl RequestName {
    /// Returns an id given by a client; `None` if it is too long or contains other characters.
    #[must_use]
    pub fn given(name: &[u8]) -> Option<Self> {
        let narrow = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let is_good = !name.is_empty() && name.len() <= CHARS_MAX && name.iter().all(narrow);
        is_good.then(|| Self(Bytes::copy_from_slice(name)))
    }

    /// Returns a generated id: the process's random number and a counter. It identifies requests
    /// and protects nothing.
    #[must_use]
    pub fn own(process: u64, number: u64) -> Self {
        const PREFIX: &[u8] = b"req-";
        // Formatted without the library, because every request needs one and formatting took longer
        // than authentication.
        let mut text = [b'-'; PREFIX.len() + 16 + 1 + 16];
        let digits = 1 + number.checked_ilog2().unwrap_or(0) as usize / 4;
        let end = text.len() - 16 + digits;
        let (prefix, rest) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX);
        let (of_process, of_request) = rest.split_at_mut(16);
        hex(process, of_process);
        hex(
            number,
            of_request.get_mut(1..1 + digits).unwrap_or_default(),
        );
        Self(Bytes::copy_from_slice(
            text.get(..end).unwrap_or(text.as_slice()),
        ))
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Returns the id as shared bytes.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

/// Writes the lowest hexadecimal digits of a number into `text`.
fn hex(mut number: u64, text: &mut [u8]) {
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

/// Runs a future on behalf of a request.
pub fn caused_by<F: Future>(
    request: RequestName,
    future: F,
) -> impl Future<Output = F::Output> + use<F> {
    REQUEST.scope(request, future)
}

/// Returns the request on whose behalf the present task runs, if any.
#[must_use]
pub fn current() -> Option<RequestName> {
    REQUEST.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_restricted_request_name_is_accepted() {
        let taken = |name: &[u8]| RequestName::given(name).map(|name| name.as_str().to_owned());
        assert_eq!(taken(b"Abc-1.2_3").as_deref(), Some("Abc-1.2_3"));
        for name in [&b""[..], b"a b", b"a\"b", b"\xc3\xa4", &[b'a'; 129]] {
            assert_eq!(taken(name), None, "{name:?}");
        }
        for (process, number) in [(7, 255), (0, 0), (u64::MAX, 16), (1 << 63, u64::MAX)] {
            let text = format!("req-{process:016x}-{number:x}");
            assert_eq!(RequestName::own(process, number).as_str(), text);
        }
    }

    #[tokio::test]
    async fn the_request_name_is_known_only_within_its_task() {
        let name = RequestName::own(1, 2);
        assert_eq!(current(), None);
        let within = caused_by(name.clone(), async {
            tokio::task::yield_now().await;
            let elsewhere = tokio::spawn(async { current() });
            (current(), elsewhere.await.unwrap())
        });
        assert_eq!(within.await, (Some(name), None));
        assert_eq!(current(), None);
    }
}
