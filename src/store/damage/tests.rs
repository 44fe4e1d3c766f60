//! Tests that damaged rows affect only the object that they belong to.

mod documents;
mod erasure;
mod journal;
mod later;
mod outbox;

use std::sync::Arc;

use porchlight_ports::{
    Covered, Idempotency, Insights, Journal, Keys, MessageBody, NewSession, Organization, Outbox,
    SessionFilter, Sessions, StoreError, StoredInsight,
};
use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId, ShardSet};
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::sample::packed::BatchBuilder;
use porchlight_schema::session::{
    Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
};
use porchlight_schema::time::TimestampMs;

use crate::MemoryStore;
use crate::engine::{Durability, Engine, KeyRange, Space, Write};
use crate::txn::{Read, Scan};

const T0: TimestampMs = TimestampMs(1_763_636_100_000);

fn tenant(number: u128) -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(T0, number),
        env: Env::Production,
    }
}

fn message(event: MessageEvent) -> MessageBody {
    MessageBody {
        event,
        created_at: T0,
        body: "{}".into(),
    }
}

async fn start(store: &MemoryStore, number: u128) -> SessionId {
    start_of(store, tenant(1), number).await
}

async fn start_of(store: &MemoryStore, tenant: Tenant, number: u128) -> SessionId {
    let session_id = SessionId::new(T0, number);
    let new = new_session(tenant, session_id, None);
    store.start(new).await.unwrap();
    session_id
}

fn new_session(
    tenant: Tenant,
    session_id: SessionId,
    idempotency: Option<Idempotency>,
) -> NewSession {
    let address = Address {
        line1: "a".to_owned(),
        city: "b".to_owned(),
        country: "GB".to_owned(),
        ..Address::at(Point { lat: 1.0, lng: 2.0 })
    };
    let start = SessionStart {
        delivery_id: "d".to_owned(),
        external_rider_id: "r".to_owned(),
        ..SessionStart::delivery(session_id, tenant, address, T0)
    };
    NewSession {
        start,
        idempotency,
        message: message(MessageEvent::SessionStarted),
    }
}

/// Overwrites every row whose key begins with `prefix` with this payload.
async fn overwrite(store: &MemoryStore, prefix: Vec<u8>, payload: Vec<u8>) -> usize {
    let overwritten = store.committer().write(move |txn| {
        let rows = txn.rows(&Scan::keys(KeyRange::prefix(prefix), usize::MAX))?;
        let count = rows.len();
        for row in rows {
            txn.put(Space::State, row.key, payload.clone());
        }
        Ok(count)
    });
    overwritten.await.unwrap()
}

/// Writes a payload that no release writes into every row whose key begins with `prefix`.
async fn damage(store: &MemoryStore, prefix: Vec<u8>) -> usize {
    overwrite(store, prefix, vec![0; 8]).await
}

/// Writes a payload of a later release into every row whose key begins with `prefix`.
async fn write_later(store: &MemoryStore, prefix: Vec<u8>) -> usize {
    overwrite(store, prefix, vec![0xee; 8]).await
}

/// Breaks the checksum of every row whose key begins with `prefix`.
fn break_rows(store: &MemoryStore, prefix: Vec<u8>) -> usize {
    let scan = Scan::keys(KeyRange::prefix(prefix), usize::MAX);
    let rows = store.read_inline(|read| read.rows(&scan)).unwrap();
    let writes = rows.iter().map(|row| Write {
        space: Space::State,
        key: row.key.clone(),
        value: Some(vec![0xee; 40]),
    });
    let writes: Vec<_> = writes.collect();
    let count = writes.len();
    store.engine.apply(writes, Durability::Synced).unwrap();
    count
}

/// Makes every row whose key begins with `prefix` unusable: its payload, its checksum or its
/// format.
async fn damage_in(way: Way, store: &MemoryStore, prefix: Vec<u8>) -> usize {
    match way {
        Way::Payload => damage(store, prefix).await,
        Way::Checksum => break_rows(store, prefix),
        Way::Later => write_later(store, prefix).await,
    }
}

/// The way in which a row becomes unusable.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// No release writes its payload.
    Payload,
    /// Its checksum does not match.
    Checksum,
    /// A later release wrote it.
    Later,
}

/// Creates the endpoint of the tenant with this number.
async fn create_endpoint(store: &MemoryStore, number: u128) -> EndpointId {
    let id = EndpointId::new(T0, number);
    let endpoint = porchlight_ports::Endpoint {
        enabled: true,
        id,
        tenant: tenant(number),
        url: "https://example.com/".into(),
        created_at: T0,
        version: 0,
        secret: porchlight_ports::SealedSecret {
            number: 1,
            sealed: Vec::new(),
        },
        secret_made_at: T0,
        previous: None,
        paused_at: None,
        remembered: Vec::new(),
    };
    assert!(store.create_endpoint(endpoint).await.unwrap());
    id
}

fn of_endpoint(table: u8, endpoint_id: EndpointId) -> Vec<u8> {
    let mut key = vec![table];
    key.extend_from_slice(&endpoint_id.to_bytes());
    key
}

fn of_session(table: u8, session_id: SessionId) -> Vec<u8> {
    let mut key = vec![table];
    key.extend_from_slice(&session_id.to_bytes());
    key
}

async fn end(store: &MemoryStore, session_id: SessionId) {
    let end = SessionEnd {
        ended_at: T0,
        completed_at: T0,
        reason: EndReason::Stopped,
    };
    let message = message(MessageEvent::SessionStopped);
    store.end(session_id, end, None, message).await.unwrap();
}

#[tokio::test]
async fn a_damaged_session_does_not_hide_others_in_lists() {
    for table in *b"sln" {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let damaged = start(&store, 1).await;
        let good = start(&store, 2).await;
        damage(&store, of_session(table, damaged)).await;
        let live = store.live(ShardSet::ALL, None, 1).await.unwrap();
        let all = store.live(ShardSet::ALL, None, 9).await.unwrap();
        assert!(!live.is_empty(), "an empty page ends the list");
        assert!(all.iter().any(|row| row.start.session_id == good));
        let filter = SessionFilter::default();
        let page = store.list(tenant(1), &filter, 9, None).await.unwrap();
        assert!(page.rows.iter().any(|row| row.start.session_id == good));
    }
}

#[tokio::test]
async fn damaged_sessions_hide_neither_the_newest_time_nor_their_number() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    end(&store, session_id).await;
    let newest = store.newest_time().await.unwrap();
    assert!(newest >= Some(session_id.made_at()), "{newest:?}");
    for table in *b"sc" {
        assert_eq!(break_rows(&store, vec![table]), 1);
    }
    assert_eq!(store.newest_time().await.unwrap(), newest);
    assert_eq!(store.completed_sessions(9).await.unwrap(), 1);
}

#[tokio::test]
async fn a_damaged_organization_hides_no_other() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let organizations = [1, 2, 3].map(|number| Organization {
            id: tenant(number).organization_id,
            name: format!("organization-{number}"),
            created_at: T0,
        });
        for organization in organizations.clone() {
            store.organization(organization).await.unwrap();
        }
        let key = [b"g", organizations[1].name.as_bytes()].concat();
        assert_eq!(damage_in(way, &store, key).await, 1);
        let [first, _, last] = organizations;
        assert_eq!(
            store.organizations().await.unwrap(),
            [first, last],
            "{way:?}"
        );
    }
}

#[tokio::test]
async fn a_sweep_removes_damaged_sessions_too() {
    for table in *b"secnmvpy" {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (damaged, good) = (start(&store, 1).await, start(&store, 2).await);
        end(&store, damaged).await;
        end(&store, good).await;
        damage(&store, of_session(table, damaged)).await;
        assert_eq!(
            store.sweep(T0.plus_ms(1), u64::MAX).await.unwrap(),
            2,
            "{table}"
        );
        assert!(store.find(good).await.unwrap().is_none());
        assert!(store.find(damaged).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_damaged_webhook_does_not_affect_other_tenants() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    for number in [1, 2] {
        create_endpoint(&store, number).await;
    }
    let key = crate::tables::endpoints::key(tenant(1));
    assert_eq!(damage(&store, key).await, 1);
    let left = store.endpoints().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].tenant, tenant(2));
    let own = store.endpoint(tenant(1)).await;
    assert!(matches!(own, Err(StoreError::Damaged(_))), "never absent");
}

/// Returns an insight of a session that could not be scored.
fn failed_insight(revision: u32, batches: u32) -> StoredInsight {
    StoredInsight {
        record: InsightRecord {
            revision,
            error_message: Some("no".to_owned()),
            score: None,
            pod: None,
            updated_at: T0,
        },
        covered: Covered {
            batches,
            ..Covered::default()
        },
        dropped: DroppedSamples::default(),
        known: Vec::new(),
    }
}

async fn commit(store: &MemoryStore, session_id: SessionId, insight: StoredInsight) -> bool {
    let message = message(MessageEvent::InsightUpdated);
    let committed = store.commit_insight(session_id, insight, message, Vec::new());
    committed.await.unwrap()
}

#[tokio::test]
async fn a_damaged_insight_is_replaced() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    end(&store, session_id).await;
    let insight = |revision| failed_insight(revision, 0);
    assert!(commit(&store, session_id, insight(1)).await);
    assert!(commit(&store, session_id, insight(2)).await);
    assert!(!commit(&store, session_id, insight(1)).await);
    assert_eq!(damage(&store, of_session(b'v', session_id)).await, 1);
    assert!(store.insight(session_id).await.is_err());
    assert!(commit(&store, session_id, insight(1)).await);
    assert_eq!(store.insight(session_id).await.unwrap(), Some(insight(1)));
}

#[tokio::test]
async fn a_damaged_insight_hides_no_other_outcome() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (damaged, good) = (start(&store, 1).await, start(&store, 2).await);
        for session_id in [damaged, good] {
            end(&store, session_id).await;
            assert!(commit(&store, session_id, failed_insight(1, 0)).await);
        }
        let key = of_session(b'v', damaged);
        assert_eq!(damage_in(way, &store, key).await, 1);
        let outcomes = store.outcomes(vec![damaged, good]).await.unwrap();
        assert_eq!(outcomes[0], None, "{way:?}");
        assert!(outcomes[1].is_some(), "{way:?}");
    }
}

#[tokio::test]
async fn a_session_that_failed_is_scored_again_without_its_damaged_batch() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    for seq in 0..2 {
        let batch = BatchBuilder::default().pack();
        store.append(session_id, seq, batch, T0).await.unwrap();
    }
    end(&store, session_id).await;
    let key = crate::tables::journal::key(session_id, 0);
    let damaged = store.committer().write(|txn| {
        txn.put(Space::Journal, key, vec![0; 8]);
        Ok(())
    });
    damaged.await.unwrap();
    assert!(commit(&store, session_id, failed_insight(1, 2)).await);
    let marked = async || store.to_score(ShardSet::ALL, None, 9).await.unwrap();
    assert!(marked().await.is_empty());
    let mut report = store.check();
    store.quarantine(&mut report).await.unwrap();
    assert_eq!(report.quarantined, 1);
    assert_eq!(marked().await, [session_id]);
}
