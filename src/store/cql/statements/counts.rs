//! Counts of executed statements by kind.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

use porchlight_observe::store::{StatementKind, StoreMetrics};

/// Numbers of executed statements, and of rows that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatementCounts {
    /// Reads of few rows.
    pub reads: u64,
    /// Reads of many rows, page by page.
    pub scans: u64,
    /// Plain writes.
    pub writes: u64,
    /// Lightweight transactions.
    pub lightweight: u64,
    /// Rows that reads and scans returned.
    pub rows: u64,
}

impl Sub for StatementCounts {
    type Output = Self;

    /// Returns the statements since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            scans: self.scans - earlier.scans,
            writes: self.writes - earlier.writes,
            lightweight: self.lightweight - earlier.lightweight,
            rows: self.rows - earlier.rows,
        }
    }
}

/// The counters of the statements of one store.
#[derive(Debug, Default)]
pub(in crate::cql) struct Counts {
    reads: AtomicU64,
    scans: AtomicU64,
    writes: AtomicU64,
    lightweight: AtomicU64,
    rows: AtomicU64,
}

impl Counts {
    /// Counts a statement.
    pub(super) fn on_statement(&self, kind: StatementKind) {
        let counter = match kind {
            StatementKind::Read => &self.reads,
            StatementKind::Scan => &self.scans,
            StatementKind::Write => &self.writes,
            StatementKind::Lightweight => &self.lightweight,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        StoreMetrics::get().on_statement(kind);
    }

    /// Counts rows that a read returned.
    pub(super) fn on_rows(&self, rows: usize) {
        let rows = rows as u64;
        self.rows.fetch_add(rows, Ordering::Relaxed);
        StoreMetrics::get().rows_read.increment(rows);
    }

    /// Returns the counts so far.
    pub(in crate::cql) fn now(&self) -> StatementCounts {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StatementCounts {
            reads: now(&self.reads),
            scans: now(&self.scans),
            writes: now(&self.writes),
            lightweight: now(&self.lightweight),
            rows: now(&self.rows),
        }
    }
}
