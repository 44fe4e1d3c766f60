//! The public HTTP API (contract sections 1 to 5, 7 and 9): a file per resource, over the service.
//!
//! [`routes`] gives an application the API's resources.
//!
//! **Order of checks.** Path (404) and method (405) are the routes'; credential (401), a key's rate (429), role (403),
//! the thing itself (404), `Accept` (406), media type and coding (415), announced size (413); for telemetry admission
//! (429, 503); then the body: size (413), deadlines (408), coding and syntax (400), content (422); then state (409).
//! Each handler reads as that list.

pub mod openapi;

mod docs;
mod events;
mod format;
mod insights;
mod ndjson;
mod path_image;
mod pipeline;
mod recorders;
mod sessions;
mod start;
mod stop;
mod telemetry;
mod webhooks;
mod websocket;

use actix_web::Resource;
use actix_web::web::{self, Data, ServiceConfig};
use porchlight_http::route::{get, resource};
use porchlight_observe::http::Route;

pub use path_image::Drawings;

/// Adds the API's routes. They answer from the [`porchlight_http::State`] of the application.
pub fn routes(drawings: Data<Drawings>) -> impl Fn(&mut ServiceConfig) + Clone {
    move |config| {
        config.app_data(drawings.clone());
        for resource in resources().into_iter().chain(webhooks::resources()) {
            config.service(resource);
        }
        for resource in recorders::resources() {
            config.service(resource);
        }
        config.service(openapi::resource());
        for resource in path_image::resources().into_iter().chain(docs::resources()) {
            config.service(resource);
        }
    }
}

fn resources() -> [Resource; 12] {
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
        resource(Route::SessionAcknowledged, "GET, HEAD").route(get().to(sessions::acknowledged)),
        resource(Route::SessionInsights, "GET, HEAD").route(get().to(insights::insight)),
        resource(Route::SessionEvidence, "GET, HEAD").route(get().to(insights::evidence)),
        resource(Route::SessionEvents, "GET, HEAD").route(get().to(events::events)),
        resource(Route::Session, "GET, HEAD").route(get().to(sessions::session)),
        resource(Route::Schema, "GET, HEAD").route(get().to(format::schema)),
    ]
}
