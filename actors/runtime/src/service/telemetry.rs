//! The way of one batch: admitted before it is read, durable before it is acknowledged, processed afterwards.

use std::sync::Arc;

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::LATE_WINDOW_MS;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{SessionEnd, Tenant};

use super::Service;
use crate::observe::{BatchOutcome, Metrics};
use crate::ports::{Appended, StoreError, StoreResult};
use crate::registry::{AdmitError, Handle, Permit};

/// A session that telemetry is for.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which.
    pub session_id: SessionId,
    /// Whose.
    pub tenant: Tenant,
    /// How it ended, if it has.
    pub end: Option<SessionEnd>,
    handle: Option<Arc<Handle>>,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Another body was acknowledged under this `seq`.
    #[error("another body was acknowledged under this seq")]
    Conflict,
    /// The session ended longer ago than telemetry is taken for.
    #[error("the session has ended")]
    Closed,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Service {
    /// The session that telemetry is for; none: there is no such session. Reads the store only for a session that is
    /// not known to record.
    pub async fn target(&self, session_id: SessionId) -> StoreResult<Option<Target>> {
        if let Some(handle) = self.registry().handle(session_id) {
            return Ok(Some(Target {
                session_id,
                tenant: handle.tenant,
                end: None,
                handle: Some(handle),
            }));
        }
        let Some(row) = self.find(session_id).await? else {
            return Ok(None);
        };
        let handle = match row.end {
            Some(_) => None,
            None => {
                let newest = self.store().newest(session_id).await?;
                let heard_at = newest.map_or(row.start.created_at, |(_, received_at)| received_at);
                Some(
                    self.registry()
                        .adopt(&row, heard_at.max(row.start.created_at)),
                )
            }
        };
        Ok(Some(Target {
            session_id,
            tenant: row.start.tenant,
            end: row.end,
            handle,
        }))
    }

    /// Admits one batch of `bytes` bytes, before its body is read.
    pub fn admit(&self, target: &Target, bytes: usize) -> Result<Permit, AdmitError> {
        self.registry().admit(target.handle.as_ref(), bytes)
    }

    /// Admits `bytes` bytes that a connection holds before it is known what they are of.
    pub fn reserve(&self, bytes: usize) -> Result<Permit, AdmitError> {
        self.registry().admit(None, bytes)
    }

    /// Takes a batch: when it answers, the batch is durable (or was before).
    pub async fn ingest(
        &self,
        target: &Target,
        permit: Permit,
        seq: u32,
        batch: PackedBatch,
    ) -> Result<(), IngestError> {
        let metrics = Metrics::get();
        let now = self.now();
        if target
            .end
            .is_some_and(|end| now.since_ms(end.completed_at) > LATE_WINDOW_MS)
        {
            metrics.on_batch(BatchOutcome::Closed);
            return Err(IngestError::Closed);
        }
        let (samples, bytes) = (batch.samples(), batch.as_bytes().len());
        let under_way = self.registry().begin_ingest();
        let appended = self
            .store()
            .append(target.session_id, seq, batch, now)
            .await
            .inspect_err(|_| {
                metrics.on_batch(BatchOutcome::StoreUnavailable);
            })?;
        under_way.acknowledge();
        drop(permit);
        // Of a session that has ended, or ended meanwhile, no actor would miss the batch. It is not left to the
        // hand-over alone, nor to the first of two answers of which one was lost.
        if appended != Appended::Conflict && self.registry().handle(target.session_id).is_none() {
            self.registry().request_score(target.session_id);
        }
        match appended {
            Appended::New => {
                metrics.samples.increment(u64::from(samples));
                metrics.bytes.increment(bytes as u64);
                let late = target.end.is_some();
                metrics.on_batch(if late {
                    BatchOutcome::Late
                } else {
                    BatchOutcome::New
                });
                Ok(())
            }
            Appended::Repeated => {
                metrics.on_batch(BatchOutcome::Repeated);
                Ok(())
            }
            Appended::Conflict => {
                metrics.on_batch(BatchOutcome::Conflict);
                Err(IngestError::Conflict)
            }
        }
    }

    /// A batch is durable: what the store calls right after the commit, on its own thread. Who acts for the session is
    /// given it, here or on another node. Never waits.
    pub fn deliver(&self, session_id: SessionId, seq: u32, batch: PackedBatch) {
        let registry = self.registry();
        if registry.acts_for(session_id) {
            registry.deliver(session_id, seq, batch);
        } else {
            registry.inner().peers.hand_over(session_id, seq, batch);
        }
    }
}
