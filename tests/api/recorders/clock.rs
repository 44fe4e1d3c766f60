//! Tests recorders of phones that send a wrong time, or times from before the session.

use super::*;

/// Pushes a position at a time relative to the server's, as GPSLogger does.
async fn position(server: &Server, recorder: &CreatedRecorder, after_sec: i64) {
    let at_sec = server.clock.now().0 / 1_000 + after_sec;
    let text = format!("lat=51.38&lon=-2.36&acc=5&timestamp={at_sec}");
    assert_eq!(push(server, recorder, "gpslogger", text).await.status, 200);
}

async fn dropped(server: &Server, session_id: &str) -> Value {
    let stop = json!({ "sessionId": session_id });
    let key = &server.keys.secret;
    let stopped = server.post("/v1/sessions/stop", key, &stop).await;
    assert_eq!(stopped.status, 200, "{stopped:?}");
    server.wait_until_ready(session_id).await;
    let path = format!("/v1/sessions/{session_id}/evidence");
    server.get(&path, key).await.json["droppedSamples"].clone()
}

#[actix::test]
async fn positions_from_before_the_session_are_counted_as_dropped() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    for after_sec in [-20, -30, -10] {
        position(&server, &recorder, after_sec).await;
    }
    let id = show(&server, &recorder).await["sessionId"].clone();
    assert_eq!(acknowledged(&server, &id).await, 3);
    let dropped = dropped(&server, id.as_str().unwrap()).await;
    assert_eq!(dropped["unknownKind"], 1, "{dropped}");
    server.stop().await;
}

#[actix::test]
async fn a_first_position_from_the_future_drops_no_other_position() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    position(&server, &recorder, 7_200).await;
    let id = show(&server, &recorder).await["sessionId"].clone();
    let started = session(&server, &id).await["startedAt"].clone();
    let started: porchlight_schema::time::TimestampMs = started.as_str().unwrap().parse().unwrap();
    assert!(started <= server.clock.now(), "{started}");
    for after_sec in [2, 3, 4] {
        position(&server, &recorder, after_sec).await;
    }
    assert_eq!(show(&server, &recorder).await["sessionId"], id);
    assert_eq!(acknowledged(&server, &id).await, 4);
    let dropped = dropped(&server, id.as_str().unwrap()).await;
    let none = json!({ "outOfOrder": 0, "tooLate": 0, "unknownKind": 0 });
    assert_eq!(dropped, none);
    server.stop().await;
}

/// The phone's clock was reset, so its positions are older than any link. The limit of the start's
/// age moves while the server handles the push.
#[actix::test]
async fn first_positions_older_than_any_link_are_accepted() {
    let server = Server::start().await;
    for days in [31, 40, 2_000] {
        for _ in 0..15 {
            let recorder = create(&server, &body()).await;
            position(&server, &recorder, -days * 86_400).await;
        }
    }
    server.stop().await;
}
