//! Tests insights over HTTP: their shape, their tags, and the evidence.

use std::sync::Arc;

use porchlight_core::shares::ShareLimits;
use porchlight_ports::{Journal, SingleNode};
use reqwest::Method;

use crate::answer::Answer;
use crate::events::send;
use crate::server::{
    Server, ServiceParts, TestClock, batch, config, insights, service_of, service_with_commits,
    telemetry,
};

#[actix::test]
async fn an_insight_exists_from_the_start_and_is_ready_after_the_end() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = insights(&session.id);
    let processing = server.get(&path, &server.keys.secret).await;
    assert_eq!(
        (processing.status, processing.json["status"].as_str()),
        (200, Some("processing"))
    );
    assert_eq!(processing.json["reasonCodes"], serde_json::json!([]));
    let evidence = format!("/v1/sessions/{}/evidence", session.id);
    server
        .get(&evidence, &server.keys.secret)
        .await
        .assert_problem(404, "not_scored");

    let scored = server.scored_session().await;
    let ready = server.get(&insights(&scored.id), &server.keys.secret).await;
    assert_eq!(ready.json["status"], "ready");
    assert_eq!(ready.header("cache-control"), "private, no-cache");
    for name in [
        "sessionId",
        "organizationId",
        "deliveryId",
        "summary",
        "reasonCodes",
        "events",
        "pathImageUrl",
        "errorMessage",
        "createdAt",
        "updatedAt",
    ] {
        assert!(ready.json.get(name).is_some(), "{name}: {ready:?}");
    }
    let evidence = server
        .get(
            &format!("/v1/sessions/{}/evidence", scored.id),
            &server.keys.secret,
        )
        .await;
    assert_eq!(evidence.status, 200);
    assert!(
        evidence.json["data"].is_array() && evidence.json["weights"].is_string(),
        "{evidence:?}"
    );
    server.stop().await;
}

#[actix::test]
async fn a_tag_is_strong_and_changes_with_the_insight() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = insights(&session.id);
    let before = server.get(&path, &server.keys.secret).await;
    server
        .post(&telemetry(&session.id), &session.token, &batch(0))
        .await;
    server
        .post(
            "/v1/sessions/stop",
            &session.token,
            &serde_json::json!({ "sessionId": session.id }),
        )
        .await;
    let ready = server.wait_until_ready(&session.id).await;
    let tag = ready.header("etag").to_owned();
    assert!(
        tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10,
        "{tag}"
    );
    assert_ne!(before.header("etag"), tag);
    let ask = async |value: &str| {
        let request = server
            .request(Method::GET, &path)
            .header("Service-Key", &server.keys.secret);
        Answer::of(request.header("If-None-Match", value)).await
    };
    for known in [
        tag.clone(),
        format!("W/{tag}"),
        format!("\"x\", {tag}"),
        format!("{tag},\"y\""),
        "*".into(),
    ] {
        let answer = ask(&known).await;
        assert_eq!((answer.status, answer.text.as_str()), (304, ""), "{known}");
        assert_eq!(
            (answer.header("etag"), answer.header("cache-control")),
            (tag.as_str(), "private, no-cache")
        );
    }
    for unknown in [
        before.header("etag"),
        "\"x\"",
        "x",
        "",
        tag.trim_matches('"'),
    ] {
        let answer = ask(unknown).await;
        assert_eq!(
            (answer.status, &answer.text),
            (200, &ready.text),
            "{unknown}"
        );
    }
    server.stop().await;
}

#[actix::test]
async fn head_returns_the_response_of_get_without_a_body() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let paths = [
        "/v1/sessions".to_owned(),
        format!("/v1/sessions/{}", session.id),
        insights(&session.id),
        format!("/v1/sessions/{}/evidence", session.id),
    ];
    for path in paths {
        let get = server.get(&path, &server.keys.secret).await;
        let head = Answer::of(
            server
                .request(Method::HEAD, &path)
                .header("Service-Key", &server.keys.secret),
        )
        .await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
        for name in ["content-type", "content-length", "etag", "cache-control"] {
            assert_eq!(head.header(name), get.header(name), "{path}: {name}");
        }
    }
    server.stop().await;
}

/// Each commit takes a minute. A process that is killed and started again reports the time at which
/// the events changed as the first process did.
#[actix::test]
async fn the_time_of_a_change_survives_a_restart() {
    let clock: Arc<TestClock> = Arc::default();
    let slow = Arc::clone(&clock);
    let shares = ShareLimits::default();
    let (service, store, arbiters) =
        service_with_commits(Arc::clone(&clock), shares, move || slow.advance_min(1));
    let server = Server::serve(service, store, Arc::clone(&clock), arbiters, config()).await;
    let session = server.start_session().await;
    let id = session.id.parse().unwrap();
    server.service.live(id).await.unwrap();
    send(&server, &session, 0..20).await;
    let before = server.service.live(id).await.unwrap();
    assert!(!before.events.is_empty());

    let alone = Arc::new(SingleNode { generation: 2 });
    let parts = ServiceParts {
        store: Arc::clone(&server.store) as _,
        ownership: Arc::clone(&alone) as _,
        peers: alone,
        wake: Arc::new(|_, _| {}),
    };
    let (restarted, others) = service_of(parts, clock, shares);
    restarted.recover().await.unwrap();
    let after = restarted.live(id).await.unwrap();
    assert_eq!(after.events, before.events);
    assert_eq!(after.changed_at, before.changed_at);
    // An idle session ends when the last batch that the store has was received.
    let (_, received_at) = server.store.newest(id).await.unwrap().unwrap();
    let handle = server.service.registry().handle(id).unwrap();
    assert_eq!(handle.last_received_at(), received_at);
    for arbiter in others {
        arbiter.stop();
    }
    server.stop().await;
}
