//! Tests validation, field by field: each fault is named by its pointer, and one answer reports all
//! faults.

use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, start_body, telemetry};

fn with(pointer: &str, value: Value) -> Value {
    let mut body = start_body();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap()[name] = value;
    body
}

#[actix::test]
async fn each_field_of_a_start_is_validated() {
    let server = Server::start().await;
    let long = "x".repeat(257);
    let text = [json!(""), json!(1), json!(null), json!([]), json!(long)];
    let mut bad: Vec<(&str, Value)> = Vec::new();
    for pointer in ["/deliveryId", "/externalRiderId"] {
        bad.extend(text.iter().map(|value| (pointer, value.clone())));
    }
    // These fields of an address may be empty.
    for pointer in ["/address/line1", "/address/city", "/address/country"] {
        let values = text.iter().filter(|value| **value != "");
        bad.extend(values.map(|value| (pointer, value.clone())));
    }
    for (pointer, values) in [
        ("/address", json!([null, 1, [], "x"])),
        ("/address/lat", json!([null, "1", 90.001, -91, true])),
        ("/address/lng", json!([null, "1", 180.5, -181])),
        ("/address/unit", json!([1, long])),
        ("/address/floor", json!(["1", 1.5, 201, -21, 1e300])),
        ("/address/accuracyM", json!(["1", -1, 100001])),
        ("/address/storeyHeightM", json!([0, 21, "3"])),
        ("/address/entrance", json!([1, []])),
        (
            "/address/gates",
            json!([1, {}, vec![json!({ "lat": 1, "lng": 1 }); 17]]),
        ),
        ("/sessionType", json!(["", "DELIVERY", 1])),
        ("/startedAt", json!(["yesterday", 1, "2026-11-20"])),
        ("/device", json!([1, []])),
    ] {
        bad.extend(
            values
                .as_array()
                .unwrap()
                .iter()
                .map(|value| (pointer, value.clone())),
        );
    }
    for (pointer, value) in bad {
        let answer = server
            .post(
                "/v1/sessions/start",
                &server.keys.client,
                &with(pointer, value.clone()),
            )
            .await;
        assert_eq!(
            answer.assert_problem(422, "invalid_body").faults(),
            [pointer],
            "{value}"
        );
    }
    for (pointer, value, fault) in [
        (
            "/address/entrance",
            json!({ "lat": 1 }),
            "/address/entrance/lng",
        ),
        (
            "/address/gates",
            json!([{ "lat": 1, "lng": 1 }, { "lat": 91, "lng": 1 }]),
            "/address/gates/1/lat",
        ),
        ("/address/gates", json!([1]), "/address/gates/0"),
        ("/device", json!({ "model": 1 }), "/device/model"),
        (
            "/device",
            json!({ "sensors": ["gps", 1] }),
            "/device/sensors/1",
        ),
        (
            "/device",
            json!({ "sensors": vec!["x"; 33] }),
            "/device/sensors",
        ),
    ] {
        let answer = server
            .post(
                "/v1/sessions/start",
                &server.keys.client,
                &with(pointer, value),
            )
            .await;
        assert_eq!(answer.assert_problem(422, "invalid_body").faults(), [fault]);
    }
    server.stop().await;
}

#[actix::test]
async fn values_at_the_edge_of_their_range_are_accepted() {
    let server = Server::start().await;
    let text = "ä".repeat(256);
    for (pointer, values) in [
        ("/deliveryId", json!(["x", text])),
        ("/address/lat", json!([90, -90, 0])),
        ("/address/lng", json!([180, -180.0])),
        ("/address/unit", json!([null, "", text])),
        ("/address/floor", json!([null, -20, 200, 0, 3.0])),
        ("/address/accuracyM", json!([0, 100000, null])),
        ("/address/storeyHeightM", json!([1.5, 20])),
        (
            "/address/gates",
            json!([[], null, vec![json!({ "lat": 1, "lng": 1 }); 16]]),
        ),
        (
            "/sessionType",
            json!(["delivery", "pickup", "return", null]),
        ),
        ("/startedAt", json!([null])),
        (
            "/device",
            json!([null, {}, { "platform": "ios", "model": "", "osVersion": "18", "sdkVersion": "1", "sensors": ["gps"] }]),
        ),
    ] {
        for value in values.as_array().unwrap() {
            let answer = server
                .post(
                    "/v1/sessions/start",
                    &server.keys.client,
                    &with(pointer, value.clone()),
                )
                .await;
            assert_eq!(answer.status, 201, "{pointer} {value}: {answer:?}");
        }
    }
    server.stop().await;
}

#[actix::test]
async fn all_faults_are_reported_together() {
    let server = Server::start().await;
    let body = json!({ "deliveryId": 1, "address": { "line1": "x", "lat": "51", "gates": [{}] }, "device": 2 });
    let answer = server
        .post("/v1/sessions/start", &server.keys.client, &body)
        .await;
    let mut faults = answer.assert_problem(422, "invalid_body").faults();
    faults.sort_unstable();
    assert_eq!(
        faults,
        [
            "/address/city",
            "/address/country",
            "/address/gates/0/lat",
            "/address/gates/0/lng",
            "/address/lat",
            "/address/lng",
            "/deliveryId",
            "/device",
            "/externalRiderId"
        ]
    );
    let gates = vec![json!({}); 16];
    let answer = server
        .post(
            "/v1/sessions/start",
            &server.keys.client,
            &with("/address/gates", json!(gates)),
        )
        .await;
    assert_eq!(
        answer.assert_problem(422, "invalid_body").faults().len(),
        20,
        "the list is bounded"
    );
    server.stop().await;
}

#[actix::test]
async fn an_invalid_sample_is_named_and_refuses_its_batch() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let good = json!({ "kind": "pressure", "t": 1, "hPa": 1013 });
    for (body, fault) in [
        (json!({ "samples": [] }), "/seq"),
        (json!({ "seq": -1, "samples": [] }), "/seq"),
        (json!({ "seq": 1_000_001, "samples": [] }), "/seq"),
        (json!({ "seq": 0 }), "/samples"),
        (json!({ "seq": 0, "samples": {} }), "/samples"),
        (
            json!({ "seq": 0, "samples": [good, { "kind": "location", "t": 1, "lat": 91, "lng": 0 }] }),
            "/samples/1/lat",
        ),
        (
            json!({ "seq": 0, "samples": [good, good, { "kind": "pressure", "t": -1, "hPa": 1013 }] }),
            "/samples/2/t",
        ),
        (json!({ "seq": 0, "samples": [1] }), "/samples/0"),
    ] {
        let answer = server
            .post(&telemetry(&session.id), &session.token, &body)
            .await;
        assert_eq!(
            answer.assert_problem(422, "invalid_body").faults(),
            [fault],
            "{body}"
        );
    }
    // No part of the batch was stored, so its number is free.
    let taken = server
        .post(
            &telemetry(&session.id),
            &session.token,
            &json!({ "seq": 0, "samples": [good] }),
        )
        .await;
    assert_eq!(taken.status, 202);
    server.stop().await;
}

#[actix::test]
async fn stops_and_pods_are_validated() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let pods = [
        (json!({}), vec!["/type", "/url"]),
        (
            json!({ "type": "video", "url": "https://example.com" }),
            vec!["/type"],
        ),
        (
            json!({ "type": "photo", "url": "http://example.com" }),
            vec!["/url"],
        ),
        (json!({ "type": "photo", "url": "https://" }), vec!["/url"]),
        (
            json!({ "type": "photo", "url": "HTTPS:///a" }),
            vec!["/url"],
        ),
        (json!({ "type": "photo", "url": 1 }), vec!["/url"]),
        (
            json!({ "type": "photo", "url": format!("https://example.com/{}", "x".repeat(2_048)) }),
            vec!["/url"],
        ),
    ];
    for (pod, faults) in pods {
        let answer = server
            .post(
                &format!("/v1/sessions/{}/pod", session.id),
                &session.token,
                &pod,
            )
            .await;
        assert_eq!(
            answer.assert_problem(422, "invalid_body").faults(),
            faults,
            "{pod}"
        );
        let stop = json!({ "sessionId": session.id, "pod": pod });
        let answer = server
            .post("/v1/sessions/stop", &session.token, &stop)
            .await;
        let faults: Vec<_> = faults.iter().map(|fault| format!("/pod{fault}")).collect();
        assert_eq!(
            answer.assert_problem(422, "invalid_body").faults(),
            faults,
            "{pod}"
        );
    }
    for (stop, fault) in [
        (json!({ "sessionId": 1 }), "/sessionId"),
        (json!({ "sessionId": null }), "/sessionId"),
        (
            json!({ "sessionId": session.id, "endedAt": "now" }),
            "/endedAt",
        ),
        (json!({ "sessionId": session.id, "pod": "x" }), "/pod"),
    ] {
        let answer = server
            .post("/v1/sessions/stop", &server.keys.secret, &stop)
            .await;
        assert_eq!(
            answer.assert_problem(422, "invalid_body").faults(),
            [fault],
            "{stop}"
        );
    }
    let read = server
        .get(&format!("/v1/sessions/{}", session.id), &server.keys.secret)
        .await;
    assert_eq!(
        read.json["status"], "recording",
        "an error means that nothing was done"
    );
    server.stop().await;
}

/// Well-formed JSON with a number too large for a double is a content error, not a syntax error: it
/// is reported in known fields and ignored elsewhere.
#[actix::test]
async fn a_number_beyond_the_doubles_is_out_of_range() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let post = async |path: &str, body: String| {
        let request = server.request(Method::POST, path);
        let request = request.header("Service-Key", &server.keys.secret);
        let request = request.header("Content-Type", "application/json");
        Answer::of(request.body(body)).await
    };
    let start = start_body().to_string();
    let path = "/v1/sessions/start";
    let ignored = start.replacen('{', r#"{"more":-1e999,"#, 1);
    assert_eq!(post(path, ignored).await.status, 201);
    let huge = with("/address/accuracyM", json!(123.25)).to_string();
    let huge = huge.replace("123.25", "123.25e999");
    let answer = post(path, huge).await;
    let faults = answer.assert_problem(422, "invalid_body").faults();
    assert_eq!(faults, ["/address/accuracyM"]);
    let path = telemetry(&session.id);
    let batch = |t: &str| {
        format!(
            r#"{{"seq":0.0,"samples":[{{"kind":"pressure","t":{t},"hPa":1013,"more":1e999}}]}}"#
        )
    };
    let answer = post(&path, batch("1e999")).await;
    let faults = answer.assert_problem(422, "invalid_body").faults();
    assert_eq!(faults, ["/samples/0/t"]);
    let answer = post(&path, batch("01e999")).await;
    let problem = answer.assert_problem(400, "malformed_json");
    let detail = problem.json["detail"].as_str().unwrap();
    assert!(detail.starts_with("The body is not JSON: "), "{detail}");
    assert_eq!(post(&path, batch("1e0")).await.status, 202);
    server.stop().await;
}
