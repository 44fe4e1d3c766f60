//! The document of the API: OpenAPI 3.1.0, at `GET /openapi.json` and by `porchlight openapi`.
//!
//! It is put together here from what the handlers are made of: the routes, the codes of [`Code`], the numbers of
//! `porchlight_schema::limits`, the names of the closed enums. `schema/openapi.json` is the same as a file, so that a
//! change of the contract shows in a review.
//!
//! [`Code`]: porchlight_http::problem::Code

mod components;
mod documents;
mod examples;
mod operation;
mod schemas;
mod sessions;
mod telemetry;
mod webhooks;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue};
use actix_web::{HttpRequest, HttpResponse, Resource};
use porchlight_observe::http::Route;
use serde_json::{Map, Value, json};

/// The version of OpenAPI (contract section 10).
pub const OPENAPI_VERSION: &str = "3.1.0";
/// The version of the API (contract section 10).
pub const API_VERSION: &str = "1.0.0";

const DESCRIPTION: &str = "Was this parcel brought to the right door, how hard was it, and can the claim be trusted? A courier's phone \
records a delivery session and streams what its sensors say; Porchlight detects what happens as it happens, and answers with the \
evidence for each word of the answer.\n\n\
**Conventions.** JSON in UTF-8. Times are RFC 3339 in UTC with milliseconds; durations and offsets are seconds, distances metres, \
coordinates WGS 84 degrees. Unknown fields in a request are ignored; a known field of a wrong type or out of range is an error; null \
means absent. HEAD is answered wherever GET is.\n\n\
**Credentials** go into `Service-Key` or `Authorization: Bearer`, never into a query. A credential sees its own organization and \
environment; anything else is answered with 404.\n\n\
**Errors** are `application/problem+json` (RFC 9457) without exception, with a stable `code`. They are checked in this order: path, \
method, credential, role, the thing itself, media type, size, syntax, content, state. An error never means that something was half \
done.";

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for part in [
        sessions::paths(),
        telemetry::paths(),
        webhooks::paths(),
        documents::paths(),
    ] {
        if let Value::Object(part) = part {
            paths.extend(part);
        }
    }
    json!({
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Porchlight",
            "version": API_VERSION,
            "summary": "Says whether a parcel was brought to the right door.",
            "description": DESCRIPTION,
            "contact": { "name": "Porchlight", "url": "https://porchlight.example" },
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "This service." }],
        "tags": [
            { "name": "Sessions", "description": "One session is one physical delivery being recorded." },
            { "name": "Telemetry", "description": "What a phone measures, in batches." },
            { "name": "Insights", "description": "What is known of a session, and why." },
            { "name": "Webhooks", "description": "Being told of what happens." },
            { "name": "Documents", "description": "This document, to read and to work with." },
        ],
        "security": [{ "serviceKey": [] }, { "bearer": [] }],
        "paths": paths,
        "webhooks": webhooks::events(),
        "components": components::all(),
    })
}

/// The route.
pub(super) fn resource() -> Resource {
    porchlight_http::route::resource(Route::OpenApi, "GET, HEAD")
        .route(porchlight_http::route::get().to(serve))
}

/// Gives the document, or 304 to who has it.
async fn serve(request: HttpRequest) -> HttpResponse {
    static TAG: LazyLock<String> =
        LazyLock::new(|| format!("\"{:08x}\"", crc32fast::hash(text().as_bytes())));
    let is_known = porchlight_http::etag::names(request.headers(), &TAG);
    let mut response = if is_known {
        HttpResponse::NotModified()
    } else {
        HttpResponse::Ok()
    };
    response
        .insert_header((ETAG, TAG.as_str()))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-cache")));
    if is_known {
        return response.finish();
    }
    response
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")))
        .body(text())
}

/// The document as text, made once: indented, with a line's end.
#[must_use]
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", document()));
    &TEXT
}
