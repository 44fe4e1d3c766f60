#![doc = include_str!("README.md")]

pub mod openapi;

mod audit;
mod docs;
mod events;
mod explanation;
mod format;
mod hold;
mod insights;
mod ndjson;
mod path_image;
mod pipeline;
mod privacy;
mod recorders;
mod retention;
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

/// Adds the API's routes, which use the application's [`porchlight_http::State`].
pub fn routes(drawings: Data<Drawings>) -> impl Fn(&mut ServiceConfig) + Clone {
    let archives = Data::new(privacy::Archives::default());
    move |config| {
        config.app_data(drawings.clone());
        config.app_data(archives.clone());
        for resource in resources().into_iter().chain(webhooks::resources()) {
            config.service(resource);
        }
        for resource in recorders::resources()
            .into_iter()
            .chain(privacy::resources())
            .chain([hold::hold_resource(), retention::retention_resource()])
        {
            config.service(resource);
        }
        config.service(openapi::resource());
        for resource in path_image::resources().into_iter().chain(docs::resources()) {
            config.service(resource);
        }
    }
}

fn resources() -> [Resource; 15] {
    // The router tries resources in this order, so the one with most of the traffic comes first.
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
        resource(Route::SessionExplanation, "GET, HEAD").route(get().to(explanation::explanation)),
        resource(Route::SessionReview, "PUT").route(web::put().to(explanation::review)),
        resource(Route::Audit, "GET, HEAD").route(get().to(audit::list)),
        resource(Route::SessionEvents, "GET, HEAD").route(get().to(events::events)),
        resource(Route::Session, "GET, HEAD").route(get().to(sessions::session)),
        resource(Route::Schema, "GET, HEAD").route(get().to(format::schema)),
    ]
}
