//! Notifications and requests from other nodes about the sessions that this node acts for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use porchlight_core::context::SessionContext;
use porchlight_core::session::SessionMachine;
use porchlight_core::timeline::NumberedChange;
use porchlight_observe::peer::{LiveOutcome, PeerMetrics};
use porchlight_ports::{JournalEntry, LiveAnswer, PeerError, SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;

use super::{Live, Service};
use crate::journal;
use crate::registry::AskError;
use crate::session::SessionHandle;
use crate::yielding::Yielding;

/// The number of times that a read looks a session's handle up if this node is done with the handle
/// before the actor answers.
const LOOK_UPS_MAX: usize = 2;

impl Service {
    /// Takes a batch that another node has made durable. Returns `false` if this node does not act
    /// for the session. Never waits.
    #[must_use]
    pub fn accept_forwarded(&self, session_id: SessionId, seq: u32, batch: PackedBatch) -> bool {
        let is_ours = self.registry().acts_for(session_id);
        if is_ours {
            self.store().learn_forwarded(session_id, seq);
            // The message does not contain the time at which the other node received the batch.
            let received_at = self.now();
            let entry = JournalEntry {
                seq,
                received_at,
                batch,
            };
            self.registry().deliver(session_id, entry);
        }
        is_ours
    }

    /// Queues the reconciliation of a session that another node has started, ended, or attached a
    /// PoD to. Never waits.
    pub fn queue_reconcile(&self, session_id: SessionId) {
        self.registry().queue_reconcile(session_id);
    }

    /// Returns the events so far of a session that this node acts for.
    ///
    /// # Errors
    ///
    /// See [`PeerError`].
    pub async fn live(&self, session_id: SessionId) -> Result<LiveAnswer, PeerError> {
        // The session may be scored, or move to another node and back, between the look-up of its
        // handle and the question to its actor.
        for _ in 0..LOOK_UPS_MAX {
            let Some(handle) = self.own_handle(session_id).await? else {
                // The session is scored, or no node has reconciled it since it ended.
                return Ok(LiveAnswer {
                    events: Vec::new(),
                    changed_at: None,
                });
            };
            match self.registry().events(&handle).await {
                Err(AskError::Finished) => {}
                Err(error) => return Err(error.into()),
                Ok(live) => {
                    return Ok(LiveAnswer {
                        events: live.events,
                        changed_at: live.changed_at,
                    });
                }
            }
        }
        Err(PeerError::NotOwner)
    }

    /// Returns at most `limit` changes numbered `number` and up, of a session in progress that this
    /// node acts for.
    ///
    /// # Errors
    ///
    /// See [`PeerError`].
    pub async fn changes(
        &self,
        session_id: SessionId,
        number: u32,
        limit: usize,
    ) -> Result<Vec<NumberedChange>, PeerError> {
        let Some(handle) = self.own_handle(session_id).await? else {
            return Ok(Vec::new());
        };
        let registry = self.registry();
        Ok(registry
            .numbered_changes_since(&handle, number, limit)
            .await?)
    }

    /// Returns the handle of a session that this node acts for, and takes the session on if
    /// necessary. Returns `None` if the session has ended and its actor has stopped.
    async fn own_handle(
        &self,
        session_id: SessionId,
    ) -> Result<Option<Arc<SessionHandle>>, PeerError> {
        let registry = self.registry();
        if !registry.acts_for(session_id) {
            return Err(PeerError::NotOwner);
        }
        let known = registry.handle(session_id);
        if let Some(handle) = known.or_else(|| registry.ending(session_id)) {
            return Ok(Some(handle));
        }
        let row = self.find(session_id).await;
        let row = row.map_err(|_| PeerError::Unreachable)?;
        match row.filter(|row| row.end.is_none()) {
            Some(row) => {
                let taken_on = self.adopt_session(&row).await;
                taken_on.map(Some).map_err(|_| PeerError::Unreachable)
            }
            None => Ok(None),
        }
    }

    /// Returns the events so far of a session that is not scored, from its owner or else from the
    /// store.
    pub(super) async fn live_anywhere(&self, row: &SessionRow) -> StoreResult<Live> {
        let (registry, session_id) = (self.registry(), row.start.session_id);
        let answer = if registry.acts_for(session_id) {
            match self.live(session_id).await {
                Err(PeerError::Unreachable) => {
                    let detail = "the session's actor did not answer in time";
                    return Err(StoreError::unavailable(detail));
                }
                answer => answer,
            }
        } else {
            let answer = registry.ports().peers.live(session_id).await;
            PeerMetrics::get().on_live(match &answer {
                Ok(_) => LiveOutcome::Answered,
                Err(PeerError::NotOwner) => LiveOutcome::NotOwner,
                Err(PeerError::Unreachable) => LiveOutcome::Unreachable,
            });
            answer
        };
        match answer {
            Ok(LiveAnswer { events, changed_at }) => Ok(Live {
                events,
                changed_at,
                age_sec: None,
            }),
            Err(_) => self.live_without_owner(row).await,
        }
    }

    /// Returns the events so far from the last snapshot, or from the journal if this release cannot
    /// read the snapshot. Their age is that of the first batch that they lack.
    async fn live_without_owner(&self, row: &SessionRow) -> StoreResult<Live> {
        let session_id = row.start.session_id;
        let machine = match self.store().newest_snapshot(session_id).await? {
            None => SessionMachine::default(),
            Some(snapshot) => match restored(&snapshot.state) {
                Some(machine) => machine,
                None => self.machine_of_journal(row).await?,
            },
        };
        let next_seq = machine.next_seq();
        let further = self.store().read(session_id, next_seq, 1).await?;
        let missed_since = further.first().map(|entry| entry.received_at);
        let age_ms = missed_since.map_or(0, |since| self.now().since_ms(since));
        Ok(Live {
            events: machine.events().to_vec(),
            changed_at: machine.changed_at(),
            age_sec: Some(u32::try_from(age_ms.max(0) / 1_000).unwrap_or(u32::MAX)),
        })
    }

    /// Computes the machine of a live session from its journal, without deciding about gaps.
    async fn machine_of_journal(&self, row: &SessionRow) -> StoreResult<SessionMachine> {
        // Each computation takes as long as a scoring, so only a few run concurrently.
        let turn = self.feeds.take(row.start.tenant.organization_id);
        let _turn = turn.await.map_err(StoreError::unavailable)?;
        let (store, session_id) = (self.store().as_ref(), row.start.session_id);
        let notes = store.notes(session_id).await?;
        let (skipped, quarantined) = (
            notes.iter().filter_map(|note| note.skipped()),
            notes.iter().filter_map(|note| note.quarantined()),
        );
        let (context, mut machine) = (SessionContext::new(&row.start), SessionMachine::default());
        machine.recall(skipped, quarantined);
        let (mut pages, mut yielding) = (journal::pages(store, session_id), Yielding::default());
        while let Some(page) = pages.next().await? {
            for entry in &page {
                let apply = || {
                    let _step = machine.receive(&context, entry.seq, &entry.batch);
                    machine.record_changes(entry.received_at);
                };
                if catch_unwind(AssertUnwindSafe(apply)).is_err() {
                    let detail = "a detector panicked at a batch of the session";
                    return Err(StoreError::unavailable(detail));
                }
                yielding.after(entry.batch.samples()).await;
            }
        }
        Ok(machine)
    }
}

/// Returns the machine of a snapshot's state, or `None` if the state cannot be read because it is
/// damaged or of another release.
fn restored(state: &[u8]) -> Option<SessionMachine> {
    let restored = catch_unwind(AssertUnwindSafe(|| SessionMachine::restore(state)));
    restored.ok()?.ok()
}
