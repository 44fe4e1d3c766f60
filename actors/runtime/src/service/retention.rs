//! Retention that an organization chooses for its environment, within the operator's bounds.
//!
//! [`Service::apply_retention`] removes data that is older than chosen. The caller makes sure that
//! the clock is right. Each step may be repeated: the progress is stored after the data is removed,
//! and removing data that is gone changes nothing.

mod removal;
mod sweep;

use porchlight_core::retention::{
    DataClass, PolicyRefused, Removal, RetentionBounds, RetentionPolicy, SweepProgress,
};
use porchlight_observe::{Fact, error_text};
use porchlight_ports::{Collection, Document, DocumentKind, Note, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    AUDIT_SHORTEST_DAYS_DEFAULT, RETENTION_DAYS_DEFAULT, RETENTION_SHORTEST_DAYS_MIN,
};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::Service;
use crate::document_form::{document_or_empty, encode};
use crate::privacy::tenant_key;
use crate::rounds::Rounds;

/// The number of policies read per query.
const POLICIES_AT_ONCE: usize = 500;
/// The key of the document with the time of the last sweep. Keys of policies are longer.
const LAST_SWEEP_KEY: [u8; 1] = [0];

/// The policy of a tenant as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct StoredPolicy {
    policy: RetentionPolicy,
    #[serde(default)]
    progress: SweepProgress,
    /// The removal that is in progress, or that a killed process has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    removal: Option<Removal>,
}

impl StoredPolicy {
    /// Returns the document with the policy, or `None` if there is nothing to store.
    fn document(&self) -> StoreResult<Option<Vec<u8>>> {
        let is_stored = self.policy != RetentionPolicy::default() || self.removal.is_some();
        is_stored.then(|| encode(self)).transpose()
    }
}

/// A policy with the document from which it was read, or which was written last.
#[derive(Debug, Clone, Default)]
struct ReadPolicy {
    document: Option<Vec<u8>>,
    stored: StoredPolicy,
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
        tracing::error!(organization = %tenant.organization_id, error = error_text(error), "retention could not be applied to an organization");
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
        .map_err(|error| StoreError::Damaged(format!("a retention policy: {error}")))
}

/// Replaces a damaged row of a session that retention needs by `None`. Counts and logs it.
fn readable<T>(session_id: SessionId, read: StoreResult<T>) -> StoreResult<Option<T>> {
    match read {
        Err(error @ StoreError::Damaged(_)) => {
            Fact::Damaged {
                session_id,
                what: "a row that retention needs",
                error: &error,
            }
            .record();
            Ok(None)
        }
        read => read.map(Some),
    }
}

impl TenantRetention<'_> {
    /// Returns the chosen retention.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn policy(&self) -> StoreResult<RetentionPolicy> {
        Ok(self.read().await?.stored.policy)
    }

    async fn read(&self) -> StoreResult<ReadPolicy> {
        let store = self.service.store();
        let key = tenant_key(self.tenant);
        let document = store.document(collection(), key).await?;
        let stored = document.as_deref().map(decode).transpose()?;
        Ok(ReadPolicy {
            document,
            stored: stored.unwrap_or_default(),
        })
    }

    /// Replaces a policy that was read. Returns `false` if the stored one has changed since.
    async fn replace(&self, read: &mut ReadPolicy, next: StoredPolicy) -> StoreResult<bool> {
        let (before, after) = (read.document.clone(), next.document()?);
        let (store, key) = (self.service.store(), tenant_key(self.tenant));
        let is_replaced = before == after
            || store
                .replace_document(collection(), key, before, after.clone())
                .await?;
        if is_replaced {
            *read = ReadPolicy {
                document: after,
                stored: next,
            };
        }
        Ok(is_replaced)
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

    /// Lets the next sweeps begin with the oldest sessions, because earlier sweeps left out
    /// sessions that may be deleted now.
    pub(super) async fn restart_sweep(&self) -> StoreResult<()> {
        self.rewrite(|policy| policy).await
    }

    /// Replaces the policy and resets the progress. A removal in progress stays.
    async fn rewrite(
        &self,
        change: impl Fn(RetentionPolicy) -> RetentionPolicy,
    ) -> StoreResult<()> {
        let mut rounds = Rounds::new();
        loop {
            let mut read = self.read().await?;
            let next = StoredPolicy {
                policy: change(read.stored.policy),
                progress: SweepProgress::default(),
                removal: read.stored.removal.clone(),
            };
            if self.replace(&mut read, next).await? {
                return Ok(());
            }
            rounds.on_lost().await?;
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
    /// then. Returns `None` if no sweep was recorded, or if the record is damaged.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn last_retention_sweep(&self) -> StoreResult<Option<TimestampMs>> {
        let stored =
            document_or_empty(self.store().as_ref(), collection(), &LAST_SWEEP_KEY).await?;
        match stored.as_deref().map(decode).transpose() {
            // The next sweep writes it again.
            Err(StoreError::Damaged(error)) => {
                tracing::error!(error, "the time of the last retention sweep is damaged");
                Ok(None)
            }
            swept_at => swept_at,
        }
    }

    /// Removes the data that is older than its organization's chosen retention, and the lines of
    /// audit logs that are older than theirs. Each call covers at most a part of the stored time;
    /// see [`next_span`](porchlight_core::retention::next_span). Call it only while the clock is
    /// right.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails as a whole; removed data stays removed. An error of one
    /// organization does not stop the sweep of the others.
    pub async fn apply_retention(&self, swept: &mut Swept) -> StoreResult<()> {
        self.record_sweep().await?;
        for tenant in self.tenants_with_policy(|_| true).await? {
            for class in DataClass::ALL {
                if let Err(error) = self.retention(tenant).sweep(class, swept).await {
                    swept.on_failure(tenant, &error);
                }
            }
        }
        self.expire_audit_logs(swept).await
    }

    /// Completes the removals that killed processes and former owners have left, for the tenants
    /// that this node owns. The removals were decided while the clock was right.
    ///
    /// # Errors
    ///
    /// Returns an error if the policies cannot be listed. An error of one organization does not
    /// stop the removals of the others.
    pub async fn finish_removals(&self, swept: &mut Swept) -> StoreResult<()> {
        // A damaged policy has no removal that a hold waits for; the sweep reports it.
        let has_removal = |document: &Document| {
            serde_json::from_slice(&document.data)
                .is_ok_and(|stored: StoredPolicy| stored.removal.is_some())
        };
        for tenant in self.tenants_with_policy(has_removal).await? {
            match self.retention(tenant).finish_left(swept).await {
                // The sweep reports a damaged policy.
                Ok(()) | Err(StoreError::Damaged(_)) => {}
                Err(error) => swept.on_failure(tenant, &error),
            }
        }
        Ok(())
    }

    /// Returns the tenants whose stored policy is wanted.
    async fn tenants_with_policy(
        &self,
        is_wanted: impl Fn(&Document) -> bool,
    ) -> StoreResult<Vec<Tenant>> {
        let (mut tenants, mut after) = (Vec::new(), Some(LAST_SWEEP_KEY.to_vec()));
        loop {
            let page = self
                .store()
                .documents(collection(), after, POLICIES_AT_ONCE);
            let page = page.await?;
            let of_page = page
                .iter()
                .filter(|document| is_wanted(document))
                .filter_map(|document| Tenant::split_from(&document.key));
            tenants.extend(of_page.map(|(tenant, _)| tenant));
            after = page.last().map(|document| document.key.clone());
            if page.len() < POLICIES_AT_ONCE {
                return Ok(tenants);
            }
        }
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

/// The bounds of a service whose operator has set none.
pub(super) const DEFAULT_BOUNDS: RetentionBounds = RetentionBounds {
    shortest_days: RETENTION_SHORTEST_DAYS_MIN,
    longest_days: RETENTION_DAYS_DEFAULT as u32,
    shortest_audit_days: AUDIT_SHORTEST_DAYS_DEFAULT,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_of_an_earlier_release_stays_readable_and_unchanged() {
        let earlier = br#"{"policy":{"telemetryDays":7,"messagesDays":null,"insightDays":null,"auditDays":null},"progress":{"telemetry":"1970-01-01T00:00:01.000Z","messages":null,"insight":null}}"#;
        let stored: StoredPolicy = decode(earlier).unwrap();
        assert_eq!(stored.policy.telemetry_days, Some(7));
        assert_eq!(stored.removal, None);
        assert_eq!(
            stored.document().unwrap().as_deref(),
            Some(earlier.as_slice())
        );
    }
}
