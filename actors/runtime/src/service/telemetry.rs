//! The path of one batch: admitted before it is read, durable before it is acknowledged, and
//! processed afterwards.

use std::sync::Arc;

use porchlight_core::privacy::SessionAccess;
use porchlight_observe::{BatchOutcome, Metrics};
use porchlight_ports::{Appended, JournalEntry, SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;
use tokio::time::Instant;

use super::Service;
use crate::registry::{AdmitError, Counted, Permit, RemoteSession};
use crate::session::SessionHandle;
use crate::shares::TenantUsage;

/// The session that telemetry is addressed to.
#[derive(Debug, Clone)]
pub struct Target {
    /// The session's id.
    pub session_id: SessionId,
    /// The tenant that owns the session.
    pub tenant: Tenant,
    /// The end of the session, if it has ended.
    pub end: Option<SessionEnd>,
    owner: Owner,
    usage: Arc<TenantUsage>,
}

/// The node that acts for the session, as far as this node knows.
#[derive(Debug, Clone)]
pub(super) enum Owner {
    /// This node acts for the session, which is in progress.
    Local(Arc<SessionHandle>),
    /// Another node acts for the session, which was in progress a moment ago.
    Remote(RemoteSession),
    /// The session has ended.
    Ended,
}

/// The reason why a batch was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Another body was acknowledged under this `seq`.
    #[error("another body was acknowledged under this seq")]
    Conflict,
    /// The session is restricted.
    #[error("the session is restricted")]
    Restricted,
    /// The session was erased.
    #[error("the session was erased")]
    Erased,
    /// The session ended too long ago to accept telemetry: see
    /// [`SessionEnd::accepts_telemetry_until`].
    #[error("the session has ended")]
    Closed,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Target {
    /// Returns the tenant's usage of this node.
    #[must_use]
    pub fn usage(&self) -> &Arc<TenantUsage> {
        &self.usage
    }
}

impl Service {
    /// Returns the session that telemetry is addressed to, or `None` if there is no such session.
    /// Reads the store only if the session is not known to be in progress.
    pub async fn target(&self, session_id: SessionId) -> StoreResult<Option<Target>> {
        let registry = self.registry();
        let is_ours = registry.acts_for(session_id);
        let known = if is_ours {
            let handle = registry.handle(session_id);
            handle.map(|handle| {
                (
                    handle.tenant,
                    Arc::clone(&handle.usage),
                    Owner::Local(handle),
                )
            })
        } else {
            let remote = registry.remote(session_id);
            remote.map(|remote| {
                let state = &remote.state;
                (
                    state.tenant,
                    Arc::clone(&state.usage),
                    Owner::Remote(remote),
                )
            })
        };
        if let Some((tenant, usage, owner)) = known {
            return Ok(Some(Target {
                session_id,
                tenant,
                end: None,
                owner,
                usage,
            }));
        }
        let looked_up_at = Instant::now();
        let Some(row) = self.find(session_id).await? else {
            return Ok(None);
        };
        let owner = if !is_ours {
            let remote = registry.cache_remote(&row, looked_up_at);
            remote.map_or(Owner::Ended, Owner::Remote)
        } else if row.end.is_some() {
            Owner::Ended
        } else {
            Owner::Local(self.adopt_session(&row).await?)
        };
        Ok(Some(Target {
            session_id,
            tenant: row.start.tenant,
            end: row.end,
            owner,
            usage: self.usage(row.start.tenant),
        }))
    }

    /// Takes on a session in progress of a shard that this node acts for.
    pub(super) async fn adopt_session(&self, row: &SessionRow) -> StoreResult<Arc<SessionHandle>> {
        let (handle, _has_batches) = self.registry().adopt_stored(row).await?;
        Ok(handle)
    }

    /// Admits one batch before its body is read. [`Permit::grow`] counts the bytes of the body as
    /// they arrive.
    ///
    /// # Errors
    ///
    /// Returns an error if the session, its tenant or the node has too much in flight, or if the
    /// node is stopping.
    pub fn admit(&self, target: &Target) -> Result<Permit, AdmitError> {
        let counted = match &target.owner {
            Owner::Local(handle) => Counted::Local(Arc::clone(handle)),
            Owner::Remote(remote) => Counted::Remote(Arc::clone(&remote.state)),
            Owner::Ended => Counted::Ended(target.session_id),
        };
        self.check_stored_bytes(&target.usage)?;
        self.registry().admission().admit(&target.usage, counted)
    }

    /// Returns a tenant's usage of this node.
    #[must_use]
    pub fn usage(&self, tenant: Tenant) -> Arc<TenantUsage> {
        self.registry().admission().shares().of(tenant)
    }

    /// Returns the number of bodies that are admitted and not yet answered.
    #[must_use]
    pub fn bodies_in_flight(&self) -> usize {
        self.registry().admission().bodies_in_flight()
    }

    /// Updates the metrics of the tenants' usage of this node.
    pub fn show_shares(&self) {
        self.registry().admission().shares().show();
    }

    /// Returns whether the node currently has room for another batch of a tenant.
    #[must_use]
    pub fn has_room(&self, usage: &TenantUsage) -> bool {
        self.registry().admission().has_room(usage)
    }

    /// Admits a request that starts a session, before its body is read. Returns `None` if the node
    /// is draining; [`Service::start`] then refuses.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant starts too many sessions, or if the tenant or the node has
    /// too much in flight.
    pub fn admit_start(&self, usage: &Arc<TenantUsage>) -> Result<Option<Permit>, AdmitError> {
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        self.registry().admission().admit_start(usage, uptime_ms)
    }

    /// Admits `bytes` bytes that a connection holds before their session is known.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant or the node has too much in flight, or if the node is
    /// stopping.
    pub fn reserve(&self, usage: &Arc<TenantUsage>, bytes: usize) -> Result<Permit, AdmitError> {
        self.check_stored_bytes(usage)?;
        let mut permit = self.registry().admission().admit_body(usage)?;
        permit.grow(bytes)?;
        Ok(permit)
    }

    fn check_stored_bytes(&self, usage: &TenantUsage) -> Result<(), AdmitError> {
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        usage.check_stored_bytes(uptime_ms).map_err(|exceeded| {
            Metrics::get().on_batch(BatchOutcome::TenantFull);
            exceeded.into()
        })
    }

    /// Takes a batch. When this returns successfully, the batch is durable (or was before).
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
        self.check_takes_telemetry(target, end, now)
            .await
            .inspect_err(|error| {
                if !matches!(error, IngestError::Store(_)) {
                    metrics.on_batch(BatchOutcome::Closed);
                }
            })?;
        let (samples, bytes) = (batch.samples(), batch.as_bytes().len());
        let under_way = self
            .registry()
            .admission()
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
        // If the session has ended, even in the meantime, no actor would notice that the batch is
        // missing. The score is requested here so that it does not depend on the forwarded batch
        // alone, nor on the first of two answers, which may have been lost.
        let registry = self.registry();
        let is_over = if registry.acts_for(target.session_id) {
            registry.handle(target.session_id).is_none()
        } else {
            end.is_some()
        };
        if !matches!(appended, Appended::Conflict | Appended::Erased) && is_over {
            registry.request_late_score(target.tenant, target.session_id);
        }
        metrics.on_batch(match appended {
            Appended::New if end.is_some() => BatchOutcome::Late,
            Appended::New => BatchOutcome::New,
            Appended::Repeated => BatchOutcome::Repeated,
            Appended::Conflict => BatchOutcome::Conflict,
            Appended::Erased => BatchOutcome::Closed,
        });
        match appended {
            Appended::New => {
                metrics.samples.increment(u64::from(samples));
                metrics.bytes.increment(bytes as u64);
                let uptime_ms = registry.ports().clock.uptime_ms();
                target.usage.add_stored_bytes(uptime_ms, bytes);
                Ok(())
            }
            Appended::Repeated => Ok(()),
            Appended::Conflict => Err(IngestError::Conflict),
            Appended::Erased => Err(IngestError::Erased),
        }
    }

    /// Checks that a session takes a batch that arrives now: it has not been over for too long, and
    /// no privacy request closes it.
    async fn check_takes_telemetry(
        &self,
        target: &Target,
        end: Option<SessionEnd>,
        now: TimestampMs,
    ) -> Result<(), IngestError> {
        if end.is_some_and(|end| now > end.accepts_telemetry_until()) {
            return Err(IngestError::Closed);
        }
        match self.access_of(target.tenant, target.session_id).await? {
            SessionAccess::Open => Ok(()),
            SessionAccess::Restricted => Err(IngestError::Restricted),
            SessionAccess::Erased => Err(IngestError::Erased),
        }
    }

    /// Returns the session's end, if it has ended. The cached session from the batch's head may be
    /// outdated when its body has arrived.
    async fn end_by_now(&self, target: &Target) -> StoreResult<Option<SessionEnd>> {
        match &target.owner {
            Owner::Remote(remote) if remote.is_valid() => Ok(target.end),
            // The node may have lost the session, which another one has ended.
            Owner::Local(_) if self.registry().acts_for(target.session_id) => Ok(target.end),
            Owner::Ended => Ok(target.end),
            Owner::Remote(_) | Owner::Local(_) => {
                let current = self.target(target.session_id).await?;
                Ok(current.and_then(|current| current.end))
            }
        }
    }

    /// Passes a durable batch to the node that acts for the session, this one or another. The store
    /// calls this right after the commit, on its own thread. Never waits.
    pub fn deliver(&self, session_id: SessionId, entry: JournalEntry) {
        let registry = self.registry();
        if registry.acts_for(session_id) {
            registry.deliver(session_id, entry);
        } else {
            let peers = &registry.ports().peers;
            peers.forward(session_id, entry.seq, entry.batch);
        }
    }
}
