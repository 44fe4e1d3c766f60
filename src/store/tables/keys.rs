//! Organizations and their keys. Both are few, so lists read everything.

use porchlight_ports::{Organization, StoreResult};
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::key::KeyRecord;
use porchlight_schema::time::TimestampMs;

use super::Key;
use crate::damage::{self, readable_rows, skipped};
use crate::engine::KeyRange;
use crate::txn::{Read, Scan, Txn};

fn organization_key(name: &str) -> Vec<u8> {
    Key::of(b'g').bytes(name.as_bytes()).build()
}

fn hash_key(hash: &[u8; 32]) -> Vec<u8> {
    Key::of(b'k').bytes(hash).build()
}

fn id_key(id: KeyId) -> Vec<u8> {
    Key::of(b'K').bytes(&id.to_bytes()).build()
}

/// Returns the organization with this name. If there is no such organization, stores and returns
/// `candidate`.
pub(crate) fn organization(
    txn: &mut Txn<'_>,
    candidate: Organization,
) -> StoreResult<Organization> {
    let key = organization_key(&candidate.name);
    if let Some(stored) = txn.as_read().state(&key)? {
        return Ok(stored);
    }
    txn.put_state(key, &candidate)?;
    Ok(candidate)
}

/// Returns all organizations, by name. Damaged rows are left out, so that they affect no other
/// organization.
pub(crate) fn organizations(read: &dyn Read) -> StoreResult<Vec<Organization>> {
    let scan = Scan::state(KeyRange::prefix([b'g']), usize::MAX);
    let mut organizations = Vec::new();
    for row in readable_rows(read, &scan, damage::ORGANIZATION)? {
        organizations.extend(skipped(row.decode().map(Some), damage::ORGANIZATION)?);
    }
    Ok(organizations)
}

/// Stores a key. A stored key stays as it is, revoked or not.
pub(crate) fn put(txn: &mut Txn<'_>, hash: &[u8; 32], record: &KeyRecord) -> StoreResult<()> {
    let key = hash_key(hash);
    if txn.as_read().has_state(&key)? {
        return Ok(());
    }
    txn.put_state(key, record)?;
    txn.put_state(id_key(record.id), hash)
}

/// Returns the key with this hash.
pub(crate) fn find(read: &dyn Read, hash: &[u8; 32]) -> StoreResult<Option<KeyRecord>> {
    read.state(&hash_key(hash))
}

/// Returns all keys, or one organization's, oldest first: ids sort by creation time. Damaged rows
/// are left out, so that they affect no other key.
pub(crate) fn list(
    read: &dyn Read,
    organization_id: Option<OrganizationId>,
) -> StoreResult<Vec<KeyRecord>> {
    let mut records = Vec::new();
    let scan = Scan::state(KeyRange::prefix([b'K']), usize::MAX);
    for row in readable_rows(read, &scan, damage::KEY)? {
        let Some(hash) = skipped(row.decode::<[u8; 32]>().map(Some), damage::KEY)? else {
            continue;
        };
        let record = skipped(find(read, &hash), damage::KEY)?;
        records.extend(record.filter(|record| {
            organization_id.is_none_or(|wanted| record.tenant.organization_id == wanted)
        }));
    }
    records.sort_by_key(|record| (record.created_at, record.id));
    Ok(records)
}

/// Records the hour in which a key was last used; a later one stays.
pub(crate) fn record_use(txn: &mut Txn<'_>, hash: &[u8; 32], hour: TimestampMs) -> StoreResult<()> {
    let key = hash_key(hash);
    if let Some(mut record) = txn.as_read().state::<KeyRecord>(&key)?
        && record.last_used_at < Some(hour)
    {
        record.last_used_at = Some(hour);
        txn.put_state(key, &record)?;
    }
    Ok(())
}

/// Revokes a key; an earlier revocation stays.
pub(crate) fn revoke(
    txn: &mut Txn<'_>,
    id: KeyId,
    at: TimestampMs,
) -> StoreResult<Option<KeyRecord>> {
    let Some(hash) = txn.as_read().state::<[u8; 32]>(&id_key(id))? else {
        return Ok(None);
    };
    let key = hash_key(&hash);
    let Some(mut record) = txn.as_read().state::<KeyRecord>(&key)? else {
        return Ok(None);
    };
    if record.revoked_at.is_none() {
        record.revoked_at = Some(at);
        txn.put_state(key, &record)?;
    }
    Ok(Some(record))
}
