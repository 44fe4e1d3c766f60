//! A client that sends `Expect: 100-continue` gets `100 Continue` only if its body is wanted.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::raw;
use crate::server::{Server, batch, start_body, telemetry};

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Returns a request's head that announces a body of this length.
fn head(path: &str, key: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nService-Key: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    )
}

/// Reads from a connection until `end` has arrived.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let (mut read, mut chunk) = (String::new(), [0; 4_096]);
    while !read.contains(end) {
        let length = stream.read(&mut chunk).await.unwrap();
        assert!(length > 0, "closed after: {read}");
        read += std::str::from_utf8(&chunk[..length]).unwrap();
    }
    read
}

#[actix::test]
async fn a_request_that_is_refused_by_its_head_gets_no_100() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let (secret, start) = (server.keys.secret.clone(), "/v1/sessions/start");
    let telemetry = telemetry(&session.id);
    for (path, key, length, status) in [
        (start, "sk_sandbox_wrong", 100, 401),
        (telemetry.as_str(), "st_wrong", 100, 401),
        (telemetry.as_str(), server.keys.client.as_str(), 100, 403),
        (start, &secret, 500_000_000, 413),
        (telemetry.as_str(), &session.token, 1_048_577, 413),
        ("/v1/telemetry", "sk_sandbox_wrong", 100, 401),
        ("/v1/nowhere", &secret, 100, 404),
        ("/v1/sessions", &secret, 100, 405),
    ] {
        // The whole answer comes although the body is never sent, and the connection closes.
        let answer = raw(server.address, head(path, key, length).as_bytes()).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
        assert!(!answer.contains("100 Continue"), "{path}: {answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(
            answer.to_lowercase().contains("connection: close"),
            "{answer}"
        );
    }
    server.stop().await;
}

#[actix::test]
async fn a_wanted_body_gets_100_continue_and_the_connection_stays_open() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for seq in 0..3 {
        let body = batch(seq).to_string();
        let head = head(&telemetry(&session.id), &session.token, body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_to(&mut stream, "\r\n\r\n").await, CONTINUE);
        stream.write_all(body.as_bytes()).await.unwrap();
        let answer = read_to(&mut stream, "}").await;
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
        assert!(answer.contains(&format!("\"ackSeq\":{seq}")), "{answer}");
    }
    // Another handler on the same connection, and a body that arrives with its head.
    let body = start_body().to_string();
    let whole = head("/v1/sessions/start", &server.keys.client, body.len()) + &body;
    stream.write_all(whole.as_bytes()).await.unwrap();
    let answer = read_to(&mut stream, "\"sessionToken\"").await;
    assert!(
        answer.starts_with(&format!("{CONTINUE}HTTP/1.1 201 ")),
        "{answer}"
    );
    server.stop().await;
}

/// A stream answers while it reads: its head comes after `100 Continue`.
#[actix::test]
async fn a_stream_of_batches_gets_100_continue() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let mut line = batch(0);
    line["sessionId"] = session.id.clone().into();
    let line = format!("{line}\n");
    let head = head("/v1/telemetry", &server.keys.secret, line.len());
    let head = head.replace("application/json", "application/x-ndjson");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let begun = read_to(&mut stream, "\r\n\r\n").await;
    assert!(begun.starts_with(CONTINUE), "{begun}");
    stream.write_all(line.as_bytes()).await.unwrap();
    let answer = begun + &read_to(&mut stream, "\"status\":202").await;
    assert!(answer.contains("HTTP/1.1 200 "), "{answer}");
    server.stop().await;
}
