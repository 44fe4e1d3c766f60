//! What is known of a session that records, without asking its actor.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix::Addr;
use porchlight_observe::{ActorKind, Metrics};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::heard::Heard;
use crate::session::{Frozen, SessionActor};
use crate::supervision::Budget;

/// A session that records.
#[derive(Debug)]
pub struct Handle {
    /// Which.
    pub session_id: SessionId,
    /// Whose.
    pub tenant: Tenant,
    /// When the service made it.
    pub created_at: TimestampMs,
    /// When the phone began.
    pub started_at: TimestampMs,
    heard_at_ms: AtomicI64,
    pub(super) in_flight: AtomicU32,
    queued: AtomicU32,
    /// What waits in the mailboxes of all sessions.
    mailboxes: Arc<AtomicU32>,
    behind: AtomicBool,
    /// The number after the highest batch that this node was told of or has read.
    told: AtomicU32,
    slot: Mutex<Slot>,
}

/// The session's actor, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) actor: Option<Addr<SessionActor>>,
    /// It panicked and will be rebuilt: what comes meanwhile it will read from the journal.
    pub(crate) restarting: bool,
    /// What its last actor knew when it was put to rest; never beside an actor.
    pub(crate) frozen: Option<Box<Frozen>>,
    pub(crate) budget: Budget,
    pub(super) heard: Heard,
}

impl Handle {
    pub(super) fn new(
        start: &SessionStart,
        heard_at: TimestampMs,
        mailboxes: Arc<AtomicU32>,
    ) -> Self {
        Self {
            session_id: start.session_id,
            tenant: start.tenant,
            created_at: start.created_at,
            started_at: start.started_at,
            heard_at_ms: AtomicI64::new(heard_at.0),
            in_flight: AtomicU32::new(0),
            queued: AtomicU32::new(0),
            mailboxes,
            behind: AtomicBool::new(false),
            told: AtomicU32::new(0),
            slot: Mutex::default(),
        }
    }

    /// When its last batch was taken, or when it was made.
    #[must_use]
    pub fn heard_at(&self) -> TimestampMs {
        TimestampMs(self.heard_at_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn hear(&self, at: TimestampMs) {
        self.heard_at_ms.fetch_max(at.0, Ordering::Relaxed);
    }

    pub(crate) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is an actor, and whether there is the state of one at rest.
    pub(super) fn holds(&self) -> (bool, bool) {
        let slot = self.slot();
        (slot.actor.is_some(), slot.frozen.is_some())
    }

    /// Takes the actor out if no message waits for it: after that nothing can be sent to it.
    pub(super) fn take_idle_actor(&self) -> Option<Addr<SessionActor>> {
        let mut slot = self.slot();
        if self.queued() == 0 {
            slot.actor.take()
        } else {
            None
        }
    }

    pub(super) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    pub(super) fn enqueue(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.mailboxes.fetch_add(1, Ordering::Relaxed);
        Metrics::get()
            .actor(ActorKind::Session)
            .mailbox
            .increment(1.0);
    }

    /// One of the waiting messages was taken up.
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

    /// A new actor has an empty mailbox, whatever its forerunner left.
    pub(super) fn clear_queue(&self) {
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

    /// The session's actor has, or will have, the batch of this number.
    pub(crate) fn told(&self, seq: u32) {
        self.told
            .fetch_max(seq.saturating_add(1), Ordering::Relaxed);
    }

    /// Whether this node knows of the batch of this number.
    pub(super) fn has_told(&self, seq: u32) -> bool {
        self.told.load(Ordering::Relaxed) > seq
    }

    pub(super) fn fall_behind(&self) {
        self.behind.store(true, Ordering::Release);
    }

    /// Whether a hand-over was lost since this was asked last: then the journal has more than was told.
    pub(crate) fn take_behind(&self) -> bool {
        self.behind.swap(false, Ordering::Acquire)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // An actor that died may have left messages, and a session that is over gets no other one.
        self.clear_queue();
    }
}
