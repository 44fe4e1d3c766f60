//! The public HTTP API (contract sections 1 to 5, 7 and 9): a file per resource, over the service.
//!
//! ```no_run
//! # use actix_web::{App, web, middleware::from_fn};
//! # fn build(state: web::Data<porchlight::api::ApiState>) {
//! use porchlight::api;
//! let app = App::new().wrap(from_fn(api::edge::edge)).configure(api::configure(state));
//! # let _ = app;
//! # }
//! ```
//!
//! **Order of checks.** Path (404) and method (405) are the routes'; credential (401), a key's rate (429), role (403),
//! the thing itself (404), `Accept` (406), media type and coding (415), announced size (413); for telemetry admission
//! (429, 503); then the body: size (413), deadlines (408), coding and syntax (400), content (422); then state (409).
//! Each handler reads as that list.
//!
//! **Errors.** A handler gives a [`problem::Problem`]; [`edge::edge`] adds the request's id to it and turns whatever else
//! went wrong into one, a panic too. So no error leaves in another shape.
//!
//! **HEAD** is answered wherever GET is (RFC 9110, section 9.3.2), except on the path of the WebSocket.

pub mod auth;
pub mod body;
pub mod call;
pub mod edge;
pub mod fields;
pub mod observe;
pub mod openapi;
pub mod path_image;
pub mod problem;
pub mod query;
pub mod request_id;
pub mod route;
pub mod seats;
pub mod serve;

mod docs;
mod events;
mod format;
mod insights;
mod ndjson;
mod pipeline;
mod sessions;
mod start;
mod stop;
mod straight;
mod telemetry;
mod turn;
mod waking;
mod webhooks;
mod websocket;

use std::time::Duration;

use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{HttpResponse, Resource};
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_observe::http::Route;
use porchlight_schema::limits::{BODY_SILENCE_MS_MAX, BODY_WHOLE_MS_MAX, KEY_REMEMBERED_MS_MAX};

use crate::console::{self, Console};
use crate::keys::SessionTokens;
use auth::Authenticator;
use body::Deadlines;
use path_image::PathImages;
use problem::Problem;
use route::{get, resource};
use seats::StreamSeats;
pub use serve::{Served, serve};

/// How often what is remembered of silent callers is let go.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// What of the API can be set.
#[derive(Debug, Clone, Copy)]
pub struct ApiConfig {
    /// Requests of one key (or session token), a second; 0: no limit.
    pub rate_limit_per_second: u32,
    /// How slow a body may be.
    pub body_deadlines: Deadlines,
    /// How long a key's look-up is remembered.
    pub key_remembered: Duration,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            rate_limit_per_second: 2_000,
            body_deadlines: Deadlines {
                silence: Duration::from_millis(BODY_SILENCE_MS_MAX),
                whole: Duration::from_millis(BODY_WHOLE_MS_MAX),
            },
            key_remembered: Duration::from_millis(KEY_REMEMBERED_MS_MAX),
        }
    }
}

/// What the API is made of. One for all workers, in a [`Data`].
#[derive(Debug)]
pub struct ApiState {
    /// The service.
    pub service: Service,
    /// Who asks.
    pub auth: Authenticator,
    /// How it was set.
    pub config: ApiConfig,
    /// Webhooks, where this process sends them.
    pub webhooks: Option<Webhooks>,
    /// Places for connections that stay.
    pub seats: StreamSeats,
    /// The management console, where this process serves it.
    pub console: Option<Console>,
    /// Path images, where this process signs links to them.
    pub images: Option<PathImages>,
}

impl ApiState {
    /// The API over `service`; `tokens` makes and checks session tokens.
    #[must_use]
    pub fn new(service: Service, tokens: SessionTokens, config: ApiConfig) -> Self {
        let store = std::sync::Arc::clone(service.store());
        let auth = Authenticator::new(
            store,
            tokens,
            config.rate_limit_per_second,
            config.key_remembered,
        );
        Self {
            service,
            auth,
            config,
            webhooks: None,
            seats: StreamSeats::default(),
            console: None,
            images: None,
        }
    }

    /// The same, with webhooks to configure.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// The same, with the console.
    #[must_use]
    pub fn with_console(mut self, console: Console) -> Self {
        self.console = Some(console);
        self
    }

    /// The same, with path images.
    #[must_use]
    pub fn with_images(mut self, images: PathImages) -> Self {
        self.images = Some(images);
        self
    }
}

/// Lets go of what is remembered of silent callers, for ever. Spawn it once.
pub async fn keep_tidy(state: Data<ApiState>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        state.auth.tidy();
        if let Some(console) = &state.console {
            console.tidy(state.service.now());
        }
    }
}

/// The routes of the API, and 404 for all others. The middleware [`edge::edge`] belongs around the application.
pub fn configure(state: Data<ApiState>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        if state.console.is_some() {
            console::configure(config);
        }
        config.app_data(state);
        for resource in resources().into_iter().chain(webhooks::resources()) {
            config.service(resource);
        }
        config.service(openapi::resource());
        for resource in path_image::resources().into_iter().chain(docs::resources()) {
            config.service(resource);
        }
        config.default_service(web::to(|| async {
            Err::<HttpResponse, _>(Problem::not_found())
        }));
    }
}

fn resources() -> [Resource; 11] {
    // Paths are tried in this order: the one with nearly all of the traffic comes first.
    [
        resource(Route::SessionTelemetry, "GET, POST")
            .route(web::post().to(telemetry::telemetry))
            .route(web::get().to(websocket::upgrade)),
        resource(Route::Telemetry, "POST").route(web::post().to(ndjson::telemetry)),
        resource(Route::SessionStart, "POST").route(web::post().to(start::start)),
        resource(Route::SessionStop, "POST").route(web::post().to(stop::stop)),
        resource(Route::Sessions, "GET, HEAD").route(get().to(sessions::list)),
        resource(Route::SessionPod, "POST").route(web::post().to(stop::attach_pod)),
        resource(Route::SessionInsights, "GET, HEAD").route(get().to(insights::insight)),
        resource(Route::SessionEvidence, "GET, HEAD").route(get().to(insights::evidence)),
        resource(Route::SessionEvents, "GET, HEAD").route(get().to(events::events)),
        resource(Route::Session, "GET, HEAD").route(get().to(sessions::session)),
        resource(Route::Schema, "GET, HEAD").route(get().to(format::schema)),
    ]
}
