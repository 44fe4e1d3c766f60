//! Recorders: one row each, changed by raising its version in one lightweight transaction. Each
//! write gives the row the time that is left until its recorder is no longer kept.

use async_trait::async_trait;
use porchlight_ports::{RecorderRow, Recorders, StoreResult};
use porchlight_schema::ids::RecorderId;
use porchlight_schema::limits::RECORDER_KEPT_BEYOND_MS;
use porchlight_schema::time::TimestampMs;
use scylla::statement::prepared::PreparedStatement;

use crate::cql::statements::db::{Found, decode, encode};
use crate::cql::{CqlStore, Inner};

impl Inner {
    /// Returns a recorder's row.
    async fn recorder_row(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
        self.read_recorder(id, &self.db.statements.recorder_get)
            .await
    }

    /// Returns a recorder's row after every transaction in flight is complete.
    async fn serial_recorder_row(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
        self.read_recorder(id, &self.db.statements.recorder_serial)
            .await
    }

    async fn read_recorder(
        &self,
        id: RecorderId,
        statement: &PreparedStatement,
    ) -> StoreResult<Option<RecorderRow>> {
        let key = id.to_bytes();
        let row: Option<(Option<i64>, Option<Vec<u8>>)> =
            self.db.row(statement, (key.as_slice(),)).await?;
        match row {
            Some((Some(version), Some(data))) => Ok(Some(RecorderRow {
                version: version.unsigned_abs(),
                data: decode("recorders", &data)?,
            })),
            _ => Ok(None),
        }
    }

    fn recorder_ttl(&self, expires_at: TimestampMs) -> i32 {
        let row_ttls = &self.row_ttls;
        row_ttls.until(
            expires_at.plus_ms(RECORDER_KEPT_BEYOND_MS),
            self.clock.now(),
        )
    }

    /// Creates a recorder with its version, unless there is one.
    pub(in crate::cql) async fn put_recorder(
        &self,
        id: RecorderId,
        row: &RecorderRow,
        expires_at: TimestampMs,
    ) -> StoreResult<()> {
        let (key, data) = (id.to_bytes(), encode(&row.data)?);
        let version = i64::try_from(row.version).unwrap_or(i64::MAX);
        let ttl = self.recorder_ttl(expires_at);
        let values = (key.as_slice(), version, data.as_slice(), ttl);
        let make = &self.db.statements.recorder_make;
        let made = self.db.lightweight(make, values).await?;
        let exists = async { Ok(self.serial_recorder_row(id).await?.is_some()) };
        made.resolve_creation(exists).await
    }

    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<bool> {
        let (key, encoded) = (id.to_bytes(), encode(&data)?);
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let next = version.saturating_add(1);
        let (key, ttl) = (key.as_slice(), self.recorder_ttl(expires_at));
        let values = (ttl, next, encoded.as_slice(), key, version);
        let change = &self.db.statements.recorder_change;
        let changed = self.db.lightweight(change, values).await?;
        let found = async {
            Ok(match self.serial_recorder_row(id).await? {
                Some(row) if row.version == version.unsigned_abs() => Found::Expected,
                Some(row) if row.version == next.unsigned_abs() && row.data == data => Found::Next,
                _ => Found::Other,
            })
        };
        changed.resolve(found).await
    }

    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        let key = id.to_bytes();
        let remove = &self.db.statements.recorder_remove;
        let removed = self.db.lightweight(remove, (key.as_slice(),)).await?;
        let found = async {
            Ok(match self.serial_recorder_row(id).await? {
                None => Found::Next,
                Some(_) => Found::Expected,
            })
        };
        removed.resolve(found).await
    }
}

#[async_trait]
impl Recorders for CqlStore {
    async fn create_recorder(
        &self,
        id: RecorderId,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<()> {
        let row = RecorderRow { version: 1, data };
        self.run_to_completion(
            |inner| async move { inner.put_recorder(id, &row, expires_at).await },
        )
        .await
    }

    async fn recorder(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
        self.run_with_deadline(|inner| async move { inner.recorder_row(id).await })
            .await
    }

    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move {
            inner.change_recorder(id, version, data, expires_at).await
        })
        .await
    }

    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.remove_recorder(id).await })
            .await
    }
}
