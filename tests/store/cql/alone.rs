//! Tests that a process that serves alone reads none of the rows that it has written, and that this
//! loses nothing when another process writes or takes over.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use porchlight_ports::{
    Appended, Clock, Endpoint, Erasure, Insights, Journal, Note, Outbox, PodRow, SessionRow,
    Sessions, Unwritten,
};
use porchlight_schema::ids::{EndpointId, SessionId, Shard, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{Pod, PodType, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::{CqlStore, Role};
use porchlight_world::SystemClock;

use super::costs::{ahead_of_slot_end_ms, cost, deliver};
use super::marks::{LongRunning, serve};
use super::options;
use super::privacy::connect;
use crate::cql_server::CqlServer;
use crate::fixtures::{
    T0, batch, end_at, insight, message, new_session, put_endpoint, start, tenant,
};

/// The shard of all sessions.
const SHARD: Shard = Shard(7);
/// Longer than the time for which an earlier process may still begin operations.
const EARLIER_MS: i64 = 60_000;

/// The number of times that a test checks whether rows are removed before it fails.
const REMOVAL_POLLS_MAX: usize = 600;

/// A clock whose uptime only a test advances, so that no cached row expires on a busy machine.
#[derive(Default)]
struct ManualUptime(AtomicI64);

impl Clock for ManualUptime {
    fn now(&self) -> TimestampMs {
        now()
    }

    fn uptime_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A process that serves alone, and has verified it.
struct Alone {
    store: Arc<CqlStore>,
    keyspace: String,
    tenant: Tenant,
    endpoint_id: EndpointId,
}

/// Opens the store as the only process, and waits until it has verified that no other process
/// writes.
pub async fn serve_alone(keyspace: &str) -> Option<Arc<CqlStore>> {
    let clock = Arc::<ManualUptime>::default();
    let store = serve(keyspace, &clock).await?;
    let is_known = async || {
        let start = start(tenant(), now());
        store.start(new_session(&start)).await.unwrap();
        store.known(start.session_id).is_some()
    };
    assert!(
        !is_known().await,
        "a process that has just started knows no session"
    );
    clock.0.store(EARLIER_MS, Ordering::Relaxed);
    while !is_known().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Some(store)
}

impl Alone {
    async fn open() -> Option<Self> {
        let keyspace = CqlServer::fresh_keyspace();
        let store = serve_alone(&keyspace).await?;
        let tenant = tenant();
        put_endpoint(&*store, tenant, true).await;
        let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
        Some(Self {
            store,
            keyspace,
            tenant,
            endpoint_id,
        })
    }

    /// Starts a session now. All sessions are in one shard, because the first one of a shard and an
    /// hour lists them.
    async fn begin(&self) -> SessionId {
        let mut starts = std::iter::repeat_with(|| start(self.tenant, now()));
        let start = starts.find(|start| start.session_id.shard() == SHARD);
        let start = start.unwrap();
        self.store.start(new_session(&start)).await.unwrap();
        start.session_id
    }

    async fn end(&self, id: SessionId) {
        let ended = end(&self.store, id).await;
        assert!(ended);
    }

    async fn score(&self, id: SessionId, batches: u32) {
        let updated = message(MessageEvent::InsightUpdated);
        let committing = self
            .store
            .commit_insight(id, insight(batches), updated, Vec::new());
        assert!(committing.await.unwrap());
    }

    /// Finishes a session without batches.
    async fn finish(&self) -> SessionId {
        let id = self.begin().await;
        self.end(id).await;
        self.score(id, 0).await;
        id
    }

    /// Waits until this many sessions are listed as live and none is marked. Returns the number of
    /// writes meanwhile.
    async fn await_removal(&self, live: usize) -> u64 {
        let before = self.store.statements().writes;
        for _ in 0..REMOVAL_POLLS_MAX {
            if self.rows_of_work().await == (live, 0) {
                return self.store.statements().writes - before;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("rows were not removed: {:?}", self.rows_of_work().await);
    }

    async fn waiting(&self, id: SessionId) -> Vec<u32> {
        let lane = self.store.lane(self.tenant, self.endpoint_id, id, None);
        let waiting = lane.await.unwrap().waiting;
        waiting.iter().map(|queued| queued.number).collect()
    }

    async fn to_score(&self) -> Vec<SessionId> {
        self.store.to_score(ShardSet::ALL, None, 99).await.unwrap()
    }

    /// Opens the store as a second process that writes to the keyspace.
    async fn other(&self) -> Arc<CqlStore> {
        let options = options(self.keyspace.clone()).unwrap();
        let store = CqlStore::open(options, Role::Command, Arc::new(SystemClock)).await;
        store.unwrap()
    }

    /// Counts the rows of the live and of the marked sessions.
    async fn rows_of_work(&self) -> (usize, usize) {
        let session = connect(&self.keyspace).await;
        let count = async |select: &str| {
            let rows = session.query_unpaged(select, ()).await.unwrap();
            rows.into_rows_result().unwrap().rows_num()
        };
        (
            count("SELECT session FROM live_sessions").await,
            count("SELECT session FROM behind_sessions").await,
        )
    }
}

/// Returns a time at which neither an hour nor a slot ends soon: the first session of each also lists
/// it.
fn now() -> TimestampMs {
    static AHEAD_MS: LazyLock<i64> = LazyLock::new(ahead_of_slot_end_ms);
    SystemClock.now().plus_ms(*AHEAD_MS)
}

/// Ends a session, and returns whether this was the first end.
async fn end(store: &CqlStore, id: SessionId) -> bool {
    let stopped = message(MessageEvent::SessionStopped);
    let ended = store.end(id, end_at(now()), None, stopped);
    ended.await.unwrap().unwrap().is_first
}

fn pod_at(received_at: TimestampMs) -> PodRow {
    PodRow {
        pod: Pod {
            pod_type: PodType::Note,
            url: "https://example.com/pod".to_owned(),
        },
        received_at,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_serves_alone_reads_nothing_that_it_has_written() {
    let Some(alone) = Alone::open().await else {
        return;
    };
    // The first session of the shard lists it.
    let (live, _) = alone.rows_of_work().await;
    alone.finish().await;
    alone.await_removal(live).await;
    let store = &*alone.store;
    let run = async {
        let id = alone.begin().await;
        deliver(store, alone.tenant, alone.endpoint_id, id).await;
        assert!(store.known(id).is_some_and(|row| row.end.is_none()));
        alone.end(id).await;
        deliver(store, alone.tenant, alone.endpoint_id, id).await;
        assert!(store.known(id).is_some_and(|row| row.end.is_some()));
        alone.score(id, 0).await;
        deliver(store, alone.tenant, alone.endpoint_id, id).await;
        id
    };
    let (id, counts) = cost(store, run).await;
    println!("{counts:?}");
    // Reads may verify that the process serves and find the endpoint. A start writes three times,
    // the end and the insight write once before or after their transaction, and the insight is
    // written itself. The rows that lead to the session are removed by one write, or by two if the
    // process verifies meanwhile that it serves.
    assert!(counts.reads + counts.scans <= 6, "{counts:?}");
    assert_eq!(counts.lightweight, 2, "{counts:?}");
    let writes = counts.writes + alone.await_removal(live).await;
    let expected = 3 + 1 + 2 + 3 + 1;
    assert!(
        (expected..=expected + 1).contains(&writes),
        "{counts:?}, {writes}"
    );
    let row = store.find(id).await.unwrap().unwrap();
    assert_eq!(store.known(id), Some(row));
    assert_eq!(store.messages(id).await.unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_written_part_is_no_longer_known_as_unwritten() {
    let Some(alone) = Alone::open().await else {
        return;
    };
    let (store, id) = (&alone.store, alone.begin().await);
    let mut expected = Unwritten {
        batches: true,
        notes: true,
        pod: true,
        insight: true,
    };
    assert_eq!(store.unwritten(id), expected);
    let appended = store.append(id, 0, batch(0), T0).await.unwrap();
    assert_eq!(appended, Appended::New);
    expected.batches = false;
    assert_eq!(store.unwritten(id), expected);
    let note = Note::Skipped { first: 1, last: 2 };
    store.note(id, note).await.unwrap();
    expected.notes = false;
    assert_eq!(store.unwritten(id), expected);
    alone.end(id).await;
    assert_eq!(store.unwritten(id), expected);
    // The insight lacks the batch, so that its mark stays.
    alone.score(id, 0).await;
    expected.insight = false;
    assert_eq!(store.unwritten(id), expected);
    assert_eq!(alone.to_score().await, [id]);
    let mut covering = insight(1);
    covering.record.revision = 2;
    let updated = message(MessageEvent::InsightUpdated);
    let committing = store.commit_insight(id, covering, updated, Vec::new());
    assert!(committing.await.unwrap());
    assert_eq!(alone.to_score().await, []);
    // A late PoD and a late batch mark the session again.
    assert!(store.attach_pod(id, pod_at(T0)).await.unwrap());
    expected.pod = false;
    assert_eq!(store.unwritten(id), expected);
    assert_eq!(alone.to_score().await, [id]);
    store.erase_session(id).await.unwrap();
    assert_eq!(
        (store.known(id), store.unwritten(id)),
        (None, Unwritten::default())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_another_process_are_found() {
    let Some(alone) = Alone::open().await else {
        return;
    };
    let (store, other) = (&alone.store, alone.other().await);
    let (stopped, found, listed) = (
        alone.begin().await,
        alone.begin().await,
        alone.begin().await,
    );
    for id in [stopped, found, listed] {
        assert_eq!(alone.waiting(id).await, [0]);
        assert!(end(&other, id).await);
    }
    // The transaction of a second end is refused, and finds the first.
    assert!(!end(store, stopped).await);
    assert_eq!(alone.waiting(stopped).await, [0, 1]);
    // A read for a caller shows the end.
    let row = store.find(found).await.unwrap().unwrap();
    assert!(row.end.is_some());
    assert_eq!(store.known(found), None);
    assert_eq!(alone.waiting(found).await, [0, 1]);
    // A listing finds the message.
    let (tenant, from) = (alone.tenant, Some((TimestampMs(i64::MIN), 100_000)));
    let listing = store.listing(tenant, alone.endpoint_id, from, None, None, 0);
    let ready = listing.await.unwrap().ready.unwrap();
    assert_eq!(ready.iter().filter(|(_, id)| *id == listed).count(), 2);
    assert_eq!(alone.waiting(listed).await, [0, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_endpoint_gets_the_next_message() {
    let Some(alone) = Alone::open().await else {
        return;
    };
    let (store, tenant, id) = (&alone.store, alone.tenant, alone.begin().await);
    let first = store.endpoint(tenant).await.unwrap().unwrap();
    assert!(store.delete_endpoint(tenant).await.unwrap());
    let second = Endpoint {
        id: EndpointId::new(TimestampMs(2), 2),
        version: 1,
        ..first
    };
    assert!(store.create_endpoint(second.clone()).await.unwrap());
    alone.end(id).await;
    let lane = store.lane(tenant, second.id, id, None).await.unwrap();
    let numbers: Vec<_> = lane.waiting.iter().map(|queued| queued.number).collect();
    assert_eq!(numbers, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_finished_work_that_a_killed_process_leaves_are_removed() {
    let Some(alone) = Alone::open().await else {
        return;
    };
    let (live, _) = alone.rows_of_work().await;
    // The process may verify that it serves, and remove the rows, before they are counted.
    let mut id = alone.finish().await;
    while alone.rows_of_work().await != (live + 1, 1) {
        alone.await_removal(live).await;
        id = alone.finish().await;
    }
    // The process is killed here: its deletes are lost.
    let clock = Arc::<LongRunning>::default();
    let next = serve(&alone.keyspace, &clock).await.unwrap();
    let found = next.live(ShardSet::ALL, None, 99_999).await.unwrap();
    let is_found = |row: &SessionRow| row.start.session_id == id;
    assert!(!found.iter().any(is_found));
    assert_eq!(next.to_score(ShardSet::ALL, None, 9).await.unwrap(), []);
    alone.await_removal(live).await;
    next.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_process_keeps_marks() {
    let Some(alone) = Alone::open().await else {
        return;
    };
    let (store, id) = (&alone.store, alone.finish().await);
    // Another process takes over, and stores a batch that the insight lacks, before the first one
    // notices.
    let clock = Arc::<LongRunning>::default();
    let next = serve(&alone.keyspace, &clock).await.unwrap();
    let appended = next.append(id, 0, batch(0), T0).await.unwrap();
    assert_eq!(appended, Appended::New);
    let before = alone.rows_of_work().await;
    store.close().await;
    assert_eq!(alone.rows_of_work().await, before);
    assert_eq!(next.to_score(ShardSet::ALL, None, 9).await.unwrap(), [id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_suspended_reads_whether_it_serves_before_it_writes() {
    let (keyspace, clock) = (CqlServer::fresh_keyspace(), Arc::<LongRunning>::default());
    let Some(first) = serve(&keyspace, &clock).await else {
        return;
    };
    let start = start(tenant(), T0);
    first.start(new_session(&start)).await.unwrap();
    let later = Arc::<LongRunning>::default();
    let next = serve(&keyspace, &later).await.unwrap();
    clock.0.store(EARLIER_MS, Ordering::Relaxed);
    let id = start.session_id;
    assert!(first.append(id, 0, batch(0), T0).await.is_err());
    assert_eq!(next.count(id).await.unwrap(), 0);
}
