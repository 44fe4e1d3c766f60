//! Logs the failed reads of the nodes' tables.

use std::sync::{Mutex, PoisonError};

use porchlight_core::failure_log::FailureLog;
use porchlight_core::ownership::MonotonicMs;
use porchlight_observe::error_text;
use porchlight_ports::StoreError;

/// A read of the nodes' tables. Each kind fails by itself, because it reads other partitions.
#[derive(Debug, Clone, Copy)]
pub(super) enum NodesRead {
    Members,
    Owners,
    Owner,
}

impl NodesRead {
    const COUNT: usize = 3;

    fn as_str(self) -> &'static str {
        match self {
            Self::Members => "members",
            Self::Owners => "owners",
            Self::Owner => "owner",
        }
    }
}

/// The failures of each kind of read.
#[derive(Debug, Default)]
pub(super) struct FailedReads(Mutex<[FailureLog; NodesRead::COUNT]>);

impl FailedReads {
    fn change<T>(&self, read: NodesRead, change: impl FnOnce(&mut FailureLog) -> T) -> T {
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut logs[read as usize])
    }

    /// Records a success, and logs it if failures preceded it.
    pub(super) fn on_success(&self, read: NodesRead) {
        if self.change(read, FailureLog::on_success) {
            let read = read.as_str();
            tracing::info!(read, "the tables of the nodes can be read again");
        }
    }

    /// Records a failure at `now`, and logs the first one and then one a minute.
    pub(super) fn on_failure(&self, read: NodesRead, now: MonotonicMs, error: &StoreError) {
        if let Some(failures) = self.change(read, |log| log.on_failure(now.0)) {
            let (read, error) = (read.as_str(), error_text(error));
            tracing::warn!(
                read,
                failures,
                error,
                "the tables of the nodes cannot be read"
            );
        }
    }
}
