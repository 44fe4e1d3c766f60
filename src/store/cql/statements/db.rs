//! Runs statements: few rows, many rows, a write, a lightweight transaction. Maps the database's
//! errors.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use porchlight_observe::store::{LightweightOutcome, StatementKind, StoreMetrics};
use porchlight_ports::{StoreError, StoreResult};
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::batch::BatchValues;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::Batch;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::counts::Counts;
use super::prepared::Statements;
use crate::cql::connection::connect::next_timestamp_us;

/// The distance of an erasure's timestamp ahead of the clock, in microseconds: one day.
const ERASED_AHEAD_US: i64 = 86_400 * 1_000_000;

/// The number of the blob format: postcard. Every format ever written stays readable.
const FORMAT: u8 = 1;

/// The session and all statements.
pub(in crate::cql) struct Db {
    pub(in crate::cql) session: Session,
    pub(in crate::cql) statements: Statements,
    /// Counts of executed statements. It is shared with the streams of rows, which outlive a call.
    pub(in crate::cql) counts: Arc<Counts>,
}

/// The outcome of a lightweight transaction.
#[derive(Debug)]
pub(in crate::cql) enum Lwt {
    /// The transaction was applied.
    Applied,
    /// The condition of the transaction did not hold.
    Refused,
    /// The outcome is unknown; a serial read resolves it.
    InDoubt(StoreError),
}

/// The row that a serial read found after a transaction in doubt. The read has completed the
/// transaction or ruled it out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum Found {
    /// The value that the transaction writes. Two writers of the same value have the same
    /// intention.
    Next,
    /// The value that the transaction expects: it was not applied and never will be.
    Expected,
    /// Another value: another transaction was applied.
    Other,
}

impl Found {
    /// Compares the stored value with the one that the transaction writes and the one that it
    /// expects.
    pub(in crate::cql) fn of<T: PartialEq>(stored: &T, next: &T, expected: &T) -> Self {
        if stored == next {
            Self::Next
        } else if stored == expected {
            Self::Expected
        } else {
            Self::Other
        }
    }
}

impl Lwt {
    /// Returns whether the transaction was applied. Awaits `serial_read` only if the outcome is in
    /// doubt.
    ///
    /// # Errors
    ///
    /// Returns the transaction's error if it was in doubt and not applied, so that the caller may
    /// retry it, and an error of the read.
    pub(in crate::cql) async fn resolve(
        self,
        serial_read: impl Future<Output = StoreResult<Found>>,
    ) -> StoreResult<bool> {
        match self {
            Self::Applied => Ok(true),
            Self::Refused => Ok(false),
            Self::InDoubt(error) => match serial_read.await? {
                Found::Next => Ok(true),
                Found::Expected => Err(error),
                Found::Other => Ok(false),
            },
        }
    }

    /// Succeeds if the row that the transaction creates exists, also if another transaction has
    /// created it. `serial_read` returns whether it exists.
    ///
    /// # Errors
    ///
    /// See [`Lwt::resolve`].
    pub(in crate::cql) async fn resolve_creation(
        self,
        serial_read: impl Future<Output = StoreResult<bool>>,
    ) -> StoreResult<()> {
        let found = async {
            Ok(match serial_read.await? {
                true => Found::Next,
                false => Found::Expected,
            })
        };
        self.resolve(found).await.map(drop)
    }
}

/// Encodes a row's blob.
pub(in crate::cql) fn encode<T: Serialize>(value: &T) -> StoreResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(128);
    bytes.push(FORMAT);
    postcard::to_extend(value, bytes).map_err(StoreError::unavailable)
}

/// Decodes a blob that [`encode`] wrote; `table` appears in errors. A greater number of the format
/// comes from a later release.
pub(in crate::cql) fn decode<T: DeserializeOwned>(
    table: &'static str,
    bytes: &[u8],
) -> StoreResult<T> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => postcard::from_bytes(body)
            .map_err(|error| StoreError::Damaged(format!("{table}: does not decode: {error}"))),
        Some((&format, _)) if format > FORMAT => Err(StoreError::Newer(format!(
            "{table}: unknown format {format}"
        ))),
        Some(_) => Err(StoreError::Damaged(format!("{table}: no format"))),
        None => Err(StoreError::Damaged(format!("{table}: empty"))),
    }
}

/// Returns the bytes of an id in a key.
pub(in crate::cql) fn id_bytes(table: &'static str, bytes: &[u8]) -> StoreResult<[u8; 16]> {
    bytes
        .try_into()
        .map_err(|_| StoreError::Damaged(format!("{table}: an id of {} bytes", bytes.len())))
}

/// Returns whether a lightweight transaction was applied, according to its answer. The databases
/// differ in the columns after the first.
pub(in crate::cql) fn is_applied(rows: &QueryRowsResult) -> StoreResult<bool> {
    let row: Row = rows.first_row().map_err(StoreError::unavailable)?;
    match row.columns.first() {
        Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
        _ => Err(StoreError::Damaged(
            "a lightweight transaction's answer begins with no truth value".to_owned(),
        )),
    }
}

/// Returns the timestamp of an erasure, in microseconds of the Unix epoch. It also covers writes of
/// nodes whose clock is ahead, and writes of the next day by nodes that do not know of the erasure.
pub(super) fn erased_at_us() -> i64 {
    next_timestamp_us() + ERASED_AHEAD_US
}

/// Maps an error to overloaded or unavailable.
fn from_execution(error: ExecutionError) -> StoreError {
    match &error {
        ExecutionError::LastAttemptError(
            RequestAttemptError::UnableToAllocStreamId
            | RequestAttemptError::DbError(DbError::Overloaded | DbError::RateLimitReached { .. }, _),
        ) => StoreError::Overloaded,
        _ => StoreError::unavailable(error),
    }
}

impl Db {
    pub(in crate::cql) fn new(session: Session, statements: Statements) -> Self {
        Self {
            session,
            statements,
            counts: Arc::default(),
        }
    }

    /// Reads few rows, as a whole.
    async fn answer(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<QueryRowsResult> {
        self.counts.on_statement(StatementKind::Read);
        let answer = self.session.execute_unpaged(statement, values).await;
        let rows = answer
            .map_err(from_execution)?
            .into_rows_result()
            .map_err(StoreError::unavailable)?;
        self.counts.on_rows(rows.rows_num());
        Ok(rows)
    }

    /// Reads at most one row.
    pub(in crate::cql) async fn row<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<Option<R>>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        let rows = self.answer(statement, values).await?;
        rows.maybe_first_row().map_err(StoreError::unavailable)
    }

    /// Reads all rows of a statement that returns few rows.
    pub(in crate::cql) async fn few<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<Vec<R>>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm>,
    {
        let rows = self.answer(statement, values).await?;
        let rows = rows.rows().map_err(StoreError::unavailable)?;
        rows.map(|row| row.map_err(StoreError::unavailable))
            .collect()
    }

    /// Reads rows page by page, on demand.
    pub(in crate::cql) async fn stream<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<BoxStream<'static, StoreResult<R>>>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm> + Send + 'static,
    {
        self.counts.on_statement(StatementKind::Scan);
        let pager = self.session.execute_iter(statement.clone(), values).await;
        let rows = pager
            .map_err(StoreError::unavailable)?
            .rows_stream()
            .map_err(StoreError::unavailable)?;
        let counts = Arc::clone(&self.counts);
        let rows = rows.inspect_ok(move |_row| counts.on_rows(1));
        Ok(rows.map_err(StoreError::unavailable).boxed())
    }

    /// Reads up to `limit` rows.
    pub(in crate::cql) async fn rows<R>(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        limit: usize,
    ) -> StoreResult<Vec<R>>
    where
        R: for<'f, 'm> DeserializeRow<'f, 'm> + Send + 'static,
    {
        let stream = self.stream(statement, values).await?;
        stream.take(limit).try_collect().await
    }

    /// Runs a plain write.
    pub(in crate::cql) async fn write(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<()> {
        self.counts.on_statement(StatementKind::Write);
        let answer = self.session.execute_unpaged(statement, values).await;
        answer.map(drop).map_err(from_execution)
    }

    /// Writes several rows with one request, which counts as one statement.
    pub(super) async fn write_batch(
        &self,
        batch: &Batch,
        values: impl BatchValues,
    ) -> StoreResult<()> {
        self.counts.on_statement(StatementKind::Write);
        let answer = self.session.batch(batch, values).await;
        answer.map(drop).map_err(from_execution)
    }

    /// Runs a delete with [`erased_at_us`].
    pub(in crate::cql) async fn erase(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<()> {
        self.write_at(statement, values, erased_at_us()).await
    }

    /// Runs a plain write with this timestamp, in microseconds of the Unix epoch. A write of the
    /// row with a later timestamp counts instead.
    pub(in crate::cql) async fn write_at(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        timestamp_us: i64,
    ) -> StoreResult<()> {
        let mut statement = statement.clone();
        statement.set_timestamp(Some(timestamp_us));
        self.write(&statement, values).await
    }

    /// Runs a plain write that replaces a row that was read, also if the clock of the row's writer
    /// was ahead. The write leaves a microsecond to a renewal, which copies the row with the next
    /// timestamp.
    pub(in crate::cql) async fn write_after(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        written_at_us: i64,
    ) -> StoreResult<()> {
        let timestamp_us = next_timestamp_us().max(written_at_us.saturating_add(2));
        self.write_at(statement, values, timestamp_us).await
    }

    /// Runs a lightweight transaction.
    pub(in crate::cql) async fn lightweight(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> StoreResult<Lwt> {
        let metrics = StoreMetrics::get();
        self.counts.on_statement(StatementKind::Lightweight);
        let answer = self.session.execute_unpaged(statement, values).await;
        let rows = match answer {
            Ok(answer) => answer.into_rows_result().map_err(StoreError::unavailable)?,
            // The driver refused the statement before sending it, so the outcome is not in doubt.
            Err(error @ (ExecutionError::BadQuery(_) | ExecutionError::EmptyPlan)) => {
                return Err(StoreError::unavailable(error));
            }
            Err(error) => {
                metrics.on_lightweight(LightweightOutcome::InDoubt);
                return Ok(Lwt::InDoubt(from_execution(error)));
            }
        };
        Ok(if is_applied(&rows)? {
            metrics.on_lightweight(LightweightOutcome::Applied);
            Lwt::Applied
        } else {
            metrics.on_lightweight(LightweightOutcome::Refused);
            Lwt::Refused
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_read_resolves_an_outcome_in_doubt() {
        let in_doubt = || Lwt::InDoubt(StoreError::Overloaded);
        let resolve = |outcome: Lwt, stored: Option<u8>| {
            let found = async move { Ok(Found::of(&stored, &Some(2), &Some(1))) };
            futures_util::FutureExt::now_or_never(outcome.resolve(found)).unwrap()
        };
        assert!(matches!(resolve(in_doubt(), Some(2)), Ok(true)));
        assert!(matches!(
            resolve(in_doubt(), Some(1)),
            Err(StoreError::Overloaded)
        ));
        assert!(matches!(resolve(in_doubt(), Some(3)), Ok(false)));
        assert!(matches!(resolve(in_doubt(), None), Ok(false)));
        // An outcome that is known needs no read.
        assert!(matches!(resolve(Lwt::Applied, Some(1)), Ok(true)));
        assert!(matches!(resolve(Lwt::Refused, Some(2)), Ok(false)));
    }
}
