//! The state of the console.

use std::fmt;
use std::sync::Arc;

use porchlight_actors::turns::Turns;
use porchlight_http::client_address::TrustedProxies;
use porchlight_keys::keyring::SecretKeys;
use porchlight_map::StreetMap;
use porchlight_schema::limits::{
    MAP_SQUARES_PAINTED_AT_ONCE_MAX, ORGANIZATION_MAP_SQUARES_WAITING_MAX,
};
use porchlight_schema::time::TimestampMs;

use super::live_sessions::Boards;
use super::names::Names;
use super::session_cookie::Tickets;
use super::streams::Streams;
use super::throttle::Throttle;

/// The maximum number of sessions whose samples a node reads for pages at the same time; one of each
/// organization.
const TRACES_READ_AT_ONCE_MAX: usize = 2;
/// The maximum number of an organization's pages that read samples or wait for their turn; further
/// ones are answered with 503.
const ORGANIZATION_TRACES_WAITING_MAX: usize = 64;

/// The console's own state, in addition to the API's.
pub struct Console {
    pub(crate) tickets: Tickets,
    pub(crate) throttle: Throttle,
    pub(crate) proxies: TrustedProxies,
    pub(crate) names: Names,
    pub(crate) streams: Streams,
    pub(crate) map: Option<Arc<StreetMap>>,
    /// The turns of organizations to paint squares of the map.
    pub(crate) paintings: Turns,
    /// The turns of organizations to read the samples of a session for its page.
    pub(crate) traces: Turns,
    pub(crate) boards: Boards,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    /// Creates a console whose tickets are sealed under keys derived from `secrets`.
    #[must_use]
    pub fn new(secrets: &SecretKeys) -> Self {
        Self {
            tickets: Tickets::new(secrets),
            throttle: Throttle::new(),
            proxies: TrustedProxies::default(),
            names: Names::default(),
            streams: Streams::default(),
            map: None,
            paintings: Turns::new(
                MAP_SQUARES_PAINTED_AT_ONCE_MAX,
                ORGANIZATION_MAP_SQUARES_WAITING_MAX,
            ),
            traces: Turns::new(TRACES_READ_AT_ONCE_MAX, ORGANIZATION_TRACES_WAITING_MAX),
            boards: Boards::default(),
        }
    }

    /// Trusts the headers of these proxies.
    #[must_use]
    pub fn with_trusted_proxies(mut self, proxies: TrustedProxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Shows sessions on this street map, if there is one.
    #[must_use]
    pub fn with_map(mut self, map: Option<Arc<StreetMap>>) -> Self {
        self.map = map;
        self
    }

    /// Removes outdated state. Called periodically.
    pub fn clean_up(&self, now: TimestampMs) {
        self.tickets.clean_up(now);
        self.throttle.clean_up();
        self.boards.clean_up(now);
    }
}
