//! How errors of webhooks are answered.

use porchlight_actors::webhook::{ConfigureError, TestError};
use porchlight_ports::UrlRefused;

use super::{Code, Problem};

fn not_configured() -> Problem {
    Problem::new(Code::WebhookNotFound, "There is no webhook.")
}

impl From<ConfigureError> for Problem {
    fn from(error: ConfigureError) -> Self {
        match error {
            ConfigureError::None => not_configured(),
            ConfigureError::Exists => Self::new(
                Code::WebhookExists,
                "There is a webhook already; PUT changes it.",
            ),
            ConfigureError::OverlapRuns => Self::new(
                Code::OverlapRunning,
                "The previous secret still signs; overlapSec 0 ends it now.",
            ),
            ConfigureError::Busy => Self::new(
                Code::RateLimited,
                "Too many URLs of yours are being checked; nothing was changed.",
            ),
            ConfigureError::Contended => Self::new(
                Code::Conflict,
                "The webhook was changed by others meanwhile; nothing was changed by this request.",
            ),
            ConfigureError::Url(UrlRefused::Unavailable) => Self::new(
                Code::Overloaded,
                "The URL can't be checked at the moment; nothing was changed.",
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
                Code::RateLimited,
                "Too many test events of yours are under way.",
            ),
            TestError::Store(error) => error.into(),
            TestError::Secret => Self::internal(error),
        }
    }
}
