//! Tests that a phone that is offline for longer than the idle timeout loses nothing: its insight
//! equals that of a phone that was never offline, even if the service is killed in the meantime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::System;
use porchlight_actors::scoring::ScoringPool;
use porchlight_actors::service::{IngestError, Parts, Ports, Service, StartCommand, StopCommand};
use porchlight_core::session::lifetime::Lifetime;
use porchlight_core::shares::ShareLimits;
use porchlight_ports::{Clock, Entropy, Insights, SessionRow, Sessions, SingleNode, StoredInsight};
use porchlight_schema::ids::{OrganizationId, SessionId};
use porchlight_schema::insight::{InsightView, ReasonCode};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{EndReason, Env, SessionStart, SessionType, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_store::engine::memory::MemoryEngine;
use tokio::sync::mpsc;

use crate::clock::SimClock;
use crate::corpus::CORPUS;
use crate::node::in_system;
use crate::plan::FaultRates;
use crate::store::{FaultyStore, block_on};

const WALL_MS: i64 = 1_763_636_100_000;
const MINUTE_MS: i64 = 60_000;
const IDLE_MS: i64 = 30 * MINUTE_MS;
const NO_FAULTS: FaultRates = FaultRates {
    refuse: 0,
    lose_answer: 0,
    panic: 0,
    slow: 0,
    slow_ms_max: 0,
    bad_snapshot: 0,
    hand_over_lost: 0,
    hand_over_doubled: 0,
    hand_over_ms_max: 0,
};
pub(crate) const OFFLINE: Duration = Duration::from_secs(40 * 60);

#[derive(Debug)]
struct Counter(AtomicU64);

impl Entropy for Counter {
    fn random(&self) -> u128 {
        self.0.fetch_add(1, Ordering::Relaxed).into()
    }
}

/// The state that survives a kill and restart of the service.
pub(crate) struct DurableState {
    engine: MemoryEngine,
    pub(crate) clock: Arc<SimClock>,
    max_ms: i64,
    fault_rates: FaultRates,
}

impl DurableState {
    pub(crate) fn new() -> Self {
        Self {
            engine: MemoryEngine::new(),
            clock: Arc::new(SimClock::new(WALL_MS)),
            max_ms: 12 * 60 * MINUTE_MS,
            fault_rates: NO_FAULTS,
        }
    }

    /// Creates the state for a store that takes 1 to `slow_ms_max` milliseconds for each call.
    pub(crate) fn with_slow_store(slow_ms_max: i64) -> Self {
        let mut state = Self::new();
        state.fault_rates.slow = 1_000;
        state.fault_rates.slow_ms_max = slow_ms_max;
        state
    }

    /// Runs the service until `inside` returns. Then the process is killed: unsynced data is lost.
    pub(crate) fn run_node<T, F: Future<Output = T>>(
        &mut self,
        inside: impl FnOnce(Node) -> F,
    ) -> T {
        let engine = self.engine.clone();
        let output = in_system(async {
            self.clock.run();
            let node = Node::start(engine, &self.clock, self.max_ms, self.fault_rates).await;
            let output = inside(node).await;
            self.clock.halt();
            output
        });
        self.engine = self.engine.after_power_loss();
        output
    }
}

#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) service: Service,
    /// The store. Unless it is slow, virtual time does not advance while it works.
    pub(crate) store: Arc<FaultyStore>,
}

impl Node {
    async fn start(
        engine: MemoryEngine,
        clock: &Arc<SimClock>,
        max_ms: i64,
        fault_rates: FaultRates,
    ) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the test bounds its messages")]
        let (sender, mut durable) = mpsc::unbounded_channel();
        let on_durable = Arc::new(move |session_id, entry| {
            drop(sender.send((session_id, entry)));
        });
        let real = MemoryStore::on(engine, on_durable, Arc::new(|_| {})).unwrap();
        let store = Arc::new(FaultyStore::new(real, fault_rates, 0, 0));
        let arbiter = System::current().arbiter().clone();
        let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
        let alone = SingleNode { generation: 1 };
        let service = Service::new(Parts {
            ports: Ports {
                store: Arc::clone(&store) as _,
                clock: Arc::clone(&clock),
                entropy: Arc::new(Counter(AtomicU64::new(1))),
                wake: Arc::new(|_, _| {}),
                lifetime: Lifetime {
                    idle_ms: IDLE_MS,
                    max_ms,
                },
                ownership: Arc::new(alone),
                peers: Arc::new(alone),
            },
            arbiters: vec![arbiter.clone()],
            scoring: ScoringPool::start(
                &[arbiter],
                Arc::clone(&store) as _,
                clock,
                Arc::new(|_, _| {}),
            ),
            shares: ShareLimits::default(),
            // Every batch of a session without a reader is deferred.
            defer_from_per_sec: 0,
        });
        let receiver = service.clone();
        actix_rt::spawn(async move {
            while let Some((session_id, entry)) = durable.recv().await {
                receiver.deliver(session_id, entry);
            }
        });
        service.recover().await.unwrap();
        Self { service, store }
    }

    pub(crate) async fn begin(&self, recording: usize) -> SessionStart {
        self.begin_for(7, recording).await
    }

    /// Starts a session of the organization with this number.
    pub(crate) async fn begin_for(&self, organization: u128, recording: usize) -> SessionStart {
        let command = StartCommand {
            tenant: Tenant {
                organization_id: OrganizationId::new(TimestampMs(WALL_MS), organization),
                env: Env::Sandbox,
            },
            delivery_id: "delivery".to_owned(),
            external_rider_id: "rider".to_owned(),
            session_type: SessionType::Delivery,
            address: CORPUS[recording].address.clone(),
            device: None,
            started_at: None,
            started_at_back_ms_max: porchlight_schema::limits::STARTED_AT_BACK_MS_MAX,
            idempotency: None,
        };
        self.service.start(command).await.unwrap()
    }

    pub(crate) async fn send(
        &self,
        id: SessionId,
        seq: u32,
        batch: &PackedBatch,
    ) -> Result<(), IngestError> {
        let target = self.service.target(id).await.unwrap().unwrap();
        let permit = self.service.admit(&target).unwrap();
        self.service
            .ingest(&target, permit, seq, batch.clone())
            .await
    }

    pub(crate) fn row(&self, id: SessionId) -> SessionRow {
        block_on(self.store.real.find(id)).unwrap().unwrap()
    }

    /// Returns the insight once nothing waits for scoring.
    pub(crate) async fn insight(&self, id: SessionId) -> StoredInsight {
        while self.service.scoring_waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        block_on(self.store.real.insight(id)).unwrap().unwrap()
    }

    pub(crate) async fn stop(&self, id: SessionId, ended_at: Option<TimestampMs>) -> SessionRow {
        let command = StopCommand {
            ended_at,
            pod: None,
        };
        self.service.stop(&self.row(id), command).await.unwrap()
    }
}

/// Renders the insight as the API returns it, and the evidence, without the time of its creation.
pub(crate) fn rendered(start: &SessionStart, insight: &StoredInsight) -> String {
    let view = InsightView::scored(start, &insight.record, None);
    let mut answer = serde_json::to_value(view).unwrap();
    let fields = answer.as_object_mut().unwrap();
    fields.remove("updatedAt");
    let score = serde_json::to_value(&insight.record.score).unwrap();
    fields.insert("score".to_owned(), score);
    answer.to_string()
}

fn has_timed_out(insight: &StoredInsight) -> bool {
    let score = insight.record.score.as_ref().unwrap();
    score.reason_codes.contains(&ReasonCode::SessionTimeout)
}

/// Returns the duration of the recorded delivery.
pub(crate) fn duration_ms(recording: usize) -> i64 {
    let batches = &CORPUS[recording].batches;
    let last_ms = batches.iter().map(PackedBatch::t_max_ms).max().unwrap();
    i64::from(last_ms) + 1_000
}

pub(crate) async fn at_its_time(start: &SessionStart, clock: &SimClock, batch: &PackedBatch) {
    let ready_at = start.started_at.plus_ms(i64::from(batch.t_max_ms()));
    let left_ms = ready_at.since_ms(clock.now()).max(0);
    tokio::time::sleep(Duration::from_millis(left_ms as u64)).await;
}

/// Returns the insight of a phone that is never offline.
pub(crate) fn never_offline(recording: usize) -> String {
    let mut state = DurableState::new();
    let clock = Arc::clone(&state.clock);
    state.run_node(async |node: Node| {
        let start = node.begin(recording).await;
        for (seq, batch) in (0..).zip(&CORPUS[recording].batches) {
            at_its_time(&start, &clock, batch).await;
            node.send(start.session_id, seq, batch).await.unwrap();
        }
        let ended_at = start.started_at.plus_ms(duration_ms(recording));
        let row = node.stop(start.session_id, Some(ended_at)).await;
        assert_eq!(row.end.unwrap().reason, EndReason::Stopped);
        rendered(&start, &node.insight(start.session_id).await)
    })
}

/// Sends a third of the batches, and then stays offline until the service has completed the
/// session.
async fn until_timed_out(node: &Node, clock: &SimClock, recording: usize) -> (SessionStart, usize) {
    let batches = &CORPUS[recording].batches;
    let start = node.begin(recording).await;
    let sent = batches.len() / 3;
    let mut received_at = start.created_at;
    for (seq, batch) in (0..).zip(&batches[..sent]) {
        at_its_time(&start, clock, batch).await;
        received_at = clock.now();
        node.send(start.session_id, seq, batch).await.unwrap();
    }
    tokio::time::sleep(OFFLINE).await;
    let end = node.row(start.session_id).end.unwrap();
    // Virtual time is rounded to milliseconds in some places.
    let later_ms = end.ended_at.since_ms(received_at);
    assert!(
        end.reason == EndReason::Idle && (0..=1).contains(&later_ms),
        "{end:?}"
    );
    assert!(has_timed_out(&node.insight(start.session_id).await));
    (start, sent)
}

/// Sends the remaining batches out of order, two batches a second.
async fn catch_up(node: &Node, id: SessionId, recording: usize, seqs: impl Iterator<Item = usize>) {
    for seq in seqs {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let batch = &CORPUS[recording].batches[seq];
        node.send(id, seq as u32, batch).await.unwrap();
    }
}

#[test]
fn forty_minutes_offline_give_the_same_insight() {
    for recording in 0..CORPUS.len() {
        let mut state = DurableState::new();
        let clock = Arc::clone(&state.clock);
        let (rendered, events) = state.run_node(async |node: Node| {
            let (start, sent) = until_timed_out(&node, &clock, recording).await;
            let (id, count) = (start.session_id, CORPUS[recording].batches.len());
            catch_up(&node, id, recording, (sent..count).rev()).await;
            assert!(
                has_timed_out(&node.insight(id).await),
                "the service ended the session, not the app"
            );
            let ended_at = start.started_at.plus_ms(duration_ms(recording));
            let row = node.stop(id, Some(ended_at)).await;
            assert_eq!(row.end.unwrap().ended_at, ended_at);
            // A repeated stop gets the same answer, regardless of its content.
            let again = node.stop(id, Some(start.started_at)).await;
            assert_eq!(again, row);
            let insight = node.insight(id).await;
            let messages = block_on(node.store.real.messages(id)).unwrap();
            let stopped = MessageEvent::SessionStopped;
            let stopped = messages.iter().filter(|message| message.event == stopped);
            (rendered(&start, &insight), stopped.count())
        });
        assert_eq!(rendered, never_offline(recording), "recording {recording}");
        assert!(events <= 1, "session.stopped is sent once");
    }
}

#[test]
fn a_kill_at_any_moment_changes_nothing() {
    let recording = 0;
    let expected = never_offline(recording);
    let count = CORPUS[recording].batches.len();
    for kill_scoring in [false, true] {
        let mut state = DurableState::new();
        let clock = Arc::clone(&state.clock);
        let (start, sent) = state.run_node(async |node: Node| {
            let (start, sent) = until_timed_out(&node, &clock, recording).await;
            catch_up(&node, start.session_id, recording, sent..sent + 2).await;
            (start, sent)
        });
        let id = start.session_id;
        // The service is killed as soon as the last batch is acknowledged, and as soon as the stop
        // is answered.
        state.run_node(async |node: Node| {
            catch_up(&node, id, recording, sent + 2..count).await;
        });
        let ended_at = start.started_at.plus_ms(duration_ms(recording));
        let stopped = state.run_node(async |node: Node| {
            let row = node.stop(id, Some(ended_at)).await;
            if !kill_scoring {
                node.insight(id).await;
            }
            row
        });
        let found = state.run_node(async |node: Node| {
            assert_eq!(node.row(id), stopped);
            // The phone did not receive the answer and stops again.
            assert_eq!(node.stop(id, None).await, stopped);
            rendered(&start, &node.insight(id).await)
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn a_late_stop_without_a_time_ends_at_the_last_sample() {
    let recording = 1;
    let mut state = DurableState::new();
    let clock = Arc::clone(&state.clock);
    state.run_node(async |node: Node| {
        let (start, sent) = until_timed_out(&node, &clock, recording).await;
        let (id, batches) = (start.session_id, &CORPUS[recording].batches);
        catch_up(&node, id, recording, sent..batches.len()).await;
        let last_ms = batches.iter().map(PackedBatch::t_max_ms).max().unwrap();
        let row = node.stop(id, None).await;
        let last_at = start.started_at.plus_ms(i64::from(last_ms));
        assert_eq!(row.end.unwrap().ended_at, last_at);
        assert!(!has_timed_out(&node.insight(id).await));
        // Telemetry is accepted for ten more minutes after the stop by the app.
        let further = &batches[0];
        tokio::time::sleep(Duration::from_secs(9 * 60)).await;
        let seq = batches.len() as u32;
        node.send(id, seq, further).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2 * 60)).await;
        let refused = node.send(id, seq + 1, further).await;
        assert!(matches!(refused, Err(IngestError::Closed)), "{refused:?}");
    });
}

#[test]
fn late_batches_are_scored_together() {
    let mut state = DurableState::new();
    state.run_node(async |node: Node| {
        let start = node.begin(0).await;
        let (id, batches) = (start.session_id, &CORPUS[0].batches);
        node.send(id, 0, &batches[0]).await.unwrap();
        node.stop(id, None).await;
        assert_eq!(node.insight(id).await.record.revision, 1);
        // A single late batch is scored without a delay.
        node.send(id, 1, &batches[1]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let insight = block_on(node.store.real.insight(id)).unwrap().unwrap();
        assert_eq!(insight.covered.batches, 2);
        let further = 2..42;
        for seq in further.clone() {
            let batch = &batches[seq as usize % batches.len()];
            node.send(id, seq, batch).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let insight = node.insight(id).await;
        assert_eq!(insight.covered.batches, further.end);
        // After 0.5, 1.5, 3.5 and 7.5 seconds.
        let revisions = insight.record.revision;
        assert!((3..=6).contains(&revisions), "{revisions} revisions");
    });
}

#[test]
fn without_samples_the_session_ends_when_the_service_ended_it() {
    let mut state = DurableState::new();
    state.run_node(async |node: Node| {
        let start = node.begin(0).await;
        tokio::time::sleep(OFFLINE).await;
        let id = start.session_id;
        assert_eq!(node.row(id).end.unwrap().ended_at, start.created_at);
        let end = node.stop(id, None).await.end.unwrap();
        assert_eq!(end.ended_at, start.created_at);
        assert!(matches!(end.reason, EndReason::StoppedAfterTimeout { .. }));
        assert!(!has_timed_out(&node.insight(id).await));
    });
}

#[test]
fn telemetry_and_stops_are_accepted_for_a_day_after_a_timeout() {
    for (max_ms, reason) in [
        (12 * 60 * MINUTE_MS, EndReason::Idle),
        (5 * MINUTE_MS, EndReason::TooLong),
    ] {
        let mut state = DurableState::new();
        state.max_ms = max_ms;
        let clock = Arc::clone(&state.clock);
        state.run_node(async |node: Node| {
            let start = node.begin(0).await;
            let (id, batches) = (start.session_id, &CORPUS[0].batches);
            node.send(id, 0, &batches[0]).await.unwrap();
            tokio::time::sleep(OFFLINE).await;
            let end = node.row(id).end.unwrap();
            assert_eq!(end.reason, reason);
            let left_ms = 24 * 60 * MINUTE_MS - clock.now().since_ms(end.completed_at);
            tokio::time::sleep(Duration::from_millis(left_ms as u64 - 10)).await;
            node.send(id, 1, &batches[1]).await.unwrap();
            assert_eq!(node.insight(id).await.covered.batches, 2);
            tokio::time::sleep(Duration::from_millis(20)).await;
            let refused = node.send(id, 2, &batches[2]).await;
            assert!(matches!(refused, Err(IngestError::Closed)), "{refused:?}");
            assert_eq!(
                node.stop(id, None).await.end,
                Some(end),
                "a stop after a day changes nothing"
            );
        });
    }
}
