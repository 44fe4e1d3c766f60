//! Tests telemetry over a WebSocket: one batch per message, one answer for each.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use actix_http::ws::{CloseCode, Codec, Frame, Item, Message};
use bytes::{Bytes, BytesMut};
use porchlight_core::shares::ShareLimits;
use porchlight_http::Settings;
use porchlight_schema::limits::{
    LARGE_BODY_BYTES, NODE_IN_FLIGHT_BYTES_MAX, SESSION_IN_FLIGHT_MAX, SESSION_SOCKETS_MAX,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder, Encoder};

use crate::answer::Answer;
use crate::protobuf::{acknowledgement, encode};
use crate::server::{Server, Started, batch, config, service_with_commits, telemetry};
use crate::shares::wait_until;

/// The client end of a socket.
pub(crate) struct Phone {
    stream: TcpStream,
    codec: Codec,
    received: BytesMut,
}

impl Phone {
    pub(crate) async fn connect(server: &Server, session: &Started, key: &str) -> Self {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            telemetry(&session.id)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut received = BytesMut::new();
        let head = loop {
            assert!(stream.read_buf(&mut received).await.unwrap() > 0, "closed");
            if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                break received.split_to(end + 4);
            }
        };
        let head = String::from_utf8_lossy(&head).to_lowercase();
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        // RFC 6455, section 1.3, has this answer to the key of the request as its example.
        assert!(
            head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{head}"
        );
        assert!(head.contains("x-request-id: "), "{head}");
        let codec = Codec::new().client_mode().max_size(1024 * 1024);
        Self {
            stream,
            codec,
            received,
        }
    }

    async fn send(&mut self, message: Message) {
        let mut out = BytesMut::new();
        self.codec.encode(message, &mut out).unwrap();
        self.stream.write_all(&out).await.unwrap();
    }

    pub(crate) async fn text(&mut self, batch: &Value) {
        self.send(Message::Text(batch.to_string().into())).await;
    }

    /// Returns the next frame, or `None` if the connection is closed.
    async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.codec.decode(&mut self.received).unwrap() {
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.received).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn answer(&mut self) -> Value {
        match self.frame().await {
            Some(Frame::Text(text)) => serde_json::from_slice(&text).unwrap(),
            Some(Frame::Binary(bytes)) => json!({ "binary": acknowledgement(&bytes) }),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the close frame and the end of the connection, and returns the close code.
    pub(crate) async fn closed(mut self) -> CloseCode {
        match self.frame().await {
            Some(Frame::Close(Some(reason))) => {
                self.send(Message::Close(None)).await;
                assert_eq!(self.frame().await, None);
                reason.code
            }
            other => panic!("{other:?}"),
        }
    }
}

#[actix::test]
async fn each_message_gets_a_response_in_its_format_and_in_order() {
    let server = Server::start().await;
    let session = server.start_session().await;
    for key in [&session.token, &server.keys.secret] {
        let mut phone = Phone::connect(&server, &session, key).await;
        phone.text(&batch(0)).await;
        phone.send(Message::Binary(encode(&batch(1)).into())).await;
        assert_eq!(phone.answer().await, json!({ "ackSeq": 0 }));
        assert_eq!(phone.answer().await, json!({ "binary": { "ackSeq": 1 } }));
        // A ping is answered, and a ping may arrive among the fragments of a message.
        let text = batch(2).to_string();
        let (begin, rest) = text.split_at(100);
        let (middle, end) = rest.split_at(50);
        let piece = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        phone
            .send(Message::Continuation(Item::FirstText(piece(begin))))
            .await;
        phone
            .send(Message::Continuation(Item::Continue(piece(middle))))
            .await;
        phone.send(Message::Ping(piece("ping"))).await;
        assert_eq!(phone.frame().await, Some(Frame::Pong(piece("ping"))));
        phone
            .send(Message::Continuation(Item::Last(piece(end))))
            .await;
        assert_eq!(phone.answer().await, json!({ "ackSeq": 2 }));
        phone
            .send(Message::Close(Some(CloseCode::Away.into())))
            .await;
        assert_eq!(phone.closed().await, CloseCode::Away);
    }
    // A batch sent over the socket is the same as one sent over HTTP.
    let answer = server
        .post(&telemetry(&session.id), &session.token, &batch(2))
        .await;
    assert_eq!(answer.status, 202);
    // More batches wait than one session may have in flight, and all are answered.
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    let seqs = 3..3 + 10 * SESSION_IN_FLIGHT_MAX;
    for seq in seqs.clone() {
        phone.text(&batch(seq)).await;
    }
    for seq in seqs {
        assert_eq!(phone.answer().await, json!({ "ackSeq": seq }));
    }
    server.stop().await;
}

#[actix::test]
async fn a_refused_batch_leaves_the_connection_open() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    phone.text(&batch(0)).await;
    assert_eq!(phone.answer().await["ackSeq"], 0);
    let mut other = batch(0);
    other["samples"][0]["lat"] = json!(51.4);
    let bad = json!({ "seq": 1, "samples": [{ "kind": "pressure", "t": 1 }] });
    let text = |text: &str| Message::Text(text.to_owned().into());
    let cases = [
        (text(&other.to_string()), 409, "seq_conflict"),
        (text(&bad.to_string()), 422, "invalid_body"),
        (text("{"), 400, "malformed_json"),
        (text(""), 400, "malformed_json"),
        (
            Message::Binary(Bytes::from_static(b"{}")),
            400,
            "malformed_protobuf",
        ),
        (Message::Binary(encode(&bad).into()), 422, "invalid_body"),
    ];
    for (message, status, code) in cases {
        phone.send(message).await;
        let problem = phone.answer().await;
        assert_eq!(
            (&problem["status"], &problem["code"]),
            (&json!(status), &json!(code)),
            "{problem}"
        );
        assert!(problem["requestId"].is_string() && problem["type"].is_string());
    }
    let permits = server.fill_session(&session.id).await;
    phone.text(&batch(1)).await;
    assert_eq!(phone.answer().await["code"], "session_busy");
    drop(permits);
    let all = server.fill_node(NODE_IN_FLIGHT_BYTES_MAX);
    phone.text(&batch(1)).await;
    assert_eq!(phone.answer().await["code"], "overloaded");
    drop(all);
    phone.text(&batch(1)).await;
    assert_eq!(phone.answer().await["ackSeq"], 1);
    server.stop().await;
}

#[actix::test]
async fn the_close_code_gives_the_reason() {
    let server = Server::start().await;
    let session = server.start_session().await;
    // A message that is too large is refused, in one frame and in many.
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    phone.codec = Codec::new().client_mode();
    phone
        .send(Message::Text(" ".repeat(1024 * 1024 + 1).into()))
        .await;
    assert_eq!(phone.closed().await, CloseCode::Size);
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    let half = Bytes::from(vec![b' '; 600 * 1024]);
    phone
        .send(Message::Continuation(Item::FirstBinary(half.clone())))
        .await;
    phone
        .send(Message::Continuation(Item::Continue(half)))
        .await;
    assert_eq!(phone.closed().await, CloseCode::Size);
    // A frame that announces too large a size in its head is refused immediately, alone and as a
    // later fragment of a message.
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    let head = |first: u8, length: u64| [&[first, 0xff][..], &length.to_be_bytes()].concat();
    let announced = head(0x82, 200 * 1024 * 1024);
    phone.stream.write_all(&announced).await.unwrap();
    assert_eq!(phone.closed().await, CloseCode::Size);
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    let half = Bytes::from(vec![b' '; 600 * 1024]);
    phone
        .send(Message::Continuation(Item::FirstBinary(half)))
        .await;
    let announced = head(0x00, 600 * 1024);
    phone.stream.write_all(&announced).await.unwrap();
    assert_eq!(phone.closed().await, CloseCode::Size);
    // A frame that is not masked is a protocol error.
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    phone
        .stream
        .write_all(&[0x81, 2, b'{', b'}'])
        .await
        .unwrap();
    assert_eq!(phone.closed().await, CloseCode::Protocol);
    // A long message gets no permit on a full node.
    let all = server.fill_node(NODE_IN_FLIGHT_BYTES_MAX);
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    phone
        .send(Message::Text(" ".repeat(500 * 1024).into()))
        .await;
    assert_eq!(phone.closed().await, CloseCode::Again);
    drop(all);
    // At the stop, previously sent messages are answered.
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    let other = Phone::connect(&server, &session, &server.keys.secret).await;
    phone.text(&batch(0)).await;
    let body = json!({ "sessionId": session.id });
    let answer = server
        .post("/v1/sessions/stop", &session.token, &body)
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(phone.answer().await["ackSeq"], 0);
    assert_eq!(
        (phone.closed().await, other.closed().await),
        (CloseCode::Normal, CloseCode::Normal)
    );
    // A socket opened after the stop accepts late telemetry, as HTTP does.
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    phone.text(&batch(1)).await;
    assert_eq!(phone.answer().await["ackSeq"], 1);
    server.clock.advance_min(11);
    phone.text(&batch(2)).await;
    assert_eq!(phone.answer().await["code"], "session_completed");
    server.service.drain().await;
    assert_eq!(phone.closed().await, CloseCode::Away);
    server.stop().await;
}

#[actix::test]
async fn the_upgrade_is_checked_like_any_request() {
    let server = Server::start().await;
    let (session, other) = (server.start_session().await, server.start_session().await);
    let path = telemetry(&session.id);
    let upgrade = |key: &str, version: &str, nonce: &str| {
        let request = server
            .request(Method::GET, &path)
            .header("Service-Key", key);
        request
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", version)
            .header("Sec-WebSocket-Key", nonce)
    };
    let nonce = "dGhlIHNhbXBsZSBub25jZQ==";
    Answer::of(upgrade(&other.token, "13", nonce))
        .await
        .assert_problem(403, "other_session");
    Answer::of(upgrade(&server.keys.other, "13", nonce))
        .await
        .assert_problem(404, "session_not_found");
    Answer::of(upgrade("pk_sandbox_x", "13", nonce))
        .await
        .assert_problem(401, "credential_invalid");
    let old = Answer::of(upgrade(&session.token, "8", nonce)).await;
    assert_eq!(
        old.assert_problem(426, "upgrade_required")
            .header("sec-websocket-version"),
        "13"
    );
    Answer::of(upgrade(&session.token, "13", "short"))
        .await
        .assert_problem(400, "bad_request");
    let plain = server.get(&path, &session.token).await;
    assert_eq!(
        plain
            .assert_problem(426, "upgrade_required")
            .header("upgrade"),
        "websocket"
    );
    let mut phones = Vec::new();
    for _ in 0..SESSION_SOCKETS_MAX {
        phones.push(Phone::connect(&server, &session, &session.token).await);
    }
    Answer::of(upgrade(&session.token, "13", nonce))
        .await
        .assert_problem(429, "too_many_streams");
    Phone::connect(&server, &other, &other.token).await;
    drop(phones);
    server.service.drain().await;
    Answer::of(upgrade(&session.token, "13", nonce))
        .await
        .assert_problem(503, "draining");
    server.stop().await;
}

#[actix::test]
async fn a_connection_counts_once_for_any_number_of_messages() {
    let server = Server::with(Settings {
        rate_limit_per_second: 10,
        ..config()
    })
    .await;
    let session = server.start_session().await;
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    for seq in 0..100 {
        phone.text(&batch(seq)).await;
        assert_eq!(phone.answer().await["ackSeq"], seq);
    }
    server.stop().await;
}

#[actix::test]
async fn batches_are_answered_while_a_large_one_waits_for_its_turn() {
    // No commit of a batch is completed until the gate is dropped.
    let (gate, closed) = sync_channel::<()>(0);
    let closed = Mutex::new(closed);
    let wait = move || {
        let _dropped = closed.lock().unwrap().recv();
    };
    let clock = Arc::default();
    let (service, store, arbiters) =
        service_with_commits(Arc::clone(&clock), ShareLimits::default(), wait);
    let server = Server::serve(service, store, clock, arbiters, config()).await;
    let session = server.start_session().await;
    let target = server.service.target(session.id.parse().unwrap()).await;
    let target = target.unwrap().unwrap();
    let turn = target.usage().acquire_large_body().await.unwrap();
    let mut phone = Phone::connect(&server, &session, &session.token).await;
    phone.text(&batch(0)).await;
    let large = format!("{}{}", batch(1), " ".repeat(LARGE_BODY_BYTES));
    phone.send(Message::Text(large.into())).await;
    // The permits of both batches and of the socket's buffer.
    wait_until(async || server.service.bodies_in_flight() == 3).await;
    drop(gate);
    assert_eq!(phone.answer().await, json!({ "ackSeq": 0 }));
    drop(turn);
    assert_eq!(phone.answer().await, json!({ "ackSeq": 1 }));
    server.stop().await;
}
