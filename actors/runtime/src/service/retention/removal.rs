//! Removes the data of sessions in pages, each of which is stored first; see [`Removal`].

use std::time::Duration;

use porchlight_core::privacy::Mark;
use porchlight_core::retention::{DataClass, Removal};
use porchlight_ports::{Note, SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;

use super::{ReadPolicy, StoredPolicy, Swept, TenantRetention, readable};
use crate::rounds::Rounds;

/// The number of sessions of a removal. A hold of one of them waits for all of them.
const SESSIONS_AT_ONCE: usize = 25;
/// The pause between two reads of a removal that a hold or a restriction waits for.
const POLL: Duration = Duration::from_millis(100);
/// The number of times that a hold or a restriction reads a removal before it fails.
const POLLS_MAX: u32 = 50;

impl TenantRetention<'_> {
    /// Removes one class of data of these sessions, unless a mark keeps it. Returns the number of
    /// sessions from which it removed data, or `None` if this node may no longer sweep, or if
    /// the policy has changed.
    pub(super) async fn remove(
        &self,
        class: DataClass,
        rows: &[SessionRow],
        read: &mut ReadPolicy,
        swept: &mut Swept,
    ) -> StoreResult<Option<u64>> {
        let mut removed = 0;
        for page in rows.chunks(SESSIONS_AT_ONCE) {
            let Some(decided) = self.decide(class, page, read).await? else {
                return Ok(None);
            };
            let Some(removal) = decided else {
                continue;
            };
            let Some(of_page) = self.perform(&removal, swept).await? else {
                return Ok(None);
            };
            removed += of_page;
            if !self.end(&removal, read).await? {
                return Ok(None);
            }
        }
        Ok(Some(removed))
    }

    /// Stores the removal of a page, reads the marks, and stores the decided removal; the inner
    /// value is `None` if marks keep all sessions.
    async fn decide(
        &self,
        class: DataClass,
        page: &[SessionRow],
        read: &mut ReadPolicy,
    ) -> StoreResult<Option<Option<Removal>>> {
        let (service, store) = (self.service, self.service.store().as_ref());
        // The lower bits are as random as the others.
        let number = service.registry().ports().entropy.random() as u64;
        let sessions = page.iter().map(|row| row.start.session_id).collect();
        let planned = Removal::plan(number, class, sessions);
        if !self.store_removal(read, Some(planned.clone())).await? {
            return Ok(None);
        }
        // Another node may have placed a hold or a restriction just now. Damaged marks are not a
        // fault of this session, so the sweep stops here instead of skipping the session.
        let refreshed = service.privacy.marks.refresh(store).await;
        refreshed.map_err(StoreError::unavailable)?;
        if !self.may_sweep() {
            return Ok(None);
        }
        let must_keep = |id: SessionId| {
            let row = page.iter().find(|row| row.start.session_id == id);
            !row.is_some_and(|row| self.may_remove(row))
        };
        let decided = planned.decide(must_keep);
        let is_stored = self.store_removal(read, decided.clone()).await?;
        Ok(is_stored.then_some(decided))
    }

    async fn store_removal(
        &self,
        read: &mut ReadPolicy,
        removal: Option<Removal>,
    ) -> StoreResult<bool> {
        let next = StoredPolicy {
            removal,
            ..read.stored.clone()
        };
        self.replace(read, next).await
    }

    /// Removes the data of a decided removal. May be repeated. Returns the number of sessions, or
    /// `None` if this node may no longer sweep.
    async fn perform(&self, removal: &Removal, swept: &mut Swept) -> StoreResult<Option<u64>> {
        let mut removed = 0;
        for &session_id in &removal.sessions {
            if !self.may_sweep() {
                return Ok(None);
            }
            let done = self.remove_from(session_id, removal.class).await;
            // `store.retention` removes a session with a damaged row later.
            if readable(session_id, done)?.unwrap_or(false) {
                swept.count(removal.class);
                removed += 1;
            }
        }
        Ok(Some(removed))
    }

    /// Removes one class of data of a session. Returns `false` if the session is gone.
    async fn remove_from(&self, session_id: SessionId, class: DataClass) -> StoreResult<bool> {
        let (service, store) = (self.service, self.service.store().as_ref());
        if class == DataClass::Insight {
            service.registry().drop_erased(session_id);
            store.erase_session(session_id).await?;
            return Ok(true);
        }
        if store.find(session_id).await?.is_none() {
            return Ok(false);
        }
        // A note comes before the removal: from then on the session is not scored again, which
        // would find less than the first time.
        if class == DataClass::Telemetry {
            store.note(session_id, Note::TelemetryExpired).await?;
            store.remove_telemetry(session_id).await?;
        } else {
            store.note(session_id, Note::MessagesExpired).await?;
            store.remove_messages(session_id).await?;
        }
        Ok(true)
    }

    /// Removes a removal that has ended from the policy. Returns `false` if the policy was changed
    /// in the meantime.
    async fn end(&self, removal: &Removal, read: &mut ReadPolicy) -> StoreResult<bool> {
        let (mut is_unchanged, mut rounds) = (true, Rounds::new());
        while !self.store_removal(read, None).await? {
            is_unchanged = false;
            rounds.on_lost().await?;
            *read = self.read().await?;
            let stored = read.stored.removal.as_ref();
            if !stored.is_some_and(|stored| stored.is_same(removal)) {
                break;
            }
        }
        Ok(is_unchanged)
    }

    /// Completes the removal that a killed process or a former owner of the tenant has left.
    /// Returns `false` if this node may no longer sweep, or if the policy has changed.
    pub(super) async fn finish(
        &self,
        read: &mut ReadPolicy,
        swept: &mut Swept,
    ) -> StoreResult<bool> {
        let Some(removal) = read.stored.removal.clone() else {
            return Ok(true);
        };
        if !self.may_sweep() {
            return Ok(false);
        }
        if removal.is_decided() && self.perform(&removal, swept).await?.is_none() {
            return Ok(false);
        }
        self.end(&removal, read).await
    }

    /// Completes the removal that another process has left, if there is one and this node acts for
    /// the tenant.
    pub(super) async fn finish_left(&self, swept: &mut Swept) -> StoreResult<()> {
        if !self.may_sweep() {
            return Ok(());
        }
        let mut read = self.read().await?;
        self.finish(&mut read, swept).await.map(drop)
    }

    /// Waits until no removal concerns a subject of which a mark was written before, so that
    /// retention removes nothing of it from now on. Returns the class of data of a removal that
    /// lasts too long.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub(in crate::service) async fn settle(
        &self,
        subject: &Subject,
    ) -> StoreResult<Option<DataClass>> {
        let mut class = None;
        for _ in 0..POLLS_MAX {
            let mut read = match self.read().await {
                // No sweep uses a damaged policy.
                Err(StoreError::Damaged(_)) => return Ok(None),
                read => read?,
            };
            let Some(removal) = read.stored.removal.clone() else {
                return Ok(None);
            };
            if !self.concerns(&removal, subject).await? {
                return Ok(None);
            }
            class = Some(removal.class);
            if removal.is_decided() {
                tokio::time::sleep(POLL).await;
            } else if self.store_removal(&mut read, None).await? {
                // The removal has removed nothing, and its sweep can no longer decide it.
                return Ok(None);
            }
        }
        Ok(class)
    }

    /// Returns whether a removal that is already decided covers data of a session, so that a mark
    /// written now does not protect it.
    pub(in crate::service) async fn is_removing(&self, session_id: SessionId) -> StoreResult<bool> {
        let removal = match self.read().await {
            Err(StoreError::Damaged(_)) => None,
            read => read?.stored.removal,
        };
        Ok(removal.is_some_and(|one| one.is_decided() && one.sessions.contains(&session_id)))
    }

    async fn concerns(&self, removal: &Removal, subject: &Subject) -> StoreResult<bool> {
        for &session_id in &removal.sessions {
            if *subject == Subject::SessionId(session_id) {
                return Ok(true);
            }
            if matches!(subject, Subject::SessionId(_)) {
                continue;
            }
            let is_covered = match self.service.find(session_id).await {
                Err(StoreError::Damaged(_)) => true,
                row => row?.is_some_and(|row| Mark::subjects_of(&row.start).contains(subject)),
            };
            if is_covered {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
