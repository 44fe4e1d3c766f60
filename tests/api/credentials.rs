//! Tests keys and tokens over HTTP: both header forms, rates, revocation, expiry.

use std::time::Duration;

use porchlight_http::Settings;
use porchlight_keys::CreateKeyRequest;
use porchlight_ports::Clock;
use reqwest::Method;
use serde_json::json;

use crate::answer::Answer;
use crate::server::{Server, batch, config, key, telemetry};

#[actix::test]
async fn both_header_forms_are_valid_and_must_agree() {
    let server = Server::start().await;
    let (key, other) = (&server.keys.secret, &server.keys.client);
    let ask = || server.request(Method::GET, "/v1/sessions");
    let good = [
        ask().header("Service-Key", key),
        ask().bearer_auth(key),
        ask().header("Authorization", format!("bearer  {key}")),
        ask().header("Service-Key", key).bearer_auth(key),
    ];
    for request in good {
        assert_eq!(Answer::of(request).await.status, 200);
    }
    let bad = [
        ask().header("Service-Key", key).bearer_auth(other),
        ask().header("Service-Key", key).header("Service-Key", key),
        ask()
            .header("Service-Key", key)
            .header("Authorization", "Basic YTpi"),
        ask().header("Authorization", key),
        ask().header("Authorization", format!("Token {key}")),
        ask().header("Service-Key", format!("Bearer {key}")),
    ];
    for request in bad {
        Answer::of(request)
            .await
            .assert_problem(401, "credential_invalid");
    }
    let in_query = server.request(
        Method::GET,
        &format!("/v1/sessions?Service-Key={key}&access_token={key}"),
    );
    Answer::of(in_query)
        .await
        .assert_problem(401, "credential_missing");
    server.stop().await;
}

#[actix::test]
async fn environments_and_organizations_are_isolated() {
    let server = Server::start().await;
    server.start_session().await;
    let keys = &server.keys;
    let count = async |key: &str| {
        server.get("/v1/sessions", key).await.json["data"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (
            count(&keys.secret).await,
            count(&keys.live).await,
            count(&keys.other).await
        ),
        (1, 0, 0)
    );
    let live = server
        .post(
            "/v1/sessions/start",
            &keys.live,
            &crate::server::start_body(),
        )
        .await;
    assert_eq!(live.json["env"], "production");
    let sandbox = server.get("/v1/sessions", &keys.secret).await;
    assert_eq!(sandbox.json["data"][0]["env"], "sandbox");
    assert_eq!(
        sandbox.json["data"][0]["organizationId"],
        live.json["organizationId"]
    );
    server.stop().await;
}

#[actix::test]
async fn a_revoked_key_is_valid_until_its_lookup_expires() {
    for (remembered, status) in [(Duration::from_secs(3_600), 200), (Duration::ZERO, 401)] {
        let server = Server::with(Settings {
            key_remembered: remembered,
            ..config()
        })
        .await;
        assert_eq!(
            server.get("/v1/sessions", &server.keys.secret).await.status,
            200
        );
        for listed in server.key_admin.list().await.unwrap() {
            server
                .key_admin
                .revoke(&listed.id, server.clock.now())
                .await
                .unwrap();
        }
        assert_eq!(
            server.get("/v1/sessions", &server.keys.secret).await.status,
            status
        );
        server.stop().await;
    }
}

#[actix::test]
async fn a_key_expires_despite_a_cached_lookup() {
    let server = Server::with(Settings {
        key_remembered: Duration::from_secs(3_600),
        ..config()
    })
    .await;
    let order = CreateKeyRequest {
        expires_ms: Some(60 * 60_000),
        ..CreateKeyRequest::new("acme", "live", "secret")
    };
    let made = server
        .key_admin
        .create(&order, server.clock.now())
        .await
        .unwrap();
    assert_eq!(server.get("/v1/sessions", &made.key).await.status, 200);
    server.clock.advance_min(61);
    server
        .get("/v1/sessions", &made.key)
        .await
        .assert_problem(401, "credential_invalid");
    server.stop().await;
}

#[actix::test]
async fn a_token_is_valid_until_a_day_after_its_session_ends() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let pod = json!({ "type": "note", "url": "https://example.com/1" });
    let path = format!("/v1/sessions/{}/pod", session.id);
    server.clock.advance_min(24 * 60 - 1);
    assert_eq!(server.post(&path, &session.token, &pod).await.status, 200);
    server
        .post(&telemetry(&session.id), &session.token, &batch(9))
        .await
        .assert_problem(409, "session_completed");
    server.clock.advance_min(2);
    server
        .post(&path, &session.token, &pod)
        .await
        .assert_problem(401, "credential_invalid");
    server
        .post(&telemetry(&session.id), &session.token, &batch(9))
        .await
        .assert_problem(401, "credential_invalid");
    let stop = json!({ "sessionId": session.id });
    server
        .post("/v1/sessions/stop", &session.token, &stop)
        .await
        .assert_problem(401, "credential_invalid");
    assert_eq!(
        server
            .post("/v1/sessions/stop", &server.keys.secret, &stop)
            .await
            .status,
        200
    );
    server.stop().await;
}

#[actix::test]
async fn the_rate_limit_applies_per_key() {
    let server = Server::with(Settings {
        rate_limit_per_second: 3,
        ..config()
    })
    .await;
    let another = key(&server.key_admin, "acme", "sandbox", "secret").await;
    let mut limited = 0;
    let requests = (0..12).map(|_| server.get("/v1/sessions", &server.keys.secret));
    for answer in futures_util::future::join_all(requests).await {
        if answer.status != 200 {
            answer.assert_problem(429, "rate_limited");
            assert_eq!(answer.header("retry-after"), "1");
            limited += 1;
        }
    }
    assert!(
        limited > 0,
        "twelve simultaneous requests exceed three per second"
    );
    assert_eq!(server.get("/v1/sessions", &another).await.status, 200);
    server.stop().await;
}
