//! Privacy requests: the section `[privacy]`.

use porchlight_schema::limits::PRIVACY_DELAY_MS_DEFAULT;
use serde::{Deserialize, Serialize};

use super::HumanDuration;

/// How privacy requests are performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Privacy {
    /// How long an erasure or a request for access stays pending, and can be cancelled.
    pub delay: HumanDuration,
}

impl Default for Privacy {
    fn default() -> Self {
        Self {
            delay: HumanDuration::from_millis(PRIVACY_DELAY_MS_DEFAULT),
        }
    }
}
