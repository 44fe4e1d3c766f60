//! Middleware for every request: its id, its metrics, and the rule that every error is a problem
//! document.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::http::header::ALLOW;
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage, ResponseError};
use futures_util::FutureExt;
use metrics::Gauge;
use porchlight_observe::http::{HttpMetrics, Route};
use porchlight_observe::request::caused_by;

use super::audit;
use super::auth::RemainingRate;
use super::cors;
use super::observe::on_problem;
use super::problem::{Code, Problem};
use super::request_id::{REQUEST_ID, RequestId};
use super::route;
use super::state::State;

/// The middleware of the public application: `App::new().wrap(from_fn(edge))`.
///
/// # Errors
///
/// Every error is a [`Problem`].
pub async fn edge(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let (started, method) = (Instant::now(), route::label(request.method()));
    let metrics = HttpMetrics::get();
    let _in_flight = InFlight::begin(&metrics.in_flight);
    let mut answer = plain_edge(request, next).await;
    if let Ok(response) = &mut answer {
        allow_origin(response);
        record(response);
        close_if_last(response);
        report_rate(response);
    }
    let (route, status) = match &answer {
        Ok(response) => (route_of(response), response.status()),
        Err(error) => (Route::Unknown, error.as_response_error().status_code()),
    };
    metrics.on_answered(
        route,
        method,
        status.as_u16(),
        started.elapsed().as_secs_f64(),
    );
    answer
}

/// Records an answer of an audited route in the audit log before it leaves.
fn record(response: &ServiceResponse<BoxBody>) {
    let is_ingest = matches!(
        route_of(response),
        Route::SessionTelemetry | Route::Telemetry
    );
    if is_ingest {
        return;
    }
    if let Some(state) = response.request().app_data::<Data<State>>() {
        audit::finish(response, || state.service.now());
    }
}

/// Lets pages of the configured origins read the answers of the paths for phones.
fn allow_origin(response: &mut ServiceResponse<BoxBody>) {
    let state = response.request().app_data::<Data<State>>().cloned();
    if let Some(state) = state {
        cors::finish(response, route_of(response), &state.cors);
    }
}

/// Reports the credential's rate on the answer to a request that was counted against it.
fn report_rate(response: &mut ServiceResponse<BoxBody>) {
    let remaining_rate = response
        .request()
        .extensions()
        .get::<RemainingRate>()
        .copied();
    if let Some(remaining_rate) = remaining_rate {
        remaining_rate.write(response.headers_mut());
    }
}

/// Announces that the connection closes after the answer, if it does: a request that the client
/// sends on it would get no answer. The listener closes its connections while the node drains. The
/// framework closes a connection after a request to upgrade it, such as Java's for HTTP/2, although
/// the request was answered without an upgrade.
fn close_if_last(response: &mut ServiceResponse<BoxBody>) {
    let state = response.request().app_data::<Data<State>>();
    let is_draining = state.is_some_and(|state| state.service.is_draining());
    let is_upgrade = response.request().head().upgrade();
    if (is_draining || is_upgrade) && !response.status().is_informational() {
        let head = response.response_mut().head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
}

/// The middleware of the operators' listener, without metrics.
///
/// # Errors
///
/// Every error is a [`Problem`].
pub async fn plain_edge(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let request_id = RequestId::of(request.headers());
    // A panic ends one request, not the worker. The request itself is lost, and with it its route.
    let answered = caused_by(request_id.name(), next.call(request));
    let problem = match AssertUnwindSafe(answered).catch_unwind().await {
        Ok(Ok(response)) => return Ok(finish(response, &request_id)),
        Ok(Err(error)) => problem_of(&error),
        Err(_) => Problem::internal("a handler panicked"),
    };
    on_problem(&problem, &request_id, Route::Unknown.as_str());
    Err(problem.of_request(request_id).into())
}

/// Marks an answer whose error status belongs to a requested report, so that it is not replaced by
/// a problem.
#[derive(Debug, Clone, Copy)]
pub struct Report;

/// Adds the request's id to an answer and turns errors into problems.
fn finish(
    mut response: ServiceResponse<BoxBody>,
    request_id: &RequestId,
) -> ServiceResponse<BoxBody> {
    let Some(problem) = problem_in(&response) else {
        // A page that shows the id to a person has set it itself.
        let headers = response.headers_mut();
        if !headers.contains_key(REQUEST_ID) {
            headers.insert(REQUEST_ID, request_id.header());
        }
        return response;
    };
    let route = route_of(&response);
    let state = response.request().app_data::<Data<State>>();
    let is_preflight =
        state.is_some_and(|state| cors::answers_preflight(response.request(), route, &state.cors));
    if !is_preflight {
        on_problem(&problem, request_id, route.as_str());
    }
    let (request, _) = response.into_parts();
    let problem = problem.of_request(request_id.clone());
    ServiceResponse::new(request, problem.error_response())
}

/// Returns the problem that an answer is or must become; `None` if the answer is fine.
fn problem_in(response: &ServiceResponse<BoxBody>) -> Option<Problem> {
    let (status, response) = (response.status(), response.response());
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    if let Some(error) = response.error() {
        return Some(problem_of(error));
    }
    if response.extensions().get::<Report>().is_some() {
        return None;
    }
    let problem = Problem::new(Code::of_status(status), "The request was refused.");
    Some(match response.headers().get(ALLOW) {
        Some(allow) => problem.with_header(ALLOW, allow.clone()),
        None => problem,
    })
}

fn route_of(response: &ServiceResponse<BoxBody>) -> Route {
    response
        .request()
        .app_data::<Route>()
        .copied()
        .unwrap_or(Route::Unknown)
}

/// Returns the problem for an error, from the error itself or from its status.
fn problem_of(error: &Error) -> Problem {
    error.as_error::<Problem>().cloned().unwrap_or_else(|| {
        let status = error.as_response_error().status_code();
        if status.is_server_error() {
            Problem::internal(error)
        } else {
            Problem::new(Code::of_status(status), error.to_string())
        }
    })
}

/// Counts a request as in flight until dropped.
struct InFlight<'m>(&'m Gauge);

impl<'m> InFlight<'m> {
    fn begin(gauge: &'m Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
