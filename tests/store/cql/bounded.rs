//! Tests that partitions are bounded for any ids, and that earlier sessions stay complete.

use std::collections::BTreeMap;
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use porchlight_ports::{
    Appended, Clock, DeliveryFilter, Erasure, Journal, Outbox, SessionFilter, Sessions, Snapshot,
    Snapshots,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    JOURNAL_PARTITION_BATCHES_MAX, LIST_SHARED_ROWS_MAX, LIST_SHARED_ROWS_PER_DAY_MAX,
    SNAPSHOT_ROWS_MAX,
};
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::{Agreement, CqlStore, Role};
use porchlight_world::SystemClock;
use scylla::client::session::Session;
use scylla::statement::Statement;

use super::options;
use super::renewal::{connect, open};
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, batch, new_session, put_endpoint, session_id, start, start_all, tenant};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Returns the numbers of rows in the partitions of a table, by the columns of the partition's key.
async fn partitions(session: &Session, table: &str, key: &str) -> Vec<i64> {
    let select = format!("SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}");
    let rows = session.query_unpaged(select, ()).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    let rows = rows.rows::<scylla::value::Row>().unwrap();
    let counts = rows.map(|row| {
        let mut columns = row.unwrap().columns;
        columns.pop().flatten().unwrap().as_bigint().unwrap()
    });
    counts.collect()
}

/// Removes the keyspace of a test, because each takes memory of the server that all tests share.
async fn remove(session: &Session, keyspace: &str) {
    let mut drop = Statement::new(format!("DROP KEYSPACE {keyspace}"));
    // The answer comes after all nodes have deleted the files of all tables.
    drop.set_request_timeout(Some(Duration::from_secs(300)));
    session.query_unpaged(drop, ()).await.unwrap();
}

/// A wall clock that stands still. The room in shared partitions starts again in each hour or ten
/// minutes of this clock, so a test that counts their rows must not depend on when it runs.
struct FrozenClock(TimestampMs);

impl Clock for FrozenClock {
    fn now(&self) -> TimestampMs {
        self.0
    }

    fn uptime_ms(&self) -> i64 {
        SystemClock.uptime_ms()
    }
}

/// Opens a store whose wall clock stands still.
async fn open_standing(keyspace: &str) -> Option<Arc<CqlStore>> {
    let clock = Arc::new(FrozenClock(SystemClock.now()));
    let options = options(keyspace.to_owned())?;
    let store = CqlStore::open(options, Role::Command, clock).await;
    Some(store.unwrap())
}

/// Removes the agreement on bounded partitions, as in a keyspace of an earlier release.
async fn remove_agreement(session: &Session) {
    let delete = "DELETE FROM generations WHERE name = 'bounded_partitions' IF EXISTS";
    session.query_unpaged(delete, ()).await.unwrap();
}

/// Removes the agreement, and adds a member of an earlier release.
async fn with_old_member(keyspace: &str) -> Session {
    let session = connect(keyspace).await;
    remove_agreement(&session).await;
    let insert = "INSERT INTO members (cluster, node, incarnation, beat, standing) \
                  VALUES ('porchlight', 'old', 1, 5, 0) IF NOT EXISTS";
    session.query_unpaged(insert, ()).await.unwrap();
    session
}

/// Agrees on a time, like the nodes after an upgrade.
async fn agree(session: &Session, since: TimestampMs) {
    let insert =
        "INSERT INTO generations (name, generation) VALUES ('bounded_partitions', ?) IF NOT EXISTS";
    session.query_unpaged(insert, (since.0,)).await.unwrap();
}

/// Returns the start of a session at a time, with one id for all deliveries and one for all
/// couriers.
fn constant(tenant: Tenant, at: TimestampMs) -> SessionStart {
    SessionStart {
        delivery_id: "test".to_owned(),
        external_rider_id: "unknown".to_owned(),
        ..start(tenant, at)
    }
}

/// Lists sessions page by page.
async fn listed(store: &CqlStore, tenant: Tenant, filter: &SessionFilter) -> Vec<SessionId> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(tenant, filter, 100, after).await.unwrap();
        found.extend(page.rows.iter().map(|row| row.start.session_id));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// Returns the three ways to list all sessions with constant ids.
fn filters() -> [SessionFilter; 3] {
    let of_delivery = SessionFilter {
        delivery_id: Some("test".to_owned()),
        ..SessionFilter::default()
    };
    let of_courier = SessionFilter {
        external_rider_id: Some("unknown".to_owned()),
        ..SessionFilter::default()
    };
    [SessionFilter::default(), of_delivery, of_courier]
}

/// Starts sessions at these times and adds them to the newest-first list of all.
async fn add(
    store: &CqlStore,
    tenant: Tenant,
    times: impl Iterator<Item = TimestampMs>,
    all: &mut BTreeMap<(TimestampMs, SessionId), SessionStart>,
) {
    for at in times {
        let start = constant(tenant, at);
        store.start(new_session(&start)).await.unwrap();
        all.insert((at, start.session_id), start);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_with_constant_ids_are_complete_and_their_partitions_bounded() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(first) = open_standing(&keyspace).await else {
        return;
    };
    let second = open_standing(&keyspace).await.unwrap();
    let tenant = tenant();
    let mut all = BTreeMap::new();
    let every_minute = |from: i64| (0..150).map(move |row| T0.plus_ms(from + row * MINUTE_MS));
    add(&first, tenant, every_minute(0), &mut all).await;
    add(&second, tenant, every_minute(30_000), &mut all).await;
    let expected: Vec<_> = all.keys().rev().map(|(_, id)| *id).collect();
    for filter in filters() {
        assert_eq!(listed(&first, tenant, &filter).await, expected);
        assert_eq!(listed(&second, tenant, &filter).await, expected);
        let middle = SessionFilter {
            from: Some(T0.plus_ms(HOUR_MS / 2)),
            to: Some(T0.plus_ms(2 * HOUR_MS)),
            ..filter
        };
        let within = all
            .range((middle.from.unwrap(), SessionId::from_bytes([0; 16]))..)
            .take_while(|((at, _), _)| *at < middle.to.unwrap())
            .map(|((_, id), _)| *id);
        let mut within: Vec<_> = within.collect();
        within.reverse();
        assert_eq!(listed(&second, tenant, &middle).await, within);
    }
    let session = connect(&keyspace).await;
    for table in ["sessions_by_delivery", "sessions_by_rider"] {
        let rows = partitions(&session, table, "tenant, hash").await;
        let shared = 2 * i64::from(LIST_SHARED_ROWS_PER_DAY_MAX);
        assert_eq!(rows.iter().sum::<i64>(), 300);
        assert!(rows.iter().all(|&rows| rows <= shared), "{table}: {rows:?}");
    }
    // An erased session leaves no row in any partition.
    for id in expected.iter().step_by(7) {
        first.erase_session(*id).await.unwrap();
    }
    let left = 300 - expected.iter().step_by(7).count() as i64;
    for (table, key) in [
        ("sessions_by_organization", "tenant, hour"),
        ("sessions_by_delivery", "tenant, hash"),
        ("sessions_by_rider", "tenant, hash"),
    ] {
        let rows = partitions(&session, table, key).await;
        assert_eq!(rows.iter().sum::<i64>(), left, "{table}");
    }
    remove(&session, &keyspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_a_busy_organization_leave_their_shared_partitions_when_these_are_full() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = open_standing(&keyspace).await else {
        return;
    };
    let tenant = tenant();
    put_endpoint(store.as_ref(), tenant, true).await;
    let rows = usize::from(LIST_SHARED_ROWS_MAX) + 100;
    let starts = (0..rows).map(|row| start(tenant, T0.plus_ms(row as i64)));
    let starts: Vec<_> = starts.collect();
    start_all(store.as_ref(), &starts).await;
    let found = listed(&store, tenant, &SessionFilter::default()).await;
    let expected: Vec<_> = starts.iter().rev().map(|start| start.session_id).collect();
    assert_eq!(found, expected);
    let mut messages = Vec::new();
    let (filter, mut after) = (DeliveryFilter::default(), None);
    loop {
        let page = store.deliveries(tenant, &filter, 300, after).await.unwrap();
        messages.extend(page.rows.iter().map(|row| row.queued.session_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(messages, expected);
    let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
    for limit in [1, rows - 50, 2 * rows] {
        let ready = Some((TimestampMs(i64::MIN), limit));
        let listing = store.listing(tenant, endpoint_id, ready, None, None, 0);
        let found = listing.await.unwrap().ready.unwrap();
        let found = found.iter().map(|(_, session_id)| session_id);
        assert!(found.eq(expected.iter().rev().take(limit)), "{limit}");
    }
    let session = connect(&keyspace).await;
    for (table, key) in [
        ("sessions_by_organization", "tenant, hour"),
        ("deliveries", "tenant, slot"),
        ("outbox", "endpoint, slot"),
    ] {
        let mut rows = partitions(&session, table, key).await;
        rows.sort_unstable();
        let expected = [100, i64::from(LIST_SHARED_ROWS_MAX)];
        assert_eq!(rows, expected, "{table}");
    }
    let gone = starts.last().unwrap().session_id;
    store.erase_session(gone).await.unwrap();
    let rows = partitions(&session, "deliveries", "tenant, slot").await;
    assert_eq!(rows.iter().sum::<i64>(), starts.len() as i64 - 1);
    remove(&session, &keyspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_keeps_rows_in_the_partition_that_has_them() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = open(&keyspace, 4).await else {
        return;
    };
    let tenant = tenant();
    let mut all = BTreeMap::new();
    let times = (0..40).map(|row| T0.plus_ms(row * MINUTE_MS));
    add(&store, tenant, times, &mut all).await;
    let session = connect(&keyspace).await;
    let tables = [
        ("sessions_by_rider", "tenant, hash"),
        ("slots", "owner, slot"),
    ];
    let count = async || {
        let mut counts = Vec::new();
        for (table, key) in tables {
            let mut rows = partitions(&session, table, key).await;
            rows.sort_unstable();
            counts.push(rows);
        }
        counts
    };
    let before = count().await;
    let longer = open(&keyspace, 90).await.unwrap();
    for (_, id) in all.keys() {
        assert!(longer.renew_session(*id).await.unwrap());
    }
    assert_eq!(count().await, before);
    remove(&session, &keyspace).await;
}

/// Appends batches, and returns the number of those that were new.
async fn append(store: &CqlStore, session_id: SessionId, numbers: std::ops::Range<u32>) -> usize {
    let mut new = 0;
    for seq in numbers {
        let appended = store.append(session_id, seq, batch(seq), T0).await.unwrap();
        new += usize::from(appended == Appended::New);
    }
    new
}

async fn assert_has_batches(store: &CqlStore, session_id: SessionId, batches: u32) {
    let mut next = 0;
    while next < batches {
        let read = store.read(session_id, next, 50).await.unwrap();
        let numbers = read.iter().map(|entry| entry.seq);
        assert!(numbers.eq(next..next + read.len() as u32));
        assert!(!read.is_empty(), "batch {next} is missing");
        next += read.len() as u32;
    }
    assert_eq!(store.count(session_id).await.unwrap(), batches);
    let newest = store.newest(session_id).await.unwrap();
    assert_eq!(newest.map(|(seq, _)| seq), Some(batches - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_has_bounded_partitions() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = open(&keyspace, 90).await else {
        return;
    };
    let id = session_id(T0);
    let batches = 3 * JOURNAL_PARTITION_BATCHES_MAX + 5;
    assert_eq!(append(&store, id, 0..batches).await, batches as usize);
    assert_has_batches(&store, id, batches).await;
    // Another process finds all of them, and takes none twice.
    let other = open(&keyspace, 90).await.unwrap();
    assert_eq!(append(&other, id, 0..batches).await, 0);
    assert_has_batches(&other, id, batches).await;
    let session = connect(&keyspace).await;
    let rows = partitions(&session, "telemetry", "session, bucket").await;
    let most = i64::from(JOURNAL_PARTITION_BATCHES_MAX);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|&rows| rows <= most), "{rows:?}");
    remove(&session, &keyspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_keeps_few_snapshots() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = open(&keyspace, 90).await else {
        return;
    };
    let id = session_id(T0);
    append(&store, id, 0..1).await;
    let session = connect(&keyspace).await;
    for next_seq in 1..100 {
        let snapshot = Snapshot {
            generation: 1,
            next_seq,
            state: vec![next_seq as u8],
        };
        store.put_snapshot(id, snapshot.clone()).await.unwrap();
        if next_seq % 9 == 0 {
            assert_eq!(store.newest_snapshot(id).await.unwrap(), Some(snapshot));
            let rows = partitions(&session, "snapshots", "session").await;
            assert!(rows[0] <= i64::from(SNAPSHOT_ROWS_MAX), "{rows:?}");
        }
    }
    remove(&session, &keyspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_from_before_the_agreement_stay_complete() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(_migrated) = open(&keyspace, 90).await else {
        return;
    };
    let session = connect(&keyspace).await;
    remove_agreement(&session).await;
    let before = open(&keyspace, 90).await.unwrap();
    let tenant = tenant();
    let mut all = BTreeMap::new();
    let minutes = |from: i64| (0..50).map(move |row| T0.plus_ms(from + row * MINUTE_MS));
    add(&before, tenant, minutes(0), &mut all).await;
    let (_, old) = *all.keys().next().unwrap();
    assert_eq!(append(&before, old, 0..100).await, 100);
    let rows = partitions(&session, "sessions_by_rider", "tenant, hash").await;
    assert_eq!(rows, [50], "one partition, as in earlier releases");
    let rows = partitions(&session, "telemetry", "session, bucket").await;
    assert_eq!(rows, [100]);

    let since = T0.plus_ms(HOUR_MS);
    agree(&session, since).await;
    let after = open_standing(&keyspace).await.unwrap();
    add(&after, tenant, minutes(HOUR_MS), &mut all).await;
    assert_eq!(append(&after, old, 50..200).await, 100);
    assert_has_batches(&after, old, 200).await;
    let new = session_id(since);
    assert_eq!(append(&after, new, 0..100).await, 100);
    assert_has_batches(&after, new, 100).await;
    let mut rows = partitions(&session, "telemetry", "session, bucket").await;
    rows.sort_unstable();
    assert_eq!(rows, [36, 64, 200], "the old session keeps its partition");
    let expected: Vec<_> = all.keys().rev().map(|(_, id)| *id).collect();
    for filter in filters() {
        assert_eq!(listed(&after, tenant, &filter).await, expected);
    }
    let rows = partitions(&session, "sessions_by_rider", "tenant, hash").await;
    assert_eq!(rows.iter().sum::<i64>(), 100);
    let shared = 50 + i64::from(LIST_SHARED_ROWS_PER_DAY_MAX);
    assert_eq!(rows.iter().max(), Some(&shared));
    remove(&session, &keyspace).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_an_earlier_release_delays_the_agreement() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(_migrated) = open(&keyspace, 90).await else {
        return;
    };
    let session = with_old_member(&keyspace).await;
    let store = open(&keyspace, 90).await.unwrap();
    let id = session_id(T0);
    append(&store, id, 0..70).await;
    let rows = partitions(&session, "telemetry", "session, bucket").await;
    assert_eq!(rows, [70], "one partition, which the old node reads");
    remove(&session, &keyspace).await;
}

/// Returns the agreed time, if there is one.
async fn agreed(session: &Session) -> Option<TimestampMs> {
    let select = "SELECT generation FROM generations WHERE name = 'bounded_partitions'";
    let rows = session.query_unpaged(select, ()).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    let row: Option<(i64,)> = rows.maybe_first_row().unwrap();
    row.map(|(since,)| TimestampMs(since))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_change_to_bounded_partitions_while_sessions_run() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(_migrated) = open(&keyspace, 90).await else {
        return;
    };
    let session = with_old_member(&keyspace).await;
    let node = async || {
        let mut options = options(keyspace.clone()).unwrap();
        options.agreement = Agreement {
            after: Duration::from_secs(1),
            ahead: Duration::from_secs(3),
            read_interval: Duration::from_millis(200),
        };
        let opened = CqlStore::open(options, Role::Command, Arc::new(SystemClock)).await;
        opened.unwrap()
    };
    let nodes = [node().await, node().await];
    let tenant = tenant();
    let (mut all, mut after) = (BTreeMap::new(), 0);
    let batches = JOURNAL_PARTITION_BATCHES_MAX + 10;
    for round in 0.. {
        add(&nodes[round % 2], tenant, once(SystemClock.now()), &mut all).await;
        // The first session continues across the change; the others have more batches than a
        // bounded partition.
        let (_, first) = *all.keys().next().unwrap();
        let (_, newest) = *all.keys().next_back().unwrap();
        let continued = 1_000 + 4 * round as u32;
        for seq in (0..batches).chain(continued..continued + 4) {
            let id = if seq < batches { newest } else { first };
            let node = &nodes[(seq % 2) as usize];
            let appended = node.append(id, seq, batch(seq), T0).await.unwrap();
            assert_eq!(appended, Appended::New, "round {round}, batch {seq}");
        }
        if round == 2 {
            assert_eq!(agreed(&session).await, None, "the old node is a member");
            let gone = "UPDATE members SET standing = 2 WHERE cluster = 'porchlight' \
                        AND node = 'old' IF incarnation = 1";
            session.query_unpaged(gone, ()).await.unwrap();
        }
        if agreed(&session)
            .await
            .is_some_and(|since| newest.made_at() >= since)
        {
            after += 1;
        }
        if after == 3 {
            break;
        }
    }
    let since = agreed(&session).await.unwrap();
    let expected: Vec<_> = all.keys().rev().map(|(_, id)| *id).collect();
    let (_, first) = *all.keys().next().unwrap();
    for node in &nodes {
        for filter in filters() {
            assert_eq!(listed(node, tenant, &filter).await, expected);
        }
        for id in expected.iter().filter(|id| **id != first) {
            assert_has_batches(node, *id, batches).await;
        }
        let count = node.count(first).await.unwrap();
        assert_eq!(count, batches + 4 * all.len() as u32);
    }
    let rows = partitions(&session, "telemetry", "session, bucket").await;
    let bounded = all.keys().filter(|(_, id)| id.made_at() >= since).count();
    let is_large = |rows: &&i64| **rows > i64::from(JOURNAL_PARTITION_BATCHES_MAX);
    assert!(bounded >= 3 && bounded < all.len() - 3);
    assert_eq!(rows.iter().filter(is_large).count(), all.len() - bounded);
    remove(&session, &keyspace).await;
}
