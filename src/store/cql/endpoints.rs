//! Endpoints: one per tenant, changed by lightweight transactions.

use porchlight_ports::{Endpoint, StoreResult};
use porchlight_schema::ids::EndpointId;
use porchlight_schema::session::Tenant;

use super::Inner;
use super::db::{Lwt, decode, encode};
use super::slots::tenant_key;
use crate::damage::skipped;

fn version_cell(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

impl Inner {
    /// Returns a tenant's endpoint.
    pub(super) async fn endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
        let tenant = tenant_key(tenant);
        let statement = &self.db.statements.endpoint_get;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (tenant.as_slice(),)).await?;
        row.map(|(data,)| decode("endpoints", &data)).transpose()
    }

    /// Returns the endpoint that a tenant's messages are queued for. While it is paused they are
    /// held.
    pub(super) async fn message_endpoint(&self, tenant: Tenant) -> StoreResult<Option<EndpointId>> {
        let endpoint = self.endpoint(tenant).await?;
        Ok(endpoint.map(|endpoint| endpoint.id))
    }

    /// Returns all endpoints that can be read: a damaged one must not stop the webhooks of other
    /// tenants.
    pub(super) async fn endpoints(&self) -> StoreResult<Vec<Endpoint>> {
        let statement = &self.db.statements.endpoints_get;
        let rows: Vec<(Vec<u8>,)> = self.db.rows(statement, (), usize::MAX).await?;
        rows.iter()
            .map(|(data,)| skipped(decode("endpoints", data).map(Some), "a webhook"))
            .filter_map(StoreResult::transpose)
            .collect()
    }

    /// Stores a tenant's first endpoint. Returns `false` if one exists.
    pub(super) async fn create_endpoint(&self, endpoint: &Endpoint) -> StoreResult<bool> {
        let (tenant, id, data) = (
            tenant_key(endpoint.tenant),
            endpoint.id.to_bytes(),
            encode(endpoint)?,
        );
        let version = version_cell(endpoint.version);
        let values = (tenant.as_slice(), id.as_slice(), version, data.as_slice());
        let make = &self.db.statements.endpoint_make;
        let made = self.db.lightweight(make, values).await?;
        self.resolve(made, endpoint.tenant, |stored| stored == Some(endpoint))
            .await
    }

    /// Replaces the previous version. Returns `false` if that version does not exist.
    pub(super) async fn replace_endpoint(&self, endpoint: &Endpoint) -> StoreResult<bool> {
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
        self.resolve(changed, endpoint.tenant, |stored| stored == Some(endpoint))
            .await
    }

    /// Deletes a tenant's endpoint. Returns `false` if none existed.
    pub(super) async fn delete_endpoint(&self, tenant: Tenant) -> StoreResult<bool> {
        let Some(stored) = self.endpoint(tenant).await? else {
            return Ok(false);
        };
        let (key, id) = (tenant_key(tenant), stored.id.to_bytes());
        let values = (key.as_slice(), id.as_slice());
        let delete = &self.db.statements.endpoint_delete;
        let deleted = self.db.lightweight(delete, values).await?;
        let is_gone = |now: Option<&Endpoint>| now.is_none_or(|now| now.id != stored.id);
        self.resolve(deleted, tenant, is_gone).await
    }

    /// Determines a transaction's outcome; a serial read resolves an outcome in doubt.
    async fn resolve(
        &self,
        outcome: Lwt,
        tenant: Tenant,
        is_done: impl Fn(Option<&Endpoint>) -> bool,
    ) -> StoreResult<bool> {
        match outcome {
            Lwt::Applied => Ok(true),
            Lwt::Refused => Ok(false),
            Lwt::InDoubt(error) => {
                let tenant = tenant_key(tenant);
                let statement = &self.db.statements.endpoint_serial;
                let row: Option<(Option<Vec<u8>>,)> =
                    self.db.row(statement, (tenant.as_slice(),)).await?;
                let stored = row.and_then(|(data,)| data);
                let stored: Option<Endpoint> =
                    stored.map(|data| decode("endpoints", &data)).transpose()?;
                if is_done(stored.as_ref()) {
                    Ok(true)
                } else {
                    // It was not applied and never will be: the caller may retry.
                    Err(error)
                }
            }
        }
    }
}
