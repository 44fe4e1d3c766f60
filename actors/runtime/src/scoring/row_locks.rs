//! Locks rows of knowledge for the scores and the erasures of this process. The locks prevent three
//! faults: two scores overwrite each other's observation of a place, a score that has read a row
//! undoes an erasure, and the second of two copies of a trace misses the first.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The key of a row of knowledge.
pub(super) type RowKey = [u8; 32];

/// The rows that are locked by running scores and erasures.
#[derive(Debug, Default)]
pub(crate) struct RowLocks {
    held: Mutex<BTreeSet<RowKey>>,
    /// Notified when rows become free.
    freed: Notify,
}

/// Locked rows. They are free again when this is dropped.
#[derive(Debug)]
pub(super) struct LockedRows<'l> {
    locks: &'l RowLocks,
    keys: Vec<RowKey>,
}

impl RowLocks {
    /// Waits until nobody else holds any of these rows, and locks all of them in one step, so that
    /// two holders never wait for each other.
    pub(super) async fn lock(&self, keys: Vec<RowKey>) -> LockedRows<'_> {
        loop {
            let freed = self.freed.notified();
            if self.try_lock(&keys) {
                return LockedRows { locks: self, keys };
            }
            freed.await;
        }
    }

    fn try_lock(&self, keys: &[RowKey]) -> bool {
        let mut held = self.held();
        let are_free = keys.iter().all(|key| !held.contains(key));
        if are_free {
            held.extend(keys);
        }
        are_free
    }

    fn held(&self) -> MutexGuard<'_, BTreeSet<RowKey>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LockedRows<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.held();
        for key in &self.keys {
            held.remove(key);
        }
        drop(held);
        self.locks.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scores_that_share_a_row_run_one_after_the_other_without_a_deadlock() {
        let locks = Arc::new(RowLocks::default());
        let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..64_u8 {
            let (locks, inside, most) =
                (Arc::clone(&locks), Arc::clone(&inside), Arc::clone(&most));
            tasks.spawn(async move {
                // Each task locks row 0 and one of five other rows.
                let _rows = locks.lock(vec![[number % 5 + 1; 32], [0; 32]]).await;
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
        let _first = locks.lock(vec![[1; 32]]).await;
        let _other = locks.lock(vec![[2; 32], [3; 32]]).await;
        assert!(!locks.try_lock(&[[3; 32], [4; 32]]));
        assert!(locks.try_lock(&[[4; 32]]));
    }
}
