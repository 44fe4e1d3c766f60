//! Appends to chains, and finds their ends.
//!
//! A group is a document under its number, in parts of [`AUDIT_PART_GROUPS`]. Creating the document
//! is the commit: each number can be created only once. A second document per tenant records the
//! end of the chain. It is written after the group and may be behind, never ahead, so a reader
//! continues from there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use porchlight_core::audit::{DecodeError, Group, Head, Line, decode, encode};
use porchlight_core::backoff::Backoff;
use porchlight_observe::error_text;
use porchlight_ports::{Collection, Document, DocumentKind, Store, StoreError, StoreResult};
use porchlight_schema::limits::{AUDIT_PART_GROUPS, AUDIT_RETRY_FIRST_MS, AUDIT_RETRY_MS_MAX};
use porchlight_schema::session::Tenant;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The key of the document with the extent in a collection of heads.
const HEAD_KEY: &[u8] = b"head";
/// The maximum number of attempts of a command to append a group behind groups of other processes.
const APPENDS_MAX: usize = 16;

/// The known start and end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    /// The first part that may still contain groups.
    pub(crate) first_part: u64,
    /// The end of the chain.
    pub(crate) head: Head,
}

impl Extent {
    const EMPTY: Self = Self {
        first_part: 0,
        head: Head::EMPTY,
    };
}

/// Returns the error of a row that cannot be read. A later release can read its own rows, so they
/// are not damaged.
fn unreadable(error: DecodeError) -> StoreError {
    match error {
        DecodeError::Newer(_) => StoreError::unavailable(error),
        DecodeError::Damaged(error) => StoreError::Damaged(format!("audit log: {error}")),
    }
}

pub(super) fn heads(tenant: Tenant) -> Collection {
    Collection::of_tenant(DocumentKind::AuditHead, tenant)
}

pub(super) fn part(tenant: Tenant, part: u64) -> Collection {
    Collection::part_of_tenant(DocumentKind::AuditGroup, tenant, part)
}

/// Reads a value that is stored next to the end of a chain, and its bytes. Returns `default` if it
/// is not stored.
pub(super) async fn recorded<T: DeserializeOwned>(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    key: &[u8],
    default: T,
) -> StoreResult<(T, Option<Vec<u8>>)> {
    let stored = store.document(heads(tenant), key.to_vec()).await?;
    let value = match &stored {
        Some(bytes) => decode(bytes).map_err(unreadable)?,
        None => default,
    };
    Ok((value, stored))
}

/// Reads the stored groups of one part after a key, in order.
pub(super) async fn documents(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    number: u64,
    after: Option<Vec<u8>>,
) -> StoreResult<Vec<Document>> {
    let limit = usize::try_from(AUDIT_PART_GROUPS).unwrap_or(usize::MAX);
    store.documents(part(tenant, number), after, limit).await
}

/// Reads the groups of one part from number `from` on, in order.
pub(super) async fn groups_from(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    from: u64,
) -> StoreResult<Vec<Group>> {
    let number = from / AUDIT_PART_GROUPS;
    let after =
        (!from.is_multiple_of(AUDIT_PART_GROUPS)).then(|| (from - 1).to_be_bytes().to_vec());
    let documents = documents(store, tenant, number, after).await?;
    documents.iter().map(group_of).collect()
}

pub(super) fn group_of(document: &Document) -> StoreResult<Group> {
    Group::decode(&document.data).map_err(unreadable)
}

/// Reads the whole extent of a chain: the stored extent and the groups appended since.
pub(super) async fn extent(store: &Arc<dyn Store>, tenant: Tenant) -> StoreResult<Extent> {
    let extent = recorded_extent(store, tenant).await?;
    let head = follow(store, tenant, extent.head).await?;
    Ok(Extent { head, ..extent })
}

/// Reads the stored extent, whose head may be behind the newest group.
pub(super) async fn recorded_extent(store: &Arc<dyn Store>, tenant: Tenant) -> StoreResult<Extent> {
    let (extent, _) = recorded(store, tenant, HEAD_KEY, Extent::EMPTY).await?;
    Ok(extent)
}

/// Follows a chain from `head` to its end.
async fn follow(store: &Arc<dyn Store>, tenant: Tenant, mut head: Head) -> StoreResult<Head> {
    loop {
        let mut has_grown = false;
        for group in groups_from(store, tenant, head.next).await? {
            if group.number != head.next {
                break;
            }
            head = group.head();
            has_grown = true;
        }
        if !has_grown || !head.next.is_multiple_of(AUDIT_PART_GROUPS) {
            return Ok(head);
        }
    }
}

/// The chains to which this node appends.
pub(super) struct Chains {
    store: Arc<dyn Store>,
    /// The heads known to this node.
    heads: Mutex<HashMap<Tenant, Head>>,
}

/// The maximum number of cached heads; beyond it, all are looked up again.
const HEADS_MAX: usize = 10_000;

impl Chains {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            heads: Mutex::default(),
        }
    }

    fn heads(&self) -> MutexGuard<'_, HashMap<Tenant, Head>> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends lines as one group, for a command. See [`Self::try_append`].
    pub(super) async fn append(&self, tenant: Tenant, lines: &[Line]) -> StoreResult<()> {
        let mut pauses = Backoff::new(AUDIT_RETRY_FIRST_MS, AUDIT_RETRY_MS_MAX);
        for _ in 0..APPENDS_MAX {
            if self.try_append(tenant, lines).await? {
                return Ok(());
            }
            tokio::time::sleep(pauses.on_failure()).await;
        }
        Err(StoreError::Overloaded)
    }

    /// Appends lines as one group. Returns `false` if another node has appended a group first. An
    /// error may follow a commit whose answer was lost. The lines are then appended twice, which
    /// duplicates entries but hides nothing.
    pub(super) async fn try_append(&self, tenant: Tenant, lines: &[Line]) -> StoreResult<bool> {
        let known = self.heads().get(&tenant).copied();
        let head = match known {
            Some(head) => head,
            None => extent(&self.store, tenant).await?.head,
        };
        let group = Group::append(&head, lines);
        let data = group.encode().map_err(StoreError::unavailable)?;
        let collection = part(tenant, group.number / AUDIT_PART_GROUPS);
        let number = group.number.to_be_bytes().to_vec();
        let created = self
            .store
            .replace_document(collection, number, None, Some(data))
            .await;
        if !matches!(created, Ok(true)) {
            self.heads().remove(&tenant);
        }
        let is_created = created?;
        if is_created {
            self.record_end(tenant, group.head()).await;
        }
        Ok(is_created)
    }

    /// Records the end of the chain. A reader that finds an older record continues from there.
    async fn record_end(&self, tenant: Tenant, head: Head) {
        {
            let mut heads = self.heads();
            if heads.len() >= HEADS_MAX {
                heads.clear();
            }
            heads.insert(tenant, head);
        }
        if let Err(error) = self.write_head(tenant, head).await {
            tracing::warn!(
                error = error_text(&error),
                "the end of an audit log cannot be saved"
            );
        }
    }

    async fn write_head(&self, tenant: Tenant, head: Head) -> StoreResult<()> {
        let (mut extent, stored) = recorded(&self.store, tenant, HEAD_KEY, Extent::EMPTY).await?;
        if extent.head.next >= head.next {
            return Ok(());
        }
        extent.head = head;
        if head.next.is_multiple_of(AUDIT_PART_GROUPS) {
            extent.first_part = self.first_part(tenant, extent).await?;
        }
        let data = encode(&extent).map_err(StoreError::unavailable)?;
        let replaced =
            self.store
                .replace_document(heads(tenant), HEAD_KEY.to_vec(), stored, Some(data));
        // Another node has recorded a later end.
        replaced.await.map(drop)
    }

    /// Returns the first part that has groups left: the sweep removes expired groups.
    async fn first_part(&self, tenant: Tenant, extent: Extent) -> StoreResult<u64> {
        let mut first = extent.first_part;
        while first < extent.head.next / AUDIT_PART_GROUPS
            && documents(&self.store, tenant, first, None)
                .await?
                .is_empty()
        {
            first += 1;
        }
        Ok(first)
    }
}
