//! Recorders: what links a stock phone's app to sessions.

use async_trait::async_trait;
use porchlight_schema::ids::RecorderId;

use super::StoreResult;

/// A recorder as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderRow {
    /// Rises by one with each change, from 1.
    pub version: u64,
    /// What the service wrote.
    pub data: Vec<u8>,
}

/// Recorders.
#[async_trait]
pub trait Recorders: Send + Sync {
    /// Makes a recorder of version 1. Of one that is there nothing changes.
    async fn create_recorder(&self, id: RecorderId, data: Vec<u8>) -> StoreResult<()>;

    /// A recorder; none: it was never made, or was removed.
    async fn recorder(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>>;

    /// Replaces what is stored by the next version of `version`. False: it has another version, or is not there; nothing
    /// changed.
    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
    ) -> StoreResult<bool>;

    /// Removes a recorder. False: it was not there.
    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool>;
}
