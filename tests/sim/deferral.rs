//! Tests that the batches of a session without a reader stay in the journal, and that every reader
//! and the insight see the same as if they had been processed immediately.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use porchlight_core::context::SessionContext;
use porchlight_core::session::SessionMachine;
use porchlight_ports::{Snapshot, Snapshots};
use porchlight_schema::event::Event;
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch};
use porchlight_schema::sample::{Pressure, Sample};
use porchlight_schema::session::SessionStart;

use crate::corpus::CORPUS;
use crate::offline::{DurableState, Node, at_its_time, duration_ms, never_offline, rendered};
use crate::store::block_on;

/// The time in which batches reach the registry, and an actor processes its messages.
const SETTLED: Duration = Duration::from_secs(1);

impl Node {
    fn snapshot(&self, id: SessionId) -> Option<Snapshot> {
        block_on(self.store.real.newest_snapshot(id)).unwrap()
    }

    async fn events(&self, id: SessionId) -> Vec<Event> {
        self.service.live(id).await.unwrap().events
    }
}

fn events_of(start: &SessionStart, batches: &[PackedBatch]) -> Vec<Event> {
    let context = SessionContext::new(start);
    let mut machine = SessionMachine::default();
    for (seq, batch) in (0..).zip(batches) {
        machine.receive(&context, seq, batch);
    }
    machine.events().to_vec()
}

#[test]
fn events_are_detected_when_they_are_requested() {
    for recording in 0..CORPUS.len() {
        let mut state = DurableState::new();
        let clock = Arc::clone(&state.clock);
        state.run_node(async |node: Node| {
            let batches = &CORPUS[recording].batches;
            let start = node.begin(recording).await;
            let id = start.session_id;
            for (seq, batch) in (0..).zip(batches) {
                at_its_time(&start, &clock, batch).await;
                node.send(id, seq, batch).await.unwrap();
            }
            tokio::time::sleep(SETTLED).await;
            assert_eq!(node.snapshot(id), None, "no actor has read the batches");
            assert_eq!(node.events(id).await, events_of(&start, batches));
        });
    }
}

#[test]
fn a_session_that_is_rarely_read_is_up_to_date_at_each_read() {
    for every in [1, 3, 7] {
        let (recording, mut state) = (0, DurableState::new());
        let clock = Arc::clone(&state.clock);
        let insight = state.run_node(async |node: Node| {
            let batches = &CORPUS[recording].batches;
            let start = node.begin(recording).await;
            let id = start.session_id;
            for (seq, batch) in (0..).zip(batches) {
                at_its_time(&start, &clock, batch).await;
                node.send(id, seq, batch).await.unwrap();
                tokio::time::sleep(SETTLED).await;
                let count = seq as usize + 1;
                if count.is_multiple_of(every) {
                    let expected = events_of(&start, &batches[..count]);
                    assert_eq!(node.events(id).await, expected, "after {count}");
                }
            }
            let ended_at = start.started_at.plus_ms(duration_ms(recording));
            node.stop(id, Some(ended_at)).await;
            rendered(&start, &node.insight(id).await)
        });
        assert_eq!(insight, never_offline(recording), "every {every}");
    }
}

#[test]
fn an_actor_reads_many_deferred_batches_without_a_request() {
    let mut state = DurableState::new();
    state.run_node(async |node: Node| {
        let start = node.begin(0).await;
        let id = start.session_id;
        for seq in 0..300 {
            let mut builder = BatchBuilder::default();
            let (t_ms, hpa) = (1_000 * seq, 1_000.0);
            builder
                .push(&Sample::Pressure(Pressure { t_ms, hpa }))
                .unwrap();
            node.send(id, seq, &builder.pack()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(SETTLED).await;
        let snapshot = node.snapshot(id).unwrap();
        assert_eq!(
            snapshot.next_seq, 256,
            "the actor reads all batches once and is then passivated"
        );
    });
}

#[test]
fn an_actor_does_not_read_a_damaged_journal_for_ever() {
    let mut state = DurableState::new();
    state.run_node(async |node: Node| {
        let start = node.begin(0).await;
        let id = start.session_id;
        node.send(id, 0, &CORPUS[0].batches[0]).await.unwrap();
        node.store
            .has_damaged_journals
            .store(true, Ordering::Relaxed);
        assert!(node.service.live(id).await.is_err());
        tokio::time::sleep(SETTLED).await;
        let reads = node.store.journal_reads(id);
        assert!((1..50).contains(&reads), "{reads}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(node.store.journal_reads(id), reads);
    });
}
