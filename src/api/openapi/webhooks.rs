//! Webhook configuration and deliveries, and the three events as the receiver sees them.

use porchlight_http::problem::Code;
use porchlight_schema::message::MessageEvent;
use serde_json::{Map, Value, json};

use super::examples::{self, one};
use super::operation::{Operation, Who, schema};

/// No webhook to do it with.
const NONE: [Code; 2] = [Code::WebhookNotFound, Code::NotAcceptable];

/// Paths and what may be done there.
pub(super) fn paths() -> Value {
    json!({
        "/v1/webhooks": { "post": register(), "get": show(), "put": change(), "delete": remove() },
        "/v1/webhooks/rotate": { "post": rotate() },
        "/v1/webhooks/test": { "post": test() },
        "/v1/webhooks/deliveries": { "get": list() },
        "/v1/webhooks/deliveries/{id}": { "get": delivery() },
        "/v1/webhooks/deliveries/{id}/retry": { "post": retry() },
        "/v1/webhooks/deliveries/retry": { "post": retry_many() },
    })
}

fn register() -> Value {
    Operation::new(
        "createWebhook",
        "Webhooks",
        Who::Secret,
        "Configure a webhook",
        "One configuration for each organization and environment. The URL is looked up and asked for its certificate; a host that does \
         not answer is accepted. The secret is shown only here and by rotate.",
    )
    .json_body("WebhookRegistration", true, one("plain", json!({ "url": "https://hooks.example.com/porchlight" })))
    .json_answer(201, "The configuration, with its secret.", "NewWebhook", one("made", examples::new_webhook()))
    .problems(&[Code::Conflict, Code::WebhookExists])
    .done()
}

fn show() -> Value {
    Operation::new(
        "getWebhook",
        "Webhooks",
        Who::Secret,
        "Show the webhook",
        "The configuration, without its secret.",
    )
    .json_answer(
        200,
        "The configuration.",
        "Webhook",
        one("plain", examples::webhook()),
    )
    .problems(&NONE)
    .done()
}

fn change() -> Value {
    Operation::new(
        "changeWebhook",
        "Webhooks",
        Who::Secret,
        "Change the webhook",
        "Changes URL and pause; what is left out stays. A changed URL applies to what waits.",
    )
    .json_body(
        "WebhookChange",
        true,
        one("pause", json!({ "enabled": false })),
    )
    .json_answer(
        200,
        "The configuration.",
        "Webhook",
        one("plain", examples::webhook()),
    )
    .problems(&NONE)
    .problems(&[Code::Conflict])
    .done()
}

fn remove() -> Value {
    Operation::new(
        "deleteWebhook",
        "Webhooks",
        Who::Secret,
        "Remove the webhook",
        "What was pending is cancelled.",
    )
    .answer(204, "It is gone.", &[], Value::Null)
    .problems(&[Code::WebhookNotFound, Code::Conflict])
    .done()
}

fn rotate() -> Value {
    Operation::new(
        "rotateWebhookSecret",
        "Webhooks",
        Who::Secret,
        "Change the secret",
        "Makes a new secret; the one before goes on signing for `overlapSec`. While that runs only a request with `overlapSec` 0 is \
         taken, which ends all older secrets. The body may be left out.",
    )
    .json_body("Rotation", false, one("hour", json!({ "overlapSec": 3_600 })))
    .json_answer(200, "The configuration, with the new secret.", "RotatedWebhook", one("made", examples::rotated_webhook()))
    .problems(&NONE)
    .problems(&[Code::Conflict, Code::OverlapRunning])
    .done()
}

fn test() -> Value {
    let report = json!({ "deliveryId": examples::delivery_id(), "statusCode": 200, "durationMs": 84, "error": null });
    Operation::new(
        "testWebhook",
        "Webhooks",
        Who::Secret,
        "Send a test event",
        "A sample of the event is sent once, at once, through the same guards, with `\"test\": true` in it; `insight.updated` where the \
         body does not say. The answer tells how it went. Works while the webhook is disabled. The body may be left out.",
    )
    .json_body("TestOrder", false, one("stopped", json!({ "event": "session.stopped" })))
    .json_answer(200, "How it went.", "TestReport", one("good", report))
    .problems(&NONE)
    .done()
}

fn list() -> Value {
    let page = json!({ "data": [examples::delivery()], "nextCursor": null });
    Operation::new(
        "listDeliveries",
        "Webhooks",
        Who::Secret,
        "List deliveries",
        "What was queued for the webhook and what became of it, newest first.",
    )
    .query(
        "status",
        "Only those that stand so.",
        schema("DeliveryStatus"),
    )
    .query("event", "Only those of this event.", schema("WebhookEvent"))
    .query(
        "sessionId",
        "Only those of this session.",
        schema("SessionId"),
    )
    .parameter("From")
    .parameter("To")
    .parameter("Limit")
    .parameter("Cursor")
    .json_answer(200, "A page.", "DeliveryPage", one("page", page))
    .problems(&[Code::InvalidParameter])
    .done()
}

fn delivery() -> Value {
    Operation::new(
        "getDelivery",
        "Webhooks",
        Who::Secret,
        "Show a delivery",
        "The delivery with its payload and every attempt.",
    )
    .parameter("DeliveryId")
    .json_answer(
        200,
        "The delivery.",
        "DeliveryDetail",
        one("retrying", examples::delivery_detail()),
    )
    .problems(&[Code::DeliveryNotFound, Code::NotAcceptable])
    .done()
}

fn retry() -> Value {
    Operation::new(
        "retryDelivery",
        "Webhooks",
        Who::Secret,
        "Try a delivery again",
        "One try at once, outside the order of its session. What failed stays `failed` if it fails again; of one that waits it counts as \
         its next try; what was delivered may be sent again.",
    )
    .parameter("DeliveryId")
    .json_answer(202, "It will be tried.", "RetryReport", one("one", json!({ "count": 1 })))
    .problems(&[Code::DeliveryNotFound, Code::NotRetryable, Code::NotAcceptable])
    .done()
}

fn retry_many() -> Value {
    let report = json!({ "count": 12, "truncated": false });
    Operation::new(
        "retryDeliveries",
        "Webhooks",
        Who::Secret,
        "Try deliveries again",
        "Tries all that pass the filter again, at most 10,000 a call; those that failed, where the filter names no status.",
    )
    .json_body(
        "RetryOrder",
        false,
        one("day", json!({ "from": "2026-11-20T00:00:00.000Z", "dryRun": true })),
    )
    .json_answer(
        202,
        "How many will be tried.",
        "RetryReport",
        one("some", report),
    )
    .done()
}

/// What the service sends: the field `webhooks` of the document.
pub(super) fn events() -> Value {
    let mut events = Map::new();
    for event in MessageEvent::ALL {
        events.insert(event.as_str().to_owned(), json!({ "post": message(event) }));
    }
    events.into()
}

fn message(event: MessageEvent) -> Value {
    let (id, summary, data) = match event {
        MessageEvent::SessionStarted => ("onSessionStarted", "A session began", "Session"),
        MessageEvent::SessionStopped => (
            "onSessionStopped",
            "A session was stopped, or timed out",
            "Session",
        ),
        MessageEvent::InsightUpdated => (
            "onInsightUpdated",
            "An insight was scored, or scored anew",
            "InsightMessage",
        ),
    };
    let word = event.as_str();
    let body = json!({
        "type": "object",
        "required": ["event", "timestamp", "data"],
        "description": "The envelope. On a test event there is `\"test\": true`, and the session's id is `ses_test`.",
        "properties": {
            "event": { "const": word },
            "timestamp": { "type": "string", "format": "date-time", "description": "When it happened." },
            "data": schema(data),
            "test": { "const": true },
        },
    });
    json!({
        "operationId": id,
        "tags": ["Webhooks"],
        "summary": summary,
        "description": "Sent to the configured URL. A 2xx whose head arrives within 5 s is success; everything else fails, redirects too, \
            and is tried again 1 min, 5 min, 30 min, 2 h and 24 h after the failure before. At least once: know a repeat by \
            `X-Service-Delivery-Id`. A session's events arrive in their order. Check the signature over the raw body.",
        "security": [],
        "parameters": headers(word),
        "requestBody": { "required": true, "content": { "application/json": {
            "schema": body, "examples": one("event", examples::message(word)),
        } } },
        "responses": {
            "2XX": { "description": "Taken. The body decides nothing." },
            "default": { "description": "Not taken: it is sent again." },
        },
    })
}

fn headers(event: &str) -> Value {
    let header = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "header", "required": true, "description": description, "schema": schema });
    let text = || json!({ "type": "string" });
    let hex = || json!({ "type": "string", "pattern": "^sha256=[0-9a-f]{64}$" });
    let mut previous = header(
        "X-Service-Signature-Previous",
        "While an overlap runs: the same with the secret before.",
        hex(),
    );
    previous["required"] = false.into();
    json!([
        header(
            "X-Service-Signature",
            "`sha256=` and the HMAC-SHA256 of the raw body in hex; the key is the secret as given, `whsec_` included.",
            hex()
        ),
        previous,
        header("X-Service-Event", "The event.", json!({ "const": event })),
        header("X-Service-Delivery", "The session's id.", text()),
        header(
            "X-Service-Delivery-Id",
            "The delivery's id, the same on every attempt.",
            schema("DeliveryId")
        ),
        header(
            "X-Service-Attempt",
            "Which try, from 1; 1 to 6 by schedule, more by hand.",
            json!({ "type": "integer", "minimum": 1 })
        ),
        header(
            "X-Service-Sequence",
            "0, 1, 2 … within the session; superseded ones count too.",
            json!({ "type": "integer", "minimum": 0 })
        ),
        header(
            "webhook-id",
            "Standard Webhooks: the delivery's id.",
            schema("DeliveryId")
        ),
        header(
            "webhook-timestamp",
            "Standard Webhooks: seconds since 1970, of this attempt.",
            json!({ "type": "integer" })
        ),
        header(
            "webhook-signature",
            "Standard Webhooks: `v1,` and a signature in base64, of every live secret.",
            text()
        ),
    ])
}
