//! Recorders: messages of apps on stock phones become batches of sessions. What is decided is stored before it is done,
//! and each step may be done again: see [`porchlight_core::recorder`].

use porchlight_core::recorder::{
    Append, EndOfSession, Message, Opening, Plan, RecorderState, Stop,
};
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::limits::{CLOCK_AHEAD_MS_MAX, RECORDER_STARTED_AT_BACK_MS_MAX};
use porchlight_schema::session::{Address, EndReason, SessionType, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::{
    AttachPodError, IngestError, Service, StartCommand, StartError, StopCommand, StopError,
};
use crate::registry::AdmitError;
use porchlight_ports::{Idempotency, SessionRow, StoreError, StoreResult};

/// How often a message is planned again because another one of its recorder was quicker.
const ATTEMPTS_MAX: usize = 16;

/// What a recorder is asked to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecorderOrder {
    /// Whose its sessions are.
    pub tenant: Tenant,
    /// The customer's id of the courier.
    pub external_rider_id: String,
    /// The customer's id of the delivery; none: the recorder's own id.
    pub delivery_id: Option<String>,
    /// Where to.
    pub address: Address,
    /// When it was made.
    pub created_at: TimestampMs,
    /// From when on it takes nothing more.
    pub expires_at: TimestampMs,
}

/// A recorder.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorder {
    /// Which.
    pub id: RecorderId,
    /// What it records.
    pub order: RecorderOrder,
    /// Its sessions so far.
    pub state: RecorderState,
    version: u64,
}

/// A recorder as it is stored: JSON, which reads what an earlier version wrote.
#[derive(Serialize, Deserialize)]
struct Stored<O, S> {
    order: O,
    #[serde(default)]
    state: S,
}

/// Why a message of an app was not recorded. The app may send it again.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The recorder has expired, or was deleted.
    #[error("the recorder has expired or was deleted")]
    Gone,
    /// There is too much in flight.
    #[error("too much is in flight")]
    Busy(AdmitError),
    /// The node is stopping.
    #[error("the service is stopping")]
    Draining,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// Makes a recorder.
    pub async fn create_recorder(&self, order: RecorderOrder) -> StoreResult<Recorder> {
        let random = self.registry().inner().entropy.random();
        let id = RecorderId::new(order.created_at, random);
        let state = RecorderState::default();
        let data = encode(&order, &state)?;
        self.store().create_recorder(id, data).await?;
        Ok(Recorder {
            id,
            order,
            state,
            version: 1,
        })
    }

    /// A recorder, whoever's it is.
    pub async fn recorder(&self, id: RecorderId) -> StoreResult<Option<Recorder>> {
        let Some(row) = self.store().recorder(id).await? else {
            return Ok(None);
        };
        let stored: Stored<RecorderOrder, RecorderState> = serde_json::from_slice(&row.data)
            .map_err(|error| StoreError::Corrupt(format!("a recorder: {error}")))?;
        Ok(Some(Recorder {
            id,
            order: stored.order,
            state: stored.state,
            version: row.version,
        }))
    }

    /// Removes a recorder; its sessions stay. False: there is none.
    pub async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        self.store().remove_recorder(id).await
    }

    /// Records a message: when this answers, all of it is durable that a session takes.
    pub async fn record(&self, id: RecorderId, message: &Message) -> Result<(), RecordError> {
        let idle_ms = self.registry().inner().lifetime.idle_ms;
        for _ in 0..ATTEMPTS_MAX {
            let now = self.now();
            let recorder = self.recorder(id).await?;
            let recorder = recorder.filter(|recorder| now < recorder.order.expires_at);
            let mut recorder = recorder.ok_or(RecordError::Gone)?;
            self.see_newest_end(&mut recorder.state).await?;
            let plan = recorder.state.plan(message, idle_ms, now);
            for &opening in &plan.openings {
                let (session_id, started_at_ms) = self.open(&recorder, opening, now).await?;
                recorder
                    .state
                    .made(opening.ordinal, session_id, started_at_ms);
            }
            let data = encode(&recorder.order, &recorder.state)?;
            let store = self.store();
            if store.change_recorder(id, recorder.version, data).await? {
                return self.carry_out(&recorder.state, plan).await;
            }
        }
        Err(StoreError::Overloaded.into())
    }

    /// Lets the state know of an end of its newest session by the service, or by the customer.
    async fn see_newest_end(&self, state: &mut RecorderState) -> StoreResult<()> {
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
                let still_takes = self.now() <= end.takes_telemetry_until();
                let by_phone_ms = started_at_ms + end.ended_at.since_ms(start.started_at);
                state.newest_ended(match end.reason {
                    EndReason::Idle if still_takes => EndOfSession::Idle,
                    _ => EndOfSession::At(by_phone_ms),
                });
            }
            Some(_) => {}
            // It is gone, with all that it had.
            None => state.newest_ended(EndOfSession::At(started_at_ms - 1)),
        }
        Ok(())
    }

    /// Starts the session of an ordinal; again, it is the same one. Gives its id, and its start by the phone's clock.
    async fn open(
        &self,
        recorder: &Recorder,
        opening: Opening,
        now: TimestampMs,
    ) -> Result<(SessionId, i64), RecordError> {
        let order = &recorder.order;
        // A phone's clock may be wrong; the times within the session are right all the same.
        let earliest = now.plus_ms(-RECORDER_STARTED_AT_BACK_MS_MAX);
        let latest = now.plus_ms(CLOCK_AHEAD_MS_MAX);
        let started_at = TimestampMs(opening.started_at_ms).clamp(earliest, latest);
        // No customer's key has such a character (contract 9).
        let key = format!("\u{1}{}/{}", recorder.id, opening.ordinal);
        let command = StartCommand {
            tenant: order.tenant,
            delivery_id: (order.delivery_id.clone()).unwrap_or_else(|| recorder.id.to_string()),
            external_rider_id: order.external_rider_id.clone(),
            session_type: SessionType::Delivery,
            address: order.address.clone(),
            device: None,
            started_at: Some(started_at),
            started_at_back_ms_max: RECORDER_STARTED_AT_BACK_MS_MAX,
            idempotency: Some(Idempotency {
                key,
                body_hash: [0; 32],
            }),
        };
        match self.start(command).await {
            Ok(start) => {
                // Another message may have made it first, with a start of its own.
                let differs_ms = start.started_at.since_ms(started_at);
                Ok((start.session_id, opening.started_at_ms + differs_ms))
            }
            Err(StartError::Draining) => Err(RecordError::Draining),
            Err(StartError::TenantFull(share)) => Err(RecordError::Busy(share.into())),
            Err(StartError::Store(error)) => Err(error.into()),
            Err(StartError::StartedAtOutOfRange | StartError::KeyReused) => {
                let detail = "a recorder's session has a start that is none".to_owned();
                Err(StoreError::Corrupt(detail).into())
            }
        }
    }

    async fn carry_out(&self, state: &RecorderState, plan: Plan<'_>) -> Result<(), RecordError> {
        for append in &plan.appends {
            self.append_planned(state, append).await?;
        }
        for stop in &plan.stops {
            self.stop_planned(state, stop).await?;
        }
        Ok(())
    }

    /// Appends a batch. One that the session takes no more, or that another body stands in the place of, is left out: the
    /// app could do nothing about it.
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
            Ok(()) | Err(IngestError::Conflict | IngestError::Closed) => Ok(()),
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
        let after_ms = stop.ended_at_ms.saturating_sub(session.started_at_ms);
        let ended_at = row.start.started_at.plus_ms(after_ms.max(0));
        let latest = self.now().plus_ms(CLOCK_AHEAD_MS_MAX);
        let command = StopCommand {
            ended_at: Some(ended_at.min(latest.max(row.start.started_at))),
            pod: None,
        };
        match self.stop(&row, command).await {
            Ok(_) | Err(StopError::EndedAtOutOfRange) => Ok(()),
            Err(StopError::Store(error) | StopError::Pod(AttachPodError::Store(error))) => {
                Err(error.into())
            }
            Err(StopError::Pod(AttachPodError::TenantFull(share))) => {
                Err(RecordError::Busy(share.into()))
            }
        }
    }
}

fn encode(order: &RecorderOrder, state: &RecorderState) -> StoreResult<Vec<u8>> {
    serde_json::to_vec(&Stored { order, state }).map_err(StoreError::unavailable)
}
