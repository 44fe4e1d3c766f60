//! Tests that a lightweight transaction whose outcome is unknown is resolved by a serial read.

use std::sync::Arc;
use std::time::Duration;

use porchlight_ports::Sessions;
use porchlight_schema::message::MessageEvent;
use porchlight_store::cql::{CqlStore, Role};
use porchlight_world::SystemClock;

use super::options;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, end_at, message, new_session, put_endpoint, start, tenant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_in_doubt_is_decided_once() {
    let Some(server) = CqlServer::start_nodes(1) else {
        return;
    };
    let mut options = options(CqlServer::fresh_keyspace()).unwrap();
    options.nodes.clone_from(&server.nodes);
    options.replication_factor = 1;
    let role = Role::Serving {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
    };
    let store = CqlStore::open(options, role, Arc::new(SystemClock)).await;
    let store = store.unwrap();
    let tenant = tenant();
    put_endpoint(&*store, tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    let end = async |at_ms| {
        let end = end_at(T0.plus_ms(at_ms));
        let body = message(MessageEvent::SessionStopped);
        store.end(id, end, None, body).await
    };
    // The database stops while the first end is decided: the caller gets no outcome.
    server.only_node().unwrap().signal("-STOP");
    let doubtful = end(1_000).await;
    server.only_node().unwrap().signal("-CONT");
    assert!(doubtful.is_err(), "{doubtful:?}");
    let outcome = loop {
        match end(2_000).await {
            Ok(outcome) => break outcome.unwrap(),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    // Whichever end was decided, there is one, with one message after that of the start.
    let row = store.find(id).await.unwrap().unwrap();
    assert_eq!(row.end, Some(outcome.end));
    let repeated = end(3_000).await.unwrap().unwrap();
    assert_eq!((repeated.end, repeated.is_first), (outcome.end, false));
    let messages = store.messages(id).await.unwrap();
    let numbers: Vec<_> = messages.iter().map(|message| message.number).collect();
    assert_eq!(numbers, [0, 1]);
}
