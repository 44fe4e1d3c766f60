//! Tests the rules for every request: its id, the shape of every error, and that a panic ends only
//! one request.

use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use actix_web::{App, HttpResponse, HttpServer};
use porchlight_http::State;
use porchlight_http::middleware::edge;
use porchlight_keys::Tokens;
use reqwest::Method;
use serde_json::json;

use crate::answer::{Answer, raw};
use crate::server::{self, Server, TestClock, batch};

#[actix::test]
async fn a_valid_request_id_is_kept_and_any_other_replaced() {
    let server = Server::start().await;
    let ask = async |id: &str| {
        let request = server
            .request(Method::GET, "/v1/sessions")
            .header("Service-Key", &server.keys.secret);
        Answer::of(request.header("X-Request-Id", id))
            .await
            .header("x-request-id")
            .to_owned()
    };
    assert_eq!(ask("Ab-1._x").await, "Ab-1._x");
    let (first, second) = (ask("a b").await, ask("<script>").await);
    assert!(first.starts_with("req-") && second.starts_with("req-") && first != second);
    let refused = Answer::of(
        server
            .request(Method::GET, "/nothing")
            .header("X-Request-Id", "mine"),
    )
    .await;
    assert_eq!(
        refused.assert_problem(404, "not_found").json["requestId"],
        "mine"
    );
    server.stop().await;
}

/// Java's client asks for an upgrade to HTTP/2 with each new connection.
#[actix::test]
async fn an_answer_without_the_requested_upgrade_announces_the_end_of_the_connection() {
    let server = Server::start().await;
    let key = server.keys.secret.clone();
    let ask = async |upgrade: &str| {
        let head = format!(
            "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nService-Key: {key}\r\n{upgrade}\r\n"
        );
        let answer = raw(server.address, head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer.to_ascii_lowercase()
    };
    let upgrade =
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n";
    assert!(ask(upgrade).await.contains("\r\nconnection: close\r\n"));
    assert!(!ask("").await.contains("\r\nconnection:"));
    server.stop().await;
}

/// A batch bypasses the router on its way to its handler; the router has the same handler for a
/// differently encoded path.
#[actix::test]
async fn a_batch_gets_the_same_response_past_and_through_the_router() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let ways = |id: &str| {
        let (first, rest) = id.split_at(1);
        let coded = format!("%{:02x}{rest}", first.as_bytes()[0]);
        [id.to_owned(), coded].map(|id| format!("/v1/sessions/{id}/telemetry"))
    };
    for (seq, path) in (0..).zip(ways(&session.id)) {
        let answer = server.post(&path, &session.token, &batch(seq)).await;
        assert_eq!(
            (answer.status, &answer.json["ackSeq"]),
            (202, &json!(seq)),
            "{path}: {answer:?}"
        );
        assert!(answer.header("x-request-id").starts_with("req-"), "{path}");
        server
            .post(&path, "nothing", &batch(2))
            .await
            .assert_problem(401, "credential_invalid");
        server
            .post(&path, &session.token, &json!({"seq": 2}))
            .await
            .assert_problem(422, "invalid_body");
        let request = server
            .request(Method::PUT, &path)
            .header("X-Request-Id", "mine");
        let answer = Answer::of(request).await;
        assert_eq!(answer.header("x-request-id"), "mine");
        assert_eq!(answer.header("allow"), "GET, POST");
    }
    for path in ways("ses_nothing") {
        let request = server
            .request(Method::POST, &path)
            .header("Service-Key", &server.keys.secret)
            .header("Content-Type", "application/json")
            .header("X-Request-Id", "mine");
        let answer = Answer::of(request.body(batch(0).to_string())).await;
        assert_eq!(
            answer.assert_problem(404, "session_not_found").json["requestId"],
            "mine",
            "{path}"
        );
    }
    server.stop().await;
}

#[actix::test]
async fn every_failure_returns_a_problem() {
    let (service, store, arbiters) = server::service(
        std::sync::Arc::<TestClock>::default(),
        porchlight_core::shares::ShareLimits::default(),
    );
    let state = Data::new(State::new(
        service,
        store,
        Tokens::new(&[7; 32], &[]),
        server::config(),
    ));
    let build = move || {
        let panic = || async {
            if true {
                panic!("on purpose");
            }
            HttpResponse::Ok().finish()
        };
        App::new()
            .wrap(from_fn(edge))
            .route("/panic", web::get().to(panic))
            .route(
                "/bare/{status}",
                web::get().to(|status: web::Path<u16>| async move {
                    HttpResponse::build(actix_web::http::StatusCode::from_u16(*status).unwrap())
                        .body("text")
                }),
            )
            .route(
                "/extract",
                web::post().to(|_: web::Json<u32>| async { HttpResponse::Ok().finish() }),
            )
            .app_data(state.clone())
            .configure(porchlight_api::routes(Data::default()))
    };
    let bound = HttpServer::new(build)
        .workers(1)
        .disable_signals()
        .bind("127.0.0.1:0")
        .unwrap();
    let address = bound.addrs()[0];
    let running = bound.run();
    let handle = running.handle();
    actix_rt::spawn(running);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = |path: &str| format!("http://{address}{path}");
    for _ in 0..3 {
        Answer::of(http.get(url("/panic")))
            .await
            .assert_problem(500, "internal");
    }
    for (status, code) in [
        (400, "bad_request"),
        (403, "forbidden"),
        (409, "conflict"),
        (418, "bad_request"),
        (500, "internal"),
        (502, "internal"),
    ] {
        let answer = Answer::of(http.get(url(&format!("/bare/{status}")))).await;
        assert_eq!(answer.json["code"], code, "{status}: {answer:?}");
        assert!(!answer.text.contains("\"text\""), "{answer:?}");
    }
    Answer::of(
        http.post(url("/extract"))
            .header("Content-Type", "application/json")
            .body("x"),
    )
    .await
    .assert_problem(400, "bad_request");
    Answer::of(http.get(url("/v1/sessions")))
        .await
        .assert_problem(401, "credential_missing");
    handle.stop(false).await;
    for arbiter in &arbiters {
        arbiter.stop();
    }
}

#[actix::test]
async fn malformed_http_is_refused_and_closed() {
    let server = Server::start().await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    for head in [
        "nonsense\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        &long,
        "POST /v1/sessions/start HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    ] {
        let answer = raw(server.address, head.as_bytes()).await;
        assert!(
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 4")
                || answer.starts_with("HTTP/1.1 5"),
            "{answer}"
        );
    }
    assert_eq!(
        server.get("/v1/sessions", &server.keys.secret).await.status,
        200
    );
    server.stop().await;
}
