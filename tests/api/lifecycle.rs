//! Tests a session from its start to its insight.

use porchlight_ports::Clock;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, batch, insights, start_body, telemetry};

#[actix::test]
async fn a_session_response_has_the_fixed_fields_and_its_start() {
    let server = Server::start().await;
    let mut body = start_body();
    body["address"]["unit"] = json!("4b");
    body["address"]["floor"] = json!(2);
    body["unknown"] = json!({ "a": 1 });
    let started = server
        .post("/v1/sessions/start", &server.keys.client, &body)
        .await;
    assert_eq!(started.status, 201, "{started:?}");
    let id = started.json["sessionId"].as_str().unwrap();
    let mut expected = json!({
        "sessionId": id,
        "deliveryId": "order-1",
        "organizationId": started.json["organizationId"],
        "externalRiderId": "rider-1",
        "sessionType": "delivery",
        "status": "recording",
        "env": "sandbox",
        "address": start_body()["address"],
        "startedAt": started.json["startedAt"],
        "createdAt": started.json["createdAt"],
        "endedAt": null,
    });
    assert_eq!(started.json["startedAt"], started.json["createdAt"]);
    let read = server
        .get(&format!("/v1/sessions/{id}"), &server.keys.secret)
        .await;
    assert_eq!((read.status, &read.json), (200, &expected));
    assert_eq!(read.header("content-type"), "application/json");
    let token = started.json["sessionToken"].as_str().unwrap();
    let stopped = server
        .post(
            "/v1/sessions/stop",
            token,
            &json!({ "sessionId": id, "endedAt": null, "pod": null }),
        )
        .await;
    expected["status"] = json!("completed");
    expected["endedAt"] = stopped.json["endedAt"].clone();
    assert!(stopped.json["endedAt"].is_string());
    assert_eq!((stopped.status, &stopped.json), (200, &expected));
    let again = server
        .post(
            "/v1/sessions/stop",
            &server.keys.secret,
            &json!({ "sessionId": id, "endedAt": "2001-01-01T00:00:00Z" }),
        )
        .await;
    assert_eq!((again.status, &again.json), (200, &expected));
    expected["sessionToken"] = json!(token);
    expected["status"] = json!("recording");
    expected["endedAt"] = Value::Null;
    assert_eq!(started.json, expected);
    server.stop().await;
}

#[actix::test]
async fn a_batch_is_acknowledged_again_and_never_replaced() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = telemetry(&session.id);
    for key in [&session.token, &server.keys.secret, &session.token] {
        let answer = server.post(&path, key, &batch(5)).await;
        assert_eq!(
            (answer.status, answer.json),
            (202, json!({ "sessionId": session.id, "ackSeq": 5 }))
        );
    }
    let mut another = batch(5);
    another["samples"][3]["lat"] = json!(51.39);
    server
        .post(&path, &session.token, &another)
        .await
        .assert_problem(409, "seq_conflict");
    for (seq, samples) in [
        (0, json!([])),
        (1_000_000, json!([])),
        (1, json!([{ "kind": "tricorder", "t": 1, "x": "y" }])),
    ] {
        let answer = server
            .post(
                &path,
                &session.token,
                &json!({ "seq": seq, "samples": samples }),
            )
            .await;
        assert_eq!((answer.status, &answer.json["ackSeq"]), (202, &json!(seq)));
    }
    server.stop().await;
}

#[actix::test]
async fn telemetry_is_accepted_for_ten_minutes_after_the_end() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    server.clock.advance_min(9);
    assert_eq!(
        server
            .post(&telemetry(&session.id), &session.token, &batch(3))
            .await
            .status,
        202
    );
    server.clock.advance_min(2);
    server
        .post(&telemetry(&session.id), &session.token, &batch(4))
        .await
        .assert_problem(409, "session_completed");
    server.stop().await;
}

/// The range of `startedAt` is evaluated at the time when the session was created.
#[actix::test]
async fn a_repeated_start_gets_the_same_response_after_its_time_limit() {
    let server = Server::start().await;
    let now = jiff::Timestamp::now();
    let started_at = now - jiff::SignedDuration::from_secs(24 * 3_600 - 30);
    let mut body = start_body();
    body["startedAt"] = json!(format!("{started_at:.3}"));
    let start = async |idempotency: &str, body: &Value| {
        let request = server.request(Method::POST, "/v1/sessions/start");
        let request = request
            .header("Service-Key", &server.keys.client)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", idempotency);
        Answer::of(request.body(body.to_string())).await
    };
    let first = start("once", &body).await;
    assert_eq!(first.status, 201);
    server.clock.advance_min(23 * 60);
    let again = start("once", &body).await;
    assert_eq!((again.status, &again.text), (201, &first.text));
    let mut another = body.clone();
    another["deliveryId"] = json!("order-2");
    start("once", &another)
        .await
        .assert_problem(422, "idempotency_key_reused");
    let late = start("twice", &body).await;
    assert_eq!(
        late.assert_problem(422, "invalid_body").json["errors"][0]["pointer"],
        "/startedAt"
    );
    server.stop().await;
}

#[actix::test]
async fn a_repeat_by_idempotency_key_gets_the_same_response() {
    let server = Server::start().await;
    let start = async |key: &str, idempotency: &str, body: &Value| {
        let request = server
            .request(Method::POST, "/v1/sessions/start")
            .header("Service-Key", key)
            .header("Idempotency-Key", idempotency);
        Answer::of(
            request
                .header("Content-Type", "application/json")
                .body(body.to_string()),
        )
        .await
    };
    let (keys, body) = (&server.keys, start_body());
    let first = start(&keys.client, "a b~!", &body).await;
    assert_eq!(first.status, 201);
    let id = first.json["sessionId"].as_str().unwrap();
    server
        .post(
            "/v1/sessions/stop",
            &keys.secret,
            &json!({ "sessionId": id }),
        )
        .await;
    for key in [&keys.client, &keys.secret] {
        let again = start(key, "a b~!", &body).await;
        assert_eq!((again.status, &again.text), (201, &first.text));
    }
    let mut another = body.clone();
    another["deliveryId"] = json!("order-2");
    start(&keys.client, "a b~!", &another)
        .await
        .assert_problem(422, "idempotency_key_reused");
    for (key, idempotency) in [
        (&keys.client, "other"),
        (&keys.live, "a b~!"),
        (&keys.other, "a b~!"),
    ] {
        let answer = start(key, idempotency, &another).await;
        assert_eq!(answer.status, 201);
        assert_ne!(answer.json["sessionId"], first.json["sessionId"]);
    }
    let invalid = json!({ "deliveryId": 1 });
    start(&keys.client, "error", &invalid)
        .await
        .assert_problem(422, "invalid_body");
    assert_eq!(
        start(&keys.client, "error", &body).await.status,
        201,
        "an error is remembered"
    );
    for wrong in ["", "ä", &"x".repeat(129), "a\tb"] {
        let answer = start(&keys.client, wrong, &body).await;
        assert_eq!(
            answer.assert_problem(422, "invalid_parameter").faults(),
            ["Idempotency-Key"],
            "{wrong}"
        );
        assert_eq!(
            answer.json["detail"],
            "A parameter or header is invalid; see errors."
        );
    }
    assert_eq!(
        start(&keys.client, &"x".repeat(128), &body).await.status,
        201
    );
    server.clock.advance_min(24 * 60 + 1);
    let later = start(&keys.client, "a b~!", &another).await;
    assert_eq!(later.status, 201, "a key is remembered for 24 hours");
    server.stop().await;
}

#[actix::test]
async fn a_pod_is_acknowledged_and_causes_a_new_insight() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let path = format!("/v1/sessions/{}/pod", session.id);
    let before = server.wait_until_ready(&session.id).await;
    assert!(before.json.get("pod").is_none());
    let pod = json!({ "type": "signature", "url": "https://example.com/s?x=1" });
    for _ in 0..2 {
        let answer = server.post(&path, &session.token, &pod).await;
        assert_eq!((answer.status, &answer.json), (200, &pod));
    }
    for _ in 0..12_000 {
        let now = server
            .get(&insights(&session.id), &server.keys.secret)
            .await;
        assert_eq!(now.json["status"], "ready");
        if now.json["pod"] == pod {
            assert!(now.json["updatedAt"].as_str() >= before.json["updatedAt"].as_str());
            server.stop().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("the PoD did not reach the insight");
}

#[actix::test]
async fn the_times_of_the_phone_are_kept_within_bounds() {
    let server = Server::start().await;
    let now = server.clock.now();
    for (minutes, is_good) in [
        (-24 * 60 - 1, false),
        (-24 * 60 + 1, true),
        (4, true),
        (6, false),
    ] {
        let mut body = start_body();
        body["startedAt"] = json!(now.plus_ms(minutes * 60_000).to_string());
        let answer = server
            .post("/v1/sessions/start", &server.keys.client, &body)
            .await;
        if is_good {
            assert_eq!(answer.status, 201, "{minutes}: {answer:?}");
        } else {
            assert_eq!(
                answer.assert_problem(422, "invalid_body").faults(),
                ["/startedAt"]
            );
        }
    }
    for (minutes, is_good) in [(-1, false), (6, false), (4, true)] {
        let session = server.start_session().await;
        let stop = json!({ "sessionId": session.id, "endedAt": server.clock.now().plus_ms(minutes * 60_000).to_string() });
        let answer = server
            .post("/v1/sessions/stop", &session.token, &stop)
            .await;
        if is_good {
            assert_eq!(
                (answer.status, &answer.json["endedAt"]),
                (200, &stop["endedAt"])
            );
        } else {
            assert_eq!(
                answer.assert_problem(422, "invalid_body").faults(),
                ["/endedAt"]
            );
        }
    }
    server.stop().await;
}

#[actix::test]
async fn the_url_of_a_pod_is_returned_as_a_uri() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = format!("/v1/sessions/{}/pod", session.id);
    let pod = |url: &str| json!({ "type": "photo", "url": url });
    let upper = pod("HTTPS://a.b/c");
    let answer = server.post(&path, &session.token, &upper).await;
    assert_eq!((answer.status, &answer.json), (200, &upper));
    let sent = pod("https://example.com/türe_{1}.jpg");
    let uri = pod("https://example.com/t%C3%BCre_%7B1%7D.jpg");
    let answer = server.post(&path, &session.token, &sent).await;
    assert_eq!((answer.status, &answer.json), (200, &uri));
    let insight = server
        .get(&insights(&session.id), &server.keys.secret)
        .await;
    assert_eq!(insight.json["pod"], uri);
    let body = json!({ "sessionId": session.id, "pod": pod("https://example.com/%zz") });
    let stop = server
        .post("/v1/sessions/stop", &server.keys.secret, &body)
        .await;
    assert_eq!(
        stop.assert_problem(422, "invalid_body").faults(),
        ["/pod/url"]
    );
    server.stop().await;
}

#[actix::test]
async fn a_later_pod_counts_even_if_the_clock_was_set_back() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = format!("/v1/sessions/{}/pod", session.id);
    let pod = |name: &str| json!({ "type": "note", "url": format!("https://example.com/{name}") });
    for (name, step_min) in [("first", -60), ("second", 120), ("third", -31)] {
        let attached = server.post(&path, &session.token, &pod(name)).await;
        assert_eq!((attached.status, &attached.json), (200, &pod(name)));
        let insight = server
            .get(&insights(&session.id), &server.keys.secret)
            .await;
        assert_eq!(insight.json["pod"], pod(name));
        server.clock.step_min(step_min);
    }
    // The stop carries a PoD, too.
    let body = json!({ "sessionId": session.id, "pod": pod("last") });
    let stopped = server
        .post("/v1/sessions/stop", &session.token, &body)
        .await;
    assert_eq!(stopped.status, 200);
    let insight = server.wait_until_ready(&session.id).await;
    assert_eq!(insight.json["pod"], pod("last"));
    server.stop().await;
}
