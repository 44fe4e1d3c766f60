//! Recorders: one row each, changed by raising its version in one lightweight transaction.

use async_trait::async_trait;
use porchlight_ports::{RecorderRow, Recorders, StoreResult};
use porchlight_schema::ids::RecorderId;

use super::db::{Lwt, decode, encode};
use super::{CqlStore, Inner};

impl Inner {
    async fn recorder_row(
        &self,
        id: RecorderId,
        serially: bool,
    ) -> StoreResult<Option<RecorderRow>> {
        let statements = &self.db.statements;
        let statement = if serially {
            &statements.recorder_serial
        } else {
            &statements.recorder_get
        };
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

    async fn create_recorder(&self, id: RecorderId, data: Vec<u8>) -> StoreResult<()> {
        let row = RecorderRow { version: 1, data };
        self.import_recorder(id, &row).await
    }

    /// Creates a recorder with its version, unless there is one.
    pub(super) async fn import_recorder(
        &self,
        id: RecorderId,
        row: &RecorderRow,
    ) -> StoreResult<()> {
        let (key, data) = (id.to_bytes(), encode(&row.data)?);
        let version = i64::try_from(row.version).unwrap_or(i64::MAX);
        let values = (
            key.as_slice(),
            version,
            data.as_slice(),
            self.row_ttls.retained,
        );
        let make = &self.db.statements.recorder_make;
        match self.db.lightweight(make, values).await? {
            Lwt::Applied | Lwt::Refused => Ok(()),
            Lwt::InDoubt(error) => match self.recorder_row(id, true).await? {
                Some(_) => Ok(()),
                None => Err(error),
            },
        }
    }

    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
    ) -> StoreResult<bool> {
        let (key, encoded) = (id.to_bytes(), encode(&data)?);
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let next = version.saturating_add(1);
        let (key, encoded, ttl) = (key.as_slice(), encoded.as_slice(), self.row_ttls.retained);
        let values = (ttl, next, encoded, key, version);
        let change = &self.db.statements.recorder_change;
        match self.db.lightweight(change, values).await? {
            Lwt::Applied => Ok(true),
            Lwt::Refused => Ok(false),
            // Checks whether this change was applied: two writers of the same bytes have the same
            // intention.
            Lwt::InDoubt(_) => Ok(self
                .recorder_row(id, true)
                .await?
                .is_some_and(|row| row.version == next.unsigned_abs() && row.data == data)),
        }
    }

    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        let key = id.to_bytes();
        let remove = &self.db.statements.recorder_remove;
        match self.db.lightweight(remove, (key.as_slice(),)).await? {
            Lwt::Applied => Ok(true),
            Lwt::Refused => Ok(false),
            Lwt::InDoubt(error) => match self.recorder_row(id, true).await? {
                None => Ok(true),
                Some(_) => Err(error),
            },
        }
    }
}

#[async_trait]
impl Recorders for CqlStore {
    async fn create_recorder(&self, id: RecorderId, data: Vec<u8>) -> StoreResult<()> {
        self.run_to_completion(|inner| async move { inner.create_recorder(id, data).await })
            .await
    }

    async fn recorder(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
        self.read(|inner| async move { inner.recorder_row(id, false).await })
            .await
    }

    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
    ) -> StoreResult<bool> {
        self.run_to_completion(
            |inner| async move { inner.change_recorder(id, version, data).await },
        )
        .await
    }

    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.remove_recorder(id).await })
            .await
    }
}
