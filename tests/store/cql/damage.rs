//! Tests that a damaged row affects only its message, its session or its recorder.

use std::sync::Arc;

use porchlight_ports::{
    DeliveryFilter, Erasure, Idempotency, Insights, NewSession, Outbox, Recorders, SessionFilter,
    Sessions,
};
use porchlight_schema::ids::{EndpointId, MessageId, RecorderId, SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::CqlStore;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use super::open;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, end_at, message, new_session, put_endpoint, start, tenant};

/// Bytes that no release writes: 0 is no format, and the rest is not UTF-8.
const DAMAGED: [u8; 2] = [0, 0xee];

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

    async fn start_and_end(&self) -> SessionId {
        let session_id = self.start().await;
        let stopped = message(MessageEvent::SessionStopped);
        let ended = self.store.end(session_id, end_at(T0), None, stopped);
        assert!(ended.await.unwrap().is_some());
        session_id
    }

    /// Writes bytes that do not decode. `statement` names their cell first, and then the row.
    async fn damage(&self, statement: &str, row: &[u8]) {
        let values = (DAMAGED.as_slice(), row);
        self.session.query_unpaged(statement, values).await.unwrap();
    }

    /// Damages the row of a message in the list of all deliveries.
    async fn damage_listed(&self, id: MessageId) {
        let select = "SELECT tenant, slot, id FROM deliveries";
        let rows = self.session.query_unpaged(select, ()).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let rows = rows.rows::<(Vec<u8>, i64, Vec<u8>)>().unwrap();
        let mut rows = rows.map(Result::unwrap);
        let row = rows.find(|(_, _, row)| *row == id.to_bytes()).unwrap();
        let update = "UPDATE deliveries SET data = ? WHERE tenant = ? AND slot = ? AND id = ?";
        let values = (DAMAGED.as_slice(), row.0, row.1, row.2);
        self.session.query_unpaged(update, values).await.unwrap();
    }

    /// Returns the messages in the list of all deliveries.
    async fn listed(&self) -> Vec<MessageId> {
        let filter = DeliveryFilter::default();
        let page = self.store.deliveries(self.tenant, &filter, 50, None);
        let rows = page.await.unwrap().rows.into_iter();
        let mut ids: Vec<_> = rows.map(|row| row.queued.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the tenant's listed sessions.
    async fn listed_sessions(&self) -> Vec<SessionId> {
        let filter = SessionFilter {
            external_rider_id: Some("rider".to_owned()),
            ..SessionFilter::default()
        };
        let page = self.store.list(self.tenant, &filter, 50, None);
        let rows = page.await.unwrap().rows.into_iter();
        let mut ids: Vec<_> = rows.map(|row| row.start.session_id).collect();
        ids.sort_unstable();
        ids
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
        let values = (key.as_slice(), slot, kind, at, id, DAMAGED.as_slice());
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
    let values = (key.as_slice(), i64::MAX, DAMAGED.as_slice());
    outbox.session.query_unpaged(insert, values).await.unwrap();
    // The process that has started the sessions knows their states without a read.
    outbox.store = open(outbox.keyspace.clone()).await.unwrap().unwrap();
    assert_eq!(outbox.ready().await, [other]);
    assert_eq!(
        (outbox.waiting(damaged).await, outbox.waiting(other).await),
        (0, 1)
    );
}

/// The statement that damages the state of a session.
const STATE: &str = "UPDATE session_state SET data = ?, version = 7 WHERE session = ?";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_state_cannot_be_decoded_hides_no_other() {
    let Some(damaged) = Damaged::open().await else {
        return;
    };
    let (live, ended) = (damaged.start().await, damaged.start_and_end().await);
    let (other_live, other_ended) = (damaged.start().await, damaged.start_and_end().await);
    let store = &damaged.store;
    let to_score = async || store.to_score(ShardSet::ALL, None, 50).await.unwrap();
    assert_eq!(to_score().await.len(), 2);
    for id in [live, ended] {
        damaged.damage(STATE, &id.to_bytes()).await;
    }
    assert_eq!(to_score().await, [other_ended]);
    let outcomes = store.outcomes(vec![ended, other_ended]).await;
    assert_eq!(outcomes.unwrap(), [None, None]);
    let rows = store.live(ShardSet::ALL, None, 50).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.start.session_id).collect();
    assert_eq!(rows, [other_live]);

    let mut all = [live, ended, other_live, other_ended];
    all.sort_unstable();
    assert_eq!(damaged.listed_sessions().await, all);
    // An erasure of the courier finds each of them, and leaves nothing.
    for id in all {
        let rows = store.session_rows(id).await.unwrap();
        assert!(rows.messages > 0);
        store.erase_session(id).await.unwrap();
        assert!(store.find(id).await.unwrap().is_none());
    }
    assert!(damaged.listed_sessions().await.is_empty());
    assert!(damaged.listed().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_start_cannot_be_decoded_is_never_taken_for_erased() {
    let Some(damaged) = Damaged::open().await else {
        return;
    };
    let (no_start, other) = (damaged.start().await, damaged.start().await);
    let update = "UPDATE sessions SET data = ? WHERE session = ?";
    damaged.damage(update, &no_start.to_bytes()).await;
    // A process that has not read the start before.
    let store = open(damaged.keyspace.clone()).await.unwrap().unwrap();
    let until = T0.plus_ms(1);
    for (subject, expected) in [
        (Subject::ExternalRiderId("rider".to_owned()), 1),
        (Subject::ExternalRiderId("other".to_owned()), 0),
        (Subject::SessionId(other), 0),
    ] {
        let found = store.damaged_sessions(damaged.tenant, &subject, until);
        let found = found.await.unwrap();
        assert_eq!(found, vec![no_start; expected], "{subject:?}");
    }
    let itself = Subject::SessionId(no_start);
    let found = store.damaged_sessions(damaged.tenant, &itself, until);
    assert!(found.await.is_err());
    assert!(store.erase_session(no_start).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_with_a_message_that_cannot_be_decoded_is_erased() {
    let Some(damaged) = Damaged::open().await else {
        return;
    };
    let (body, head) = (damaged.start().await, damaged.start().await);
    let update = "UPDATE messages SET body = ? WHERE session = ? AND number = 0";
    damaged.damage(update, &body.to_bytes()).await;
    let update = "UPDATE messages SET head = ? WHERE session = ? AND number = 0";
    damaged.damage(update, &head.to_bytes()).await;
    for id in [body, head] {
        damaged.store.session_rows(id).await.unwrap();
        damaged.store.erase_session(id).await.unwrap();
        assert!(damaged.store.find(id).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listed_message_that_cannot_be_decoded_hides_no_other() {
    let Some(mut damaged) = Damaged::open().await else {
        return;
    };
    let (repeated, lost) = (damaged.start().await, damaged.start().await);
    let whole = damaged.start().await;
    let id = |session_id| MessageId::derived(T0, session_id, 0);
    let mut all = [repeated, lost, whole].map(id);
    all.sort_unstable();
    assert_eq!(damaged.listed().await, all);
    for message in [repeated, lost].map(id) {
        damaged.damage_listed(message).await;
    }
    assert_eq!(damaged.listed().await, all, "another row repeats it");
    let update = "UPDATE message_ids SET data = ? WHERE id = ?";
    damaged.damage(update, &id(lost).to_bytes()).await;
    // This process knows the cursors of the sessions that it has created. Another one reads them.
    let no_cursor = damaged.start().await;
    damaged.store = open(damaged.keyspace.clone()).await.unwrap().unwrap();
    let insert = "INSERT INTO lane_cursor (data, session, generation) VALUES (?, ?, 9000000)";
    damaged.damage(insert, &no_cursor.to_bytes()).await;
    let mut left = [repeated, whole].map(id);
    left.sort_unstable();
    assert_eq!(damaged.listed().await, left);
    damaged.store.depth(T0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorder_or_an_idempotency_key_that_cannot_be_decoded_hides_no_other() {
    let Some(damaged) = Damaged::open().await else {
        return;
    };
    let (store, tenant) = (&damaged.store, damaged.tenant);
    let ids = [1, 2, 3].map(|number| RecorderId::new(T0, number));
    for id in ids {
        let created = store.create_recorder(id, vec![1], TimestampMs(i64::MAX / 2));
        created.await.unwrap();
    }
    let update = "UPDATE recorders SET data = ? WHERE recorder = ?";
    damaged.damage(update, &ids[1].to_bytes()).await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = store.recorders(after, 1).await.unwrap();
        found.extend(page.into_iter().map(|(id, _)| id));
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    found.sort_unstable();
    assert_eq!(found, [ids[0], ids[2]]);

    for key in ["a", "b", "c"] {
        let start = start(tenant, T0);
        let idempotency = Some(Idempotency {
            key: key.to_owned(),
            body_hash: [0; 32],
        });
        let new = NewSession {
            idempotency,
            ..new_session(&start)
        };
        store.start(new).await.unwrap();
        store.erase_session(start.session_id).await.unwrap();
    }
    let select = "SELECT key FROM idempotency LIMIT 1";
    let rows = damaged.session.query_unpaged(select, ()).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    let (key,) = rows.single_row::<(Vec<u8>,)>().unwrap();
    let mut own = tenant.organization_id.to_bytes().to_vec();
    own.push(1);
    let update = "UPDATE idempotency SET data = ? WHERE tenant = ? AND key = ?";
    let values = (DAMAGED.as_slice(), own, key);
    damaged.session.query_unpaged(update, values).await.unwrap();
    let removed = store.erase_idempotency_keys(tenant, T0, None, 50).await;
    assert_eq!(removed.unwrap().rows, 2);
}
