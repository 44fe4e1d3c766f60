//! Tests recorders: apps on stock phones push samples that become sessions, and the customer sees
//! their state.

mod clock;
pub(crate) mod native;
mod page;
mod recorded;

use porchlight_ports::Clock;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, start_body};

/// A created recorder, and the path of its link.
struct CreatedRecorder {
    id: String,
    link: String,
    answer: Value,
}

fn body() -> Value {
    json!({ "externalRiderId": "rider-1", "address": start_body()["address"] })
}

async fn create(server: &Server, body: &Value) -> CreatedRecorder {
    let answer = server
        .post("/v1/recorders", &server.keys.secret, body)
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let url = answer.json["url"].as_str().unwrap();
    let place = url.find("/r/").unwrap();
    CreatedRecorder {
        id: answer.json["recorderId"].as_str().unwrap().to_owned(),
        link: url[place..].to_owned(),
        answer: answer.json.clone(),
    }
}

async fn show(server: &Server, recorder: &CreatedRecorder) -> Value {
    let path = format!("/v1/recorders/{}", recorder.id);
    let answer = server.get(&path, &server.keys.secret).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json
}

/// Pushes a body as an app does: without a key.
async fn push(server: &Server, recorder: &CreatedRecorder, app: &str, body: String) -> Answer {
    let request = server.request(Method::POST, &format!("{}/{app}", recorder.link));
    let request = request.header("Content-Type", "application/json");
    Answer::of(request.body(body)).await
}

async fn acknowledged(server: &Server, session_id: &Value) -> u64 {
    let id = session_id.as_str().unwrap();
    let path = format!("/v1/sessions/{id}/acknowledged");
    let answer = server.get(&path, &server.keys.secret).await;
    assert_eq!(answer.json["missing"], json!([]), "{answer:?}");
    answer.json["nextSeq"].as_u64().unwrap()
}

async fn session(server: &Server, session_id: &Value) -> Value {
    let id = session_id.as_str().unwrap();
    let path = format!("/v1/sessions/{id}");
    server.get(&path, &server.keys.secret).await.json
}

#[actix::test]
async fn a_recorder_is_created_shown_and_removed() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let answer = &recorder.answer;
    let mut fields: Vec<_> = answer.as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["expiresAt", "pushUrls", "qrSvg", "recorderId", "url"]
    );
    assert!(recorder.id.starts_with("rec_"), "{}", recorder.id);
    assert!(answer["qrSvg"].as_str().unwrap().contains("<svg"));
    let url = answer["url"].as_str().unwrap();
    for (app, end) in [
        ("sensorLogger", "sensor-logger"),
        ("traccar", "traccar"),
        ("owntracks", "owntracks"),
        ("overland", "overland"),
        ("gpslogger", "gpslogger"),
    ] {
        assert_eq!(answer["pushUrls"][app], format!("{url}/{end}"));
    }
    let shown = show(&server, &recorder).await;
    assert_eq!(shown["sessionId"], Value::Null);
    assert_eq!(shown["lastHeardAt"], Value::Null);
    assert_eq!(shown["receiving"], json!({}));
    assert_eq!(shown["pushUrls"], answer["pushUrls"]);
    let path = format!("/v1/recorders/{}", recorder.id);
    for key in [&server.keys.other, &server.keys.live] {
        let other = server.get(&path, key).await;
        other.assert_problem(404, "recorder_not_found");
    }
    let client = server.get(&path, &server.keys.client).await;
    client.assert_problem(403, "secret_key_required");
    let remove = || server.request(Method::DELETE, &path);
    let removed = Answer::of(remove().header("Service-Key", &server.keys.secret)).await;
    assert_eq!(removed.status, 204);
    let again = Answer::of(remove().header("Service-Key", &server.keys.secret)).await;
    again.assert_problem(404, "recorder_not_found");
    server.stop().await;
}

#[actix::test]
async fn every_field_of_a_recorder_request_is_validated() {
    let server = Server::start().await;
    for (pointer, value) in [
        ("/expiresInSec", json!(59)),
        ("/expiresInSec", json!(2_592_001)),
        ("/expiresInSec", json!("1")),
        ("/externalRiderId", json!(null)),
        ("/address", json!(null)),
        ("/deliveryId", json!("")),
        ("/more", json!(1)),
    ] {
        let mut body = body();
        body[&pointer[1..]] = value;
        let answer = server
            .post("/v1/recorders", &server.keys.secret, &body)
            .await;
        assert_eq!(
            answer.assert_problem(422, "invalid_body").faults(),
            [pointer]
        );
    }
    let point = json!({ "lat": 51.38, "lng": -2.36 });
    let mut unknown = body();
    unknown["address"]["entrance"] = point.clone();
    unknown["address"]["gates"] = json!([point, point]);
    create(&server, &unknown).await;
    unknown["address"]["more"] = json!(1);
    unknown["address"]["entrance"]["name"] = json!("back");
    unknown["address"]["gates"][1]["code"] = json!("1234");
    let answer = server
        .post("/v1/recorders", &server.keys.secret, &unknown)
        .await;
    assert_eq!(
        answer.assert_problem(422, "invalid_body").faults(),
        [
            "/address/more",
            "/address/entrance/name",
            "/address/gates/1/code"
        ]
    );
    for seconds in [60, 2_592_000] {
        let mut body = body();
        body["expiresInSec"] = json!(seconds);
        create(&server, &body).await;
    }
    server.stop().await;
}

#[actix::test]
async fn each_app_gets_the_response_it_expects() {
    let server = Server::start().await;
    let now = server.clock.now();
    let now_sec = now.0 / 1_000;
    let cases = [
        (
            "sensor-logger",
            format!(
                r#"{{"messageId":0,"sessionId":"s","deviceId":"d","payload":[{{"name":"location","time":{}000000,"values":{{"latitude":51.38,"longitude":-2.36}}}}]}}"#,
                now.0
            ),
            "{}",
        ),
        (
            "traccar",
            format!(r#"[{{"id":"1","lat":51.38,"lon":-2.36,"timestamp":{now_sec}}}]"#),
            "{}",
        ),
        (
            "traccar",
            format!(
                r#"{{"location":{{"timestamp":"{now}","coords":{{"latitude":51.38,"longitude":-2.36}}}},"device_id":"1"}}"#
            ),
            "{}",
        ),
        (
            "traccar",
            format!("id=1&lat=51.38&lon=-2.36&timestamp={now_sec}"),
            "{}",
        ),
        (
            "owntracks",
            format!(r#"{{"_type":"location","lat":51.38,"lon":-2.36,"tst":{now_sec}}}"#),
            "[]",
        ),
        ("owntracks", String::new(), "[]"),
        (
            "overland",
            format!(
                r#"{{"locations":[{{"type":"Feature","geometry":{{"type":"Point","coordinates":[-2.36,51.38]}},"properties":{{"timestamp":"{now}"}}}}]}}"#
            ),
            r#"{"result":"ok"}"#,
        ),
        (
            "gpslogger",
            format!("lat=51.38&lon=-2.36&timestamp={now_sec}"),
            "{}",
        ),
    ];
    for (app, body, expected) in cases {
        let recorder = create(&server, &self::body()).await;
        let has_position = !body.is_empty();
        let answer = push(&server, &recorder, app, body).await;
        assert_eq!(
            (answer.status, answer.text.as_str()),
            (200, expected),
            "{app}"
        );
        let shown = show(&server, &recorder).await;
        assert!(shown["lastHeardAt"].is_string());
        assert_eq!(shown["sessionId"].is_string(), has_position, "{app}");
        if has_position {
            assert_eq!(acknowledged(&server, &shown["sessionId"]).await, 1);
            let session = session(&server, &shown["sessionId"]).await;
            assert_eq!(session["status"], "recording");
            assert_eq!(session["externalRiderId"], "rider-1");
            assert_eq!(session["deliveryId"], recorder.id);
        }
    }
    // The query as the apps send it.
    for app in ["traccar", "gpslogger"] {
        let recorder = create(&server, &body()).await;
        let path = format!(
            "{}/{app}?id=1&lat=51.38&lon=-2.36&timestamp={now_sec}&batt=5",
            recorder.link
        );
        for method in [Method::GET, Method::POST] {
            assert_eq!(Answer::of(server.request(method, &path)).await.status, 200);
        }
        let shown = show(&server, &recorder).await;
        assert_eq!(
            acknowledged(&server, &shown["sessionId"]).await,
            1,
            "a repeat"
        );
    }
    server.stop().await;
}

#[actix::test]
async fn invalid_app_payloads_are_refused() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    for (app, body, status, code) in [
        ("sensor-logger", "x", 400, "malformed_body"),
        ("sensor-logger", "{}", 422, "invalid_body"),
        ("sensor-logger", r#"{"payload":5}"#, 422, "invalid_body"),
        ("traccar", "{", 400, "malformed_body"),
        ("traccar", "lat=1&lon=2", 422, "invalid_body"),
        ("owntracks", "x", 400, "malformed_body"),
        ("overland", "{}", 422, "invalid_body"),
        ("gpslogger", "lat=1&lon=2", 422, "invalid_body"),
    ] {
        let answer = push(&server, &recorder, app, body.to_owned()).await;
        answer.assert_problem(status, code);
        let faults: &[&str] = match (app, status) {
            (_, 400) => &[],
            ("sensor-logger", _) => &[""],
            ("overland", _) => &["/locations"],
            _ => &["/timestamp"],
        };
        assert_eq!(answer.faults(), faults, "{app}");
    }
    for app in ["traccar", "gpslogger"] {
        let path = format!("{}/{app}?lat=1&lon=2", recorder.link);
        let answer = Answer::of(server.request(Method::GET, &path)).await;
        answer.assert_problem(422, "invalid_body");
        assert_eq!(answer.json["errors"][0]["parameter"], "timestamp");
    }
    assert_eq!(show(&server, &recorder).await["sessionId"], Value::Null);
    server.stop().await;
}

#[actix::test]
async fn a_removed_recorder_is_refused_with_a_visible_message() {
    let server = Server::start().await;
    let mut short = body();
    short["expiresInSec"] = json!(60);
    let (expired, removed) = (
        create(&server, &short).await,
        create(&server, &body()).await,
    );
    let path = format!("/v1/recorders/{}", removed.id);
    let request = server.request(Method::DELETE, &path);
    Answer::of(request.header("Service-Key", &server.keys.secret)).await;
    server.clock.advance_min(2);
    let mut forged = create(&server, &body()).await;
    let last = if forged.link.ends_with('A') { "B" } else { "A" };
    forged.link.replace_range(forged.link.len() - 1.., last);
    for recorder in [&expired, &removed, &forged] {
        for (app, body) in [
            ("traccar", "id=1&lat=1&lon=2&timestamp=1698501144"),
            (
                "owntracks",
                r#"{"_type":"location","lat":1,"lon":2,"tst":1698501144}"#,
            ),
            ("overland", r#"{"locations":[]}"#),
            ("gpslogger", "lat=1&lon=2&timestamp=1698501144"),
        ] {
            let answer = push(&server, recorder, app, body.to_owned()).await;
            answer.assert_problem(401, "credential_invalid");
        }
        // The credential is checked before the body.
        for app in ["traccar", "owntracks", "overland"] {
            let answer = push(&server, recorder, app, "{".to_owned()).await;
            answer.assert_problem(401, "credential_invalid");
        }
        for body in [r#"{"payload":[]}"#, "{"] {
            let answer = push(&server, recorder, "sensor-logger", body.to_owned()).await;
            assert_eq!(answer.status, 499);
            assert!(
                answer.text.contains("expired or was removed"),
                "{}",
                answer.text
            );
            assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        }
        let page = Answer::of(server.request(Method::GET, &recorder.link)).await;
        page.assert_problem(401, "credential_invalid");
    }
    server.stop().await;
}

#[actix::test]
async fn an_end_word_ends_the_session_and_a_position_opens_another() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let now_sec = server.clock.now().0 / 1_000;
    let position = |second: i64, poi: &str| {
        let poi = if poi.is_empty() {
            String::new()
        } else {
            format!(r#","poi":"{poi}""#)
        };
        format!(
            r#"{{"_type":"location","lat":51.38,"lon":-2.36,"acc":5,"tst":{}{poi}}}"#,
            now_sec - 100 + second
        )
    };
    for second in 0..5 {
        assert_eq!(
            push(&server, &recorder, "owntracks", position(second, ""))
                .await
                .status,
            200
        );
    }
    let first = show(&server, &recorder).await["sessionId"].clone();
    for _ in 0..2 {
        let answer = push(&server, &recorder, "owntracks", position(5, "Delivered")).await;
        assert_eq!(answer.status, 200);
    }
    let ended = session(&server, &first).await;
    assert_eq!(ended["status"], "completed");
    let after_ms = |from: &Value, to: &Value| {
        let at = |value: &Value| {
            value
                .as_str()
                .unwrap()
                .parse::<porchlight_schema::time::TimestampMs>()
                .unwrap()
        };
        at(to).since_ms(at(from))
    };
    assert_eq!(after_ms(&ended["startedAt"], &ended["endedAt"]), 5_000);
    assert_eq!(acknowledged(&server, &first).await, 6);
    // A position from before the end belongs to the ended session, a newer one to the next.
    push(&server, &recorder, "owntracks", position(3, "left_at_door")).await;
    assert_eq!(acknowledged(&server, &first).await, 7);
    push(&server, &recorder, "owntracks", position(9, "")).await;
    let second = show(&server, &recorder).await["sessionId"].clone();
    assert_ne!(first, second);
    assert_eq!(acknowledged(&server, &second).await, 1);
    assert_eq!(
        server.wait_until_ready(first.as_str().unwrap()).await.json["status"],
        "ready"
    );
    server.stop().await;
}

#[actix::test]
async fn recordings_from_days_ago_are_accepted() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let days_ago_sec = server.clock.now().0 / 1_000 - 5 * 24 * 3_600;
    for second in 0..3 {
        let text = format!(
            "id=1&lat=51.38&lon=-2.36&timestamp={}",
            days_ago_sec + second
        );
        assert_eq!(push(&server, &recorder, "traccar", text).await.status, 200);
    }
    let shown = show(&server, &recorder).await;
    assert_eq!(acknowledged(&server, &shown["sessionId"]).await, 3);
    // The clock of this phone is a year ahead.
    let recorder = create(&server, &body()).await;
    let ahead_sec = server.clock.now().0 / 1_000 + 365 * 24 * 3_600;
    for event in ["", "&event=delivered"] {
        let text = format!("id=1&lat=51.38&lon=-2.36&timestamp={ahead_sec}{event}");
        assert_eq!(push(&server, &recorder, "traccar", text).await.status, 200);
    }
    let shown = show(&server, &recorder).await;
    assert_eq!(
        session(&server, &shown["sessionId"]).await["status"],
        "completed"
    );
    server.stop().await;
}

#[actix::test]
async fn the_link_opens_the_setup_page_for_the_apps() {
    let server = Server::start().await;
    let mut order = body();
    order["address"]["line1"] = json!("1 <High> Street");
    let recorder = create(&server, &order).await;
    let page = async || Answer::of(server.request(Method::GET, &recorder.link)).await;
    let empty = page().await;
    assert_eq!(empty.status, 200);
    let policy = empty.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    assert!(!empty.text.contains("style=") && !empty.text.contains("onclick="));
    for expected in [
        "1 &lt;High&gt; Street",
        "Nothing received yet.",
        "owntracks:///config?inline=",
        "overland://setup?url=http%3A%2F%2F",
        "sensorlogger://annotate/delivered",
        "/traccar",
        "timestamp=%TIMESTAMP",
    ] {
        assert!(empty.text.contains(expected), "{expected}: {}", empty.text);
    }
    let now_sec = server.clock.now().0 / 1_000;
    for second in 0..3 {
        let text = format!(
            "id=1&lat=51.38&lon=-2.36&timestamp={}",
            now_sec - 10 + second
        );
        push(&server, &recorder, "traccar", text).await;
    }
    let text = page().await.text;
    assert!(text.contains("Receiving: position 1.0 Hz."), "{text}");
    assert_eq!(
        show(&server, &recorder).await["receiving"],
        json!({ "location": 1.0 })
    );
    server.clock.advance_min(2);
    assert!(
        page()
            .await
            .text
            .contains("Nothing received in the last 60 s.")
    );
    server.stop().await;
}
