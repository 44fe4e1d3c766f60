//! Admission: counted before a body is read, given back when it is acknowledged or refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use porchlight_schema::limits::{
    NODE_IN_FLIGHT_BYTES_MAX, NODE_MAILBOX_MAX, SESSION_IN_FLIGHT_MAX,
};

use super::gate::UnderWay;
use super::{Handle, Registry};
use crate::observe::{BatchOutcome, Metrics};

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
    handle: Option<Arc<Handle>>,
    bytes: usize,
}

impl Registry {
    /// Admits one batch of `bytes` bytes, of a session that records (`handle`) or that has ended (none).
    pub fn admit(&self, handle: Option<&Arc<Handle>>, bytes: usize) -> Result<Permit, AdmitError> {
        if self.is_draining() {
            return Err(AdmitError::Draining);
        }
        if !self.inner.gate.has_room()
            || self.inner.mailboxes.load(Ordering::Relaxed) >= NODE_MAILBOX_MAX
        {
            Metrics::get().on_batch(BatchOutcome::NodeFull);
            return Err(AdmitError::NodeFull);
        }
        let mut permit = Permit {
            registry: self.clone(),
            handle: None,
            bytes: 0,
        };
        permit.grow(bytes)?;
        if let Some(handle) = handle {
            let free =
                |in_flight: u32| (in_flight < SESSION_IN_FLIGHT_MAX).then_some(in_flight + 1);
            if handle
                .in_flight
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
                .is_err()
            {
                Metrics::get().on_batch(BatchOutcome::SessionFull);
                return Err(AdmitError::SessionFull);
            }
            permit.handle = Some(Arc::clone(handle));
        }
        Ok(permit)
    }

    /// Counts a batch whose last byte is there, until it is answered.
    pub(crate) fn begin_ingest(&self) -> UnderWay<'_> {
        self.inner.gate.begin()
    }
}

impl Permit {
    /// Admits `bytes` more bytes of the same body.
    pub fn grow(&mut self, bytes: usize) -> Result<(), AdmitError> {
        let budget = &self.registry.inner.in_flight_bytes;
        let before = budget.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Metrics::get().in_flight_bytes.increment(bytes as f64);
        if before + bytes > NODE_IN_FLIGHT_BYTES_MAX {
            Metrics::get().on_batch(BatchOutcome::NodeFull);
            return Err(AdmitError::NodeFull);
        }
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.registry
            .inner
            .in_flight_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
        Metrics::get().in_flight_bytes.decrement(self.bytes as f64);
        if let Some(handle) = &self.handle {
            handle.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
