//! Routes: a resource for each pattern, with all its methods in one place, so that another method is answered with 405
//! and `Allow`, and the route is known to the metrics by its pattern.

use actix_web::http::Method;
use actix_web::{HttpResponse, Resource, Route as Handler, guard, web};
use porchlight_observe::http::{self, Route};

use super::problem::Problem;

/// An empty resource at the pattern of `route`. `allow` lists the methods that are going to be added, as in `Allow`
/// (`GET, HEAD`).
pub fn resource(route: Route, allow: &'static str) -> Resource {
    at(route.as_str(), allow).app_data(route)
}

/// The same at a pattern that is not measured.
pub fn at(pattern: &str, allow: &'static str) -> Resource {
    let refuse = move || async move { Err::<HttpResponse, _>(Problem::method_not_allowed(allow)) };
    web::resource(pattern).default_service(web::to(refuse))
}

/// GET, and HEAD, which is the same without the body (RFC 9110, section 9.3.2); the connection leaves the body out.
pub fn get() -> Handler {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

/// The label of a method. HEAD is counted as the GET that it is.
pub(crate) fn label(method: &Method) -> http::Method {
    match *method {
        Method::GET | Method::HEAD => http::Method::Get,
        Method::POST => http::Method::Post,
        Method::PUT => http::Method::Put,
        Method::DELETE => http::Method::Delete,
        _ => http::Method::Other,
    }
}
