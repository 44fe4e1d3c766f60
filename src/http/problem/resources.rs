//! Problems for requests whose object does not exist, whose limit is reached, or whose object is
//! not in the required state.

use porchlight_actors::service::{ReviewRefused, ShareExceeded};
use porchlight_observe::shares::Share;
use porchlight_ports::{RetryOutcome, RetryRefusal};
use porchlight_schema::limits::{
    DELIVERY_ATTEMPTS_MAX, PRIVACY_MARKS_MAX, PRIVACY_OPEN_REQUESTS_MAX, REVIEW_NOTE_CHARS_MAX,
    TEXT_CHARS_MAX,
};

use super::{Code, Problem};

/// Returns the problem for a tenant that has used up one of its shares of this node: 429 with
/// `Retry-After`, and a code that names the share.
#[must_use]
pub fn share_exceeded(exceeded: ShareExceeded) -> Problem {
    let (code, detail) = match exceeded.share {
        Share::InFlightBytes => (
            Code::TenantInFlightBytes,
            "Your organization has too many request bytes in flight.",
        ),
        Share::Requests => (
            Code::TenantRequests,
            "Your organization has too many requests in flight.",
        ),
        Share::Sockets => (
            Code::TenantSockets,
            "Your organization has too many open WebSockets.",
        ),
        Share::EventStreams => (
            Code::TenantEventStreams,
            "Your organization has too many open event streams.",
        ),
        Share::LiveSessions => (
            Code::TenantLiveSessions,
            "Your organization has too many sessions in progress.",
        ),
        Share::Lists => (
            Code::TenantLists,
            "Your organization reads too many lists at the same time.",
        ),
        Share::SessionStarts => (
            Code::TenantSessionStarts,
            "Your organization starts sessions too fast.",
        ),
        Share::PodChanges => (
            Code::TenantPodChanges,
            "Your organization replaces PoDs of completed sessions too fast.",
        ),
        Share::StoredBytes => (
            Code::TenantStoredBytes,
            "Your organization stores telemetry too fast.",
        ),
    };
    Problem::new(code, detail).retry_after_sec(exceeded.retry_after_sec)
}

/// Returns the problem for a session that does not exist or is invisible to the caller.
#[must_use]
pub fn session_not_found() -> Problem {
    Problem::new(Code::SessionNotFound, "The session does not exist.")
}

/// Returns the problem for a privacy request or a legal hold beyond the limits of an organization.
#[must_use]
pub fn privacy_limit_reached() -> Problem {
    let detail = format!(
        "At most {PRIVACY_OPEN_REQUESTS_MAX} privacy requests may be open, and at most {PRIVACY_MARKS_MAX} subjects restricted, suppressed or held."
    );
    Problem::new(Code::PrivacyLimit, detail)
}

/// Returns the problem for a session that a privacy request has frozen.
#[must_use]
pub fn restricted() -> Problem {
    Problem::new(
        Code::Restricted,
        "A privacy request has frozen the session, its courier or its delivery until it is released.",
    )
}

/// Returns the problem for a privacy request that does not exist or is invisible to the caller.
#[must_use]
pub fn privacy_request_not_found() -> Problem {
    Problem::new(
        Code::PrivacyRequestNotFound,
        "The privacy request does not exist.",
    )
}

/// Returns the problem for a webhook delivery that does not exist or is invisible to the caller.
#[must_use]
pub fn delivery_not_found() -> Problem {
    Problem::new(Code::DeliveryNotFound, "The delivery does not exist.")
}

/// Succeeds if the manual retry was requested, or returns the problem.
///
/// # Errors
///
/// Returns 404, or 409 for a delivery that is restricted or cannot be retried.
pub fn check_retry(outcome: RetryOutcome) -> Result<(), Problem> {
    match outcome {
        RetryOutcome::Requested => Ok(()),
        RetryOutcome::Unknown => Err(delivery_not_found()),
        RetryOutcome::Restricted => Err(restricted()),
        RetryOutcome::Refused(refusal) => Err(not_retryable(refusal)),
    }
}

fn not_retryable(refusal: RetryRefusal) -> Problem {
    let reason = match refusal {
        RetryRefusal::Superseded => "a newer insight of the session replaced it".to_owned(),
        RetryRefusal::WebhookDeleted => "its webhook was deleted while it waited".to_owned(),
        RetryRefusal::AttemptsUsed => format!("it has had {DELIVERY_ATTEMPTS_MAX} attempts"),
        RetryRefusal::BodyLost => "its payload is missing or damaged".to_owned(),
        RetryRefusal::NoWebhook => "no webhook is registered".to_owned(),
    };
    let detail = format!("The delivery cannot be retried: {reason}.");
    Problem::new(Code::NotRetryable, detail)
}

/// Returns the problem for a session without scores.
#[must_use]
pub fn not_scored() -> Problem {
    Problem::new(
        Code::NotScored,
        "The session has no scores: it is not scored yet, or scoring failed.",
    )
}

impl From<ReviewRefused> for Problem {
    fn from(refused: ReviewRefused) -> Self {
        match refused {
            ReviewRefused::LongNote => Self::new(
                Code::InvalidParameter,
                format!("The note has more than {REVIEW_NOTE_CHARS_MAX} characters."),
            ),
            ReviewRefused::LongName => Self::new(
                Code::InvalidParameter,
                format!("The name of the reviewer has more than {TEXT_CHARS_MAX} characters."),
            ),
            ReviewRefused::Restricted => restricted(),
            ReviewRefused::NoSession => session_not_found(),
            ReviewRefused::Store(error) => error.into(),
        }
    }
}
