//! Tests the order and the speed of the scoring of ended sessions if each call to the store takes
//! time.

use std::time::Duration;

use porchlight_ports::Insights;
use porchlight_schema::session::SessionStart;
use tokio::time::Instant;

use crate::offline::{DurableState, Node};
use crate::store::block_on;

/// The number of sessions that end at the same time.
const SESSIONS: u32 = 64;
/// The maximum delay before a store call, and again after it, in milliseconds.
const CALL_MS_MAX: i64 = 10;
/// The minimum number of store calls of a score. Each waits for the previous one.
const CALLS_MIN: u32 = 8;

/// Starts sessions of an organization, and stops all of them at the same time.
async fn end_together(node: &Node, organization: u128) {
    let begin = |_| node.begin_for(organization, 0);
    let starts = futures_util::future::join_all((0..SESSIONS).map(begin)).await;
    let stop = |start: &SessionStart| node.stop(start.session_id, None);
    futures_util::future::join_all(starts.iter().map(stop)).await;
}

/// Waits until no session has to be scored, and returns the virtual time until then.
async fn time_to_score_all(node: &Node) -> Duration {
    let began = Instant::now();
    while node.service.scoring_waiting() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

#[test]
fn sessions_that_end_together_are_scored_concurrently() {
    let took = DurableState::with_slow_store(CALL_MS_MAX).run_node(async |node: Node| {
        end_together(&node, 7).await;
        time_to_score_all(&node).await
    });
    // The time if the sessions were scored one after the other, with half of the maximum delay
    // before and after each call.
    let in_turn_ms = SESSIONS * CALLS_MIN * CALL_MS_MAX as u32;
    assert!(
        took < Duration::from_millis(u64::from(in_turn_ms / 4)),
        "{took:?} of virtual time"
    );
}

#[test]
fn a_session_does_not_wait_for_all_sessions_of_another_tenant() {
    let left = DurableState::with_slow_store(CALL_MS_MAX).run_node(async |node: Node| {
        end_together(&node, 7).await;
        let start = node.begin_for(8, 0).await;
        end_together(&node, 7).await;
        node.stop(start.session_id, None).await;
        while block_on(node.store.real.insight(start.session_id))
            .unwrap()
            .is_none()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        node.service.scoring_waiting()
    });
    assert!(left as u32 > SESSIONS / 2, "{left} sessions still wait");
}
