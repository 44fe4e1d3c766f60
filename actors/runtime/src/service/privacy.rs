//! Manages privacy requests: a tenant submits them here, and [`run`] performs them.

mod access;
mod deleted;
mod erase;
mod hold;
mod log;
mod measure;
mod requests;
mod run;

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use porchlight_core::privacy::{PrivacyRequest, Purges, SessionAccess};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use tokio::sync::Notify;

use super::Service;
use crate::privacy::{Marks, Restrictions};

pub use log::{LoggedErasure, apply_erasures, logged_erasures};
pub use requests::{NewRequest, RequestPage, Submitted, TenantPrivacy, is_position};
pub use run::PrivacySettings;

/// Signs the receipt of a completed erasure. Returns `None` for a request that gets no receipt.
pub type SignReceipt = Arc<
    dyn Fn(&PrivacyRequest) -> Result<Option<String>, Box<dyn Error + Send + Sync>> + Send + Sync,
>;

/// The state of privacy requests in this process.
#[derive(Default)]
pub(super) struct Privacy {
    pub(super) marks: Arc<Marks>,
    settings: OnceLock<PrivacySettings>,
    /// The requests that this process is performing.
    running: Mutex<HashSet<Vec<u8>>>,
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
    /// Reserves a request for this process. Returns `false` if it is already reserved.
    fn reserve(&self, key: &[u8]) -> bool {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(key.to_vec())
    }

    fn release(&self, key: &[u8]) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(key);
    }

    fn purges(&self) -> MutexGuard<'_, Purges> {
        self.purges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.len()
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

    /// Returns whether a courier is barred from starting sessions.
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
