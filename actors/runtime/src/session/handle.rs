//! The state of a session in progress that other tasks read without a message to its actor.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::Addr;
use porchlight_core::session::idle::Residence;
use porchlight_core::session::lifetime::{
    Elapsed, RecordedTimes, reconcile_after_ms, usual_silence_ms,
};
use porchlight_core::supervision::Budget;
use porchlight_observe::shares::Share;
use porchlight_observe::{ActorKind, Metrics, StopReason};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::send::send_finish;
use super::seq_window::SeqWindow;
use super::{PassivatedState, SessionActor};
use crate::shares::{SharePermit, TenantUsage};

/// A session in progress.
#[derive(Debug)]
pub struct SessionHandle {
    /// The ID of the session.
    pub session_id: SessionId,
    /// The tenant of the session.
    pub tenant: Tenant,
    /// The time at which the service created the session.
    pub created_at: TimestampMs,
    /// The time at which the phone started the session.
    pub started_at: TimestampMs,
    /// The time at which the session's last batch was received, by the wall clock.
    last_received_at_ms: AtomicI64,
    /// The time at which the session's last batch was received or this node adopted the session, by
    /// the monotonic clock.
    active_at_ms: AtomicI64,
    /// The usual silence of the session between two batches, in milliseconds.
    usual_silence_ms: AtomicI64,
    /// The time at which the session was reconciled because it was silent, by the monotonic clock.
    reconciled_at_ms: AtomicI64,
    /// The time at which the session's age was 0, by the monotonic clock.
    born_at_ms: i64,
    pub(crate) in_flight: AtomicU32,
    queued: AtomicU32,
    /// The number of messages in the mailboxes of all sessions.
    mailboxes: Arc<AtomicU32>,
    /// Whether the actor was not notified of a batch.
    has_missed_batch: AtomicBool,
    /// The number of batches in the journal that wait until somebody needs the events.
    deferred: AtomicU32,
    /// The time at which the events were last requested, by the monotonic clock.
    requested_at_ms: AtomicI64,
    /// The number after the highest batch that this node was notified of or has read.
    known_up_to: AtomicU32,
    /// The usage of this node by the session's tenant.
    pub(crate) usage: Arc<TenantUsage>,
    _live: SharePermit,
    slot: Mutex<Slot>,
}

/// The time at which this process adopted a session, and the age of the session then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adopted {
    /// The time of the adoption by the monotonic clock.
    pub(crate) uptime_ms: i64,
    /// The session's age at the adoption, in milliseconds.
    pub(crate) age_ms: i64,
}

/// The session's actor, if there is one, and its state.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) actor: Option<Addr<SessionActor>>,
    /// Whether this node is done with the session: the session has its insight or is erased, or the
    /// node has released or lost its shard. No actor starts for it again, even if a task still
    /// holds the handle.
    pub(crate) is_finished: bool,
    /// Whether the actor panicked and will be rebuilt. It will read batches that arrive meanwhile
    /// from the journal.
    pub(crate) is_restarting: bool,
    /// The state of the last actor when it was passivated. It is `None` while there is an actor.
    pub(crate) passivated: Option<Box<PassivatedState>>,
    /// Whether this node created the session and has not started an actor for it. The session then
    /// has no snapshot, and only batches that this node is notified of.
    pub(crate) is_new: bool,
    pub(crate) budget: Budget,
    /// The newest numbers of batches that this node was notified of or has read.
    pub(crate) notified: SeqWindow,
}

impl SessionHandle {
    pub(crate) fn new(
        start: &SessionStart,
        last_received_at: TimestampMs,
        adopted: Adopted,
        mailboxes: Arc<AtomicU32>,
        usage: Arc<TenantUsage>,
    ) -> Self {
        Self {
            session_id: start.session_id,
            tenant: start.tenant,
            created_at: start.created_at,
            started_at: start.started_at,
            last_received_at_ms: AtomicI64::new(last_received_at.0),
            active_at_ms: AtomicI64::new(adopted.uptime_ms),
            usual_silence_ms: AtomicI64::new(0),
            reconciled_at_ms: AtomicI64::new(i64::MIN),
            born_at_ms: adopted.uptime_ms - adopted.age_ms,
            in_flight: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            mailboxes,
            has_missed_batch: AtomicBool::new(false),
            deferred: AtomicU32::new(0),
            requested_at_ms: AtomicI64::new(i64::MIN),
            known_up_to: AtomicU32::new(0),
            _live: usage.acquire_over_limit(Share::LiveSessions),
            usage,
            slot: Mutex::default(),
        }
    }

    /// Returns the time at which the last batch was received, or the session was created.
    #[must_use]
    pub fn last_received_at(&self) -> TimestampMs {
        TimestampMs(self.last_received_at_ms.load(Ordering::Relaxed))
    }

    /// Records a batch that was received at `received_at` and is delivered now, at `uptime_ms` of
    /// the monotonic clock.
    pub(crate) fn touch(&self, received_at: TimestampMs, uptime_ms: i64) {
        self.last_received_at_ms
            .fetch_max(received_at.0, Ordering::Relaxed);
        let active_at_ms = self.active_at_ms.fetch_max(uptime_ms, Ordering::Relaxed);
        // Two batches at the same time may lose one of two updates, which only moves a
        // reconciliation.
        let usual_ms = self.usual_silence_ms.load(Ordering::Relaxed);
        let usual_ms = usual_silence_ms(usual_ms, uptime_ms - active_at_ms);
        self.usual_silence_ms.store(usual_ms, Ordering::Relaxed);
    }

    /// Records that the store has a batch received at `received_at`, perhaps by another node, as
    /// seen now.
    pub(crate) fn touch_found(&self, received_at: TimestampMs, now: TimestampMs, uptime_ms: i64) {
        self.last_received_at_ms
            .fetch_max(received_at.0, Ordering::Relaxed);
        // The result is not after now, and not before the adoption, which is the initial value of
        // `active_at_ms`.
        let active_at_ms = uptime_ms - now.since_ms(received_at).max(0);
        self.active_at_ms.fetch_max(active_at_ms, Ordering::Relaxed);
    }

    /// Returns the silence and the age of the session.
    pub(crate) fn elapsed(&self, uptime_ms: i64) -> Elapsed {
        Elapsed {
            silent_ms: uptime_ms - self.active_at_ms.load(Ordering::Relaxed),
            age_ms: uptime_ms - self.born_at_ms,
        }
    }

    /// Records that the session is reconciled now because it is silent.
    pub(crate) fn record_reconciled(&self, uptime_ms: i64) {
        self.reconciled_at_ms.store(uptime_ms, Ordering::Relaxed);
    }

    /// Returns the silence after which the session is reconciled next, in milliseconds.
    pub(crate) fn reconcile_after_ms(&self) -> i64 {
        let active_at_ms = self.active_at_ms.load(Ordering::Relaxed);
        let reconciled_at_ms = self.reconciled_at_ms.load(Ordering::Relaxed);
        let reconciled_ms =
            (reconciled_at_ms > active_at_ms).then(|| reconciled_at_ms - active_at_ms);
        let [.., spread] = self.session_id.to_bytes();
        let usual_ms = self.usual_silence_ms.load(Ordering::Relaxed);
        reconcile_after_ms(usual_ms, reconciled_ms, spread)
    }

    /// Returns the session's stored times.
    pub(crate) fn times(&self) -> RecordedTimes {
        RecordedTimes {
            created_at: self.created_at,
            started_at: self.started_at,
            last_received_at: self.last_received_at(),
        }
    }

    pub(crate) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of the session's state in this process.
    pub(crate) fn residence(&self) -> Residence {
        let slot = self.slot();
        if slot.actor.is_some() {
            Residence::Actor
        } else if slot.passivated.is_some() {
            Residence::Passivated
        } else {
            Residence::Store
        }
    }

    /// Removes the actor if no message waits for it. After that, nothing can be sent to it.
    pub(crate) fn take_idle_actor(&self) -> Option<Addr<SessionActor>> {
        let mut slot = self.slot();
        if self.queued() == 0 {
            slot.actor.take()
        } else {
            None
        }
    }

    /// Stops the session's actor for good. The actor writes nothing, and its passivated state is
    /// dropped.
    pub(crate) fn finish(&self, reason: StopReason) {
        let mut slot = self.slot();
        slot.is_finished = true;
        slot.passivated = None;
        if let Some(actor) = slot.actor.take() {
            send_finish(&actor, reason);
        }
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    pub(crate) fn enqueue(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.mailboxes.fetch_add(1, Ordering::Relaxed);
        Metrics::get()
            .actor(ActorKind::Session)
            .mailbox
            .increment(1.0);
    }

    /// Counts a waiting message as taken from the mailbox.
    pub(crate) fn dequeue(&self) {
        let before = self
            .queued
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |queued| {
                queued.checked_sub(1)
            });
        if before.is_ok() {
            self.mailboxes.fetch_sub(1, Ordering::Relaxed);
            Metrics::get()
                .actor(ActorKind::Session)
                .mailbox
                .decrement(1.0);
        }
    }

    /// Resets the count of waiting messages, because a new actor has an empty mailbox.
    pub(crate) fn clear_queue(&self) {
        let left = self.queued.swap(0, Ordering::Relaxed);
        if left == 0 {
            return;
        }
        self.mailboxes.fetch_sub(left, Ordering::Relaxed);
        Metrics::get()
            .actor(ActorKind::Session)
            .mailbox
            .decrement(f64::from(left));
    }

    /// Records that the session's actor has, or will have, batch `seq`.
    pub(crate) fn mark_known(&self, seq: u32) {
        self.known_up_to
            .fetch_max(seq.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns whether this node knows of batch `seq`.
    pub(crate) fn knows(&self, seq: u32) -> bool {
        self.known_up_to.load(Ordering::Relaxed) > seq
    }

    /// Counts a batch that stays in the journal until somebody needs the events. Returns the number
    /// of batches that now wait.
    pub(crate) fn defer(&self) -> u32 {
        self.deferred.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns whether batches were deferred since the last call. If so, the caller lets the actor
    /// read the journal.
    pub(crate) fn take_deferred(&self) -> bool {
        self.deferred.swap(0, Ordering::Relaxed) > 0
    }

    /// Returns whether batches are deferred.
    pub(crate) fn has_deferred(&self) -> bool {
        self.deferred.load(Ordering::Relaxed) > 0
    }

    /// Records that the session's events are requested now, by the monotonic clock.
    pub(crate) fn record_request(&self, uptime_ms: i64) {
        self.requested_at_ms.fetch_max(uptime_ms, Ordering::Relaxed);
    }

    /// Returns the time since the last request for the session's events, in milliseconds. It is
    /// very large if there was no request.
    pub(crate) fn since_request_ms(&self, uptime_ms: i64) -> i64 {
        uptime_ms.saturating_sub(self.requested_at_ms.load(Ordering::Relaxed))
    }

    /// Records that the actor was not notified of a batch, because its mailbox was full.
    pub(crate) fn mark_missed_batch(&self) {
        self.has_missed_batch.store(true, Ordering::Release);
    }

    /// Returns whether the actor missed a batch since the last call. If so, the journal has batches
    /// of which the actor was not notified.
    pub(crate) fn take_missed_batch(&self) -> bool {
        self.has_missed_batch.swap(false, Ordering::Acquire)
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // An actor that died may have left messages, and a session that has ended gets no new
        // actor.
        self.clear_queue();
    }
}
