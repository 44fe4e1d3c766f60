//! The queue of notifications for one node. It is bounded and collects notifications while a
//! request is in flight.

use std::collections::{BTreeSet, VecDeque};

use porchlight_observe::peer::{Forwarded, Nudged, PeerMetrics};
use porchlight_ports::Nudge;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    PEER_QUEUE_BATCHES_MAX, PEER_QUEUE_BYTES_MAX, PEER_QUEUE_NUDGES_MAX,
    PEER_REQUEST_BATCH_BYTES_MAX, PEER_REQUEST_ITEMS_MAX,
};
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::Tenant;

use crate::cluster::wire::{Messages, Nudges};

/// A queued batch.
#[derive(Debug, Clone)]
pub(super) struct QueuedBatch {
    pub(super) session_id: SessionId,
    pub(super) seq: u32,
    pub(super) batch: PackedBatch,
    /// Whether another node already refused the batch because it does not own the session.
    pub(super) was_refused: bool,
}

impl QueuedBatch {
    fn bytes(&self) -> usize {
        self.batch.as_bytes().len()
    }
}

/// Notifications that wait for one node.
#[derive(Debug, Default)]
pub(super) struct Queue {
    batches: VecDeque<QueuedBatch>,
    bytes: usize,
    sessions: BTreeSet<SessionId>,
    tenants: BTreeSet<Tenant>,
    messages: BTreeSet<(Tenant, SessionId)>,
    has_released: bool,
}

impl Queue {
    /// Appends a batch. A full queue drops and counts the batch; the owner finds it in the journal.
    pub(super) fn push(&mut self, waiting: QueuedBatch) {
        let bytes = waiting.bytes();
        let has_room = bytes <= PEER_REQUEST_BATCH_BYTES_MAX
            && self.batches.len() < PEER_QUEUE_BATCHES_MAX
            && self.bytes + bytes <= PEER_QUEUE_BYTES_MAX;
        let metrics = PeerMetrics::get();
        if has_room {
            self.bytes += bytes;
            self.batches.push_back(waiting);
            metrics.waiting.increment(1.0);
        } else {
            metrics.on_forward(Forwarded::Full, 1);
        }
    }

    /// Adds a nudge unless an equal one is queued.
    pub(super) fn push_nudge(&mut self, nudge: Nudge) {
        let queued = self.sessions.len() + self.tenants.len() + self.messages.len();
        if queued >= PEER_QUEUE_NUDGES_MAX {
            PeerMetrics::get().on_nudge(Nudged::Lost, 1);
            return;
        }
        match nudge {
            Nudge::Session(session_id) => self.sessions.insert(session_id),
            Nudge::Tenant(tenant) => self.tenants.insert(tenant),
            Nudge::Message(tenant, session_id) => self.messages.insert((tenant, session_id)),
        };
    }

    /// Records that the node should read the owners.
    pub(super) fn record_release(&mut self) {
        self.has_released = true;
    }

    /// Removes as many batches as fit into one request, in order.
    pub(super) fn take_batches(&mut self) -> Vec<QueuedBatch> {
        let (mut count, mut bytes) = (0, 0);
        for waiting in self.batches.iter().take(PEER_REQUEST_ITEMS_MAX) {
            if count > 0 && bytes + waiting.bytes() > PEER_REQUEST_BATCH_BYTES_MAX {
                break;
            }
            count += 1;
            bytes += waiting.bytes();
        }
        self.bytes -= bytes;
        PeerMetrics::get().waiting.decrement(count as f64);
        self.batches.drain(..count).collect()
    }

    /// Removes as many nudges as fit into one request. Returns `None` if the queue has no nudges.
    pub(super) fn take_nudges(&mut self) -> Option<Nudges> {
        let nudges = Nudges {
            sessions: take_request_items(&mut self.sessions),
            tenants: take_request_items(&mut self.tenants),
            has_released: std::mem::take(&mut self.has_released),
        };
        (nudges != Nudges::default()).then_some(nudges)
    }

    /// Removes as many notifications about messages as fit into one request.
    pub(super) fn take_messages(&mut self) -> Messages {
        take_request_items(&mut self.messages)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
            && self.sessions.is_empty()
            && self.tenants.is_empty()
            && self.messages.is_empty()
            && !self.has_released
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        PeerMetrics::get()
            .waiting
            .decrement(self.batches.len() as f64);
    }
}

fn take_request_items<T: Ord>(set: &mut BTreeSet<T>) -> Vec<T> {
    let count = set.len().min(PEER_REQUEST_ITEMS_MAX);
    let first = std::iter::from_fn(|| set.pop_first());
    first.take(count).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::sample::packed::BatchBuilder;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    fn waiting(seq: u32, bytes: usize) -> QueuedBatch {
        let mut packed = BatchBuilder::default().pack().as_bytes().to_vec();
        packed.resize(bytes.max(packed.len()), 0);
        QueuedBatch {
            session_id: SessionId::new(TimestampMs(1), 1),
            seq,
            batch: PackedBatch::from_bytes(Arc::from(packed)).unwrap(),
            was_refused: false,
        }
    }

    fn seqs(batches: &[QueuedBatch]) -> Vec<u32> {
        batches.iter().map(|waiting| waiting.seq).collect()
    }

    #[test]
    fn a_request_takes_the_oldest_items_up_to_its_limit() {
        let mut queue = Queue::default();
        for seq in 0..PEER_REQUEST_ITEMS_MAX as u32 + 3 {
            queue.push(waiting(seq, 0));
        }
        let first = queue.take_batches();
        assert_eq!(first.len(), PEER_REQUEST_ITEMS_MAX);
        assert_eq!(first[0].seq, 0);
        let count = PEER_REQUEST_ITEMS_MAX as u32;
        assert_eq!(seqs(&queue.take_batches()), [count, count + 1, count + 2]);
        assert!(queue.is_empty());
        for seq in 0..3 {
            queue.push(waiting(seq, PEER_REQUEST_BATCH_BYTES_MAX / 2));
        }
        assert_eq!(seqs(&queue.take_batches()), [0, 1]);
        assert_eq!(seqs(&queue.take_batches()), [2]);
        assert_eq!(seqs(&queue.take_batches()), [0; 0]);
    }

    #[test]
    fn items_beyond_the_capacity_are_dropped() {
        let mut queue = Queue::default();
        queue.push(waiting(0, PEER_REQUEST_BATCH_BYTES_MAX + 1));
        assert!(queue.is_empty(), "too large for any request");
        let each = PEER_REQUEST_BATCH_BYTES_MAX;
        let room = PEER_QUEUE_BYTES_MAX / each;
        for seq in 0..room as u32 + 5 {
            queue.push(waiting(seq, each));
        }
        assert_eq!(queue.batches.len(), room);
        while !queue.take_batches().is_empty() {}
        assert_eq!(queue.bytes, 0);
        for seq in 0..PEER_QUEUE_BATCHES_MAX as u32 + 5 {
            queue.push(waiting(seq, 0));
        }
        assert_eq!(queue.batches.len(), PEER_QUEUE_BATCHES_MAX);
    }

    #[test]
    fn identical_nudges_are_queued_once() {
        let mut queue = Queue::default();
        let session_id = SessionId::new(TimestampMs(1), 1);
        let tenant = Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), 2),
            env: Env::Sandbox,
        };
        for _ in 0..3 {
            queue.push_nudge(Nudge::Session(session_id));
            queue.push_nudge(Nudge::Tenant(tenant));
            queue.push_nudge(Nudge::Message(tenant, session_id));
        }
        queue.record_release();
        let nudges = Nudges {
            sessions: vec![session_id],
            tenants: vec![tenant],
            has_released: true,
        };
        assert_eq!(queue.take_nudges(), Some(nudges));
        assert_eq!(queue.take_nudges(), None);
        assert!(!queue.is_empty());
        assert_eq!(queue.take_messages(), [(tenant, session_id)]);
        assert!(queue.is_empty());
    }
}
