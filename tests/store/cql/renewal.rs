//! Tests that a renewal gives all rows of a session their full time to live again and changes
//! nothing else, and that it never brings an erased session back.

use std::sync::Arc;
use std::time::Duration;

use porchlight_core::webhook::{Cause, Queued, State};
use porchlight_ports::{
    DeliveryFilter, Erasure, Insights, Journal, Note, Outbox, PodRow, SessionFilter, Sessions,
};
use porchlight_schema::ids::KeyId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::review::{Review, ReviewState};
use porchlight_schema::session::{Pod, PodType, SessionStart, Tenant};
use porchlight_store::cql::{CqlStore, Role};
use porchlight_world::SystemClock;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::value::{CqlValue, Row};

use super::options;
use crate::conformance::outbox::{one, report};
use crate::cql_server::CqlServer;
use crate::fixtures::{
    T0, batch, end_at, insight, message, new_session, put_endpoint, session_id, start, tenant,
};

const DAY_SEC: i32 = 86_400;
/// The tables of a session that have cells other than their key, each with one of these cells.
const TABLES: [(&str, &str); 14] = [
    ("sessions", "data"),
    ("session_state", "version"),
    ("session_state", "data"),
    ("telemetry", "data"),
    ("insights", "data"),
    ("pods", "data"),
    ("messages", "head"),
    ("messages", "body"),
    ("message_ids", "data"),
    ("lane_cursor", "data"),
    ("attempts", "data"),
    ("deliveries", "data"),
    ("failed_deliveries", "data"),
    ("reviews", "data"),
];
/// The tables of a session whose rows consist of a key, each with its columns. The database does
/// not report the time to live of such a row.
const KEY_TABLES: [(&str, &str); 6] = [
    ("notes", "session, note"),
    ("learned_by_session", "session, key"),
    (
        "sessions_by_organization",
        "tenant, hour, created_at, session",
    ),
    ("sessions_by_delivery", "tenant, hash, created_at, session"),
    ("sessions_by_rider", "tenant, hash, created_at, session"),
    ("slots", "owner, slot"),
];
/// The table of sessions' own rows, with its columns.
const SESSIONS: (&str, &str) = ("sessions", "session, data");
/// The first bytes of the owners of slots that belong to a session: see `slots.rs` of the store.
const OWNERS: &[u8] = b"DFJS";
/// The time to live to which rows without cells are shortened, in seconds. The renewal must be
/// done by then.
const SHORT_SEC: i32 = 20;

/// Returns the time after which a row with a shortened time to live has expired.
fn expiry() -> Duration {
    Duration::from_secs(u64::from(SHORT_SEC.unsigned_abs()) + 1)
}

/// Opens a store that keeps sessions for this number of days.
pub(super) async fn open(keyspace: &str, retention_days: u64) -> Option<Arc<CqlStore>> {
    let mut options = options(keyspace.to_owned())?;
    options.retention = Duration::from_secs(retention_days * 86_400);
    let store = CqlStore::open(options, Role::Command, Arc::new(SystemClock)).await;
    Some(store.unwrap())
}

pub(super) async fn connect(keyspace: &str) -> Session {
    let nodes = &CqlServer::get().unwrap().nodes;
    let session = SessionBuilder::new().known_nodes(nodes).build().await;
    let session = session.unwrap();
    session.use_keyspace(keyspace, false).await.unwrap();
    session
}

/// Writes a session that has a row in each table.
async fn make(store: &CqlStore, tenant: Tenant) -> SessionStart {
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    // The last batch is in a second partition.
    for seq in [0, 1, 5_000] {
        store.append(id, seq, batch(seq), T0).await.unwrap();
    }
    store.note(id, Note::Quarantined { seq: 1 }).await.unwrap();
    let pod = PodRow {
        pod: Pod {
            pod_type: PodType::Note,
            url: "https://pod.example/1".into(),
        },
        received_at: T0,
    };
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), Some(pod), stopped).await.unwrap();
    let updated = message(MessageEvent::InsightUpdated);
    let learned = vec![([7; 32], b"learned".to_vec())];
    let committing = store.commit_insight(id, insight(3), updated, learned);
    assert!(committing.await.unwrap());
    let review = Review {
        state: ReviewState::Reviewed,
        note: Some("seen".to_owned()),
        by: None,
        reviewed_at: T0,
        key_id: KeyId::new(T0, 7),
    };
    assert!(store.put_review(id, review).await.unwrap());
    fail_first_message(store, &start).await;
    start
}

/// Records that the first message of a session failed permanently.
async fn fail_first_message(store: &CqlStore, start: &SessionStart) {
    let (tenant, id) = (start.tenant, start.session_id);
    let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
    let lane = store.lane(tenant, endpoint_id, id, None).await.unwrap();
    let before = lane.waiting[0];
    let after = Queued {
        attempts: 1,
        state: State::Failed,
        ..before
    };
    let change = one(before, after, Some(report(Some(Cause::Status))));
    store.commit(tenant, endpoint_id, id, change).await.unwrap();
}

/// Returns everything that the ports return for a session.
async fn contents(store: &CqlStore, start: &SessionStart) -> Vec<String> {
    let (tenant, id) = (start.tenant, start.session_id);
    let mut all = vec![
        format!("{:?}", store.find(id).await.unwrap()),
        format!("{:?}", store.read(id, 0, 10).await.unwrap()),
        format!("{:?}", store.notes(id).await.unwrap()),
        format!("{:?}", store.insight(id).await.unwrap()),
        format!("{:?}", store.pod(id).await.unwrap()),
        format!("{:?}", store.review(id).await.unwrap()),
        format!("{:?}", store.learned_by(id).await.unwrap()),
    ];
    for message in store.messages(id).await.unwrap() {
        let detail = store.delivery(tenant, message.id).await.unwrap();
        all.push(format!("{message:?} {detail:?}"));
    }
    let by = |delivery: Option<&String>, rider: Option<&String>| SessionFilter {
        delivery_id: delivery.cloned(),
        external_rider_id: rider.cloned(),
        ..SessionFilter::default()
    };
    for filter in [
        by(None, None),
        by(Some(&start.delivery_id), None),
        by(None, Some(&start.external_rider_id)),
    ] {
        let page = store.list(tenant, &filter, 10, None).await.unwrap();
        all.push(format!("{:?}", page.rows));
    }
    let filter = DeliveryFilter::default();
    let page = store.deliveries(tenant, &filter, 10, None).await.unwrap();
    all.push(format!("{:?}", page.rows));
    all.push(format!("{:?}", store.depth(T0).await.unwrap().failed));
    all
}

/// Returns the shortest remaining time to live of the cells of a column, in seconds.
async fn ttl_sec(session: &Session, table: &str, column: &str) -> i32 {
    let select = format!("SELECT TTL({column}) FROM {table}");
    let answer = session.query_unpaged(select, ()).await.unwrap();
    let rows = answer.into_rows_result().unwrap();
    let ttls = rows.rows::<(Option<i32>,)>().unwrap();
    let ttls: Vec<_> = ttls.map(|row| row.unwrap().0).collect();
    // Without a time to live, a row never expires.
    let shortest = ttls.iter().map(|ttl| ttl.unwrap_or(i32::MAX)).min();
    shortest.unwrap_or_else(|| panic!("{table} has no rows"))
}

async fn rows(session: &Session, table: &str, columns: &str) -> Vec<Vec<Option<CqlValue>>> {
    let select = format!("SELECT {columns} FROM {table}");
    let answer = session.query_unpaged(select, ()).await.unwrap();
    let rows = answer.into_rows_result().unwrap();
    let rows = rows.rows::<Row>().unwrap();
    rows.map(|row| row.unwrap().columns).collect()
}

/// Writes rows of a table with this time to live.
async fn put(
    session: &Session,
    (table, columns): (&str, &str),
    rows: Vec<Vec<Option<CqlValue>>>,
    ttl_sec: i32,
) {
    for values in rows {
        let marks = vec!["?"; values.len()].join(", ");
        let insert =
            format!("INSERT INTO {table} ({columns}) VALUES ({marks}) USING TTL {ttl_sec}");
        session.query_unpaged(insert, values).await.unwrap();
    }
}

/// Shortens the time to live of all rows of the keyspace that consist of a key.
async fn shorten_keys(session: &Session) {
    for (table, columns) in KEY_TABLES {
        let rows = rows(session, table, columns).await;
        assert!(!rows.is_empty(), "{table} has no rows");
        put(session, (table, columns), rows, SHORT_SEC).await;
    }
}

/// Returns the number of slots that belong to sessions.
async fn session_slots(session: &Session) -> usize {
    let rows = rows(session, "slots", "owner, slot").await;
    let of_session = |values: &Vec<Option<CqlValue>>| match &values[0] {
        Some(CqlValue::Blob(owner)) => OWNERS.contains(&owner[0]),
        other => panic!("{other:?}"),
    };
    rows.iter().filter(|values| of_session(values)).count()
}

/// A session with a row in each table, on a keyspace of its own.
struct Made {
    keyspace: String,
    store: Arc<CqlStore>,
    start: SessionStart,
    session: Session,
}

impl Made {
    /// Returns `None` if there is no CQL server.
    async fn new(retention_days: u64) -> Option<Self> {
        let keyspace = CqlServer::fresh_keyspace();
        let store = open(&keyspace, retention_days).await?;
        let tenant = tenant();
        put_endpoint(&*store, tenant, true).await;
        Some(Self {
            start: make(&store, tenant).await,
            session: connect(&keyspace).await,
            keyspace,
            store,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_restores_the_time_to_live_of_every_row_and_changes_nothing_else() {
    let Some(made) = Made::new(4).await else {
        return;
    };
    let Made {
        keyspace,
        store,
        start,
        session,
    } = made;
    let id = start.session_id;
    for (table, column) in TABLES {
        let left_sec = ttl_sec(&session, table, column).await;
        assert!(left_sec < 6 * DAY_SEC, "{table}.{column}: {left_sec}");
    }
    assert!(
        !store.renew_session(id).await.unwrap(),
        "no renewal is due yet"
    );
    let (before, slots) = (
        contents(&store, &start).await,
        session_slots(&session).await,
    );
    assert!(slots >= OWNERS.len(), "{slots}");

    let longer = open(&keyspace, 90).await.unwrap();
    assert!(longer.rows_expire());
    shorten_keys(&session).await;
    assert!(longer.renew_session(id).await.unwrap());
    for (table, column) in TABLES {
        let left_sec = ttl_sec(&session, table, column).await;
        assert!(left_sec > 89 * DAY_SEC, "{table}.{column}: {left_sec}");
    }
    assert!(!longer.renew_session(id).await.unwrap());
    let unknown = longer.renew_session(session_id(T0)).await;
    assert!(!unknown.unwrap());
    tokio::time::sleep(expiry()).await;
    assert_eq!(contents(&store, &start).await, before);
    assert_eq!(contents(&longer, &start).await, before);
    assert_eq!(session_slots(&session).await, slots);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_listed_a_slot_itself_renews_it() {
    let Some(made) = Made::new(90).await else {
        return;
    };
    let Made {
        store,
        start,
        session,
        ..
    } = made;
    let slots = session_slots(&session).await;
    shorten_keys(&session).await;
    // The session's own row expires within a day.
    let rows = rows(&session, SESSIONS.0, SESSIONS.1).await;
    put(&session, SESSIONS, rows, DAY_SEC).await;
    assert!(store.renew_session(start.session_id).await.unwrap());
    tokio::time::sleep(expiry()).await;
    assert_eq!(session_slots(&session).await, slots);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_does_not_bring_an_erased_session_back() {
    let Some(made) = Made::new(4).await else {
        return;
    };
    let Made {
        keyspace,
        store,
        start,
        session,
    } = made;
    let id = start.session_id;
    let sessions = rows(&session, SESSIONS.0, SESSIONS.1).await;
    store.erase_session(id).await.unwrap();
    let longer = open(&keyspace, 90).await.unwrap();
    assert!(!longer.renew_session(id).await.unwrap());
    // A renewal that had read the session before the erasure writes its row now.
    put(&session, SESSIONS, sessions, DAY_SEC).await;
    assert!(!longer.renew_session(id).await.unwrap());
    assert_eq!(longer.find(id).await.unwrap(), None);
    for (table, columns) in KEY_TABLES
        .into_iter()
        .filter(|(table, _)| *table != "slots")
    {
        let left = rows(&session, table, columns).await;
        assert!(left.is_empty(), "{table}: {left:?}");
    }
}
