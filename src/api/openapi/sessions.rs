//! Sessions: start, stop, proof of delivery, and what is read of them.

use porchlight_http::problem::Code;
use serde_json::{Value, json};

use super::examples::{self, one};
use super::operation::{Operation, Who, schema};

const SESSION_GONE: [Code; 1] = [Code::SessionNotFound];
const READ_PROBLEMS: [Code; 2] = [Code::SessionNotFound, Code::NotAcceptable];

/// Paths and what may be done there.
pub(super) fn paths() -> Value {
    json!({
        "/v1/sessions/start": { "post": start() },
        "/v1/sessions/stop": { "post": stop() },
        "/v1/sessions/{id}/pod": { "post": attach_pod() },
        "/v1/sessions": { "get": list() },
        "/v1/sessions/{id}": { "get": session() },
        "/v1/sessions/{id}/insights": { "get": insight() },
        "/v1/sessions/{id}/evidence": { "get": evidence() },
        "/v1/sessions/{id}/events": { "get": events() },
        "/v1/sessions/{id}/path.png": { "get": path_image("getPathImage", "The path as PNG", "image/png") },
        "/v1/sessions/{id}/path.svg": { "get": path_image("getPathImageSvg", "The path as SVG", "image/svg+xml") },
    })
}

fn start() -> Value {
    let of_session = |operation: &str, description: &str| {
        json!({
            "operationId": operation, "parameters": { "id": "$response.body#/sessionId" }, "description": description,
        })
    };
    Operation::new(
        "startSession",
        "Sessions",
        Who::Key,
        "Start a session",
        "A phone begins to record a delivery. `t` = 0 of its telemetry is `startedAt`.",
    )
    .parameter("Idempotency-Key")
    .json_body("Start", true, examples::start())
    .json_answer(
        201,
        "The session, and the token by which a phone acts on it.",
        "StartedSession",
        one("started", examples::started()),
    )
    .links(
        201,
        json!({
            "telemetry": of_session("sendTelemetry", "What the phone measures goes there."),
            "pod": of_session("attachPod", "The proof of delivery goes there."),
            "session": of_session("getSession", "The session."),
            "insight": of_session("getInsight", "What is known of it."),
            "stop": {
                "operationId": "stopSession", "requestBody": { "sessionId": "$response.body#/sessionId" },
                "description": "Ends it.",
            },
        }),
    )
    .problems(&[
        Code::Conflict,
        Code::IdempotencyKeyReused,
        Code::InvalidParameter,
        Code::Draining,
    ])
    .done()
}

fn stop() -> Value {
    let order = json!({ "sessionId": examples::session_id(), "pod": examples::pod() });
    let of_session = |operation: &str, description: &str| {
        json!({
            "operationId": operation, "parameters": { "id": "$response.body#/sessionId" }, "description": description,
        })
    };
    Operation::new(
        "stopSession",
        "Sessions",
        Who::Session,
        "Stop a session",
        "Ends a session; its insight follows. A session that is completed already is answered as it is. Telemetry is taken for ten \
         more minutes.",
    )
    .json_body("Stop", true, one("withPod", order))
    .json_answer(
        200,
        "The session, completed.",
        "Session",
        one("completed", examples::session(true)),
    )
    .links(
        200,
        json!({
            "insight": of_session("getInsight", "What is known of it."),
            "evidence": of_session("getEvidence", "Why."),
            "session": of_session("getSession", "The session."),
        }),
    )
    .problems(&SESSION_GONE)
    .problems(&[Code::Draining])
    .done()
}

fn attach_pod() -> Value {
    Operation::new(
        "attachPod",
        "Sessions",
        Who::Session,
        "Attach a proof of delivery",
        "A later one replaces it, an identical one changes nothing. After the session's end the insight is made anew.",
    )
    .parameter("SessionId")
    .json_body("Pod", true, one("photo", examples::pod()))
    .json_answer(
        200,
        "The proof of delivery.",
        "Pod",
        one("photo", examples::pod()),
    )
    .problems(&SESSION_GONE)
    .problems(&[Code::Draining])
    .done()
}

fn list() -> Value {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 256 });
    let page = json!({ "data": [examples::session(true)], "nextCursor": null });
    Operation::new(
        "listSessions",
        "Sessions",
        Who::Secret,
        "List sessions",
        "The sessions of the key's organization and environment, newest first.",
    )
    .query(
        "status",
        "Only those that stand so.",
        schema("SessionStatus"),
    )
    .query(
        "deliveryId",
        "Only those of this delivery of yours.",
        text.clone(),
    )
    .query("externalRiderId", "Only those of this courier.", text)
    .parameter("From")
    .parameter("To")
    .parameter("Limit")
    .parameter("Cursor")
    .json_answer(200, "A page.", "SessionPage", one("page", page))
    .problems(&[Code::InvalidParameter])
    .done()
}

fn session() -> Value {
    Operation::new(
        "getSession",
        "Sessions",
        Who::Secret,
        "Show a session",
        "The session as it stands.",
    )
    .parameter("SessionId")
    .json_answer(
        200,
        "The session.",
        "Session",
        one("recording", examples::session(false)),
    )
    .problems(&READ_PROBLEMS)
    .done()
}

fn insight() -> Value {
    let content = json!({ "application/json": { "schema": schema("Insight"), "examples": one("ready", examples::insight()) } });
    Operation::new(
        "getInsight",
        "Insights",
        Who::Secret,
        "Show the insight",
        "What is known of a session: the events so far while it is `processing`, the scores once it is `ready`. Ask again with \
         `If-None-Match` to be told only of changes.",
    )
    .parameter("SessionId")
    .parameter("If-None-Match")
    .answer(
        200,
        "The insight.",
        &["ETag", "Age", "Cache-Control"],
        content,
    )
    .answer(
        304,
        "Nothing has changed.",
        &["ETag", "Age", "Cache-Control"],
        Value::Null,
    )
    .problems(&READ_PROBLEMS)
    .done()
}

fn evidence() -> Value {
    Operation::new(
        "getEvidence",
        "Insights",
        Who::Secret,
        "Show the evidence",
        "Why each score, flag and reason code is what it is, and the version of the weights.",
    )
    .parameter("SessionId")
    .json_answer(
        200,
        "The evidence.",
        "Evidence",
        one("door", examples::evidence()),
    )
    .problems(&READ_PROBLEMS)
    .problems(&[Code::NotScored])
    .done()
}

fn events() -> Value {
    let data = json!({
        "eventId": "evt_01m7w9gsx00000002yxq0dxjqy_0000",
        "type": "WALKING", "tStart": 180.0, "tEnd": null, "confidence": 0.9, "metadata": {},
    });
    let stream = format!("id: 1\nevent: event\ndata: {data}\n\n");
    let content = json!({ "text/event-stream": {
        // Without a type: the whole is a text, and what reads streams takes the schema for that of each event.
        "schema": { "description": "Server-sent events." },
        "x-event": schema("StreamedEvent"), "x-end": schema("StreamEnd"),
        "examples": one("stream", stream.into()),
    } });
    Operation::new(
        "followEvents",
        "Insights",
        Who::Secret,
        "Follow a session's events",
        "Server-sent events: `event` for each event so far and then as it is detected, when it opens and again when it closes (its data \
         is the Event and an `eventId` that is the same both times); at the end `insight` with the Insight, then `end`. `id` is a \
         running number, by which a client that comes again goes on. A comment every 15 s.",
    )
    .parameter("SessionId")
    .parameter("Last-Event-ID")
    .answer(200, "The stream.", &["Cache-Control", "X-Accel-Buffering"], content)
    .answer(204, "The client has had the end: there is nothing to come for again.", &[], Value::Null)
    .problems(&READ_PROBLEMS)
    .problems(&[Code::TooManyStreams, Code::Draining])
    .done()
}

fn path_image(id: &str, summary: &str, media_type: &str) -> Value {
    let content = match media_type {
        "image/png" => json!({ media_type: {} }),
        _ => json!({ media_type: { "schema": { "type": "string" } } }),
    };
    Operation::new(
        id,
        "Insights",
        Who::Anyone,
        summary,
        "The session's path, drawn: how it was gone, stays, entrance, door, the address with its uncertainty, and the floors. It is \
         what `pathImageUrl` leads to, and needs no credential but the signature in it.",
    )
    .parameter("SessionId")
    .parameter("Signature")
    .parameter("If-None-Match")
    .answer(200, "The picture.", &["ETag", "Cache-Control"], content)
    .answer(
        304,
        "Nothing has changed.",
        &["ETag", "Cache-Control"],
        Value::Null,
    )
    .problems(&[
        Code::Forbidden,
        Code::SessionNotFound,
        Code::NotScored,
        Code::NotAcceptable,
        Code::Overloaded,
        Code::StoreUnavailable,
    ])
    .done()
}
