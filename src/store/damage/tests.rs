//! Tests that damaged rows affect only the object that they belong to.

use std::sync::Arc;

use porchlight_core::webhook::{Cause, Change, ManualRetry, Queued, State, Update};
use porchlight_ports::{
    DeliveryFilter, DeliveryRow, MessageBody, NewSession, Outbox, SessionFilter, Sessions,
    StoreError, StoredInsight,
};
use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
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
    let address = Address {
        line1: "a".to_owned(),
        city: "b".to_owned(),
        country: "GB".to_owned(),
        point: Point { lat: 1.0, lng: 2.0 },
        unit: None,
        floor: None,
        accuracy_m: Address::ACCURACY_M_DEFAULT,
        storey_height_m: None,
        entrance: None,
        gates: Vec::new(),
    };
    let start = SessionStart {
        session_id,
        tenant,
        delivery_id: "d".to_owned(),
        external_rider_id: "r".to_owned(),
        session_type: porchlight_schema::session::SessionType::Delivery,
        address,
        device: None,
        started_at: T0,
        created_at: T0,
    };
    let new = NewSession {
        start,
        idempotency: None,
        message: message(MessageEvent::SessionStarted),
    };
    store.start(new).await.unwrap();
    session_id
}

/// Overwrites every row whose key begins so with bytes of no known format.
async fn damage(store: &MemoryStore, prefix: Vec<u8>) -> usize {
    let damaged = store.committer().write(move |txn| {
        let rows = txn.rows(&Scan::keys(KeyRange::prefix(prefix), usize::MAX))?;
        let count = rows.len();
        for row in rows {
            txn.put(Space::State, row.key, vec![0xee; 8]);
        }
        Ok(count)
    });
    damaged.await.unwrap()
}

/// Breaks the checksum of every row whose key begins so.
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

/// Damages every row whose key begins so: its format, or its checksum.
async fn damage_in(way: Way, store: &MemoryStore, prefix: Vec<u8>) -> usize {
    match way {
        Way::Format => damage(store, prefix).await,
        Way::Checksum => break_rows(store, prefix),
    }
}

/// The way in which a row is damaged.
#[derive(Debug, Clone, Copy)]
enum Way {
    Format,
    Checksum,
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

/// Returns the change of one message, without a report.
fn change_of(before: Queued, after: Queued, manual_done: Option<ManualRetry>) -> Change {
    let update = Update {
        before,
        after,
        report: None,
    };
    Change {
        updates: vec![update],
        manual_done,
    }
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
        let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
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
async fn a_sweep_removes_damaged_sessions_too() {
    for table in *b"secnmvpy" {
        let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
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
    let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
    for number in [1, 2] {
        create_endpoint(&store, number).await;
    }
    let key = crate::tables::endpoints::key(tenant(1));
    assert_eq!(damage(&store, key).await, 1);
    let left = store.endpoints().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].tenant, tenant(2));
    let own = store.endpoint(tenant(1)).await;
    assert!(matches!(own, Err(StoreError::Corrupt(_))), "never absent");
}

#[tokio::test]
async fn an_unreadable_insight_is_replaced() {
    use porchlight_ports::{Covered, Insights};
    use porchlight_schema::insight::InsightRecord;
    let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
    let session_id = start(&store, 1).await;
    end(&store, session_id).await;
    let insight = |revision| StoredInsight {
        record: InsightRecord {
            revision,
            error_message: Some("no".to_owned()),
            score: None,
            pod: None,
            updated_at: T0,
        },
        covered: Covered::default(),
        dropped: porchlight_schema::insight::DroppedSamples::default(),
        known: Vec::new(),
    };
    let commit = async |revision| {
        let message = message(MessageEvent::InsightUpdated);
        let committed = store.commit_insight(session_id, insight(revision), message, Vec::new());
        committed.await.unwrap()
    };
    assert!(commit(1).await);
    assert!(commit(2).await);
    assert!(!commit(1).await);
    assert_eq!(damage(&store, of_session(b'v', session_id)).await, 1);
    assert!(store.insight(session_id).await.is_err());
    assert!(commit(1).await);
    assert_eq!(store.insight(session_id).await.unwrap(), Some(insight(1)));
}

/// Returns the deliveries of the first tenant, in order of their messages.
async fn deliveries(store: &MemoryStore) -> Vec<DeliveryRow> {
    let filter = DeliveryFilter::default();
    let page = store.deliveries(tenant(1), &filter, 50, None).await;
    let mut rows = page.unwrap().rows;
    rows.sort_by_key(|row| row.queued.number);
    rows
}

/// Queues one message in each index of an outbox: ready, due, held, and requested.
async fn queue_in_all_indexes(store: &MemoryStore, endpoint_id: EndpointId) {
    for (number, state, due_at) in [
        (11, State::Waiting, None),
        (12, State::Waiting, Some(T0)),
        (13, State::Held, Some(T0)),
    ] {
        let lane = start(store, number).await;
        let read = store
            .lane(tenant(1), endpoint_id, lane, None)
            .await
            .unwrap();
        let before = read.waiting[0];
        let after = Queued {
            state,
            due_at,
            ..before
        };
        let change = change_of(before, after, None);
        let committed = store.commit(tenant(1), endpoint_id, lane, change).await;
        assert_eq!(committed.unwrap(), [after]);
        let asked = store.request_retry(tenant(1), before.id, T0).await;
        assert_eq!(asked.unwrap(), porchlight_ports::RetryOutcome::Requested);
    }
}

#[tokio::test]
async fn damaged_rows_of_an_outbox_stop_neither_it_nor_the_others() {
    let tables = b"quzbo".iter().copied();
    let ways = [Way::Format, Way::Checksum];
    for (table, way) in tables.flat_map(|table| ways.map(|way| (table, way))) {
        let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
        let damaged = create_endpoint(&store, 1).await;
        create_endpoint(&store, 2).await;
        queue_in_all_indexes(&store, damaged).await;
        start_of(&store, tenant(2), 2).await;
        assert!(damage_in(way, &store, of_endpoint(table, damaged)).await > 0);
        // A further message of the damaged outbox is found.
        let good = start(&store, 20).await;
        let shown = format!("{} {way:?}", char::from(table));
        let work = store.work(ShardSet::ALL, T0.plus_ms(1)).await.unwrap();
        let tenants: Vec<_> = work.iter().map(|work| work.tenant).collect();
        assert_eq!(tenants, [tenant(1), tenant(2)], "{shown}");
        let all = Some((TimestampMs(i64::MAX), 1));
        let from = Some((TimestampMs(0), 9));
        let listing = store.listing(tenant(1), damaged, from, all, all, 9).await;
        let ready = listing.unwrap().ready.unwrap();
        assert!(ready.iter().any(|(_, lane)| *lane == good), "{shown}");
        let lane = store.lane(tenant(1), damaged, good, None).await.unwrap();
        assert_eq!(lane.waiting.len(), 1, "{shown}");
        store.depth(T0).await.unwrap();
        assert!(store.delete_endpoint(tenant(1)).await.unwrap());
        assert_eq!(store.sweep_outboxes().await.unwrap(), 1, "{shown}");
    }
}

#[tokio::test]
async fn the_result_of_an_attempt_replaces_a_damaged_delivery() {
    for (way, is_quarantined) in [
        (Way::Format, false),
        (Way::Checksum, false),
        (Way::Checksum, true),
    ] {
        let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
        let endpoint_id = create_endpoint(&store, 1).await;
        let session_id = start(&store, 1).await;
        let lane = store.lane(tenant(1), endpoint_id, session_id, None).await;
        let before = lane.unwrap().waiting[0];
        assert_eq!(damage_in(way, &store, vec![b'D']).await, 1);
        if is_quarantined {
            let mut report = store.check();
            store.quarantine(&mut report).await.unwrap();
            assert_eq!(report.quarantined, 1);
        }
        // A request for another attempt finds nothing to send, and is done.
        let request = ManualRetry {
            asked_at: T0,
            id: before.id,
            session_id,
            again: false,
        };
        let key = crate::tables::outbox::manual_key(endpoint_id, &request);
        let asked = store
            .committer()
            .write(move |txn| txn.put_state(key, &request));
        asked.await.unwrap();
        let lane = store
            .lane(tenant(1), endpoint_id, session_id, Some(request))
            .await;
        assert_eq!(lane.unwrap().manual, None);
        let after = Queued {
            attempts: 1,
            due_at: Some(T0.plus_ms(60_000)),
            ..before
        };
        let change = change_of(before, after, Some(request));
        let committed = store.commit(tenant(1), endpoint_id, session_id, change);
        assert_eq!(committed.await.unwrap(), [after]);
        let rows = deliveries(&store).await;
        assert_eq!(rows, [DeliveryRow::new(after, endpoint_id)]);
    }
}

#[tokio::test]
async fn a_quarantined_message_fails_and_the_next_one_follows() {
    let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
    let endpoint_id = create_endpoint(&store, 1).await;
    let session_id = start(&store, 1).await;
    break_rows(&store, of_session(b'm', session_id));
    // The session ends nevertheless, and its message has a number of its own.
    end(&store, session_id).await;
    let mut report = store.check();
    assert_eq!(report.damaged.len(), 1, "{report:?}");
    store.quarantine(&mut report).await.unwrap();
    assert!(store.check().is_good());
    let lane = store.lane(tenant(1), endpoint_id, session_id, None).await;
    let waiting = lane.unwrap().waiting;
    let numbers: Vec<_> = waiting.iter().map(|message| message.number).collect();
    assert_eq!(numbers, [1]);
    let rows = deliveries(&store).await;
    let failed = &rows[0];
    assert_eq!(
        (failed.queued.state, failed.queued.attempts, failed.cause),
        (State::Failed, 0, Some(Cause::Internal))
    );
    let from = Some((TimestampMs(0), 9));
    let listing = store
        .listing(tenant(1), endpoint_id, from, None, None, 0)
        .await;
    assert_eq!(
        listing.unwrap().ready.unwrap(),
        [(waiting[0].id, session_id)]
    );
    let depth = store.depth(T0).await.unwrap();
    assert_eq!((depth.pending, depth.failed), (1, 1));
}
