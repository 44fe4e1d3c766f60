//! Tests that a page of deliveries is bounded although its rows are far apart.

use porchlight_ports::{DeliveryFilter, DeliveryStatus, Outbox};

use super::renewal::open;
use crate::cql_server::CqlServer;
use crate::fixtures::{T0, put_endpoint, start, start_all, tenant};

/// The length of a slot of deliveries: see `slots.rs` of the store.
const SLOT_MS: i64 = 600_000;
/// More slots than one page examines.
const SLOTS: i64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_matches_nothing_ends_after_some_slots() {
    let keyspace = CqlServer::fresh_keyspace();
    let Some(store) = open(&keyspace, 90).await else {
        return;
    };
    let tenant = tenant();
    put_endpoint(store.as_ref(), tenant, true).await;
    let starts = (0..SLOTS).map(|slot| start(tenant, T0.plus_ms(slot * SLOT_MS)));
    let starts: Vec<_> = starts.collect();
    start_all(store.as_ref(), &starts).await;
    let pages = async |status: Option<DeliveryStatus>| {
        let filter = DeliveryFilter {
            status,
            ..DeliveryFilter::default()
        };
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = store.deliveries(tenant, &filter, 500, after).await.unwrap();
            let sessions = page.rows.iter().map(|row| row.queued.session_id);
            pages.push(sessions.collect::<Vec<_>>());
            after = page.next;
            if after.is_none() {
                return pages;
            }
        }
    };
    let retrying = pages(Some(DeliveryStatus::Retrying)).await;
    assert_eq!(retrying.len(), 2);
    assert!(retrying.iter().all(Vec::is_empty));
    let all = pages(None).await;
    assert_eq!(all.len(), 2);
    let expected: Vec<_> = starts.iter().rev().map(|start| start.session_id).collect();
    assert_eq!(all.concat(), expected);
}
