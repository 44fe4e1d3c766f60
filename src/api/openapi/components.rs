//! Parameters and headers that several operations share, and the two ways to give a credential.

use porchlight_schema::limits::{CURSOR_CHARS_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use serde_json::{Value, json};

use super::operation::schema;
use super::{examples, schemas};

pub(super) fn all() -> Value {
    json!({
        "securitySchemes": {
            "serviceKey": { "type": "apiKey", "in": "header", "name": "Service-Key",
                "description": "A secret key (`sk_…`), a client key (`pk_…`), or a session token (`st_…`)." },
            "bearer": { "type": "http", "scheme": "bearer",
                "description": "The same, as `Authorization: Bearer KEY`." },
        },
        "parameters": parameters(),
        "headers": headers(),
        "schemas": schemas::all(),
    })
}

fn parameters() -> Value {
    let path = |name: &str, description: &str, example: String| {
        json!({
            "name": "id", "in": "path", "required": true, "description": description, "schema": schema(name), "example": example,
        })
    };
    let header = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "header", "description": description, "schema": schema });
    let query = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    let time = json!({ "type": "string", "format": "date-time" });
    json!({
        "SessionId": path("SessionId", "The session.", examples::session_id()),
        "DeliveryId": path("DeliveryId", "The delivery.", examples::delivery_id()),
        "Limit": query("limit", "How many rows a page may have.", json!({
            "type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": PAGE_ROWS_DEFAULT,
        })),
        "Cursor": query("cursor", "`nextCursor` of the page before. Any other text is refused.", json!({
            "type": "string", "maxLength": CURSOR_CHARS_MAX, "pattern": "^[A-Za-z0-9_-]+$",
        })),
        "From": query("from", "From when, inclusive, on `createdAt`.", time.clone()),
        "To": query("to", "Until when, exclusive, on `createdAt`.", time),
        "Idempotency-Key": header(
            "Idempotency-Key",
            "Makes a request that is sent again harmless: within 24 hours the same key with the same body, byte for byte, gives the same \
             answer; with another body 422. Printable ASCII. Errors are not remembered.",
            json!({ "type": "string", "pattern": "^[!-~]([ -~]{0,126}[!-~])?$" }),
        ),
        "If-None-Match": header(
            "If-None-Match",
            "The `ETag` of the answer before, or several, or `*`: 304 where nothing has changed.",
            json!({ "type": "string" }),
        ),
        "Last-Event-ID": header(
            "Last-Event-ID",
            "The `id` of the last message that was seen: the stream goes on behind it. What is no number of ours is passed over.",
            json!({ "type": "string" }),
        ),
        "Signature": {
            "name": "signature", "in": "query", "required": true,
            "description": "As `pathImageUrl` has it; another one is answered with 403.",
            "schema": { "type": "string" }, "example": "9f86d081884c7d659a2feaa0c55ad015",
        },
    })
}

fn headers() -> Value {
    let header =
        |description: &str, schema: Value| json!({ "description": description, "schema": schema });
    let text = || json!({ "type": "string" });
    let seconds = |least: u32| json!({ "type": "integer", "minimum": least });
    json!({
        "X-Request-Id": header(
            "By what the request, its answer and its log lines find each other: what you gave (letters, digits, `.`, `_`, `-`), \
             else ours.",
            text(),
        ),
        "Retry-After": header("Seconds after which it may be tried again.", seconds(0)),
        "WWW-Authenticate": header("How to give a credential.", text()),
        "Allow": header("The methods that the path takes.", text()),
        "Accept": header("The media types that the path takes.", text()),
        "Accept-Encoding": header("The content encodings that the path takes.", text()),
        "Upgrade": header("`websocket`.", text()),
        "X-Accel-Buffering": header("`no`: proxies pass on what comes as it comes.", text()),
        "ETag": header("Changes whenever the answer does.", text()),
        "Age": header(
            "Only where another node that runs the session can't be reached: how old the snapshot is that this answer was made \
             from, seconds.",
            seconds(0),
        ),
        "Cache-Control": header("How long the answer may be kept.", text()),
    })
}
