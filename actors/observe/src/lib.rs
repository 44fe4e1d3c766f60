#![doc = include_str!("../README.md")]

/// Defines an enum that is used as a label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// All variants of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The label values of all variants, in the same order.
            pub const VALUES: &'static [&'static str] = &[$($text),+];

            /// Returns the label's value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

mod catalogue;
pub mod cluster;
mod fact;
pub mod http;
pub mod map;
pub mod peer;
pub mod privacy;
pub mod quarantine;
pub mod request;
pub mod resolver;
pub mod restarts;
pub mod runtime;
pub mod shares;
pub mod store;
pub mod streams;
pub mod webhook;

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

pub use catalogue::{CATALOGUE, Definition, Instrument, Label, describe, name};
pub use fact::{Fact, error_text};

label! {
    /// A kind of actor.
    ActorKind {
        /// One live session.
        Session = "session",
        /// One worker of the scoring pool.
        Scoring = "scoring",
        /// One tenant's webhooks.
        Webhook = "webhook",
    }
}

label! {
    /// A task that runs as long as the process.
    Task {
        /// The timers of sessions or webhooks on one thread.
        TimerWheel = "timer_wheel",
        /// The writer of the audit log.
        AuditWriter = "audit_writer",
        /// The search for webhook messages that are due.
        WebhookScan = "webhook_scan",
        /// The count of waiting webhook messages.
        WebhookCount = "webhook_count",
        /// The deletion of data that is older than its retention.
        Retention = "retention",
        /// The check that no other process serves from the keyspace.
        ServingWatch = "serving_watch",
        /// The start of the work of claimed shards.
        ShardStart = "shard_start",
        /// The end of the work of shards that the node releases.
        ShardDrain = "shard_drain",
        /// The comparison of the node's shards with the store.
        ShardReconcile = "shard_reconcile",
        /// The removal of outdated state of the API or the console.
        Cleanup = "cleanup",
        /// The upkeep of histograms.
        Upkeep = "upkeep",
        /// The thread that renews this node's lease and moves shards.
        Ownership = "ownership",
    }
}

label! {
    /// The work of a thread with a lag monitor.
    RuntimeKind {
        /// The thread runs actors.
        Actors = "actors",
        /// The thread accepts connections and runs periodic work.
        Main = "main",
    }
}

label! {
    /// The reason why an actor stopped.
    StopReason {
        /// The actor had no work for some time.
        Idle = "idle",
        /// The work of the actor is finished.
        Finished = "finished",
        /// The service stops.
        Shutdown = "shutdown",
        /// A handler panicked.
        Panic = "panic",
        /// Another node owns the shard of the actor.
        LostOwnership = "lost_ownership",
    }
}

label! {
    /// The kind of message that an actor handles.
    MessageKind {
        /// A batch is durable.
        Batch = "batch",
        /// A request reads the events so far.
        Events = "events",
        /// The actor must write a snapshot and stop.
        Drain = "drain",
        /// A session must be scored.
        Score = "score",
        /// A wake says that there may be new work in the store.
        Wake = "wake",
        /// The store or a receiver has answered.
        Step = "step",
    }
}

label! {
    /// The outcome of handling a message.
    Outcome {
        /// The message was handled.
        Ok = "ok",
        /// The handler returned an error; the actor retries.
        Error = "error",
        /// The handler panicked.
        Panic = "panic",
    }
}

label! {
    /// The outcome of a batch.
    BatchOutcome {
        /// The batch is new and durable.
        New = "new",
        /// An identical batch was stored before.
        Repeated = "repeated",
        /// Another body was stored under the `seq` of the batch.
        Conflict = "conflict",
        /// The batch is new and arrived after the session's end.
        Late = "late",
        /// The session takes no telemetry: its time for late telemetry is over, or it is restricted
        /// or erased.
        Closed = "closed",
        /// The body is malformed or invalid.
        Invalid = "invalid",
        /// Too many batches of the session are in flight.
        SessionFull = "session_full",
        /// The node is full.
        NodeFull = "node_full",
        /// The tenant's share of the node is used up.
        TenantFull = "tenant_full",
        /// The store is unavailable.
        StoreUnavailable = "store_unavailable",
    }
}

label! {
    /// The reason for which a session ended.
    SessionEnded {
        /// A request stopped the session.
        Stopped = "stopped",
        /// The session received no data for too long.
        Idle = "idle",
        /// The session exceeded the maximum duration.
        TooLong = "too_long",
    }
}

label! {
    /// The outcome of a scoring.
    InsightOutcome {
        /// The session was scored.
        Ready = "ready",
        /// The session could not be scored.
        Failed = "failed",
    }
}

label! {
    /// Whether the events of a live machine equal those of a replay.
    ReplayCheck {
        /// The live events and the replay are equal.
        Same = "same",
        /// The live events and the replay differ; the replay counts.
        Different = "different",
    }
}

/// The metric handles of one kind of actor.
#[derive(Debug, Clone)]
pub struct ActorMetrics {
    /// The number of live actors.
    pub live: Gauge,
    /// The number of started actors.
    pub started: Counter,
    /// The number of actors that were rebuilt after a panic.
    pub restarts: Counter,
    /// The number of messages that wait in mailboxes.
    pub mailbox: Gauge,
    /// The time for which messages wait in mailboxes.
    pub wait: Histogram,
    /// The number of messages that a full mailbox rejected.
    pub rejected: Counter,
    stopped: Vec<Counter>,
    handled: Vec<Vec<Counter>>,
    handling: Vec<Histogram>,
}

impl ActorMetrics {
    fn new(actor: ActorKind) -> Self {
        let actor = actor.as_str();
        let stopped = |reason: &StopReason| metrics::counter!(name::ACTOR_STOPPED_TOTAL, "actor" => actor, "reason" => reason.as_str());
        let handled = |message: &MessageKind| {
            let (message, all) = (message.as_str(), Outcome::ALL.iter());
            all.map(|outcome| {
                let outcome = outcome.as_str();
                metrics::counter!(name::ACTOR_MESSAGES_TOTAL, "actor" => actor, "message" => message, "outcome" => outcome)
            })
            .collect()
        };
        let handling = |message: &MessageKind| metrics::histogram!(name::ACTOR_HANDLE_SECONDS, "actor" => actor, "message" => message.as_str());
        Self {
            live: metrics::gauge!(name::ACTOR_LIVE, "actor" => actor),
            started: metrics::counter!(name::ACTOR_STARTED_TOTAL, "actor" => actor),
            restarts: metrics::counter!(name::ACTOR_RESTARTS_TOTAL, "actor" => actor),
            mailbox: metrics::gauge!(name::ACTOR_MAILBOX_MESSAGES, "actor" => actor),
            wait: metrics::histogram!(name::ACTOR_MAILBOX_WAIT_SECONDS, "actor" => actor),
            rejected: metrics::counter!(name::ACTOR_REJECTED_TOTAL, "actor" => actor),
            stopped: StopReason::ALL.iter().map(stopped).collect(),
            handled: MessageKind::ALL.iter().map(handled).collect(),
            handling: MessageKind::ALL.iter().map(handling).collect(),
        }
    }

    /// Counts a started actor.
    pub fn on_started(&self) {
        self.live.increment(1.0);
        self.started.increment(1);
    }

    /// Counts a stopped actor.
    pub fn on_stopped(&self, reason: StopReason) {
        self.live.decrement(1.0);
        self.stopped[reason as usize].increment(1);
    }

    /// Records a message that was handled in `seconds`.
    pub fn on_handled(&self, message: MessageKind, outcome: Outcome, seconds: f64) {
        self.handled[message as usize][outcome as usize].increment(1);
        self.handling[message as usize].record(seconds);
    }
}

/// The metric handles of hot paths.
#[derive(Debug, Clone)]
pub struct Metrics {
    actors: Vec<ActorMetrics>,
    batches: Vec<Counter>,
    sessions_ended: Vec<Counter>,
    insights: Vec<Counter>,
    /// Seconds from the last byte of a batch to its acknowledgement.
    pub ingest_ack: Histogram,
    /// The number of accepted samples.
    pub samples: Counter,
    /// The number of skipped samples of unknown kinds.
    pub samples_unknown: Counter,
    /// The number of bytes of accepted batches, packed.
    pub bytes: Counter,
    /// The number of bytes of request bodies in flight.
    pub in_flight_bytes: Gauge,
    /// The limit on batches between their last byte and their acknowledgement.
    pub ingest_limit: Gauge,
    /// The number of live sessions.
    pub sessions_live: Gauge,
    /// The number of started sessions.
    pub sessions_started: Counter,
    /// The number of skipped gaps in `seq`.
    pub gaps_skipped: Counter,
    /// The number of batches that did not fit into a mailbox; the session reads them from the
    /// journal.
    pub mailbox_overflows: Counter,
    /// The number of quarantined batches.
    pub quarantined: Counter,
    /// The number of snapshots of another release.
    pub snapshots_discarded: Counter,
    /// The number of sessions that wait to be scored.
    pub scoring_waiting: Gauge,
    /// The comparisons of live machines with replays, by [`ReplayCheck`].
    replay_checks: Vec<Counter>,
    /// The panics of tasks, by [`Task`].
    task_panics: Vec<Counter>,
}

impl Metrics {
    fn new() -> Self {
        let batch = |outcome: &BatchOutcome| metrics::counter!(name::INGEST_BATCHES_TOTAL, "outcome" => outcome.as_str());
        let ended = |reason: &SessionEnded| metrics::counter!(name::SESSIONS_ENDED_TOTAL, "reason" => reason.as_str());
        let insight = |outcome: &InsightOutcome| metrics::counter!(name::INSIGHTS_TOTAL, "outcome" => outcome.as_str());
        let checked = |check: &ReplayCheck| metrics::counter!(name::SCORING_REPLAY_CHECKS_TOTAL, "outcome" => check.as_str());
        let panics =
            |task: &Task| metrics::counter!(name::TASK_PANICS_TOTAL, "task" => task.as_str());
        Self {
            actors: ActorKind::ALL
                .iter()
                .map(|&actor| ActorMetrics::new(actor))
                .collect(),
            batches: BatchOutcome::ALL.iter().map(batch).collect(),
            sessions_ended: SessionEnded::ALL.iter().map(ended).collect(),
            insights: InsightOutcome::ALL.iter().map(insight).collect(),
            ingest_ack: metrics::histogram!(name::INGEST_ACK_SECONDS),
            samples: metrics::counter!(name::INGEST_SAMPLES_TOTAL),
            samples_unknown: metrics::counter!(name::INGEST_SAMPLES_UNKNOWN_TOTAL),
            bytes: metrics::counter!(name::INGEST_PACKED_BYTES_TOTAL),
            in_flight_bytes: metrics::gauge!(name::INGEST_IN_FLIGHT_BYTES),
            ingest_limit: metrics::gauge!(name::INGEST_LIMIT_BATCHES),
            sessions_live: metrics::gauge!(name::SESSIONS_LIVE),
            sessions_started: metrics::counter!(name::SESSIONS_STARTED_TOTAL),
            gaps_skipped: metrics::counter!(name::SESSION_HOLES_GIVEN_UP_TOTAL),
            mailbox_overflows: metrics::counter!(name::SESSION_MAILBOX_OVERFLOWS_TOTAL),
            quarantined: metrics::counter!(name::SESSION_BATCHES_QUARANTINED_TOTAL),
            snapshots_discarded: metrics::counter!(name::SESSION_SNAPSHOTS_DISCARDED_TOTAL),
            scoring_waiting: metrics::gauge!(name::SCORING_WAITING_SESSIONS),
            replay_checks: ReplayCheck::ALL.iter().map(checked).collect(),
            task_panics: Task::ALL.iter().map(panics).collect(),
        }
    }

    /// Returns the handles, which the first call creates. Call it only after the recorder is
    /// installed.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);
        &METRICS
    }

    /// Returns the handles of one kind of actor.
    #[must_use]
    pub fn actor(&self, actor: ActorKind) -> &ActorMetrics {
        &self.actors[actor as usize]
    }

    /// Counts a batch.
    pub fn on_batch(&self, outcome: BatchOutcome) {
        self.batches[outcome as usize].increment(1);
    }

    fn on_session_ended(&self, reason: SessionEnded) {
        self.sessions_ended[reason as usize].increment(1);
    }

    fn on_replay_check(&self, check: ReplayCheck) {
        self.replay_checks[check as usize].increment(1);
    }

    fn on_task_panicked(&self, task: Task) {
        self.task_panics[task as usize].increment(1);
    }

    fn on_insight(&self, outcome: InsightOutcome) {
        self.insights[outcome as usize].increment(1);
    }
}

/// Describes every metric and creates every handle, so that each series exists from the start. Call
/// it once the recorder is installed.
pub fn install() {
    describe();
    cluster::ClusterMetrics::get().reset();
    peer::PeerMetrics::get().reset();
    streams::StreamMetrics::get().reset();
    resolver::ResolverMetrics::get().reset();
    shares::ShareMetrics::get().reset();
    privacy::PrivacyMetrics::get().reset();
    http::HttpMetrics::get().in_flight.set(0.0);
    let store = store::StoreMetrics::get();
    store.queue.set(0.0);
    store.touch_retention_clock();
    store.touch_database_warnings();
    store.disk.set(0.0);
    store.disk_free.set(f64::NAN);
    store.last_backup.set(0.0);
    let map = map::MapMetrics::get();
    map.read.increment(0);
    map.skipped.increment(0);
    runtime::RuntimeMetrics::get().record();
    webhook::WebhookMetrics::get().reset();
    let metrics = Metrics::get();
    metrics.sessions_live.set(0.0);
    metrics.in_flight_bytes.set(0.0);
    metrics
        .ingest_limit
        .set(f64::from(porchlight_schema::limits::INGEST_BATCHES_START));
    metrics.scoring_waiting.set(0.0);
    for &actor in ActorKind::ALL {
        metrics.actor(actor).live.set(0.0);
        metrics.actor(actor).mailbox.set(0.0);
    }
}
