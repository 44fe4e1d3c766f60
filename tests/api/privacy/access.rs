//! Tests the archive behind `downloadUrl` of an access request.

use std::io::{Cursor, Read};

use porchlight_core::privacy::{Begin, PrivacyRequest};
use porchlight_ports::{Clock, Collection, DocumentKind, Documents};
use porchlight_schema::hex;
use porchlight_schema::limits::PRIVACY_REQUESTS_SCANNED_MAX;
use porchlight_schema::privacy::{HASH_DOMAIN, RequestType, Subject};
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::*;

/// Returns the path and query of a link.
fn path_of(server: &Server, url: &Value) -> String {
    let base = format!("http://{}", server.address);
    let path = url.as_str().unwrap().strip_prefix(&base).unwrap();
    path.to_owned()
}

async fn download(server: &Server, path: &str) -> ZipArchive<Cursor<Vec<u8>>> {
    let answer = server.request(Method::GET, path).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/zip");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let bytes = answer.bytes().await.unwrap().to_vec();
    ZipArchive::new(Cursor::new(bytes)).unwrap()
}

fn text(archive: &mut ZipArchive<Cursor<Vec<u8>>>, name: &str) -> String {
    let mut text = String::new();
    let mut file = archive.by_name(name).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

async fn refused(server: &Server, path: &str, status: u16, code: &str) {
    let answer = Answer::of(server.request(Method::GET, path)).await;
    answer.assert_problem(status, code);
}

/// Returns the link of the only request in the list.
async fn listed_url(server: &Server) -> Value {
    let list = server.get(REQUESTS, &server.keys.secret).await;
    list.json["data"][0]["downloadUrl"].clone()
}

/// The archive contains the fields of the start that no answer shows: the unit is where a recipient
/// lives, and the model is the courier's phone.
#[actix::test]
async fn an_archive_contains_the_address_and_the_device_with_all_fields() {
    let server = server(0).await;
    let mut order = start_body();
    for (field, value) in [
        ("unit", json!("4B")),
        ("floor", json!(4)),
        ("entrance", json!({ "lat": 51.3801, "lng": -2.3601 })),
    ] {
        order["address"][field] = value;
    }
    order["device"] = json!({ "platform": "android", "model": "Pixel 9", "osVersion": "16" });
    let started = server
        .post("/v1/sessions/start", &server.keys.secret, &order)
        .await;
    assert_eq!(started.status, 201, "{}", started.text);
    let access = body("a1", "access", json!({ "externalRiderId": "rider-1" }));
    let done = perform(&server, &access).await;
    let mut archive = download(&server, &path_of(&server, &done["downloadUrl"])).await;
    let id = started.json["sessionId"].as_str().unwrap();
    let start = text(&mut archive, &format!("sessions/{id}/start.json"));
    let start: Value = serde_json::from_str(&start).unwrap();
    for part in ["address", "device"] {
        for (field, value) in order[part].as_object().unwrap() {
            assert_eq!(&start[part][field], value, "{part}.{field}");
        }
    }
}

#[actix::test]
async fn a_completed_access_request_offers_an_archive_of_the_subject() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let other = start_as(&server, "rider-2", "order-2").await;
    let review = format!("/v1/sessions/{}/review", session.id);
    let review = server
        .request(Method::PUT, &review)
        .header("Service-Key", &server.keys.secret)
        .header("Content-Type", "application/json")
        .body(json!({ "state": "overturned", "note": "closed gate" }).to_string());
    assert_eq!(Answer::of(review).await.status, 200);
    for rider in ["rider-1", "rider-2"] {
        let recorder = json!({ "externalRiderId": rider, "address": start_body()["address"] });
        let made = server
            .post("/v1/recorders", &server.keys.secret, &recorder)
            .await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    let access = body("a~1", "access", json!({ "externalRiderId": "rider-1" }));
    let done = perform(&server, &access).await;
    assert_eq!(listed_url(&server).await, done["downloadUrl"]);
    let path = path_of(&server, &done["downloadUrl"]);

    let mut archive = download(&server, &path).await;
    let folder = format!("sessions/{}", session.id);
    let names = archive.file_names();
    let mut names: Vec<_> = names.map(|name| name.unwrap().into_owned()).collect();
    names.sort_unstable();
    let files = [
        "acknowledged.json",
        "evidence.json",
        "insight.json",
        "path.png",
        "review.json",
        "session.json",
        "start.json",
        "telemetry.ndjson",
    ];
    let top = ["index.html", "recorders.json", "sessions.json"];
    let mut expected = top.map(str::to_owned).to_vec();
    expected.extend(files.map(|file| format!("{folder}/{file}")));
    expected.sort_unstable();
    assert_eq!(names, expected);
    let telemetry = text(&mut archive, &format!("{folder}/telemetry.ndjson"));
    assert_eq!(telemetry.lines().count(), 3);
    for (seq, line) in telemetry.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], seq);
        assert_eq!(line["samples"].as_array().unwrap().len(), 10);
        assert_eq!(line["samples"][0]["lat"], 51.38);
    }
    let shown = format!("/v1/sessions/{}", session.id);
    let shown = server.get(&shown, &server.keys.secret).await;
    let stored: Value =
        serde_json::from_str(&text(&mut archive, &format!("{folder}/session.json"))).unwrap();
    assert_eq!(stored, shown.json);
    let insight = text(&mut archive, &format!("{folder}/insight.json"));
    assert!(insight.contains("\"ready\""), "{insight}");
    let mut json =
        |name: &str| -> Value { serde_json::from_str(&text(&mut archive, name)).unwrap() };
    assert_eq!(
        json(&format!("{folder}/review.json"))["note"],
        "closed gate"
    );
    let acknowledged = json(&format!("{folder}/acknowledged.json"));
    assert_eq!(acknowledged["nextSeq"], 3);
    let recorders = json("recorders.json");
    assert_eq!(recorders.as_array().unwrap().len(), 1, "{recorders}");
    assert_eq!(recorders[0]["externalRiderId"], "rider-1");
    assert_eq!(
        recorders[0]["address"]["line1"],
        start_body()["address"]["line1"]
    );
    let page = text(&mut archive, "index.html");
    assert!(page.contains("rider-1") && page.contains(&session.id));
    assert!(!page.contains(other.json["sessionId"].as_str().unwrap()));

    let head = Answer::of(server.request(Method::HEAD, &path)).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    server.service.audit().unwrap().flush().await;
    let audit = "/v1/audit?action=export.download";
    let audit = server.get(audit, &server.keys.secret).await;
    let line = &audit.json["data"][0];
    assert_eq!(line["object"], "a~1", "{audit:?}");
    assert_eq!(line["actor"]["kind"], "link", "{audit:?}");
    server.stop().await;
}

#[actix::test]
async fn a_link_to_an_archive_is_valid_for_one_request_of_one_tenant_for_a_day() {
    let server = server(0).await;
    let access = body("a1", "access", json!({ "externalRiderId": "rider-1" }));
    let done = perform(&server, &access).await;
    let path = path_of(&server, &done["downloadUrl"]);
    let foreign = server.post(REQUESTS, &server.keys.other, &access).await;
    assert_eq!(foreign.status, 202);
    let live = server.post(REQUESTS, &server.keys.live, &access).await;
    assert_eq!(live.status, 202);
    let organization = |path: &str| {
        let (_, rest) = path.split_once("organizationId=").unwrap();
        rest.split_once('&').unwrap().0.to_owned()
    };
    let (before, signature) = path.split_once("&signature=").unwrap();
    let wrong = [
        before.to_owned(),
        format!("{before}&signature="),
        format!("{before}&signature={}", &signature[1..]),
        format!("{before}&signature={}", "0".repeat(signature.len())),
        path.replace("/a1/", "/a2/"),
        path.replace("environment=sandbox", "environment=production"),
        path.replace("environment=sandbox", "environment=x"),
        path.replace(&organization(&path), "org_00000000000000000000000001"),
        path.replace("expires=1", "expires=2"),
        path.replace("expires=", "expires=x"),
        path.split_once('?').unwrap().0.to_owned(),
    ];
    for wrong in wrong {
        refused(&server, &wrong, 403, "forbidden").await;
    }
    // A key is not a signature.
    server
        .get(before, &server.keys.secret)
        .await
        .assert_problem(403, "forbidden");
    let refused_request = server
        .request(Method::GET, &path)
        .header("Accept", "application/json");
    Answer::of(refused_request)
        .await
        .assert_problem(406, "not_acceptable");
    let more = format!("{path}&more=1");
    let answer = Answer::of(server.request(Method::GET, &more)).await;
    let faults = answer.assert_problem(422, "invalid_parameter").faults();
    assert_eq!(faults, ["more"]);
    // The other tenant's request of the same id has another link.
    let mut others = Value::Null;
    for _ in 0..6_000 {
        let other = format!("{REQUESTS}/a1");
        let other = server.get(&other, &server.keys.other).await;
        others = other.json["downloadUrl"].clone();
        if others.is_string() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let others = path_of(&server, &others);
    assert_ne!(organization(&others), organization(&path));
    server.clock.advance_min(24 * 60 - 1);
    drop(download(&server, &path).await);
    server.clock.advance_min(1);
    refused(&server, &path, 404, "privacy_request_not_found").await;
    assert_eq!(
        show(&server, "a1").await.json["downloadUrl"],
        json!(null),
        "the link has expired"
    );
    server.stop().await;
}

#[actix::test]
async fn an_archive_contains_restricted_sessions_and_no_erased_ones() {
    let server = server(0).await;
    let session = server.scored_session().await;
    let subject = json!({ "externalRiderId": "rider-1" });
    perform(&server, &body("r1", "restriction", subject.clone())).await;
    let done = perform(&server, &body("a1", "access", subject.clone())).await;
    let path = path_of(&server, &done["downloadUrl"]);
    let name = format!("sessions/{}/telemetry.ndjson", session.id);
    let mut archive = download(&server, &path).await;
    assert_eq!(text(&mut archive, &name).lines().count(), 3);

    let release = perform(&server, &body("r2", "release", subject.clone())).await;
    assert_eq!(release["downloadUrl"], json!(null));
    let erasure = perform(&server, &body("e1", "erasure", subject)).await;
    assert_eq!(erasure["downloadUrl"], json!(null));
    // The access request no longer names the courier, so its archive is gone.
    refused(&server, &path, 404, "privacy_request_not_found").await;
    assert_eq!(show(&server, "a1").await.json["downloadUrl"], json!(null));
    server.stop().await;
}

#[actix::test]
async fn an_archive_lists_the_sessions_that_were_erased_before_as_salted_hashes() {
    let server = server(0).await;
    let subject = json!({ "externalRiderId": "rider-1" });
    let erased = server.start_session().await;
    perform(&server, &body("e1", "erasure", subject.clone())).await;
    let kept = server.start_session().await;
    let done = perform(&server, &body("a1", "access", subject)).await;
    let mut archive = download(&server, &path_of(&server, &done["downloadUrl"])).await;
    let contents: Value = serde_json::from_str(&text(&mut archive, "sessions.json")).unwrap();
    let deleted = contents["deleted"].as_array().unwrap();
    assert_eq!(deleted.len(), 1, "{contents}");
    let parts: Vec<&str> = deleted[0].as_str().unwrap().split(':').collect();
    let salt: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&parts[1][2 * at..2 * at + 2], 16).unwrap())
        .collect();
    // A customer that has a copy of a session computes the same hash from its id.
    let hash_of = |id: &str| {
        let mut hash = Sha256::new();
        for part in [HASH_DOMAIN, &salt, b"sessionId", id.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex::encode(&hash.finalize())
    };
    assert_eq!(parts[0], "sha256");
    assert_eq!(parts[2], hash_of(&erased.id));
    assert_ne!(parts[2], hash_of(&kept.id));
    server.stop().await;
}

#[actix::test]
async fn an_erasure_replaces_its_subject_in_any_number_of_earlier_requests() {
    let server = server(0).await;
    let requests = Collection::of_tenant(DocumentKind::PrivacyRequest, tenant(&server).await);
    let subject = json!({ "externalRiderId": "rider-1" });
    // One query does not read all of these requests.
    let ids: Vec<_> = (0..=PRIVACY_REQUESTS_SCANNED_MAX)
        .map(|number| format!("r{number}"))
        .collect();
    for id in &ids {
        let begin = Begin {
            request_id: id.clone(),
            request_type: RequestType::Access,
            subject: Subject::ExternalRiderId("rider-1".into()),
            suppress: false,
            reason: None,
            body_hash: String::new(),
            salt: [1; 16],
            delay_ms: 3_600_000,
        };
        let mut request = PrivacyRequest::new(begin, server.clock.now());
        request.cancel(server.clock.now()).unwrap();
        let data = Some(serde_json::to_vec(&request).unwrap());
        let key = Sha256::digest(id.as_bytes()).to_vec();
        let written = server.store.replace_document(requests, key, None, data);
        assert!(written.await.unwrap());
    }
    assert_eq!(show(&server, "r0").await.json["subject"], subject);
    perform(&server, &body("e1", "erasure", subject)).await;
    for id in &ids {
        let request = show(&server, id).await.json;
        assert_eq!(request["status"], "cancelled");
        assert!(!request.to_string().contains("rider-1"), "{request}");
    }
    server.stop().await;
}
