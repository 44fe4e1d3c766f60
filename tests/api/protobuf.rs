//! Tests batches as protobuf, with the schema that the service publishes.

use std::sync::LazyLock;

use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, batch, telemetry};

const MEDIA_TYPE: &str = "application/x-protobuf";

/// Returns a message descriptor of the published schema.
fn message(name: &str) -> MessageDescriptor {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let files = protox::compile(["porchlight.proto"], ["schema"]).unwrap();
        DescriptorPool::from_file_descriptor_set(files).unwrap()
    });
    POOL.get_message_by_name(&format!("porchlight.v1.{name}"))
        .unwrap()
}

/// Encodes a JSON batch as protobuf.
pub(crate) fn encode(batch: &Value) -> Vec<u8> {
    let message = DynamicMessage::deserialize(message("Batch"), batch).unwrap();
    message.encode_to_vec()
}

/// Decodes an acknowledgement to JSON.
pub(crate) fn acknowledgement(bytes: &[u8]) -> Value {
    let message = DynamicMessage::decode(message("AckSeq"), bytes).unwrap();
    serde_json::to_value(&message).unwrap()
}

struct Sent {
    status: u16,
    content_type: String,
    body: Vec<u8>,
}

async fn send(
    server: &Server,
    path: &str,
    key: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Sent {
    let mut request = server
        .request(Method::POST, path)
        .header("Service-Key", key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.body(body).send().await.unwrap();
    Sent {
        status: answer.status().as_u16(),
        content_type: answer.headers()["content-type"].to_str().unwrap().into(),
        body: answer.bytes().await.unwrap().into(),
    }
}

#[actix::test]
async fn a_batch_is_the_same_in_either_format() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = telemetry(&session.id);
    let sent = send(
        &server,
        &path,
        &session.token,
        &[("Content-Type", MEDIA_TYPE)],
        encode(&batch(0)),
    )
    .await;
    assert_eq!((sent.status, sent.content_type.as_str()), (202, MEDIA_TYPE));
    assert_eq!(
        acknowledgement(&sent.body),
        json!({ "sessionId": session.id, "ackSeq": 0 })
    );
    // The same content sent again as JSON is the same batch, and other content is not.
    let again = server.post(&path, &session.token, &batch(0)).await;
    assert_eq!((again.status, &again.json["ackSeq"]), (202, &json!(0)));
    let mut another = batch(0);
    another["samples"][3]["lat"] = json!(51.39);
    let sent = send(
        &server,
        &path,
        &session.token,
        &[("Content-Type", MEDIA_TYPE)],
        encode(&another),
    )
    .await;
    assert_eq!(
        (sent.status, sent.content_type.as_str()),
        (409, "application/problem+json")
    );
    // Compressed, and answered in the client's preferred format.
    let zipped = zstd::encode_all(&encode(&batch(1))[..], 3).unwrap();
    let headers = [
        ("Content-Type", MEDIA_TYPE),
        ("Content-Encoding", "zstd"),
        ("Accept", "application/json"),
    ];
    let sent = send(&server, &path, &session.token, &headers, zipped).await;
    assert_eq!(
        (sent.status, sent.content_type.as_str()),
        (202, "application/json")
    );
    let answer: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(answer, json!({ "sessionId": session.id, "ackSeq": 1 }));
    server.stop().await;
}

#[actix::test]
async fn every_fault_returns_a_problem() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = telemetry(&session.id);
    let good = encode(&batch(0));
    let bad =
        encode(&json!({ "seq": 1, "samples": [{ "kind": "pressure", "t": 1, "hPa": 2_000 }] }));
    let many = json!({ "seq": 1, "samples": vec![json!({ "kind": "steps", "t": 1, "count": 1 }); 20_001] });
    let no_session = telemetry("ses_00000000000000000000000000");
    let cases = [
        (
            path.as_str(),
            MEDIA_TYPE,
            "*/*",
            b"{}".to_vec(),
            400,
            "malformed_protobuf",
        ),
        (&path, MEDIA_TYPE, "*/*", bad.clone(), 422, "invalid_body"),
        (
            &path,
            MEDIA_TYPE,
            "*/*",
            encode(&many),
            413,
            "too_many_samples",
        ),
        (
            &path,
            MEDIA_TYPE,
            "*/*",
            vec![0; 1024 * 1024 + 1],
            413,
            "body_too_large",
        ),
        (
            &path,
            "application/protobuf+json",
            "*/*",
            good.clone(),
            415,
            "unsupported_media_type",
        ),
        (
            &path,
            MEDIA_TYPE,
            "text/html",
            good.clone(),
            406,
            "not_acceptable",
        ),
        (
            &path,
            "application/json",
            "*/*",
            good.clone(),
            400,
            "malformed_json",
        ),
        (
            &no_session,
            "text/plain",
            "*/*",
            good,
            404,
            "session_not_found",
        ),
    ];
    for (path, media_type, accept, body, status, code) in cases {
        let request = server
            .request(Method::POST, path)
            .header("Service-Key", &server.keys.secret)
            .header("Content-Type", media_type)
            .header("Accept", accept)
            .body(body);
        Answer::of(request).await.assert_problem(status, code);
    }
    let request = server
        .request(Method::POST, &path)
        .header("Service-Key", &session.token);
    let answer = Answer::of(request.header("Content-Type", MEDIA_TYPE).body(bad)).await;
    assert_eq!(
        answer.assert_problem(422, "invalid_body").faults(),
        ["/samples/0/hPa"]
    );
    server.stop().await;
}

#[actix::test]
async fn the_schema_is_served() {
    let server = Server::start().await;
    // Only paths under `/v1` refuse unknown parameters.
    for path in ["/porchlight.proto", "/porchlight.proto?x=1"] {
        let answer = Answer::of(server.request(Method::GET, path)).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, "text/plain; charset=utf-8")
        );
        assert_eq!(
            answer.text,
            std::fs::read_to_string("schema/porchlight.proto").unwrap()
        );
    }
    server.stop().await;
}
