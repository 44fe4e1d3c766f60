//! Tests that rows of three kinds still read as they did when they were written: messages that a
//! paused webhook holds, learned rows by session, the check value of the secret key; and the notes
//! of expired data.
//!
//! `tests/fixtures/held`, written on 23 November 2026, holds the rows. It is never changed; new
//! kinds get a folder of their own:
//!
//! ```sh
//! PORCHLIGHT_FIXTURES=$PWD/tests/fixtures/held cargo test --test store stored_rows -- --ignored
//! ```

use std::path::Path;
use std::sync::Arc;

use porchlight_core::webhook::{Change, Queued, State, Update};
use porchlight_ports::{
    Endpoint, Erasure, Insights, Journal, KeyCheck, KeyCheckValue, NewSession, Note, Outbox,
    SealedSecret, Sessions,
};
use porchlight_schema::ids::{EndpointId, MessageId, OrganizationId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{Env, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_store::engine::{KeyRange, Space};
use porchlight_store::txn::Scan;
use porchlight_support::hex::{from_hex, to_hex};

use crate::fixtures::{T0, end_at, insight, message, new_session, start};

/// The tables of the kinds that the fixture covers, by their byte: see `tables.rs` of the store.
const TABLES: &[u8] = b"zWZn";
const LEARNED: [u8; 32] = [7; 32];
const CHECK: KeyCheckValue = KeyCheckValue([9; 32]);

/// The ids in the fixture do not depend on the order of the tests.
fn tenant() -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(T0, 1),
        env: Env::Production,
    }
}

fn session_id() -> SessionId {
    SessionId::new(T0, 2)
}

fn endpoint_id() -> EndpointId {
    EndpointId::new(T0, 3)
}

fn held_until() -> TimestampMs {
    T0.plus_ms(604_800_000)
}

fn store() -> Arc<MemoryStore> {
    MemoryStore::new(Arc::new(|_, _| {})).unwrap()
}

/// Writes a row of each kind.
async fn fill(store: &MemoryStore) {
    let start = SessionStart {
        session_id: session_id(),
        ..start(tenant(), T0)
    };
    let endpoint = Endpoint {
        enabled: false,
        id: endpoint_id(),
        tenant: tenant(),
        url: "https://receiver.example/".into(),
        created_at: T0,
        version: 1,
        secret: SealedSecret {
            number: 1,
            sealed: vec![1],
        },
        secret_made_at: T0,
        previous: None,
        paused_at: Some(T0),
        remembered: Vec::new(),
    };
    assert!(store.create_endpoint(endpoint).await.unwrap());
    let new = NewSession {
        start: start.clone(),
        ..new_session(&start)
    };
    store.start(new).await.unwrap();
    let queued = Queued::new(
        MessageId::derived(T0, session_id(), 0),
        session_id(),
        0,
        MessageEvent::SessionStarted,
    );
    let held = Queued {
        state: State::Held,
        due_at: Some(held_until()),
        ..queued
    };
    let change = Change {
        updates: vec![Update {
            before: queued,
            after: held,
            report: None,
        }],
        manual_done: None,
    };
    let (tenant, id) = (tenant(), session_id());
    let lane = store.commit(tenant, endpoint_id(), id, change).await;
    assert_eq!(lane.unwrap(), [held]);
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    let updated = message(MessageEvent::InsightUpdated);
    let learned = vec![(LEARNED, b"learned".to_vec())];
    assert!(
        store
            .commit_insight(id, insight(0), updated, learned)
            .await
            .unwrap()
    );
    assert!(store.replace_key_check(None, CHECK).await.unwrap());
    for note in notes() {
        store.note(id, note).await.unwrap();
    }
}

fn notes() -> [Note; 4] {
    [
        Note::Skipped { first: 2, last: 3 },
        Note::Quarantined { seq: 70_000 },
        Note::TelemetryExpired,
        Note::MessagesExpired,
    ]
}

/// Returns the rows of the covered kinds, one per line: key, payload.
fn dump(store: &MemoryStore) -> String {
    let mut text = String::new();
    for table in TABLES {
        let scan = Scan::state(KeyRange::prefix([*table]), usize::MAX);
        for row in store.read_inline(|read| read.rows(&scan)).unwrap() {
            text.push_str(&format!("{} {}\n", to_hex(&row.key), to_hex(&row.payload)));
        }
    }
    text
}

#[tokio::test]
async fn rows_read_as_they_did_when_they_were_written() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/held/rows.txt");
    let text = std::fs::read_to_string(fixture).unwrap();
    let store = store();
    let rows = text.lines().map(|line| line.split_once(' ').unwrap());
    let rows: Vec<_> = rows
        .map(|(key, payload)| (from_hex(key), from_hex(payload)))
        .collect();
    for table in TABLES {
        assert!(
            rows.iter().any(|(key, _)| key[0] == *table),
            "no row of {table}"
        );
    }
    let written = store.committer().write(move |txn| {
        for (key, payload) in rows {
            txn.put(Space::State, key, payload);
        }
        Ok(())
    });
    written.await.unwrap();
    let (tenant, id) = (tenant(), session_id());
    let held = Some((held_until().plus_ms(1), 10));
    let listing = store
        .listing(tenant, endpoint_id(), None, None, held, 0)
        .await;
    let message = MessageId::derived(T0, id, 0);
    assert_eq!(listing.unwrap().held.unwrap(), [(message, id)]);
    assert_eq!(store.learned_by(id).await.unwrap(), [LEARNED]);
    assert_eq!(store.key_check().await.unwrap(), Some(CHECK));
    assert_eq!(store.notes(id).await.unwrap(), notes());
    // The same data is written in the same bytes.
    let fresh = self::store();
    fill(&fresh).await;
    assert_eq!(dump(&fresh), text);
}

/// Writes the fixture.
#[tokio::test]
#[ignore = "writes the fixture that the other test reads"]
async fn make() {
    let folder = std::env::var_os("PORCHLIGHT_FIXTURES").unwrap();
    let store = store();
    fill(&store).await;
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(Path::new(&folder).join("rows.txt"), dump(&store)).unwrap();
}
