//! What every request passes, whatever its route: its id, its metrics, and the rule that every error is a problem.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{ALLOW, CONTENT_TYPE};
use actix_web::middleware::Next;
use actix_web::{Error, ResponseError};
use futures_util::FutureExt;

use super::observe::Metrics;
use super::problem::{Code, MEDIA_TYPE, Problem, REQUEST_ID};
use super::request_id::RequestId;
use super::route::{Route, Verb};

/// The middleware around the whole application: `App::new().wrap(from_fn(edge))`.
///
/// # Errors
///
/// Only as a problem that says how it is to be answered.
pub async fn edge(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    let (started, verb) = (Instant::now(), Verb::of(request.method()));
    let metrics = Metrics::get();
    let _in_flight = metrics.on_request();
    let request_id = RequestId::of(request.headers());
    // A panic ends one request, not the worker. The request itself is gone then, and with it what route it took.
    let problem = match AssertUnwindSafe(next.call(request)).catch_unwind().await {
        Ok(Ok(response)) => {
            let route = response.request().app_data::<Route>().copied().unwrap_or(Route::Other);
            let response = finish(response, route, &request_id);
            metrics.on_answer(route, verb, response.status().as_u16(), started.elapsed());
            return Ok(response);
        }
        Ok(Err(error)) => problem_of(&error),
        Err(_) => Problem::internal("a handler panicked"),
    };
    metrics.on_problem(Route::Other, &problem, &request_id);
    metrics.on_answer(Route::Other, verb, problem.status_code().as_u16(), started.elapsed());
    Err(problem.of_request(request_id).into())
}

/// The answer with the request's id; an error as a problem, whoever made it.
fn finish(mut response: ServiceResponse<BoxBody>, route: Route, request_id: &RequestId) -> ServiceResponse<BoxBody> {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        if let Some(value) = request_id.header() {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        return response;
    }
    let problem = match response.response().error() {
        Some(error) => problem_of(error),
        None if response.headers().get(CONTENT_TYPE).is_some_and(|value| value == MEDIA_TYPE) => return response,
        None => {
            let mut problem = Problem::new(Code::of_status(status), "The request was refused.");
            if let Some(allow) = response.headers().get(ALLOW) {
                problem = problem.with_header(ALLOW, allow.clone());
            }
            problem
        }
    };
    Metrics::get().on_problem(route, &problem, request_id);
    let (request, _) = response.into_parts();
    ServiceResponse::new(request, problem.of_request(request_id.clone()).error_response())
}

/// The problem that an error is, or the one that fits its status.
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
