//! Tests that damaged rows of an outbox neither stop it nor hide a message of which other rows
//! know.

use porchlight_core::webhook::{Cause, Change, Listing, ManualRetry, Queued, State, Update};
use porchlight_ports::{DeliveryFilter, DeliveryRow, Outbox, RetryOutcome};
use porchlight_schema::ids::{EndpointId, SessionId, ShardSet};

use super::*;

/// The ways in which a row becomes unusable.
const WAYS: [Way; 3] = [Way::Payload, Way::Checksum, Way::Later];

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
        assert_eq!(asked.unwrap(), RetryOutcome::Requested);
    }
}

#[tokio::test]
async fn damaged_rows_of_an_outbox_stop_neither_it_nor_the_others() {
    let tables = b"quzbo".iter().copied();
    for (table, way) in tables.flat_map(|table| WAYS.map(|way| (table, way))) {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
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

/// Returns the lanes that each index of an outbox lists: ready, due and held.
async fn listed(store: &MemoryStore, endpoint_id: EndpointId) -> [Vec<SessionId>; 3] {
    let (from, all) = (TimestampMs(0), TimestampMs(i64::MAX));
    let (ready, others) = (Some((from, 9)), Some((all, 9)));
    let listing = store.listing(tenant(1), endpoint_id, ready, others, others, 0);
    let Listing {
        ready, due, held, ..
    } = listing.await.unwrap();
    let due = due.unwrap().into_iter().map(|(_, lane)| lane);
    let lanes = |rows: Option<Vec<(_, SessionId)>>| {
        let rows = rows.unwrap().into_iter();
        rows.map(|(_, lane)| lane).collect()
    };
    [lanes(ready), due.collect(), lanes(held)]
}

/// Damages the rows of each table of an outbox in each way, with and without a quarantine.
async fn with_damaged_rows(test: impl AsyncFn(&MemoryStore, EndpointId, &str)) {
    let tables = b"quzo".iter().copied();
    let damages = tables.flat_map(|table| WAYS.map(|way| (table, way)));
    for (table, way) in damages {
        for is_quarantined in [false, true] {
            if is_quarantined && matches!(way, Way::Later) {
                // No row of a later release is quarantined.
                continue;
            }
            let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
            let endpoint_id = create_endpoint(&store, 1).await;
            queue_in_all_indexes(&store, endpoint_id).await;
            let rows = damage_in(way, &store, of_endpoint(table, endpoint_id)).await;
            assert!(rows > 0);
            if is_quarantined {
                let mut report = store.check();
                store.quarantine(&mut report).await.unwrap();
                assert_eq!(report.quarantined, rows as u64);
                assert!(report.is_good() && store.check().is_good());
            }
            let shown = format!(
                "{} {way:?}, quarantined: {is_quarantined}",
                char::from(table)
            );
            test(&store, endpoint_id, &shown).await;
        }
    }
}

#[tokio::test]
async fn a_message_with_a_damaged_row_is_listed_and_ends() {
    with_damaged_rows(async |store, endpoint_id, shown| {
        let lanes = [11, 12, 13].map(|number| SessionId::new(T0, number));
        let expected = lanes.map(|lane| vec![lane]);
        assert_eq!(listed(store, endpoint_id).await, expected, "{shown}");
        for lane in lanes {
            let read = store.lane(tenant(1), endpoint_id, lane, None).await;
            let waiting = read.unwrap().waiting;
            assert_eq!(waiting.len(), 1, "{shown}");
            let after = Queued {
                state: State::Delivered,
                attempts: 1,
                due_at: None,
                ..waiting[0]
            };
            let change = change_of(waiting[0], after, None);
            let left = store.commit(tenant(1), endpoint_id, lane, change).await;
            assert!(left.unwrap().is_empty(), "{shown}");
            let rows = deliveries(store).await;
            let row = rows.iter().find(|row| row.queued.session_id == lane);
            assert_eq!(row.unwrap().queued.state, State::Delivered, "{shown}");
        }
        let nothing = [const { Vec::new() }; 3];
        assert_eq!(listed(store, endpoint_id).await, nothing, "{shown}");
    })
    .await;
}

#[tokio::test]
async fn a_retry_with_a_damaged_row_is_work_of_its_time() {
    for way in WAYS {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let endpoint_id = create_endpoint(&store, 1).await;
        let lane = start(&store, 1).await;
        let read = store.lane(tenant(1), endpoint_id, lane, None).await;
        let before = read.unwrap().waiting[0];
        let after = Queued {
            attempts: 1,
            due_at: Some(T0),
            ..before
        };
        let change = change_of(before, after, None);
        let committed = store.commit(tenant(1), endpoint_id, lane, change).await;
        assert_eq!(committed.unwrap(), [after]);
        assert_eq!(
            damage_in(way, &store, of_endpoint(b'u', endpoint_id)).await,
            1
        );
        let work = store.work(ShardSet::ALL, T0.plus_ms(1)).await.unwrap();
        let due: Vec<_> = work.iter().map(|work| work.due_at).collect();
        assert_eq!(due, [T0], "{way:?}");
    }
}

#[tokio::test]
async fn the_result_of_an_attempt_replaces_a_damaged_delivery() {
    for (way, is_quarantined) in [
        (Way::Payload, false),
        (Way::Later, false),
        (Way::Checksum, false),
        (Way::Checksum, true),
    ] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
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
            requested_at: T0,
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
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
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

#[tokio::test]
async fn a_damaged_message_hides_no_other_delivery_of_its_session() {
    for way in WAYS {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        create_endpoint(&store, 1).await;
        let session_id = start(&store, 1).await;
        end(&store, session_id).await;
        assert!(commit(&store, session_id, failed_insight(1, 0)).await);
        let key = crate::tables::messages::key(session_id, 1);
        assert_eq!(damage_in(way, &store, key).await, 1);
        let filter = DeliveryFilter {
            session_id: Some(session_id),
            ..DeliveryFilter::default()
        };
        let page = store.deliveries(tenant(1), &filter, 50, None).await;
        let rows = page.unwrap().rows.into_iter();
        let mut numbers: Vec<_> = rows.map(|row| row.queued.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 2], "{way:?}");
    }
}

#[tokio::test]
async fn a_damaged_delivery_hides_no_other_of_its_tenant() {
    for way in WAYS {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        create_endpoint(&store, 1).await;
        start(&store, 1).await;
        assert_eq!(damage_in(way, &store, vec![b'D']).await, 1);
        let good = start(&store, 2).await;
        let rows = deliveries(&store).await;
        let lanes: Vec<_> = rows.iter().map(|row| row.queued.session_id).collect();
        assert_eq!(lanes, [good], "{way:?}");
    }
}
