//! Checks that a cluster has nothing that a migration would have to overwrite or leave behind.

use futures_util::TryStreamExt;
use porchlight_ports::{Erasure, Keys, Organization, Outbox, Recorders, Sessions};
use porchlight_schema::key::KeyRecord;

use super::{MigrateError, PAGE_ROWS, hash_of, require_equal, rows};
use crate::cql::CqlStore;
use crate::embedded::EmbeddedStore;
use crate::engine::Space;
use crate::tables::Key;

/// Verifies that the cluster has only data that the embedded store has too. A migration calls it
/// before its first write, because it may copy for hours, and after its last one.
pub(super) async fn check(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    check_sessions(from, to).await?;
    check_customers(from, to).await?;
    check_recorders(from, to).await?;
    check_documents(from, to).await
}

async fn check_sessions(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    let mut ids = to.session_ids().await?;
    while let Some(session_id) = ids.try_next().await? {
        if from.find(session_id).await?.is_none() {
            return Err(MigrateError::Unknown { session_id });
        }
    }
    Ok(())
}

/// Checks organizations, keys and webhooks. The cluster may have organizations and keys of its own.
async fn check_customers(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    let existing = to.organizations().await?;
    for row in rows(from, vec![b'g']).await? {
        let organization: Organization = row.decode()?;
        let of_same_name = existing.iter().find(|one| one.name == organization.name);
        require_equal(
            of_same_name.is_none_or(|one| *one == organization),
            "an organization",
        )?;
    }
    for row in rows(from, vec![b'k']).await? {
        let record: KeyRecord = row.decode()?;
        let existing = to.find_key(hash_of(&row)?).await?;
        require_equal(
            existing.is_none_or(|existing| becomes(existing, &record)),
            "an API key",
        )?;
    }
    for existing in to.endpoints().await? {
        let original = from.endpoint(existing.tenant).await?;
        require_equal(original == Some(existing), "a webhook")?;
    }
    Ok(())
}

/// Returns whether the key of an earlier run becomes `record`: it may have been revoked since.
fn becomes(mut existing: KeyRecord, record: &KeyRecord) -> bool {
    existing.revoked_at = existing.revoked_at.or(record.revoked_at);
    existing == *record
}

async fn check_recorders(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    let mut after = None;
    loop {
        let (page, next) = to.recorders(after, PAGE_ROWS).await?;
        for (id, row) in page {
            require_equal(from.recorder(id).await? == Some(row), "a recorder")?;
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

async fn check_documents(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    let mut documents = to.all_documents().await?;
    while let Some((collection, key, data)) = documents.try_next().await? {
        let key = Key::of(b'#').bytes(&collection).bytes(&key).build();
        let original = from.read_rows(move |read| read.get(Space::State, &key));
        require_equal(original.await? == Some(data), "management data")?;
    }
    Ok(())
}
