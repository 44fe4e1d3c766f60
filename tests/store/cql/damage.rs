//! Tests that a damaged row of an outbox stalls no other message.

use std::sync::Arc;

use porchlight_ports::{Outbox, Sessions};
use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::CqlStore;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use super::open;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, new_session, put_endpoint, start, tenant};

/// A store with an endpoint, and a connection to its tables.
struct Damaged {
    store: Arc<CqlStore>,
    keyspace: String,
    tenant: Tenant,
    endpoint_id: EndpointId,
    session: Session,
}

impl Damaged {
    async fn open() -> Option<Self> {
        let keyspace = CqlServer::fresh_keyspace();
        let store = open(keyspace.clone()).await?.unwrap();
        let tenant = tenant();
        put_endpoint(&*store, tenant, true).await;
        let endpoint_id = store.endpoint(tenant).await.unwrap().unwrap().id;
        let nodes = &CqlServer::get()?.nodes;
        let session = SessionBuilder::new().known_nodes(nodes).build().await;
        let session = session.unwrap();
        session.use_keyspace(&keyspace, false).await.unwrap();
        Some(Self {
            store,
            keyspace,
            tenant,
            endpoint_id,
            session,
        })
    }

    async fn start(&self) -> SessionId {
        let start = start(self.tenant, T0);
        self.store.start(new_session(&start)).await.unwrap();
        start.session_id
    }

    /// Returns the lanes of the ready entries.
    async fn ready(&self) -> Vec<SessionId> {
        let all = Some((TimestampMs(0), 100));
        let listing = self
            .store
            .listing(self.tenant, self.endpoint_id, all, None, None, 0);
        let ready = listing.await.unwrap().ready.unwrap();
        let mut lanes: Vec<_> = ready.into_iter().map(|(_, lane)| lane).collect();
        lanes.sort_unstable();
        lanes
    }

    /// Returns the number of waiting messages of a lane.
    async fn waiting(&self, lane: SessionId) -> usize {
        let read = self.store.lane(self.tenant, self.endpoint_id, lane, None);
        read.await.unwrap().waiting.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_decoded_stalls_no_message() {
    let Some(outbox) = Damaged::open().await else {
        return;
    };
    let mut lanes = Vec::new();
    for _ in 0..3 {
        lanes.push(outbox.start().await);
    }
    lanes.sort_unstable();
    let select = "SELECT slot, kind, at, id FROM outbox WHERE endpoint = ? ALLOW FILTERING";
    let key = outbox.endpoint_id.to_bytes();
    let rows = outbox.session.query_unpaged(select, (key.as_slice(),));
    let rows = rows.await.unwrap().into_rows_result().unwrap();
    let rows = rows.rows::<(i64, i8, i64, Vec<u8>)>().unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    let (slot, kind, at, id) = &rows[0];
    let insert =
        "INSERT INTO outbox (endpoint, slot, kind, at, id, data) VALUES (?, ?, ?, ?, ?, ?)";
    // The entry of a message, and entries whose message is unknown.
    for id in [id.as_slice(), &[7; 16], &[7]] {
        let values = (key.as_slice(), slot, kind, at, id, [0xee_u8].as_slice());
        outbox.session.query_unpaged(insert, values).await.unwrap();
    }
    assert_eq!(outbox.ready().await, lanes);
    for lane in lanes {
        assert_eq!(outbox.waiting(lane).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_whose_state_cannot_be_decoded_stalls_no_other() {
    let Some(mut outbox) = Damaged::open().await else {
        return;
    };
    let (damaged, other) = (outbox.start().await, outbox.start().await);
    let insert = "INSERT INTO lane_cursor (session, generation, data) VALUES (?, ?, ?)";
    let key = damaged.to_bytes();
    let values = (key.as_slice(), i64::MAX, [0xee_u8].as_slice());
    outbox.session.query_unpaged(insert, values).await.unwrap();
    // The process that has started the sessions knows their states without a read.
    outbox.store = open(outbox.keyspace.clone()).await.unwrap().unwrap();
    assert_eq!(outbox.ready().await, [other]);
    assert_eq!(
        (outbox.waiting(damaged).await, outbox.waiting(other).await),
        (0, 1)
    );
}
