//! Retention that an organization chooses for its environment, within the operator's bounds.
//!
//! [`Service::apply_retention`] removes data that is older than chosen. The caller makes sure that
//! the clock is right. Each step may be repeated: the progress is stored after the data is removed,
//! and removing data that is gone changes nothing.

use porchlight_core::privacy::SessionAccess;
use porchlight_core::retention::{
    DataClass, PolicyRefused, RetentionBounds, RetentionPolicy, SweepProgress, next_span,
};
use porchlight_observe::{Fact, chain};
use porchlight_ports::{
    Collection, DocumentKind, Note, SessionFilter, SessionRow, StoreError, StoreResult,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    AUDIT_SHORTEST_DAYS_DEFAULT, RETENTION_DAYS_DEFAULT, RETENTION_SHORTEST_DAYS_MIN,
    RETENTION_STEP_MS,
};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::Service;
use crate::audit;
use crate::privacy::tenant_key;
use crate::scoring::is_settled;
use crate::stored::{document_or_empty, encode};

/// The number of policies read per query.
const POLICIES_AT_ONCE: usize = 500;
/// The number of sessions read per query.
const SESSIONS_AT_ONCE: u32 = 200;
/// The key of the document with the time of the last sweep. Keys of policies are longer.
const LAST_SWEEP_KEY: [u8; 1] = [0];

/// The policy of a tenant as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct StoredPolicy {
    policy: RetentionPolicy,
    #[serde(default)]
    progress: SweepProgress,
}

/// The work of a sweep: the number of sessions from which it removed data, by class, and of groups
/// of audit lines; and its failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Sessions whose telemetry was removed.
    pub telemetry: u64,
    /// Sessions whose messages were removed.
    pub messages: u64,
    /// Sessions that were removed completely.
    pub sessions: u64,
    /// Groups of lines that were removed from audit logs.
    pub audit_groups: u64,
    /// Failures of parts of the sweep that concern one organization. Each is in the log.
    pub failures: u64,
}

impl Swept {
    /// Returns whether the sweep removed anything.
    #[must_use]
    pub fn has_removed(&self) -> bool {
        let removed = [
            self.telemetry,
            self.messages,
            self.sessions,
            self.audit_groups,
        ];
        removed.iter().any(|&count| count > 0)
    }

    /// Logs and counts an error that keeps the sweep from data of one tenant.
    fn on_failure(&mut self, tenant: Tenant, error: &StoreError) {
        tracing::error!(organization = %tenant.organization_id, error = chain(error), "retention could not be applied to an organization");
        self.failures = self.failures.saturating_add(1);
    }

    fn count(&mut self, class: DataClass) {
        let counter = match class {
            DataClass::Telemetry => &mut self.telemetry,
            DataClass::Messages => &mut self.messages,
            DataClass::Insight => &mut self.sessions,
        };
        *counter = counter.saturating_add(1);
    }
}

/// The retention of one tenant, created by [`Service::retention`].
#[derive(Debug, Clone, Copy)]
pub struct TenantRetention<'s> {
    service: &'s Service,
    tenant: Tenant,
}

fn collection() -> Collection {
    Collection::of_service(DocumentKind::Retention)
}

fn decode<'d, D: Deserialize<'d>>(bytes: &'d [u8]) -> StoreResult<D> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Corrupt(format!("a retention policy: {error}")))
}

impl TenantRetention<'_> {
    /// Returns the chosen retention.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn policy(&self) -> StoreResult<RetentionPolicy> {
        let stored = self.stored().await?;
        let stored: Option<StoredPolicy> = stored.as_deref().map(decode).transpose()?;
        Ok(stored.unwrap_or_default().policy)
    }

    async fn stored(&self) -> StoreResult<Option<Vec<u8>>> {
        let store = self.service.store();
        store.document(collection(), tenant_key(self.tenant)).await
    }

    /// Replaces the chosen retention. The next sweeps apply it to all sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if the bounds do not allow the policy, or if the store fails.
    pub async fn choose(&self, policy: RetentionPolicy) -> StoreResult<Result<(), PolicyRefused>> {
        if let Err(refused) = policy.check(&self.service.retention_bounds()) {
            return Ok(Err(refused));
        }
        self.rewrite(|_| policy).await.map(Ok)
    }

    /// Lets the next sweeps begin with the oldest sessions, because they left out sessions that may
    /// be deleted now.
    pub(super) async fn restart_sweep(&self) -> StoreResult<()> {
        if self.stored().await?.is_none() {
            return Ok(());
        }
        self.rewrite(|policy| policy).await
    }

    /// Replaces the policy and resets the progress.
    async fn rewrite(
        &self,
        change: impl Fn(RetentionPolicy) -> RetentionPolicy,
    ) -> StoreResult<()> {
        let store = self.service.store();
        loop {
            let stored = self.stored().await?;
            let before: Option<StoredPolicy> = stored.as_deref().map(decode).transpose()?;
            let policy = change(before.unwrap_or_default().policy);
            let after = StoredPolicy {
                policy,
                progress: SweepProgress::default(),
            };
            let data = (policy != RetentionPolicy::default()).then(|| encode(&after));
            let data = data.transpose()?;
            let key = tenant_key(self.tenant);
            if stored == data
                || store
                    .replace_document(collection(), key, stored, data)
                    .await?
            {
                return Ok(());
            }
        }
    }
}

impl Service {
    /// Returns access to the retention of this tenant.
    #[must_use]
    pub fn retention(&self, tenant: Tenant) -> TenantRetention<'_> {
        TenantRetention {
            service: self,
            tenant,
        }
    }

    /// Returns the bounds within which organizations choose their retention.
    #[must_use]
    pub fn retention_bounds(&self) -> RetentionBounds {
        self.privacy_settings().retention
    }

    /// Returns the time of the last sweep of any process, which proves that the clock was right
    /// then. Returns `None` if no sweep was recorded, or if the record is unreadable.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn last_retention_sweep(&self) -> StoreResult<Option<TimestampMs>> {
        let stored =
            document_or_empty(self.store().as_ref(), collection(), &LAST_SWEEP_KEY).await?;
        match stored.as_deref().map(decode).transpose() {
            // The next sweep writes it again.
            Err(StoreError::Corrupt(error)) => {
                tracing::error!(error, "the time of the last retention sweep is unreadable");
                Ok(None)
            }
            swept_at => swept_at,
        }
    }

    /// Removes the data that is older than the retention which its organization has chosen, and
    /// lines of audit logs that are older than theirs. Each call covers at most a part of the
    /// stored time; see [`next_span`]. Call it only while the clock is right.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails as a whole; removed data stays removed. An error of one
    /// organization does not keep the sweep from the others.
    pub async fn apply_retention(&self, swept: &mut Swept) -> StoreResult<()> {
        self.record_sweep().await?;
        let mut after = Some(LAST_SWEEP_KEY.to_vec());
        loop {
            let page = self
                .store()
                .documents(collection(), after, POLICIES_AT_ONCE);
            let page = page.await?;
            let is_last = page.len() < POLICIES_AT_ONCE;
            after = page.last().map(|document| document.key.clone());
            for document in page {
                let Some((tenant, _)) = Tenant::split_from(&document.key) else {
                    continue;
                };
                for class in DataClass::ALL {
                    if let Err(error) = self.retention(tenant).sweep(class, swept).await {
                        swept.on_failure(tenant, &error);
                    }
                }
            }
            if is_last {
                break;
            }
        }
        self.expire_audit_logs(swept).await
    }

    /// Removes the lines of audit logs that are older than their retention, of organizations that
    /// this node owns.
    async fn expire_audit_logs(&self, swept: &mut Swept) -> StoreResult<()> {
        for organization in self.store().organizations().await? {
            for env in Env::ALL {
                let tenant = Tenant {
                    organization_id: organization.id,
                    env,
                };
                let retention = self.retention(tenant);
                if !retention.may_sweep() {
                    continue;
                }
                match retention.expire_audit_log().await {
                    Ok(groups) => swept.audit_groups = swept.audit_groups.saturating_add(groups),
                    Err(error) => swept.on_failure(tenant, &error),
                }
            }
        }
        Ok(())
    }

    async fn record_sweep(&self) -> StoreResult<()> {
        let (store, key) = (self.store().as_ref(), LAST_SWEEP_KEY.to_vec());
        let stored = document_or_empty(store, collection(), &key).await?;
        let now = Some(encode(&self.now())?);
        // Another node may have recorded its own sweep in the meantime.
        let replaced = store.replace_document(collection(), key, stored, now);
        replaced.await.map(drop)
    }

    /// Returns whether the telemetry of a session was removed because its retention has passed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn has_expired_telemetry(&self, session_id: SessionId) -> StoreResult<bool> {
        let notes = self.store().notes(session_id).await?;
        Ok(notes.contains(&Note::TelemetryExpired))
    }

    /// Returns whether any data of a session was removed because its retention has passed. Such a
    /// session is not scored again.
    pub(super) async fn has_expired_data(&self, session_id: SessionId) -> StoreResult<bool> {
        let notes = self.store().notes(session_id).await?;
        Ok(notes.iter().any(|note| note.is_expiry()))
    }
}

impl TenantRetention<'_> {
    /// Returns whether this node sweeps the data of the tenant now.
    pub(super) fn may_sweep(&self) -> bool {
        let ownership = &self.service.registry().ports().ownership;
        let shard = self.tenant.organization_id.shard();
        !self.service.is_draining() && ownership.generation(shard).is_some()
    }

    /// Removes the lines of the audit log that are older than their retention. Returns the number
    /// of removed groups.
    async fn expire_audit_log(&self) -> StoreResult<u64> {
        let (store, now) = (self.service.store(), self.service.now());
        let kept_ms = self.policy().await?.audit_kept_ms();
        match audit::expire(store, self.tenant, kept_ms, now).await {
            // The check of the log reports it.
            Err(error @ StoreError::Corrupt(_)) => {
                tracing::warn!(organization = %self.tenant.organization_id, error = chain(&error), "an audit log with an unreadable row does not expire");
                Ok(0)
            }
            expired => expired,
        }
    }

    /// Applies the policy for one class, in small spans of time.
    async fn sweep(&self, class: DataClass, swept: &mut Swept) -> StoreResult<()> {
        let (service, bounds) = (self.service, self.service.retention_bounds());
        let Some(mut data) = self.stored().await? else {
            return Ok(());
        };
        let mut stored: StoredPolicy = decode(&data)?;
        let now = service.now();
        let Some(span) = next_span(&stored.policy, stored.progress, class, &bounds, now) else {
            return Ok(());
        };
        let mut from = span.from;
        while from < span.to {
            if !self.may_sweep() {
                return Ok(());
            }
            let to = span.to.min(from.plus_ms(RETENTION_STEP_MS));
            let Some(removed) = self.sweep_span(class, from, to).await? else {
                return Ok(());
            };
            for _ in 0..removed {
                swept.count(class);
            }
            from = to;
            if removed == 0 && from < span.to {
                continue;
            }
            stored.progress.advance(class, to);
            let next = encode(&stored)?;
            let key = tenant_key(self.tenant);
            let replaced =
                service
                    .store()
                    .replace_document(collection(), key, Some(data), Some(next.clone()));
            if !replaced.await? {
                // The policy was changed: the next sweep reads it.
                return Ok(());
            }
            data = next;
        }
        Ok(())
    }

    /// Removes the data of the sessions that were created within a span. Returns the number of
    /// sessions from which it removed data, or `None` if this node may not sweep any more.
    async fn sweep_span(
        &self,
        class: DataClass,
        from: TimestampMs,
        to: TimestampMs,
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
            for row in &page.rows {
                let is_removed = match self.remove(class, row).await {
                    // `store.retention` removes the session later.
                    Err(error @ StoreError::Corrupt(_)) => {
                        Fact::Unreadable {
                            session_id: row.start.session_id,
                            what: "a row that retention needs",
                            error: &error,
                        }
                        .record();
                        Some(false)
                    }
                    is_removed => is_removed?,
                };
                let Some(is_removed) = is_removed else {
                    return Ok(None);
                };
                removed += u64::from(is_removed);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(Some(removed)),
            }
        }
    }

    /// Returns whether the data of a session may be removed, by the marks that this node knows.
    fn may_remove(&self, row: &SessionRow) -> bool {
        row.end.is_some()
            && !self.service.privacy.marks.keeps(&row.start)
            && self.service.access(&row.start) == SessionAccess::Open
    }

    /// Removes one class of data of a session. Returns `false` if the session keeps it: it has not
    /// ended, it is restricted or held, or it is not scored yet. Returns `None` if this node may not
    /// sweep any more.
    async fn remove(&self, class: DataClass, row: &SessionRow) -> StoreResult<Option<bool>> {
        let (service, session_id) = (self.service, row.start.session_id);
        let store = service.store().as_ref();
        if !self.may_remove(row) || (class != DataClass::Insight && !is_settled(store, row).await?)
        {
            return Ok(Some(false));
        }
        // Another node may have placed a hold or a restriction just now. Marks that cannot be read are
        // no damage of this session, so the sweep stops here and does not pass the session over.
        let refreshed = service.privacy.marks.refresh(store).await;
        refreshed.map_err(StoreError::unavailable)?;
        if !self.may_sweep() {
            return Ok(None);
        }
        if !self.may_remove(row) {
            return Ok(Some(false));
        }
        // A note comes before the removal: from then on the session is not scored again, which would
        // find less than the first time.
        match class {
            DataClass::Insight => {
                service.registry().drop_erased(session_id);
                store.erase_session(session_id).await?;
            }
            DataClass::Telemetry => {
                store.note(session_id, Note::TelemetryExpired).await?;
                store.remove_telemetry(session_id).await?;
            }
            DataClass::Messages => {
                store.note(session_id, Note::MessagesExpired).await?;
                store.remove_messages(session_id).await?;
            }
        }
        Ok(Some(true))
    }
}

/// The bounds of a service whose operator has set none.
pub(super) const DEFAULT_BOUNDS: RetentionBounds = RetentionBounds {
    shortest_days: RETENTION_SHORTEST_DAYS_MIN,
    longest_days: RETENTION_DAYS_DEFAULT as u32,
    shortest_audit_days: AUDIT_SHORTEST_DAYS_DEFAULT,
};
