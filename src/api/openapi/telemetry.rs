//! Telemetry: a batch, a stream of batches, a WebSocket.

use porchlight_http::problem::Code;
use serde_json::{Value, json};

use super::examples::{self, one};
use super::operation::{Operation, Who, schema};

/// Paths and what may be done there.
pub(super) fn paths() -> Value {
    json!({
        "/v1/sessions/{id}/telemetry": { "post": telemetry(), "get": socket() },
        "/v1/telemetry": { "post": stream() },
    })
}

fn telemetry() -> Value {
    let id = json!({ "id": "$response.body#/sessionId" });
    let acknowledged = json!({ "sessionId": examples::session_id(), "ackSeq": 17 });
    let content = json!({
        "application/json": { "schema": schema("Batch"), "examples": one("walk", examples::batch()) },
        "application/x-protobuf": { "schema": { "type": "string", "format": "binary",
            "description": "`Batch` of `porchlight.proto`." } },
    });
    let answer = json!({
        "application/json": { "schema": schema("Acknowledgement"), "examples": one("durable", acknowledged) },
        "application/x-protobuf": { "schema": { "type": "string", "format": "binary",
            "description": "`AckSeq` of `porchlight.proto`, where the batch came as such." } },
    });
    Operation::new(
        "sendTelemetry",
        "Telemetry",
        Who::Session,
        "Send a batch",
        "Takes one batch. The answer comes once it is durable and not before. A batch sent again is acknowledged again; another body \
         under a used `seq` is refused. Content encodings: gzip, zstd. A bad sample refuses its whole batch, with a pointer to it. \
         For a completed session telemetry is taken for ten minutes after its end.",
    )
    .parameter("SessionId")
    .body("At most 1 MiB as sent, 8 MiB unpacked, 20,000 samples.", true, content)
    .answer(202, "The batch is durable.", &[], answer)
    .links(202, json!({
        "next": { "operationId": "sendTelemetry", "parameters": id, "description": "The next batch." },
        "insight": { "operationId": "getInsight", "parameters": id, "description": "What is known so far." },
        "stop": {
            "operationId": "stopSession", "requestBody": { "sessionId": "$response.body#/sessionId" }, "description": "Ends it.",
        },
    }))
    .problems(&[
        Code::SessionNotFound,
        Code::SeqConflict,
        Code::SessionCompleted,
        Code::TooManySamples,
        Code::MalformedProtobuf,
        Code::SessionBusy,
        Code::Draining,
    ])
    .done()
}

fn socket() -> Value {
    Operation::new(
        "openTelemetrySocket",
        "Telemetry",
        Who::Session,
        "Open a WebSocket for batches",
        "One batch per message: text is JSON, binary is protobuf; at most 1 MiB. Each is answered in the same form, with `{ackSeq}` once \
         it is durable, or with its problem, after which the connection stays. Closed with 1000 after the stop, 1001 when the node \
         drains, 1008 where the credential is no longer good, 1009 for a message that is too large. The credential goes into the \
         upgrade's header.",
    )
    .parameter("SessionId")
    .answer(101, "The connection speaks WebSocket from here on.", &["Upgrade"], Value::Null)
    .problems(&[
        Code::BadRequest,
        Code::SessionNotFound,
        Code::UpgradeRequired,
        Code::TooManyStreams,
        Code::Draining,
    ])
    .done()
}

fn stream() -> Value {
    let id = examples::session_id();
    let mut line = examples::batch();
    line["sessionId"] = id.clone().into();
    let lines = format!("{line}\n");
    let answers = format!(
        "{}\n{}\n",
        json!({ "sessionId": id, "seq": 17, "status": 202 }),
        json!({ "sessionId": null, "seq": null, "status": 400, "code": "malformed_json" }),
    );
    let content = |description: &str, of: &str, example: String| {
        json!({ "application/x-ndjson": {
            "schema": { "type": "string", "description": description },
            "x-line": schema(of),
            "examples": one("lines", example.into()),
        } })
    };
    Operation::new(
        "streamTelemetry",
        "Telemetry",
        Who::Key,
        "Send batches of many sessions",
        "For fleets whose own gateway aggregates phones: one batch a line, each with its `sessionId`; one answer a line, in order, with \
         the status that the single call would have given. Blank lines are skipped. What holds for a batch holds for each line. \
         Overload in the middle refuses the lines it hits with 429 or 503; those done stay done.",
    )
    .body(
        "At most 16 MiB as sent, 64 MiB unpacked.",
        true,
        content("Lines of JSON, each a SessionBatch.", "SessionBatch", lines),
    )
    .answer(200, "An answer for each line.", &[], content("Lines of JSON, each a LineAnswer.", "LineAnswer", answers))
    .problems(&[Code::Draining])
    .done()
}
