//! Problems for legal holds that are refused.

use porchlight_actors::service::HoldRefused;
use porchlight_schema::limits::RETRY_AFTER_SEC;

use crate::problem::{Code, Problem, privacy_limit_reached, session_not_found};

impl From<HoldRefused> for Problem {
    fn from(refused: HoldRefused) -> Self {
        match refused {
            HoldRefused::Erased => session_not_found(),
            HoldRefused::NoRoom => privacy_limit_reached(),
            HoldRefused::Removing => Self::new(
                Code::Overloaded,
                "Retention is removing data of the session. Repeat the request to learn whether the session stays.",
            )
            .retry_after_sec(RETRY_AFTER_SEC),
        }
    }
}
