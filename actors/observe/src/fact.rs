//! Notable facts: each writes its log line and updates its metrics.

use std::error::Error;
use std::sync::Once;

use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{EndReason, Tenant};

use super::quarantine::{self, Damaged, Quarantined};
use super::request::{self, RequestName};
use super::store::StoreMetrics;
use super::{ActorKind, InsightOutcome, Metrics, ReplayCheck, SessionEnded, Task};

/// A fact that an operator may want to know.
#[derive(Debug)]
pub enum Fact<'a> {
    /// A session was started.
    SessionStarted {
        /// The id of the session.
        session_id: SessionId,
        /// The tenant of the session. Later lines name only the session.
        tenant: Tenant,
    },
    /// A session ended.
    SessionEnded {
        /// The id of the session.
        session_id: SessionId,
        /// The reason for the end.
        reason: EndReason,
    },
    /// The app stopped a session that the service had ended.
    StoppedAfterTimeout {
        /// The id of the session.
        session_id: SessionId,
    },
    /// A live session skipped a gap in `seq`.
    GapSkipped {
        /// The id of the session.
        session_id: SessionId,
        /// The first missing `seq`.
        first: u32,
        /// The last missing `seq`.
        last: u32,
    },
    /// An actor's handler panicked.
    ActorPanicked {
        /// The kind of actor.
        actor: ActorKind,
        /// The id of the session.
        session_id: SessionId,
        /// The batch on which the actor panicked, if any.
        seq: Option<u32>,
        /// Number of restarts within the supervision window.
        restarts: u32,
    },
    /// A background task of the process panicked.
    TaskPanicked {
        /// The task.
        task: Task,
        /// Number of panics since the task last ran without one for some time.
        panics: u32,
    },
    /// A batch is left out of its session permanently.
    BatchQuarantined {
        /// The id of the session.
        session_id: SessionId,
        /// The sequence number of the batch.
        seq: u32,
    },
    /// An insight was committed.
    InsightCommitted {
        /// The id of the session.
        session_id: SessionId,
        /// The revision of the insight.
        revision: u32,
        /// Whether scoring succeeded.
        outcome: InsightOutcome,
    },
    /// A store operation of an actor failed; the actor will retry.
    StoreFailed {
        /// The kind of actor.
        actor: ActorKind,
        /// The id of the session.
        session_id: SessionId,
        /// The operation that failed.
        doing: &'static str,
        /// The error that occurred.
        error: &'a (dyn Error + 'static),
    },
    /// Stored data is damaged, and processing continues without it.
    Damaged {
        /// The id of the session.
        session_id: SessionId,
        /// The kind of data.
        what: &'static str,
        /// The error that occurred.
        error: &'a (dyn Error + 'static),
    },
    /// Another release wrote the snapshot of a session, which is rebuilt from its journal instead.
    SnapshotOfOtherRelease {
        /// The id of the session.
        session_id: SessionId,
    },
    /// The events of a live session were compared with a replay.
    ReplayChecked {
        /// The id of the session.
        session_id: SessionId,
        /// The result of the comparison.
        check: ReplayCheck,
    },
    /// The service has started to drain.
    Draining,
    /// The service has drained.
    Drained {
        /// Number of sessions whose state was saved.
        snapshots: usize,
        /// Whether everything finished before the deadline.
        was_in_time: bool,
    },
}

/// Returns an error and its causes in one line, for the log and never for clients.
#[must_use]
pub fn error_text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

fn on_ended(request_id: Option<&str>, session_id: SessionId, reason: EndReason) {
    let reason = ended_as(reason);
    Metrics::get().on_session_ended(reason);
    tracing::info!(request_id, session = %session_id, reason = reason.as_str(), "session ended");
}

fn on_task_panicked(task: Task, panics: u32) {
    Metrics::get().on_task_panicked(task);
    tracing::error!(task = task.as_str(), panics, "task panicked");
}

/// Counts and logs a snapshot of another release. After an upgrade every live session may have one,
/// so only the first is logged at `info`, for operators.
fn on_snapshot_of_other_release(request_id: Option<&str>, session_id: SessionId) {
    static FIRST: Once = Once::new();
    Metrics::get().snapshots_discarded.increment(1);
    FIRST.call_once(|| {
        tracing::info!("snapshots of another release are discarded; their sessions are rebuilt from their journals");
    });
    tracing::debug!(request_id, session = %session_id, "snapshot of another release discarded");
}

fn on_replay_check(session_id: SessionId, check: ReplayCheck) {
    Metrics::get().on_replay_check(check);
    if check == ReplayCheck::Different {
        tracing::error!(session = %session_id, "a replay gives other events than the live session");
    }
}

fn on_drained(snapshots: usize, was_in_time: bool) {
    tracing::info!(snapshots, in_time = was_in_time, "shutdown: drained");
}

/// Returns the end reason as the metric labels it.
fn ended_as(reason: EndReason) -> SessionEnded {
    match reason {
        EndReason::Stopped | EndReason::StoppedAfterTimeout { .. } => SessionEnded::Stopped,
        EndReason::Idle => SessionEnded::Idle,
        EndReason::TooLong => SessionEnded::TooLong,
    }
}

impl Fact<'_> {
    /// Writes the log line, with the request that caused it if there is one, and updates the
    /// metrics.
    pub fn record(self) {
        let metrics = Metrics::get();
        let request = request::current();
        let request_id = request.as_ref().map(RequestName::as_str);
        match self {
            Fact::SessionStarted { session_id, tenant } => {
                metrics.sessions_started.increment(1);
                tracing::info!(request_id, session = %session_id, organization = %tenant.organization_id, env = tenant.env.as_str(), "session started");
            }
            Fact::SessionEnded { session_id, reason } => on_ended(request_id, session_id, reason),
            Fact::StoppedAfterTimeout { session_id } => {
                tracing::info!(request_id, session = %session_id, "session stopped after it had timed out");
            }
            Fact::GapSkipped {
                session_id,
                first,
                last,
            } => {
                metrics.gaps_skipped.increment(1);
                tracing::warn!(request_id, session = %session_id, first, last, "gap in seq skipped");
            }
            Fact::ActorPanicked {
                actor,
                session_id,
                seq,
                restarts,
            } => {
                metrics.actor(actor).restarts.increment(1);
                tracing::error!(request_id, actor = actor.as_str(), session = %session_id, seq, restarts, "actor panicked");
            }
            Fact::TaskPanicked { task, panics } => on_task_panicked(task, panics),
            Fact::BatchQuarantined { session_id, seq } => {
                metrics.quarantined.increment(1);
                quarantine::keep(Quarantined { session_id, seq });
                tracing::error!(request_id, session = %session_id, seq, "batch quarantined");
            }
            Fact::InsightCommitted {
                session_id,
                revision,
                outcome,
            } => {
                metrics.on_insight(outcome);
                tracing::info!(request_id, session = %session_id, revision, outcome = outcome.as_str(), "insight committed");
            }
            Fact::StoreFailed {
                actor,
                session_id,
                doing,
                error,
            } => {
                tracing::warn!(request_id, actor = actor.as_str(), session = %session_id, doing, error = error_text(error), "store failed");
            }
            Fact::Damaged {
                session_id,
                what,
                error,
            } => {
                StoreMetrics::get().damaged.increment(1);
                quarantine::keep_damaged(Damaged { session_id, what });
                tracing::error!(request_id, session = %session_id, what, error = error_text(error), "stored data damaged");
            }
            Fact::SnapshotOfOtherRelease { session_id } => {
                on_snapshot_of_other_release(request_id, session_id);
            }
            Fact::ReplayChecked { session_id, check } => on_replay_check(session_id, check),
            Fact::Draining => tracing::info!("shutdown: draining"),
            Fact::Drained {
                snapshots,
                was_in_time,
            } => on_drained(snapshots, was_in_time),
        }
    }
}
