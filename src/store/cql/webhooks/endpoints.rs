//! Endpoints: one per tenant, changed by lightweight transactions.

use std::sync::atomic::{AtomicU64, Ordering};

use porchlight_ports::{Endpoint, StoreResult};
use porchlight_schema::ids::EndpointId;
use porchlight_schema::session::Tenant;

use crate::cql::Inner;
use crate::cql::layout::slots::tenant_key;
use crate::cql::statements::db::{Found, decode, encode};
use crate::damage::skipped;

/// The time for which a read of the endpoint of a tenant's messages counts, in milliseconds.
const ENDPOINT_KNOWN_MS: i64 = 1_000;

/// The endpoint of a tenant's messages, as this process has read it.
#[derive(Debug, Clone, Copy)]
pub(in crate::cql) struct KnownEndpoint {
    endpoint_id: Option<EndpointId>,
    /// The value of `Caches::endpoint_changes` before the read.
    changes: u64,
    /// The time taken just before the read, in milliseconds of the monotonic clock.
    read_ms: i64,
}

impl KnownEndpoint {
    /// Returns whether the read counts after this number of changes, at this time.
    fn is_current(self, changes: u64, now_ms: i64) -> bool {
        self.changes == changes && now_ms - self.read_ms < ENDPOINT_KNOWN_MS
    }
}

/// A change of an endpoint by this process. Reads that began before its end do not count after it.
struct ChangingEndpoint<'c>(&'c AtomicU64);

impl Drop for ChangingEndpoint<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Returns whether `stored` is the version that `next` replaces.
fn is_before(stored: &Endpoint, next: &Endpoint) -> bool {
    stored.id == next.id && stored.version.saturating_add(1) == next.version
}

fn version_cell(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

impl Inner {
    /// Returns a tenant's endpoint.
    pub(in crate::cql) async fn endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
        let tenant = tenant_key(tenant);
        let statement = &self.db.statements.endpoint_get;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (tenant.as_slice(),)).await?;
        row.map(|(data,)| decode("endpoints", &data)).transpose()
    }

    /// Returns the endpoint that a tenant's messages are queued for. While it is paused they are
    /// held.
    ///
    /// A process that serves alone makes all changes itself, and reads the endpoint at most once in
    /// [`ENDPOINT_KNOWN_MS`] between them. The time bounds how long a process does not notice that
    /// another one has taken over.
    pub(in crate::cql) async fn message_endpoint(
        &self,
        tenant: Tenant,
    ) -> StoreResult<Option<EndpointId>> {
        let read_ms = self.clock.uptime_ms();
        let changes = self.caches.endpoint_changes.load(Ordering::Acquire);
        let known = self.caches.message_endpoints.get(&tenant);
        let known = known.filter(|known| known.is_current(changes, read_ms));
        if let Some(known) = known.filter(|_| self.serves_alone()) {
            return Ok(known.endpoint_id);
        }
        let endpoint_id = self.endpoint(tenant).await?.map(|endpoint| endpoint.id);
        let known = KnownEndpoint {
            endpoint_id,
            changes,
            read_ms,
        };
        self.caches.message_endpoints.put(tenant, known);
        Ok(endpoint_id)
    }

    /// Records that this process changes an endpoint, until the value is dropped.
    fn changing_endpoint(&self) -> ChangingEndpoint<'_> {
        let changes = &self.caches.endpoint_changes;
        changes.fetch_add(1, Ordering::AcqRel);
        ChangingEndpoint(changes)
    }

    /// Returns all endpoints that can be read: a damaged one must not stop the webhooks of other
    /// tenants.
    pub(in crate::cql) async fn endpoints(&self) -> StoreResult<Vec<Endpoint>> {
        let statement = &self.db.statements.endpoints_get;
        let rows: Vec<(Vec<u8>,)> = self.db.rows(statement, (), usize::MAX).await?;
        rows.iter()
            .map(|(data,)| skipped(decode("endpoints", data).map(Some), "a webhook"))
            .filter_map(StoreResult::transpose)
            .collect()
    }

    /// Stores a tenant's first endpoint. Returns `false` if one exists.
    pub(super) async fn create_endpoint(&self, endpoint: &Endpoint) -> StoreResult<bool> {
        let _changing = self.changing_endpoint();
        let (tenant, id, data) = (
            tenant_key(endpoint.tenant),
            endpoint.id.to_bytes(),
            encode(endpoint)?,
        );
        let version = version_cell(endpoint.version);
        let values = (tenant.as_slice(), id.as_slice(), version, data.as_slice());
        let make = &self.db.statements.endpoint_make;
        let made = self.db.lightweight(make, values).await?;
        let found = async {
            let stored = self.serial_endpoint(endpoint.tenant).await?;
            Ok(Found::of(&stored.as_ref(), &Some(endpoint), &None))
        };
        made.resolve(found).await
    }

    /// Replaces the previous version. Returns `false` if that version does not exist.
    pub(super) async fn replace_endpoint(&self, endpoint: &Endpoint) -> StoreResult<bool> {
        let _changing = self.changing_endpoint();
        let (tenant, id, data) = (
            tenant_key(endpoint.tenant),
            endpoint.id.to_bytes(),
            encode(endpoint)?,
        );
        let version = version_cell(endpoint.version);
        let values = (
            version,
            data.as_slice(),
            tenant.as_slice(),
            id.as_slice(),
            version.saturating_sub(1),
        );
        let change = &self.db.statements.endpoint_change;
        let changed = self.db.lightweight(change, values).await?;
        let found = async {
            Ok(match self.serial_endpoint(endpoint.tenant).await? {
                Some(stored) if stored == *endpoint => Found::Next,
                Some(stored) if is_before(&stored, endpoint) => Found::Expected,
                _ => Found::Other,
            })
        };
        changed.resolve(found).await
    }

    /// Deletes a tenant's endpoint. Returns `false` if none existed.
    pub(super) async fn delete_endpoint(&self, tenant: Tenant) -> StoreResult<bool> {
        let Some(stored) = self.endpoint(tenant).await? else {
            return Ok(false);
        };
        let _changing = self.changing_endpoint();
        let (key, id) = (tenant_key(tenant), stored.id.to_bytes());
        let values = (key.as_slice(), id.as_slice());
        let delete = &self.db.statements.endpoint_delete;
        let deleted = self.db.lightweight(delete, values).await?;
        let found = async {
            Ok(match self.serial_endpoint(tenant).await? {
                Some(now) if now.id == stored.id => Found::Expected,
                _ => Found::Next,
            })
        };
        deleted.resolve(found).await
    }

    /// Returns a tenant's endpoint after every transaction in flight is complete.
    async fn serial_endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
        let tenant = tenant_key(tenant);
        let statement = &self.db.statements.endpoint_serial;
        let row: Option<(Option<Vec<u8>>,)> = self.db.row(statement, (tenant.as_slice(),)).await?;
        let stored = row.and_then(|(data,)| data);
        stored.map(|data| decode("endpoints", &data)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_counts_until_this_process_changes_an_endpoint_or_a_second_has_passed() {
        let known = KnownEndpoint {
            endpoint_id: None,
            changes: 4,
            read_ms: 1_000,
        };
        assert!(known.is_current(4, 1_999));
        assert!(!known.is_current(4, 2_000));
        assert!(!known.is_current(5, 1_000));
    }
}
