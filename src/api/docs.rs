//! `GET /docs` shows the API document for reading and trying; `GET /docs/errors` lists every
//! problem code. The pages are generated once from the document. They load nothing from other
//! hosts, and the content security policy forbids it.

mod page;

use std::sync::LazyLock;

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::Bytes;
use actix_web::{HttpResponse, Resource};
use porchlight_http::route::{at, get};
use porchlight_http::sliced::Sliced;
use porchlight_observe::http::Route;

use super::openapi;

/// Allows the page's own script and style, and requests to this host.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
const SCRIPT: &str = include_str!("docs/docs.js");
const STYLE: &str = include_str!("docs/docs.css");

/// Returns the routes, which count as one for metrics.
pub(super) fn resources() -> [Resource; 4] {
    let resource = |pattern| at(pattern, "GET, HEAD").app_data(Route::Docs);
    [
        resource("/docs").route(get().to(reference)),
        resource("/docs/errors").route(get().to(errors)),
        resource("/docs/docs.js")
            .route(get().to(|| answer("text/javascript; charset=utf-8", SCRIPT.into()))),
        resource("/docs/docs.css")
            .route(get().to(|| answer("text/css; charset=utf-8", STYLE.into()))),
    ]
}

async fn reference() -> HttpResponse {
    static PAGE: LazyLock<Bytes> =
        LazyLock::new(|| page::reference(openapi::document()).into_string().into());
    answer("text/html; charset=utf-8", PAGE.clone()).await
}

async fn errors() -> HttpResponse {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| page::errors().into_string().into());
    answer("text/html; charset=utf-8", PAGE.clone()).await
}

async fn answer(media_type: &'static str, body: Bytes) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, HeaderValue::from_static(media_type)))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-cache")))
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .insert_header((
            HeaderName::from_static("referrer-policy"),
            HeaderValue::from_static("no-referrer"),
        ))
        .body(Sliced::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_operation_and_no_external_resources() {
        let document = openapi::document();
        let page = page::reference(document).into_string();
        for methods in document["paths"].as_object().unwrap().values() {
            for operation in methods.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
            }
        }
        for loading in ["src=\"", "rel=\"stylesheet\" href=\""] {
            for (offset, found) in page.match_indices(loading) {
                let target = &page[offset + found.len()..];
                assert!(target.starts_with("/docs/"), "{}", &target[..40]);
            }
        }
        assert!(
            !page.contains("<style") && !page.contains(" style=\"") && !page.contains("onclick")
        );
    }

    #[test]
    fn every_code_is_on_the_errors_page() {
        let page = page::errors().into_string();
        for code in porchlight_http::problem::Code::ALL {
            let anchor = code.about().strip_prefix("/docs/errors#").unwrap();
            assert!(page.contains(&format!("id=\"{anchor}\"")), "{anchor}");
        }
    }
}
