//! The marks of subjects (restricted, suppressed, held, being erased), as this process last read
//! them. Every request checks them, so they are kept in memory. A node reads the marks of a tenant
//! again when they have changed.

mod changes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use porchlight_core::privacy::{Mark, Seen, SessionAccess};
use porchlight_observe::error_text;
use porchlight_ports::{Collection, DocumentKind, Documents, Store, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use tokio::sync::Mutex;

use crate::document_form::encode;
use crate::rounds::Rounds;
use changes::Stored;

/// The first byte of the key of a mark.
const MARK: u8 = 1;
/// The interval at which a process that starts checks whether the marks were read.
const LOAD_POLL: Duration = Duration::from_millis(10);
/// The number of marks read per query.
const PAGE_MARKS: usize = 1_000;
/// The pause before the list of changes is read again if it lacks a counted change. Another node
/// has probably just counted that change and not listed it yet.
const LIST_PAUSE: Duration = Duration::from_millis(100);
/// The error of a former owner, which must not write.
pub(crate) const OTHER_OWNER: &str = "another node acts for this tenant's shard now";

type OfTenant = HashMap<[u8; 32], Mark>;
type ByTenant = HashMap<Tenant, OfTenant>;

fn collection() -> Collection {
    Collection::of_service(DocumentKind::PrivacyMark)
}

/// Returns the bytes of a tenant in the keys of documents.
pub(crate) fn tenant_key(tenant: Tenant) -> Vec<u8> {
    tenant.to_bytes().to_vec()
}

/// The marks of all tenants.
#[derive(Debug, Default)]
pub struct Marks {
    known: RwLock<ByTenant>,
    /// The changes that `known` contains; `None` before the first read.
    seen: Mutex<Option<Seen>>,
    /// The number of times that marks were read.
    reads: AtomicU64,
}

impl Marks {
    fn known(&self) -> RwLockReadGuard<'_, ByTenant> {
        // A map is whole after each change, so a panic of another holder leaves nothing half done.
        self.known
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns whether any subject of the tenant has a mark.
    #[must_use]
    pub fn has_any(&self, tenant: Tenant) -> bool {
        self.known().contains_key(&tenant)
    }

    /// Returns the number of times that marks were read, because they had changed or for the first
    /// time.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Acquire)
    }

    /// Returns the number of the tenant's subjects that have a mark.
    #[must_use]
    pub fn count(&self, tenant: Tenant) -> usize {
        self.known().get(&tenant).map_or(0, HashMap::len)
    }

    /// Returns whether a restriction or a legal hold keeps retention from deleting a session.
    pub(crate) fn keeps(&self, start: &SessionStart) -> bool {
        let known = self.known();
        let Some(marks) = known.get(&start.tenant) else {
            return false;
        };
        let subjects = Mark::subjects_of(start);
        let mut marks = subjects
            .iter()
            .filter_map(|subject| marks.get(&subject.key()));
        marks.any(Mark::keeps)
    }

    /// Returns the tenants of which a restriction or a legal hold may keep sessions.
    pub(crate) fn keeping_tenants(&self) -> Vec<Tenant> {
        let known = self.known();
        let keeping = known
            .iter()
            .filter(|(_, marks)| marks.values().any(Mark::keeps));
        keeping.map(|(tenant, _)| *tenant).collect()
    }

    /// Returns whether any session of the tenant is under a legal hold.
    pub(crate) fn has_hold(&self, tenant: Tenant) -> bool {
        let known = self.known();
        let marks = known.get(&tenant);
        marks.is_some_and(|marks| marks.values().any(Mark::is_held))
    }

    /// Returns the access that callers have to a session.
    #[must_use]
    pub fn access(&self, start: &SessionStart) -> SessionAccess {
        let known = self.known();
        let Some(marks) = known.get(&start.tenant) else {
            return SessionAccess::Open;
        };
        let subjects = Mark::subjects_of(start);
        let accesses = subjects.iter().filter_map(|subject| {
            let mark = marks.get(&subject.key())?;
            Some(mark.access(start.created_at))
        });
        accesses.max().unwrap_or(SessionAccess::Open)
    }

    /// Returns the mark of a subject.
    #[must_use]
    pub fn of(&self, tenant: Tenant, subject: &Subject) -> Mark {
        let known = self.known();
        let mark = known
            .get(&tenant)
            .and_then(|marks| marks.get(&subject.key()));
        mark.cloned().unwrap_or_default()
    }

    /// Reads the marks of the tenants whose marks have changed since the last call. Returns whether
    /// any were read.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails; the known marks stay.
    pub async fn refresh(&self, store: &dyn Store) -> StoreResult<bool> {
        let mut seen = self.seen.lock().await;
        let mut stored = Stored::read(store).await?;
        if *seen == Some(stored.seen()) {
            return Ok(false);
        }
        let mut changed = stored.changed_since(*seen);
        if changed.is_none() && seen.is_some() {
            tokio::time::sleep(LIST_PAUSE).await;
            stored.read_list(store).await?;
            changed = stored.changed_since(*seen);
        }
        match changed {
            Some(tenants) => {
                for tenant in tenants {
                    let marks = read_marks(store, Some(tenant)).await?.remove(&tenant);
                    let mut known = self.known_mut();
                    known.remove(&tenant);
                    known.extend(marks.map(|marks| (tenant, marks)));
                }
            }
            None => {
                let read = read_marks(store, None).await?;
                *self.known_mut() = read;
            }
        }
        *seen = Some(stored.seen());
        self.reads.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, ByTenant> {
        self.known
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes the mark of a subject, for all nodes. May be repeated.
    ///
    /// `may_change` is called between the read of the mark and its replacement. A mark without
    /// effect is removed, so a replacement cannot tell whether another process has made the same
    /// change and undone it since the read.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails or other writers are always faster, in which case the
    /// change may or may not have happened, or if `may_change` refuses.
    pub async fn change(
        &self,
        store: &dyn Store,
        tenant: Tenant,
        subject: &Subject,
        may_change: impl Fn() -> bool,
        change: impl Fn(&mut Mark),
    ) -> StoreResult<()> {
        let mut key = vec![MARK];
        key.extend(tenant_key(tenant));
        key.extend(subject.key());
        let mut rounds = Rounds::new();
        loop {
            let stored = store.document(collection(), key.clone()).await?;
            let mut mark = stored
                .as_deref()
                .map(decode)
                .transpose()?
                .unwrap_or_default();
            change(&mut mark);
            let data = (!mark.is_empty()).then(|| encode(&mark)).transpose()?;
            if !may_change() {
                return Err(StoreError::unavailable(OTHER_OWNER));
            }
            if data == stored
                || store
                    .replace_document(collection(), key.clone(), stored, data)
                    .await?
            {
                break;
            }
            rounds.on_lost().await?;
        }
        // The change is counted after it is made, even if it is repeated: the first attempt may
        // have been interrupted before the count.
        changes::add(store, tenant).await?;
        self.refresh(store).await.map(drop)
    }
}

/// Reads the marks of one tenant, or of all. A damaged mark concerns only its subject.
async fn read_marks(
    store: &(impl Documents + ?Sized),
    only: Option<Tenant>,
) -> StoreResult<ByTenant> {
    let mut known = ByTenant::new();
    let mut prefix = vec![MARK];
    prefix.extend(only.map(tenant_key).unwrap_or_default());
    let mut after = Some(prefix.clone());
    loop {
        let page = store.documents(collection(), after, PAGE_MARKS).await?;
        let is_last = page.len() < PAGE_MARKS;
        after = page.last().map(|document| document.key.clone());
        for document in page {
            if !document.key.starts_with(&prefix) {
                return Ok(known);
            }
            let place = document.key.get(1..).and_then(Tenant::split_from);
            let Some((tenant, rest)) = place else {
                continue;
            };
            if let Ok(subject) = <[u8; 32]>::try_from(rest) {
                let mark = decode(&document.data).unwrap_or_else(|error| {
                    let organization = tenant.organization_id;
                    tracing::error!(%organization, error = error_text(&error), "a privacy mark is damaged: its subject counts as restricted, suppressed and held");
                    Mark::of_damaged()
                });
                known.entry(tenant).or_default().insert(subject, mark);
            }
        }
        if is_last {
            return Ok(known);
        }
    }
}

fn decode(bytes: &[u8]) -> StoreResult<Mark> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Damaged(format!("a privacy mark: {error}")))
}

/// The sessions that webhooks must not mention.
#[derive(Clone)]
pub struct Restrictions {
    /// The marks of all subjects.
    pub marks: Arc<Marks>,
    /// The store in which the sessions are looked up.
    pub store: Arc<dyn Store>,
}

impl Restrictions {
    /// Returns whether a tenant's session is restricted or being erased. Waits until the marks were
    /// read once, and reads the store only if the tenant has marks.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn hides(&self, tenant: Tenant, session_id: SessionId) -> StoreResult<bool> {
        // A process that has just started must not send restricted data.
        while self.marks.reads() == 0 {
            tokio::time::sleep(LOAD_POLL).await;
        }
        if !self.marks.has_any(tenant) {
            return Ok(false);
        }
        let row = self.store.find(session_id).await?;
        Ok(row.is_some_and(|row| self.marks.access(&row.start) != SessionAccess::Open))
    }
}

#[cfg(test)]
mod tests;
