//! Tests that on SIGTERM and SIGHUP the server refuses new requests, finishes the work in flight,
//! writes all data, and exits successfully.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use porchlight_schema::limits::DRAIN_MS_MAX;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::phone::{Client, delivery};
use crate::server::{Folder, Server, block_on, http, porchlight, successful};

/// Sends the head of a batch's request, and the first half of its body.
pub(crate) fn send_first_half(
    server: &Server,
    session_id: &str,
    key: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = format!(
        "POST /v1/sessions/{session_id}/telemetry HTTP/1.1\r\nHost: porchlight\r\nService-Key: {key}\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
        .write_all(&body.as_bytes()[..body.len() / 2])
        .unwrap();
    stream
}

/// Sends the second half, and returns the whole answer.
pub(crate) fn send_second_half(mut stream: TcpStream, body: &str) -> String {
    stream
        .write_all(&body.as_bytes()[body.len() / 2..])
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the answer to a GET over a connection that the client would keep, read until the server
/// closes it.
fn read_until_closed(server: &Server, path: &str, key: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: porchlight\r\nService-Key: {key}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.to_ascii_lowercase().replacen("http", "HTTP", 1)
}

/// Returns the bytes of bodies that the server has admitted and not yet acknowledged.
pub(crate) async fn in_flight_bytes(server: &Server) -> u64 {
    let bytes = server.metric("porchlight_ingest_in_flight_bytes").await;
    bytes.unwrap() as u64
}

#[test]
#[expect(clippy::too_many_lines, reason = "the steps of one scenario, in order")]
fn requests_in_flight_are_answered_and_new_ones_refused() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let key = server.key("secret");
    let client = Client::new(&Arc::new(RwLock::new(server.api.clone())), &key);
    let delivery = delivery(1);
    let (status, session) = block_on(client.request(
        "/v1/sessions/start",
        Some(&delivery.start.to_string()),
        None,
    ));
    assert_eq!(status, 201);
    let session_id = session["sessionId"].as_str().unwrap().to_owned();
    let batches: Vec<String> = delivery
        .batches(10.0)
        .take(3)
        .map(|batch| batch.json().unwrap())
        .collect();

    let in_flight = send_first_half(&server, &session_id, &key, &batches[0]);
    let ready = |server: &Server| {
        let url = format!("{}/readyz", server.ops);
        block_on(async {
            let answer = http().get(url).send().await.unwrap();
            let status = answer.status().as_u16();
            let report: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            (status, report["ready"].as_bool().unwrap())
        })
    };
    assert_eq!(ready(&server), (200, true));
    // The first half may still be on its way to be admitted.
    while block_on(in_flight_bytes(&server)) == 0 {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    server.terminate();
    let mut seen = ready(&server);
    for _ in 0..3_000 {
        if seen.0 == 503 {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
        seen = ready(&server);
    }
    assert_eq!(seen, (503, false), "a stopping server is not ready");

    let path = format!("/v1/sessions/{session_id}/telemetry");
    let (status, problem) = block_on(client.attempt(&path, Some(&batches[1]), None)).unwrap();
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (503, &json!("draining"))
    );

    let read = read_until_closed(&server, &format!("/v1/sessions/{session_id}"), &key);
    assert!(
        read.starts_with("HTTP/1.1 200") && read.contains("\r\nconnection: close\r\n"),
        "the next request must not come over a connection that ends: {read}"
    );
    let answer = send_second_half(in_flight, &batches[0]);
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    assert!(
        answer
            .to_ascii_lowercase()
            .contains("\r\nconnection: close\r\n"),
        "the next request must not come over a connection that ends: {answer}"
    );
    let ended = server.ended(Duration::from_millis(DRAIN_MS_MAX + 15_000));
    assert_eq!(ended.code(), Some(0));

    // The requests of the last minute count as uses of their key.
    let listed = porchlight()
        .args(["keys", "list", "--json"])
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    let listed: Value = serde_json::from_str(&successful(listed.unwrap())).unwrap();
    assert!(listed["lastUsedAt"].is_string(), "{listed}");

    // Acknowledged data is there, and the session continues at the same point.
    let server = Server::start(&folder, &[]);
    let client = Client::new(&Arc::new(RwLock::new(server.api.clone())), &key);
    block_on(async {
        let other = batches[1].replacen("\"seq\":1", "\"seq\":0", 1);
        let (status, problem) = client.request(&path, Some(&other), None).await;
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (409, &json!("seq_conflict"))
        );
        for batch in &batches {
            assert_eq!(client.request(&path, Some(batch), None).await.0, 202);
        }
        let stop = json!({ "sessionId": session_id }).to_string();
        assert_eq!(
            client
                .request("/v1/sessions/stop", Some(&stop), None)
                .await
                .0,
            200
        );
        assert_eq!(client.insight(&session_id).await["status"], "ready");
    });
    server.stop();
}

/// Sends one request over a connection that the client keeps, and returns the head of the answer.
fn send_request(stream: &mut TcpStream, request: &str, key: &str, body: &str) -> String {
    let head = format!(
        "{request} HTTP/1.1\r\nHost: porchlight\r\nService-Key: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
    let length = answer.split_once("content-length: ").unwrap().1;
    let length: usize = length.split_once("\r\n").unwrap().0.parse().unwrap();
    stream.read_exact(&mut vec![0; length]).unwrap();
    answer
}

#[test]
fn kept_connections_are_answered_during_an_idle_shutdown() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[("PORCHLIGHT__SERVER__DRAIN_GRACE", "20s")]);
    let key = server.key("secret");
    let connected = || {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let within = Some(Duration::from_secs(60));
        stream.set_read_timeout(within).unwrap();
        let answer = send_request(&mut stream, "GET /v1/sessions", &key, "");
        assert!(answer.starts_with("http/1.1 200"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
        stream
    };
    let (mut reading, mut starting) = (connected(), connected());
    server.terminate();
    let is_ready = || {
        let url = format!("{}/readyz", server.ops);
        block_on(async { http().get(url).send().await.unwrap().status() == 200 })
    };
    while is_ready() {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let read = send_request(&mut reading, "GET /v1/sessions", &key, "");
    assert!(read.starts_with("http/1.1 200"), "{read}");
    let start = delivery(1).start.to_string();
    let refused = send_request(&mut starting, "POST /v1/sessions/start", &key, &start);
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(refused.contains("\r\nretry-after: "), "{refused}");
    for (mut stream, answer) in [(reading, read), (starting, refused)] {
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        let rest = stream.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(rest, 0, "the answer is the last data of the connection");
    }
    // No client is connected, so the server ends.
    assert!(server.ended(Duration::from_secs(60)).success());
}

#[test]
fn a_closed_terminal_ends_the_server_like_a_request_to_stop() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    let id = block_on(caller.start("kept"));
    server.signal("-HUP");
    let within = Duration::from_millis(DRAIN_MS_MAX + 15_000);
    assert!(server.ended(within).success());
    let server = Server::start(&folder, &[]);
    let unclean = block_on(server.metric("porchlight_unclean_start"));
    assert_eq!(unclean, Some(0.0));
    let caller = Caller::with_key(&server, caller.key());
    let session = block_on(caller.get(&format!("/v1/sessions/{id}")));
    assert_eq!(session.status, 200, "{}", session.body);
    server.stop();
}

#[test]
fn systemd_is_notified_of_ready_watchdog_and_stopping() {
    let folder = Folder::new();
    // An abstract name, because a path in a deep temporary folder is too long for a socket.
    let name = format!("porchlight-it-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let notification = || {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let variables = [
        ("NOTIFY_SOCKET", &*format!("@{name}")),
        ("WATCHDOG_USEC", "4000000"),
    ];
    let server = Server::start(&folder, &variables);
    let mut states = vec![notification(), notification(), notification()];
    states.sort();
    assert_eq!(states, ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]);
    server.terminate();
    let mut last = notification();
    while last == "WATCHDOG=1" {
        last = notification();
    }
    assert_eq!(last, "STOPPING=1");
    assert!(server.ended(Duration::from_secs(40)).success());
}
