//! Tests the retention that an organization chooses: it stays within the bounds, removes each class
//! of data in time and nothing else, leaves held sessions alone, and applies to the audit log.

use porchlight_actors::audit::Outcome;
use porchlight_actors::service::Swept;
use porchlight_ports::{Collection, DocumentKind, Documents};
use porchlight_schema::ids::SessionId;
use porchlight_store::engine::Space;

use super::*;

const RETENTION: &str = "/v1/retention";
const DAY_MIN: i64 = 24 * 60;

async fn choose(server: &Server, body: Value) -> Answer {
    choose_as(server, &server.keys.secret, body).await
}

async fn choose_as(server: &Server, key: &str, body: Value) -> Answer {
    let request = server.request(Method::PUT, RETENTION);
    let request = request.header("Service-Key", key);
    Answer::of(
        request
            .header("Content-Type", "application/json")
            .body(body.to_string()),
    )
    .await
}

/// Sweeps until nothing is left to remove, and returns the counts of removed data.
async fn sweep(server: &Server) -> Swept {
    let mut all = Swept::default();
    // A sweep advances by a twentieth of the longest retention.
    for _ in 0..25 {
        server.service.apply_retention(&mut all).await.unwrap();
    }
    assert_eq!(all.failures, 0);
    all
}

#[actix::test]
async fn a_retention_is_chosen_within_the_bounds() {
    let server = server(0).await;
    let shown = server.get(RETENTION, &server.keys.secret).await;
    assert_eq!(
        shown.json,
        json!({
            "telemetryDays": null, "messagesDays": null, "insightDays": null, "auditDays": null,
            "bounds": {
                "shortestTelemetryDays": 1, "shortestMessagesDays": 9, "shortestInsightDays": 9, "longestDays": 90,
                "shortestAuditDays": 180, "longestAuditDays": 400,
            },
        })
    );
    for (body, pointer) in [
        (json!({ "telemetryDays": 0 }), "/telemetryDays"),
        (json!({ "telemetryDays": 91 }), "/telemetryDays"),
        (json!({ "telemetryDays": 1.5 }), "/telemetryDays"),
        (json!({ "messagesDays": 8 }), "/messagesDays"),
        (json!({ "insightDays": 8 }), "/insightDays"),
        (
            json!({ "telemetryDays": 31, "insightDays": 30 }),
            "/telemetryDays",
        ),
        (json!({ "auditDays": 179 }), "/auditDays"),
        (json!({ "auditDays": 401 }), "/auditDays"),
        (json!({ "imageDays": 30 }), "/imageDays"),
    ] {
        let refused = choose(&server, body).await;
        refused.assert_problem(422, "invalid_body");
        assert_eq!(refused.json["errors"][0]["pointer"], pointer, "{refused:?}");
    }
    let chosen = choose(
        &server,
        json!({ "telemetryDays": 60.0, "messagesDays": 30 }),
    )
    .await;
    assert_eq!(chosen.status, 200, "{chosen:?}");
    let shown = server.get(RETENTION, &server.keys.secret).await;
    assert_eq!(shown.json, chosen.json);
    assert_eq!(
        (&shown.json["telemetryDays"], &shown.json["insightDays"]),
        (&json!(60), &Value::Null)
    );
    let others = server.get(RETENTION, &server.keys.other).await;
    assert_eq!(others.json["telemetryDays"], Value::Null);
    let reset = choose(&server, json!({})).await;
    assert_eq!(reset.json["telemetryDays"], Value::Null);
    server.stop().await;
}

#[actix::test]
async fn an_insight_stays_readable_without_its_telemetry() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let image = image_path(&server, &session.id).await;
    let before = server
        .get(&insights(&session.id), &server.keys.secret)
        .await;
    choose(&server, json!({ "telemetryDays": 2, "insightDays": 20 })).await;
    server.clock.advance_min(4 * DAY_MIN);
    assert_eq!(sweep(&server).await, Swept::default());
    assert_eq!(server.get(&image, "").await.status, 200);

    server.clock.advance_min(2 * DAY_MIN);
    let swept = sweep(&server).await;
    assert_eq!((swept.telemetry, swept.messages, swept.sessions), (1, 0, 0));
    assert_eq!(sweep(&server).await, Swept::default());
    let after = server
        .get(&insights(&session.id), &server.keys.secret)
        .await;
    assert_eq!(after.json, before.json);
    assert_eq!(reads(&server, &session.id).await, [200; 5]);
    server
        .get(&image, "")
        .await
        .assert_problem(410, "telemetry_expired");
    let pod = json!({ "type": "note", "url": "https://pod.example/late" });
    let path = format!("/v1/sessions/{}/pod", session.id);
    let late = server.post(&path, &server.keys.secret, &pod).await;
    late.assert_problem(409, "session_completed");

    server.clock.advance_min(18 * DAY_MIN);
    assert_eq!(sweep(&server).await.sessions, 1);
    assert_eq!(reads(&server, &session.id).await, [404; 5]);
    server.stop().await;
}

#[actix::test]
async fn a_held_session_keeps_everything_until_the_hold_is_released() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let path = format!("/v1/sessions/{}/hold", session.id);
    let hold = async |method: Method| {
        let request = server.request(method, &path);
        Answer::of(request.header("Service-Key", &server.keys.secret))
            .await
            .status
    };
    assert_eq!(hold(Method::PUT).await, 200);
    choose(
        &server,
        json!({ "telemetryDays": 1, "messagesDays": 9, "insightDays": 9 }),
    )
    .await;
    server.clock.advance_min(30 * DAY_MIN);
    assert_eq!(sweep(&server).await, Swept::default());
    assert_eq!(reads(&server, &session.id).await, [200; 5]);
    assert_eq!(hold(Method::DELETE).await, 200);
    assert_eq!(sweep(&server).await.sessions, 1);
    assert_eq!(read(&server, &session.id).await, 404);
    server.stop().await;
}

#[actix::test]
async fn a_sweep_keeps_a_session_that_another_node_has_just_put_under_a_hold() {
    // This server reads marks only when it needs them.
    let server = Server::with(config()).await;
    let session = server.scored_session().await;
    choose(&server, json!({ "telemetryDays": 1, "insightDays": 9 })).await;
    server.clock.advance_min(30 * DAY_MIN);
    hold::hold_unseen(&server, &session.id).await;
    assert_eq!(sweep(&server).await, Swept::default());
    assert_eq!(read(&server, &session.id).await, 200);
    server.stop().await;
}

/// Returns the number of lines of the audit log, and checks its chain.
async fn audit_lines(server: &Server) -> usize {
    let log = server.service.audit().unwrap();
    for report in log.verify().await.unwrap() {
        assert!(matches!(report.outcome, Outcome::Whole(_)), "{report:?}");
    }
    let answer = server.get("/v1/audit", &server.keys.secret).await;
    answer.json["data"].as_array().unwrap().len()
}

#[actix::test]
async fn lines_of_the_audit_log_expire_after_the_chosen_retention() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let read = async || {
        let path = insights(&session.id);
        let answer = server.get(&path, &server.keys.secret).await;
        assert_eq!(answer.status, 200);
        server.service.audit().unwrap().flush().await;
    };
    choose(&server, json!({ "auditDays": 180 })).await;
    read().await;
    let early = audit_lines(&server).await;
    assert!(early >= 2, "{early}");
    server.clock.advance_min(100 * DAY_MIN);
    read().await;
    assert_eq!(audit_lines(&server).await, early + 1);
    server.clock.advance_min(79 * DAY_MIN);
    assert_eq!(sweep(&server).await, Swept::default());
    assert_eq!(audit_lines(&server).await, early + 1);

    server.clock.advance_min(2 * DAY_MIN);
    assert!(sweep(&server).await.audit_groups >= 1);
    assert_eq!(audit_lines(&server).await, 1);
    assert_eq!(sweep(&server).await, Swept::default());
    // The check accepts that the expired lines are missing, even if lines are kept longer from now
    // on.
    choose(&server, json!({})).await;
    read().await;
    assert_eq!(audit_lines(&server).await, 3);
    server.clock.advance_min(401 * DAY_MIN);
    assert!(sweep(&server).await.audit_groups >= 2);
    assert_eq!(audit_lines(&server).await, 0);
    read().await;
    assert_eq!(audit_lines(&server).await, 1);
    server.stop().await;
}

/// Starts and stops a session of the organization `other`, which is swept after `acme`.
async fn completed_session_of_other(server: &Server) {
    let key = &server.keys.other;
    let started = server.post("/v1/sessions/start", key, &start_body()).await;
    let stop = json!({ "sessionId": started.json["sessionId"] });
    let stopped = server.post("/v1/sessions/stop", key, &stop).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
}

#[actix::test]
async fn a_session_with_a_damaged_row_does_not_stop_the_sweep() {
    let server = server(0).await;
    let damaged: SessionId = server.scored_session().await.id.parse().unwrap();
    let whole = server.scored_session().await;
    completed_session_of_other(&server).await;
    choose(&server, json!({ "telemetryDays": 1 })).await;
    choose_as(&server, &server.keys.other, json!({ "insightDays": 9 })).await;
    let mut insight = vec![b'v'];
    insight.extend(damaged.to_bytes());
    let write = server.store.committer().write(move |txn| {
        txn.put(Space::State, insight, vec![0; 3]);
        Ok(())
    });
    write.await.unwrap();

    server.clock.advance_min(30 * DAY_MIN);
    let swept = sweep(&server).await;
    assert_eq!((swept.telemetry, swept.sessions), (1, 1));
    let expired = |id: SessionId| server.service.has_expired_telemetry(id);
    assert!(expired(whole.id.parse().unwrap()).await.unwrap());
    assert!(!expired(damaged).await.unwrap());
    server.stop().await;
}

#[actix::test]
async fn a_damaged_policy_does_not_stop_the_sweep_of_other_organizations() {
    let server = server(0).await;
    completed_session_of_other(&server).await;
    choose(&server, json!({ "telemetryDays": 1 })).await;
    let policies = Collection::of_service(DocumentKind::Retention);
    let stored = server.store.documents(policies, None, 10).await.unwrap();
    let policy = stored.into_iter().find(|row| row.key.len() > 1).unwrap();
    let damaged = Some(b"?".to_vec());
    let written = server
        .store
        .replace_document(policies, policy.key, Some(policy.data), damaged);
    assert!(written.await.unwrap());
    choose_as(&server, &server.keys.other, json!({ "insightDays": 9 })).await;

    server.clock.advance_min(30 * DAY_MIN);
    assert_eq!(server.store.completed_sessions(9).await.unwrap(), 1);
    let mut sessions = 0;
    for _ in 0..25 {
        let mut swept = Swept::default();
        server.service.apply_retention(&mut swept).await.unwrap();
        assert!(swept.failures > 0, "the damaged policy is reported");
        sessions += swept.sessions;
    }
    assert_eq!(sessions, 1, "the counts of a sweep with a failure are kept");
    assert_eq!(server.store.completed_sessions(9).await.unwrap(), 0);
    server.stop().await;
}
