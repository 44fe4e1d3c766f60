//! Creates and migrates the tables with forward-only migrations. Each is applied once, however many
//! nodes start at the same time.
//!
//! The process that takes the lock applies the missing migrations; the others wait. The lock is one
//! row, taken by a lightweight transaction, and expires when its holder dies. Migrations consist of
//! repeatable statements, so an interrupted one is applied again from its start.
//!
//! A process of an earlier release does not start on migrated tables. Therefore only servers, and
//! the commands that run before any server, migrate the tables of an earlier release.

use std::time::Duration;

use porchlight_world::fill_random;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use sha2::{Digest, Sha256};

use super::open_error::CqlOpenError;
use super::options::CqlOptions;
use super::topology;
use crate::cql::layout::bounded::BOUNDED_SINCE;
use crate::cql::sessions::state::back_off;
use crate::cql::statements::db::is_applied;

/// The migrations, in order. A released migration never changes.
const MIGRATIONS: [(i32, &str); 8] = [
    (1, include_str!("../../../../schema/cql/0001_tables.cql")),
    (2, include_str!("../../../../schema/cql/0002_nodes.cql")),
    (3, include_str!("../../../../schema/cql/0003_recorders.cql")),
    (4, include_str!("../../../../schema/cql/0004_key_check.cql")),
    (5, include_str!("../../../../schema/cql/0005_documents.cql")),
    (6, include_str!("../../../../schema/cql/0006_privacy.cql")),
    (7, include_str!("../../../../schema/cql/0007_clocks.cql")),
    (
        8,
        include_str!("../../../../schema/cql/0008_bounded_partitions.cql"),
    ),
];

/// The two tables that migrations need. Nodes that start at the same time create them concurrently.
/// Each table's id follows from its name, so that all nodes create the same table; otherwise the
/// database would create two and lose one.
const BOOTSTRAP: [&str; 2] = [
    "schema_lock (name text PRIMARY KEY, holder blob)",
    "schema_migrations (number int PRIMARY KEY, hash blob)",
];

/// The time to live of the lock in seconds; its holder renews it before each statement.
const LOCK_TTL_SEC: i32 = 120;
/// The interval at which a waiting process checks the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum time that a process waits for the lock. It exceeds the time to live of the lock, and
/// ends before systemd ends the start (`TimeoutStartSec` of 300 s in `deploy`).
const LOCK_WAIT_MAX: Duration = Duration::from_secs(240);
/// The time after which a cluster without a quorum counts as failed instead of starting.
pub(in crate::cql) const QUORUM_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of attempts at a schema change.
const ATTEMPTS_MAX: usize = 20;
/// The maximum length of a keyspace name in both databases.
const KEYSPACE_CHARS_MAX: usize = 48;

fn failed(error: impl std::fmt::Display) -> CqlOpenError {
    CqlOpenError::Schema(error.to_string())
}

/// Returns whether a text is a valid keyspace name, which cannot be bound as a value.
#[must_use]
pub fn is_keyspace(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase())
        && text.len() <= KEYSPACE_CHARS_MAX
        && letters
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// The right of a process to change tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum MayMigrate {
    /// The process may create tables and migrate those of an earlier release.
    All,
    /// The process may create the tables of an empty keyspace.
    Empty,
}

/// Creates the keyspace if absent, selects it, and migrates its tables.
///
/// # Errors
///
/// Returns [`CqlOpenError::Outdated`] if the process may not migrate the tables, among other errors.
pub(in crate::cql) async fn prepare(
    session: &Session,
    options: &CqlOptions,
    may_migrate: MayMigrate,
) -> Result<(), CqlOpenError> {
    if !is_keyspace(&options.keyspace) {
        return Err(CqlOpenError::Keyspace);
    }
    topology::check_name(session, options)?;
    // While nodes create a keyspace concurrently, it may appear, vanish and appear again.
    let began = tokio::time::Instant::now();
    while let Err(error) = create_keyspace(session, options).await {
        if began.elapsed() > QUORUM_TIMEOUT {
            return Err(error);
        }
        back_off().await;
    }
    topology::check(session, options).await?;
    migrate(session, may_migrate).await
}

/// Creates the keyspace and the tables that migrations need.
async fn create_keyspace(session: &Session, options: &CqlOptions) -> Result<(), CqlOpenError> {
    let (keyspace, factor) = (&options.keyspace, options.replication_factor);
    let known = session.get_cluster_state().get_keyspace(keyspace).is_some();
    if !known {
        run(
            session,
            &format!(
                "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
                 {{'class': 'NetworkTopologyStrategy', 'replication_factor': '{factor}'}}"
            ),
        )
        .await?;
        await_agreement(session).await?;
    }
    session
        .use_keyspace(keyspace, false)
        .await
        .map_err(failed)?;
    for table in BOOTSTRAP {
        let id = table_id(keyspace, table);
        let text = format!("CREATE TABLE IF NOT EXISTS {table} WITH id = {id}");
        run(session, &text).await?;
    }
    await_agreement(session).await
}

/// Returns the id of a table of this keyspace, unique within a cluster.
fn table_id(keyspace: &str, table: &str) -> uuid::Uuid {
    let hash = Sha256::digest(format!("{keyspace}.{table}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(hash.get(..16).unwrap_or(&[0; 16]));
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

async fn migrate(session: &Session, may_migrate: MayMigrate) -> Result<(), CqlOpenError> {
    let mut me = vec![0; 16];
    fill_random(&mut me);
    let began = tokio::time::Instant::now();
    let mut is_waiting = false;
    loop {
        match migrate_once(session, &me, may_migrate).await {
            Ok(true) => return Ok(()),
            Ok(false) if began.elapsed() > LOCK_WAIT_MAX => {
                return Err(CqlOpenError::LockHeld);
            }
            Ok(false) => {
                if !is_waiting {
                    tracing::info!("waiting for another process that migrates the tables");
                }
                is_waiting = true;
            }
            // A cluster that is just starting needs some time to reach a quorum.
            Err(Refused::Retryable(error)) if began.elapsed() > QUORUM_TIMEOUT => {
                return Err(error);
            }
            Err(Refused::Retryable(_)) => {}
            Err(Refused::Final(error)) => return Err(error),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The reason why the tables were not migrated.
enum Refused {
    /// A later attempt may succeed.
    Retryable(CqlOpenError),
    /// A later attempt will fail too.
    Final(CqlOpenError),
}

/// The migrations of a keyspace that are recorded as applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    None,
    /// The migrations of an earlier release, or those of a migration in progress.
    Some,
    All,
}

/// Returns the recorded migrations.
async fn recorded(session: &Session) -> Result<Applied, Refused> {
    let applied = applied(session).await.map_err(Refused::Retryable)?;
    let missing = missing(&applied).map_err(|error| Refused::Final(failed(error)))?;
    Ok(match (applied.is_empty(), missing.is_empty()) {
        (_, true) => Applied::All,
        (true, false) => Applied::None,
        (false, false) => Applied::Some,
    })
}

/// Applies missing migrations; false if another process holds the lock.
async fn migrate_once(
    session: &Session,
    me: &[u8],
    may_migrate: MayMigrate,
) -> Result<bool, Refused> {
    match recorded(session).await? {
        Applied::All => return Ok(true),
        Applied::Some if may_migrate == MayMigrate::Empty => {
            let holder = lock_holder(session).await.map_err(Refused::Retryable)?;
            // A process that has released the lock meanwhile has recorded all migrations before.
            return match recorded(session).await? {
                Applied::All => Ok(true),
                _ if holder.is_some() => Ok(false),
                _ => Err(Refused::Final(CqlOpenError::Outdated)),
            };
        }
        Applied::Some | Applied::None => {}
    }
    if !take_lock(session, me).await.map_err(Refused::Retryable)? {
        return Ok(false);
    }
    let done = apply(session, me).await;
    // The lock expires if it cannot be released.
    let _released = release_lock(session, me).await;
    done.map(|()| true).map_err(Refused::Retryable)
}

/// Returns the migrations recorded as applied: number and hash.
async fn applied(session: &Session) -> Result<Vec<(i32, Vec<u8>)>, CqlOpenError> {
    let mut read = Statement::new("SELECT number, hash FROM schema_migrations");
    read.set_consistency(Consistency::LocalQuorum);
    let rows = session.query_unpaged(read, ()).await.map_err(failed)?;
    let rows = rows.into_rows_result().map_err(failed)?;
    let applied: Result<Vec<_>, _> = rows.rows().map_err(failed)?.collect();
    applied.map_err(failed)
}

/// Returns the migrations that are not applied. A different hash of an applied one is an error:
/// this program does not know these tables.
fn missing(applied: &[(i32, Vec<u8>)]) -> Result<Vec<(i32, &'static str)>, String> {
    for (number, hash) in applied {
        let known = MIGRATIONS.iter().find(|(known, _)| known == number);
        match known {
            Some((_, text)) if hash.as_slice() == hash_of(text).as_slice() => {}
            Some(_) => return Err(format!("migration {number} differs from the applied one")),
            None => {
                return Err(format!(
                    "a newer version has applied migration {number}, which this version does not know"
                ));
            }
        }
    }
    let is_missing = |(number, _): &(i32, &str)| applied.iter().all(|(there, _)| there != number);
    Ok(MIGRATIONS.into_iter().filter(is_missing).collect())
}

/// Returns the hash of a migration's statements, without comments, which may be corrected.
fn hash_of(text: &str) -> [u8; 32] {
    Sha256::digest(statements(text).join(";")).into()
}

/// Returns the statements of a migration, without comments.
fn statements(text: &str) -> Vec<String> {
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect();
    lines
        .join("\n")
        .split(";\n")
        .map(|statement| statement.trim().trim_end_matches(';').to_owned())
        .filter(|statement| !statement.is_empty())
        .collect()
}

/// Applies the missing migrations, and then records them, the last one first. A node of an earlier
/// release that starts meanwhile finds the record of a migration that it does not know, and stops.
async fn apply(session: &Session, me: &[u8]) -> Result<(), CqlOpenError> {
    let missing = missing(&applied(session).await?).map_err(failed)?;
    for (_, text) in &missing {
        for statement in statements(text) {
            renew_lock(session, me).await?;
            if !is_added(session, &statement).await? {
                run(session, &statement).await?;
            }
        }
        await_agreement(session).await?;
    }
    let is_new = missing.iter().any(|(number, _)| *number == 1);
    for (index, (number, text)) in missing.iter().rev().enumerate() {
        record(session, *number, text).await?;
        if is_new && index == 0 {
            // No node of an earlier release has used these tables, and none will. After an error
            // the migrations are applied again.
            use_bounded_partitions(session).await?;
        }
    }
    Ok(())
}

/// Records a migration as applied.
async fn record(session: &Session, number: i32, text: &str) -> Result<(), CqlOpenError> {
    let mut record = Statement::new("INSERT INTO schema_migrations (number, hash) VALUES (?, ?)");
    record.set_consistency(Consistency::LocalQuorum);
    let hash = hash_of(text);
    session
        .query_unpaged(record, (number, hash.as_slice()))
        .await
        .map_err(failed)?;
    tracing::info!(migration = number, "a migration of the tables was applied");
    Ok(())
}

/// Lets all sessions of new tables use bounded partitions; see
/// [`bounded`](crate::cql::layout::bounded).
async fn use_bounded_partitions(session: &Session) -> Result<(), CqlOpenError> {
    let text = "INSERT INTO generations (name, generation) VALUES (?, 0) IF NOT EXISTS";
    lightweight(session, text, (BOUNDED_SINCE,)).await.map(drop)
}

/// Returns the table and the column of a statement that adds one column.
fn added_column(statement: &str) -> Option<(&str, &str)> {
    let mut words = statement.strip_prefix("ALTER TABLE ")?.split_whitespace();
    let table = words.next()?;
    let is_add = words.next()? == "ADD";
    words
        .next()
        .filter(|_| is_add)
        .map(|column| (table, column))
}

/// Returns whether the column that a statement adds exists already, because an earlier attempt was
/// interrupted. Not both databases have `ADD IF NOT EXISTS`.
async fn is_added(session: &Session, statement: &str) -> Result<bool, CqlOpenError> {
    let (Some((table, column)), Some(keyspace)) = (added_column(statement), session.get_keyspace())
    else {
        return Ok(false);
    };
    session.refresh_metadata().await.map_err(failed)?;
    let state = session.get_cluster_state();
    let table = state
        .get_keyspace(keyspace.as_str())
        .and_then(|keyspace| keyspace.tables.get(table));
    Ok(table.is_some_and(|table| table.columns.contains_key(column)))
}

/// Takes the lock; a serial read resolves an outcome in doubt.
async fn take_lock(session: &Session, me: &[u8]) -> Result<bool, CqlOpenError> {
    // Unlike an update, an insert leaves a row marker, which expires with the rest.
    let taken = lightweight(
        session,
        "INSERT INTO schema_lock (name, holder) VALUES ('schema', ?) IF NOT EXISTS USING TTL ?",
        (me, LOCK_TTL_SEC),
    );
    match taken.await {
        Ok(taken) => Ok(taken),
        Err(_in_doubt) => Ok(holds_lock(session, me).await.unwrap_or(false)),
    }
}

async fn renew_lock(session: &Session, me: &[u8]) -> Result<(), CqlOpenError> {
    let text = "UPDATE schema_lock USING TTL ? SET holder = ? WHERE name = 'schema' IF holder = ?";
    let renewed = match lightweight(session, text, (LOCK_TTL_SEC, me, me)).await {
        Ok(renewed) => renewed,
        Err(_in_doubt) => holds_lock(session, me).await?,
    };
    if renewed {
        Ok(())
    } else {
        Err(CqlOpenError::LockLost)
    }
}

async fn holds_lock(session: &Session, me: &[u8]) -> Result<bool, CqlOpenError> {
    Ok(lock_holder(session).await?.as_deref() == Some(me))
}

async fn lock_holder(session: &Session) -> Result<Option<Vec<u8>>, CqlOpenError> {
    let mut read = Statement::new("SELECT holder FROM schema_lock WHERE name = 'schema'");
    read.set_consistency(Consistency::LocalSerial);
    let rows = session.query_unpaged(read, ()).await.map_err(failed)?;
    let rows = rows.into_rows_result().map_err(failed)?;
    let holder: Option<(Option<Vec<u8>>,)> = rows.maybe_first_row().map_err(failed)?;
    Ok(holder.and_then(|(holder,)| holder))
}

async fn release_lock(session: &Session, me: &[u8]) -> Result<(), CqlOpenError> {
    let text = "DELETE FROM schema_lock WHERE name = 'schema' IF holder = ?";
    lightweight(session, text, (me,)).await.map(drop)
}

/// Runs a lightweight transaction on the lock. An error leaves it in doubt.
async fn lightweight(
    session: &Session,
    text: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Result<bool, CqlOpenError> {
    let mut statement = Statement::new(text);
    statement.set_consistency(Consistency::LocalQuorum);
    statement.set_serial_consistency(Some(SerialConsistency::LocalSerial));
    let answer = session.query_unpaged(statement, values).await;
    let rows = answer.map_err(failed)?.into_rows_result().map_err(failed)?;
    is_applied(&rows).map_err(failed)
}

/// Runs a repeatable statement. Nodes that change tables concurrently delay each other's schema
/// agreement.
async fn run(session: &Session, text: &str) -> Result<(), CqlOpenError> {
    let mut attempts = 0;
    loop {
        let Err(error) = session.query_unpaged(text, ()).await else {
            return Ok(());
        };
        attempts += 1;
        let is_retryable = matches!(
            error,
            ExecutionError::SchemaAgreementError(_)
                | ExecutionError::MetadataError(_)
                | ExecutionError::ConnectionPoolError(_)
                | ExecutionError::RequestTimeout(_)
        );
        if !is_retryable || attempts >= ATTEMPTS_MAX {
            return Err(failed(format!("{error}: {text}")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until all nodes agree on the schema.
async fn await_agreement(session: &Session) -> Result<(), CqlOpenError> {
    let mut attempts = 0;
    loop {
        let Err(error) = session.await_schema_agreement().await else {
            return Ok(());
        };
        attempts += 1;
        if attempts >= ATTEMPTS_MAX {
            return Err(failed(error));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_consecutive_and_repeatable() {
        for (index, (number, text)) in MIGRATIONS.into_iter().enumerate() {
            assert_eq!(number as usize, index + 1);
            let statements = statements(text);
            assert!(!statements.is_empty());
            for statement in statements {
                let is_repeatable =
                    statement.contains("IF NOT EXISTS") || added_column(&statement).is_some();
                assert!(is_repeatable, "{statement}");
            }
        }
    }

    #[test]
    fn missing_migrations_are_reported_and_unknown_ones_refused() {
        let (number, text) = MIGRATIONS[0];
        let applied = |number, hash: [u8; 32]| vec![(number, hash.to_vec())];
        assert_eq!(missing(&[]).unwrap().len(), MIGRATIONS.len());
        assert_eq!(
            missing(&applied(number, hash_of(text))).unwrap(),
            &MIGRATIONS[1..],
            "the later migrations"
        );
        assert!(missing(&applied(number, [0; 32])).is_err());
        assert!(missing(&applied(9_999, hash_of(text))).is_err());
        let reworded = format!("-- a comment\n{text}");
        assert_eq!(
            hash_of(&reworded),
            hash_of(text),
            "comments may be corrected"
        );
    }

    #[test]
    fn a_keyspace_has_a_plain_name() {
        assert!(is_keyspace("porchlight") && is_keyspace("p_2"));
        for text in ["", "2p", "p-2", "p;drop", "P", &"p".repeat(49)] {
            assert!(!is_keyspace(text), "{text}");
        }
    }
}
