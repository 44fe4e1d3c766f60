//! Cross-origin requests (CORS) to the paths that phones call. Web apps of the configured origins
//! may call these, and no page of another origin may call anything.

use actix_web::HttpRequest;
use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ALLOW,
    CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use porchlight_observe::http::Route;
use porchlight_schema::limits::CORS_PREFLIGHT_SEC;

/// The request headers that a page may set.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, service-key, content-type, content-encoding, idempotency-key, x-request-id",
);
/// The answer's headers that a page may read.
const ANSWER_HEADERS: HeaderValue =
    HeaderValue::from_static("x-request-id, retry-after, ratelimit, ratelimit-policy");

/// An entry that is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not an origin such as https://app.example.com: a scheme and a host, without a path"
)]
pub struct OriginError(String);

/// The origins whose pages may call the paths for phones. By default there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins(Vec<HeaderValue>);

impl Origins {
    /// Parses origins, as a browser writes them in `Origin`: `https://app.example.com`,
    /// `http://localhost:5173`, `capacitor://localhost`.
    ///
    /// # Errors
    ///
    /// Returns an error if an entry has no scheme or host, or has a path, a wildcard or capital
    /// letters.
    pub fn new(origins: &[String]) -> Result<Self, OriginError> {
        let read = |text: &String| origin(text).ok_or_else(|| OriginError(text.clone()));
        origins.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

fn origin(text: &str) -> Option<HeaderValue> {
    let (scheme, authority) = text.split_once("://")?;
    let is_part = |part: &str, more: &[u8]| {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || more.contains(&byte);
        !part.is_empty() && part.bytes().all(is_allowed)
    };
    let is_origin = is_part(scheme, b"+-.") && is_part(authority, b"-._:[]");
    is_origin
        .then(|| HeaderValue::from_str(text).ok())
        .flatten()
}

/// Returns the methods that pages of other origins may use on a route; `None` for a route that is
/// not for phones.
fn methods(route: Route) -> Option<&'static str> {
    Some(match route {
        Route::SessionStart
        | Route::SessionTelemetry
        | Route::SessionStop
        | Route::SessionPod
        | Route::PushSensorLogger
        | Route::PushOwntracks
        | Route::PushOverland => "POST",
        Route::SessionAcknowledged => "GET",
        Route::PushTraccar | Route::PushGpslogger => "GET, POST",
        _ => return None,
    })
}

/// Returns the origin of a request if it is configured.
fn configured<'r>(request: &'r HttpRequest, origins: &Origins) -> Option<&'r HeaderValue> {
    let mut given = request.headers().get_all(ORIGIN);
    match (given.next(), given.next()) {
        (Some(origin), None) => Some(origin).filter(|origin| origins.0.contains(origin)),
        _ => None,
    }
}

fn is_preflight(request: &HttpRequest) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns whether [`finish`] replaces the router's answer with the answer to a preflight request.
pub(super) fn answers_preflight(request: &HttpRequest, route: Route, origins: &Origins) -> bool {
    is_preflight(request) && methods(route).is_some() && configured(request, origins).is_some()
}

/// Adds the headers that let a page of a configured origin read the answer, and answers preflight
/// requests. Without configured origins the answer stays as it is.
pub(super) fn finish(response: &mut ServiceResponse<BoxBody>, route: Route, origins: &Origins) {
    let Some(methods) = methods(route) else {
        return;
    };
    if origins.0.is_empty() {
        return;
    }
    let request = response.request().clone();
    // A cache must keep the answers to different origins apart.
    response
        .headers_mut()
        .append(VARY, HeaderValue::from_static("origin"));
    let Some(origin) = configured(&request, origins) else {
        return;
    };
    if is_preflight(&request) {
        preflight(response, methods);
    }
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
}

/// Replaces the router's 405 by the answer to a preflight request.
fn preflight(response: &mut ServiceResponse<BoxBody>, methods: &'static str) {
    *response.response_mut() = without_problem(response.headers());
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(methods),
    );
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    headers.insert(
        ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from(CORS_PREFLIGHT_SEC),
    );
}

/// Returns an empty answer with the headers that do not describe a problem.
fn without_problem(headers: &HeaderMap) -> actix_web::HttpResponse<BoxBody> {
    let mut answer = actix_web::HttpResponse::NoContent().finish();
    for (name, value) in headers {
        if ![ALLOW, CONTENT_LENGTH, CONTENT_TYPE].contains(name) {
            answer.headers_mut().append(name.clone(), value.clone());
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_are_accepted() {
        for text in [
            "https://app.example.com",
            "http://localhost:5173",
            "http://[::1]:8080",
            "capacitor://localhost",
        ] {
            assert_eq!(Origins::new(&[text.to_owned()]).unwrap().0, [text]);
        }
        for text in [
            "*",
            "null",
            "",
            "app.example.com",
            "https://",
            "https://app.example.com/",
            "https://*.example.com",
            "https://App.example.com",
            "https://user@app.example.com",
        ] {
            let refused = Origins::new(&[text.to_owned()]);
            assert_eq!(refused, Err(OriginError(text.to_owned())), "{text}");
        }
    }
}
