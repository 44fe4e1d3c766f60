//! What sends a webhook request, behind its guards.

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_core::webhook::{AttemptDetails, Cause};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

/// One request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundRequest {
    /// Whose request it is: what all tenants use is shared out by tenant.
    pub tenant: Tenant,
    /// Where to; it is checked again.
    pub url: Arc<str>,
    /// Headers beside those that the transport sets itself (`host`, `content-type`, `content-length`, `user-agent`).
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Arc<str>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Until the head came, or the failure.
    pub duration_ms: u32,
    /// The receiver's status, if it answered.
    pub status_code: Option<u16>,
    /// None: it succeeded.
    pub cause: Option<Cause>,
    /// The beginning of the answer's body, with what is not UTF-8 replaced.
    pub response: Option<String>,
    /// When the first certificate of the receiver's chain ends, if that is known.
    pub certificate_ends_at: Option<TimestampMs>,
    /// What else is known of the attempt.
    pub details: AttemptDetails,
}

/// Why a URL is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// It can't be read, or is too long.
    #[error("not an absolute URL of at most 2048 characters without spaces or control characters")]
    Syntax,
    /// It is not `https`.
    #[error("the scheme must be https")]
    Scheme,
    /// It carries a user name or a password.
    #[error("the URL must not carry a user name or a password")]
    UserInfo,
    /// It carries a fragment.
    #[error("the URL must not carry a fragment")]
    Fragment,
    /// Its host ends with a dot.
    #[error("the host must not end with a dot")]
    TrailingDot,
    /// Its host is an address, or leads to one, that is not public.
    #[error("the host is, or leads to, an address that is not allowed")]
    Address,
    /// Its host does not resolve.
    #[error("the host does not resolve")]
    Unresolved,
    /// Its host's certificate does not verify.
    #[error("the host's certificate does not verify")]
    Certificate,
    /// It could not be checked: our own fault.
    #[error("the URL cannot be checked at the moment")]
    Unavailable,
}

/// What sends.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends once, and answers within [`porchlight_schema::limits::ATTEMPT_MS_MAX`] of beginning.
    async fn send(&self, request: OutboundRequest) -> Answer;

    /// Whether this URL may be registered: its form, its addresses, and the certificate if the host answers within
    /// [`porchlight_schema::limits::PROBE_MS_MAX`]. Sends no request.
    ///
    /// # Errors
    ///
    /// What is wrong with it. A host that resolves and does not answer is not wrong.
    async fn probe(&self, tenant: Tenant, url: &str) -> Result<(), UrlRefused>;
}

/// Used by what shows when a certificate ends soon.
#[must_use]
pub fn ends_soon(ends_at: TimestampMs, now: TimestampMs) -> bool {
    /// Fourteen days.
    const SOON_MS: i64 = 14 * 24 * 3600 * 1000;
    ends_at.since_ms(now) < SOON_MS
}
