//! The way of one batch: admitted before it is read, durable before it is acknowledged, processed afterwards.

use std::sync::Arc;

use porchlight_observe::{BatchOutcome, Metrics};
use porchlight_ports::{Appended, SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{SessionEnd, Tenant};
use tokio::time::Instant;

use super::Service;
use crate::registry::{AdmitError, Belief, Counted, Handle, Permit};
use crate::shares::TenantUsage;

/// A session that telemetry is for.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which.
    pub session_id: SessionId,
    /// Whose.
    pub tenant: Tenant,
    /// How it ended, if it has.
    pub end: Option<SessionEnd>,
    at: At,
    usage: Arc<TenantUsage>,
}

/// Where the session is acted for.
#[derive(Debug, Clone)]
pub(super) enum At {
    /// Here, and it records.
    Here(Arc<Handle>),
    /// On another node, and it recorded a moment ago.
    Elsewhere(Belief),
    /// It has ended.
    Over,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Another body was acknowledged under this `seq`.
    #[error("another body was acknowledged under this seq")]
    Conflict,
    /// The session ended longer ago than telemetry is taken for: see [`SessionEnd::takes_telemetry_until`].
    #[error("the session has ended")]
    Closed,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Target {
    /// What the session's tenant uses of this node.
    #[must_use]
    pub fn usage(&self) -> &Arc<TenantUsage> {
        &self.usage
    }
}

impl Service {
    /// The session that telemetry is for; none: there is no such session. Reads the store only for a session that is
    /// not known to record.
    pub async fn target(&self, session_id: SessionId) -> StoreResult<Option<Target>> {
        let registry = self.registry();
        let is_ours = registry.acts_for(session_id);
        let known = if is_ours {
            let handle = registry.handle(session_id);
            handle.map(|handle| (handle.tenant, Arc::clone(&handle.usage), At::Here(handle)))
        } else {
            let belief = registry.belief(session_id);
            belief.map(|belief| {
                let edge = &belief.edge;
                (edge.tenant, Arc::clone(&edge.usage), At::Elsewhere(belief))
            })
        };
        if let Some((tenant, usage, at)) = known {
            return Ok(Some(Target {
                session_id,
                tenant,
                end: None,
                at,
                usage,
            }));
        }
        let looked_up_at = Instant::now();
        let Some(row) = self.find(session_id).await? else {
            return Ok(None);
        };
        let at = if !is_ours {
            let belief = registry.believe(&row, looked_up_at);
            belief.map_or(At::Over, At::Elsewhere)
        } else if row.end.is_some() {
            At::Over
        } else {
            At::Here(self.take_on(&row).await?)
        };
        Ok(Some(Target {
            session_id,
            tenant: row.start.tenant,
            end: row.end,
            at,
            usage: self.usage(row.start.tenant),
        }))
    }

    /// Takes on a session that records, of a shard that this node acts for.
    pub(super) async fn take_on(&self, row: &SessionRow) -> StoreResult<Arc<Handle>> {
        let (session_id, created_at) = (row.start.session_id, row.start.created_at);
        let newest = self.store().newest(session_id).await?;
        let heard_at = newest.map_or(created_at, |(_, received_at)| received_at);
        Ok(self.registry().adopt(row, heard_at.max(created_at)))
    }

    /// Admits one batch before its body is read. The bytes of the body are counted as they arrive, by [`Permit::grow`].
    ///
    /// # Errors
    ///
    /// The session, its tenant or the node has too much in flight, or the node stops.
    pub fn admit(&self, target: &Target) -> Result<Permit, AdmitError> {
        let counted = match &target.at {
            At::Here(handle) => Counted::Here(Arc::clone(handle)),
            At::Elsewhere(belief) => Counted::Elsewhere(Arc::clone(&belief.edge)),
            At::Over => Counted::Ended(target.session_id),
        };
        self.registry().admit(&target.usage, counted)
    }

    /// What a tenant uses of this node.
    #[must_use]
    pub fn usage(&self, tenant: Tenant) -> Arc<TenantUsage> {
        self.registry().inner().shares.of(tenant)
    }

    /// Bodies that are admitted and not answered.
    #[must_use]
    pub fn bodies_in_flight(&self) -> usize {
        self.registry().bodies_in_flight()
    }

    /// Shows in the metrics what tenants use of this node.
    pub fn show_shares(&self) {
        self.registry().inner().shares.show();
    }

    /// Whether the node has room for another batch of a tenant at the moment.
    #[must_use]
    pub fn has_room(&self, usage: &TenantUsage) -> bool {
        self.registry().has_room(usage)
    }

    /// Admits a request that starts a session, before its body is read. None: the node drains, and [`Service::start`]
    /// refuses.
    ///
    /// # Errors
    ///
    /// The tenant starts too many sessions, or the tenant or the node has too much in flight.
    pub fn admit_start(&self, usage: &Arc<TenantUsage>) -> Result<Option<Permit>, AdmitError> {
        self.registry().admit_start(usage)
    }

    /// Admits `bytes` bytes that a connection holds before it is known which session they belong to.
    ///
    /// # Errors
    ///
    /// The tenant or the node has too much in flight, or the node stops.
    pub fn reserve(&self, usage: &Arc<TenantUsage>, bytes: usize) -> Result<Permit, AdmitError> {
        let mut permit = self.registry().admit_body(usage)?;
        permit.grow(bytes)?;
        Ok(permit)
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
        let end = self.end_by_now(target).await?;
        if end.is_some_and(|end| now > end.takes_telemetry_until()) {
            metrics.on_batch(BatchOutcome::Closed);
            return Err(IngestError::Closed);
        }
        let (samples, bytes) = (batch.samples(), batch.as_bytes().len());
        let under_way = self
            .registry()
            .begin_ingest(permit.usage(), permit.waited());
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
        let registry = self.registry();
        let is_over = if registry.acts_for(target.session_id) {
            registry.handle(target.session_id).is_none()
        } else {
            end.is_some()
        };
        if appended != Appended::Conflict && is_over {
            registry.request_score(target.session_id);
        }
        match appended {
            Appended::New => {
                metrics.samples.increment(u64::from(samples));
                metrics.bytes.increment(bytes as u64);
                metrics.on_batch(if end.is_some() {
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

    /// How a session has ended, if it has: what was believed when the batch's head came may be too old when its body is
    /// there.
    async fn end_by_now(&self, target: &Target) -> StoreResult<Option<SessionEnd>> {
        match &target.at {
            At::Elsewhere(belief) if !belief.is_good() => {
                let anew = self.target(target.session_id).await?;
                Ok(anew.and_then(|anew| anew.end))
            }
            _ => Ok(target.end),
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
