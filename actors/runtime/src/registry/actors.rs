//! Starts, queries and restarts the actors of sessions.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use porchlight_core::backoff::Backoff;
use porchlight_core::session::idle::PASSIVATE_AFTER_MS;
use porchlight_core::supervision::Verdict;
use porchlight_core::timeline::NumberedChange;
use porchlight_observe::{ActorKind, Fact, Metrics, StopReason};
use porchlight_ports::{JournalEntry, Note, PeerError, Store};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::SESSION_MAILBOX_MAX;
use porchlight_schema::session::Tenant;

use super::{Inner, Registry};
use crate::session::{
    BatchDurable, Host, LiveEvents, PassivatedState, ReadChanges, ReadEvents, SessionActor,
    SessionHandle, Slot, send, store_failed,
};

/// The time that a caller waits for a session's events before it must retry.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay before a read is retried on an actor that could not answer.
const READ_RETRY_DELAY: Duration = Duration::from_millis(20);

/// The pauses between attempts at quarantining a batch: from 0.1 s to 5 s.
const QUARANTINE_BACKOFF: Backoff = Backoff::new(100, 5_000);

/// The error if a session's events cannot be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The actor is busy or restarts.
    #[error("the session's actor did not answer in time")]
    TimedOut,
    /// This node is done with the session: it was scored or erased, or its shard was released or
    /// lost.
    #[error("the session's actor has stopped for good")]
    Finished,
    /// The node stops, and its actors have written their snapshots.
    #[error("the session's actor has stopped with its node")]
    Stopped,
}

impl From<AskError> for PeerError {
    /// A node that stops or is done with a session releases it, so the caller reads the snapshot
    /// that the actor wrote.
    fn from(error: AskError) -> Self {
        match error {
            AskError::TimedOut => Self::Unreachable,
            AskError::Stopped | AskError::Finished => Self::NotOwner,
        }
    }
}

impl Registry {
    pub(super) fn send_batch(&self, handle: &Arc<SessionHandle>, entry: JournalEntry) {
        let mut slot = handle.slot();
        slot.notified.insert(entry.seq);
        if slot.is_restarting {
            return;
        }
        if self.may_defer(handle) {
            self.defer(&mut slot, handle);
            return;
        }
        // This call comes first: it replaces an actor that died with a full mailbox, and resets the
        // count of its messages.
        let Some(actor) = self.current_actor(&mut slot, handle) else {
            return;
        };
        if handle.queued() >= SESSION_MAILBOX_MAX {
            handle.mark_missed_batch();
            Metrics::get().mailbox_overflows.increment(1);
            Metrics::get()
                .actor(ActorKind::Session)
                .rejected
                .increment(1);
            return;
        }
        handle.enqueue();
        send::send_batch(
            &actor,
            BatchDurable {
                entry,
                queued_at: std::time::Instant::now(),
            },
        );
    }

    /// Returns the session's actor, and starts it if necessary. Returns `None` if this node is done
    /// with the session, or does not act for it.
    pub(super) fn actor_in(
        &self,
        slot: &mut Slot,
        handle: &Arc<SessionHandle>,
    ) -> Option<Addr<SessionActor>> {
        if slot.is_finished {
            return None;
        }
        if let Some(actor) = slot.actor.as_ref().filter(|actor| actor.connected()) {
            return Some(actor.clone());
        }
        // The caller has a message. If no actor takes it, only the store has the batch.
        let is_new = std::mem::take(&mut slot.is_new);
        // The registry builds no actor for a lost shard. A session of a shard that is being
        // released may still have to write.
        self.generation(handle.session_id)?;
        let of_session = self.inner.arbiters.of(handle.session_id)?;
        let passivated = slot.passivated.take();
        let actor = SessionActor::spawn(
            &of_session.arbiter,
            Arc::<Inner>::clone(&self.inner),
            Arc::clone(handle),
            passivated,
            is_new,
        );
        slot.actor = Some(actor.clone());
        handle.clear_queue();
        // The actor is passivated again if it receives nothing.
        let left_ms = self.left_ms(handle);
        self.inner
            .arbiters
            .arm(handle.session_id, left_ms.min(PASSIVATE_AFTER_MS));
        Some(actor)
    }

    /// Returns the session's actor, and starts it if necessary. Returns `None` while it restarts.
    pub(super) fn actor_of(&self, handle: &Arc<SessionHandle>) -> Option<Addr<SessionActor>> {
        let mut slot = handle.slot();
        if slot.is_restarting {
            return None;
        }
        self.current_actor(&mut slot, handle)
    }

    /// Returns the events of a session in progress.
    pub async fn events(&self, handle: &Arc<SessionHandle>) -> Result<LiveEvents, AskError> {
        self.ask(
            handle,
            |actor| async move { actor.send(ReadEvents).await.ok() },
        )
        .await
    }

    /// Returns at most `limit` changes of a session in progress, from number `number` on.
    pub(crate) async fn numbered_changes_since(
        &self,
        handle: &Arc<SessionHandle>,
        number: u32,
        limit: usize,
    ) -> Result<Vec<NumberedChange>, AskError> {
        self.ask(handle, |actor| async move {
            actor.send(ReadChanges { number, limit }).await.ok()?
        })
        .await
    }

    /// Sends a request to the session's actor until it answers, for at most [`READ_TIMEOUT`]. No
    /// actor that has stopped starts again on a node that stops.
    async fn ask<T, F: Future<Output = Option<T>>>(
        &self,
        handle: &Arc<SessionHandle>,
        request: impl Fn(Addr<SessionActor>) -> F,
    ) -> Result<T, AskError> {
        let answer = async {
            loop {
                handle.record_request(self.inner.ports.clock.uptime_ms());
                if let Some(actor) = self.actor_of(handle)
                    && let Some(answer) = request(actor).await
                {
                    return Ok(answer);
                }
                if self.is_draining() {
                    return Err(AskError::Stopped);
                }
                if handle.slot().is_finished {
                    return Err(AskError::Finished);
                }
                tokio::time::sleep(READ_RETRY_DELAY).await;
            }
        };
        tokio::time::timeout(READ_TIMEOUT, answer)
            .await
            .unwrap_or(Err(AskError::TimedOut))
    }

    /// Handles a panic of a session's actor. `seq` is the batch at which it panicked, if any.
    fn restart(&self, handle: &Arc<SessionHandle>, seq: Option<u32>) {
        let verdict = {
            let mut slot = handle.slot();
            slot.actor = None;
            slot.passivated = None;
            slot.is_restarting = true;
            slot.budget.on_panic(self.inner.ports.clock.now(), seq)
        };
        let restarts = handle.slot().budget.panics();
        Fact::ActorPanicked {
            actor: ActorKind::Session,
            session_id: handle.session_id,
            seq,
            restarts,
        }
        .record();
        let (registry, handle) = (self.clone(), Arc::clone(handle));
        let Some(of_session) = self.inner.arbiters.of(handle.session_id) else {
            return;
        };
        of_session.arbiter.spawn(async move {
            match verdict {
                Verdict::Restart(pause) => tokio::time::sleep(pause).await,
                Verdict::Quarantine(seq) => registry.quarantine(handle.session_id, seq).await,
            }
            let mut slot = handle.slot();
            slot.is_restarting = false;
            let waits = registry.ending(handle.session_id).is_some();
            if waits || registry.handle(handle.session_id).is_some() {
                registry.actor_in(&mut slot, &handle);
            }
        });
    }

    async fn quarantine(&self, session_id: SessionId, seq: u32) {
        let mut backoff = QUARANTINE_BACKOFF;
        loop {
            match self
                .inner
                .ports
                .store
                .note(session_id, Note::Quarantined { seq })
                .await
            {
                Ok(()) => return Fact::BatchQuarantined { session_id, seq }.record(),
                Err(error) => store_failed(session_id, "quarantining a batch", &error),
            }
            tokio::time::sleep(backoff.on_failure()).await;
        }
    }
}

impl Host for Inner {
    fn store(&self) -> &Arc<dyn Store> {
        &self.ports.store
    }

    fn is_live(&self, session_id: SessionId) -> bool {
        self.directory.live(session_id).is_some()
    }

    fn generation(&self, session_id: SessionId) -> Option<u64> {
        self.shards.generation(session_id.shard())
    }

    fn drain_reason(&self, session_id: SessionId) -> StopReason {
        if self.admission.is_draining() {
            StopReason::Shutdown
        } else if self.shards.acts_for(session_id.shard()) {
            StopReason::Idle
        } else {
            StopReason::LostOwnership
        }
    }

    fn on_ended(&self, session_id: SessionId, tenant: Tenant) {
        if let Some(inner) = self.me.upgrade() {
            Registry { inner }.on_ended(session_id, tenant);
        }
    }

    fn on_changed(&self, session_id: SessionId) {
        self.watchers.wake(session_id);
    }

    fn on_panicked(&self, handle: &Arc<SessionHandle>, seq: Option<u32>) {
        if let Some(inner) = self.me.upgrade() {
            Registry { inner }.restart(handle, seq);
        }
    }

    fn on_passivated(&self, handle: &Arc<SessionHandle>, passivated: Option<Box<PassivatedState>>) {
        if let Some(inner) = self.me.upgrade() {
            Registry { inner }.keep_passivated(handle, passivated);
        }
    }
}
