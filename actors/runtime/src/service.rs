//! What the edges call: sessions are started, fed, stopped and read here. Every answer is given after the commit
//! that it speaks of.

mod feed;
mod lifecycle;
mod owner;
mod path;
mod recorder;
mod session_ids;
mod shards;
mod telemetry;
mod tenant;

use std::sync::Arc;

use porchlight_ports::{
    Idempotency, Page, SessionFilter, SessionRow, Store, StoreError, StoreResult, StoredInsight,
};
use porchlight_schema::event::{Event, sort_events};
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{Address, Device, Pod, SessionType, Tenant};
use porchlight_schema::time::TimestampMs;

use crate::registry::Registry;
use crate::scoring::ScoringPool;
use session_ids::SessionIds;

pub use crate::registry::{AdmitError, Parts, Permit, Watch};
pub use crate::shares::{ShareExceeded, SharePermit, TenantUsage};
pub use feed::FeedState;
pub use porchlight_core::timeline::Told;
pub use recorder::{RecordError, Recorder, RecorderOrder};
pub use telemetry::{IngestError, Target};
pub use tenant::TenantSessions;

/// A session to be started.
#[derive(Debug, Clone)]
pub struct StartCommand {
    /// Whose.
    pub tenant: Tenant,
    /// The customer's id of the parcel's delivery.
    pub delivery_id: String,
    /// The customer's id of the courier.
    pub external_rider_id: String,
    /// What is done.
    pub session_type: SessionType,
    /// Where to.
    pub address: Address,
    /// What the phone says of itself.
    pub device: Option<Device>,
    /// When the phone began; none: now.
    pub started_at: Option<TimestampMs>,
    /// How far back that may lie, milliseconds.
    pub started_at_back_ms_max: i64,
    /// The request's `Idempotency-Key`.
    pub idempotency: Option<Idempotency>,
}

/// Why a session was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `startedAt` lies too far back or ahead.
    #[error("startedAt is out of range")]
    StartedAtOutOfRange,
    /// The `Idempotency-Key` was used with another body.
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// The tenant has as many live sessions on this node as it may have.
    #[error(transparent)]
    TenantFull(#[from] ShareExceeded),
    /// The node is stopping.
    #[error("the service is stopping")]
    Draining,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a PoD was not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachPodError {
    /// The tenant replaces PoDs of completed sessions faster than it may.
    #[error(transparent)]
    TenantFull(#[from] ShareExceeded),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a session is to be stopped.
#[derive(Debug, Clone, Default)]
pub struct StopCommand {
    /// When the phone ended; none: now.
    pub ended_at: Option<TimestampMs>,
    /// A PoD to attach.
    pub pod: Option<Pod>,
}

/// Why a session was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// `endedAt` lies before the start or too far ahead.
    #[error("endedAt is out of range")]
    EndedAtOutOfRange,
    /// Its PoD was not attached; the session has ended all the same.
    #[error(transparent)]
    Pod(#[from] AttachPodError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where a session's insight stands.
#[derive(Debug, Clone)]
pub enum InsightState {
    /// Not scored yet.
    Processing {
        /// The events so far, by start, then type.
        events: Vec<Event>,
        /// The PoD so far.
        pod: Option<Pod>,
        /// When any of it last changed.
        updated_at: TimestampMs,
        /// Seconds since which the events may have changed, where the node that knows can't be reached.
        age_sec: Option<u32>,
    },
    /// Scored, or failed.
    Scored(Box<StoredInsight>),
}

/// The events so far of a session that is not scored.
struct Live {
    /// In the order in which they were emitted.
    events: Vec<Event>,
    /// When they last changed, where that is known.
    changed_at: Option<TimestampMs>,
    /// See [`InsightState::Processing`].
    age_sec: Option<u32>,
}

/// The service. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Service {
    registry: Registry,
    scoring: ScoringPool,
    session_ids: Arc<SessionIds>,
}

impl Service {
    /// Builds the service of its parts. Call [`Service::recover`] before it takes requests, and let the store hand over
    /// what is durable to [`Service::deliver`].
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let scoring = parts.scoring.clone();
        Self {
            registry: Registry::new(parts, Arc::new(lifecycle::on_due)),
            scoring,
            session_ids: Arc::default(),
        }
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.registry.inner().store
    }

    /// The registry.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> TimestampMs {
        self.registry.inner().clock.now()
    }

    /// Whether new work is refused because the node is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.registry.is_draining()
    }

    /// Sessions that wait to be scored.
    #[must_use]
    pub fn scoring_waiting(&self) -> usize {
        self.scoring.waiting()
    }

    /// A session, whoever's it is.
    pub async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        self.store().find(session_id).await
    }

    /// A tenant's sessions, newest first.
    pub async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        self.store().list(tenant, filter, limit, after).await
    }

    /// A session's insight, if it is scored.
    pub async fn scored(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>> {
        self.store().insight(session_id).await
    }

    /// Where a session's insight stands.
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
        // Scored while it was asked for, and its actor gone with what it knew.
        if row.end.is_some()
            && events.is_empty()
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
