//! Stalls of the store: requests that arrive during one wait for its end.

use super::{Cluster, Event, StoreRequest};

/// The database's own timeout: a running node abandons a request if its stalled replicas have not
/// answered by then.
const REPLICA_TIMEOUT_MS: u64 = 2_000;

impl Cluster {
    /// Postpones a request that arrives during a stall to the end of the stall. Returns whether
    /// there is a stall.
    pub(super) fn postpone_if_stalled(&mut self, node: usize, life: u64, id: u64) -> bool {
        let left_ms = self.stall_until_ms.saturating_sub(self.now_ms);
        if left_ms == 0 {
            return false;
        }
        let until_ms = self.stall_until_ms;
        if self.is_stall_of_replicas && left_ms >= REPLICA_TIMEOUT_MS {
            let Some(pending) = self.pending.get_mut(&id) else {
                return true;
            };
            if !matches!(pending.request, StoreRequest::Change(_)) {
                // A read fails, and the machine repeats it.
                self.pending.remove(&id);
                return true;
            }
            // The replicas may still execute a change when they continue.
            if !std::mem::replace(&mut pending.is_unknown, true) {
                self.answer_unknown(node, life, id, REPLICA_TIMEOUT_MS);
            }
        }
        self.at(until_ms, Event::Store(node, life, id));
        true
    }
}
