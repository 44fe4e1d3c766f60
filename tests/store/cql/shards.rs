//! Tests the cost of an owner's search for work in its shards.

use std::sync::Arc;

use porchlight_ports::{Clock, Insights, Journal, Sessions};
use porchlight_schema::ids::{SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::{CqlStore, Role, StatementCounts};
use porchlight_world::SystemClock;

use super::options;
use super::privacy::connect;
use crate::cql_server::CqlServer;
use crate::fixtures::{batch, end_at, insight, message, new_session, start, tenant};

const HOUR_MS: i64 = 3_600_000;
/// The number of shards.
const SHARDS: u64 = 256;

/// A wall clock that differs from the machine's by this number of milliseconds.
struct ShiftedClock(i64);

impl Clock for ShiftedClock {
    fn now(&self) -> TimestampMs {
        SystemClock.now().plus_ms(self.0)
    }

    fn uptime_ms(&self) -> i64 {
        SystemClock.uptime_ms()
    }
}

/// Opens the store as the only process, which owns all shards.
async fn serve(keyspace: &str, differs_ms: i64) -> Option<Arc<CqlStore>> {
    let role = Role::Serving {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
    };
    let clock = Arc::new(ShiftedClock(differs_ms));
    let store = CqlStore::open(options(keyspace.to_owned())?, role, clock).await;
    Some(store.unwrap())
}

/// Starts sessions now, by the store's clock, and scores all but the last `live`.
async fn run(store: &CqlStore, differs_ms: i64, sessions: usize, live: usize) -> Vec<SessionId> {
    let tenant = tenant();
    let mut left = Vec::new();
    for number in 0..sessions {
        let at = ShiftedClock(differs_ms).now();
        let start = start(tenant, at);
        let id = start.session_id;
        store.start(new_session(&start)).await.unwrap();
        if number + live >= sessions {
            left.push(id);
            continue;
        }
        store.append(id, 0, batch(0), at).await.unwrap();
        let body = message(MessageEvent::SessionStopped);
        store.end(id, end_at(at), None, body).await.unwrap();
        let body = message(MessageEvent::InsightUpdated);
        let committing = store.commit_insight(id, insight(1), body, Vec::new());
        assert!(committing.await.unwrap());
    }
    left.sort_unstable();
    left
}

/// Waits until the processes have removed the rows that lead to finished sessions, so that only
/// those of live sessions are left.
async fn await_removal(keyspace: &str, live: usize) {
    let session = connect(keyspace).await;
    let count = async |select: &str| {
        let rows = session.query_unpaged(select, ()).await.unwrap();
        rows.into_rows_result().unwrap().rows_num()
    };
    while count("SELECT session FROM live_sessions").await > live
        || count("SELECT session FROM behind_sessions").await > 0
    {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Searches for all work, as in a failover, and returns the live sessions and the cost.
async fn scan_for_work(store: &CqlStore) -> (Vec<SessionId>, StatementCounts) {
    let before = store.statements();
    let live = store.live(ShardSet::ALL, None, 1_000).await.unwrap();
    let to_score = store.to_score(ShardSet::ALL, None, 1_000).await.unwrap();
    assert_eq!(to_score, []);
    let live = live.iter().map(|row| row.start.session_id).collect();
    (live, store.statements() - before)
}

/// Searches for live sessions other than the known ones, as an owner does periodically, and returns
/// them and the cost.
async fn scan_for_unknown(
    store: &CqlStore,
    known: &[SessionId],
) -> (Vec<SessionId>, StatementCounts) {
    let before = store.statements();
    let known = known.to_vec();
    let is_known = Arc::new(move |session_id| known.contains(&session_id));
    let unknown = store.live_unknown(ShardSet::ALL, None, 1_000, is_known);
    let unknown = unknown.await.unwrap();
    let unknown = unknown.iter().map(|row| row.start.session_id).collect();
    (unknown, store.statements() - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cost_of_finding_work_depends_on_live_sessions() {
    let keyspace = CqlServer::fresh_keyspace();
    // The sessions of four weeks ended long ago.
    for days in [28, 21, 14, 7, 3, 2] {
        let differs_ms = -days * 24 * HOUR_MS;
        let Some(store) = serve(&keyspace, differs_ms).await else {
            return;
        };
        run(&store, differs_ms, 20, 0).await;
        store.close().await;
    }
    // An owner searches once after they have ended, and stores the hour up to which no session is
    // left.
    let store = serve(&keyspace, 0).await.unwrap();
    let (_, first) = scan_for_work(&store).await;
    let (live, second) = scan_for_work(&store).await;
    assert_eq!(live, []);
    // The next process does not read their hours again.
    let next = serve(&keyspace, 0).await.unwrap();
    let (_, at_rest_after_start) = scan_for_work(&next).await;
    let (_, at_rest) = scan_for_work(&next).await;
    let expected = run(&next, 0, 40, 25).await;
    await_removal(&keyspace, expected.len()).await;
    let taking = serve(&keyspace, 0).await.unwrap();
    let (live, taken) = scan_for_work(&taking).await;
    assert_eq!(live, expected);
    let (unknown, again) = scan_for_unknown(&taking, &[]).await;
    assert_eq!(unknown, expected);
    let (unknown, known) = scan_for_unknown(&taking, &expected[1..]).await;
    assert_eq!(unknown, expected[..1]);
    println!("| scan_for_work | reads | scans | writes | rows |");
    for (name, counts) in [
        ("first, after four weeks", first),
        ("second", second),
        ("first of the next process, at rest", at_rest_after_start),
        ("second, at rest", at_rest),
        ("first of a process, 25 of 40 sessions live", taken),
        ("for live sessions, none known", again),
        ("for live sessions, 24 of 25 known", known),
    ] {
        let StatementCounts {
            reads,
            scans,
            writes,
            rows,
            ..
        } = counts;
        println!("| {name} | {reads} | {scans} | {writes} | {rows} |");
    }
    // The limit holds for all shards together, for live and for marked sessions.
    assert!(at_rest.reads + at_rest.scans <= SHARDS / 16, "{at_rest:?}");
    // A process reads each watermark of a shard once.
    let marks = 2 * SHARDS;
    let started = at_rest_after_start;
    assert!(
        started.reads + started.scans <= marks + SHARDS / 16,
        "{started:?}"
    );
    // Sessions are looked up together: with fewer reads than sessions.
    assert!(taken.reads < 25, "{taken:?}");
    // The starts of known sessions are not read (live sessions have no states).
    assert_eq!(known.rows + 24, again.rows, "{known:?}, {again:?}");
    // The sessions of an hour are in at most two buckets.
    assert!(taken.scans <= marks + 4 * 40 + SHARDS / 16, "{taken:?}");
    assert!(taken.rows <= 3 * SHARDS, "{taken:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_all_ages_are_found_page_by_page() {
    let keyspace = CqlServer::fresh_keyspace();
    let mut expected = Vec::new();
    for hours in [60, 30, 20, 13, 5, 1, 0] {
        let differs_ms = -hours * HOUR_MS;
        let Some(store) = serve(&keyspace, differs_ms).await else {
            return;
        };
        expected.extend(run(&store, differs_ms, 6, 5).await);
        store.close().await;
    }
    let store = serve(&keyspace, 0).await.unwrap();
    // A row that is written long after its session's creation.
    let old = start(tenant(), SystemClock.now().plus_ms(-40 * HOUR_MS));
    store.start(new_session(&old)).await.unwrap();
    expected.push(old.session_id);
    expected.sort_unstable();
    let mut found: Vec<SessionId> = Vec::new();
    loop {
        let after = found.last().copied();
        let page = store.live(ShardSet::ALL, after, 4).await.unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page.iter().map(|row| row.start.session_id));
    }
    assert_eq!(found, expected);
    // A session that has ended does not come back.
    let body = message(MessageEvent::SessionStopped);
    let at = SystemClock.now();
    store
        .end(old.session_id, end_at(at), None, body)
        .await
        .unwrap();
    let live = store.live(ShardSet::ALL, None, 1_000).await.unwrap();
    assert_eq!(live.len(), expected.len() - 1);
    let to_score = store.to_score(ShardSet::ALL, None, 1_000).await.unwrap();
    assert_eq!(to_score, [old.session_id]);
}
