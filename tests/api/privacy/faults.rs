//! Tests that a damaged mark concerns only its subject, and that a panic does not end the work
//! on privacy requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use porchlight_actors::service::Swept;
use porchlight_ports::{Collection, DocumentKind, Documents};
use porchlight_schema::limits::TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX;
use porchlight_schema::privacy::Subject;

use super::*;

async fn put(server: &Server, path: &str, body: &Value) -> u16 {
    let request = server.request(Method::PUT, path);
    let request = request
        .header("Service-Key", &server.keys.secret)
        .header("Content-Type", "application/json");
    Answer::of(request.body(body.to_string())).await.status
}

async fn hold(server: &Server, id: &str) -> u16 {
    let request = server.request(Method::PUT, &format!("/v1/sessions/{id}/hold"));
    let request = request.header("Service-Key", &server.keys.secret);
    Answer::of(request).await.status
}

/// Overwrites the stored mark of a session with bytes of no known format.
async fn damage_mark(server: &Server, id: &str) {
    let marks = Collection::of_service(DocumentKind::PrivacyMark);
    let subject = Subject::SessionId(id.parse().unwrap()).key();
    let stored = server.store.documents(marks, None, 100).await.unwrap();
    let mark = stored.into_iter().find(|row| row.key.ends_with(&subject));
    let mark = mark.unwrap();
    let damaged = Some(b"?".to_vec());
    let written = server
        .store
        .replace_document(marks, mark.key, Some(mark.data), damaged);
    assert!(written.await.unwrap());
}

#[actix::test]
async fn a_damaged_mark_keeps_the_data_of_its_session_and_of_no_other() {
    let server = server(0).await;
    let (damaged, held) = (server.scored_session().await, server.scored_session().await);
    let other = server.scored_session().await;
    assert_eq!(hold(&server, &damaged.id).await, 200);
    damage_mark(&server, &damaged.id).await;
    // The marks are read again, because another one has changed.
    assert_eq!(hold(&server, &held.id).await, 200);
    assert_eq!(read(&server, &damaged.id).await, 404);
    assert_eq!(read(&server, &held.id).await, 200);
    let chosen = json!({ "telemetryDays": 1, "insightDays": 9 });
    assert_eq!(put(&server, "/v1/retention", &chosen).await, 200);
    server.clock.advance_min(30 * 24 * 60);
    let mut swept = Swept::default();
    for _ in 0..25 {
        server.service.apply_retention(&mut swept).await.unwrap();
    }
    assert_eq!((swept.sessions, swept.failures), (1, 0));
    let is_stored = async |id: &str| {
        let found = server.service.find(id.parse().unwrap()).await;
        found.unwrap().is_some()
    };
    assert!(!is_stored(&other.id).await);
    assert!(is_stored(&damaged.id).await && is_stored(&held.id).await);
    server.stop().await;
}

#[actix::test]
async fn a_request_whose_step_panics_is_retried_and_holds_no_permit() {
    let server = Server::with(config()).await;
    // One panic for each permit of the organization: the requests that have the permits panic once
    // each.
    let panics_left = AtomicU32::new(TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX as u32);
    let settings = PrivacySettings {
        erasure_delay_ms: 0,
        retention: BOUNDS,
        sign: Some(Arc::new(move |_| {
            let taken = panics_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
            assert!(taken.is_err(), "a fault of a test");
            Ok(Some("receipt".to_owned()))
        })),
        on_released: Arc::new(|_| {}),
    };
    server.service.start_privacy(settings).await.unwrap();
    let ids: Vec<String> = (0..=TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX)
        .map(|number| format!("e{number}"))
        .collect();
    for id in &ids {
        let subject = json!({ "externalRiderId": format!("nobody-{id}") });
        let submitted = submit(&server, &body(id, "erasure", subject)).await;
        assert_eq!(submitted.status, 202, "{submitted:?}");
    }
    for id in &ids {
        assert_eq!(completed(&server, id).await["receipt"], "receipt");
    }
    server.stop().await;
}
