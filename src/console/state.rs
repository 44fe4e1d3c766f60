//! What the console keeps.

use std::fmt;

use porchlight_keys::keyring::SecretKeys;
use porchlight_schema::time::TimestampMs;

use super::names::Names;
use super::streams::Streams;
use super::throttle::Throttle;
use super::ticket::Tickets;

/// What the console keeps beside the API's state.
pub struct Console {
    pub(crate) tickets: Tickets,
    pub(crate) throttle: Throttle,
    pub(crate) names: Names,
    pub(crate) streams: Streams,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    /// A console whose tickets are sealed under keys derived from these.
    #[must_use]
    pub fn new(secrets: &SecretKeys) -> Self {
        Self {
            tickets: Tickets::new(secrets),
            throttle: Throttle::new(),
            names: Names::default(),
            streams: Streams::default(),
        }
    }

    /// Lets go of what is too old to matter. Called from time to time.
    pub fn tidy(&self, now: TimestampMs) {
        self.tickets.tidy(now);
        self.throttle.tidy();
    }
}
