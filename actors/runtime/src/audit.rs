//! Writes and reads the audit log.
//!
//! [`AuditPermit::record`] puts a line into a bounded queue, of which each tenant has a share. One
//! task gathers a tenant's lines for
//! [`AUDIT_GATHER_MS`](porchlight_schema::limits::AUDIT_GATHER_MS), appends them to its chain in
//! groups, for several tenants at the same time, and retries until the store accepts them. A
//! request is therefore answered without waiting for the store. A crash can lose the lines of its
//! last second; a stop loses none. While the store accepts no lines, or a tenant causes more than
//! its chain takes, the queue or the tenant's share fills. A request then waits for room and is
//! refused after [`AUDIT_ROOM_MS_MAX`], so that nothing is shown without being recorded. While the
//! chain of a tenant has a damaged row, its requests are refused immediately, and the writer
//! continues with the lines of others.

mod chain;
mod expire;
mod read;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use porchlight_core::audit::Line;
use porchlight_ports::{Clock, Store, StoreResult};
use porchlight_schema::limits::{
    AUDIT_GROUP_LINES_MAX, AUDIT_QUEUE_LINES_MAX, AUDIT_ROOM_MS_MAX, AUDIT_TENANT_LINES_MAX,
    LISTS_DECODED_AT_ONCE_MAX,
};
use porchlight_schema::session::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::turns::Turns;
use chain::Chains;
pub(crate) use expire::expire;
pub use read::{AuditPage, ChainReport, Outcome, verify_all};
use writer::{DamagedChains, Writer};

/// A message to the writer.
enum Message {
    /// Appends this line, with its room in the tenant's share, to the tenant's chain.
    Line(Tenant, Box<(Line, OwnedSemaphorePermit)>),
    /// Requests an answer once the writer has handled every message before this one: whether all
    /// lines, or those of one tenant, are committed.
    Flush(Option<Tenant>, oneshot::Sender<bool>),
}

/// A permit to record one line.
pub struct AuditPermit {
    permit: mpsc::OwnedPermit<Message>,
    room: OwnedSemaphorePermit,
    tenant: Tenant,
}

impl std::fmt::Debug for AuditPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditPermit").finish_non_exhaustive()
    }
}

impl AuditPermit {
    /// Queues a line, which is committed within a second while the store answers.
    pub fn record(self, line: Line) {
        let message = Message::Line(self.tenant, Box::new((line, self.room)));
        self.permit.send(message);
    }
}

/// The error of a line that was not accepted: the store has not accepted the lines before it for
/// some time, or the tenant's chain has a damaged row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log accepts no more lines at the moment")]
pub struct AuditFull;

/// Each tenant's share of the queue: the room for lines that are not committed. The number of
/// tenants is bounded by the organizations that operators created.
#[derive(Debug, Default)]
struct Rooms(DashMap<Tenant, Arc<Semaphore>>);

impl Rooms {
    fn of(&self, tenant: Tenant) -> Arc<Semaphore> {
        if let Some(room) = self.0.get(&tenant) {
            return Arc::clone(&room);
        }
        let share = || Arc::new(Semaphore::new(AUDIT_TENANT_LINES_MAX));
        Arc::clone(&self.0.entry(tenant).or_insert_with(share))
    }
}

/// The audit log. Clones share the same queue.
#[derive(Clone)]
pub struct AuditLog {
    queue: mpsc::Sender<Message>,
    rooms: Arc<Rooms>,
    damaged_chains: Arc<DamagedChains>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The turns of organizations whose lines are decoded for a page.
    reads: Turns,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

impl AuditLog {
    /// Starts the writer on this arbiter. It runs until the last clone is dropped.
    #[must_use]
    pub fn start(arbiter: &ArbiterHandle, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let (queue, lines) = mpsc::channel(AUDIT_QUEUE_LINES_MAX);
        let damaged_chains = Arc::<DamagedChains>::default();
        let writer = Writer::new(
            Chains::new(Arc::clone(&store)),
            lines,
            Arc::clone(&damaged_chains),
        );
        // An arbiter that has stopped starts nothing; then no line is ever accepted.
        let _is_running = arbiter.spawn(writer.run());
        Self {
            queue,
            rooms: Arc::default(),
            damaged_chains,
            store,
            clock,
            // The share of lists bounds how many pages of an organization wait.
            reads: Turns::new(LISTS_DECODED_AT_ONCE_MAX, usize::MAX),
        }
    }

    /// Reserves room for one line. A caller that shows or changes something reserves room first and
    /// records the line afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if there was no room within [`AUDIT_ROOM_MS_MAX`] in the queue or in the
    /// tenant's share of it, or immediately if the tenant's chain has a damaged row.
    pub async fn reserve(&self, tenant: Tenant) -> Result<AuditPermit, AuditFull> {
        if self.damaged_chains.has(tenant) {
            return Err(AuditFull);
        }
        let reserved = async {
            // A caller without room in its tenant's share takes no place in the queue.
            let room = self.rooms.of(tenant).acquire_owned().await.ok()?;
            let permit = self.queue.clone().reserve_owned().await.ok()?;
            Some(AuditPermit {
                permit,
                room,
                tenant,
            })
        };
        let patience = Duration::from_millis(AUDIT_ROOM_MS_MAX);
        let reserved = tokio::time::timeout(patience, reserved).await;
        reserved.ok().flatten().ok_or(AuditFull)
    }

    /// Waits at most [`AUDIT_ROOM_MS_MAX`] until every line accepted so far is committed. Returns
    /// whether it is.
    pub async fn flush(&self) -> bool {
        self.flush_lines(None).await
    }

    /// Waits like [`Self::flush`] for the lines of one tenant.
    pub(crate) async fn flush_of(&self, tenant: Tenant) -> bool {
        self.flush_lines(Some(tenant)).await
    }

    async fn flush_lines(&self, tenant: Option<Tenant>) -> bool {
        let (done, is_done) = oneshot::channel();
        let flushed = async {
            let sent = self.queue.send(Message::Flush(tenant, done)).await;
            sent.is_ok() && is_done.await == Ok(true)
        };
        let patience = Duration::from_millis(AUDIT_ROOM_MS_MAX);
        tokio::time::timeout(patience, flushed).await == Ok(true)
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the clock.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

/// Appends lines of a tenant immediately, for a command that has opened the store itself.
///
/// # Errors
///
/// Returns an error if the store fails.
pub async fn append(store: &Arc<dyn Store>, tenant: Tenant, lines: &[Line]) -> StoreResult<()> {
    let chains = Chains::new(Arc::clone(store));
    for group in lines.chunks(AUDIT_GROUP_LINES_MAX) {
        chains.append(tenant, group).await?;
    }
    Ok(())
}
