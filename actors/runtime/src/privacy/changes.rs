//! Stores the tenants whose marks have changed: a count of all changes, and a list of the latest.
//!
//! A change is made first, then counted, and then listed. Nodes of earlier releases neither write
//! nor read the list, and read all marks when the count has changed.

use std::collections::BTreeSet;

use porchlight_core::privacy::{Change, RecentChanges, Seen};
use porchlight_ports::{Documents, StoreResult};
use porchlight_schema::session::Tenant;

use super::{collection, tenant_key};
use crate::document_form::document_or_empty;
use crate::rounds::Rounds;

/// The key of the document that counts changes of marks.
const COUNT_KEY: [u8; 1] = [0];
/// The key of the document that lists the latest changes. The keys of marks sort between the two.
const LIST_KEY: [u8; 1] = [2];
/// The length of a listed change: its number, and its tenant.
const CHANGE_BYTES: usize = 8 + 17;

/// The count and the list as they are stored.
#[derive(Debug)]
pub(super) struct Stored {
    counted: u64,
    list: RecentChanges,
}

impl Stored {
    pub(super) async fn read(store: &(impl Documents + ?Sized)) -> StoreResult<Self> {
        // The count is read first, so that the list has every change that is counted, unless its
        // node has not listed it yet.
        let counted = document_or_empty(store, collection(), &COUNT_KEY).await?;
        let mut stored = Self {
            counted: decode_count(counted.as_deref()),
            list: RecentChanges::default(),
        };
        stored.read_list(store).await?;
        Ok(stored)
    }

    /// Reads the list again.
    pub(super) async fn read_list(&mut self, store: &(impl Documents + ?Sized)) -> StoreResult<()> {
        let list = document_or_empty(store, collection(), &LIST_KEY).await?;
        self.list = decode_list(list.as_deref());
        Ok(())
    }

    /// Returns the changes that were stored when this was read.
    pub(super) fn seen(&self) -> Seen {
        Seen {
            counted: self.counted,
            listed: self.list.listed,
        }
    }

    /// Returns the tenants whose marks have changed since `seen`; `None` if all may have.
    pub(super) fn changed_since(&self, seen: Option<Seen>) -> Option<BTreeSet<Tenant>> {
        self.list.since(seen?, self.counted)
    }
}

/// Counts and lists a change of a tenant's marks. Call this after the change was made.
pub(super) async fn add(store: &(impl Documents + ?Sized), tenant: Tenant) -> StoreResult<()> {
    let mut rounds = Rounds::new();
    let number = loop {
        let stored = document_or_empty(store, collection(), &COUNT_KEY).await?;
        let number = decode_count(stored.as_deref()).wrapping_add(1);
        let next = Some(number.to_be_bytes().to_vec());
        let replaced = store.replace_document(collection(), COUNT_KEY.to_vec(), stored, next);
        if replaced.await? {
            break number;
        }
        rounds.on_lost().await?;
    };
    let mut rounds = Rounds::new();
    loop {
        let stored = document_or_empty(store, collection(), &LIST_KEY).await?;
        let mut list = decode_list(stored.as_deref());
        list.add(Change { number, tenant });
        let next = Some(encode_list(&list));
        let replaced = store.replace_document(collection(), LIST_KEY.to_vec(), stored, next);
        if replaced.await? {
            return Ok(());
        }
        rounds.on_lost().await?;
    }
}

/// Decodes the count. A damaged one starts again, so that all marks are read.
fn decode_count(bytes: Option<&[u8]>) -> u64 {
    let count = bytes.and_then(|bytes| Some(u64::from_be_bytes(bytes.try_into().ok()?)));
    count.unwrap_or(0)
}

/// Encodes the number of listed changes, and then each of the latest.
fn encode_list(list: &RecentChanges) -> Vec<u8> {
    let mut bytes = list.listed.to_be_bytes().to_vec();
    for change in &list.latest {
        bytes.extend(change.number.to_be_bytes());
        bytes.extend(tenant_key(change.tenant));
    }
    bytes
}

/// Decodes a list. A damaged one is empty, so that all marks are read.
fn decode_list(bytes: Option<&[u8]>) -> RecentChanges {
    let decode = |bytes: &[u8]| {
        let (listed, changes) = bytes.split_first_chunk::<8>()?;
        let changes = changes.chunks(CHANGE_BYTES).map(|bytes| {
            let (number, tenant) = bytes.split_first_chunk::<8>()?;
            let (tenant, rest) = Tenant::split_from(tenant)?;
            let number = u64::from_be_bytes(*number);
            rest.is_empty().then_some(Change { number, tenant })
        });
        Some(RecentChanges {
            listed: u64::from_be_bytes(*listed),
            latest: changes.collect::<Option<_>>()?,
        })
    };
    bytes.and_then(decode).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_list_is_stored_and_a_damaged_one_is_empty() {
        let mut list = RecentChanges::default();
        assert_eq!(decode_list(None), list);
        for number in 1..4 {
            let organization_id = OrganizationId::new(TimestampMs(1), u128::from(number));
            let env = Env::Production;
            let tenant = Tenant {
                organization_id,
                env,
            };
            list.add(Change { number, tenant });
        }
        let bytes = encode_list(&list);
        assert_eq!(bytes.len(), 8 + 3 * CHANGE_BYTES);
        assert_eq!(decode_list(Some(&bytes)), list);
        for damaged in [&bytes[..7], &bytes[..bytes.len() - 1], &[9; 33]] {
            assert_eq!(decode_list(Some(damaged)), RecentChanges::default());
        }
    }
}
