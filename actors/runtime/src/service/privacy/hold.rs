//! Legal holds: a held session is neither deleted by retention nor erased.
//!
//! A hold and an erasure may begin at the same time, on different nodes. Each writes its mark first
//! and then looks for the mark of the other, so at least one of them finds the other and is
//! refused.

use porchlight_core::privacy::{Mark, SessionAccess};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;

use super::{TenantPrivacy, erase};

/// The outcome of placing or releasing a legal hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The hold was placed or released, or was so before.
    Done,
    /// The session is being erased. No hold is left behind.
    Erased,
    /// The tenant has too many marks, and nothing was changed.
    NoRoom,
}

impl TenantPrivacy<'_> {
    /// Returns whether a session is under a legal hold.
    #[must_use]
    pub fn is_held(&self, session_id: SessionId) -> bool {
        self.service.privacy.marks.has_any(self.tenant) && self.mark_of_session(session_id).held
    }

    /// Places a legal hold on a session of this tenant, or releases it. May be repeated. A placed hold
    /// renews the time to live of the session's rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails; the change may or may not have happened.
    pub async fn set_hold(&self, start: &SessionStart, held: bool) -> StoreResult<HoldOutcome> {
        let mark = self.mark_of_session(start.session_id);
        if held && !self.room().has_mark(&mark) {
            return Ok(HoldOutcome::NoRoom);
        }
        self.write_hold(start.session_id, held).await?;
        let is_erased = self.service.access(start) == SessionAccess::Erased
            || self.service.find(start.session_id).await?.is_none();
        match (held, is_erased) {
            (true, true) => self.write_hold(start.session_id, false).await?,
            (true, false) => {
                // From then on, a daily pass renews them.
                self.service.store().renew_session(start.session_id).await?;
            }
            // Sweeps have left out the held session.
            (false, _) => self.service.retention(self.tenant).restart_sweep().await?,
        }
        Ok(if is_erased {
            HoldOutcome::Erased
        } else {
            HoldOutcome::Done
        })
    }

    fn mark_of_session(&self, session_id: SessionId) -> Mark {
        let subject = Subject::SessionId(session_id);
        self.service.privacy.marks.of(self.tenant, &subject)
    }

    async fn write_hold(&self, session_id: SessionId, held: bool) -> StoreResult<()> {
        let store = self.service.store().as_ref();
        let subject = Subject::SessionId(session_id);
        let change = |mark: &mut Mark| mark.held = held;
        let marks = &self.service.privacy.marks;
        // Any node may place or release a hold, in the order of its calls.
        marks
            .change(store, self.tenant, &subject, || true, change)
            .await
    }

    /// Returns whether a legal hold protects any session of the subject that was created up to
    /// `until`. Reads the marks that other nodes have changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub(super) async fn has_hold(
        &self,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<bool> {
        let store = self.service.store().as_ref();
        let marks = &self.service.privacy.marks;
        marks.refresh(store).await?;
        if !marks.has_hold(self.tenant) {
            return Ok(false);
        }
        let is_held = |id| self.is_held(id);
        erase::has_held(store, self.tenant, subject, until, is_held).await
    }
}
