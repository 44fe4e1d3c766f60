//! The document of the API: OpenAPI 3.1.0, at `GET /openapi.json` and by `porchlight openapi`.
//!
//! The source is `schema/openapi.yaml`, whose head says how to add a path. Here its short forms are
//! expanded once, with the numbers of `porchlight_schema::limits` and the codes of [`Code`]. Tests
//! compare the result with the code.
//!
//! [`Code`]: porchlight_http::problem::Code

mod expand;
mod limits;
mod problems;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, Resource};
use porchlight_http::etag::conditional;
use porchlight_http::sliced::Sliced;
use porchlight_observe::http::Route;
use serde_json::Value;

pub use expand::SourceError;

/// The source of the document, in YAML.
pub const SOURCE: &str = porchlight_schema::OPENAPI_YAML;

/// Returns the document, expanded from [`SOURCE`] on the first request.
#[must_use]
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(expanded);
    &DOCUMENT
}

#[expect(
    clippy::expect_used,
    reason = "the source is part of the program, and a test expands it"
)]
fn expanded() -> Value {
    expand::document(SOURCE).expect("schema/openapi.yaml can be expanded")
}

/// Returns the resource with its route.
pub(super) fn resource() -> Resource {
    porchlight_http::route::resource(Route::OpenApi, "GET, HEAD")
        .route(porchlight_http::route::get().to(serve))
}

/// Answers with the document, or with 304 when the client has it.
async fn serve(request: HttpRequest) -> HttpResponse {
    static TAG: LazyLock<String> =
        LazyLock::new(|| format!("\"{:08x}\"", crc32fast::hash(text().as_bytes())));
    let shared = HeaderValue::from_static("no-cache");
    let (mut response, is_known) = conditional(request.headers(), &TAG, shared);
    if is_known {
        return response.finish();
    }
    response
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")))
        .body(Sliced::new(text()))
}

/// Returns the document as indented JSON with a final line break, written once.
#[must_use]
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &TEXT
}
