//! Server-sent events of the pages that follow live sessions: the limit on open streams, the
//! response and the check of the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::web::Bytes;
use futures_util::Stream;
use porchlight_http::State;
use porchlight_http::problem::{Code, Problem};

/// The maximum number of streams per node; each holds a connection and polls at least every two
/// seconds.
const STREAMS_MAX: usize = 512;

/// The number of open streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams(Arc<AtomicUsize>);

/// The permit of one open stream, which counts until it is dropped.
pub(crate) struct StreamPermit(Arc<AtomicUsize>);

impl Streams {
    /// Returns a permit for one more stream.
    ///
    /// # Errors
    ///
    /// Returns `overloaded` while the maximum number of streams is open.
    pub(crate) fn open(&self) -> Result<StreamPermit, Problem> {
        let permit = StreamPermit(Arc::clone(&self.0));
        if self.0.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX {
            return Ok(permit);
        }
        Err(Problem::new(
            Code::Overloaded,
            "Too many live pages are open. Close some, and reload.",
        ))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the response that sends `messages` as server-sent events.
pub(crate) fn event_stream(
    messages: impl Stream<Item = Result<Bytes, Problem>> + 'static,
) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header(("x-accel-buffering", "no"))
        .streaming(messages)
}

/// Returns whether the key that opened a stream is still valid. A failed lookup counts as valid, so
/// that an outage of the store does not close the streams.
pub(crate) async fn is_key_valid(state: &State, key_hash: [u8; 32]) -> bool {
    let key = state.auth.signed_in(key_hash, state.service.now()).await;
    !key.is_err_and(|problem| problem.code() == Code::CredentialInvalid)
}
