//! Tests the refusal of unknown fields by name, filters by outcome, and the rate that every answer
//! reports.

use porchlight_http::Settings;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, start_body};

fn named(json: &Value, field: &str) -> Vec<String> {
    let errors = json["errors"].as_array().into_iter().flatten();
    let names = errors.filter_map(|error| error[field].as_str());
    names.map(str::to_owned).collect()
}

#[actix::test]
async fn an_unknown_parameter_is_refused_by_name_in_check_order() {
    let server = Server::start().await;
    let secret = server.keys.secret.clone();
    let session = server.start_session().await.id;
    for path in [
        "/v1/sessions".to_owned(),
        format!("/v1/sessions/{session}"),
        format!("/v1/sessions/{session}/insights"),
        format!("/v1/sessions/{session}/events"),
    ] {
        let answer = server
            .get(&format!("{path}?urls=1&events=2"), &secret)
            .await;
        assert_eq!(answer.status, 422, "{path}: {answer:?}");
        assert_eq!(answer.json["code"], "invalid_parameter");
        assert_eq!(named(&answer.json, "parameter"), ["urls", "events"]);
    }
    let start = server
        .post("/v1/sessions/start?a=1", &secret, &start_body())
        .await;
    assert_eq!(
        (start.status, named(&start.json, "parameter")),
        (422, vec!["a".to_owned()])
    );
    let batch = json!({ "seq": 0, "samples": [] });
    let path = format!("/v1/sessions/{session}/telemetry?a=1");
    assert_eq!(server.post(&path, &secret, &batch).await.status, 422);
    let nowhere = "/v1/sessions/ses_nothing?a=1";
    assert_eq!(server.get(nowhere, &secret).await.status, 404);
    assert_eq!(
        server.get("/v1/sessions?a=1", "sk_nothing").await.status,
        401
    );
    // Requests from phones may contain unknown fields.
    let mut body = start_body();
    body["unknown"] = json!(1);
    let start = server.post("/v1/sessions/start", &secret, &body).await;
    assert_eq!(start.status, 201);
    server.stop().await;
}

/// Query parameters are content (contract 9): the media type and the syntax of the body come first.
#[actix::test]
async fn an_unknown_parameter_is_reported_after_a_malformed_body() {
    let server = Server::start().await;
    let session = server.start_session().await.id;
    for path in [
        "/v1/sessions/start".to_owned(),
        format!("/v1/sessions/{session}/telemetry"),
        format!("/v1/sessions/{session}/pod"),
        "/v1/sessions/stop".to_owned(),
        "/v1/privacy/requests".to_owned(),
        "/v1/recorders".to_owned(),
    ] {
        for (media_type, status, code) in [
            ("text/plain", 415, "unsupported_media_type"),
            ("application/json", 400, "malformed_json"),
        ] {
            let request = server
                .request(Method::POST, &format!("{path}?a=1"))
                .header("Service-Key", &server.keys.secret)
                .header("Content-Type", media_type)
                .body("{");
            let answer = Answer::of(request).await;
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            answer.assert_problem(status, code);
        }
    }
    server.stop().await;
}

#[actix::test]
async fn sessions_are_selected_by_their_outcome() {
    let server = Server::start().await;
    let secret = server.keys.secret.clone();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = server.start_session().await.id;
        let stop = json!({ "sessionId": id });
        assert_eq!(
            server
                .post("/v1/sessions/stop", &secret, &stop)
                .await
                .status,
            200
        );
        server.wait_until_ready(&id).await;
        ids.push(id);
    }
    server.start_session().await;
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let listed = |json: &Value| -> Vec<String> {
        let data = json["data"].as_array().unwrap().iter();
        data.map(|session| session["sessionId"].as_str().unwrap().to_owned())
            .collect()
    };
    for (query, expected) in [
        ("reason=INSUFFICIENT_DATA", ids.clone()),
        ("reason=INSUFFICIENT_DATA&suspicious=false", ids.clone()),
        ("suspicious=true", vec![]),
        ("reason=FULL_ATTEMPT", vec![]),
    ] {
        let page = server.get(&format!("/v1/sessions?{query}"), &secret).await;
        assert_eq!(page.status, 200, "{page:?}");
        let mut found = listed(&page.json);
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, expected, "{query}");
        assert_eq!(page.json["nextCursor"], Value::Null);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for _ in 0..3 {
        let query = format!("/v1/sessions?reason=INSUFFICIENT_DATA&limit=1{cursor}");
        let page = server.get(&query, &secret).await;
        found.extend(listed(&page.json));
        cursor = format!(
            "&cursor={}",
            page.json["nextCursor"].as_str().unwrap_or_default()
        );
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(found, ids, "page by page");
    for query in ["reason=NONE", "suspicious=1", "suspicious="] {
        let page = server.get(&format!("/v1/sessions?{query}"), &secret).await;
        assert_eq!(page.status, 422, "{query}");
    }
    server.stop().await;
}

#[actix::test]
async fn every_response_to_a_keyed_request_reports_the_rate() {
    let settings = Settings {
        rate_limit_per_second: 2,
        ..Settings::default()
    };
    let server = Server::with(settings).await;
    let policy = "\"default\";q=2;w=1";
    let mut limited = 0;
    for _ in 0..6 {
        let request = server.request(Method::GET, "/v1/sessions/ses_nothing");
        let answer = request
            .bearer_auth(&server.keys.secret)
            .send()
            .await
            .unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("ratelimit-policy"), policy);
        let left = header("ratelimit");
        match answer.status().as_u16() {
            404 => assert!(left.starts_with("\"default\";r="), "{left}"),
            429 => {
                limited += 1;
                assert_eq!(left, "\"default\";r=0;t=1");
                assert_eq!(header("retry-after"), "1");
            }
            other => panic!("{other}"),
        }
    }
    assert!(limited > 0);
    let unknown = server
        .request(Method::GET, "/v1/sessions")
        .send()
        .await
        .unwrap();
    assert!(!unknown.headers().contains_key("ratelimit"));
    server.stop().await;
}

#[actix::test]
async fn requests_that_no_handler_serves_report_the_rate_of_a_valid_credential() {
    let settings = Settings {
        rate_limit_per_second: 2,
        ..Settings::default()
    };
    let server = Server::with(settings).await;
    for (method, path, status) in [
        (Method::PUT, "/v1/sessions", 405),
        (Method::GET, "/v1/nothing", 404),
        // The path and the method come before the rate in the order of checks.
        (Method::PUT, "/v1/sessions", 405),
        (Method::GET, "/v1/nothing", 404),
    ] {
        let send = async |credential: Option<&str>| {
            let request = server.request(method.clone(), path);
            let request = match credential {
                Some(credential) => request.bearer_auth(credential),
                None => request,
            };
            let answer = Answer::of(request).await;
            assert_eq!(answer.status, status, "{method} {path}");
            answer
        };
        let keyed = send(Some(&server.keys.secret)).await;
        assert_eq!(keyed.header("ratelimit-policy"), "\"default\";q=2;w=1");
        assert!(keyed.header("ratelimit").starts_with("\"default\";r="));
        for credential in [None, Some("nothing")] {
            let without = send(credential).await;
            assert!(!without.headers.contains_key("ratelimit"), "{credential:?}");
        }
    }
    server.stop().await;
}
