//! Admission control. A batch is counted before its body is read, and each byte of the body when it
//! arrives. Both are released when the batch is acknowledged or refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use porchlight_core::admission::has_mailbox_room;
use porchlight_core::shares::ShareLimits;
use porchlight_observe::{BatchOutcome, Metrics};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{NODE_IN_FLIGHT_BYTES_MAX, SESSION_IN_FLIGHT_MAX};

use super::ingest_limiter::{InFlightBatch, IngestLimiter};
use super::remote_sessions::RemoteState;
use crate::session::SessionHandle;
use crate::shares::{LargeBodyPermit, LargeBodyRefused, ShareExceeded, TenantShares, TenantUsage};

/// The reason why a batch was not admitted. The client may retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// This session has too many batches in flight.
    #[error("too many batches of this session are in flight")]
    SessionFull,
    /// This session's tenant has used up one of its shares of this node.
    #[error(transparent)]
    TenantFull(#[from] ShareExceeded),
    /// This node has too much in flight: bytes, batches that wait for their acknowledgement, or
    /// batches that wait for their sessions' actors.
    #[error("too many batches or bytes of this node are in flight")]
    NodeFull,
    /// The permits of this node for large bodies are in use by other tenants.
    #[error("too many large bodies are in flight")]
    LargeBodiesFull,
    /// This node is stopping.
    #[error("the service is stopping")]
    Draining,
}

/// A permit to have one batch in flight, released when dropped.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    usage: Arc<TenantUsage>,
    counted: Option<Counted>,
    bytes: usize,
    waited: Duration,
    /// The permit for a large body, while it is unpacked and decoded.
    large_body: Option<LargeBodyPermit>,
}

/// The place where the batches of one session are counted.
#[derive(Debug, Clone)]
pub(crate) enum Counted {
    /// The session is in progress, and this node acts for it.
    Local(Arc<SessionHandle>),
    /// The session is in progress, and another node acts for it.
    Remote(Arc<RemoteState>),
    /// The session has ended.
    Ended(SessionId),
}

/// The work in flight on this node, and its limits.
#[derive(Debug)]
pub(crate) struct Admission {
    in_flight_bytes: AtomicUsize,
    /// The number of bodies that are admitted and not yet answered.
    permits: AtomicUsize,
    limiter: IngestLimiter,
    /// The usage of this node by tenants.
    shares: TenantShares,
    /// The number of batches in flight of each session that has ended.
    ended_in_flight: DashMap<SessionId, u32>,
    /// The number of batches in the mailboxes of all sessions.
    mailboxes: Arc<AtomicU32>,
    is_draining: AtomicBool,
}

impl Admission {
    /// Creates the limits and counts of this node.
    pub(super) fn new(shares: ShareLimits) -> Self {
        Self {
            in_flight_bytes: AtomicUsize::new(0),
            permits: AtomicUsize::new(0),
            limiter: IngestLimiter::default(),
            shares: TenantShares::new(shares),
            ended_in_flight: DashMap::new(),
            mailboxes: Arc::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Refuses new work from now on.
    pub(super) fn refuse(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
    }

    /// Returns whether new work is refused.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Returns the number of bodies that are admitted and not yet answered.
    pub(crate) fn bodies_in_flight(&self) -> usize {
        self.permits.load(Ordering::Relaxed)
    }

    /// Returns the shares of all tenants.
    pub(crate) fn shares(&self) -> &TenantShares {
        &self.shares
    }

    /// Returns the count of the messages in the mailboxes of all sessions.
    pub(super) fn mailboxes(&self) -> &Arc<AtomicU32> {
        &self.mailboxes
    }

    /// Admits one batch of the session in `counted`, before any byte of its body is read.
    pub(crate) fn admit(
        self: &Arc<Self>,
        usage: &Arc<TenantUsage>,
        counted: Counted,
    ) -> Result<Permit, AdmitError> {
        let mut permit = self.admit_body(usage)?;
        if !self.begin_in_flight(&counted) {
            Metrics::get().on_batch(BatchOutcome::SessionFull);
            return Err(AdmitError::SessionFull);
        }
        permit.counted = Some(counted);
        Ok(permit)
    }

    /// Admits the body of a request that names no session yet. Its bytes are counted as they
    /// arrive.
    pub(crate) fn admit_body(
        self: &Arc<Self>,
        usage: &Arc<TenantUsage>,
    ) -> Result<Permit, AdmitError> {
        if self.is_draining() {
            return Err(AdmitError::Draining);
        }
        if !self.has_room(usage) {
            Metrics::get().on_batch(BatchOutcome::NodeFull);
            return Err(AdmitError::NodeFull);
        }
        // If the node or the share is already full, the body is not read at all.
        if self.in_flight_bytes.load(Ordering::Relaxed) >= NODE_IN_FLIGHT_BYTES_MAX {
            Metrics::get().on_batch(BatchOutcome::NodeFull);
            return Err(AdmitError::NodeFull);
        }
        if let Err(exceeded) = usage.check_bytes() {
            Metrics::get().on_batch(BatchOutcome::TenantFull);
            return Err(exceeded.into());
        }
        Ok(Permit::new(self, usage))
    }

    /// Admits a request for a new session before its body is read. A draining node counts nothing,
    /// because it does not wait for requests that it is going to refuse. It refuses the start
    /// itself, after any error in the request.
    pub(crate) fn admit_start(
        self: &Arc<Self>,
        usage: &Arc<TenantUsage>,
        uptime_ms: i64,
    ) -> Result<Option<Permit>, AdmitError> {
        if !self.is_draining() {
            // A start that is refused for another reason uses up no part of the rate.
            let permit = self.admit_body(usage)?;
            usage.start_session(uptime_ms)?;
            return Ok(Some(permit));
        }
        if self.has_room(usage) {
            Ok(None)
        } else {
            Err(AdmitError::NodeFull)
        }
    }

    /// Returns whether the limits of the node admit another batch of this tenant.
    pub(crate) fn has_room(&self, usage: &TenantUsage) -> bool {
        let waiting = self.mailboxes.load(Ordering::Relaxed);
        has_mailbox_room(waiting, self.limiter.is_light(usage)) && self.limiter.has_room(usage)
    }

    /// Counts a batch whose last byte has arrived, or another write that takes a batch's place,
    /// until it is answered. `waited` is its queue delay.
    pub(crate) fn begin_ingest<'r>(
        &'r self,
        usage: &'r TenantUsage,
        waited: Duration,
    ) -> InFlightBatch<'r> {
        self.limiter.begin(usage, waited)
    }

    /// Counts one more batch of a session. Returns false if the session has the maximum number in
    /// flight.
    fn begin_in_flight(&self, counted: &Counted) -> bool {
        let free = |in_flight: u32| (in_flight < SESSION_IN_FLIGHT_MAX).then_some(in_flight + 1);
        let count = |in_flight: &AtomicU32| {
            in_flight
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
                .is_ok()
        };
        match counted {
            Counted::Local(handle) => count(&handle.in_flight),
            Counted::Remote(state) => count(&state.in_flight),
            Counted::Ended(session_id) => {
                let mut entry = self.ended_in_flight.entry(*session_id).or_insert(0);
                let more = free(*entry);
                *entry = more.unwrap_or(*entry);
                more.is_some()
            }
        }
    }

    fn end_in_flight(&self, counted: &Counted) {
        match counted {
            Counted::Local(handle) => {
                handle.in_flight.fetch_sub(1, Ordering::Relaxed);
            }
            Counted::Remote(state) => {
                state.in_flight.fetch_sub(1, Ordering::Relaxed);
            }
            Counted::Ended(session_id) => {
                let ended = &self.ended_in_flight;
                ended.remove_if_mut(session_id, |_, in_flight| {
                    *in_flight -= 1;
                    *in_flight == 0
                });
            }
        }
    }
}

impl From<LargeBodyRefused> for AdmitError {
    fn from(refused: LargeBodyRefused) -> Self {
        match refused {
            LargeBodyRefused::Tenant(exceeded) => Self::TenantFull(exceeded),
            LargeBodyRefused::Node => Self::LargeBodiesFull,
        }
    }
}

impl Permit {
    fn new(admission: &Arc<Admission>, usage: &Arc<TenantUsage>) -> Self {
        admission.permits.fetch_add(1, Ordering::Relaxed);
        Self {
            admission: Arc::clone(admission),
            usage: Arc::clone(usage),
            counted: None,
            bytes: 0,
            waited: Duration::ZERO,
            large_body: None,
        }
    }

    /// Sets the queue delay of the request to `waited`: a request that waits unread is as late as
    /// one whose write is slow.
    #[must_use]
    pub fn with_queue_delay(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the usage of this node by the batch's tenant.
    pub(crate) fn usage(&self) -> &TenantUsage {
        &self.usage
    }

    /// Counts `bytes` more bytes of the body, which have arrived or are about to be unpacked.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant or the node has too many bytes in flight. The counted bytes
    /// are released with the permit.
    pub fn grow(&mut self, bytes: usize) -> Result<(), AdmitError> {
        self.bytes += bytes;
        Metrics::get().in_flight_bytes.increment(bytes as f64);
        let budget = &self.admission.in_flight_bytes;
        let before = budget.fetch_add(bytes, Ordering::Relaxed);
        let share = self.usage.add_bytes(bytes);
        if before + bytes > NODE_IN_FLIGHT_BYTES_MAX {
            Metrics::get().on_batch(BatchOutcome::NodeFull);
            return Err(AdmitError::NodeFull);
        }
        share.map_err(|exceeded| {
            Metrics::get().on_batch(BatchOutcome::TenantFull);
            AdmitError::TenantFull(exceeded)
        })
    }

    /// Waits for a permit to work on a large body. Does nothing if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if no permit was free in time, because the tenant or the node has too many
    /// large bodies in flight.
    pub async fn begin_large_body(&mut self) -> Result<(), AdmitError> {
        if self.large_body.is_none() {
            let permit = self.usage.acquire_large_body().await;
            self.large_body = Some(permit.inspect_err(|refused| {
                Metrics::get().on_batch(match refused {
                    LargeBodyRefused::Tenant(_) => BatchOutcome::TenantFull,
                    LargeBodyRefused::Node => BatchOutcome::NodeFull,
                });
            })?);
        }
        Ok(())
    }

    /// Releases the permit for a large body, if there is one, and the bytes of the body: it is
    /// decoded, and only its packed form of `packed_bytes` is left.
    pub fn end_large_body(&mut self, packed_bytes: usize) {
        self.release(self.bytes.saturating_sub(packed_bytes));
        // The next body may begin only now, because it needs the released bytes.
        self.large_body = None;
    }

    fn release(&mut self, bytes: usize) {
        let budget = &self.admission.in_flight_bytes;
        budget.fetch_sub(bytes, Ordering::Relaxed);
        self.usage.remove_bytes(bytes);
        Metrics::get().in_flight_bytes.decrement(bytes as f64);
        self.bytes -= bytes;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release(self.bytes);
        let admission = &self.admission;
        if let Some(counted) = &self.counted {
            admission.end_in_flight(counted);
        }
        admission.permits.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use porchlight_observe::shares::Share;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::{Env, Tenant};

    use super::*;

    fn with_limits(limits: ShareLimits) -> (Arc<Admission>, Arc<TenantUsage>) {
        let admission = Arc::new(Admission::new(limits));
        let usage = admission.shares().of(Tenant {
            organization_id: OrganizationId::from_bytes([1; 16]),
            env: Env::Sandbox,
        });
        (admission, usage)
    }

    #[tokio::test]
    async fn a_decoded_body_makes_room_for_the_next_one_before_it_is_stored() {
        let (admission, usage) = with_limits(ShareLimits {
            in_flight_bytes: 4_000,
            ..ShareLimits::default()
        });
        let [mut first, mut second] = [(); 2].map(|()| Permit::new(&admission, &usage));
        first.begin_large_body().await.unwrap();
        first.grow(3_000).unwrap();
        first.end_large_body(100);
        second.begin_large_body().await.unwrap();
        second.grow(3_900).unwrap();
        assert!(second.grow(1).is_err());
        drop((first, second));
        assert_eq!(admission.in_flight_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_start_that_a_full_node_refuses_uses_up_no_part_of_the_rate() {
        let (admission, usage) = with_limits(ShareLimits {
            session_starts_per_sec: 1,
            ..ShareLimits::default()
        });
        let full = &admission.in_flight_bytes;
        full.store(NODE_IN_FLIGHT_BYTES_MAX, Ordering::Relaxed);
        for _ in 0..10 {
            let refused = admission.admit_start(&usage, 0);
            assert_eq!(refused.unwrap_err(), AdmitError::NodeFull);
        }
        full.store(0, Ordering::Relaxed);
        // A rate of one per second has a burst of two.
        assert!(admission.admit_start(&usage, 0).is_ok());
        assert!(admission.admit_start(&usage, 0).is_ok());
        let refused = admission.admit_start(&usage, 0).unwrap_err();
        let is_rate = |error| matches!(error, AdmitError::TenantFull(exceeded) if exceeded.share == Share::SessionStarts);
        assert!(is_rate(refused));
        assert_eq!(admission.bodies_in_flight(), 0);
    }
}
