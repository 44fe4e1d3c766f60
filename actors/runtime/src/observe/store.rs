//! The store's writer.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// How a write operation went.
    StoreOutcome {
        /// Committed, or found done already.
        Ok = "ok",
        /// Refused: too much waits.
        Overloaded = "overloaded",
        /// Failed.
        Failed = "failed",
    }
}

/// The handles of the store's writer.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Time that writing and syncing one group takes.
    pub commit: Histogram,
    /// Groups that were committed.
    pub groups: Counter,
    /// Write operations that wait.
    pub queue: Gauge,
    /// Bytes that the embedded store takes on its disk.
    pub disk: Gauge,
    /// Bytes that are free there.
    pub disk_free: Gauge,
    operations: Vec<Counter>,
}

impl StoreMetrics {
    /// The handles, resolved at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<StoreMetrics> = LazyLock::new(StoreMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let operations = |outcome: &StoreOutcome| metrics::counter!(name::STORE_OPERATIONS_TOTAL, "outcome" => outcome.as_str());
        Self {
            commit: metrics::histogram!(name::STORE_COMMIT_SECONDS),
            groups: metrics::counter!(name::STORE_GROUPS_TOTAL),
            queue: metrics::gauge!(name::STORE_QUEUE_OPERATIONS),
            disk: metrics::gauge!(name::STORE_DISK_BYTES),
            disk_free: metrics::gauge!(name::STORE_DISK_FREE_BYTES),
            operations: StoreOutcome::ALL.iter().map(operations).collect(),
        }
    }

    /// So many operations went so.
    pub fn on_operations(&self, outcome: StoreOutcome, count: u64) {
        self.operations[outcome as usize].increment(count);
    }
}
