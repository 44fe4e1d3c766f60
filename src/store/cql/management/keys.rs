//! Organizations and their keys. Both are few, so lists read everything.

use async_trait::async_trait;
use porchlight_ports::{Keys, Organization, StoreError, StoreResult};
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::key::KeyRecord;
use porchlight_schema::time::TimestampMs;

use crate::cql::sessions::state::{LWT_ATTEMPTS_MAX, back_off};
use crate::cql::statements::db::{Lwt, decode, encode};
use crate::cql::{CqlStore, Inner};
use crate::damage::{self, skipped};

impl Inner {
    async fn organization(&self, candidate: Organization) -> StoreResult<Organization> {
        let (name, data) = (candidate.name.as_str(), encode(&candidate)?);
        let statements = &self.db.statements;
        let mut read = &statements.organization_get;
        for _ in 0..LWT_ATTEMPTS_MAX {
            let stored: Option<(Vec<u8>,)> = self.db.row(read, (name,)).await?;
            if let Some((stored,)) = stored {
                return decode("organizations", &stored);
            }
            let values = (name, data.as_slice());
            let make = &statements.organization_make;
            match self.db.lightweight(make, values).await? {
                Lwt::Applied => return Ok(candidate),
                Lwt::Refused => {}
                Lwt::InDoubt(_) => read = &statements.organization_serial,
            }
            back_off().await;
        }
        Err(StoreError::Overloaded)
    }

    async fn put_key(&self, hash: [u8; 32], record: KeyRecord) -> StoreResult<()> {
        let (hash, data) = (hash.as_slice(), encode(&record)?);
        let statements = &self.db.statements;
        // The row for revocation comes first: a key that cannot be revoked must not exist.
        let id = record.id.to_bytes();
        let values = (id.as_slice(), hash);
        self.db.write(&statements.key_id_put, values).await?;
        let values = (hash, data.as_slice());
        let made = self.db.lightweight(&statements.key_make, values).await?;
        let exists = async {
            let stored: Option<(Vec<u8>,)> = self.db.row(&statements.key_serial, (hash,)).await?;
            Ok(stored.is_some())
        };
        made.resolve_creation(exists).await
    }

    async fn list_keys(&self, of: Option<OrganizationId>) -> StoreResult<Vec<KeyRecord>> {
        let statement = &self.db.statements.keys_get;
        let rows: Vec<(Vec<u8>,)> = self.db.rows(statement, (), usize::MAX).await?;
        let mut records = Vec::new();
        for (data,) in rows {
            // A damaged row affects no other key.
            let record = decode::<KeyRecord>("api_keys", &data).map(Some);
            let record = skipped(record, damage::KEY)?;
            let is_wanted =
                |record: &KeyRecord| of.is_none_or(|id| record.tenant.organization_id == id);
            records.extend(record.filter(is_wanted));
        }
        records.sort_by_key(|record| (record.created_at, record.id));
        Ok(records)
    }

    async fn record_key_use(&self, hash: [u8; 32], hour: TimestampMs) -> StoreResult<()> {
        let (hash, statements) = (hash.as_slice(), &self.db.statements);
        let stored: Option<(Vec<u8>,)> = self.db.row(&statements.key_get, (hash,)).await?;
        let Some((stored,)) = stored else {
            return Ok(());
        };
        let mut record: KeyRecord = decode("api_keys", &stored)?;
        if record.last_used_at >= Some(hour) {
            return Ok(());
        }
        record.last_used_at = Some(hour);
        let data = encode(&record)?;
        let values = (data.as_slice(), hash, stored.as_slice());
        // A concurrent change takes precedence: only an hour is lost, which the next use writes.
        let change = &statements.key_change;
        self.db.lightweight(change, values).await.map(drop)
    }

    async fn revoke_key(&self, id: KeyId, at: TimestampMs) -> StoreResult<Option<KeyRecord>> {
        let (id, statements) = (id.to_bytes(), &self.db.statements);
        let found: Option<(Vec<u8>,)> = self
            .db
            .row(&statements.key_id_get, (id.as_slice(),))
            .await?;
        let Some((hash,)) = found else {
            return Ok(None);
        };
        for _ in 0..LWT_ATTEMPTS_MAX {
            let stored: Option<(Vec<u8>,)> = self
                .db
                .row(&statements.key_serial, (hash.as_slice(),))
                .await?;
            let Some((stored,)) = stored else {
                return Ok(None);
            };
            let mut record: KeyRecord = decode("api_keys", &stored)?;
            if record.revoked_at.is_some() {
                return Ok(Some(record));
            }
            record.revoked_at = Some(at);
            let data = encode(&record)?;
            let values = (data.as_slice(), hash.as_slice(), stored.as_slice());
            let change = &statements.key_change;
            if let Lwt::Applied = self.db.lightweight(change, values).await? {
                return Ok(Some(record));
            }
            back_off().await;
        }
        Err(StoreError::Overloaded)
    }
}

#[async_trait]
impl Keys for CqlStore {
    async fn organization(&self, candidate: Organization) -> StoreResult<Organization> {
        self.run_to_completion(|inner| async move { inner.organization(candidate).await })
            .await
    }

    async fn organizations(&self) -> StoreResult<Vec<Organization>> {
        self.run_with_deadline(|inner| async move {
            let db = &inner.db;
            let statement = &db.statements.organizations_get;
            let rows: Vec<(Vec<u8>,)> = db.rows(statement, (), usize::MAX).await?;
            let mut organizations: Vec<Organization> = Vec::new();
            for (data,) in rows {
                // A damaged row affects no other organization.
                let decoded = decode("organizations", &data).map(Some);
                organizations.extend(skipped(decoded, damage::ORGANIZATION)?);
            }
            organizations.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(organizations)
        })
        .await
    }

    async fn put_key(&self, hash: [u8; 32], record: KeyRecord) -> StoreResult<()> {
        self.run_to_completion(|inner| async move { inner.put_key(hash, record).await })
            .await
    }

    async fn find_key(&self, hash: [u8; 32]) -> StoreResult<Option<KeyRecord>> {
        self.run_with_deadline(|inner| async move {
            let db = &inner.db;
            let statement = &db.statements.key_get;
            let row: Option<(Vec<u8>,)> = db.row(statement, (hash.as_slice(),)).await?;
            row.map(|(data,)| decode("api_keys", &data)).transpose()
        })
        .await
    }

    async fn list_keys(
        &self,
        organization_id: Option<OrganizationId>,
    ) -> StoreResult<Vec<KeyRecord>> {
        self.run_with_deadline(|inner| async move { inner.list_keys(organization_id).await })
            .await
    }

    async fn record_key_use(&self, hash: [u8; 32], hour: TimestampMs) -> StoreResult<()> {
        self.run_to_completion(|inner| async move { inner.record_key_use(hash, hour).await })
            .await
    }

    async fn revoke_key(&self, id: KeyId, at: TimestampMs) -> StoreResult<Option<KeyRecord>> {
        self.run_to_completion(|inner| async move { inner.revoke_key(id, at).await })
            .await
    }
}
