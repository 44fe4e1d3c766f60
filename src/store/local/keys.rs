//! The port [`Keys`] over the tables of one machine.

use async_trait::async_trait;
use porchlight_ports::{Keys, Organization, StoreResult};
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::key::KeyRecord;
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::Engine;
use crate::tables::keys;

#[async_trait]
impl<E: Engine> Keys for LocalStore<E> {
    async fn organization(&self, candidate: Organization) -> StoreResult<Organization> {
        self.committer
            .write_for_client(move |txn| keys::organization(txn, candidate))
            .await
    }

    async fn organizations(&self) -> StoreResult<Vec<Organization>> {
        self.read_rows(keys::organizations).await
    }

    async fn put_key(&self, hash: [u8; 32], record: KeyRecord) -> StoreResult<()> {
        self.committer
            .write_for_client(move |txn| keys::put(txn, &hash, &record))
            .await
    }

    async fn find_key(&self, hash: [u8; 32]) -> StoreResult<Option<KeyRecord>> {
        self.read_inline(|read| keys::find(read, &hash))
    }

    async fn list_keys(
        &self,
        organization_id: Option<OrganizationId>,
    ) -> StoreResult<Vec<KeyRecord>> {
        self.read_rows(move |read| keys::list(read, organization_id))
            .await
    }

    async fn record_key_use(&self, hash: [u8; 32], hour: TimestampMs) -> StoreResult<()> {
        self.committer
            .write(move |txn| keys::record_use(txn, &hash, hour))
            .await
    }

    async fn revoke_key(&self, id: KeyId, at: TimestampMs) -> StoreResult<Option<KeyRecord>> {
        self.committer
            .write(move |txn| keys::revoke(txn, id, at))
            .await
    }
}
