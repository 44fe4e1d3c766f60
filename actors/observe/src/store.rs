//! Metrics of the store's writer.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// The outcome of a write operation.
    StoreOutcome {
        /// Committed, or already done.
        Ok = "ok",
        /// Refused: the queue is full.
        Overloaded = "overloaded",
        /// Refused: the disk has too little space.
        Full = "full",
        /// The write failed.
        Failed = "failed",
    }
}

label! {
    /// The outcome of a lightweight transaction.
    LightweightOutcome {
        /// The transaction was applied.
        Applied = "applied",
        /// The condition of the transaction did not hold.
        Refused = "refused",
        /// The outcome is unknown; a serial read resolves it.
        InDoubt = "in_doubt",
    }
}

label! {
    /// The kind of a statement on a CQL cluster.
    StatementKind {
        /// A read of few rows.
        Read = "read",
        /// A read of many rows, page by page.
        Scan = "scan",
        /// A plain write.
        Write = "write",
        /// A lightweight transaction.
        Lightweight = "lightweight",
    }
}

label! {
    /// A property of the database that makes the service slower or less safe.
    DatabaseWarning {
        /// Cassandra runs lightweight transactions with its first Paxos implementation.
        PaxosVariant = "paxos_variant",
    }
}

label! {
    /// The wall clock compared with the stored times: old sessions are deleted only while both
    /// agree.
    ClockState {
        /// The clock and the stored times agree.
        Agrees = "agrees",
        /// The clock is more than a day ahead.
        Ahead = "ahead",
        /// The clock is more than a day behind.
        Behind = "behind",
    }
}

/// The metric handles of the store.
#[derive(Debug)]
pub struct StoreMetrics {
    /// Time to write and sync one group.
    pub commit: Histogram,
    /// The number of committed groups.
    pub groups: Counter,
    /// Queued write operations.
    pub queue: Gauge,
    /// Bytes of the embedded store on disk.
    pub disk: Gauge,
    /// Free bytes on that disk.
    pub disk_free: Gauge,
    /// The time at which the last successful backup was made, in Unix seconds; 0 if there was none.
    pub last_backup: Gauge,
    /// Damaged rows that the service found and skipped.
    pub damaged: Counter,
    /// Rows that a CQL cluster returned.
    pub rows_read: Counter,
    statements: Vec<Counter>,
    database_warnings: Vec<Gauge>,
    operations: Vec<Counter>,
    lightweight: Vec<Counter>,
    retention_clock: Vec<Gauge>,
}

impl StoreMetrics {
    /// Returns the handles, created at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<StoreMetrics> = LazyLock::new(StoreMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let operations = |outcome: &StoreOutcome| metrics::counter!(name::STORE_OPERATIONS_TOTAL, "outcome" => outcome.as_str());
        let lightweight = |outcome: &LightweightOutcome| metrics::counter!(name::STORE_LIGHTWEIGHT_TOTAL, "outcome" => outcome.as_str());
        let statements = |kind: &StatementKind| metrics::counter!(name::STORE_STATEMENTS_TOTAL, "kind" => kind.as_str());
        let warnings = |reason: &DatabaseWarning| metrics::gauge!(name::STORE_DATABASE_WARNINGS, "reason" => reason.as_str());
        let clock = |state: &ClockState| metrics::gauge!(name::STORE_RETENTION_CLOCK, "state" => state.as_str());
        Self {
            commit: metrics::histogram!(name::STORE_COMMIT_SECONDS),
            groups: metrics::counter!(name::STORE_GROUPS_TOTAL),
            queue: metrics::gauge!(name::STORE_QUEUE_OPERATIONS),
            disk: metrics::gauge!(name::STORE_DISK_BYTES),
            disk_free: metrics::gauge!(name::STORE_DISK_FREE_BYTES),
            last_backup: metrics::gauge!(name::STORE_LAST_BACKUP_TIMESTAMP_SECONDS),
            damaged: metrics::counter!(name::STORE_UNREADABLE_ROWS_TOTAL),
            rows_read: metrics::counter!(name::STORE_ROWS_READ_TOTAL),
            statements: StatementKind::ALL.iter().map(statements).collect(),
            database_warnings: DatabaseWarning::ALL.iter().map(warnings).collect(),
            operations: StoreOutcome::ALL.iter().map(operations).collect(),
            lightweight: LightweightOutcome::ALL.iter().map(lightweight).collect(),
            retention_clock: ClockState::ALL.iter().map(clock).collect(),
        }
    }

    /// Sets the result of comparing the wall clock with the stored times.
    pub fn show_retention_clock(&self, now: ClockState) {
        for (&state, gauge) in ClockState::ALL.iter().zip(&self.retention_clock) {
            gauge.set(f64::from(u8::from(state == now)));
        }
    }

    /// Makes the series of the clock state appear without changing their values.
    pub(super) fn touch_retention_clock(&self) {
        for gauge in &self.retention_clock {
            gauge.increment(0.0);
        }
    }

    /// Makes the series of the warnings appear without changing their values.
    pub(super) fn touch_database_warnings(&self) {
        for gauge in &self.database_warnings {
            gauge.increment(0.0);
        }
    }

    /// Shows that the database has this property.
    pub fn on_database_warning(&self, reason: DatabaseWarning) {
        self.database_warnings[reason as usize].set(1.0);
    }

    /// Counts a statement on a CQL cluster.
    pub fn on_statement(&self, kind: StatementKind) {
        self.statements[kind as usize].increment(1);
    }

    /// Counts a lightweight transaction.
    pub fn on_lightweight(&self, outcome: LightweightOutcome) {
        self.lightweight[outcome as usize].increment(1);
    }

    /// Counts write operations.
    pub fn on_operations(&self, outcome: StoreOutcome, count: u64) {
        self.operations[outcome as usize].increment(count);
    }
}
