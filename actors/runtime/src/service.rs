//! The service that the API, the console and other nodes call to start, feed, stop and read
//! sessions. Every answer is given after the commit that it reports.

mod feed;
mod lifecycle;
mod owner;
mod path;
mod privacy;
mod recorder;
mod renewal;
mod retention;
mod reviews;
mod session_ids;
mod shards;
mod telemetry;
mod tenant;

use std::sync::Arc;

use porchlight_core::privacy::SessionAccess;
use porchlight_ports::{
    Idempotency, Page, SessionFilter, SessionRow, Store, StoreError, StoreResult, StoredInsight,
};
use porchlight_schema::event::{Event, sort_events};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    FEEDS_COMPUTED_MAX, LATE_STOPS_READ_MAX, LISTS_DECODED_AT_ONCE_MAX,
};
use porchlight_schema::session::{Address, Device, Pod, SessionType, Tenant};
use porchlight_schema::time::TimestampMs;

use crate::audit::AuditLog;
use crate::registry::Registry;
use crate::scoring::ScoringPool;
use crate::turns::Turns;
use renewal::RenewalPasses;
use session_ids::SessionIds;
use shards::RestoreScheduler;

pub use crate::registry::{AdmitError, Parts, Permit, Ports, Watch};
pub use crate::shares::{ShareExceeded, SharePermit, TenantUsage};
pub use feed::FeedState;
pub use porchlight_core::session::feed::FeedChanges;
pub use porchlight_core::timeline::NumberedChange;
pub use privacy::{
    HoldRefused, LoggedErasure, NewRequest, PrivacySettings, RequestPage, SignReceipt, Submitted,
    TenantPrivacy, apply_erasures, is_position, logged_erasures,
};
pub use recorder::{RecordError, Recorder, RecorderOrder};
pub use retention::{Swept, TenantRetention};
pub use reviews::{NewReview, ReviewRefused};
pub use shards::ReconcileScope;
pub use telemetry::{IngestError, Target};
pub use tenant::TenantSessions;

/// The command to start a session.
#[derive(Debug, Clone)]
pub struct StartCommand {
    /// The tenant that owns the session.
    pub tenant: Tenant,
    /// The customer's id of the parcel's delivery.
    pub delivery_id: String,
    /// The customer's id of the courier.
    pub external_rider_id: String,
    /// The type of the session.
    pub session_type: SessionType,
    /// The address of the delivery.
    pub address: Address,
    /// The device, as the phone describes it.
    pub device: Option<Device>,
    /// The time at which the phone started recording. If `None`, now.
    pub started_at: Option<TimestampMs>,
    /// The maximum age of `started_at` in milliseconds.
    pub started_at_back_ms_max: i64,
    /// The request's `Idempotency-Key`.
    pub idempotency: Option<Idempotency>,
}

/// The reason why a session was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `startedAt` is too far in the past or the future.
    #[error("startedAt is out of range")]
    StartedAtOutOfRange,
    /// The `Idempotency-Key` was used with another body.
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// The courier may not start sessions.
    #[error("the courier may not start sessions")]
    Suppressed,
    /// The courier or the delivery is restricted, or the session that would be repeated is.
    #[error("the courier or the delivery is restricted")]
    Restricted,
    /// The tenant has reached its share of live sessions on this node.
    #[error(transparent)]
    TenantFull(#[from] ShareExceeded),
    /// The node is stopping.
    #[error("the service is stopping")]
    Draining,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why a PoD was not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachPodError {
    /// The tenant replaces PoDs of completed sessions faster than allowed.
    #[error(transparent)]
    TenantFull(#[from] ShareExceeded),
    /// Data of the session was removed because its retention has passed, so that no new insight can
    /// be computed.
    #[error("the session can no longer be changed")]
    Expired,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The command to stop a session.
#[derive(Debug, Clone, Default)]
pub struct StopCommand {
    /// The time at which the phone stopped recording. If `None`, now.
    pub ended_at: Option<TimestampMs>,
    /// The PoD to attach.
    pub pod: Option<Pod>,
}

/// The reason why a session was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// `endedAt` is before the start or too far in the future.
    #[error("endedAt is out of range")]
    EndedAtOutOfRange,
    /// The PoD was not attached; the session has ended nevertheless.
    #[error(transparent)]
    Pod(#[from] AttachPodError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of a session's insight.
#[derive(Debug, Clone)]
pub enum InsightState {
    /// The session is not scored yet.
    Processing {
        /// The events so far, ordered by start, then by type.
        events: Vec<Event>,
        /// The PoD so far.
        pod: Option<Pod>,
        /// The time of the last change to any of these.
        updated_at: TimestampMs,
        /// The number of seconds in which the events may have changed, if the owner cannot be
        /// reached.
        age_sec: Option<u32>,
    },
    /// The session is scored, or scoring failed.
    Scored(Box<StoredInsight>),
}

/// The events so far of a session that is not scored.
struct Live {
    /// The events in the order in which they were emitted.
    events: Vec<Event>,
    /// The time of the events' last change, if known.
    changed_at: Option<TimestampMs>,
    /// The age of the events; see [`InsightState::Processing`].
    age_sec: Option<u32>,
}

/// The service. Clones share the same state.
#[derive(Debug, Clone)]
pub struct Service {
    registry: Registry,
    scoring: ScoringPool,
    session_ids: Arc<SessionIds>,
    restore_scheduler: Arc<RestoreScheduler>,
    audit: Option<AuditLog>,
    privacy: Arc<privacy::Privacy>,
    renewal_passes: Arc<RenewalPasses>,
    /// The turns of organizations whose insights are decoded for a list or a count.
    outcome_reads: Turns,
    /// The turns of organizations for which the past of an event stream is computed.
    feeds: Turns,
    /// The turns of organizations for which the end of a late stop is read from a journal.
    late_stops: Turns,
}

impl Service {
    /// Builds the service from its parts. Call [`Service::recover`] before it takes requests, and
    /// make the store pass durable batches to [`Service::deliver`].
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let scoring = parts.scoring.clone();
        let audit = parts.arbiters.first().map(|arbiter| {
            AuditLog::start(
                arbiter,
                Arc::clone(&parts.ports.store),
                Arc::clone(&parts.ports.clock),
            )
        });
        let privacy: Arc<privacy::Privacy> = Arc::default();
        let marks = Arc::clone(&privacy.marks);
        scoring.leave_erased(move |start| marks.access(start) == SessionAccess::Erased);
        Self {
            registry: Registry::new(parts, Arc::new(lifecycle::on_due)),
            scoring,
            session_ids: Arc::default(),
            restore_scheduler: Arc::default(),
            audit,
            privacy,
            renewal_passes: Arc::default(),
            // The share of lists bounds how many reads of an organization wait.
            outcome_reads: Turns::new(LISTS_DECODED_AT_ONCE_MAX, usize::MAX),
            feeds: Turns::new(FEEDS_COMPUTED_MAX, usize::MAX),
            // The share of requests bounds how many stops of an organization wait.
            late_stops: Turns::new(LATE_STOPS_READ_MAX, usize::MAX),
        }
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.registry.ports().store
    }

    /// Returns the audit log, or `None` if the service has no arbiter to run it on.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref()
    }

    /// Returns the registry.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> TimestampMs {
        self.registry.ports().clock.now()
    }

    /// Returns whether new work is refused because the node is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.registry.is_draining()
    }

    /// Returns the number of sessions that wait to be scored.
    #[must_use]
    pub fn scoring_waiting(&self) -> usize {
        self.scoring.waiting()
    }

    /// Returns a session of any tenant.
    pub async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        self.store().find(session_id).await
    }

    /// Returns a session of any tenant for a stop, which checks the stored state itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn find_to_stop(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        match self.store().known(session_id) {
            Some(row) => Ok(Some(row)),
            None => self.find(session_id).await,
        }
    }

    /// Returns a tenant's sessions, newest first.
    pub async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        let mut page = self.store().list(tenant, filter, limit, after).await?;
        page.rows.retain(|row| self.is_shown(row));
        Ok(page)
    }

    /// Returns a session's insight, if it is scored.
    pub async fn scored(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>> {
        self.store().insight(session_id).await
    }

    /// Returns the state of a session's insight.
    pub async fn insight(&self, row: &SessionRow) -> StoreResult<InsightState> {
        let session_id = row.start.session_id;
        if row.end.is_some()
            && let Some(stored) = self.store().insight(session_id).await?
        {
            return Ok(InsightState::Scored(Box::new(stored)));
        }
        let pod = self.store().pod(session_id).await?;
        let Live {
            mut events,
            changed_at,
            age_sec,
        } = self.live_anywhere(row).await?;
        // The session may have been scored during this request. Its actor is gone with its state.
        if events.is_empty()
            && (row.end.is_some() || self.registry().handle(session_id).is_none())
            && let Some(stored) = self.store().insight(session_id).await?
        {
            return Ok(InsightState::Scored(Box::new(stored)));
        }
        sort_events(&mut events);
        let mut updated_at = row.end.map_or(row.start.created_at, |end| end.completed_at);
        updated_at = updated_at.max(changed_at.unwrap_or(updated_at));
        if let Some(pod) = &pod {
            updated_at = updated_at.max(pod.received_at);
        }
        Ok(InsightState::Processing {
            events,
            pod: pod.map(|pod| pod.pod),
            updated_at,
            age_sec,
        })
    }
}
