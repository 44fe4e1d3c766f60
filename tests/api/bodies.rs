//! Tests bodies that are compressed, cut off, slow, or larger than they seem.

use std::io::Write;
use std::time::{Duration, Instant};

use porchlight_http::Settings;
use porchlight_http::body::Deadlines;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::{Answer, raw};
use crate::server::{Server, Started, batch, config, telemetry};

/// Sends a batch of the session, with this content coding unless it is empty.
async fn send(server: &Server, session: &Started, coding: &str, body: Vec<u8>) -> Answer {
    let mut request = server
        .request(Method::POST, &telemetry(&session.id))
        .header("Service-Key", &session.token)
        .header("Content-Type", "application/json");
    if !coding.is_empty() {
        request = request.header("Content-Encoding", coding);
    }
    Answer::of(request.body(body)).await
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[actix::test]
async fn a_compressed_batch_is_the_same_batch() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let body = batch(0).to_string();
    for (coding, sent) in [
        ("gzip", gzip(body.as_bytes())),
        ("zstd", zstd(body.as_bytes())),
        ("identity", body.clone().into_bytes()),
    ] {
        let answer = send(&server, &session, coding, sent).await;
        assert_eq!(
            (answer.status, &answer.json["ackSeq"]),
            (202, &json!(0)),
            "{coding}: {answer:?}"
        );
    }
    server.stop().await;
}

#[actix::test]
async fn a_decompression_bomb_is_refused_at_the_exact_limit() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let padded = |length: usize| {
        let mut body = batch(0).to_string().into_bytes();
        body.resize(length, b' ');
        body
    };
    let max = 8 * 1024 * 1024;
    for (length, status) in [(max, 202), (max + 1, 413), (100 * 1024 * 1024, 413)] {
        let body = padded(length);
        for (coding, sent) in [("gzip", gzip(&body)), ("zstd", zstd(&body))] {
            assert!(sent.len() < 1024 * 1024);
            let answer = send(&server, &session, coding, sent).await;
            assert_eq!(answer.status, status, "{coding} {length}: {answer:?}");
        }
    }
    for (length, status) in [(1024 * 1024, 202), (1024 * 1024 + 1, 413)] {
        let answer = send(&server, &session, "", padded(length)).await;
        assert_eq!(answer.status, status, "{length}: {answer:?}");
    }
    let many = json!({ "seq": 1, "samples": vec![json!({ "kind": "pressure", "t": 0, "hPa": 1000 }); 20_001] });
    server
        .post(&telemetry(&session.id), &session.token, &many)
        .await
        .assert_problem(413, "too_many_samples");
    server.stop().await;
}

#[actix::test]
async fn chunks_are_counted_as_they_arrive() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        telemetry(&session.id),
        session.token
    );
    let body = batch(0).to_string();
    let mut whole = head.clone();
    for piece in body.as_bytes().chunks(100) {
        whole += &format!(
            "{:x}\r\n{}\r\n",
            piece.len(),
            std::str::from_utf8(piece).unwrap()
        );
    }
    let answer = raw(server.address, format!("{whole}0\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    let endless = format!(
        "{head}{}",
        format!("10000\r\n{}\r\n", " ".repeat(0x10000)).repeat(17)
    );
    let answer = raw(server.address, endless.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("\"code\":\"body_too_large\""),
        "{answer}"
    );
    server.stop().await;
}

/// A body that arrives one byte at a time, or not at all, is cut off: the first by the deadline for
/// the whole body, the second by the deadline for silence.
#[actix::test]
async fn a_slow_body_is_cut_off() {
    let cases = [
        (
            Deadlines {
                silence: Duration::from_secs(3_600),
                whole: Duration::from_secs(1),
            },
            Some(Duration::from_millis(20)),
        ),
        (
            Deadlines {
                silence: Duration::from_secs(1),
                whole: Duration::from_secs(3_600),
            },
            None,
        ),
    ];
    for (body_deadlines, drip) in cases {
        let server = Server::with(Settings {
            body_deadlines,
            ..config()
        })
        .await;
        let session = server.start_session().await;
        for path in [
            telemetry(&session.id),
            "/v1/sessions/start".into(),
            "/v1/sessions/stop".into(),
            format!("/v1/sessions/{}/pod", session.id),
        ] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let key = &server.keys.secret;
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nService-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: 50000\r\n\r\n{{"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let answer = answer_while(&mut stream, drip).await;
            assert!(
                answer.starts_with("HTTP/1.1 408") && answer.contains("\"code\":\"body_timeout\""),
                "{path}: {answer}"
            );
        }
        // The permits of the body are free again.
        assert_eq!(
            server
                .post(&telemetry(&session.id), &session.token, &batch(0))
                .await
                .status,
            202
        );
        server.stop().await;
    }
}

/// Reads until the server closes, while it keeps sending.
async fn answer_while(stream: &mut TcpStream, drip: Option<Duration>) -> String {
    let began = Instant::now();
    let mut answer = [0; 4_096];
    let mut length = 0;
    while began.elapsed() < Duration::from_secs(20) {
        let patience = drip.unwrap_or(Duration::from_secs(20));
        match tokio::time::timeout(patience, stream.read(&mut answer[length..])).await {
            Ok(Ok(read)) if read > 0 => length += read,
            Ok(_closed) => return String::from_utf8_lossy(&answer[..length]).into_owned(),
            Err(_) => drop(stream.write_all(b" ").await),
        }
    }
    panic!("the connection stays open")
}

/// A refusal that needs no body is answered without reading it, and reaches a client that is still
/// sending.
#[actix::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = Server::start().await;
    for (key, expected) in [
        ("nonsense", "HTTP/1.1 401"),
        (server.keys.secret.as_str(), "HTTP/1.1 404"),
    ] {
        let head = format!(
            "POST /v1/sessions/x/telemetry HTTP/1.1\r\nHost: x\r\nService-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n"
        );
        let answer = raw(server.address, head.as_bytes()).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    let session = server.start_session().await;
    let body = vec![b' '; 3 * 1024 * 1024];
    for _ in 0..20 {
        let request = server
            .request(Method::POST, &telemetry(&session.id))
            .header("Service-Key", &session.token);
        Answer::of(
            request
                .header("Content-Type", "application/json")
                .body(body.clone()),
        )
        .await
        .assert_problem(413, "body_too_large");
    }
    server.stop().await;
}

/// A client sends the head of a request and the beginning of a chunk, and nothing more, or drips
/// bytes. The answer does not depend on the body, or comes when the body is overdue; then the
/// connection ends within a few seconds.
#[actix::test]
async fn an_unread_chunked_body_does_not_keep_its_connection() {
    let server = Server::with(Settings {
        body_deadlines: Deadlines {
            silence: Duration::from_secs(1),
            whole: Duration::from_secs(2),
        },
        ..config()
    })
    .await;
    let session = server.start_session().await;
    let telemetry = telemetry(&session.id);
    let json = "Content-Type: application/json\r\n";
    for (path, headers, status) in [
        ("/nothing", String::new(), 404),
        ("/v1/sessions/start", json.to_owned(), 401),
        (
            &telemetry,
            format!("{json}Authorization: Bearer {}\r\n", session.token),
            408,
        ),
        ("/nothing", "Expect: 100-continue\r\n".to_owned(), 404),
    ] {
        for drip in [None, Some(Duration::from_millis(100))] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Transfer-Encoding: chunked\r\n\r\nfffff\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let answer = answer_while(&mut stream, drip).await;
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{path}: {answer}");
        }
    }
    // A body that was read to its end keeps its connection.
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let request = format!(
        "POST {telemetry} HTTP/1.1\r\nHost: x\r\n{json}Authorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n\
         16\r\n{{\"seq\":0,\"samples\":[]}}\r\n0\r\n\r\n",
        session.token
    );
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = vec![0; 4_096];
        let read = stream.read(&mut bytes).await.unwrap();
        let answer = String::from_utf8_lossy(&bytes[..read]);
        assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    }
    server.stop().await;
}

#[actix::test]
async fn an_interrupted_body_stores_nothing() {
    let server = Server::start().await;
    let session = server.start_session().await;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nService-Key: {}\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{}",
            telemetry(&session.id),
            session.token,
            batch(0)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        drop(stream);
    }
    // All of the session's in-flight permits are free again.
    for seq in 0..9 {
        assert_eq!(
            server
                .post(&telemetry(&session.id), &session.token, &batch(seq))
                .await
                .status,
            202
        );
    }
    server.stop().await;
}
