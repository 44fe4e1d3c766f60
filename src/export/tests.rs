//! Tests the content of the archive of an access request.

use std::io::Read;

use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::insight::InsightRecord;
use porchlight_schema::review::{Review, ReviewState};
use porchlight_schema::session::{Address, Env, Point, SessionStart, Tenant};
use serde_json::json;
use zip::ZipArchive;

use super::*;

const AT: TimestampMs = TimestampMs(1_763_636_100_000);

fn start(tail: u128) -> SessionStart {
    SessionStart {
        delivery_id: format!("order-{tail}"),
        external_rider_id: "rider <12>".to_owned(),
        ..SessionStart::delivery(
            SessionId::new(AT, tail),
            Tenant {
                organization_id: OrganizationId::new(AT, 1),
                env: Env::Sandbox,
            },
            Address {
                line1: "Lindenweg 7".to_owned(),
                city: "Berlin".to_owned(),
                country: "DE".to_owned(),
                ..Address::at(Point {
                    lat: 52.52,
                    lng: 13.405,
                })
            },
            AT,
        )
    }
}

fn request() -> Request {
    Request {
        request_id: "access-1".to_owned(),
        subject_kind: "externalRiderId".to_owned(),
        subject: "rider <12>".to_owned(),
        received_at: AT,
        read_at: AT.plus_ms(1_000),
        erased: vec!["sha256:00:99".to_owned()],
    }
}

fn evidence() -> Evidence {
    Evidence {
        about: "rightDoorstep".to_owned(),
        signal: "near_door".to_owned(),
        points: 1.5,
        t_start: None,
        t_end: None,
        text: "The courier stood 4 m from the address.".to_owned(),
        explanation: String::new(),
    }
}

fn review() -> Review {
    Review {
        state: ReviewState::Overturned,
        note: Some("The door was <locked>.".to_owned()),
        by: Some("Kim".to_owned()),
        reviewed_at: AT,
        key_id: KeyId::from_bytes([1; 16]),
    }
}

fn archive() -> Vec<u8> {
    let (first, second) = (start(1), start(2));
    let record = InsightRecord {
        revision: 1,
        score: None,
        error_message: Some("none".to_owned()),
        pod: None,
        updated_at: AT,
    };
    let evidence = [evidence()];
    let mut archive = AccessArchive::new(request());
    archive
        .add(&ExportedSession {
            session_id: first.session_id,
            session: SessionView::answer(&first, None),
            start: json!({ "address": { "unit": "4B" } }),
            telemetry_ndjson: b"{\"seq\":0,\"samples\":[]}\n{\"seq\":1,\"samples\":[]}\n",
            insight: Some(InsightView::scored(&first, &record, None)),
            evidence: Some(ExportedEvidence {
                data: &evidence,
                weights: "w",
                dropped_samples: DroppedSamples::default(),
            }),
            path_png: Some(b"\x89PNG\r\n"),
            review: Some(ReviewView::from(&review())),
            acknowledged: Some(json!({ "nextSeq": 2, "missing": [] })),
            messages: vec![json!({ "id": "dlv_1", "payload": "{}" })],
            places: vec![json!({ "kind": "place", "floor": 2 })],
        })
        .unwrap();
    archive
        .add(&ExportedSession {
            session_id: second.session_id,
            session: SessionView::answer(&second, None),
            start: json!({}),
            telemetry_ndjson: b"",
            insight: None,
            evidence: None,
            path_png: None,
            review: None,
            acknowledged: None,
            messages: Vec::new(),
            places: Vec::new(),
        })
        .unwrap();
    let recorder = json!({ "recorderId": "rec_1", "externalRiderId": "rider <12>", "address": { "line1": "Ulmenweg 3" } });
    archive.add_recorder(&recorder).unwrap();
    archive.finish().unwrap()
}

fn text(archive: &mut ZipArchive<Cursor<Vec<u8>>>, name: &str) -> String {
    let mut text = String::new();
    let mut file = archive.by_name(name).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn an_archive_holds_each_file_of_each_session() {
    let mut archive = ZipArchive::new(Cursor::new(archive())).unwrap();
    let id = SessionId::new(AT, 1);
    let mut names: Vec<_> = archive
        .file_names()
        .map(|name| name.unwrap().into_owned())
        .collect();
    names.sort();
    let other = SessionId::new(AT, 2);
    let mut expected = vec![
        "index.html".to_owned(),
        "recorders.json".to_owned(),
        "sessions.json".to_owned(),
    ];
    for name in [
        "acknowledged.json",
        "evidence.json",
        "insight.json",
        "messages.json",
        "path.png",
        "places.json",
        "review.json",
        "session.json",
        "start.json",
        "telemetry.ndjson",
    ] {
        expected.push(format!("sessions/{id}/{name}"));
    }
    for name in ["session.json", "start.json", "telemetry.ndjson"] {
        expected.push(format!("sessions/{other}/{name}"));
    }
    expected.sort();
    assert_eq!(names, expected);

    let contents: serde_json::Value =
        serde_json::from_str(&text(&mut archive, "sessions.json")).unwrap();
    assert_eq!(contents["data"][0]["deliveryId"], "order-1");
    assert_eq!(contents["data"][0]["address"]["lat"], 52.52);
    assert_eq!(contents["deleted"], json!(["sha256:00:99"]));
    let telemetry = text(&mut archive, &format!("sessions/{id}/telemetry.ndjson"));
    assert_eq!(telemetry.lines().count(), 2);
    let evidence = text(&mut archive, &format!("sessions/{id}/evidence.json"));
    assert!(evidence.contains("4 m from the address"), "{evidence}");
}

#[test]
fn the_page_is_readable_and_links_to_the_files() {
    let mut archive = ZipArchive::new(Cursor::new(archive())).unwrap();
    let page = text(&mut archive, "index.html");
    let id = SessionId::new(AT, 1);
    for part in [
        "rider &lt;12&gt;",
        "Lindenweg 7",
        "The courier stood 4 m from the address.",
        "telemetry (2 batches)",
        &format!("sessions/{id}/path.png"),
        "Erased before",
        "sha256:00:99",
        "Ulmenweg 3",
        "overturned",
        " by Kim: The door was &lt;locked&gt;.",
        "webhook messages (1)",
        &format!("sessions/{id}/places.json"),
        &format!("sessions/{id}/acknowledged.json"),
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        !page.contains("<script") && !page.contains("http"),
        "{page}"
    );
}

#[test]
fn equal_data_give_equal_bytes() {
    assert_eq!(archive(), archive());
}

#[test]
fn too_much_data_is_refused() {
    let session = start(1);
    let telemetry = vec![b'\n'; ACCESS_ARCHIVE_BYTES_MAX];
    let exported = ExportedSession {
        session_id: session.session_id,
        session: SessionView::answer(&session, None),
        start: json!({}),
        telemetry_ndjson: &telemetry,
        insight: None,
        evidence: None,
        path_png: None,
        review: None,
        acknowledged: None,
        messages: Vec::new(),
        places: Vec::new(),
    };
    let mut archive = AccessArchive::new(request());
    assert!(matches!(archive.add(&exported), Err(ExportError::TooLarge)));
}
