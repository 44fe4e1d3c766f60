//! Organizations and their keys.

use async_trait::async_trait;
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::key::KeyRecord;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::StoreResult;

/// An organization, which has one id in both environments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The id of the organization.
    pub id: OrganizationId,
    /// The name by which `keys create` finds the organization.
    pub name: String,
    /// The time of creation.
    pub created_at: TimestampMs,
}

/// Stores organizations and keys.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Returns the organization with this name. If there is no such organization, stores and
    /// returns `candidate`.
    async fn organization(&self, candidate: Organization) -> StoreResult<Organization>;

    /// Returns all organizations, by name.
    async fn organizations(&self) -> StoreResult<Vec<Organization>>;

    /// Stores a key under its SHA-256.
    async fn put_key(&self, hash: [u8; 32], record: KeyRecord) -> StoreResult<()>;

    /// Returns the key with this SHA-256, valid or not.
    async fn find_key(&self, hash: [u8; 32]) -> StoreResult<Option<KeyRecord>>;

    /// Returns all keys, or one organization's, oldest first.
    async fn list_keys(
        &self,
        organization_id: Option<OrganizationId>,
    ) -> StoreResult<Vec<KeyRecord>>;

    /// Records the hour in which a key was last used, unless a later hour is stored. Skips a key
    /// that does not exist, or that another call is changing: the next use writes the hour.
    async fn record_key_use(&self, hash: [u8; 32], hour: TimestampMs) -> StoreResult<()>;

    /// Revokes a key and keeps an earlier revocation. Returns `None` if there is no such key.
    async fn revoke_key(&self, id: KeyId, at: TimestampMs) -> StoreResult<Option<KeyRecord>>;
}
