//! Tests personal data (contract section 11): erasure, access, restriction, suppression and their
//! status.

mod access;
mod damaged;
mod faults;
mod hold;
mod order;
mod removal;
mod restricted;
mod retention;
mod trail;

use std::time::Duration;

use porchlight_actors::service::{PrivacySettings, apply_erasures, logged_erasures};
use porchlight_ports::Keys;
use porchlight_schema::session::Tenant;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{BOUNDS, Server, Started, batch, config, insights, start_body, telemetry};

const REQUESTS: &str = "/v1/privacy/requests";

async fn server(delay_ms: i64) -> Server {
    let server = Server::with(config()).await;
    let settings = PrivacySettings {
        erasure_delay_ms: delay_ms,
        retention: BOUNDS,
        sign: None,
        on_released: std::sync::Arc::new(|_| {}),
    };
    server.service.start_privacy(settings).await.unwrap();
    server
}

fn body(id: &str, request_type: &str, subject: Value) -> Value {
    json!({ "requestId": id, "type": request_type, "subject": subject })
}

async fn submit(server: &Server, body: &Value) -> Answer {
    server.post(REQUESTS, &server.keys.secret, body).await
}

async fn show(server: &Server, id: &str) -> Answer {
    let path = format!("{REQUESTS}/{id}");
    server.get(&path, &server.keys.secret).await
}

async fn delete(server: &Server, id: &str) -> Answer {
    let path = format!("{REQUESTS}/{id}");
    let request = server.request(Method::DELETE, &path);
    Answer::of(request.header("Service-Key", &server.keys.secret)).await
}

/// Waits until a request is completed, and returns it.
async fn completed(server: &Server, id: &str) -> Value {
    for _ in 0..6_000 {
        let answer = show(server, id).await;
        if answer.json["status"] == "completed" {
            return answer.json;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", show(server, id).await);
}

async fn perform(server: &Server, body: &Value) -> Value {
    let answer = submit(server, body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    completed(server, body["requestId"].as_str().unwrap()).await
}

async fn start_as(server: &Server, rider: &str, delivery: &str) -> Answer {
    let mut body = start_body();
    body["externalRiderId"] = rider.into();
    body["deliveryId"] = delivery.into();
    server
        .post("/v1/sessions/start", &server.keys.secret, &body)
        .await
}

/// Returns the status of a read of a session.
async fn read(server: &Server, id: &str) -> u16 {
    let path = format!("/v1/sessions/{id}");
    server.get(&path, &server.keys.secret).await.status
}

/// Returns the status of each read of a session that is not shown.
async fn reads(server: &Server, id: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for end in ["", "/insights", "/evidence", "/events", "/acknowledged"] {
        let path = format!("/v1/sessions/{id}{end}");
        statuses.push(server.get(&path, &server.keys.secret).await.status);
    }
    statuses
}

/// Returns the tenant of the organization `acme` in the sandbox.
async fn tenant(server: &Server) -> Tenant {
    let keys = server.store.list_keys(None).await.unwrap();
    let mut keys = keys.iter();
    let own = keys.find(|key| server.keys.secret.ends_with(&key.last4));
    own.unwrap().tenant
}

async fn listed(server: &Server) -> usize {
    let answer = server.get("/v1/sessions", &server.keys.secret).await;
    answer.json["data"].as_array().unwrap().len()
}

/// Returns the status of each change of a session.
async fn changes(server: &Server, session: &Started) -> Vec<Answer> {
    let key = &server.keys.secret;
    let stop = json!({ "sessionId": session.id });
    let pod = json!({ "type": "note", "url": "https://pod.example/1" });
    vec![
        server.post(&telemetry(&session.id), key, &batch(7)).await,
        server.post("/v1/sessions/stop", key, &stop).await,
        server
            .post(&format!("/v1/sessions/{}/pod", session.id), key, &pod)
            .await,
    ]
}

async fn image_path(server: &Server, id: &str) -> String {
    let insight = server.get(&insights(id), &server.keys.secret).await;
    let url = insight.json["pathImageUrl"].as_str().unwrap();
    let base = format!("http://{}", server.address);
    url.strip_prefix(&base).unwrap().to_owned()
}

#[actix::test]
async fn an_erasure_removes_everything_and_identifies_no_person() {
    let server = server(0).await;
    let (gone, live) = (server.scored_session().await, server.start_session().await);
    let sent = server
        .post(&telemetry(&live.id), &live.token, &batch(0))
        .await;
    assert_eq!(sent.status, 202);
    let other = start_as(&server, "rider-2", "order-2").await;
    let other = other.json["sessionId"].as_str().unwrap().to_owned();
    let image = image_path(&server, &gone.id).await;
    let recorder = json!({ "externalRiderId": "rider-1", "address": start_body()["address"] });
    let recorder = server
        .post("/v1/recorders", &server.keys.secret, &recorder)
        .await;
    let recorder = format!(
        "/v1/recorders/{}",
        recorder.json["recorderId"].as_str().unwrap()
    );

    let erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    let done = perform(&server, &erasure).await;
    let counts = &done["counts"];
    assert_eq!(counts["sessions"], 2, "{done}");
    assert_eq!(counts["telemetry"], 4, "{done}");
    assert_eq!(counts["insights"], 1, "{done}");
    assert_eq!(counts["images"], 1, "{done}");
    assert_eq!(counts["keys"], 1, "{done}");
    assert_eq!(counts.as_object().unwrap().len(), 7);
    assert!(!done.to_string().contains("rider-1"), "{done}");
    let hash = done["subject"]["hash"].as_str().unwrap();
    assert!(hash.starts_with("sha256:"), "{hash}");
    assert!(done["completedAt"].is_string());

    for session in [&gone, &live] {
        assert_eq!(reads(&server, &session.id).await, [404; 5]);
        for answer in changes(&server, session).await {
            answer.assert_problem(404, "session_not_found");
        }
    }
    let picture = Answer::of(server.request(Method::GET, &image)).await;
    picture.assert_problem(404, "session_not_found");
    let shown = server.get(&recorder, &server.keys.secret).await;
    shown.assert_problem(404, "recorder_not_found");
    assert_eq!(read(&server, &other).await, 200);
    assert_eq!(listed(&server).await, 1);
    assert_eq!(
        server.service.registry().live(),
        1,
        "the other session stays live"
    );
    // The courier may work again, and new data stays.
    let again = start_as(&server, "rider-1", "order-3").await;
    assert_eq!(again.status, 201, "{again:?}");
    server.stop().await;
}

#[actix::test]
async fn an_erasure_of_one_session_or_delivery_leaves_the_others_as_they_were() {
    let server = server(0).await;
    let (one, kept) = (server.scored_session().await, server.scored_session().await);
    let before = server.get(&insights(&kept.id), &server.keys.secret).await;
    let erasure = body("e1", "erasure", json!({ "sessionId": one.id }));
    assert_eq!(perform(&server, &erasure).await["counts"]["sessions"], 1);
    assert_eq!(reads(&server, &one.id).await, [404; 5]);
    let after = server.get(&insights(&kept.id), &server.keys.secret).await;
    assert_eq!(after.text, before.text);
    assert_eq!(after.header("etag"), before.header("etag"));
    let erasure = body("e2", "erasure", json!({ "deliveryId": "order-1" }));
    assert_eq!(perform(&server, &erasure).await["counts"]["sessions"], 1);
    assert_eq!(listed(&server).await, 0);
    server.stop().await;
}

#[actix::test]
async fn a_pending_request_can_be_repeated_and_cancelled_but_not_changed() {
    let server = server(3_600_000).await;
    let session = server.start_session().await;
    let erasure = body("e1", "erasure", json!({ "externalRiderId": "rider-1" }));
    let made = submit(&server, &erasure).await;
    assert_eq!(
        (made.status, &made.json["status"]),
        (202, &json!("pending"))
    );
    let mut fields: Vec<_> = made.json.as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "completedAt",
            "counts",
            "downloadUrl",
            "receipt",
            "receivedAt",
            "requestId",
            "status",
            "subject",
            "type"
        ]
    );
    assert_eq!(
        made.json["subject"],
        json!({ "externalRiderId": "rider-1" })
    );
    let again = submit(&server, &erasure).await;
    assert_eq!((again.status, &again.json), (200, &made.json));
    let mut another = erasure.clone();
    another["suppress"] = true.into();
    submit(&server, &another)
        .await
        .assert_problem(422, "request_id_reused");
    for key in [&server.keys.other, &server.keys.live] {
        let path = format!("{REQUESTS}/e1");
        let stranger = server.get(&path, key).await;
        stranger.assert_problem(404, "privacy_request_not_found");
    }
    let client = server.post(REQUESTS, &server.keys.client, &erasure).await;
    client.assert_problem(403, "secret_key_required");
    assert_eq!(delete(&server, "e1").await.status, 204);
    assert_eq!(show(&server, "e1").await.json["status"], "cancelled");
    delete(&server, "e1")
        .await
        .assert_problem(409, "not_pending");
    delete(&server, "e2")
        .await
        .assert_problem(404, "privacy_request_not_found");
    show(&server, "e2")
        .await
        .assert_problem(404, "privacy_request_not_found");
    assert_eq!(read(&server, &session.id).await, 200);
    server.stop().await;
}

#[actix::test]
async fn each_field_of_a_privacy_request_is_validated() {
    let server = server(0).await;
    let good = body("r1", "erasure", json!({ "externalRiderId": "rider-1" }));
    let both = json!({ "externalRiderId": "a", "deliveryId": "b" });
    for (pointer, value) in [
        ("/requestId", json!(null)),
        ("/requestId", json!("")),
        ("/requestId", json!("a/b")),
        ("/requestId", json!("x".repeat(129))),
        ("/type", json!("delete")),
        ("/type", json!(null)),
        ("/subject", json!(null)),
        ("/subject", json!({})),
        ("/subject", both),
        ("/suppress", json!("yes")),
        ("/reason", json!(1)),
        ("/more", json!(1)),
    ] {
        let mut body = good.clone();
        body[&pointer[1..]] = value;
        let answer = submit(&server, &body).await;
        answer.assert_problem(422, "invalid_body");
        assert_eq!(answer.json["errors"][0]["pointer"], pointer, "{answer:?}");
    }
    for (pointer, subject) in [
        ("/subject/sessionId", json!({ "sessionId": "ses_1" })),
        ("/subject/deliveryId", json!({ "deliveryId": "" })),
        ("/subject/more", json!({ "deliveryId": "a", "more": 1 })),
    ] {
        let answer = submit(&server, &body("r1", "access", subject)).await;
        answer.assert_problem(422, "invalid_body");
        assert_eq!(answer.json["errors"][0]["pointer"], pointer, "{answer:?}");
    }
    let mut suppressing = body("r1", "erasure", json!({ "deliveryId": "a" }));
    suppressing["suppress"] = true.into();
    submit(&server, &suppressing)
        .await
        .assert_problem(422, "invalid_body");
    for path in [
        format!("{REQUESTS}?status=done"),
        format!("{REQUESTS}?cursor=x"),
        format!("{REQUESTS}?cursor={}", "0".repeat(80)),
        format!("{REQUESTS}?cursor={}", "A".repeat(59)),
        format!("{REQUESTS}?limit=0"),
        format!("{REQUESTS}?more=1"),
    ] {
        let answer = server.get(&path, &server.keys.secret).await;
        answer.assert_problem(422, "invalid_parameter");
    }
    server.stop().await;
}

#[actix::test]
async fn requests_are_listed_newest_first_by_status_in_pages() {
    let server = server(3_600_000).await;
    for number in 0..5 {
        let request_type = if number < 3 { "erasure" } else { "release" };
        let subject = json!({ "externalRiderId": format!("rider-{number}") });
        let id = format!("r{number}");
        let answer = submit(&server, &body(&id, request_type, subject)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    completed(&server, "r3").await;
    completed(&server, "r4").await;
    let ids = async |query: &str| {
        let (mut ids, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("{REQUESTS}?{query}{cursor}");
            let page = server.get(&path, &server.keys.secret).await;
            assert_eq!(page.status, 200, "{page:?}");
            let data = page.json["data"].as_array().unwrap();
            ids.extend(
                data.iter()
                    .map(|one| one["requestId"].as_str().unwrap().to_owned()),
            );
            match page.json["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return ids.join(" "),
            }
        }
    };
    assert_eq!(ids("limit=2").await, "r4 r3 r2 r1 r0");
    assert_eq!(ids("limit=5").await, "r4 r3 r2 r1 r0");
    assert_eq!(ids("limit=2&status=pending").await, "r2 r1 r0");
    assert_eq!(ids("limit=1&status=completed").await, "r4 r3");
    assert_eq!(ids("limit=1&status=failed").await, "");
    server.stop().await;
}

#[actix::test]
async fn a_restricted_session_is_frozen_until_it_is_released() {
    let server = server(0).await;
    let (session, live) = (server.scored_session().await, server.start_session().await);
    let image = image_path(&server, &session.id).await;
    let before = server
        .get(&insights(&session.id), &server.keys.secret)
        .await;
    let restriction = body("r1", "restriction", json!({ "externalRiderId": "rider-1" }));
    let done = perform(&server, &restriction).await;
    assert_eq!(done["counts"]["sessions"], 2, "{done}");
    assert_eq!(done["subject"], json!({ "externalRiderId": "rider-1" }));
    for frozen in [&session, &live] {
        assert_eq!(reads(&server, &frozen.id).await, [404; 5]);
        for answer in changes(&server, frozen).await {
            answer.assert_problem(409, "restricted");
        }
    }
    assert_eq!(listed(&server).await, 0);
    let picture = Answer::of(server.request(Method::GET, &image)).await;
    picture.assert_problem(404, "session_not_found");
    start_as(&server, "rider-1", "order-9")
        .await
        .assert_problem(409, "restricted");

    let release = body("r2", "release", json!({ "externalRiderId": "rider-1" }));
    perform(&server, &release).await;
    assert_eq!(read(&server, &live.id).await, 200);
    assert_eq!(listed(&server).await, 2);
    let after = server
        .get(&insights(&session.id), &server.keys.secret)
        .await;
    assert_eq!(after.text, before.text);
    let sent = server
        .post(&telemetry(&live.id), &live.token, &batch(0))
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");
    server.stop().await;
}

/// Creates a recorder of the courier. Returns its id and the path of its link.
async fn recorder(server: &Server) -> (String, String) {
    let recorder = json!({ "externalRiderId": "rider-1", "address": start_body()["address"] });
    let recorder = server
        .post("/v1/recorders", &server.keys.secret, &recorder)
        .await;
    let url = recorder.json["url"].as_str().unwrap();
    (
        recorder.json["recorderId"].as_str().unwrap().to_owned(),
        url[url.find("/r/").unwrap()..].to_owned(),
    )
}

/// Pushes a position with the present time to a recorder's link.
async fn push(server: &Server, link: &str) -> Answer {
    let now = porchlight_ports::Clock::now(&*server.clock).0 / 1_000;
    let push = format!("{link}/traccar?id=1&lat=51.38&lon=-2.36&timestamp={now}");
    Answer::of(server.request(Method::POST, &push)).await
}

#[actix::test]
async fn a_suppressed_courier_starts_nothing_until_released() {
    let server = server(0).await;
    let (_, link) = recorder(&server).await;
    let mut suppression = body("r1", "restriction", json!({ "externalRiderId": "rider-1" }));
    suppression["suppress"] = true.into();
    perform(&server, &suppression).await;
    start_as(&server, "rider-1", "order-1")
        .await
        .assert_problem(403, "suppressed");
    assert_eq!(start_as(&server, "rider-2", "order-1").await.status, 201);
    push(&server, &link).await.assert_problem(403, "suppressed");
    perform(
        &server,
        &body("r2", "release", json!({ "externalRiderId": "rider-1" })),
    )
    .await;
    assert_eq!(start_as(&server, "rider-1", "order-1").await.status, 201);
    server.stop().await;
}

#[actix::test]
async fn later_erasures_are_applied_to_a_restored_store() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let other = start_as(&server, "rider-2", "order-2").await;
    perform(
        &server,
        &body("e1", "erasure", json!({ "externalRiderId": "rider-1" })),
    )
    .await;
    let log = logged_erasures(server.store.as_ref()).await.unwrap();
    assert_eq!(log.len(), 1);
    let text = serde_json::to_string(&log).unwrap();
    assert!(!text.contains("rider-1"), "{text}");
    server.stop().await;

    // A second store serves as the backup: it has sessions of both couriers.
    let backup = Server::start().await;
    let (old, kept) = (
        backup.scored_session().await,
        start_as(&backup, "rider-2", "o").await,
    );
    let tenant = {
        let id = old.id.parse().unwrap();
        backup.service.find(id).await.unwrap().unwrap().start.tenant
    };
    let mut log = log;
    for entry in &mut log {
        entry.tenant = tenant;
        entry.until = backup.service.now();
    }
    for expected in [1, 0] {
        let erased = apply_erasures(backup.store.as_ref(), &log).await.unwrap();
        assert_eq!(erased, expected);
    }
    assert_eq!(reads(&backup, &old.id).await, [404; 5]);
    let kept = kept.json["sessionId"].as_str().unwrap();
    assert_eq!(read(&backup, kept).await, 200);
    assert_eq!(logged_erasures(backup.store.as_ref()).await.unwrap(), log);
    assert!(session.id != old.id && other.status == 201);
    backup.stop().await;
}
