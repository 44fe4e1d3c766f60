//! Migration from the embedded store to a CQL cluster. A repeated migration skips imported
//! sessions. Everything is read back and compared through the ports that the service uses. A
//! cluster with data that the embedded store does not have is refused before anything is written.

mod cluster;

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::webhook::ManualRetry;
use porchlight_ports::{
    Collection, Erasure, Insights, Journal, Keys, Organization, Outbox, Recorders, Sessions,
    StoreError, StoreResult,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::key::KeyRecord;
use porchlight_schema::session::SessionStart;
use serde::Serialize;

use super::cql::{CqlStore, ImportedSession};
use super::embedded::EmbeddedStore;
use super::engine::KeyRange;
use super::tables::{Key, idempotency, to_score};
use super::txn::{Row, Scan};

/// The number of sessions imported concurrently.
const AT_ONCE: usize = 8;
/// The number of sessions per page of the list.
const PAGE_ROWS: usize = 256;
/// The number of batches per read.
const PAGE_BATCHES: usize = 256;

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Migrated {
    /// Organizations, keys and webhooks.
    pub customers: u64,
    /// Sessions imported by this run.
    pub sessions: u64,
    /// Sessions that an earlier run had imported.
    pub were_there: u64,
    /// Batches of all sessions, each compared with its original.
    pub batches: u64,
    /// Messages of all sessions, each compared with its original.
    pub messages: u64,
}

impl Migrated {
    fn plus(self, other: Self) -> Self {
        Self {
            customers: self.customers + other.customers,
            sessions: self.sessions + other.sessions,
            were_there: self.were_there + other.were_there,
            batches: self.batches + other.batches,
            messages: self.messages + other.messages,
        }
    }
}

/// The reason why a migration stopped. It can be repeated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// One of the stores failed.
    #[error("one of the stores failed")]
    Store(#[from] StoreError),
    /// Imported data differs from its original.
    #[error(
        "{what} of session {session_id} differs between the cluster and the embedded store. Check whether a server has written to the cluster"
    )]
    Differs {
        /// The id of the session.
        session_id: SessionId,
        /// The kind of data.
        what: &'static str,
    },
    /// Data that belongs to no session differs from its original.
    #[error(
        "{what} differs between the cluster and the embedded store: either the embedded store has changed since an earlier \
         run of this command, or a server has written to the cluster. Use a new keyspace"
    )]
    ManagementDiffers {
        /// The kind of data.
        what: &'static str,
    },
    /// The embedded store has rows of an unknown table.
    #[error(
        "the embedded store has rows of a table that this version does not have ({table:#04x}): use the version that wrote them"
    )]
    UnknownTable {
        /// The first byte of the rows' keys.
        table: u8,
    },
    /// The cluster has a session that the embedded store does not have.
    #[error(
        "the cluster has session {session_id}, and the embedded store has not: either it was erased there after an \
         earlier run of this command, or a server has written to the cluster. Use a new keyspace"
    )]
    Unknown {
        /// The id of the session.
        session_id: SessionId,
    },
}

/// Imports all data, and calls `progress` periodically.
///
/// # Errors
///
/// See [`MigrateError`].
pub async fn migrate(
    from: &Arc<EmbeddedStore>,
    to: &Arc<CqlStore>,
    mut progress: impl FnMut(&Migrated),
) -> Result<Migrated, MigrateError> {
    check_tables(from).await?;
    cluster::check(from, to).await?;
    let (mut done, mut after) = (Migrated::default(), None);
    loop {
        let starts = starts_after(from, after).await?;
        let Some(last) = starts.last() else { break };
        after = Some(last.session_id);
        let moving = starts
            .into_iter()
            .map(|start| import_session(from, to, start));
        let moved: Vec<_> = stream::iter(moving)
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        done = moved.into_iter().fold(done, Migrated::plus);
        progress(&done);
    }
    // Sessions that have ended do not change, but other data does. It comes last, so that a server
    // may use the embedded store between a run that was interrupted and the next one.
    let customers = import_customers(from, to).await?;
    import_requests(from, to).await?;
    import_recorders(from, to).await?;
    import_documents(from, to).await?;
    cluster::check(from, to).await?;
    Ok(done.plus(customers))
}

/// The treatment of a table of the embedded store by a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// The migration copies the table's rows to the cluster.
    Copied,
    /// The table's rows follow from copied rows, and are written with them.
    Derived,
    /// The table's rows concern the embedded store only, or may be discarded.
    Left,
}

/// Returns the treatment of the table whose keys begin with this letter, or `None` if the table is
/// unknown: a migration would lose its rows.
fn treatment(table: u8) -> Option<Treatment> {
    match table {
        // Notes, starts, ends, PoDs, reviews, insights, messages, their states and attempts.
        b'n' | b's' | b'e' | b'p' | b'V' | b'v' | b'm' | b'D' | b'A' => Some(Treatment::Copied),
        // Marked sessions, learned places, idempotency keys, requested retries.
        b'y' | b'w' | b'W' | b'i' | b'b' => Some(Treatment::Copied),
        // Webhooks, organizations, API keys, recorders, documents.
        b'h' | b'g' | b'k' | b'R' | b'#' => Some(Treatment::Copied),
        // Lists of sessions by state, tenant, delivery and courier; keys by age; ids of messages
        // and keys; the outboxes.
        b'l' | b'c' | b't' | b'd' | b'r' | b'I' | b'M' | b'K' | b'o' | b'q' | b'u' | b'z'
        | b'F' => Some(Treatment::Derived),
        // The missing numbers of a journal are found again, and snapshots are written again. A
        // deleted webhook has nothing left to send. The check value of the key, the last backup and
        // the data keys belong to one store.
        b'J' | b'a' | b'x' | b'Z' | b'B' | b'X' => Some(Treatment::Left),
        _ => None,
    }
}

/// Refuses a store with rows of tables that this version does not have, because they would be lost.
async fn check_tables(from: &EmbeddedStore) -> Result<(), MigrateError> {
    // Keys that begin with 0 belong to the store's own checks.
    for table in (1..=u8::MAX).filter(|&table| treatment(table).is_none()) {
        let first = Scan::state(KeyRange::prefix(vec![table]), 1);
        let found = from.read_rows(move |read| read.rows(&first)).await?;
        if !found.is_empty() {
            return Err(MigrateError::UnknownTable { table });
        }
    }
    Ok(())
}

/// Returns an error if data that belongs to no session differs.
fn require_equal(are_equal: bool, what: &'static str) -> Result<(), MigrateError> {
    if are_equal {
        Ok(())
    } else {
        Err(MigrateError::ManagementDiffers { what })
    }
}

/// Imports the recorders, and compares them.
async fn import_recorders(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    let mut after = None;
    loop {
        let (page, next) = from.recorders(after, PAGE_ROWS).await?;
        for (id, row) in page {
            to.import_recorder(id, row.clone()).await?;
            require_equal(to.recorder(id).await? == Some(row), "a recorder")?;
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Reads the rows of a table of the embedded store.
async fn rows(from: &EmbeddedStore, prefix: Vec<u8>) -> StoreResult<Vec<Row>> {
    from.read_rows(move |read| read.rows(&Scan::state(KeyRange::prefix(prefix), usize::MAX)))
        .await
}

/// Returns the 32 bytes after the first byte of a key.
fn hash_of(row: &Row) -> StoreResult<[u8; 32]> {
    let hash = row.key.get(1..).and_then(|rest| rest.try_into().ok());
    hash.ok_or_else(|| StoreError::Damaged("a key that is not a hash".to_owned()))
}

/// Imports organizations, keys, webhooks and learned places, and compares all but the places, which
/// sessions of other runs may have changed.
async fn import_customers(from: &EmbeddedStore, to: &CqlStore) -> Result<Migrated, MigrateError> {
    let mut done = Migrated::default();
    for row in rows(from, vec![b'g']).await? {
        let organization: Organization = row.decode()?;
        let copy = to.organization(organization.clone()).await?;
        require_equal(copy == organization, "an organization")?;
        done.customers += 1;
    }
    for row in rows(from, vec![b'k']).await? {
        let record: KeyRecord = row.decode()?;
        let hash = hash_of(&row)?;
        to.put_key(hash, record.clone()).await?;
        if let Some(at) = record.revoked_at {
            to.revoke_key(record.id, at).await?;
        }
        require_equal(to.find_key(hash).await? == Some(record), "an API key")?;
        done.customers += 1;
    }
    for endpoint in from.endpoints().await? {
        to.create_endpoint(endpoint.clone()).await?;
        let copy = to.endpoint(endpoint.tenant).await?;
        require_equal(copy == Some(endpoint), "a webhook")?;
        done.customers += 1;
    }
    for row in rows(from, vec![b'w']).await? {
        to.import_learned(hash_of(&row)?, &row.payload).await?;
    }
    Ok(done)
}

/// Imports requested retries and idempotency keys, after the sessions to which they point.
async fn import_requests(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    for endpoint in from.endpoints().await? {
        let of_endpoint = Key::of(b'b').bytes(&endpoint.id.to_bytes()).build();
        for row in rows(from, of_endpoint).await? {
            let request: ManualRetry = row.decode()?;
            to.import_request(&endpoint, request).await?;
        }
    }
    for row in rows(from, vec![b'i']).await? {
        let stored: idempotency::IdempotencyRecord = row.decode()?;
        // The tenant precedes the hash.
        let hash = row.key.get(18..).unwrap_or_default();
        to.import_idempotency(hash, stored.body_hash, stored.session_id)
            .await?;
    }
    Ok(())
}

/// Imports documents, such as the audit log.
async fn import_documents(from: &EmbeddedStore, to: &CqlStore) -> Result<(), MigrateError> {
    for row in rows(from, vec![b'#']).await? {
        let key = row.key.get(1..).unwrap_or_default();
        let (collection, key) = Collection::split_key(key)
            .ok_or_else(|| StoreError::Damaged("a document of an unknown kind".to_owned()))?;
        to.import_document(collection, key, &row.payload).await?;
    }
    Ok(())
}

async fn starts_after(
    from: &EmbeddedStore,
    after: Option<SessionId>,
) -> StoreResult<Vec<SessionStart>> {
    let mut range = KeyRange::prefix(vec![b's']);
    if let Some(after) = after {
        range = range.after(&Key::of(b's').session(after).build());
    }
    let rows = from.read_rows(move |read| read.rows(&Scan::state(range, PAGE_ROWS)));
    rows.await?.iter().map(Row::decode).collect()
}

async fn import_session(
    from: &EmbeddedStore,
    to: &CqlStore,
    start: SessionStart,
) -> Result<Migrated, MigrateError> {
    let session_id = start.session_id;
    let was_there = to.has_session(session_id).await?;
    if !was_there {
        let mut from_seq = 0;
        loop {
            let batches = Journal::read(from, session_id, from_seq, PAGE_BATCHES).await?;
            let Some(last) = batches.last() else { break };
            from_seq = last.seq.saturating_add(1);
            to.import_batches(session_id, batches).await?;
        }
        to.import_learned_by(session_id, &from.learned_by(session_id).await?)
            .await?;
        to.import_session(read_session(from, start).await?).await?;
    }
    if let Some(review) = from.review(session_id).await? {
        to.put_review(session_id, review).await?;
    }
    let mut done = compare(from, to, session_id).await?;
    if was_there {
        done.were_there = 1;
    } else {
        done.sessions = 1;
    }
    Ok(done)
}

async fn read_session(from: &EmbeddedStore, start: SessionStart) -> StoreResult<ImportedSession> {
    let session_id = start.session_id;
    let mut messages = Vec::new();
    for message in from.messages(session_id).await? {
        let detail = from.delivery(message.tenant, message.id).await?;
        let detail =
            detail.ok_or_else(|| StoreError::Damaged("a message that is not listed".to_owned()))?;
        messages.push((message, detail.row, detail.attempts));
    }
    let needs_rescoring = from
        .read_rows(move |read| read.has_state(&to_score::key(session_id)))
        .await?;
    Ok(ImportedSession {
        end: from.find(session_id).await?.and_then(|row| row.end),
        insight: from.insight(session_id).await?,
        needs_rescoring,
        pod: from.pod(session_id).await?,
        notes: from.notes(session_id).await?,
        messages,
        start,
    })
}

/// Compares a session in both stores.
async fn compare(
    from: &EmbeddedStore,
    to: &CqlStore,
    session_id: SessionId,
) -> Result<Migrated, MigrateError> {
    let differs = |what| MigrateError::Differs { session_id, what };
    let require_equal = |are_equal: bool, what| {
        if are_equal {
            Ok(())
        } else {
            Err(differs(what))
        }
    };
    require_equal(
        from.find(session_id).await? == to.find(session_id).await?,
        "the start or the end",
    )?;
    require_equal(
        from.insight(session_id).await? == to.insight(session_id).await?,
        "the insight",
    )?;
    require_equal(
        from.pod(session_id).await? == to.pod(session_id).await?,
        "the proof of delivery",
    )?;
    require_equal(
        from.notes(session_id).await? == to.notes(session_id).await?,
        "a note",
    )?;
    let messages = from.messages(session_id).await?;
    require_equal(messages == to.messages(session_id).await?, "a message")?;
    for message in &messages {
        // Their status follows from these and from the webhook, which is imported and compared
        // later.
        let copy = to.delivery(message.tenant, message.id).await?;
        let copy = copy.map(|detail| (detail.row, detail.attempts));
        let original = from.delivery(message.tenant, message.id).await?;
        let original = original.map(|detail| (detail.row, detail.attempts));
        require_equal(original == copy, "the state of a message")?;
    }
    let mut done = Migrated {
        messages: messages.len() as u64,
        ..Migrated::default()
    };
    let mut from_seq = 0;
    loop {
        let original = Journal::read(from, session_id, from_seq, PAGE_BATCHES).await?;
        let copy = Journal::read(to, session_id, from_seq, PAGE_BATCHES).await?;
        let both = original.len().min(copy.len());
        require_equal(
            original.get(..both) == copy.get(..both) && (both > 0 || original.len() == copy.len()),
            "a batch",
        )?;
        let Some(last) = original.get(..both).and_then(<[_]>::last) else {
            return Ok(done);
        };
        from_seq = last.seq.saturating_add(1);
        done.batches += both as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::kinds::TABLES;

    #[test]
    fn a_migration_treats_every_table() {
        for (table, name) in TABLES {
            assert!(treatment(table).is_some(), "{name}: not treated");
        }
    }

    /// The sources of the tables, which name the letters of their keys.
    const SOURCES: [&str; 19] = [
        include_str!("tables/to_score.rs"),
        include_str!("tables/deliveries.rs"),
        include_str!("tables/documents.rs"),
        include_str!("tables/endpoints.rs"),
        include_str!("tables/erasure.rs"),
        include_str!("tables/idempotency.rs"),
        include_str!("tables/insights.rs"),
        include_str!("tables/journal.rs"),
        include_str!("tables/key_check.rs"),
        include_str!("tables/keys.rs"),
        include_str!("tables/last_backup.rs"),
        include_str!("tables/lists.rs"),
        include_str!("tables/messages.rs"),
        include_str!("tables/notes.rs"),
        include_str!("tables/outbox.rs"),
        include_str!("tables/recorders.rs"),
        include_str!("tables/retention.rs"),
        include_str!("tables/reviews.rs"),
        include_str!("tables/sessions.rs"),
    ];

    #[test]
    fn the_list_of_tables_is_complete() {
        let mut letters = 0;
        for source in SOURCES {
            for (_, rest) in source
                .match_indices("b'")
                .map(|(at, _)| source.split_at(at + 2))
            {
                let mut rest = rest.bytes();
                let (Some(letter), Some(b'\'')) = (rest.next(), rest.next()) else {
                    continue;
                };
                letters += 1;
                let is_listed = TABLES.iter().any(|(table, _)| *table == letter);
                // The journal has a key space of its own.
                assert!(is_listed || letter == b'j', "table {}", char::from(letter));
            }
        }
        assert!(letters >= TABLES.len() / 2, "the sources name their tables");
    }
}
