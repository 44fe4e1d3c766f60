//! The state from which every handler answers.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Data;
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_keys::{KeyDesk, SessionTokens};
use porchlight_ports::Keys;
use porchlight_schema::limits::{BODY_SILENCE_MS_MAX, BODY_WHOLE_MS_MAX, KEY_REMEMBERED_MS_MAX};

use super::auth::Authenticator;
use super::body::Deadlines;
use super::links::PathImages;
use super::seats::StreamSeats;

/// How often what is remembered of silent callers is let go.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The settings that all requests share.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Requests of one key (or session token), a second; 0: no limit.
    pub rate_limit_per_second: u32,
    /// How slow a body may be.
    pub body_deadlines: Deadlines,
    /// How long a key's look-up is remembered.
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

/// What every handler may use. One for all workers, in a [`Data`].
#[derive(Debug)]
pub struct State {
    /// The service.
    pub service: Service,
    /// Makes, lists and revokes API keys.
    pub desk: KeyDesk,
    /// Finds the caller of a request.
    pub auth: Authenticator,
    /// The settings.
    pub config: Settings,
    /// The webhooks, if this process sends them.
    pub webhooks: Option<Webhooks>,
    /// Places for connections that stay.
    pub seats: StreamSeats,
    /// The links to path images, if this process signs them.
    pub images: Option<PathImages>,
}

impl State {
    /// The state over `service`; `keys` finds API keys, `tokens` makes and checks session tokens.
    #[must_use]
    pub fn new(
        service: Service,
        keys: Arc<dyn Keys>,
        tokens: SessionTokens,
        config: Settings,
    ) -> Self {
        let auth = Authenticator::new(
            Arc::clone(&keys),
            tokens,
            config.rate_limit_per_second,
            config.key_remembered,
        );
        Self {
            service,
            desk: KeyDesk::new(keys),
            auth,
            config,
            webhooks: None,
            seats: StreamSeats::default(),
            images: None,
        }
    }

    /// The same, with webhooks to configure.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// The same, with links to path images.
    #[must_use]
    pub fn with_images(mut self, images: PathImages) -> Self {
        self.images = Some(images);
        self
    }
}

/// Forgets silent callers, for ever. Spawn it once.
pub async fn keep_tidy(state: Data<State>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        state.auth.tidy();
        state.auth.write_uses().await;
    }
}
