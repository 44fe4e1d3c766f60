//! Tests the store on a CQL cluster, and its promises beyond the suite.

mod alone;
mod bounded;
mod costs;
mod damage;
mod deliveries;
mod doubts;
mod marks;
mod nodes;
mod privacy;
mod recorders;
mod renewal;
mod shards;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::webhook::{Change, Queued, Update};
use porchlight_ports::{Outbox, Sessions, Store};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_store::cql::{Agreement, CqlOpenError, CqlOptions, CqlStore, Role};
use porchlight_world::SystemClock;
use tokio::sync::OnceCell;

use crate::cql_server::CqlServer;
use crate::fixtures::{Subject, T0, end_at, message, new_session, put_endpoint, start, tenant};

/// Returns the options for the test server, or `None` if there is no server.
pub fn options(keyspace: String) -> Option<CqlOptions> {
    let server = CqlServer::get()?;
    Some(CqlOptions {
        nodes: server.nodes.clone(),
        keyspace,
        replication_factor: server.replication_factor,
        datacenter: None,
        user: None,
        tls: None,
        // The server shares a busy machine with all the tests.
        ingest_within: Duration::from_secs(20),
        retention: Duration::from_secs(90 * 86_400),
        session_max: Duration::from_secs(12 * 3_600),
        agreement: Agreement::default(),
    })
}

/// Opens a store with its own keyspace.
pub async fn open(keyspace: String) -> Option<Result<Arc<CqlStore>, CqlOpenError>> {
    let options = options(keyspace)?;
    let role = Role::Serving {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
    };
    Some(CqlStore::open(options, role, Arc::new(SystemClock)).await)
}

/// The store that all checks of the suite share, of a process that knows that it serves alone.
pub struct Cql(Arc<CqlStore>);

impl Cql {
    pub async fn make() -> Option<Self> {
        static SHARED: OnceCell<Option<Arc<CqlStore>>> = OnceCell::const_new();
        let open = async || Some(alone::serve_alone(&CqlServer::fresh_keyspace()).await?);
        SHARED.get_or_init(open).await.clone().map(Self)
    }
}

#[async_trait]
impl Subject for Cql {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as _
    }

    fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::clone(&self.0) as _
    }

    async fn put_endpoint(&self, tenant: Tenant, enabled: bool) {
        put_endpoint(&*self.0, tenant, enabled).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_concurrently_create_the_tables_once() {
    let keyspace = CqlServer::fresh_keyspace();
    let opening = (0..4).map(|_| open(keyspace.clone()));
    let opened = futures_util::future::join_all(opening).await;
    let stores: Option<Vec<_>> = opened.into_iter().collect();
    let Some(stores) = stores else { return };
    let mut generations: Vec<_> = stores
        .into_iter()
        .map(|store| store.unwrap().epoch())
        .collect();
    // If the table were created twice, one would be lost with its numbers, and a number assigned
    // twice. A number whose claim was in doubt is not assigned at all.
    generations.sort_unstable();
    let given = generations.len();
    generations.dedup();
    assert_eq!(generations.len(), given, "{generations:?}");
    assert!(generations.iter().all(|&generation| generation > 0));
}

/// A process of an earlier release does not start on tables that a later one has changed, so a command
/// must not change them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_leaves_the_tables_of_an_earlier_release_as_they_are() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(_) = options(keyspace.clone()) else {
        return;
    };
    let open = async |role| {
        let options = options(keyspace.clone()).unwrap();
        CqlStore::open(options, role, Arc::new(SystemClock)).await
    };
    let created = open(Role::Command).await.unwrap();
    created.close().await;
    let session = privacy::connect(&keyspace).await;
    let recorded = async || {
        let select = "SELECT number FROM schema_migrations";
        let rows = session.query_unpaged(select, ()).await.unwrap();
        rows.into_rows_result().unwrap().rows_num()
    };
    let all = recorded().await;
    let delete = format!("DELETE FROM schema_migrations WHERE number = {all}");
    session.query_unpaged(delete, ()).await.unwrap();
    let refused = open(Role::Command).await;
    assert!(matches!(refused, Err(CqlOpenError::Outdated)));
    assert_eq!(recorded().await, all - 1);
    open(Role::LoneCommand).await.unwrap().close().await;
    assert_eq!(recorded().await, all);
    open(Role::Command).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_outbox_is_counted_to_its_end() {
    // More than any page, and than any list held in memory.
    const WAITING: usize = 10_300;
    let Some(opened) = open(CqlServer::fresh_keyspace()).await else {
        return;
    };
    let (store, tenant) = (opened.unwrap(), tenant());
    put_endpoint(&*store, tenant, true).await;
    let starting: Vec<_> = (0..WAITING)
        .map(|_| {
            let store = Arc::clone(&store);
            async move { store.start(new_session(&start(tenant, T0))).await }
        })
        .collect();
    let starting = stream::iter(starting).buffer_unordered(128);
    starting.try_collect::<Vec<_>>().await.unwrap();
    let depth = store.depth(T0).await.unwrap();
    assert_eq!(
        (depth.pending, depth.retrying, depth.failed),
        (WAITING as u64, 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_parked_behind_a_retry_are_counted() {
    let Some(opened) = open(CqlServer::fresh_keyspace()).await else {
        return;
    };
    let (store, tenant) = (opened.unwrap(), tenant());
    put_endpoint(&*store, tenant, true).await;
    let session = start(tenant, T0);
    let id = session.session_id;
    store.start(new_session(&session)).await.unwrap();
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
    let lane = store.lane(tenant, endpoint_id, id, None).await.unwrap();
    let [first, second] = lane.waiting[..] else {
        panic!("{lane:?}")
    };
    let update = |before: Queued, after: Queued| Update {
        before,
        after,
        report: None,
    };
    let due_at = Some(T0.plus_ms(60_000));
    let change = Change {
        updates: vec![
            update(
                first,
                Queued {
                    attempts: 1,
                    due_at,
                    ..first
                },
            ),
            update(
                second,
                Queued {
                    parked: true,
                    ..second
                },
            ),
        ],
        manual_done: None,
    };
    let committed = store.commit(tenant, endpoint_id, id, change).await;
    assert_eq!(committed.unwrap().len(), 2);
    let depth = store.depth(T0).await.unwrap();
    assert_eq!((depth.pending, depth.retrying), (1, 1));
}
