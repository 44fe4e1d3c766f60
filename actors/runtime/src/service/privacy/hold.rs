//! Legal holds: a held session is neither deleted by retention nor erased.
//!
//! A hold and an erasure may begin at the same time, on different nodes. Each writes its mark first
//! and then looks for the mark of the other, so at least one of them finds the other and is
//! refused. In the same way, a hold and a removal by retention never miss each other; see
//! [`Removal`](porchlight_core::retention::Removal).

use porchlight_core::privacy::{Mark, SessionAccess};
use porchlight_core::retention::DataClass;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::SessionStart;
use porchlight_schema::time::TimestampMs;

use super::{TenantPrivacy, erase};

/// The reason why a legal hold was not placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldRefused {
    /// The session was erased or is being erased. No hold is left behind.
    #[error("the session is being erased")]
    Erased,
    /// The tenant has too many marks, and nothing was changed.
    #[error("the tenant has too many marks")]
    NoRoom,
    /// Retention is removing data of the session. Whether the session stays is known when the
    /// removal has ended: repeat the call. If the session stays, the mark of the hold stays, so
    /// that no later removal begins.
    #[error("retention is removing data of the session")]
    Removing,
}

impl TenantPrivacy<'_> {
    /// Returns whether the mark of a session, as this process knows it, has a legal hold.
    pub(super) fn is_held(&self, session_id: SessionId) -> bool {
        self.service.privacy.marks.has_any(self.tenant)
            && self.mark_of_session(session_id).is_held()
    }

    /// Returns whether a session is under a legal hold. A hold that waits for the end of a removal
    /// does not count yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn shows_hold(&self, session_id: SessionId) -> StoreResult<bool> {
        let retention = self.service.retention(self.tenant);
        Ok(self.is_held(session_id) && !retention.is_removing(session_id).await?)
    }

    /// Places a legal hold on a session of this tenant, or releases it. May be repeated. A placed
    /// hold renews the time to live of the session's rows.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails; the change may or may not have happened. The inner
    /// error is that of a hold that was not placed.
    pub async fn set_hold(
        &self,
        start: &SessionStart,
        held: bool,
    ) -> StoreResult<Result<(), HoldRefused>> {
        let (session_id, retention) = (start.session_id, self.service.retention(self.tenant));
        let mark = self.mark_of_session(session_id);
        if held && !self.room().has_mark(&mark) {
            return Ok(Err(HoldRefused::NoRoom));
        }
        self.write_hold(session_id, held).await?;
        if held {
            match retention.settle(&Subject::SessionId(session_id)).await? {
                None => {}
                // The session will be gone, so nobody could release the hold.
                Some(DataClass::Insight) => {
                    self.write_hold(session_id, false).await?;
                    return Ok(Err(HoldRefused::Removing));
                }
                Some(DataClass::Telemetry | DataClass::Messages) => {
                    return Ok(Err(HoldRefused::Removing));
                }
            }
        }
        let is_erased = self.service.access(start) == SessionAccess::Erased
            || self.service.find(session_id).await?.is_none();
        match (held, is_erased) {
            (true, true) => self.write_hold(session_id, false).await?,
            (true, false) => {
                // From then on, a daily pass renews them.
                self.service.store().renew_session(session_id).await?;
            }
            // Sweeps have left out the held session.
            (false, _) => retention.restart_sweep().await?,
        }
        Ok(if is_erased {
            Err(HoldRefused::Erased)
        } else {
            Ok(())
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
