//! Watchers of a session. A watcher is woken when there may be something new, and then looks.
//!
//! A wake-up carries no data, and many wake-ups merge into one. So a slow watcher costs nothing,
//! and no watcher misses a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix::Addr;
use dashmap::DashMap;
use porchlight_core::timeline::NumberedChange;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::EDGE_POLL_MS;
use tokio::sync::watch;

use super::{ASK, AskError, Handle, Registry};
use crate::session::{ReadChanges, SessionActor};

/// The sessions that are watched.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    sessions: DashMap<SessionId, watch::Sender<()>>,
    /// The number of watched sessions, which avoids lookups while there is no watcher.
    count: AtomicUsize,
}

/// Watches one session until it is dropped.
#[derive(Debug)]
pub struct Watch {
    registry: Registry,
    session_id: SessionId,
    receiver: watch::Receiver<()>,
}

impl Watch {
    /// Waits until there may be something new since the last call.
    pub async fn changed(&mut self) {
        // The sender lives as long as there is a watcher, such as this one.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits like [`Watch::changed`], but at most a second if another node acts for the session,
    /// because nothing wakes the watcher here.
    pub async fn changed_anywhere(&mut self) {
        if self.registry.acts_for(self.session_id) {
            self.changed().await;
        } else {
            let patience = Duration::from_millis(EDGE_POLL_MS);
            // The caller looks after either of the two.
            let _changed = tokio::time::timeout(patience, self.changed()).await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let watched = &self.registry.inner.watched;
        let last = |_: &SessionId, sender: &watch::Sender<()>| sender.receiver_count() <= 1;
        if watched.sessions.remove_if(&self.session_id, last).is_some() {
            watched.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Registry {
    /// Watches a session from now on. The caller looks at it after this call, and again after each
    /// [`Watch::changed`].
    #[must_use]
    pub fn watch(&self, session_id: SessionId) -> Watch {
        let watched = &self.inner.watched;
        let sender = watched.sessions.entry(session_id).or_insert_with(|| {
            watched.count.fetch_add(1, Ordering::Relaxed);
            watch::Sender::new(())
        });
        Watch {
            registry: self.clone(),
            session_id,
            receiver: sender.subscribe(),
        }
    }

    /// Wakes the watchers of a session that may have something new.
    pub(crate) fn wake_watchers(&self, session_id: SessionId) {
        let watched = &self.inner.watched;
        if watched.count.load(Ordering::Relaxed) > 0
            && let Some(sender) = watched.sessions.get(&session_id)
        {
            sender.send_replace(());
        }
    }

    /// Wakes all watchers because the node is stopping.
    pub(super) fn wake_all_watchers(&self) {
        for sender in &self.inner.watched.sessions {
            sender.send_replace(());
        }
    }

    pub(super) fn actor_of(&self, handle: &Arc<Handle>) -> Option<Addr<SessionActor>> {
        let mut slot = handle.slot();
        if slot.restarting {
            return None;
        }
        self.actor_in(&mut slot, handle)
    }

    /// Returns at most `limit` changes of a session in progress, from number `number` on.
    pub(crate) async fn numbered_changes_since(
        &self,
        handle: &Arc<Handle>,
        number: u32,
        limit: usize,
    ) -> Result<Vec<NumberedChange>, AskError> {
        let asked = async {
            loop {
                if let Some(actor) = self.actor_of(handle)
                    && let Ok(Some(changes)) = actor.send(ReadChanges { number, limit }).await
                {
                    return changes;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(ASK, asked)
            .await
            .map_err(|_elapsed| AskError)
    }
}
