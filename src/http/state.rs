//! The state shared by all handlers.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::web::Data;
use actix_web::{HttpMessage, HttpRequest};
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_keys::{KeyAdmin, Tokens};
use porchlight_observe::Task;
use porchlight_observe::restarts::Restarts;
use porchlight_ports::Keys;
use porchlight_schema::limits::{BODY_SILENCE_MS_MAX, BODY_WHOLE_MS_MAX, KEY_REMEMBERED_MS_MAX};

use super::auth::{Authenticator, Caller};
use super::body::Deadlines;
use super::connections::StreamLimiter;
use super::cors::Origins;
use super::links::SignedLinks;
use super::problem::Problem;

/// The interval at which the service removes the rate-limit state of idle callers.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60);

/// Settings shared by all requests.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Requests per second of one key or session token; 0: no limit.
    pub rate_limit_per_second: u32,
    /// Limits on the duration of a body.
    pub body_deadlines: Deadlines,
    /// The time for which a key lookup is cached.
    pub key_remembered: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_limit_per_second: porchlight_schema::limits::KEY_REQUESTS_PER_SECOND_DEFAULT,
            body_deadlines: Deadlines {
                silence: Duration::from_millis(BODY_SILENCE_MS_MAX),
                whole: Duration::from_millis(BODY_WHOLE_MS_MAX),
            },
            key_remembered: Duration::from_millis(KEY_REMEMBERED_MS_MAX),
        }
    }
}

/// The state of every handler, one for all workers in a [`Data`].
#[derive(Debug)]
pub struct State {
    /// The service behind the API.
    pub service: Service,
    /// The administration of API keys.
    pub key_admin: KeyAdmin,
    /// The authenticator of requests.
    pub auth: Authenticator,
    /// The settings of the HTTP layer.
    pub config: Settings,
    /// The webhooks, if this process sends any.
    pub webhooks: Option<Webhooks>,
    /// Limits on long-lived connections.
    pub connections: StreamLimiter,
    /// The signed links, if this process creates any.
    pub links: Option<SignedLinks>,
    /// The other web origins whose pages may call the paths for phones.
    pub cors: Origins,
}

impl State {
    /// Creates the state over `service`; `keys` finds API keys, `tokens` makes and checks session
    /// tokens.
    #[must_use]
    pub fn new(service: Service, keys: Arc<dyn Keys>, tokens: Tokens, config: Settings) -> Self {
        let auth = Authenticator::new(
            Arc::clone(&keys),
            tokens,
            config.rate_limit_per_second,
            config.key_remembered,
        );
        Self {
            service,
            key_admin: KeyAdmin::new(keys),
            auth,
            config,
            webhooks: None,
            connections: StreamLimiter::default(),
            links: None,
            cors: Origins::default(),
        }
    }

    /// Adds webhooks to the state.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// Adds the signed links.
    #[must_use]
    pub fn with_links(mut self, links: SignedLinks) -> Self {
        self.links = Some(links);
        self
    }

    /// Lets pages of these origins call the paths for phones.
    #[must_use]
    pub fn with_cors(mut self, origins: Origins) -> Self {
        self.cors = origins;
        self
    }

    /// Returns the caller that presents the credential in these headers. The request is not counted
    /// against its rate.
    ///
    /// # Errors
    ///
    /// Returns 401 or 503.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        self.auth.identify(headers, self.service.now()).await
    }

    /// Counts a request against the caller's rate. The answer reports the remaining rate.
    ///
    /// # Errors
    ///
    /// Returns 429: the rate is used up.
    pub(crate) fn count(&self, caller: &Caller, http: &HttpRequest) -> Result<(), Problem> {
        let limited = self.auth.count(caller);
        let remaining_rate = match &limited {
            Ok(remaining_rate) => *remaining_rate,
            Err(limited) => Some(limited.remaining_rate),
        };
        if let Some(remaining_rate) = remaining_rate {
            http.extensions_mut().insert(remaining_rate);
        }
        limited.map(drop).map_err(|limited| limited.problem)
    }
}

/// Removes rate-limit state of idle callers forever. Spawn it once.
pub async fn run_cleanup(state: Data<State>) {
    let mut restarts = Restarts::new(Task::Cleanup);
    loop {
        tokio::time::sleep(CLEANUP_INTERVAL).await;
        let round = async {
            state.auth.clean_up();
            state.auth.write_uses().await;
        };
        let _cleaned = restarts.run(round).await;
    }
}
