//! Tests batches of many sessions in one request, one per line.

use std::io::Write;

use porchlight_http::Settings;
use porchlight_schema::limits::{
    NDJSON_FAULTY_LINES_MAX, NODE_IN_FLIGHT_BYTES_MAX, SESSION_IN_FLIGHT_MAX,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::answer::Answer;
use crate::server::{Server, batch, config, telemetry};

const PATH: &str = "/v1/telemetry";
const MEDIA_TYPE: &str = "application/x-ndjson";

fn line(session: &str, seq: u32) -> String {
    let mut line = batch(seq);
    line["sessionId"] = json!(session);
    format!("{line}\n")
}

fn request(server: &Server, key: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
    let request = server
        .request(Method::POST, PATH)
        .header("Service-Key", key);
    request.header("Content-Type", MEDIA_TYPE).body(body)
}

/// Returns the lines of the answer.
async fn lines(request: reqwest::RequestBuilder) -> Vec<Value> {
    let answer = Answer::of(request).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, MEDIA_TYPE),
        "{answer:?}"
    );
    assert!(answer.text.is_empty() || answer.text.ends_with('\n'));
    answer
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn accepted(session: &str, seq: u32) -> Value {
    json!({ "sessionId": session, "seq": seq, "status": 202 })
}

fn refused(session: Option<&str>, seq: Option<u32>, status: u16, code: &str) -> Value {
    json!({ "sessionId": session, "seq": seq, "status": status, "code": code })
}

#[actix::test]
async fn each_line_gets_the_response_of_a_single_call() {
    let server = Server::start().await;
    let (one, two) = (
        server.start_session().await.id,
        server.start_session().await.id,
    );
    let (live, nobodys) = ("ses_00000000000000000000000000", "nothing");
    let mut other = batch(0);
    other["samples"][0]["lat"] = json!(51.4);
    other["sessionId"] = json!(one);
    let bad = json!({ "sessionId": two, "seq": 7, "samples": [{ "kind": "pressure", "t": 1 }] });
    let many =
        json!({ "sessionId": two, "seq": 8, "samples": vec![json!({ "kind": "x" }); 20_001] });
    let cases = [
        (line(&one, 0), Some(accepted(&one, 0))),
        (line(&two, 0), Some(accepted(&two, 0))),
        ("\n".into(), None),
        (" \t\r\n".into(), None),
        (line(&one, 0), Some(accepted(&one, 0))),
        (
            format!("{other}\n"),
            Some(refused(Some(&one), Some(0), 409, "seq_conflict")),
        ),
        (
            format!("{bad}\r\n"),
            Some(refused(Some(&two), Some(7), 422, "invalid_body")),
        ),
        (
            format!("{many}\n"),
            Some(refused(Some(&two), Some(8), 413, "too_many_samples")),
        ),
        (
            line(live, 1),
            Some(refused(Some(live), Some(1), 404, "session_not_found")),
        ),
        (
            line(nobodys, 1),
            Some(refused(Some(nobodys), Some(1), 404, "session_not_found")),
        ),
        (
            format!("{}\n", batch(3)),
            Some(refused(None, Some(3), 422, "invalid_body")),
        ),
        (
            "{\"sessionId\":7,\"seq\":-1}\n".into(),
            Some(refused(None, None, 422, "invalid_body")),
        ),
        (
            "[]\n".into(),
            Some(refused(None, None, 400, "malformed_json")),
        ),
        (
            "{\"sessionId\":\n".into(),
            Some(refused(None, None, 400, "malformed_json")),
        ),
        (
            "\u{0}\n".into(),
            Some(refused(None, None, 400, "malformed_json")),
        ),
        // The last line needs no line end.
        (line(&two, 1).trim_end().into(), Some(accepted(&two, 1))),
    ];
    let body: String = cases.iter().map(|(line, _)| line.as_str()).collect();
    let expected: Vec<_> = cases.into_iter().filter_map(|(_, answer)| answer).collect();
    assert_eq!(
        lines(request(&server, &server.keys.secret, body.clone())).await,
        expected
    );
    // Repeated with other codings: stored batches get the same answer.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.as_bytes()).unwrap();
    let zstd = zstd::encode_all(body.as_bytes(), 3).unwrap();
    for (coding, body) in [("gzip", gzip.finish().unwrap()), ("zstd", zstd)] {
        let request =
            request(&server, &server.keys.secret, body).header("Content-Encoding", coding);
        assert_eq!(lines(request).await, expected, "{coding}");
    }
    // Another organization sees none of these sessions.
    let answers = lines(request(&server, &server.keys.other, line(&one, 0))).await;
    assert_eq!(
        answers,
        [refused(Some(&one), Some(0), 404, "session_not_found")]
    );
    server.stop().await;
}

#[actix::test]
async fn the_lines_of_a_session_are_processed_in_order() {
    let server = Server::start().await;
    let id = server.start_session().await.id;
    let count = 10 * SESSION_IN_FLIGHT_MAX;
    let body: String = (0..count).map(|seq| line(&id, seq)).collect();
    let expected: Vec<_> = (0..count).map(|seq| accepted(&id, seq)).collect();
    assert_eq!(
        lines(request(&server, &server.keys.secret, body)).await,
        expected
    );
    // The first of two bodies with the same number counts.
    let mut other = batch(count);
    other["samples"][0]["lat"] = json!(51.4);
    other["sessionId"] = json!(id);
    let body = format!("{}{other}\n", line(&id, count));
    let answers = lines(request(&server, &server.keys.secret, body)).await;
    assert_eq!(
        answers,
        [
            accepted(&id, count),
            refused(Some(&id), Some(count), 409, "seq_conflict")
        ]
    );
    server.stop().await;
}

#[actix::test]
async fn request_faults_return_a_problem() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let good = line(&session.id, 0);
    let key = &server.keys.secret;
    for refused in [&session.token, &server.keys.client] {
        Answer::of(request(&server, refused, good.clone()))
            .await
            .assert_problem(403, "secret_key_required");
    }
    Answer::of(server.request(Method::POST, PATH).body(good.clone()))
        .await
        .assert_problem(401, "credential_missing");
    server
        .get(PATH, key)
        .await
        .assert_problem(405, "method_not_allowed");
    server
        .post(PATH, key, &batch(0))
        .await
        .assert_problem(415, "unsupported_media_type");
    let builder = request(&server, key, good.clone());
    Answer::of(builder.header("Accept", "application/json"))
        .await
        .assert_problem(406, "not_acceptable");
    let builder = request(&server, key, good.clone());
    Answer::of(builder.header("Content-Encoding", "br"))
        .await
        .assert_problem(415, "unsupported_encoding");
    let builder = request(&server, key, good.clone());
    Answer::of(builder.header("Content-Encoding", "gzip"))
        .await
        .assert_problem(400, "malformed_body");
    Answer::of(request(&server, key, vec![b' '; 16 * 1024 * 1024 + 1]))
        .await
        .assert_problem(413, "body_too_large");
    // 64 MiB of blank lines, and one byte.
    let bomb = zstd::encode_all(&vec![b'\n'; 64 * 1024 * 1024 + 1][..], 3).unwrap();
    let builder = request(&server, key, bomb);
    Answer::of(builder.header("Content-Encoding", "zstd"))
        .await
        .assert_problem(413, "body_too_large");
    assert_eq!(lines(request(&server, key, "")).await, [] as [Value; 0]);
    assert_eq!(lines(request(&server, key, "\n\n")).await, [] as [Value; 0]);
    server.stop().await;
}

#[actix::test]
async fn a_line_has_the_limits_of_a_batch() {
    let server = Server::start().await;
    let id = server.start_session().await.id;
    let key = &server.keys.secret;
    let long = |bytes: usize| format!("{}{}\n", " ".repeat(bytes), line(&id, 0).trim_end());
    let body = [long(1024 * 1024), line(&id, 1)].concat();
    let expected = [refused(None, None, 413, "body_too_large"), accepted(&id, 1)];
    assert_eq!(lines(request(&server, key, body)).await, expected);
    // In a compressed request the limit is that of an unpacked batch.
    let body = [long(1024 * 1024), long(8 * 1024 * 1024), line(&id, 2)].concat();
    let body = zstd::encode_all(body.as_bytes(), 3).unwrap();
    let expected = [
        accepted(&id, 0),
        refused(None, None, 413, "body_too_large"),
        accepted(&id, 2),
    ];
    assert_eq!(
        lines(request(&server, key, body).header("Content-Encoding", "zstd")).await,
        expected
    );
    server.stop().await;
}

/// A request sent piece by piece, and its answer, read as it arrives.
struct PiecewiseRequest {
    stream: BufReader<TcpStream>,
}

impl PiecewiseRequest {
    async fn begin(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nContent-Type: {MEDIA_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n",
            server.keys.secret
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.stream.get_mut().write_all(&chunk).await.unwrap();
    }

    /// Returns the next line that is an answer.
    async fn answer(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(
                self.stream.read_line(&mut line).await.unwrap() > 0,
                "closed"
            );
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }
}

#[actix::test]
async fn lines_are_answered_on_arrival_and_overloaded_one_by_one() {
    let server = Server::start().await;
    let id = server.start_session().await.id;
    let mut slow = PiecewiseRequest::begin(&server).await;
    slow.send(line(&id, 0).as_bytes()).await;
    assert_eq!(
        slow.answer().await,
        accepted(&id, 0),
        "the rest has not been sent"
    );
    let whole = line(&id, 1);
    let (begin, end) = whole.split_at(100);
    slow.send(begin.as_bytes()).await;
    slow.send(end.as_bytes()).await;
    assert_eq!(slow.answer().await, accepted(&id, 1));
    let permits = server.fill_session(&id).await;
    slow.send(line(&id, 2).as_bytes()).await;
    assert_eq!(
        slow.answer().await,
        refused(Some(&id), Some(2), 429, "session_busy")
    );
    drop(permits);
    let all = server.fill_node(NODE_IN_FLIGHT_BYTES_MAX);
    slow.send(line(&id, 2).as_bytes()).await;
    assert_eq!(
        slow.answer().await,
        refused(Some(&id), Some(2), 503, "overloaded")
    );
    // A long line gets no permit, and is refused before it is complete; the next one is accepted
    // again.
    slow.send(&vec![b' '; 300_000]).await;
    assert_eq!(slow.answer().await, refused(None, None, 503, "overloaded"));
    drop(all);
    slow.send(b"{}\n").await;
    slow.send(line(&id, 2).as_bytes()).await;
    assert_eq!(slow.answer().await, accepted(&id, 2));
    slow.stream.get_mut().write_all(b"0\r\n\r\n").await.unwrap();
    server.stop().await;
}

#[actix::test]
async fn the_reason_for_an_early_end_is_in_the_last_line() {
    let server = Server::start().await;
    let id = server.start_session().await.id;
    let body = format!("{}{{\"sess", line(&id, 0));
    let body = zstd::encode_all(body.as_bytes(), 3).unwrap();
    let body = [&body[..], b"and something else"].concat();
    let request = request(&server, &server.keys.secret, body).header("Content-Encoding", "zstd");
    let expected = [accepted(&id, 0), refused(None, None, 400, "malformed_body")];
    assert_eq!(lines(request).await, expected);
    // The batches before the error are stored.
    let answer = server
        .post(&telemetry(&id), &server.keys.secret, &batch(0))
        .await;
    assert_eq!(answer.status, 202);
    server.stop().await;
}

#[actix::test]
async fn a_request_with_too_many_faulty_lines_ends() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let good = line(&session.id, 0);
    let unknown = line("ses_01m7w9gsx00000002yxq0dxjqy", 0);
    let others = NDJSON_FAULTY_LINES_MAX - 1;
    // Accepted lines do not count, and the last of the refused lines ends the request.
    let body = [good.repeat(10), unknown, "x\n".repeat(1_000_000), good].concat();
    let body = zstd::encode_all(body.as_bytes(), 3).unwrap();
    let request = request(&server, &server.keys.secret, body).header("Content-Encoding", "zstd");
    let answers = lines(request).await;
    let (accepted, faulty) = answers.split_at(10);
    assert!(accepted.iter().all(|line| line["status"] == 202));
    assert_eq!(faulty.len(), 1 + others + 1);
    assert_eq!(faulty[0]["code"], "session_not_found");
    let malformed = refused(None, None, 400, "malformed_json");
    assert!(faulty[1..=others].iter().all(|line| *line == malformed));
    assert_eq!(
        faulty[1 + others],
        refused(None, None, 413, "body_too_large")
    );
    server.stop().await;
}

#[actix::test]
async fn a_request_counts_once_for_any_number_of_lines() {
    let server = Server::with(Settings {
        rate_limit_per_second: 10,
        ..config()
    })
    .await;
    let id = server.start_session().await.id;
    let body: String = (0..300).map(|seq| line(&id, seq)).collect();
    let answers = lines(request(&server, &server.keys.secret, body)).await;
    let expected: Vec<_> = (0..300).map(|seq| accepted(&id, seq)).collect();
    assert_eq!(answers, expected);
    server.stop().await;
}

#[actix::test]
async fn a_request_that_fills_the_node_waits_for_its_own_lines() {
    let server = Server::start().await;
    let id = server.start_session().await.id;
    let body: String = (0..40).map(|seq| line(&id, seq)).collect();
    // There is room for one line at a time.
    let room = line(&id, 39).len();
    let others = server.fill_node(NODE_IN_FLIGHT_BYTES_MAX - room);
    let answers = lines(request(&server, &server.keys.secret, body)).await;
    let expected: Vec<_> = (0..40).map(|seq| accepted(&id, seq)).collect();
    assert_eq!(answers, expected);
    drop(others);
    server.stop().await;
}
