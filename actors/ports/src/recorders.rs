//! Stores recorders: links by which an app on a stock phone sends samples to its sessions.

use async_trait::async_trait;
use porchlight_schema::ids::RecorderId;
use porchlight_schema::time::TimestampMs;

use super::StoreResult;

/// A recorder as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecorderRow {
    /// The version: 1 at first, and incremented by each change.
    pub version: u64,
    /// The data as the service wrote it.
    pub data: Vec<u8>,
}

/// The storage of recorders. A database whose rows have a time to live keeps a recorder for
/// [`RECORDER_KEPT_BEYOND_MS`](porchlight_schema::limits::RECORDER_KEPT_BEYOND_MS) after
/// `expires_at`.
#[async_trait]
pub trait Recorders: Send + Sync {
    /// Creates a recorder with version 1, whose link expires at `expires_at`. An existing recorder
    /// is not changed.
    async fn create_recorder(
        &self,
        id: RecorderId,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<()>;

    /// Returns a recorder; `None` if it was never created or was removed.
    async fn recorder(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>>;

    /// Replaces the stored recorder with the version after `version`. Returns `false` and changes
    /// nothing if the stored version differs or there is no such recorder. `expires_at` is the
    /// same as at the creation.
    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<bool>;

    /// Removes a recorder. Returns `false` if it did not exist.
    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool>;
}
