//! The port [`Recorders`] over the tables of one machine.

use async_trait::async_trait;
use porchlight_ports::{RecorderRow, Recorders, StoreResult};
use porchlight_schema::ids::RecorderId;
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::{Durability, Engine};
use crate::tables::recorders;
use crate::txn::Txn;

#[async_trait]
impl<E: Engine> Recorders for LocalStore<E> {
    // A sweep removes expired recorders, by the time in their ids.
    async fn create_recorder(
        &self,
        id: RecorderId,
        data: Vec<u8>,
        _expires_at: TimestampMs,
    ) -> StoreResult<()> {
        self.committer
            .write_for_client(move |txn| recorders::create(txn, id, &data))
            .await
    }

    async fn recorder(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
        self.read_inline(|read| recorders::find(read, id))
    }

    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
        _expires_at: TimestampMs,
    ) -> StoreResult<bool> {
        let bytes = data.len();
        let change = move |txn: &mut Txn<'_>| recorders::change(txn, id, version, &data);
        self.committer
            .run_for_client(bytes, Durability::Synced, change)
            .await
    }

    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        self.committer
            .write(move |txn| recorders::remove(txn, id))
            .await
    }
}
