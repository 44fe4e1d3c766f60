//! Problems for errors of webhooks.

use porchlight_actors::webhook::{ConfigureError, TestError};
use porchlight_observe::error_text;
use porchlight_ports::UrlRefused;
use porchlight_schema::limits::RETRY_AFTER_SEC;

use super::{Code, Problem};

fn not_configured() -> Problem {
    Problem::new(Code::WebhookNotFound, "No webhook is registered.")
}

impl From<ConfigureError> for Problem {
    fn from(error: ConfigureError) -> Self {
        match error {
            ConfigureError::None => not_configured(),
            ConfigureError::Exists => Self::new(
                Code::WebhookExists,
                "A webhook already exists; use PUT to change it.",
            ),
            ConfigureError::OverlapRuns => Self::new(
                Code::OverlapRunning,
                "The previous secret is still valid. DELETE /v1/webhooks/previous-secret ends it; a rotation with overlapSec 0 \
                 ends every older secret.",
            ),
            ConfigureError::NoOverlap => Self::new(
                Code::PreviousSecretNotFound,
                "No previous secret is valid: no overlap is in progress.",
            ),
            ConfigureError::KeyReused => Self::new(
                Code::IdempotencyKeyReused,
                "This Idempotency-Key was used with another body.",
            ),
            ConfigureError::TooManyRemembered => Self::new(
                Code::RateLimited,
                "Too many secrets were created with an Idempotency-Key within 24 hours; nothing was changed.",
            ),
            ConfigureError::Busy => Self::new(
                Code::Conflict,
                "Other requests of your organization are checking the URL of a webhook; this request changed nothing. Repeat it.",
            )
            .retry_after_sec(RETRY_AFTER_SEC),
            ConfigureError::Contended => Self::new(
                Code::Conflict,
                "The webhook was changed by another request; this request changed nothing.",
            )
            .retry_after_sec(RETRY_AFTER_SEC),
            ConfigureError::Url(UrlRefused::Unavailable) => Self::new(
                Code::Overloaded,
                "The URL cannot be checked at the moment; nothing was changed.",
            ),
            ConfigureError::Url(refused) => Self::invalid_field("/url", refused.to_string()),
            ConfigureError::Store(error) => error.into(),
            ConfigureError::Seal => Self::internal(error),
        }
    }
}

impl From<TestError> for Problem {
    fn from(error: TestError) -> Self {
        match error {
            TestError::NoEndpoint => not_configured(),
            TestError::Busy => Self::new(
                Code::TenantRequests,
                "Your organization has too many test events in flight.",
            ),
            TestError::Store(error) => error.into(),
            TestError::Secret | TestError::Sign(_) => Self::internal(error_text(&error)),
        }
    }
}
