//! Routes. Each pattern is one resource with all its methods, so that other methods are answered
//! with 405 and `Allow`, and metrics identify the route by its pattern.

use actix_web::http::Method;
use actix_web::web::{self, Data};
use actix_web::{HttpRequest, HttpResponse, Resource, Route as Handler, guard};
use porchlight_observe::http::{self, Route};

use super::problem::Problem;
use super::state::State;

/// Creates a resource at the pattern of `route`. `allow` lists the methods that will be added
/// (`GET, HEAD`).
pub fn resource(route: Route, allow: &'static str) -> Resource {
    at(route.as_str(), allow).app_data(route)
}

/// Creates a resource without metrics.
pub fn at(pattern: &str, allow: &'static str) -> Resource {
    let refuse = move |http: HttpRequest| refuse(http, Problem::method_not_allowed(allow));
    web::resource(pattern).default_service(web::to(refuse))
}

/// Answers a request that no handler serves with this problem. A valid credential counts the
/// request against its rate, which the answer reports; an invalid one changes nothing, because the
/// path and the method are checked before the credential.
///
/// # Errors
///
/// Returns the problem.
pub async fn refuse(http: HttpRequest, problem: Problem) -> Result<HttpResponse, Problem> {
    if let Some(state) = http.app_data::<Data<State>>()
        && let Ok(caller) = state.identify(http.headers()).await
    {
        let _exceeded = state.count(&caller, &http);
    }
    Err(problem)
}

/// Handles GET, and HEAD, which is GET without the body (RFC 9110, section 9.3.2); the connection
/// leaves the body out.
pub fn get() -> Handler {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

/// Returns the label of a method. HEAD counts as GET.
pub(crate) fn label(method: &Method) -> http::Method {
    match *method {
        Method::GET | Method::HEAD => http::Method::Get,
        Method::POST => http::Method::Post,
        Method::PUT => http::Method::Put,
        Method::DELETE => http::Method::Delete,
        _ => http::Method::Other,
    }
}
