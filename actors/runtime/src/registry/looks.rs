//! Sessions that are to be looked at, because another node said so or handed over a batch of one that is not known here:
//! the store says what is to be done.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use porchlight_observe::peer::PeerMetrics;
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{END_SETTLES_MS, LOOKS_AT_ONCE_MAX, LOOKS_WAITING_MAX};
use tokio::sync::Semaphore;

use super::Registry;

/// The first pause after a failure; each further one is twice as long, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// See [`PAUSE_FIRST`].
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The sessions that are to be looked at; true: asked for again while that is done.
#[derive(Debug)]
pub(super) struct Looks {
    asked: Mutex<BTreeMap<SessionId, bool>>,
    places: Semaphore,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            places: Semaphore::new(LOOKS_AT_ONCE_MAX),
        }
    }
}

impl Looks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, bool>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody has to begin.
    fn ask(&self, session_id: SessionId) -> bool {
        let mut asked = self.lock();
        if let Some(again) = asked.get_mut(&session_id) {
            *again = true;
            return false;
        }
        let has_room = asked.len() < LOOKS_WAITING_MAX;
        if has_room {
            asked.insert(session_id, false);
        } else {
            PeerMetrics::get().looks_lost.increment(1);
        }
        has_room
    }

    /// It was looked at; whether it is to be looked at once more.
    fn done(&self, session_id: SessionId) -> bool {
        self.lock().remove(&session_id).unwrap_or(false)
    }
}

impl Registry {
    /// Looks at a session in the store and does what it needs: one that records is taken on, of one that has ended the
    /// insight is made. Never waits.
    pub(crate) fn look_at(&self, session_id: SessionId) {
        let Some(lane) = self.lane(session_id) else {
            return;
        };
        if !self.acts_for(session_id) || !self.inner.looks.ask(session_id) {
            return;
        }
        let registry = self.clone();
        lane.arbiter.spawn(async move {
            let mut pause = PAUSE_FIRST;
            while let Err(error) = registry.look(session_id).await {
                registry.store_failed(session_id, "looking at a session", &error);
                if registry.is_draining() {
                    break;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            if registry.inner.looks.done(session_id) {
                registry.look_at(session_id);
            }
        });
    }

    async fn look(&self, session_id: SessionId) -> StoreResult<()> {
        // The semaphore is never closed; over a pause the place is another's.
        let _place = self.inner.looks.places.acquire().await.ok();
        if !self.acts_for(session_id) {
            return Ok(());
        }
        let store = &self.inner.store;
        match store.find(session_id).await? {
            None => {}
            Some(SessionRow { end: Some(end), .. }) => {
                let age_ms = self.inner.clock.now().since_ms(end.completed_at);
                if self.handle(session_id).is_some() || age_ms < END_SETTLES_MS as i64 {
                    self.on_ended(session_id);
                } else {
                    self.inner.scoring.request(session_id);
                }
            }
            Some(row) if self.handle(session_id).is_none() => {
                let newest = store.newest(session_id).await?;
                let created_at = row.start.created_at;
                let heard_at = newest.map_or(created_at, |(_, received_at)| received_at);
                let handle = self.adopt(&row, heard_at.max(created_at));
                if newest.is_some() {
                    self.actor_of(&handle);
                }
                self.wake_watchers(session_id);
            }
            Some(_) => {}
        }
        Ok(())
    }
}
