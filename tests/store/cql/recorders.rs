//! Tests that a recorder is kept for a day after its link expires, regardless of the retention.

use porchlight_ports::{Clock, Recorders};
use porchlight_schema::ids::RecorderId;
use porchlight_world::SystemClock;
use scylla::client::session::Session;

use super::renewal::{connect, open};
use crate::cql_server::CqlServer;
use crate::fixtures::fresh;

/// Returns the time to live of the only recorder, in seconds.
async fn left_sec(session: &Session) -> i32 {
    let answer = session.query_unpaged("SELECT TTL(data) FROM recorders", ());
    let rows = answer.await.unwrap().into_rows_result().unwrap();
    let (left_sec,) = rows.single_row::<(Option<i32>,)>().unwrap();
    left_sec.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorder_is_kept_for_a_day_after_it_expires() {
    for (retention_days, link_days) in [(7, 30), (90, 1)] {
        let keyspace = CqlServer::fresh_keyspace();
        let Some(store) = open(&keyspace, retention_days).await else {
            return;
        };
        let now = SystemClock.now();
        let id = RecorderId::new(now, u128::from(fresh()));
        let expires_at = now.plus_ms(link_days * 86_400_000);
        let created = store.create_recorder(id, b"first".to_vec(), expires_at);
        created.await.unwrap();
        let session = connect(&keyspace).await;
        let kept_sec = (link_days as i32 + 1) * 86_400;
        let is_expected = |left_sec| (kept_sec - 300..=kept_sec + 1).contains(&left_sec);
        let created = left_sec(&session).await;
        assert!(is_expected(created), "{created}");
        let changed = store.change_recorder(id, 1, b"second".to_vec(), expires_at);
        assert!(changed.await.unwrap());
        let changed = left_sec(&session).await;
        assert!(is_expected(changed), "{changed}");
    }
}
