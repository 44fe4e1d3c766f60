//! Endpoints: one for each tenant.

use porchlight_ports::{Endpoint, StoreResult};
use porchlight_schema::ids::EndpointId;
use porchlight_schema::session::Tenant;

use super::Key;
use crate::damage;
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// Returns the key of a tenant's endpoint.
#[must_use]
pub fn key(tenant: Tenant) -> Vec<u8> {
    Key::of(b'h').tenant(tenant).build()
}

/// Returns the key that marks the outbox of a deleted endpoint for sweeping.
fn deleted_key(endpoint_id: EndpointId) -> Vec<u8> {
    Key::of(b'x').bytes(&endpoint_id.to_bytes()).build()
}

/// Returns a tenant's endpoint.
pub fn find(read: &dyn Read, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
    read.state(&key(tenant))
}

/// Returns the endpoint that a tenant's messages are queued for. While it is paused they are held.
pub fn message_endpoint(read: &dyn Read, tenant: Tenant) -> StoreResult<Option<EndpointId>> {
    Ok(find(read, tenant)?.map(|endpoint| endpoint.id))
}

/// Stores a tenant's first endpoint. Returns `false` if one exists.
pub fn create(txn: &mut Txn<'_>, endpoint: &Endpoint) -> StoreResult<bool> {
    let key = key(endpoint.tenant);
    if txn.as_read().has_state(&key)? {
        return Ok(false);
    }
    txn.put_state(key, endpoint)?;
    Ok(true)
}

/// Replaces the previous version. Returns `false` if that version does not exist.
pub fn replace(txn: &mut Txn<'_>, endpoint: &Endpoint) -> StoreResult<bool> {
    match find(txn.as_read(), endpoint.tenant)? {
        Some(stored) if stored.id == endpoint.id && stored.version + 1 == endpoint.version => {
            txn.put_state(key(endpoint.tenant), endpoint)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Deletes a tenant's endpoint and marks its outbox for sweeping. Returns `false` if none existed.
pub fn delete(txn: &mut Txn<'_>, tenant: Tenant) -> StoreResult<bool> {
    let Some(stored) = find(txn.as_read(), tenant)? else {
        return Ok(false);
    };
    txn.delete(Space::State, key(tenant));
    txn.put(Space::State, deleted_key(stored.id), Vec::new());
    Ok(true)
}

/// Returns all endpoints that can be read: a damaged one must not stop the webhooks of other
/// tenants.
pub fn all(read: &dyn Read) -> StoreResult<Vec<Endpoint>> {
    let mut endpoints = Vec::new();
    for row in read.rows(&Scan::keys(KeyRange::prefix([b'h']), usize::MAX))? {
        match read.state(&row.key) {
            Ok(endpoint) => endpoints.extend(endpoint),
            Err(error) if error.is_of_single_rows() => damage::report_error("a webhook", &error),
            Err(error) => return Err(error),
        }
    }
    Ok(endpoints)
}

/// Returns a deleted endpoint whose outbox is not swept yet.
pub fn first_deleted(read: &dyn Read) -> StoreResult<Option<EndpointId>> {
    let rows = read.rows(&Scan::keys(KeyRange::prefix([b'x']), 1))?;
    let id = rows.first().and_then(|row| row.key.last_chunk::<16>());
    Ok(id.map(|bytes| EndpointId::from_bytes(*bytes)))
}

/// Removes the mark of a deleted endpoint whose outbox is swept.
pub fn finish_sweep(txn: &mut Txn<'_>, endpoint_id: EndpointId) {
    txn.delete(Space::State, deleted_key(endpoint_id));
}
