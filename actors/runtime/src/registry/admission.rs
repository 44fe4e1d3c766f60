//! Admission: counted before a body is read, given back when it is acknowledged or refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use porchlight_observe::{BatchOutcome, Metrics};
use porchlight_schema::limits::{
    NODE_IN_FLIGHT_BYTES_MAX, NODE_MAILBOX_MAX, SESSION_IN_FLIGHT_MAX,
};

use super::edge::Edge;
use super::gate::UnderWay;
use super::{Handle, Registry};

/// Why a batch was not admitted. Come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// This session has too much in flight.
    #[error("too many batches of this session are in flight")]
    SessionFull,
    /// This node has too much in flight: bytes, batches that wait for their acknowledgement, or batches that wait for
    /// their sessions' actors.
    #[error("too much is in flight")]
    NodeFull,
    /// This node is stopping.
    #[error("the service is stopping")]
    Draining,
}

/// The right to have one batch in flight; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    registry: Registry,
    counted: Option<Counted>,
    bytes: usize,
    waited: Duration,
}

/// Where the batches of a session that records are counted.
#[derive(Debug, Clone)]
pub(crate) enum Counted {
    /// This node acts for it.
    Here(Arc<Handle>),
    /// Another one does.
    Elsewhere(Arc<Edge>),
}

impl Counted {
    fn in_flight(&self) -> &AtomicU32 {
        match self {
            Self::Here(handle) => &handle.in_flight,
            Self::Elsewhere(edge) => &edge.in_flight,
        }
    }
}

impl Registry {
    /// Admits one batch of `bytes` bytes, of a session that records (`counted`) or that has ended (none).
    pub(crate) fn admit(
        &self,
        counted: Option<Counted>,
        bytes: usize,
    ) -> Result<Permit, AdmitError> {
        if self.is_draining() {
            return Err(AdmitError::Draining);
        }
        if !self.has_room() {
            Metrics::get().on_batch(BatchOutcome::NodeFull);
            return Err(AdmitError::NodeFull);
        }
        let mut permit = Permit::new(self);
        permit.grow(bytes)?;
        if let Some(counted) = counted {
            let free =
                |in_flight: u32| (in_flight < SESSION_IN_FLIGHT_MAX).then_some(in_flight + 1);
            if counted
                .in_flight()
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
                .is_err()
            {
                Metrics::get().on_batch(BatchOutcome::SessionFull);
                return Err(AdmitError::SessionFull);
            }
            permit.counted = Some(counted);
        }
        Ok(permit)
    }

    /// Admits a request for a new session, with a body of `bytes` bytes. That the node drains is told later, by
    /// whoever starts it.
    pub(crate) fn admit_start(&self, bytes: usize) -> Result<Permit, AdmitError> {
        let mut permit = Permit::new(self);
        // A node that stops waits for what is in flight, and not for what it is going to refuse.
        let is_counted = !self.is_draining();
        if self.has_room() && (!is_counted || permit.hold(bytes)) {
            Ok(permit)
        } else {
            Err(AdmitError::NodeFull)
        }
    }

    /// Whether another batch would be admitted, as far as the node goes.
    pub(crate) fn has_room(&self) -> bool {
        let waiting = self.inner.mailboxes.load(Ordering::Relaxed);
        self.inner.gate.has_room() && waiting < NODE_MAILBOX_MAX
    }

    /// Counts a batch whose last byte is there, or another write that takes its place among the batches, until it is
    /// answered. `waited`: how long it waited before it was looked at.
    pub(crate) fn begin_ingest(&self, waited: Duration) -> UnderWay<'_> {
        self.inner.gate.begin(waited)
    }
}

impl Permit {
    fn new(registry: &Registry) -> Self {
        Self {
            registry: registry.clone(),
            counted: None,
            bytes: 0,
            waited: Duration::ZERO,
        }
    }

    /// The same, of a request that waited so long before it was looked at: what a node keeps waiting unread is as late
    /// as what it is slow to write.
    #[must_use]
    pub fn having_waited(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Admits `bytes` more bytes of the same body.
    pub fn grow(&mut self, bytes: usize) -> Result<(), AdmitError> {
        if self.hold(bytes) {
            return Ok(());
        }
        Metrics::get().on_batch(BatchOutcome::NodeFull);
        Err(AdmitError::NodeFull)
    }

    /// Counts so many more bytes; false: that is more than a node may have.
    fn hold(&mut self, bytes: usize) -> bool {
        let budget = &self.registry.inner.in_flight_bytes;
        let before = budget.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Metrics::get().in_flight_bytes.increment(bytes as f64);
        before + bytes <= NODE_IN_FLIGHT_BYTES_MAX
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.registry
            .inner
            .in_flight_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
        Metrics::get().in_flight_bytes.decrement(self.bytes as f64);
        if let Some(counted) = &self.counted {
            counted.in_flight().fetch_sub(1, Ordering::Relaxed);
        }
    }
}
