//! The checks and changes for every console request: same origin for unsafe methods, errors as
//! pages, security headers.

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse, ResponseError};
use porchlight_http::middleware::Report;
use porchlight_http::observe::on_problem;
use porchlight_http::problem::{Code, MEDIA_TYPE, Problem};
use porchlight_http::request_id::{REQUEST_ID, RequestId};
use porchlight_observe::http::Route;

use super::signed_in::RenewedCookie;
use super::{layout, return_to};

/// The header in which a browser states the origin of a request (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Allows only the console's own files: no plugins, no frames, no forms to other sites, and no
/// inline scripts or styles.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// The middleware around the console's routes.
///
/// # Errors
///
/// Returns an error only if the server itself cannot answer.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let mut answer = if !is_action(&request) || is_same_origin(request.headers()) {
        next.call(request).await?
    } else {
        let problem = Problem::new(
            Code::Forbidden,
            "The request does not come from this console and was refused.",
        );
        request.into_response(HttpResponse::from_error(problem))
    };
    if let Some(problem) = problem_in(&answer).filter(|_| wants_page(answer.request())) {
        let (http, _) = answer.into_parts();
        let response = error_page(&http, &problem);
        answer = ServiceResponse::new(http, response);
    }
    let renewed = answer
        .request()
        .extensions()
        .get::<RenewedCookie>()
        .cloned();
    let headers = answer.headers_mut();
    if let Some(RenewedCookie(cookie)) = renewed
        && !headers.contains_key(SET_COOKIE)
    {
        headers.insert(SET_COOKIE, cookie);
    }
    set_security_headers(headers);
    Ok(answer)
}

/// Returns whether a request may change something. The console has no route for unsafe methods
/// other than POST; the router answers them, and unknown paths, with 405 or 404.
fn is_action(request: &ServiceRequest) -> bool {
    request.method() == Method::POST && request.match_pattern().is_some()
}

/// Returns whether an unsafe request comes from a page of the same origin. Browsers state this in
/// `Sec-Fetch-Site`; if it is missing (an old browser, or plain HTTP on a host other than this
/// machine), `Origin` must name the requested host. A request with neither header is refused: only
/// a browser has a console cookie.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin";
    }
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let (Some(origin), Some(host)) = (text(ORIGIN), text(HOST)) else {
        return false;
    };
    let authority = ["https://", "http://"]
        .into_iter()
        .find_map(|scheme| origin.strip_prefix(scheme));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// Returns the problem in an error answer, or `None` if there is no error to render.
fn problem_in(answer: &ServiceResponse<BoxBody>) -> Option<Problem> {
    let status = answer.status();
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    if let Some(problem) = answer
        .response()
        .error()
        .and_then(Error::as_error::<Problem>)
    {
        return Some(problem.clone());
    }
    let is_page = answer.response().extensions().get::<Report>().is_some();
    (!is_page).then(|| Problem::new(Code::of_status(status), "The request was refused."))
}

/// Returns whether an error is shown as a page. All other errors are problem documents, as in the
/// API: a browser sends only these methods, and a program may accept only JSON.
fn wants_page(http: &HttpRequest) -> bool {
    let accepted = http.headers().get(ACCEPT);
    let accepted = accepted.and_then(|accepted| accepted.to_str().ok());
    let accepts_page = |accepted: &str| accepted.contains("text/") || accepted.contains("*/*");
    [Method::GET, Method::HEAD, Method::POST].contains(http.method())
        && accepted.is_none_or(accepts_page)
}

/// Renders an error for a person. A visitor who has to sign in is redirected to the sign-in page.
fn error_page(http: &HttpRequest, problem: &Problem) -> HttpResponse {
    if problem.code().status() == StatusCode::UNAUTHORIZED {
        return HttpResponse::SeeOther()
            .insert_header((LOCATION, return_to::address(http)))
            .finish();
    }
    let request_id = RequestId::of(http.headers());
    on_problem(problem, &request_id, Route::Console.as_str());
    let page = layout::error(problem, &request_id);
    let mut response = html(problem.code().status(), page);
    for (name, value) in problem.error_response().headers() {
        if name != CONTENT_TYPE && name != CACHE_CONTROL {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
    response
        .headers_mut()
        .insert(REQUEST_ID, request_id.header());
    response
}

/// Returns a page with a status. The middleware leaves an error that already is a page unchanged.
pub(super) fn html(status: StatusCode, page: maud::Markup) -> HttpResponse {
    let mut response = HttpResponse::build(status)
        .content_type("text/html; charset=utf-8")
        .body(page.into_string());
    response.extensions_mut().insert(Report);
    response
}

/// Returns a page with status 200.
pub(super) fn ok(page: maud::Markup) -> HttpResponse {
    html(StatusCode::OK, page)
}

/// Returns the page of a form: with status 422 if the texts that the visitor entered are refused,
/// otherwise with 200.
pub(super) fn form_page(is_refused: bool, page: maud::Markup) -> HttpResponse {
    let status = match is_refused {
        true => StatusCode::UNPROCESSABLE_ENTITY,
        false => StatusCode::OK,
    };
    html(status, page)
}

/// Redirects the browser to another page, which it then loads with GET. Used after an action, so
/// that a reload repeats nothing.
pub(super) fn redirect(address: &str) -> HttpResponse {
    HttpResponse::SeeOther()
        .insert_header((LOCATION, address))
        .finish()
}

fn set_security_headers(headers: &mut HeaderMap) {
    let fixed = |value| HeaderValue::from_static(value);
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    // With `no-referrer`, browsers would send `Origin: null` with the console's own forms.
    headers.insert(REFERRER_POLICY, fixed("same-origin"));
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        (
            "permissions-policy",
            "geolocation=(), camera=(), microphone=()",
        ),
    ] {
        headers.insert(HeaderName::from_static(name), fixed(value));
    }
    let is_problem = headers
        .get(CONTENT_TYPE)
        .is_some_and(|media| media == MEDIA_TYPE);
    if is_problem || !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, fixed("no-store"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for &(name, value) in headers {
            map.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        is_same_origin(&map)
    }

    #[test]
    fn only_the_own_origin_may_act() {
        let host = ("host", "console.example:8080");
        for headers in [
            &[("sec-fetch-site", "same-origin")][..],
            &[host, ("origin", "https://console.example:8080")],
            &[host, ("origin", "http://Console.Example:8080")],
        ] {
            assert!(allowed(headers), "{headers:?}");
        }
        for headers in [
            &[][..],
            &[host],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "none")],
            &[
                ("sec-fetch-site", "cross-site"),
                host,
                ("origin", "https://console.example:8080"),
            ],
            &[host, ("origin", "null")],
            &[host, ("origin", "https://console.example")],
            &[
                host,
                ("origin", "https://console.example:8080.evil.example"),
            ],
            &[host, ("origin", "https://evil.example")],
        ] {
            assert!(!allowed(headers), "{headers:?}");
        }
    }
}
