//! Reads request bodies with limits on size, coding and time. All bytes are counted while they
//! stream in, so that no more than the limit is ever buffered.
//!
//! The code reads the raw payload: the framework's readers have no separate limits for sent and
//! unpacked bytes, and no deadline (they time out a slow head, but a body sent byte by byte would
//! hold a connection forever).

mod coding;
mod inflate;
pub mod stream;
mod unpack;

use std::time::Duration;

use actix_web::error::PayloadError;
use actix_web::http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue,
};
use actix_web::web::{Bytes, BytesMut};
use futures_util::{FutureExt, Stream, StreamExt};
use porchlight_schema::limits::{
    BATCH_SENT_BYTES_MAX, BATCH_UNPACKED_BYTES_MAX, NDJSON_SENT_BYTES_MAX,
    NDJSON_UNPACKED_BYTES_MAX, REQUEST_BODY_BYTES_MAX,
};
use tokio::time::Instant;

use super::problem::{Code, Problem};
use super::waking::yield_to_payload;
use coding::Coding;

/// Limits on the size of a body.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum bytes as sent.
    pub sent_bytes: usize,
    /// The maximum bytes after decompression.
    pub unpacked_bytes: usize,
}

impl Limits {
    /// Limits of one batch (contract 3).
    pub const BATCH: Self = Self {
        sent_bytes: BATCH_SENT_BYTES_MAX,
        unpacked_bytes: BATCH_UNPACKED_BYTES_MAX,
    };
    /// Limits of an NDJSON request (contract 9).
    pub const NDJSON: Self = Self {
        sent_bytes: NDJSON_SENT_BYTES_MAX,
        unpacked_bytes: NDJSON_UNPACKED_BYTES_MAX,
    };
    /// Limits of other requests.
    pub const REQUEST: Self = Self {
        sent_bytes: REQUEST_BODY_BYTES_MAX,
        unpacked_bytes: REQUEST_BODY_BYTES_MAX,
    };
}

/// Limits on the duration of a body.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// The maximum time without progress.
    pub silence: Duration,
    /// The maximum time until the body is complete. Time in which the service does not read does
    /// not count.
    pub whole: Duration,
}

/// The account of one body: counts its bytes and orders large bodies.
pub trait Account {
    /// Counts bytes that have arrived or were unpacked.
    ///
    /// # Errors
    ///
    /// Returns 429 or 503 if the tenant or the node has too many bytes in flight.
    fn grow(&mut self, bytes: usize) -> Result<(), Problem>;

    /// Waits for the permit to unpack a body that unpacks to more than
    /// [`LARGE_BODY_BYTES`](porchlight_schema::limits::LARGE_BODY_BYTES).
    ///
    /// # Errors
    ///
    /// Returns 429 if no permit was free in time.
    fn begin_large(&mut self) -> impl Future<Output = Result<(), Problem>>;
}

/// An account that only counts.
impl<F: FnMut(usize) -> Result<(), Problem>> Account for F {
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self(bytes)
    }

    async fn begin_large(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}

/// An unpacked body. A large one is in pieces, and making it contiguous takes time.
#[derive(Debug)]
pub struct Body {
    pieces: Vec<Vec<u8>>,
    /// The whole body, if there are no pieces.
    whole: Bytes,
}

impl Body {
    fn of_pieces(pieces: Vec<Vec<u8>>) -> Self {
        Self {
            pieces,
            whole: Bytes::new(),
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum::<usize>() + self.whole.len()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the body as one buffer.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        if self.pieces.is_empty() {
            self.whole.clone()
        } else {
            self.pieces.concat().into()
        }
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Self {
        Self {
            pieces: Vec::new(),
            whole,
        }
    }
}

/// The checked description of a body in its request's head.
#[derive(Debug, Clone, Copy)]
pub struct Announced {
    coding: Coding,
    length: Option<usize>,
    limits: Limits,
}

/// Checks the head of a request with a JSON body: media type, coding, announced length.
///
/// # Errors
///
/// Returns 415, then 413.
pub fn json(headers: &HeaderMap, limits: Limits) -> Result<Announced, Problem> {
    media(headers, "application/json", limits)
}

/// Checks the head of a request whose body must have one media type: type, coding, announced
/// length.
///
/// # Errors
///
/// Returns 415, then 413.
pub fn media(
    headers: &HeaderMap,
    media: &'static str,
    limits: Limits,
) -> Result<Announced, Problem> {
    if !is_media(headers, media) {
        let problem = Problem::new(
            Code::UnsupportedMediaType,
            format!("The body must be {media} in UTF-8."),
        );
        return Err(problem.with_header(ACCEPT, HeaderValue::from_static(media)));
    }
    announced(headers, limits)
}

/// Checks the coding and the announced length of a body of any media type.
///
/// # Errors
///
/// Returns 415, then 413.
pub fn announced(headers: &HeaderMap, limits: Limits) -> Result<Announced, Problem> {
    let mut codings = headers.get_all(CONTENT_ENCODING);
    let coding = match (codings.next(), codings.next()) {
        (None, _) => Some(Coding::Identity),
        (Some(value), None) => value.to_str().ok().and_then(Coding::named),
        _ => None,
    };
    let coding = coding.ok_or_else(|| {
        let problem = Problem::new(
            Code::UnsupportedEncoding,
            "Only one content encoding is accepted: gzip, zstd or identity.",
        );
        problem.with_header(
            ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, zstd, identity"),
        )
    })?;
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok());
    if length.is_some_and(|length: usize| length > limits.sent_bytes) {
        return Err(too_large(limits.sent_bytes, "as sent"));
    }
    Ok(Announced {
        coding,
        length,
        limits,
    })
}

impl Announced {
    /// Reads the body and unpacks it. The account receives the length of each piece that has
    /// arrived or was unpacked, before the next one is read: the length that the head announces
    /// counts for nothing.
    ///
    /// # Errors
    ///
    /// Returns 408, 413, 400, or the error of the account.
    pub async fn read<S>(
        self,
        payload: S,
        deadlines: Deadlines,
        mut account: impl Account,
    ) -> Result<Body, Problem>
    where
        S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
    {
        let sent = self.read_sent(payload, deadlines, &mut account).await?;
        unpack::unpack(self.coding, sent, self.limits.unpacked_bytes, account).await
    }

    async fn read_sent<S>(
        &self,
        payload: S,
        deadlines: Deadlines,
        account: &mut impl Account,
    ) -> Result<Bytes, Problem>
    where
        S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
    {
        let mut chunks = Chunks::new(payload, deadlines);
        let Some(first) = chunks.next().await? else {
            return Ok(Bytes::new());
        };
        account.grow(first.len())?;
        // The usual case: the body is complete, and nothing is copied.
        if self.length == Some(first.len()) {
            return Ok(first);
        }
        // The buffer doubles as the body arrives: its capacity is at most twice the received bytes.
        let mut body = BytesMut::with_capacity(2 * first.len());
        let mut next = Some(first);
        while let Some(chunk) = next {
            if body.len() + chunk.len() > self.limits.sent_bytes {
                return Err(too_large(self.limits.sent_bytes, "as sent"));
            }
            body.extend_from_slice(&chunk);
            next = chunks.next().await?;
            if let Some(chunk) = &next {
                account.grow(chunk.len())?;
            }
        }
        Ok(body.freeze())
    }
}

/// A payload with deadlines. Timers are created only when the code has to wait.
struct Chunks<S> {
    payload: S,
    deadlines: Deadlines,
    has_waited: bool,
    /// The time for which the code has waited for the sender.
    waited: Duration,
}

/// Adds the time until it is dropped, also if the future that waits is dropped.
struct Waiting<'w> {
    since: Instant,
    waited: &'w mut Duration,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        *self.waited += self.since.elapsed();
    }
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Chunks<S> {
    fn new(payload: S, deadlines: Deadlines) -> Self {
        Self {
            payload,
            deadlines,
            has_waited: false,
            waited: Duration::ZERO,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let mut item = self.payload.next().now_or_never();
        // The framework passes the body after its first call of the handler, so usually there is
        // nothing to wait for.
        if item.is_none() && !self.has_waited {
            self.has_waited = true;
            yield_to_payload().await;
            item = self.payload.next().now_or_never();
        }
        let item = match item {
            Some(item) => item,
            None => {
                let left = self.deadlines.whole.saturating_sub(self.waited);
                let patience = left.min(self.deadlines.silence);
                let _waiting = Waiting {
                    since: Instant::now(),
                    waited: &mut self.waited,
                };
                tokio::time::timeout(patience, self.payload.next())
                    .await
                    .map_err(|_| too_slow(patience == left))?
            }
        };
        item.transpose().map_err(|error| match error {
            PayloadError::Overflow => Problem::new(Code::BodyTooLarge, "The body is too large."),
            PayloadError::EncodingCorrupted => {
                Problem::new(Code::MalformedBody, "The chunks of the body are malformed.")
            }
            _ => Problem::new(Code::MalformedBody, "The body ended too early."),
        })
    }
}

fn too_slow(is_whole: bool) -> Problem {
    let detail = if is_whole {
        "The body did not arrive in time."
    } else {
        "The body stopped arriving for too long."
    };
    Problem::new(Code::BodyTimeout, detail)
}

fn too_large(bytes_max: usize, when: &str) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("The body may have at most {bytes_max} bytes {when}."),
    )
}

/// Returns whether there is exactly one `Content-Type` and it is JSON, in UTF-8 if it names a
/// charset.
pub fn is_json(headers: &HeaderMap) -> bool {
    is_media(headers, "application/json")
}

/// Returns whether there is exactly one `Content-Type` and it is `media`, in UTF-8 if it names a
/// charset.
pub fn is_media(headers: &HeaderMap, media: &str) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE);
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    if value == media {
        return true;
    }
    let Ok(text) = value.to_str() else {
        return false;
    };
    let mut parts = text.split(';');
    let is_media = parts
        .next()
        .is_some_and(|given| given.trim().eq_ignore_ascii_case(media));
    is_media
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        })
}

#[cfg(test)]
mod tests;
