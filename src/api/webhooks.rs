//! Webhooks (contract sections 6 and 9): the configuration, and what has become of each message.

mod configuration;
mod deliveries;

use actix_web::{Resource, web};
use porchlight_actors::webhook::{ConfigureError, TestError, Webhooks};
use porchlight_observe::http::Route;
use porchlight_ports::UrlRefused;
use porchlight_schema::message::MessageEvent;

use porchlight_http::call::Call;
use porchlight_http::problem::{Code, Problem};
use porchlight_http::route::{get, resource};

/// The names of the events.
const EVENTS: [(&str, MessageEvent); 3] = [
    ("session.started", MessageEvent::SessionStarted),
    ("session.stopped", MessageEvent::SessionStopped),
    ("insight.updated", MessageEvent::InsightUpdated),
];

/// The routes.
pub(super) fn resources() -> [Resource; 7] {
    [
        resource(Route::Webhooks, "DELETE, GET, HEAD, POST, PUT")
            .route(web::post().to(configuration::register))
            .route(get().to(configuration::show))
            .route(web::put().to(configuration::change))
            .route(web::delete().to(configuration::remove)),
        resource(Route::WebhookRotate, "POST").route(web::post().to(configuration::rotate)),
        resource(Route::WebhookTest, "POST").route(web::post().to(configuration::test)),
        resource(Route::WebhookDeliveriesRetry, "POST")
            .route(web::post().to(deliveries::retry_many)),
        resource(Route::WebhookDeliveries, "GET, HEAD").route(get().to(deliveries::list)),
        resource(Route::WebhookDelivery, "GET, HEAD").route(get().to(deliveries::show)),
        resource(Route::WebhookDeliveryRetry, "POST").route(web::post().to(deliveries::retry)),
    ]
}

/// The webhooks of this process.
fn webhooks(call: &Call) -> Result<Webhooks, Problem> {
    let webhooks = call.state.webhooks.clone();
    webhooks.ok_or_else(|| Problem::internal("this process sends no webhooks"))
}

fn not_configured() -> Problem {
    Problem::new(Code::WebhookNotFound, "There is no webhook.")
}

impl From<ConfigureError> for Problem {
    fn from(error: ConfigureError) -> Self {
        match error {
            ConfigureError::None => not_configured(),
            ConfigureError::Exists => Self::new(
                Code::WebhookExists,
                "There is a webhook already; PUT changes it.",
            ),
            ConfigureError::OverlapRuns => Self::new(
                Code::OverlapRunning,
                "The previous secret still signs; overlapSec 0 ends it now.",
            ),
            ConfigureError::Busy => Self::new(
                Code::RateLimited,
                "Too many URLs of yours are being checked; nothing was changed.",
            ),
            ConfigureError::Contended => Self::new(
                Code::Conflict,
                "The webhook was changed by others meanwhile; nothing was changed by this request.",
            ),
            ConfigureError::Url(UrlRefused::Unavailable) => Self::new(
                Code::Overloaded,
                "The URL can't be checked at the moment; nothing was changed.",
            ),
            ConfigureError::Url(refused) => Self::invalid_field("/url", refused.to_string()),
            ConfigureError::Store(error) => error.into(),
            ConfigureError::Seal => Self::internal(error),
        }
    }
}

impl From<TestError> for Problem {
    fn from(error: TestError) -> Self {
        match error {
            TestError::NoEndpoint => not_configured(),
            TestError::Busy => Self::new(
                Code::RateLimited,
                "Too many test events of yours are under way.",
            ),
            TestError::Store(error) => error.into(),
            TestError::Secret => Self::internal(error),
        }
    }
}
