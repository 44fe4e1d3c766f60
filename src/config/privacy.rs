//! Privacy requests: the section `[privacy]`.

use porchlight_schema::limits::PRIVACY_DELAY_MS_DEFAULT;
use serde::{Deserialize, Serialize};

use super::HumanDuration;

/// The settings of privacy requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Privacy {
    /// The time for which an erasure or an access request stays pending and can be cancelled.
    pub delay: HumanDuration,
}

impl Default for Privacy {
    fn default() -> Self {
        Self {
            delay: HumanDuration::from_millis(PRIVACY_DELAY_MS_DEFAULT),
        }
    }
}
