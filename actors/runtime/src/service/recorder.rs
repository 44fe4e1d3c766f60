//! Recorders turn pushes of apps on stock phones into batches of sessions. Every decision is
//! stored before it is carried out, and each step may be repeated: see
//! [`porchlight_core::recorder`].

use porchlight_core::recorder::{Append, EndOfSession, Opening, Plan, Push, RecorderState, Stop};
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::limits::{CLOCK_AHEAD_MS_MAX, RECORDER_STARTED_AT_BACK_MS_MAX};
use porchlight_schema::session::{Address, EndReason, SessionType, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{
    AttachPodError, IngestError, Service, StartCommand, StartError, StopCommand, StopError,
};
use crate::document_form;
use crate::registry::AdmitError;
use porchlight_ports::{Idempotency, RecorderRow, SessionRow, StoreError, StoreResult};

/// The maximum number of times a push is planned because another push of its recorder was
/// faster.
const ATTEMPTS_MAX: usize = 16;
/// The maximum time between the plan of a session, which limits the age of its start, and its
/// start.
const PLAN_AGE_MS_MAX: i64 = 600_000;

/// The order that a recorder was created with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecorderOrder {
    /// The tenant that owns its sessions.
    pub tenant: Tenant,
    /// The customer's id of the courier.
    pub external_rider_id: String,
    /// The customer's id of the delivery. See [`Self::delivery_id`].
    pub delivery_id: Option<String>,
    /// The address of the delivery.
    pub address: Address,
    /// The time at which the order was made.
    pub created_at: TimestampMs,
    /// The time from which the recorder accepts nothing more.
    pub expires_at: TimestampMs,
}

impl RecorderOrder {
    /// Returns the id of the delivery that the sessions of the recorder `id` have: the recorder's
    /// own id if the customer named no delivery.
    #[must_use]
    pub fn delivery_id(&self, id: RecorderId) -> String {
        let own = || id.to_string();
        self.delivery_id.clone().unwrap_or_else(own)
    }
}

/// A recorder, as read from the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorder {
    /// The recorder's id.
    pub id: RecorderId,
    /// The order that it records.
    pub order: RecorderOrder,
    /// The state of its sessions so far.
    pub state: RecorderState,
    version: u64,
}

/// A recorder as stored: JSON, which can read rows written by an earlier version.
#[derive(Serialize, Deserialize)]
struct Stored<O, S> {
    order: O,
    #[serde(default)]
    state: S,
}

/// The reason why an app's push was not recorded. The app may send it again.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The recorder has expired or was deleted.
    #[error("the recorder has expired or was deleted")]
    Gone,
    /// The courier may not start sessions.
    #[error("the courier may not start sessions")]
    Suppressed,
    /// The courier, the delivery or the session is restricted.
    #[error("the recorder's sessions are restricted")]
    Restricted,
    /// The batch was not admitted.
    #[error(transparent)]
    Busy(AdmitError),
    /// The node is stopping.
    #[error("the service is stopping")]
    Draining,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// Creates a recorder.
    pub async fn create_recorder(&self, order: RecorderOrder) -> StoreResult<Recorder> {
        let random = self.registry().ports().entropy.random();
        let id = RecorderId::new(order.created_at, random);
        let state = RecorderState::default();
        let data = encode(&order, &state)?;
        let expires_at = order.expires_at;
        self.store().create_recorder(id, data, expires_at).await?;
        Ok(Recorder {
            id,
            order,
            state,
            version: 1,
        })
    }

    /// Returns a recorder of any tenant.
    pub async fn recorder(&self, id: RecorderId) -> StoreResult<Option<Recorder>> {
        let Some(row) = self.store().recorder(id).await? else {
            return Ok(None);
        };
        let stored: Stored<RecorderOrder, RecorderState> = serde_json::from_slice(&row.data)
            .map_err(|error| StoreError::Damaged(format!("a recorder: {error}")))?;
        Ok(Some(Recorder {
            id,
            order: stored.order,
            state: stored.state,
            version: row.version,
        }))
    }

    /// Removes a recorder but keeps its sessions. Returns `false` if there is no such recorder.
    pub async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        self.store().remove_recorder(id).await
    }

    /// Records a push. When this returns, every part of it that a session accepts is durable.
    pub async fn record(&self, id: RecorderId, push: &Push) -> Result<(), RecordError> {
        let idle_ms = self.registry().ports().lifetime.idle_ms;
        // The ordinal after the newest session whose start counts against the tenant's rate. A
        // further round opens the same sessions again.
        let mut counted_below = 0;
        for _ in 0..ATTEMPTS_MAX {
            let now = self.now();
            let recorder = self.recorder(id).await?;
            let recorder = recorder.filter(|recorder| now < recorder.order.expires_at);
            let mut recorder = recorder.ok_or(RecordError::Gone)?;
            self.refresh_newest_end(&mut recorder.state).await?;
            let heard_at = recorder.state.last_heard_at;
            let plan = recorder.state.plan(push, idle_ms, now);
            if !recorder.state.must_store(&plan, heard_at) {
                return Ok(());
            }
            for &opening in &plan.openings {
                if opening.ordinal >= counted_below {
                    self.count_start(recorder.order.tenant)?;
                    counted_below = opening.ordinal.saturating_add(1);
                }
                let (session_id, started_at_ms) = self.open(&recorder, opening).await?;
                recorder
                    .state
                    .mark_created(opening.ordinal, session_id, started_at_ms);
            }
            let data = encode(&recorder.order, &recorder.state)?;
            let (version, expires_at) = (recorder.version, recorder.order.expires_at);
            let changing = self.store().change_recorder(id, version, data, expires_at);
            if changing.await? {
                return self.execute(&recorder.state, plan).await;
            }
        }
        Err(StoreError::Overloaded.into())
    }

    /// Counts the start of a session against the tenant's rate.
    fn count_start(&self, tenant: Tenant) -> Result<(), RecordError> {
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        let counted = self.usage(tenant).start_session(uptime_ms);
        counted.map_err(|exceeded| RecordError::Busy(exceeded.into()))
    }

    /// Updates the state if the service or the customer has ended the newest session of the
    /// recorder.
    async fn refresh_newest_end(&self, state: &mut RecorderState) -> StoreResult<()> {
        let open = state.newest().filter(|newest| newest.ended_at_ms.is_none());
        let Some((session_id, started_at_ms)) = open.and_then(|newest| {
            let session_id = newest.session_id?;
            Some((session_id, newest.started_at_ms))
        }) else {
            return Ok(());
        };
        match self.find(session_id).await? {
            Some(SessionRow {
                start,
                end: Some(end),
            }) => {
                let is_accepted = self.now() <= end.accepts_telemetry_until();
                let by_phone_ms = started_at_ms + end.ended_at.since_ms(start.started_at);
                state.mark_newest_ended(match end.reason {
                    EndReason::Idle if is_accepted => EndOfSession::Idle,
                    _ => EndOfSession::At(by_phone_ms),
                });
            }
            Some(_) => {}
            // The session was removed with all its data.
            None => state.mark_newest_ended(EndOfSession::At(started_at_ms - 1)),
        }
        Ok(())
    }

    /// Starts the session of an ordinal; a repeat returns the same session. Returns its id, and its
    /// start by the phone's clock.
    async fn open(
        &self,
        recorder: &Recorder,
        opening: Opening,
    ) -> Result<(SessionId, i64), RecordError> {
        let order = &recorder.order;
        // No customer's key contains this character (contract 9).
        let key = format!("\u{1}{}/{}", recorder.id, opening.ordinal);
        let command = StartCommand {
            tenant: order.tenant,
            delivery_id: order.delivery_id(recorder.id),
            external_rider_id: order.external_rider_id.clone(),
            session_type: SessionType::Delivery,
            address: order.address.clone(),
            device: None,
            started_at: Some(opening.begins_at),
            started_at_back_ms_max: RECORDER_STARTED_AT_BACK_MS_MAX + PLAN_AGE_MS_MAX,
            idempotency: Some(Idempotency {
                key,
                body_hash: [0; 32],
            }),
        };
        match self.start(command).await {
            Ok(start) => {
                // Another push may have created the session first, with a different start.
                let differs_ms = start.started_at.since_ms(opening.begins_at);
                Ok((start.session_id, opening.started_at_ms + differs_ms))
            }
            Err(StartError::Draining) => Err(RecordError::Draining),
            Err(StartError::Suppressed) => Err(RecordError::Suppressed),
            Err(StartError::Restricted) => Err(RecordError::Restricted),
            Err(StartError::TenantFull(share)) => Err(RecordError::Busy(share.into())),
            Err(StartError::Store(error)) => Err(error.into()),
            Err(StartError::StartedAtOutOfRange | StartError::KeyReused) => {
                let detail = "the start time of a recorder's session is invalid".to_owned();
                Err(StoreError::Damaged(detail).into())
            }
        }
    }

    /// Executes a plan: appends its batches, and then ends its sessions.
    async fn execute(&self, state: &RecorderState, plan: Plan<'_>) -> Result<(), RecordError> {
        for append in &plan.appends {
            self.append_planned(state, append).await?;
        }
        for stop in &plan.stops {
            self.stop_planned(state, stop).await?;
        }
        Ok(())
    }

    /// Appends a batch. Skips a batch that the session no longer accepts, or whose `seq` holds
    /// another body: the app could do nothing about it.
    async fn append_planned(
        &self,
        state: &RecorderState,
        append: &Append<'_>,
    ) -> Result<(), RecordError> {
        let Some(session) = state.session(append.ordinal) else {
            return Ok(());
        };
        let Some(session_id) = session.session_id else {
            return Ok(());
        };
        let Some(target) = self.target(session_id).await? else {
            return Ok(());
        };
        let batch = append.pack(session.started_at_ms);
        let mut permit = self.admit(&target).map_err(RecordError::Busy)?;
        let packed_bytes = batch.as_bytes().len();
        permit.grow(packed_bytes).map_err(RecordError::Busy)?;
        match self.ingest(&target, permit, append.seq, batch).await {
            Ok(()) | Err(IngestError::Conflict | IngestError::Closed | IngestError::Erased) => {
                Ok(())
            }
            Err(IngestError::Restricted) => Err(RecordError::Restricted),
            Err(IngestError::Store(error)) => Err(error.into()),
        }
    }

    async fn stop_planned(&self, state: &RecorderState, stop: &Stop) -> Result<(), RecordError> {
        let Some(session) = state.session(stop.ordinal) else {
            return Ok(());
        };
        let Some(session_id) = session.session_id else {
            return Ok(());
        };
        let Some(row) = self.find(session_id).await? else {
            return Ok(());
        };
        if !self.is_shown(&row) {
            return Err(RecordError::Restricted);
        }
        let after_ms = stop.ended_at_ms.saturating_sub(session.started_at_ms);
        let ended_at = row.start.started_at.plus_ms(after_ms.max(0));
        let latest = self.now().plus_ms(CLOCK_AHEAD_MS_MAX);
        let command = StopCommand {
            ended_at: Some(ended_at.min(latest.max(row.start.started_at))),
            pod: None,
        };
        match self.stop(&row, command).await {
            // A stop without a PoD changes nothing in a session whose data has expired.
            Ok(_) | Err(StopError::EndedAtOutOfRange | StopError::Pod(AttachPodError::Expired)) => {
                Ok(())
            }
            Err(StopError::Store(error) | StopError::Pod(AttachPodError::Store(error))) => {
                Err(error.into())
            }
            Err(StopError::Pod(AttachPodError::TenantFull(share))) => {
                Err(RecordError::Busy(share.into()))
            }
        }
    }
}

/// Returns the order of a stored recorder, or `None` if it cannot be read.
pub(super) fn order_of(row: &RecorderRow) -> Option<RecorderOrder> {
    let stored: Stored<RecorderOrder, IgnoredAny> = serde_json::from_slice(&row.data).ok()?;
    Some(stored.order)
}

/// The tenant of a stored recorder.
#[derive(Deserialize)]
struct OfTenant {
    tenant: Tenant,
}

/// Returns the tenant of a stored recorder whose order cannot be read, or `None` if the tenant
/// cannot be read either.
pub(super) fn tenant_of(row: &RecorderRow) -> Option<Tenant> {
    let stored: Stored<OfTenant, IgnoredAny> = serde_json::from_slice(&row.data).ok()?;
    Some(stored.order.tenant)
}

fn encode(order: &RecorderOrder, state: &RecorderState) -> StoreResult<Vec<u8>> {
    document_form::encode(&Stored { order, state })
}
