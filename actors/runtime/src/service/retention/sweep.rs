//! Applies the retention of one tenant: finds the sessions whose data has expired.

use porchlight_core::privacy::SessionAccess;
use porchlight_core::retention::{DataClass, next_span};
use porchlight_observe::error_text;
use porchlight_ports::{SessionFilter, SessionRow, StoreError, StoreResult};
use porchlight_schema::limits::RETENTION_STEP_MS;
use porchlight_schema::time::TimestampMs;

use super::{ReadPolicy, Swept, TenantRetention};
use crate::audit;
use crate::scoring::is_settled;

/// The number of sessions read per query.
const SESSIONS_AT_ONCE: u32 = 200;

impl TenantRetention<'_> {
    /// Returns whether this node sweeps the data of the tenant now.
    pub(in crate::service) fn may_sweep(&self) -> bool {
        let ownership = &self.service.registry().ports().ownership;
        let shard = self.tenant.organization_id.shard();
        !self.service.is_draining() && ownership.generation(shard).is_some()
    }

    /// Removes the lines of the audit log that are older than their retention. Returns the number
    /// of removed groups.
    pub(super) async fn expire_audit_log(&self) -> StoreResult<u64> {
        let (store, now) = (self.service.store(), self.service.now());
        let kept_ms = self.policy().await?.audit_kept_ms();
        match audit::expire(store, self.tenant, kept_ms, now).await {
            // The check of the log reports it.
            Err(error @ StoreError::Damaged(_)) => {
                tracing::warn!(organization = %self.tenant.organization_id, error = error_text(&error), "an audit log with a damaged row does not expire");
                Ok(0)
            }
            expired => expired,
        }
    }

    /// Applies the policy for one class, in small spans of time.
    pub(super) async fn sweep(&self, class: DataClass, swept: &mut Swept) -> StoreResult<()> {
        let (service, bounds) = (self.service, self.service.retention_bounds());
        let mut read = self.read().await?;
        if !self.finish(&mut read, swept).await? {
            return Ok(());
        }
        let now = service.now();
        let span = next_span(
            &read.stored.policy,
            read.stored.progress,
            class,
            &bounds,
            now,
        );
        let Some(span) = span else {
            return Ok(());
        };
        let mut from = span.from;
        while from < span.to {
            if !self.may_sweep() {
                return Ok(());
            }
            let to = span.to.min(from.plus_ms(RETENTION_STEP_MS));
            let removed = self.sweep_span(class, from, to, &mut read, swept);
            let Some(removed) = removed.await? else {
                return Ok(());
            };
            from = to;
            if removed == 0 && from < span.to {
                continue;
            }
            let mut next = read.stored.clone();
            next.progress.advance(class, to);
            if !self.replace(&mut read, next).await? {
                // The policy was changed: the next sweep reads it.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Removes the data of the sessions that were created within a span. Returns the number of
    /// sessions from which it removed data, or `None` if this node may no longer sweep, or if
    /// the policy has changed.
    async fn sweep_span(
        &self,
        class: DataClass,
        from: TimestampMs,
        to: TimestampMs,
        read: &mut ReadPolicy,
        swept: &mut Swept,
    ) -> StoreResult<Option<u64>> {
        let filter = SessionFilter {
            from: Some(from),
            to: Some(to),
            ..SessionFilter::default()
        };
        let (store, mut after, mut removed) = (self.service.store(), None, 0);
        loop {
            let page = store.list(self.tenant, &filter, SESSIONS_AT_ONCE, after);
            let page = page.await?;
            let mut expired = Vec::new();
            for row in page.rows {
                if self.is_removable(class, &row).await? {
                    expired.push(row);
                }
            }
            let Some(of_page) = self.remove(class, &expired, read, swept).await? else {
                return Ok(None);
            };
            removed += of_page;
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(Some(removed)),
            }
        }
    }

    /// Returns whether the data of a session may be removed, by the marks that this node knows.
    pub(super) fn may_remove(&self, row: &SessionRow) -> bool {
        row.end.is_some()
            && !self.service.privacy.marks.keeps(&row.start)
            && self.service.access(&row.start) == SessionAccess::Open
    }

    /// Returns whether one class of data of a session may be removed. The session keeps it if it
    /// has not ended, if it is restricted or held, or if it is not scored yet.
    async fn is_removable(&self, class: DataClass, row: &SessionRow) -> StoreResult<bool> {
        if !self.may_remove(row) {
            return Ok(false);
        }
        if class == DataClass::Insight {
            return Ok(true);
        }
        let is_settled = is_settled(self.service.store().as_ref(), row).await;
        // `store.retention` removes a session with a damaged row later.
        Ok(super::readable(row.start.session_id, is_settled)?.unwrap_or(false))
    }
}
