//! The documents that the service gives of itself.

use serde_json::{Value, json};

use super::operation::{Operation, Who};

/// Paths and what may be done there.
pub(super) fn paths() -> Value {
    json!({
        "/openapi.json": { "get": openapi() },
        "/porchlight.proto": { "get": protobuf() },
        "/docs": { "get": page("getDocs", "The documentation", "This document to read and to try, as a page.") },
        "/docs/errors": { "get": page("getErrors", "The errors", "Every code of a problem and what it means: where `type` leads to.") },
    })
}

fn openapi() -> Value {
    let content = json!({ "application/json": { "schema": { "type": "object", "required": ["openapi", "info", "paths"] } } });
    Operation::new(
        "getOpenApi",
        "Documents",
        Who::Anyone,
        "This document",
        "OpenAPI 3.1.0.",
    )
    .parameter("If-None-Match")
    .answer(200, "The document.", &["ETag", "Cache-Control"], content)
    .answer(
        304,
        "Nothing has changed.",
        &["ETag", "Cache-Control"],
        Value::Null,
    )
    .done()
}

fn protobuf() -> Value {
    let content = json!({ "text/plain": { "schema": { "type": "string" } } });
    Operation::new(
        "getProtobufSchema",
        "Documents",
        Who::Anyone,
        "The schema of protobuf bodies",
        "What a batch and its acknowledgement are as `application/x-protobuf`.",
    )
    .answer(200, "The schema.", &[], content)
    .done()
}

fn page(id: &str, summary: &str, description: &str) -> Value {
    let content = json!({ "text/html": { "schema": { "type": "string" } } });
    Operation::new(id, "Documents", Who::Anyone, summary, description)
        .answer(200, "The page.", &["Cache-Control"], content)
        .done()
}
