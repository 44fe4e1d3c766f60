//! Sends webhook requests, behind guards against forbidden addresses.

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_core::webhook::{AttemptDetails, Cause};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

/// A request to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundRequest {
    /// The tenant that sends the request. All tenants share the transport's permits.
    pub tenant: Tenant,
    /// The URL, which is checked again.
    pub url: Arc<str>,
    /// The headers in addition to the headers that the transport sets (`host`, `content-type`,
    /// `content-length`, `user-agent`).
    pub headers: Vec<(&'static str, String)>,
    /// The request body.
    pub body: Arc<str>,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The time in milliseconds for which the request waited for a permit before it began.
    pub waited_ms: u32,
    /// Time until the answer's head or the failure, in milliseconds.
    pub duration_ms: u32,
    /// The receiver's status code, if it answered.
    pub status_code: Option<u16>,
    /// The cause of the failure; `None` if the attempt succeeded.
    pub cause: Option<Cause>,
    /// The beginning of the answer's body, of at most
    /// [`porchlight_schema::limits::ANSWER_KEPT_BYTES_MAX`] bytes. Invalid UTF-8 is replaced, which
    /// may triple the length of the text.
    pub response: Option<String>,
    /// The time at which the first certificate of the receiver's chain expires, if known.
    pub certificate_ends_at: Option<TimestampMs>,
    /// Further details of the attempt.
    pub details: AttemptDetails,
}

/// The reason why a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// The URL cannot be parsed or is too long.
    #[error(
        "not an absolute URL of at most 2048 characters without spaces, backslashes or control characters"
    )]
    Syntax,
    /// The host of the URL is neither a name nor an address.
    #[error("the host is not a valid name or address")]
    Host,
    /// The port of the URL is 0, too large, or not a number.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// The scheme of the URL is not `https`.
    #[error("the scheme must be https")]
    Scheme,
    /// The URL contains a user name or a password.
    #[error("the URL must not carry a user name or a password")]
    UserInfo,
    /// The URL contains a fragment.
    #[error("the URL must not carry a fragment")]
    Fragment,
    /// The host of the URL ends with a dot.
    #[error("the host must not end with a dot")]
    TrailingDot,
    /// The host is, or resolves to, an address that is not public.
    #[error("the host is, or leads to, an address that is not allowed")]
    Address,
    /// The host does not resolve.
    #[error("the host does not resolve")]
    Unresolved,
    /// The certificate of the host does not verify, with the reason if it is a common one.
    #[error("{}", .0.unwrap_or("the host's certificate does not verify"))]
    Certificate(Option<&'static str>),
    /// An error of the service prevented the check of the URL.
    #[error("the URL cannot be checked at the moment")]
    Unavailable,
}

/// The function that returns whether a request that has waited for its permit may still be sent.
pub type MayBegin = Box<dyn FnOnce() -> bool + Send>;

/// Sends requests to webhooks.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request once, and returns the result within
    /// [`porchlight_schema::limits::ATTEMPT_MS_MAX`] after the wait for a permit.
    async fn send(&self, request: OutboundRequest) -> Answer {
        self.send_if(request, Box::new(|| true)).await
    }

    /// Sends a request like [`Self::send`], if `may_begin` returns `true` once the request has its
    /// permit; the cause is `internal` otherwise. The request ends when the caller stops waiting.
    async fn send_if(&self, request: OutboundRequest, may_begin: MayBegin) -> Answer;

    /// Checks whether a URL may be registered: its form, its addresses, and its certificate if the
    /// host answers within [`porchlight_schema::limits::PROBE_MS_MAX`]. It sends no request.
    ///
    /// # Errors
    ///
    /// Returns the reason for which the URL is refused. A host that resolves and does not answer is
    /// acceptable.
    async fn probe(&self, tenant: Tenant, url: &str) -> Result<(), UrlRefused>;
}

/// Returns whether a certificate expires soon.
#[must_use]
pub fn ends_soon(ends_at: TimestampMs, now: TimestampMs) -> bool {
    /// The remaining validity below which a certificate expires soon: 14 days.
    const SOON_MS: i64 = 14 * 24 * 3600 * 1000;
    ends_at.since_ms(now) < SOON_MS
}
