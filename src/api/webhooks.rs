//! Webhooks (contract sections 6 and 9): the configuration, and the deliveries.

mod configuration;
mod deliveries;

pub(super) use deliveries::exported_delivery;

use actix_web::{Resource, web};
use porchlight_actors::webhook::Webhooks;
use porchlight_observe::http::Route;
use porchlight_schema::message::MessageEvent;

use porchlight_http::problem::Problem;
use porchlight_http::request_context::RequestContext;
use porchlight_http::route::{get, resource};

/// Returns the events with their names.
fn events() -> [(&'static str, MessageEvent); 3] {
    MessageEvent::ALL.map(|event| (event.as_str(), event))
}

/// Returns the resources with their routes.
pub(super) fn resources() -> [Resource; 8] {
    [
        resource(Route::Webhooks, "DELETE, GET, HEAD, POST, PUT")
            .route(web::post().to(configuration::register))
            .route(get().to(configuration::show))
            .route(web::put().to(configuration::change))
            .route(web::delete().to(configuration::remove)),
        resource(Route::WebhookRotate, "POST").route(web::post().to(configuration::rotate)),
        resource(Route::WebhookPreviousSecret, "DELETE")
            .route(web::delete().to(configuration::end_overlap)),
        resource(Route::WebhookTest, "POST").route(web::post().to(configuration::test)),
        resource(Route::WebhookDeliveriesRetry, "POST")
            .route(web::post().to(deliveries::retry_many)),
        resource(Route::WebhookDeliveries, "GET, HEAD").route(get().to(deliveries::list)),
        resource(Route::WebhookDelivery, "GET, HEAD").route(get().to(deliveries::show)),
        resource(Route::WebhookDeliveryRetry, "POST").route(web::post().to(deliveries::retry)),
    ]
}

/// Returns the webhooks of this process.
fn webhooks(call: &RequestContext) -> Result<Webhooks, Problem> {
    let webhooks = call.state.webhooks.clone();
    webhooks.ok_or_else(|| Problem::internal("this process sends no webhooks"))
}
