//! Measures the response times of the console's pages on a full store: 20,000 sessions with 200,000
//! webhook deliveries, of which one in twenty failed. Not part of a test run: `PORCHLIGHT_BIN=…
//! cargo test --test it -- --ignored --nocapture console::scale`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use porchlight::key_guard::store_secrets;
use porchlight_core::webhook::{AttemptDetails, AttemptResult, Cause, Change, State, Update};
use porchlight_keys::KeyAdmin;
use porchlight_keys::keyring::SecretKeys;
use porchlight_ports::{
    Clock, Covered, DeliveryFilter, DeliveryRow, Endpoint, Entropy, Insights, MessageBody,
    NewSession, Organization, Outbox, SealedSecret, Sessions, StoredInsight,
};
use porchlight_schema::event::{Confidence, Event, EventType, Metadata as EventMetadata};
use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId};
use porchlight_schema::insight::{
    DroppedSamples, Evidence, InsightRecord, Metrics, ReasonCode, Score, Summary,
};
use porchlight_schema::key::{KeyKind, Role};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{
    Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
};
use porchlight_schema::time::TimestampMs;
use porchlight_store::{EmbeddedStore, OpenOptions};
use porchlight_world::{SystemClock, SystemEntropy};

use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

/// The number of sessions; each causes two messages and one for each revision of its insight.
const SESSIONS: usize = 20_000;
/// The number of revisions of each insight.
const REVISIONS: u32 = 8;
/// The number of sessions written at the same time.
const AT_ONCE: usize = 500;
/// The number of requests for each page.
const TIMES: usize = 15;

fn body(event: MessageEvent, now: TimestampMs) -> MessageBody {
    MessageBody {
        event,
        created_at: now,
        body: format!(
            "{{\"event\":\"{}\",\"data\":\"{}\"}}",
            event.as_str(),
            "x".repeat(700)
        )
        .into(),
    }
}

/// Returns an insight as large as those of real deliveries.
fn insight(number: usize, revision: u32, now: TimestampMs) -> StoredInsight {
    let event = |n: u32| Event {
        event_type: EventType::ALL[n as usize % EventType::ALL.len()],
        t_start_ms: n * 20_000,
        t_end_ms: Some(n * 20_000 + 15_000),
        confidence: Confidence::from_probability(0.9),
        metadata: EventMetadata::None,
    };
    let evidence = |n: usize| Evidence {
        about: "visibilityScore".into(),
        signal: format!("signal_{n}"),
        points: 0.1,
        t_start: Some(1.0),
        t_end: Some(20.0),
        text: "Position: 98 % of the session covered, 99 % of the time around the drop-off.".into(),
        explanation: "Phones save power, and some lack a sensor.".into(),
    };
    let score = Score {
        summary: Summary {
            right_doorstep: true,
            fraud_score: 0.1,
            suspicious_behavior: number.is_multiple_of(50),
            friction_score: 0.2,
            visibility_score: 0.9,
            floors_climbed: Some(2),
            elevator_used: Some(false),
            total_duration_sec: 400.0,
            attempt_cycles: 1,
        },
        reason_codes: vec![
            ReasonCode::ALL[number % 5],
            ReasonCode::DeliveredToRightDoorstep,
        ],
        events: (0..20).map(event).collect(),
        metrics: Metrics::default(),
        evidence: (0..25).map(evidence).collect(),
        weights: "test".into(),
        has_path: true,
    };
    StoredInsight {
        record: InsightRecord {
            revision,
            score: Some(score),
            error_message: None,
            pod: None,
            updated_at: now,
        },
        covered: Covered::default(),
        known: Vec::new(),
        dropped: DroppedSamples::default(),
    }
}

async fn session(store: &EmbeddedStore, tenant: Tenant, number: usize, now: TimestampMs) {
    // The sessions are spread over the last day.
    let at = now.plus_ms(-86_000_000 + (number as i64) * 86_000_000 / SESSIONS as i64);
    let start = SessionStart {
        delivery_id: format!("delivery-{number}"),
        external_rider_id: format!("rider-{}", number % 300),
        ..SessionStart::delivery(
            SessionId::new(at, SystemEntropy.random()),
            tenant,
            Address {
                line1: "1 High Street".into(),
                city: "Bath".into(),
                country: "GB".into(),
                ..Address::at(Point {
                    lat: 51.38,
                    lng: -2.36,
                })
            },
            at,
        )
    };
    let session_id = start.session_id;
    let message = body(MessageEvent::SessionStarted, at);
    let new = NewSession {
        start,
        idempotency: None,
        message,
    };
    store.start(new).await.unwrap();
    // Fewer sessions in progress than a page holds: their list has to scan up to its limit.
    if number.is_multiple_of(SESSIONS / 20) {
        return;
    }
    let end = SessionEnd {
        ended_at: at,
        completed_at: at,
        reason: EndReason::Stopped,
    };
    store
        .end(
            session_id,
            end,
            None,
            body(MessageEvent::SessionStopped, at),
        )
        .await
        .unwrap();
    for revision in 1..=REVISIONS {
        let stored = insight(number, revision, at);
        let message = body(MessageEvent::InsightUpdated, at);
        assert!(
            store
                .commit_insight(session_id, stored, message, Vec::new())
                .await
                .unwrap()
        );
    }
}

/// Marks one message in twenty as permanently failed, and the others as delivered.
async fn settle(
    store: &EmbeddedStore,
    endpoint: &Endpoint,
    rows: &[DeliveryRow],
    now: TimestampMs,
) {
    let settled = rows.iter().enumerate().map(|(number, row)| async move {
        let failed = number.is_multiple_of(20);
        let before = row.queued;
        let mut after = before;
        after.state = if failed {
            State::Failed
        } else {
            State::Delivered
        };
        after.attempts = 1;
        after.due_at = None;
        let report = AttemptResult {
            at: now,
            duration_ms: 20,
            status_code: Some(if failed { 503 } else { 200 }),
            cause: failed.then_some(Cause::Status),
            response: Some("away".into()),
            details: AttemptDetails::default(),
        };
        let change = Change {
            updates: vec![Update {
                before,
                after,
                report: Some(report),
            }],
            manual_done: None,
        };
        store
            .commit(endpoint.tenant, endpoint.id, before.session_id, change)
            .await
            .unwrap();
    });
    join_all(settled).await;
}

/// Creates the store of a server, with its secret key.
fn create(path: &Path) -> Arc<EmbeddedStore> {
    std::fs::create_dir_all(path).unwrap();
    let store = EmbeddedStore::open(OpenOptions {
        reserve_bytes: porchlight_schema::limits::STORE_RESERVE_BYTES_DEFAULT,
        path: path.to_path_buf(),
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|reason| panic!("{reason}")),
    });
    let store = store.unwrap();
    let keys = SecretKeys::load_or_create(path).unwrap();
    store.unlock(&store_secrets(&keys)).unwrap();
    store
}

async fn fill(folder: &Folder) -> String {
    let now = SystemClock.now();
    let store = create(&folder.store());
    let key_admin = KeyAdmin::new(Arc::clone(&store) as _);
    let organization = Organization {
        id: OrganizationId::new(now, 1),
        name: "full".into(),
        created_at: now,
    };
    let organization = porchlight_ports::Keys::organization(store.as_ref(), organization)
        .await
        .unwrap();
    let tenant = Tenant {
        organization_id: organization.id,
        env: Env::Sandbox,
    };
    let key = key_admin
        .create_for(tenant, KeyKind::Secret, Role::Admin, None, None, now)
        .await
        .unwrap();
    let mut endpoint = Endpoint {
        enabled: true,
        id: EndpointId::new(now, 1),
        tenant,
        url: "https://receiver.example/".into(),
        created_at: now,
        version: 1,
        secret: SealedSecret {
            number: 1,
            sealed: Vec::new(),
        },
        secret_made_at: now,
        previous: None,
        paused_at: None,
        remembered: Vec::new(),
    };
    assert!(store.create_endpoint(endpoint.clone()).await.unwrap());
    for some in (0..SESSIONS).collect::<Vec<_>>().chunks(AT_ONCE) {
        join_all(
            some.iter()
                .map(|&number| session(&store, tenant, number, now)),
        )
        .await;
    }
    let mut after = None;
    loop {
        let page = store
            .deliveries(tenant, &DeliveryFilter::default(), 2_000, after)
            .await
            .unwrap();
        settle(&store, &endpoint, &page.rows, now).await;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    // Paused, so that the measured server has nothing to send.
    endpoint.enabled = false;
    endpoint.version = 2;
    assert!(store.replace_endpoint(endpoint).await.unwrap());
    store.close().await;
    key.key
}

#[test]
#[ignore = "a measurement"]
fn measure_pages_of_a_full_store() {
    let folder = Folder::new();
    let begun = Instant::now();
    let key = block_on(fill(&folder));
    println!("filled in {:.0?}", begun.elapsed());
    let server = Server::start(&folder, &[]);
    block_on(async {
        let visitor = Visitor::sign_in(&server, &key).await;
        let list = visitor.page("/console/sessions?status=completed").await;
        let session = list
            .between("href=\"/console/sessions/ses_", "\"")
            .to_owned();
        let list = visitor.page("/console/deliveries?status=failed").await;
        let delivery = list
            .between("href=\"/console/deliveries/dlv_", "\"")
            .to_owned();
        let older = list
            .between("href=\"/console/deliveries?status=failed&amp;cursor=", "\"")
            .to_owned();
        let pages = [
            "/console".to_owned(),
            "/console/sessions".into(),
            "/console/sessions?status=recording".into(),
            "/console/sessions?reason=FULL_ATTEMPT".into(),
            "/console/sessions?reason=SESSION_TIMEOUT".into(),
            "/console/sessions?externalRiderId=rider-7".into(),
            "/console/sessions?deliveryId=delivery-12345".into(),
            format!("/console/sessions/ses_{session}"),
            "/console/deliveries".into(),
            "/console/deliveries?status=failed".into(),
            format!("/console/deliveries?status=failed&cursor={older}"),
            "/console/deliveries?status=pending".into(),
            "/console/deliveries?status=superseded".into(),
            "/console/deliveries?event=session.started".into(),
            format!("/console/deliveries?sessionId=ses_{session}"),
            format!("/console/deliveries/dlv_{delivery}"),
            "/console/deliveries/retry?status=failed".into(),
            "/console/deliveries/retry/progress?status=failed&count=10000".into(),
            "/console/webhook".into(),
            "/console/keys".into(),
        ];
        for path in &pages {
            let mut took: Vec<Duration> = Vec::new();
            for _ in 0..TIMES {
                let begun = Instant::now();
                visitor.page(path).await;
                took.push(begun.elapsed());
            }
            took.sort();
            let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
            println!(
                "{:>8.1} ms median {:>8.1} ms worst  {}",
                ms(took[TIMES / 2]),
                ms(took[TIMES - 1]),
                &path[..path.len().min(60)]
            );
        }
    });
}
