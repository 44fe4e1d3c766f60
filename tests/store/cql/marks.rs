//! Tests that the marks by which an owner finds its work are set and stay readable.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use porchlight_ports::{Clock, Insights, PodRow, Sessions};
use porchlight_schema::ids::{SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{Pod, PodType};
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::{CqlStore, Role};
use porchlight_world::SystemClock;

use super::options;
use super::privacy::connect;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, end_at, insight, message, new_session, start, tenant};

/// Two days, in milliseconds.
const TWO_DAYS_MS: i64 = 2 * 86_400_000;

/// The clock of a process whose uptime a test advances.
#[derive(Default)]
pub struct LongRunning(pub AtomicI64);

impl Clock for LongRunning {
    fn now(&self) -> TimestampMs {
        SystemClock.now()
    }

    fn uptime_ms(&self) -> i64 {
        SystemClock.uptime_ms() + self.0.load(Ordering::Relaxed)
    }
}

/// Opens the store as the only process, with this clock.
pub async fn serve<C: Clock + 'static>(keyspace: &str, clock: &Arc<C>) -> Option<Arc<CqlStore>> {
    let role = Role::Serving {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
    };
    let options = options(keyspace.to_owned())?;
    let store = CqlStore::open(options, role, Arc::clone(clock) as _).await;
    Some(store.unwrap())
}

/// Starts a session that was created long ago, so that its rows go into the bucket for old
/// sessions.
async fn start_old(store: &CqlStore) -> SessionId {
    let start = start(tenant(), T0);
    store.start(new_session(&start)).await.unwrap();
    start.session_id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_pod_sets_the_mark_that_the_first_request_did_not() {
    let (keyspace, clock) = (CqlServer::fresh_keyspace(), Arc::<LongRunning>::default());
    let Some(store) = serve(&keyspace, &clock).await else {
        return;
    };
    let id = start_old(&store).await;
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    let updated = message(MessageEvent::InsightUpdated);
    let committing = store.commit_insight(id, insight(0), updated, Vec::new());
    assert!(committing.await.unwrap());
    let pod = |received_at| PodRow {
        pod: Pod {
            pod_type: PodType::Note,
            url: "https://example.com/pod".to_owned(),
        },
        received_at,
    };
    assert!(store.attach_pod(id, pod(T0.plus_ms(5))).await.unwrap());
    // The first request stored the PoD and failed before it set the mark.
    let session = connect(&keyspace).await;
    let emptied = session.query_unpaged("TRUNCATE behind_sessions", ());
    emptied.await.unwrap();
    let marked = async || store.to_score(ShardSet::ALL, None, 9).await.unwrap();
    assert_eq!(marked().await, []);
    assert!(!store.attach_pod(id, pod(T0.plus_ms(9))).await.unwrap());
    assert_eq!(marked().await, [id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_outlives_the_rows_of_slots_writes_them_again() {
    let (keyspace, clock) = (CqlServer::fresh_keyspace(), Arc::<LongRunning>::default());
    let Some(store) = serve(&keyspace, &clock).await else {
        return;
    };
    let first = start_old(&store).await;
    let live = async || {
        let live = store.live(ShardSet::ALL, None, 9).await.unwrap();
        let ids = live.into_iter().map(|row| row.start.session_id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(live().await, [first]);
    // The rows expire while the process runs.
    let session = connect(&keyspace).await;
    session.query_unpaged("TRUNCATE slots", ()).await.unwrap();
    clock.0.store(TWO_DAYS_MS, Ordering::Relaxed);
    let second = start_old(&store).await;
    assert!(live().await.contains(&second));
}
