//! Tests cross-origin requests: only pages of configured origins, and only the paths for phones.

use porchlight_http::cors::Origins;
use porchlight_observe::http::Route;
use reqwest::Method;
use serde_json::json;

use crate::answer::Answer;
use crate::server::{Server, start_body};

const APP: &str = "https://app.example.com";
/// The paths for phones, and the methods that a page may use there.
const PHONE_PATHS: [(Route, &str); 10] = [
    (Route::SessionStart, "POST"),
    (Route::SessionTelemetry, "POST"),
    (Route::SessionStop, "POST"),
    (Route::SessionPod, "POST"),
    (Route::SessionAcknowledged, "GET"),
    (Route::PushSensorLogger, "POST"),
    (Route::PushTraccar, "GET, POST"),
    (Route::PushOwntracks, "POST"),
    (Route::PushOverland, "POST"),
    (Route::PushGpslogger, "GET, POST"),
];

fn origins() -> Origins {
    let both = [APP.to_owned(), "capacitor://localhost".to_owned()];
    Origins::new(&both).unwrap()
}

async fn preflight(server: &Server, route: Route, origin: &str) -> Answer {
    let request = server.request(Method::OPTIONS, route.as_str());
    let request = request
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization");
    Answer::of(request).await
}

fn cors_headers(answer: &Answer) -> Vec<&str> {
    let names = answer.headers.keys().map(|name| name.as_str());
    names
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

fn routes() -> impl Iterator<Item = Route> {
    let all = Route::ALL.iter().copied();
    // The console is not part of this server.
    all.filter(|route| !matches!(route, Route::Unknown | Route::Console))
}

#[actix::test]
async fn a_preflight_request_opens_the_paths_for_phones_and_no_other() {
    let server = Server::with_origins(origins()).await;
    for route in routes() {
        let phone_path = PHONE_PATHS.iter().find(|(path, _)| *path == route);
        for origin in [APP, "capacitor://localhost"] {
            let answer = preflight(&server, route, origin).await;
            let Some((_, methods)) = phone_path else {
                assert_eq!(cors_headers(&answer), [""; 0], "{route:?}");
                continue;
            };
            assert_eq!(
                (answer.status, answer.text.as_str()),
                (204, ""),
                "{route:?}"
            );
            assert_eq!(answer.header("access-control-allow-origin"), origin);
            assert_eq!(answer.header("access-control-allow-methods"), *methods);
            let allowed = answer.header("access-control-allow-headers");
            for name in [
                "authorization",
                "service-key",
                "content-type",
                "idempotency-key",
            ] {
                assert!(allowed.contains(name), "{allowed}");
            }
            assert_eq!(answer.header("vary"), "origin");
            assert!(answer.headers.get("allow").is_none());
        }
        for origin in [
            "https://evil.example.com",
            "null",
            "https://app.example.com.evil",
        ] {
            let answer = preflight(&server, route, origin).await;
            assert_eq!(cors_headers(&answer), [""; 0], "{route:?} {origin}");
            assert_eq!(answer.headers.get("vary").is_some(), phone_path.is_some());
            assert_ne!(answer.status, 204);
        }
    }
    server.stop().await;
}

#[actix::test]
async fn a_page_of_a_configured_origin_reads_answers_and_errors() {
    let server = Server::with_origins(origins()).await;
    let start = |key: &str| {
        let request = server.request(Method::POST, "/v1/sessions/start");
        let request = request.header("Origin", APP).header("Service-Key", key);
        request
            .header("Content-Type", "application/json")
            .body(start_body().to_string())
    };
    let started = Answer::of(start(&server.keys.client)).await;
    assert_eq!(started.status, 201, "{started:?}");
    let refused = Answer::of(start("pk_sandbox_wrong")).await;
    refused.assert_problem(401, "credential_invalid");
    for answer in [&started, &refused] {
        assert_eq!(answer.header("access-control-allow-origin"), APP);
        let exposed = answer.header("access-control-expose-headers");
        assert!(exposed.contains("x-request-id"), "{exposed}");
        assert_eq!(answer.header("vary"), "origin");
    }
    // A path for the secret key alone stays closed, even with the key.
    let list = server.request(Method::GET, "/v1/sessions");
    let list = list
        .header("Origin", APP)
        .header("Service-Key", &server.keys.secret);
    let list = Answer::of(list).await;
    assert_eq!((list.status, cors_headers(&list)), (200, vec![]));
    server.stop().await;
}

#[actix::test]
async fn without_configured_origins_nothing_is_open() {
    let server = Server::start().await;
    for route in routes() {
        let answer = preflight(&server, route, APP).await;
        assert_eq!(cors_headers(&answer), [""; 0], "{route:?}");
        assert!(answer.headers.get("vary").is_none(), "{route:?}");
        answer.assert_problem(405, "method_not_allowed");
    }
    let start = server
        .post("/v1/sessions/start", &server.keys.client, &json!({}))
        .await;
    assert!(start.headers.get("vary").is_none());
    server.stop().await;
}
