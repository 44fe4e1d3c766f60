//! The sessions of one tenant. All customer reads of the store go through here, so that no customer
//! reaches the sessions of another.

use std::sync::Arc;

use porchlight_ports::{
    Acknowledged, JournalEntry, Page, SessionFilter, SessionOutcome, SessionRow, StoreError,
    StoreResult, StoredInsight,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{ACKNOWLEDGED_RANGES_MAX, SAMPLE_T_MS_MAX};
use porchlight_schema::session::{SessionStatus, Tenant};
use porchlight_schema::time::TimestampMs;

use super::Service;

/// The maximum age of a session in progress since its creation: that of its last sample.
const LIVE_AGE_MS_MAX: i64 = SAMPLE_T_MS_MAX as i64;

/// The sessions of one tenant, created by [`Service::of`].
#[derive(Debug, Clone, Copy)]
pub struct TenantSessions<'s> {
    pub(super) service: &'s Service,
    tenant: Tenant,
}

impl Service {
    /// Returns the sessions of this tenant.
    #[must_use]
    pub fn of(&self, tenant: Tenant) -> TenantSessions<'_> {
        TenantSessions {
            service: self,
            tenant,
        }
    }
}

impl TenantSessions<'_> {
    pub(super) fn owns(&self, row: &SessionRow) -> bool {
        row.start.tenant == self.tenant
    }

    /// Returns a session, or `None` if this tenant has no session with that id.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        let row = self.service.find(session_id).await?;
        Ok(row.filter(|row| self.owns(row) && self.service.is_shown(row)))
    }

    /// Returns at most `limit` sessions that pass the filter, newest first, after `after`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn list(
        &self,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        self.service.list(self.tenant, filter, limit, after).await
    }

    /// Returns up to `limit` of the tenant's sessions in progress, newest first, and whether there
    /// may be more. Only sessions that are younger than [`SAMPLE_T_MS_MAX`] are searched.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn live(&self, limit: u32) -> StoreResult<(Vec<SessionRow>, bool)> {
        let filter = SessionFilter {
            status: Some(SessionStatus::Recording),
            from: Some(self.service.now().plus_ms(-LIVE_AGE_MS_MAX)),
            ..SessionFilter::default()
        };
        let page = self.list(&filter, limit, None).await?;
        Ok((page.rows, page.next.is_some()))
    }

    /// Returns the stored insight of a session, or `None` if it is not scored or belongs to another
    /// tenant.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn scored(&self, row: &SessionRow) -> StoreResult<Option<StoredInsight>> {
        if !self.owns(row) {
            return Ok(None);
        }
        self.service.scored(row.start.session_id).await
    }

    /// Returns the outcome of each session, in their order; `None` for a session that has not
    /// ended, is not scored or belongs to another tenant. Organizations take turns, because
    /// decoding many insights takes long.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn outcomes(&self, rows: &[SessionRow]) -> StoreResult<Vec<Option<SessionOutcome>>> {
        let is_read = |row: &SessionRow| row.end.is_some() && self.owns(row);
        let read = rows.iter().filter(|row| is_read(row));
        let session_ids: Vec<_> = read.map(|row| row.start.session_id).collect();
        if session_ids.is_empty() {
            return Ok(vec![None; rows.len()]);
        }
        let turn = self.service.outcome_reads.take(self.tenant.organization_id);
        let turn = turn.await.map_err(|_| StoreError::Overloaded)?;
        let store = Arc::clone(self.service.store());
        // The turn lasts until the read ends, even if the client disconnects before.
        let read = tokio::spawn(async move {
            let _turn = turn;
            store.outcomes(session_ids).await
        });
        let mut found = read.await.map_err(StoreError::unavailable)??.into_iter();
        let of_row = |row| match is_read(row) {
            true => found.next().flatten(),
            false => None,
        };
        Ok(rows.iter().map(of_row).collect())
    }

    /// Returns the highest `seq` of a session and the time it was received, or `None` if the
    /// session has no batch or belongs to another tenant.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn newest(&self, row: &SessionRow) -> StoreResult<Option<(u32, TimestampMs)>> {
        if !self.owns(row) {
            return Ok(None);
        }
        self.service.store().newest(row.start.session_id).await
    }

    /// Returns the numbers of the acknowledged batches of a session; empty for another tenant's
    /// session.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn acknowledged(&self, row: &SessionRow) -> StoreResult<Acknowledged> {
        if !self.owns(row) {
            return Ok(Acknowledged::default());
        }
        let store = self.service.store();
        let session_id = row.start.session_id;
        store
            .acknowledged(session_id, ACKNOWLEDGED_RANGES_MAX)
            .await
    }

    /// Returns at most `limit` batches of a session from `from_seq` on; empty for another tenant's
    /// session.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn batches(
        &self,
        row: &SessionRow,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        if !self.owns(row) {
            return Ok(Vec::new());
        }
        let store = self.service.store();
        store.read(row.start.session_id, from_seq, limit).await
    }
}
