//! Tests the shares of a tenant on a node: in every case, another tenant's batches are accepted
//! meanwhile.

use std::io::Write;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use porchlight_core::shares::ShareLimits;
use porchlight_schema::limits::{LARGE_BODY_PERMIT_MS_MAX, SESSION_IN_FLIGHT_MAX};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::{Answer, raw};
use crate::path_image::link;
use crate::server::{Server, Started, batch, config, start_body, telemetry};

/// The number of connections of the abusive tenant.
const CONNECTIONS: usize = 40;

/// Returns small shares, so that few connections use them up.
fn small() -> ShareLimits {
    ShareLimits {
        in_flight_bytes: 4 * 1024 * 1024,
        requests: 30,
        ..ShareLimits::default()
    }
}

/// A session of the other tenant, whose batches must be accepted regardless of the first tenant.
struct Neighbour {
    session: Started,
    seq: u32,
}

impl Neighbour {
    async fn of(server: &Server) -> Self {
        let started = server
            .post("/v1/sessions/start", &server.keys.other, &start_body())
            .await;
        let text = |name: &str| started.json[name].as_str().unwrap().to_owned();
        let session = Started {
            id: text("sessionId"),
            token: text("sessionToken"),
        };
        Self { session, seq: 0 }
    }

    async fn assert_served(&mut self, server: &Server) {
        let path = telemetry(&self.session.id);
        let answer = server
            .post(&path, &self.session.token, &batch(self.seq))
            .await;
        assert_eq!(answer.status, 202, "{answer:?}");
        self.seq += 1;
    }
}

/// Sends the head of a request that announces a body of 1 MiB, and `sent` of that body.
async fn begin_request(
    server: &Server,
    path: &str,
    key: &str,
    headers: &str,
    sent: &[u8],
) -> TcpStream {
    let headers = format!("Content-Length: 1048576\r\n{headers}");
    begin_sized(server, path, key, &headers, sent).await
}

/// Sends the head of a request whose headers announce the size of its body, and `sent` of that
/// body.
async fn begin_sized(
    server: &Server,
    path: &str,
    key: &str,
    headers: &str,
    sent: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nService-Key: {key}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

const JSON: &str = "Content-Type: application/json\r\n";

/// Returns the beginning of the next answer, in lower case.
async fn read_answer(stream: &mut TcpStream) -> String {
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..length]).to_lowercase()
}

/// Waits until a condition holds, at most a minute.
pub(crate) async fn wait_until(condition: impl AsyncFn() -> bool) {
    for _ in 0..6_000 {
        if condition().await {
            return;
        }
        actix_rt::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the condition did not hold in time");
}

async fn stop(server: &Server, session: &Started) {
    let body = json!({ "sessionId": session.id });
    let stopped = server
        .post("/v1/sessions/stop", &session.token, &body)
        .await;
    assert_eq!(stopped.status, 200);
}

#[actix::test]
async fn an_announced_but_unsent_body_uses_no_bytes() {
    let server = Server::with_shares(config(), small()).await;
    let mut neighbour = Neighbour::of(&server).await;
    let recording = server.start_session().await;
    let ended = server.start_session().await;
    stop(&server, &ended).await;
    for session in [&recording, &ended] {
        let path = telemetry(&session.id);
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            open.push(begin_request(&server, &path, &session.token, JSON, b"").await);
        }
        // One session has a limited number of batches in flight, also once it has ended; none of
        // them holds a byte.
        wait_until(async || server.service.bodies_in_flight() == SESSION_IN_FLIGHT_MAX as usize)
            .await;
        let refused = server.post(&path, &session.token, &batch(9)).await;
        assert_eq!(refused.header("retry-after"), "1");
        refused.assert_problem(429, "session_busy");
        neighbour.assert_served(&server).await;
        drop(open);
        wait_until(async || server.service.bodies_in_flight() == 0).await;
    }
    server.stop().await;
}

#[actix::test]
async fn bytes_are_counted_on_arrival_and_limited_per_tenant() {
    let server = Server::with_shares(config(), small()).await;
    let mut neighbour = Neighbour::of(&server).await;
    let key = server.keys.secret.clone();
    let mut open = Vec::new();
    // Six bodies of which 900 KB have arrived: the share of 4 MiB covers four of them.
    let part = vec![b' '; 900 * 1024];
    for _ in 0..6 {
        let session = server.start_session().await;
        open.push(begin_request(&server, &telemetry(&session.id), &key, JSON, &part).await);
    }
    let mut answers: FuturesUnordered<_> = open.iter_mut().map(read_answer).collect();
    for _ in 0..2 {
        let refused = answers.next().await.unwrap();
        assert!(refused.starts_with("http/1.1 429"), "{refused}");
        assert!(refused.contains("retry-after: 1"), "{refused}");
    }
    // The server waits for the rest of the other bodies.
    let more = actix_rt::time::timeout(Duration::from_millis(500), answers.next()).await;
    assert!(more.is_err(), "{more:?}");
    drop(answers);
    neighbour.assert_served(&server).await;
    drop(open);
    wait_until(async || server.service.bodies_in_flight() == 0).await;
    let session = server.start_session().await;
    let again = server.post(&telemetry(&session.id), &key, &batch(0)).await;
    assert_eq!(again.status, 202, "the share was given back");
    server.stop().await;
}

#[actix::test]
async fn decompressed_bytes_use_the_share_of_their_tenant() {
    let limits = ShareLimits {
        in_flight_bytes: 1024 * 1024,
        ..small()
    };
    let server = Server::with_shares(config(), limits).await;
    let mut neighbour = Neighbour::of(&server).await;
    let session = server.start_session().await;
    let plain = vec![b' '; 3 * 1024 * 1024];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&plain).unwrap();
    let codings = [
        ("gzip", gzip.finish().unwrap()),
        ("zstd", zstd::encode_all(&plain[..], 3).unwrap()),
    ];
    for (coding, body) in codings {
        let request = server
            .request(Method::POST, &telemetry(&session.id))
            .header("Service-Key", &session.token)
            .header("Content-Type", "application/json")
            .header("Content-Encoding", coding)
            .body(body);
        Answer::of(request)
            .await
            .assert_problem(429, "tenant_in_flight_bytes");
        neighbour.assert_served(&server).await;
    }
    server.stop().await;
}

#[actix::test]
async fn large_bodies_of_a_tenant_take_turns() {
    let server = Server::with_shares(config(), small()).await;
    let mut neighbour = Neighbour::of(&server).await;
    // Each body unpacks to 2 MiB, and the share of 4 MiB covers one body and the beginnings of the
    // others. If all were unpacked at the same time, few would be completed.
    let mut plain = batch(0).to_string().into_bytes();
    plain.resize(2 * 1024 * 1024, b' ');
    let packed = zstd::encode_all(&plain[..], 3).unwrap();
    let send = async |session: Started| {
        loop {
            let request = server
                .request(Method::POST, &telemetry(&session.id))
                .header("Service-Key", &session.token)
                .header("Content-Type", "application/json")
                .header("Content-Encoding", "zstd")
                .body(packed.clone());
            let begun = Instant::now();
            let answer = Answer::of(request).await;
            // On a busy machine, the request may time out before it gets its permit.
            let has_waited = begun.elapsed() >= Duration::from_millis(LARGE_BODY_PERMIT_MS_MAX);
            if !(has_waited && matches!(answer.status, 429 | 503)) {
                return answer;
            }
        }
    };
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(server.start_session().await);
    }
    let (answers, ()) = tokio::join!(
        futures_util::future::join_all(sessions.into_iter().map(send)),
        neighbour.assert_served(&server)
    );
    for answer in answers {
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    server.stop().await;
}

#[actix::test]
async fn unfinished_lines_use_the_share_of_their_tenant() {
    let server = Server::with_shares(config(), small()).await;
    let mut neighbour = Neighbour::of(&server).await;
    // A kilobyte that unpacks to most of an 8 MiB line, whose end never arrives.
    let line = zstd::encode_all(&vec![b' '; 7 * 1024 * 1024][..], 3).unwrap();
    let headers = "Content-Type: application/x-ndjson\r\nContent-Encoding: zstd\r\n";
    let mut open = Vec::new();
    for _ in 0..8 {
        let key = &server.keys.secret;
        open.push(begin_request(&server, "/v1/telemetry", key, headers, &line).await);
    }
    for stream in &mut open {
        let mut answer = Vec::new();
        while !answer
            .windows(22)
            .any(|part| part == b"tenant_in_flight_bytes")
        {
            let read = stream.read_buf(&mut answer).await.unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
        }
        neighbour.assert_served(&server).await;
    }
    server.stop().await;
}

#[actix::test]
async fn concurrent_requests_are_limited_per_tenant() {
    let server = Server::with_shares(config(), small()).await;
    let mut neighbour = Neighbour::of(&server).await;
    let scored = server.scored_session().await;
    let image = link(&server, &scored.id).await;
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(server.start_session().await);
    }
    let mut open = Vec::new();
    for number in 0..CONNECTIONS {
        let session = &sessions[number % sessions.len()];
        // Half of the requests use the session's token, the others a key.
        let key = [&session.token, &server.keys.secret][number % 2];
        open.push(begin_request(&server, &telemetry(&session.id), key, JSON, b"").await);
    }
    wait_until(async || server.service.bodies_in_flight() == 30).await;
    for key in [&server.keys.secret, &server.keys.client, &sessions[0].token] {
        let refused = server
            .post(&telemetry(&sessions[0].id), key, &batch(9))
            .await;
        assert_eq!(refused.header("retry-after"), "1");
        refused.assert_problem(429, "tenant_requests");
    }
    let listed = server.get("/v1/sessions", &server.keys.secret).await;
    listed.assert_problem(429, "tenant_requests");
    let drawn = Answer::of(server.request(Method::GET, &image)).await;
    drawn.assert_problem(429, "tenant_requests");
    neighbour.assert_served(&server).await;
    drop(open);
    wait_until(async || server.service.bodies_in_flight() == 0).await;
    let listed = server.get("/v1/sessions", &server.keys.secret).await;
    assert_eq!(listed.status, 200);
    server.stop().await;
}

#[actix::test]
async fn stops_with_a_token_are_counted_before_their_body_arrives() {
    let server = Server::with_shares(config(), small()).await;
    let mut neighbour = Neighbour::of(&server).await;
    let session = server.start_session().await;
    let path = "/v1/sessions/stop";
    let headers = JSON.to_owned() + "Content-Length: 60000\r\n";
    let begin = async || begin_sized(&server, path, &session.token, &headers, b"{").await;
    let mut open = Vec::new();
    for _ in 0..small().requests + 1 {
        open.push(begin().await);
    }
    // One of them is refused, and the others wait for their body.
    let mut answers: FuturesUnordered<_> = open.iter_mut().map(read_answer).collect();
    let refused = answers.next().await.unwrap();
    assert!(refused.starts_with("http/1.1 429"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    drop(answers);
    neighbour.assert_served(&server).await;
    drop(open);
    wait_until(async || {
        let answer = server.get("/v1/sessions", &server.keys.secret).await;
        answer.status == 200
    })
    .await;
    // An expired token is refused although its body has not arrived.
    stop(&server, &session).await;
    server.clock.advance_min(25 * 60);
    let refused = read_answer(&mut begin().await).await;
    assert!(refused.starts_with("http/1.1 401"), "{refused}");
    server.stop().await;
}

#[actix::test]
async fn sockets_and_event_streams_are_limited_per_tenant() {
    let limits = ShareLimits {
        sockets: 3,
        event_streams: 2,
        ..small()
    };
    let server = Server::with_shares(config(), limits).await;
    let mut neighbour = Neighbour::of(&server).await;
    let session = server.start_session().await;
    let upgrade = format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        telemetry(&session.id),
        session.token
    );
    let events = format!(
        "GET /v1/sessions/{}/events HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nAccept: text/event-stream\r\n\r\n",
        session.id, server.keys.secret
    );
    let cases = [
        (&upgrade, 3, "tenant_sockets"),
        (&events, 2, "tenant_event_streams"),
    ];
    let mut open = Vec::new();
    for (head, free, code) in cases {
        for _ in 0..free {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).await.unwrap();
            assert!([b"101", b"200"].contains(&first[9..].try_into().unwrap()));
            open.push(stream);
        }
        let refused = raw(server.address, head.as_bytes()).await;
        assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
        assert!(refused.contains(code), "{refused}");
        neighbour.assert_served(&server).await;
    }
    server.stop().await;
}

#[actix::test]
async fn live_sessions_are_limited_per_tenant() {
    let limits = ShareLimits {
        live_sessions: 3,
        ..ShareLimits::default()
    };
    let server = Server::with_shares(config(), limits).await;
    let start = async |key: &str, idempotency: &str| {
        let request = server
            .request(Method::POST, "/v1/sessions/start")
            .header("Service-Key", key)
            .header("Idempotency-Key", idempotency)
            .header("Content-Type", "application/json")
            .body(start_body().to_string());
        Answer::of(request).await
    };
    let client = &server.keys.client;
    let mut first = None;
    for number in 0..3 {
        let started = start(client, &format!("parcel-{number}")).await;
        assert_eq!(started.status, 201);
        first.get_or_insert(started.json);
    }
    let refused = start(client, "parcel-3").await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.assert_problem(429, "tenant_live_sessions");
    // A repeated start gets the same answer; other organizations can start sessions.
    let again = start(client, "parcel-0").await;
    assert_eq!((again.status, Some(&again.json)), (201, first.as_ref()));
    assert_eq!(start(&server.keys.other, "parcel-0").await.status, 201);
    let first = first.unwrap();
    let body = json!({ "sessionId": first["sessionId"] });
    let token = first["sessionToken"].as_str().unwrap();
    let stopped = server.post("/v1/sessions/stop", token, &body).await;
    assert_eq!(stopped.status, 200);
    wait_until(async || start(client, "parcel-3").await.status == 201).await;
    server.stop().await;
}

#[actix::test]
async fn stored_telemetry_is_rate_limited_per_tenant() {
    let limits = ShareLimits {
        stored_bytes_per_sec: 1,
        ..ShareLimits::default()
    };
    let server = Server::with_shares(config(), limits).await;
    let session = server.start_session().await;
    let send = async |seq| {
        let path = telemetry(&session.id);
        server.post(&path, &session.token, &batch(seq)).await
    };
    // The size of a batch is known once it is stored, so one batch may exceed the rate.
    assert_eq!(send(0).await.status, 202);
    send(1).await.assert_problem(429, "tenant_stored_bytes");
    let other = server
        .post("/v1/sessions/start", &server.keys.other, &start_body())
        .await;
    let path = telemetry(other.json["sessionId"].as_str().unwrap());
    let accepted = server.post(&path, &server.keys.other, &batch(0)).await;
    assert_eq!(accepted.status, 202);
    // A repeated batch is not stored again, so it costs nothing once the debt is paid.
    server.clock.advance_min(25);
    for _ in 0..2 {
        assert_eq!(send(0).await.status, 202);
    }
    server.stop().await;
}

#[actix::test]
async fn session_starts_and_pod_changes_are_rate_limited_per_tenant() {
    let limits = ShareLimits {
        session_starts_per_sec: 1,
        pod_changes_per_sec: 1,
        ..ShareLimits::default()
    };
    let server = Server::with_shares(config(), limits).await;
    let start = async |key: &str| server.post("/v1/sessions/start", key, &start_body()).await;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let answer = start(&server.keys.client).await;
        if answer.status == 429 {
            assert_eq!(answer.header("retry-after"), "1");
            answer.assert_problem(429, "tenant_session_starts");
        }
        statuses.push(answer.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    let started = start(&server.keys.other).await;
    assert_eq!(started.status, 201);
    let id = started.json["sessionId"].as_str().unwrap();
    let key = &server.keys.other;
    let stopped = server
        .post("/v1/sessions/stop", key, &json!({ "sessionId": id }))
        .await;
    assert_eq!(stopped.status, 200);
    let mut refused = 0;
    for number in 0..40 {
        let pod = json!({ "type": "note", "url": format!("https://example.com/{number}") });
        let path = format!("/v1/sessions/{id}/pod");
        let answer = server.post(&path, key, &pod).await;
        if answer.status == 429 {
            answer.assert_problem(429, "tenant_pod_changes");
            refused += 1;
        }
    }
    assert!((1..40).contains(&refused), "{refused}");
    server.stop().await;
}
