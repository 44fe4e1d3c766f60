//! Privacy requests: the section `[privacy]`.

use porchlight_schema::limits::{PRIVACY_DELAY_MS_DEFAULT, PRIVACY_DELAY_MS_MAX};
use serde::{Deserialize, Serialize};

use super::{ConfigError, HumanDuration};

/// The settings of privacy requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Privacy {
    /// The time for which an erasure or an access request stays pending and can be cancelled; at
    /// most [`PRIVACY_DELAY_MS_MAX`].
    pub delay: HumanDuration,
}

impl Default for Privacy {
    fn default() -> Self {
        Self {
            delay: HumanDuration::from_millis(PRIVACY_DELAY_MS_DEFAULT),
        }
    }
}

impl Privacy {
    /// Validates the section.
    pub(super) fn check(self) -> Result<(), ConfigError> {
        if self.delay.as_millis() > PRIVACY_DELAY_MS_MAX {
            let most = HumanDuration::from_millis(PRIVACY_DELAY_MS_MAX);
            let detail =
                format!("must be at most {most}: nothing is erased while a request is pending");
            return Err(ConfigError::invalid("privacy.delay", detail));
        }
        Ok(())
    }
}
