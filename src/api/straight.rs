//! The straight way: what nearly every request is, a session's batch, goes to its handler past the router.
//!
//! The router looks for a path among all by regular expressions, notes for each method that it tries what it would have
//! answered, and boxes what it calls at each of its layers: a microsecond of a batch's thirty. A path that is written
//! as every client writes it is told by its two ends. Whatever is not goes to the router, which has the same handler.

use std::panic::AssertUnwindSafe;
use std::str::FromStr;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::web::Data;
use actix_web::{HttpResponse, ResponseError};
use futures_util::FutureExt;
use porchlight_observe::http::Route;
use porchlight_observe::request::caused_by;
use porchlight_schema::ids::SessionId;

use super::ApiState;
use super::call::Call;
use super::observe::on_problem;
use super::problem::{Problem, REQUEST_ID};
use super::request_id::RequestId;
use super::telemetry::telemetry_of;

/// A request that goes straight to its handler.
pub(super) struct Straight {
    state: Data<ApiState>,
    session_id: Option<SessionId>,
}

impl Straight {
    /// The route that it would have taken.
    pub(super) const ROUTE: Route = Route::SessionTelemetry;

    /// None: it goes through the router.
    pub(super) fn of(request: &ServiceRequest) -> Option<Self> {
        let id = session_in(request.method(), request.uri().path())?;
        Some(Self {
            state: request.app_data::<Data<ApiState>>()?.clone(),
            session_id: SessionId::from_str(id).ok(),
        })
    }

    /// Its answer, which has its id and is a problem where something is wrong, as [`super::edge`] has it of all others.
    pub(super) async fn answer(self, request: ServiceRequest) -> ServiceResponse<BoxBody> {
        let request_id = RequestId::of(request.headers());
        let (http, payload) = request.into_parts();
        let call = Call {
            http: http.clone(),
            payload,
            state: self.state,
        };
        let answered = caused_by(request_id.name(), telemetry_of(call, self.session_id));
        // A panic ends one request, not the worker.
        let answer = AssertUnwindSafe(answered).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_| Err(Problem::internal("a handler panicked")));
        ServiceResponse::new(http, finished(answer, request_id))
    }
}

fn finished(answer: Result<HttpResponse, Problem>, request_id: RequestId) -> HttpResponse {
    match answer {
        Ok(mut response) => {
            response
                .headers_mut()
                .insert(REQUEST_ID, request_id.header());
            response
        }
        Err(problem) => {
            on_problem(&problem, &request_id, Straight::ROUTE.as_str());
            problem.of_request(request_id).error_response()
        }
    }
}

/// What stands for the session's id in a path that every reader reads alike: of letters, digits and `_` only, so that
/// nothing in it has to be decoded.
fn session_in<'p>(method: &Method, path: &'p str) -> Option<&'p str> {
    let id = path
        .strip_prefix("/v1/sessions/")?
        .strip_suffix("/telemetry")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (*method == Method::POST && !id.is_empty() && id.bytes().all(is_plain)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_batch_under_a_plain_path_goes_straight() {
        let (post, path) = (Method::POST, "/v1/sessions/ses_01ABC/telemetry");
        assert_eq!(session_in(&post, path), Some("ses_01ABC"));
        assert_eq!(session_in(&Method::GET, path), None, "a WebSocket");
        assert_eq!(session_in(&Method::HEAD, path), None);
        for path in [
            "/v1/sessions//telemetry",
            "/v1/sessions/telemetry",
            "/v1/sessions/a/b/telemetry",
            "/v1/sessions/a%62/telemetry",
            "/v1/sessions/a/telemetry/",
            "/v1/sessions/a/Telemetry",
            "/V1/sessions/a/telemetry",
            "//v1/sessions/a/telemetry",
            "/v1/sessions/a",
            "/v1/telemetry",
        ] {
            assert_eq!(session_in(&post, path), None, "{path}");
        }
    }
}
