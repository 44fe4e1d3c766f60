//! Tests that stops without a time after a timeout read the journal only when they must.

use porchlight_actors::service::{AttachPodError, StopCommand, StopError};
use porchlight_ports::{Journal, Note, SessionRow};
use porchlight_schema::session::{Pod, PodType};

use crate::corpus::CORPUS;
use crate::offline::{DurableState, Node, OFFLINE};
use crate::store::block_on;

/// Starts a session that sends one batch, and waits until the service has completed it.
async fn with_one_batch(node: &Node) -> SessionRow {
    let id = node.begin(0).await.session_id;
    let batch = &CORPUS[0].batches[0];
    node.send(id, 0, batch).await.unwrap();
    tokio::time::sleep(OFFLINE).await;
    node.insight(id).await;
    node.row(id)
}

#[test]
fn a_late_stop_reads_the_journal_after_its_pod_is_accepted() {
    let mut state = DurableState::new();
    state.run_node(async |node: Node| {
        let row = with_one_batch(&node).await;
        let id = row.start.session_id;
        block_on(node.store.real.note(id, Note::TelemetryExpired)).unwrap();
        let before = node.store.journal_reads(id);
        let pod = Pod {
            pod_type: PodType::Photo,
            url: "https://pod.example/".to_owned(),
        };
        let command = StopCommand {
            ended_at: None,
            pod: Some(pod),
        };
        let refused = node.service.stop(&row, command).await;
        assert!(
            matches!(refused, Err(StopError::Pod(AttachPodError::Expired))),
            "{refused:?}"
        );
        assert_eq!(node.store.journal_reads(id), before);
    });
}

#[test]
fn concurrent_late_stops_do_not_each_read_the_journal() {
    const STOPS: usize = 20;
    let mut state = DurableState::new();
    state.run_node(async |node: Node| {
        let row = with_one_batch(&node).await;
        let id = row.start.session_id;
        let before = node.store.journal_reads(id);
        let stops = (0..STOPS).map(|_| node.service.stop(&row, StopCommand::default()));
        let stopped = futures_util::future::join_all(stops).await;
        for row in stopped {
            assert_eq!(row.unwrap(), node.row(id));
        }
        let reads = node.store.journal_reads(id) - before;
        assert!(reads < STOPS as u64, "{reads} reads");
    });
}
