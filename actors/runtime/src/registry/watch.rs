//! Watchers of a session. A watcher is woken when there may be something new, and then reads the
//! changes.
//!
//! A wake-up carries no data, and many wake-ups merge into one. So a slow watcher costs nothing,
//! and no watcher misses a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::REMOTE_POLL_MS;
use tokio::sync::watch;

use crate::shards::OwnShards;

/// The sessions that are watched.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    sessions: DashMap<SessionId, watch::Sender<()>>,
    /// The number of watched sessions, which avoids lookups while there is no watcher.
    count: AtomicUsize,
}

impl Watchers {
    /// Watches a session from now on, until the [`Watch`] is dropped.
    pub(super) fn watch(self: &Arc<Self>, session_id: SessionId, shards: Arc<OwnShards>) -> Watch {
        let sender = self.sessions.entry(session_id).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            watch::Sender::new(())
        });
        Watch {
            watchers: Arc::clone(self),
            shards,
            session_id,
            receiver: sender.subscribe(),
        }
    }

    /// Returns whether a session has a watcher.
    pub(super) fn watches(&self, session_id: SessionId) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.sessions.contains_key(&session_id)
    }

    /// Wakes the watchers of a session that may have something new.
    pub(super) fn wake(&self, session_id: SessionId) {
        if self.count.load(Ordering::Relaxed) > 0
            && let Some(sender) = self.sessions.get(&session_id)
        {
            sender.send_replace(());
        }
    }

    /// Wakes all watchers, because the node is stopping or because sessions were hidden or shown.
    pub(super) fn wake_all(&self) {
        for sender in &self.sessions {
            sender.send_replace(());
        }
    }
}

/// Watches one session until it is dropped.
pub struct Watch {
    watchers: Arc<Watchers>,
    shards: Arc<OwnShards>,
    session_id: SessionId,
    receiver: watch::Receiver<()>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
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
        if self.shards.acts_for(self.session_id.shard()) {
            self.changed().await;
        } else {
            let patience = Duration::from_millis(REMOTE_POLL_MS);
            // The caller reads the changes in either case.
            let _changed = tokio::time::timeout(patience, self.changed()).await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let last = |_: &SessionId, sender: &watch::Sender<()>| sender.receiver_count() <= 1;
        if self
            .watchers
            .sessions
            .remove_if(&self.session_id, last)
            .is_some()
        {
            self.watchers.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
