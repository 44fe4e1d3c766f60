//! Manages privacy requests: a tenant submits them here, and [`run`] performs them.

mod access;
mod deleted;
mod erase;
mod hold;
mod log;
mod measure;
mod perform;
mod requests;
mod run;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use porchlight_core::privacy::{PrivacyRequest, Purges, Schedule, SessionAccess};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use tokio::sync::Notify;

use super::Service;
use crate::privacy::{Marks, Restrictions};

pub use hold::HoldRefused;
pub use log::{LoggedErasure, apply_erasures, logged_erasures};
pub use requests::{NewRequest, RequestPage, Submitted, TenantPrivacy, is_position};
pub use run::PrivacySettings;

/// The function that signs the receipt of a completed erasure. It returns `None` for a request that
/// gets no receipt.
pub type SignReceipt = Arc<
    dyn Fn(&PrivacyRequest) -> Result<Option<String>, Box<dyn Error + Send + Sync>> + Send + Sync,
>;

/// The state of privacy requests in this process.
#[derive(Default)]
pub(super) struct Privacy {
    pub(super) marks: Arc<Marks>,
    settings: OnceLock<PrivacySettings>,
    /// The open requests of the tenants that this process acts for.
    schedule: Mutex<Schedule>,
    /// The number of open requests of each tenant at the last scan.
    open_counts: Mutex<BTreeMap<Tenant, usize>>,
    /// Whether a request was submitted since the last scan began.
    has_submitted: AtomicBool,
    wake: Notify,
    purging: tokio::sync::Mutex<()>,
    purges: Mutex<Purges>,
}

impl std::fmt::Debug for Privacy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Privacy").finish_non_exhaustive()
    }
}

impl Privacy {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_counts(&self) -> MutexGuard<'_, BTreeMap<Tenant, usize>> {
        self.open_counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_open_counts(&self, counts: BTreeMap<Tenant, usize>) {
        *self.open_counts() = counts;
    }

    fn open_count(&self, tenant: Tenant) -> usize {
        self.open_counts().get(&tenant).copied().unwrap_or(0)
    }

    /// Lets the open requests be listed immediately.
    fn on_submitted(&self) {
        self.has_submitted.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    fn take_submitted(&self) -> bool {
        self.has_submitted.swap(false, Ordering::AcqRel)
    }

    fn purges(&self) -> MutexGuard<'_, Purges> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// Returns access to the privacy requests of this tenant.
    #[must_use]
    pub fn privacy(&self, tenant: Tenant) -> TenantPrivacy<'_> {
        TenantPrivacy {
            service: self,
            tenant,
        }
    }

    /// Returns the access that callers have to a session.
    #[must_use]
    pub fn access(&self, start: &SessionStart) -> SessionAccess {
        self.privacy.marks.access(start)
    }

    /// Returns a session of any tenant, unless it is restricted or being erased.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn find_shown(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        let row = self.find(session_id).await?;
        Ok(row.filter(|row| self.is_shown(row)))
    }

    /// Returns whether a session may be shown.
    pub(super) fn is_shown(&self, row: &SessionRow) -> bool {
        self.access(&row.start) == SessionAccess::Open
    }

    /// Returns whether a courier is prevented from starting sessions.
    #[must_use]
    pub fn is_suppressed(&self, tenant: Tenant, external_rider_id: &str) -> bool {
        if !self.privacy.marks.has_any(tenant) {
            return false;
        }
        let rider = Subject::ExternalRiderId(external_rider_id.to_owned());
        self.privacy.marks.of(tenant, &rider).suppressed
    }

    /// Returns the access that callers have to this session. Reads the store only if the tenant has
    /// marks.
    pub(super) async fn access_of(
        &self,
        tenant: Tenant,
        session_id: SessionId,
    ) -> StoreResult<SessionAccess> {
        if !self.privacy.marks.has_any(tenant) {
            return Ok(SessionAccess::Open);
        }
        let row = self.find(session_id).await?;
        Ok(row.map_or(SessionAccess::Erased, |row| self.access(&row.start)))
    }

    /// Returns the restrictions that determine the sessions that webhooks must not mention.
    #[must_use]
    pub fn restrictions(&self) -> Restrictions {
        Restrictions {
            marks: Arc::clone(&self.privacy.marks),
            store: Arc::clone(self.store()),
        }
    }

    /// Makes removed rows unreadable in the files of the store. Requests that wait meanwhile share
    /// the next call that succeeds.
    async fn purge(&self) -> StoreResult<()> {
        let begun_before = self.privacy.purges().begun();
        let _guard = self.privacy.purging.lock().await;
        if self.privacy.purges().succeeded_after(begun_before) {
            return Ok(());
        }
        let number = self.privacy.purges().begin();
        self.store().purge().await?;
        self.privacy.purges().succeed(number);
        Ok(())
    }
}
