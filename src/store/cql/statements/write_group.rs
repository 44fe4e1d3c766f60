//! Small rows of several partitions that are written with one request.
//!
//! The rows of a request have no order and are not atomic: after a failure, any of them may be
//! stored. A caller therefore writes a row that others lead to in an earlier request than the row
//! that leads to it. Only [`Db::erase_at_once`] is atomic.

use futures_util::future::try_join_all;
use porchlight_ports::StoreResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;

use super::db::{Db, erased_at_us};

/// The maximum number of rows in a request. Cassandra logs a warning from 11 partitions on
/// (`unlogged_batch_across_partitions_warn_threshold`).
const ROWS_MAX: usize = 8;
/// The maximum number of bytes of blobs in a request. Cassandra logs a warning from 5 KiB on, keys
/// included (`batch_size_warn_threshold`).
const BYTES_MAX: usize = 4 * 1024;

/// A row to write.
struct Row<'s> {
    statement: &'s PreparedStatement,
    values: Box<dyn SerializeRow + Send + Sync>,
    /// The number of bytes of the row's blob.
    bytes: usize,
}

/// Rows that are written with as few requests as the limits allow.
#[derive(Default)]
pub(in crate::cql) struct WriteGroup<'s> {
    rows: Vec<Row<'s>>,
}

impl<'s> WriteGroup<'s> {
    /// Adds a row. `bytes` is the length of its blob.
    pub(in crate::cql) fn add(
        &mut self,
        statement: &'s PreparedStatement,
        bytes: usize,
        values: impl SerializeRow + Send + Sync + 'static,
    ) {
        self.rows.push(Row {
            statement,
            values: Box::new(values),
            bytes,
        });
    }
}

/// Splits rows with these numbers of bytes, in their order, into requests. Returns the number of
/// rows of each request; a row beyond the limit is alone.
fn split(bytes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut requests = Vec::new();
    let (mut rows, mut total) = (0, 0_usize);
    for bytes in bytes {
        let is_full = rows == ROWS_MAX || total.saturating_add(bytes) > BYTES_MAX;
        if rows > 0 && is_full {
            requests.push(rows);
            (rows, total) = (0, 0);
        }
        rows += 1;
        total = total.saturating_add(bytes);
    }
    if rows > 0 {
        requests.push(rows);
    }
    requests
}

impl Db {
    /// Writes all rows of a group. An error means that any of them may be stored.
    pub(in crate::cql) async fn write_group(&self, mut group: WriteGroup<'_>) -> StoreResult<()> {
        group.rows.sort_by_key(|row| row.bytes);
        let requests = split(group.rows.iter().map(|row| row.bytes));
        let mut rows = group.rows.into_iter();
        let writing: Vec<_> = requests
            .into_iter()
            .map(|count| self.write_rows(rows.by_ref().take(count).collect()))
            .collect();
        try_join_all(writing).await.map(drop)
    }

    /// Runs the deletes of a group with one logged request, as an erasure: if the process is
    /// killed, all rows are gone or none.
    pub(in crate::cql) async fn erase_at_once(&self, group: WriteGroup<'_>) -> StoreResult<()> {
        let mut request = Batch::new(BatchType::Logged);
        request.set_timestamp(Some(erased_at_us()));
        self.send(request, group.rows).await
    }

    /// Writes rows with one request.
    async fn write_rows(&self, mut rows: Vec<Row<'_>>) -> StoreResult<()> {
        if rows.len() == 1
            && let Some(row) = rows.pop()
        {
            return self.write(row.statement, row.values).await;
        }
        self.send(Batch::new(BatchType::Unlogged), rows).await
    }

    async fn send(&self, mut request: Batch, rows: Vec<Row<'_>>) -> StoreResult<()> {
        request.set_is_idempotent(true);
        if let Some(first) = rows.first() {
            let profile = first.statement.get_execution_profile_handle();
            request.set_execution_profile_handle(profile.cloned());
        }
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            request.append_statement(row.statement.clone());
            values.push(row.values);
        }
        self.write_batch(&request, values).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_beyond_the_limit_is_alone_and_the_others_share_requests() {
        assert_eq!(split([]), Vec::<usize>::new());
        assert_eq!(split([100; 7]), [7]);
        assert_eq!(split([0; 9]), [8, 1]);
        assert_eq!(split([100, 100, 300_000]), [2, 1]);
        assert_eq!(split([2_048, 2_048, 1]), [2, 1]);
    }

    proptest! {
        #[test]
        fn each_request_respects_both_limits(bytes in prop::collection::vec(0_usize..6_000, 0..40)) {
            let mut left = bytes.as_slice();
            for rows in split(bytes.iter().copied()) {
                let (request, rest) = left.split_at(rows);
                prop_assert!((1..=ROWS_MAX).contains(&rows));
                prop_assert!(rows == 1 || request.iter().sum::<usize>() <= BYTES_MAX);
                left = rest;
            }
            prop_assert!(left.is_empty());
        }
    }
}
