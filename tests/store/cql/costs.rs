//! Tests the cost of operations for the database, in statements and rows, and that doubtful writes
//! and wrong clocks lose nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use porchlight_core::webhook::{Change, State, Update};
use porchlight_ports::{Appended, Clock, Insights, Journal, Outbox, Sessions};
use porchlight_schema::ids::{EndpointId, SessionId, ShardSet};
use porchlight_schema::limits::REMOTE_SESSION_TTL_MS;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::{CqlOpenError, CqlStore, Refusal, Role, StatementCounts};
use porchlight_world::SystemClock;
use scylla::client::session_builder::SessionBuilder;

use super::nodes::Owner;
use super::options;
use crate::cql_server::CqlServer;
use crate::fixtures::{
    T0, batch, end_at, insight, message, new_session, put_endpoint, start, tenant,
};

/// A wall clock that is ahead of the machine's by this number of milliseconds.
#[derive(Default)]
struct SkewedClock(AtomicI64);

/// The length of an outbox's slot in milliseconds. An hour consists of whole slots.
const SLOT_MS: i64 = 600_000;
/// The time for which a test may rely on a slot, in milliseconds.
const SLOT_LEFT_MS: i64 = 180_000;

/// Returns the milliseconds by which a clock must be ahead of the machine's, so that neither the
/// slot nor the hour ends during a test.
pub fn ahead_of_slot_end_ms() -> i64 {
    let left_ms = SLOT_MS - SystemClock.now().0.rem_euclid(SLOT_MS);
    if left_ms < SLOT_LEFT_MS { left_ms } else { 0 }
}

impl Clock for SkewedClock {
    fn now(&self) -> TimestampMs {
        SystemClock.now().plus_ms(self.0.load(Ordering::Relaxed))
    }

    fn uptime_ms(&self) -> i64 {
        SystemClock.uptime_ms()
    }
}

/// Opens a node that owns all shards in this generation, or none in generation 0.
pub async fn node(keyspace: &str, generation: u64, ahead_ms: i64) -> Option<Arc<CqlStore>> {
    node_by(keyspace, generation, Arc::new(SkewedClock(ahead_ms.into()))).await
}

/// Opens a node as [`node`] does, with this clock.
async fn node_by(
    keyspace: &str,
    generation: u64,
    clock: Arc<SkewedClock>,
) -> Option<Arc<CqlStore>> {
    let owner = Owner::default();
    owner.acts_in(generation);
    let role = Role::Node {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
        ownership: Arc::new(owner),
    };
    let options = options(keyspace.to_owned())?;
    let store = CqlStore::open(options, role, clock).await;
    Some(store.unwrap())
}

/// Runs an operation, and returns its result and the statements that it cost.
pub async fn cost<T>(store: &CqlStore, work: impl Future<Output = T>) -> (T, StatementCounts) {
    let before = store.statements();
    let done = work.await;
    (done, store.statements() - before)
}

/// The reads by which a process verifies from time to time that it serves, also while a test counts
/// the statements of an operation.
struct Verifications {
    began: Instant,
    found: u64,
}

impl Default for Verifications {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            found: 0,
        }
    }
}

impl Verifications {
    /// Returns the counts without the reads of a verification, if they exceed the expected ones by
    /// exactly these, and as many verifications can have happened since this was created.
    fn without(&mut self, counts: StatementCounts, expected: StatementCounts) -> StatementCounts {
        let reads = expected.reads + VERIFICATION_READS;
        let possible = 1 + self.began.elapsed().as_secs() / VERIFICATION_SEC;
        let rest = StatementCounts {
            reads: counts.reads.min(expected.reads),
            rows: expected.rows,
            ..counts
        };
        if counts.reads == reads && rest == expected && self.found < possible {
            self.found += 1;
            return rest;
        }
        counts
    }
}

/// Records that the oldest waiting message of a session was delivered.
pub async fn deliver(store: &CqlStore, tenant: Tenant, endpoint_id: EndpointId, id: SessionId) {
    let lane = store.lane(tenant, endpoint_id, id, None).await.unwrap();
    let before = lane.waiting[0];
    let mut after = before;
    after.attempts = 1;
    after.state = State::Delivered;
    let update = Update {
        before,
        after,
        report: None,
    };
    let change = Change {
        updates: vec![update],
        manual_done: None,
    };
    let committed = store.commit(tenant, endpoint_id, id, change).await;
    committed.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_costs_its_owner_one_write() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(owner) = node(&keyspace, 1, 0).await else {
        return;
    };
    let other = node(&keyspace, 0, 0).await.unwrap();
    let start = start(tenant(), T0);
    let id = start.session_id;
    owner.start(new_session(&start)).await.unwrap();
    let put = async |store: &CqlStore, seq, number| {
        let appended = store.append(id, seq, batch(number), T0);
        appended.await.unwrap()
    };
    assert_eq!(put(&owner, 0, 0).await, Appended::New);
    // Longer than any node caches its reads.
    tokio::time::sleep(Duration::from_millis(REMOTE_SESSION_TTL_MS + 100)).await;
    let one_write = StatementCounts {
        writes: 1,
        ..StatementCounts::default()
    };
    let mut verifications = Verifications::default();
    for seq in 1..=10 {
        let (appended, counts) = cost(&owner, put(&owner, seq, seq)).await;
        let counts = verifications.without(counts, one_write);
        assert_eq!((appended, counts), (Appended::New, one_write), "{seq}");
    }
    // A batch that another node accepts is forwarded to the owner, which needs no read to know it.
    assert_eq!(put(&other, 11, 11).await, Appended::New);
    owner.learn_forwarded(id, 11);
    assert_eq!(put(&owner, 11, 99).await, Appended::Conflict);
    let (appended, counts) = cost(&owner, put(&owner, 12, 12)).await;
    let counts = verifications.without(counts, one_write);
    assert_eq!((appended, counts), (Appended::New, one_write));
    // Another node reads once, however much the owner has written since.
    tokio::time::sleep(Duration::from_millis(REMOTE_SESSION_TTL_MS + 100)).await;
    let mut verifications = Verifications::default();
    let (appended, counts) = cost(&other, put(&other, 13, 13)).await;
    assert_eq!(appended, Appended::New);
    let one_read = StatementCounts {
        reads: 1,
        rows: counts.rows,
        ..one_write
    };
    assert_eq!(verifications.without(counts, one_read), one_read);
    // On a slow machine the time may pass between two appends, so one of several must need no read.
    let mut costs = Vec::new();
    for seq in 14..=18 {
        let (_, counts) = cost(&other, put(&other, seq, seq)).await;
        costs.push(counts);
    }
    assert!(costs.contains(&one_write), "{costs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_costs_a_known_number_of_statements() {
    let clock = Arc::new(SkewedClock(ahead_of_slot_end_ms().into()));
    let Some(store) = node_by(&CqlServer::fresh_keyspace(), 1, Arc::clone(&clock)).await else {
        return;
    };
    let tenant = tenant();
    put_endpoint(&*store, tenant, true).await;
    let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
    // The first session of an hour also lists the hour and the outbox's slot.
    let now = clock.now();
    let warm = start(tenant, now);
    store.start(new_session(&warm)).await.unwrap();
    let start = start(tenant, now.plus_ms(1));
    let id = start.session_id;
    let began = Instant::now();
    let mut table = Vec::new();
    let mut sum = StatementCounts::default();
    let mut note = |step: &'static str, counts: StatementCounts| {
        sum.reads += counts.reads;
        sum.scans += counts.scans;
        sum.writes += counts.writes;
        sum.lightweight += counts.lightweight;
        sum.rows += counts.rows;
        table.push((step, counts));
    };
    let (started, counts) = cost(&store, store.start(new_session(&start))).await;
    started.unwrap();
    note("start", counts);
    let (_, counts) = cost(&store, async {
        for seq in 0..10 {
            let appended = store.append(id, seq, batch(seq), T0).await.unwrap();
            assert_eq!(appended, Appended::New);
        }
    })
    .await;
    note("ten batches", counts);
    let batches = counts;
    let body = message(MessageEvent::SessionStopped);
    let (ended, counts) = cost(&store, store.end(id, end_at(now), None, body)).await;
    ended.unwrap();
    note("stop", counts);
    let body = message(MessageEvent::InsightUpdated);
    let learned = vec![([7; 32], b"a place".to_vec())];
    let committing = store.commit_insight(id, insight(10), body, learned);
    let (committed, counts) = cost(&store, committing).await;
    assert!(committed.unwrap());
    note("insight", counts);
    let (settled, counts) = cost(&store, store.settle(id)).await;
    assert!(settled.unwrap());
    note("settled", counts);
    let (_, counts) = cost(&store, async {
        for _ in 0..3 {
            deliver(&store, tenant, endpoint_id, id).await;
        }
    })
    .await;
    note("three webhooks", counts);
    let removed = rows_removed(&store).await;
    note("rows of finished work", removed);
    table.push(("all", sum));
    println!("| step | reads | scans | writes | LWT | rows |");
    for (step, counts) in &table {
        println!(
            "| {step} | {} | {} | {} | {} | {} |",
            counts.reads, counts.scans, counts.writes, counts.lightweight, counts.rows
        );
    }
    // The owner has created the session, and knows that its journal was empty.
    assert_eq!((batches.writes, batches.lightweight), (10, 0));
    let verifications = VERIFICATION_READS * (1 + began.elapsed().as_secs() / VERIFICATION_SEC);
    assert!(
        batches.reads + batches.scans <= verifications,
        "{batches:?}"
    );
    assert_eq!(
        sum.lightweight, 3,
        "the end, the insight, and the removal of the learned rows from the state"
    );
    // A verification meanwhile sends the removals in two parts.
    assert!(sum.writes <= SESSION_WRITES_MAX + 1, "{sum:?}");
    let reads = sum.reads + sum.scans;
    assert!(reads <= SESSION_READS_MAX + verifications, "{sum:?}");
}

/// The number of reads of a verification that the process serves.
const VERIFICATION_READS: u64 = 1;
/// The seconds between two verifications.
const VERIFICATION_SEC: u64 = 3;

/// The maximum number of writes of a session with ten batches and three webhooks, until it is
/// settled.
const SESSION_WRITES_MAX: u64 = 24;
/// The maximum number of reads of that session.
const SESSION_READS_MAX: u64 = 11;

/// The time within which a process removes the rows that lead to finished work, with room for a
/// busy machine.
pub const REMOVAL_TIMEOUT: Duration = Duration::from_secs(15);

/// Waits until the rows that lead to finished work are removed, unless that has happened already,
/// and returns the cost without the reads by which the process verifies that it serves.
async fn rows_removed(store: &CqlStore) -> StatementCounts {
    let (_, counts) = cost(store, async {
        let (began, before) = (Instant::now(), store.statements().writes);
        while store.statements().writes == before && began.elapsed() < REMOVAL_TIMEOUT {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    StatementCounts {
        writes: counts.writes,
        ..StatementCounts::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_hides_no_message_of_other_nodes() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(ahead) = node(&keyspace, 1, 40 * 60_000).await else {
        return;
    };
    let on_time = node(&keyspace, 0, 0).await.unwrap();
    let tenant = tenant();
    put_endpoint(&*ahead, tenant, true).await;
    let endpoint_id = ahead.endpoint(tenant).await.unwrap().unwrap().id;
    let old = start(tenant, T0);
    ahead.start(new_session(&old)).await.unwrap();
    deliver(&ahead, tenant, endpoint_id, old.session_id).await;
    let everything = Some((TimestampMs(i64::MIN), 100));
    let list = async || {
        let due = Some((ahead_now(), 100));
        let listing = ahead.listing(tenant, endpoint_id, everything, due, None, 0);
        listing.await.unwrap().ready.unwrap()
    };
    // A complete listing moves the watermark past the finished messages.
    assert_eq!(list().await, []);
    let new = start(tenant, SystemClock.now());
    let mut session = new_session(&new);
    session.message.created_at = new.created_at;
    on_time.start(session).await.unwrap();
    let found = list().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, new.session_id);
}

/// The number of sessions whose messages are delivered before the outbox is counted.
const DELIVERED: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cost_of_counting_an_outbox_depends_on_waiting_and_new_messages() {
    let keyspace = CqlServer::fresh_keyspace();
    // The messages are queued some minutes ago.
    let clock = Arc::new(SkewedClock((-300_000).into()));
    let Some(store) = node_by(&keyspace, 1, Arc::clone(&clock)).await else {
        return;
    };
    let tenant = tenant();
    put_endpoint(&*store, tenant, true).await;
    let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
    let begin = async |at: TimestampMs| {
        let start = start(tenant, at);
        let mut session = new_session(&start);
        session.message.created_at = at;
        store.start(session).await.unwrap();
        start.session_id
    };
    let count = async || {
        let now = clock.now();
        let (depth, counts) = cost(&store, store.depth(now)).await;
        let work = store.work(ShardSet::ALL, now).await.unwrap();
        let depth = depth.unwrap();
        assert_eq!(work.len() as u64, depth.pending.min(1));
        (depth.pending, counts)
    };
    for _ in 0..DELIVERED {
        let id = begin(clock.now()).await;
        deliver(&store, tenant, endpoint_id, id).await;
    }
    clock.0.store(0, Ordering::Relaxed);
    let (waiting, first) = count().await;
    assert_eq!(waiting, 0);
    let (waiting, second) = count().await;
    assert_eq!(waiting, 0);
    assert!(
        second.rows + DELIVERED <= first.rows,
        "{second:?}, {first:?}"
    );
    // This message was created before, and is queued only now.
    let late = begin(SystemClock.now().plus_ms(-200_000)).await;
    for _ in 0..2 {
        let (waiting, counts) = count().await;
        assert_eq!(waiting, 1);
        assert!(counts.rows < first.rows, "{counts:?}");
    }
    deliver(&store, tenant, endpoint_id, late).await;
    assert_eq!(count().await.0, 0);
}

fn ahead_now() -> TimestampMs {
    SystemClock.now().plus_ms(40 * 60_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_in_doubt_never_displaces_an_acknowledged_one() {
    let Some(server) = CqlServer::start_nodes(1) else {
        return;
    };
    let keyspace = CqlServer::fresh_keyspace();
    let mut options = options(keyspace.clone()).unwrap();
    options.nodes.clone_from(&server.nodes);
    options.replication_factor = 1;
    options.ingest_within = Duration::from_millis(500);
    let role = Role::Serving {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
    };
    let store = CqlStore::open(options, role, Arc::new(SystemClock)).await;
    let store = store.unwrap();
    // A busy machine may not store a batch within this short time.
    let append = async |id, seq, number| loop {
        match store.append(id, seq, batch(number), T0).await {
            Ok(appended) => break appended,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let [first, second] = [T0, T0.plus_ms(1)].map(|at| start(tenant(), at));
    for start in [&first, &second] {
        store.start(new_session(start)).await.unwrap();
        assert_ne!(append(start.session_id, 0, 0).await, Appended::Conflict);
    }
    // The same bytes in another session: the row that may appear late.
    assert_ne!(append(second.session_id, 1, 7).await, Appended::Conflict);
    let before_us = SystemClock.now().0 * 1_000;
    server.only_node().unwrap().signal("-STOP");
    let doubtful = store.append(first.session_id, 1, batch(7), T0).await;
    server.only_node().unwrap().signal("-CONT");
    assert!(doubtful.is_err(), "{doubtful:?}");
    let answer = append(first.session_id, 1, 8).await;
    let expected = match answer {
        // The doubtful batch had been written, and stays.
        Appended::Conflict => batch(7),
        Appended::New | Appended::Repeated => batch(8),
        other => panic!("{other:?}"),
    };
    // The doubtful write arrives again, as from a replica that was away.
    let nodes = SessionBuilder::new().known_nodes(&server.nodes);
    let session = nodes.build().await.unwrap();
    session.use_keyspace(&keyspace, false).await.unwrap();
    let key = second.session_id.to_bytes();
    let select = "SELECT hash, data FROM telemetry WHERE session = ? AND bucket = 0 AND seq = 1";
    let row = session.query_unpaged(select, (key.as_slice(),)).await;
    let row = row.unwrap().into_rows_result().unwrap();
    let (hash, data): (Vec<u8>, Vec<u8>) = row.first_row().unwrap();
    let insert = "INSERT INTO telemetry (session, bucket, seq, hash, data) VALUES (?, 0, 1, ?, ?) \
                  USING TIMESTAMP ?";
    let key = first.session_id.to_bytes();
    let values = (key.as_slice(), hash, data, before_us);
    session.query_unpaged(insert, values).await.unwrap();
    let stored = store.read(first.session_id, 1, 10).await.unwrap();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].batch.hash(), expected.hash(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_center_without_replicas_is_refused() {
    let Some(mut options) = options(CqlServer::fresh_keyspace()) else {
        return;
    };
    options.datacenter = Some("elsewhere".to_owned());
    let opened = CqlStore::open(options, Role::Command, Arc::new(SystemClock)).await;
    let error = opened.err().unwrap();
    assert!(
        matches!(
            &error,
            CqlOpenError::Unsafe(Refusal::NoReplicas { named, .. }) if named == "elsewhere"
        ),
        "{error}"
    );
}
