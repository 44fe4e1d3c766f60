//! Keeps the rows of sessions under a restriction or a legal hold, on a store whose rows have a
//! time to live.
//!
//! The rows are renewed when the session is marked and, for as long as it stays marked, whenever
//! half of their time to live has passed. A daily pass through the sessions of each tenant finds
//! them. It does not depend on the wall clock: the database returns the time to live that is left.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use porchlight_observe::error_text;
use porchlight_ports::{SessionFilter, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::RENEWAL_PASS_EVERY_MS;
use porchlight_schema::session::Tenant;

use super::Service;

/// The number of sessions read per query.
const SESSIONS_AT_ONCE: u32 = 200;

/// The uptime in milliseconds at which this process last completed a pass through the sessions of
/// each tenant: one entry for each tenant with a restriction or a legal hold. A process that has
/// just started repeats a pass, which renews nothing twice.
#[derive(Debug, Default)]
pub(super) struct RenewalPasses(Mutex<HashMap<Tenant, i64>>);

impl RenewalPasses {
    fn is_due(&self, tenant: Tenant, uptime_ms: i64) -> bool {
        let passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let completed = passes.get(&tenant);
        completed.is_none_or(|completed_ms| uptime_ms - completed_ms >= RENEWAL_PASS_EVERY_MS)
    }

    fn complete(&self, tenant: Tenant, uptime_ms: i64) {
        let mut passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        passes.insert(tenant, uptime_ms);
    }
}

impl Service {
    /// Renews the rows of the sessions that a restriction or a legal hold keeps, of tenants that
    /// this node owns. Returns the number of renewed sessions. Does nothing if the store's rows do
    /// not expire, and for a tenant whose last pass was completed less than a day ago. A pass that
    /// fails is repeated by the next call.
    pub async fn renew_kept(&self) -> u64 {
        let mut renewed = 0;
        if !self.store().rows_expire() {
            return renewed;
        }
        for tenant in self.privacy.marks.keeping_tenants() {
            if let Err(error) = self.renew_kept_of(tenant, &mut renewed).await {
                tracing::warn!(organization = %tenant.organization_id, error = error_text(&error), "sessions under a restriction or a legal hold cannot be renewed");
            }
        }
        renewed
    }

    async fn renew_kept_of(&self, tenant: Tenant, renewed: &mut u64) -> StoreResult<()> {
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        if !self.renewal_passes.is_due(tenant, uptime_ms) {
            return Ok(());
        }
        let (filter, mut after) = (SessionFilter::default(), None);
        loop {
            if !self.retention(tenant).may_sweep() {
                return Ok(());
            }
            let page = self.store().list(tenant, &filter, SESSIONS_AT_ONCE, after);
            let page = page.await?;
            let marks = &self.privacy.marks;
            for row in page.rows.iter().filter(|row| marks.keeps(&row.start)) {
                *renewed += u64::from(self.renew_readable(row.start.session_id).await?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.renewal_passes.complete(tenant, uptime_ms);
        Ok(())
    }

    /// Renews the rows of a session. A session with a damaged row is left as it is, so that it
    /// does not stop the renewal of others.
    pub(super) async fn renew_readable(&self, session_id: SessionId) -> StoreResult<bool> {
        match self.store().renew_session(session_id).await {
            Err(error @ StoreError::Damaged(_)) => {
                tracing::error!(error = error_text(&error), session = %session_id, "a session with a damaged row cannot be renewed and will expire");
                Ok(false)
            }
            Err(error @ StoreError::Newer(_)) => {
                tracing::warn!(error = error_text(&error), session = %session_id, "a session with a row of a later release is not renewed by this process");
                Ok(false)
            }
            renewed => renewed,
        }
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_pass_is_due_at_first_and_a_day_after_it_was_completed() {
        let [tenant, other] = [1, 2].map(|number| Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), number),
            env: Env::Production,
        });
        let passes = RenewalPasses::default();
        assert!(passes.is_due(tenant, 5));
        passes.complete(tenant, 5);
        assert!(!passes.is_due(tenant, 4 + RENEWAL_PASS_EVERY_MS));
        assert!(passes.is_due(tenant, 5 + RENEWAL_PASS_EVERY_MS));
        assert!(passes.is_due(other, 5));
    }
}
