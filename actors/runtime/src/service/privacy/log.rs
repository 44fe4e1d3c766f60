//! The erasure log, which records the erased subjects as salted hashes. An entry is written before
//! an erasure removes anything. Entries are kept, so that a restored backup can be cleared of data
//! that was erased after the backup was made. Only an erasure that fails removes its entry.

use porchlight_core::privacy::{Mark, PrivacyRequest, RecordedSubject};
use porchlight_ports::{Collection, DocumentKind, SessionFilter, Store, StoreError, StoreResult};
use porchlight_schema::privacy::HashedSubject;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::erase;
use crate::privacy::{OTHER_OWNER, tenant_key};
use crate::rounds::Rounds;
use crate::scoring::RowLocks;

/// The number of entries read per query.
const PAGE_ENTRIES: usize = 1_000;
/// The number of sessions compared per step.
const SESSIONS_AT_ONCE: u32 = 200;

/// An erasure that has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedErasure {
    /// The tenant whose data was erased.
    pub tenant: Tenant,
    /// The hash of the request's id, in hex.
    pub request: String,
    /// The subject as a salted hash.
    pub subject: HashedSubject,
    /// The time up to which sessions were erased, by time of creation.
    pub until: TimestampMs,
}

fn collection() -> Collection {
    Collection::of_service(DocumentKind::ErasureLog)
}

impl LoggedErasure {
    /// Returns the key of the entry, sorted by time, then by request.
    fn key(&self) -> Vec<u8> {
        let mut key = self.until.0.unsigned_abs().to_be_bytes().to_vec();
        key.extend(tenant_key(self.tenant));
        key.extend(Sha256::digest(self.request.as_bytes()));
        key
    }

    /// Writes the entry. The call may be repeated.
    pub(super) async fn write(&self, store: &dyn Store) -> StoreResult<()> {
        let data = serde_json::to_vec(self).map_err(StoreError::unavailable)?;
        let written = store.replace_document(collection(), self.key(), None, Some(data));
        written.await.map(drop)
    }

    /// Removes the entry, if it is there. `may_change` is called between its read and its removal.
    pub(super) async fn remove(
        &self,
        store: &dyn Store,
        may_change: impl Fn() -> bool,
    ) -> StoreResult<()> {
        let mut rounds = Rounds::new();
        loop {
            let stored = store.document(collection(), self.key()).await?;
            if stored.is_none() {
                return Ok(());
            }
            if !may_change() {
                return Err(StoreError::unavailable(OTHER_OWNER));
            }
            let removed = store.replace_document(collection(), self.key(), stored, None);
            if removed.await? {
                return Ok(());
            }
            rounds.on_lost().await?;
        }
    }

    /// Returns the entry of a request that has begun.
    pub(super) fn of(tenant: Tenant, request: &PrivacyRequest) -> Option<Self> {
        let RecordedSubject::Clear(subject) = &request.subject else {
            return None;
        };
        Some(Self {
            tenant,
            request: porchlight_schema::hex::encode(&Sha256::digest(request.request_id.as_bytes())),
            subject: subject.hashed(request.salt),
            until: request.logged_until(),
        })
    }
}

/// Returns all logged erasures, oldest first.
///
/// # Errors
///
/// Returns an error if the store fails.
pub async fn logged_erasures(store: &dyn Store) -> StoreResult<Vec<LoggedErasure>> {
    let (mut entries, mut after) = (Vec::new(), None);
    loop {
        let page = store.documents(collection(), after, PAGE_ENTRIES).await?;
        let is_last = page.len() < PAGE_ENTRIES;
        after = page.last().map(|document| document.key.clone());
        for document in page {
            let entry = serde_json::from_slice(&document.data);
            entries.push(entry.map_err(|error| {
                StoreError::Damaged(format!("an entry of the erasure log: {error}"))
            })?);
        }
        if is_last {
            return Ok(entries);
        }
    }
}

/// Applies logged erasures to a store that no service uses, such as a restored backup, and returns
/// the number of sessions erased. The entries are added to the store's own log. The call may be
/// repeated.
///
/// # Errors
///
/// Returns an error if the store fails; data erased so far stays erased.
pub async fn apply_erasures(store: &dyn Store, entries: &[LoggedErasure]) -> StoreResult<u64> {
    let mut erased = 0;
    let mut tenants: Vec<Tenant> = Vec::new();
    for entry in entries {
        entry.write(store).await?;
        if !tenants.contains(&entry.tenant) {
            tenants.push(entry.tenant);
        }
    }
    for tenant in tenants {
        let of_tenant: Vec<_> = entries
            .iter()
            .filter(|entry| entry.tenant == tenant)
            .collect();
        erased += apply_to_sessions(store, tenant, &of_tenant).await?;
        for entry in &of_tenant {
            let is_covered = |subjects: &[_]| subjects.iter().any(|one| entry.subject.matches(one));
            erase::recorders(store, tenant, entry.until, is_covered).await?;
        }
        if let Some(until) = of_tenant.iter().map(|entry| entry.until).max() {
            erase::idempotency_keys(store, tenant, until).await?;
        }
    }
    if !entries.is_empty() {
        store.purge().await?;
    }
    Ok(erased)
}

async fn apply_to_sessions(
    store: &dyn Store,
    tenant: Tenant,
    entries: &[&LoggedErasure],
) -> StoreResult<u64> {
    let (filter, mut after, mut erased) = (SessionFilter::default(), None, 0);
    // No service scores at the same time.
    let row_locks = RowLocks::default();
    loop {
        let page = store.list(tenant, &filter, SESSIONS_AT_ONCE, after).await?;
        for row in page.rows {
            let subjects = Mark::subjects_of(&row.start);
            let is_covered = entries.iter().any(|entry| {
                row.start.created_at <= entry.until
                    && subjects.iter().any(|one| entry.subject.matches(one))
            });
            if is_covered {
                erase::session(store, &row_locks, row.start.session_id).await?;
                erased += 1;
            }
        }
        match page.next {
            // If the session is gone, the position in the list follows from the time in its id.
            Some(next) => after = Some(next),
            None => return Ok(erased),
        }
    }
}
