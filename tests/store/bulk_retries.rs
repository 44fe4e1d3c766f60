//! Tests the reads of bulk retries: they find every delivery, and end with their caller.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use porchlight_ports::{DeliveryFilter, DeliveryStatus, Outbox, Sessions};
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_store::cql::{CqlStore, Role};
use porchlight_world::SystemClock;

use crate::cql::options;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, end_at, message, new_session, put_endpoint, start, tenant};

/// The length of a slot of the list of deliveries in milliseconds.
const SLOT_MS: i64 = 600_000;

/// Starts a session, whose first message is created at the same time.
async fn start_at(store: &dyn Sessions, tenant: Tenant, at: TimestampMs) -> SessionId {
    let start = start(tenant, at);
    let mut new = new_session(&start);
    new.message.created_at = at;
    store.start(new).await.unwrap();
    start.session_id
}

#[tokio::test]
async fn a_delivery_behind_many_others_is_found() {
    let (store, tenant) = (MemoryStore::new(Arc::new(|_, _| {})).unwrap(), tenant());
    put_endpoint(&*store, tenant, true).await;
    // There are more deliveries than one read examines.
    for place in 0..20_000 {
        start_at(&*store, tenant, T0.plus_ms(place)).await;
    }
    let end_time = T0.plus_ms(20_000);
    let id = start_at(&*store, tenant, end_time).await;
    let mut body = message(MessageEvent::SessionStopped);
    body.created_at = end_time;
    store.end(id, end_at(end_time), None, body).await.unwrap();
    let stopped = DeliveryFilter {
        event: Some(MessageEvent::SessionStopped),
        ..DeliveryFilter::default()
    };
    let rows = store.retryable(tenant, &stopped, 10, None).await.unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.queued.session_id).collect();
    assert_eq!(ids, [id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_is_not_read_for_a_caller_that_has_gone() {
    let Some(options) = options(CqlServer::fresh_keyspace()) else {
        return;
    };
    let store = CqlStore::open(options, Role::Command, Arc::new(SystemClock));
    let (store, tenant) = (store.await.unwrap(), tenant());
    put_endpoint(&*store, tenant, true).await;
    for slot in 0..20 {
        start_at(&*store, tenant, T0.plus_ms(slot * SLOT_MS)).await;
    }
    let delivered = DeliveryFilter {
        status: Some(DeliveryStatus::Delivered),
        ..DeliveryFilter::default()
    };
    let retryable = || store.retryable(tenant, &delivered, 10, None);
    let before = store.statements();
    assert_eq!(retryable().await.unwrap(), []);
    let whole = store.statements() - before;
    assert!(whole.scans > 20, "each slot is read: {whole:?}");
    let before = store.statements();
    assert!(retryable().now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = store.statements() - before;
    assert!(begun.scans <= 1, "{begun:?}");
}
