//! The time of the last successful backup.

use porchlight_observe::store::StoreMetrics;
use porchlight_ports::StoreResult;
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::Engine;
use crate::tables::last_backup;

impl<E: Engine> LocalStore<E> {
    /// Stores the time of the last successful backup, and shows it in the metrics.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub async fn record_backup(&self, at: TimestampMs) -> StoreResult<()> {
        self.committer
            .write(move |txn| last_backup::put(txn, at))
            .await?;
        StoreMetrics::get().last_backup.set(seconds(at));
        Ok(())
    }

    /// Returns the time of the last successful backup and shows it in the metrics; `None` if no
    /// backup exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn last_backup(&self) -> StoreResult<Option<TimestampMs>> {
        let at = self.read_rows(last_backup::find).await?;
        if let Some(at) = at {
            StoreMetrics::get().last_backup.set(seconds(at));
        }
        Ok(at)
    }
}

fn seconds(at: TimestampMs) -> f64 {
    at.0 as f64 / 1_000.0
}
