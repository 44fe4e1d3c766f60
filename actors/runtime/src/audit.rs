//! Writes and reads the audit log.
//!
//! [`AuditPermit::record`] puts a line into a bounded queue. One task gathers the queue for a fifth
//! of a second, appends each tenant's lines to its chain in one commit, and retries until the store
//! accepts them. A request is therefore answered without waiting for the store. A crash can lose
//! the lines of its last second; a stop loses none. While the store accepts no lines, the queue
//! fills. A request then waits for room and is refused after five seconds, so that nothing is shown
//! without being recorded. While the chain of a tenant has an unreadable row, its requests are
//! refused immediately, and the writer continues with the lines of others.

mod chain;
mod expire;
mod read;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use porchlight_core::audit::Line;
use porchlight_ports::{Clock, Store, StoreResult};
use porchlight_schema::limits::{AUDIT_GROUP_LINES_MAX, AUDIT_QUEUE_LINES_MAX, AUDIT_ROOM_MS_MAX};
use porchlight_schema::session::Tenant;
use tokio::sync::{mpsc, oneshot};

use chain::Chains;
pub(crate) use expire::expire;
pub use read::{AuditPage, ChainReport, Outcome, verify_all};
use writer::{UnreadableChains, Writer};

/// A message to the writer.
enum Message {
    /// Appends this line to the tenant's chain.
    Line(Tenant, Box<Line>),
    /// Requests an answer when everything before this message was taken up: whether all lines, or
    /// those of one tenant, are committed.
    Flush(Option<Tenant>, oneshot::Sender<bool>),
}

/// A permit to record one line.
pub struct AuditPermit {
    permit: mpsc::OwnedPermit<Message>,
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
        let message = Message::Line(self.tenant, Box::new(line));
        self.permit.send(message);
    }
}

/// The error of a line that was not accepted because the store has not accepted the lines before it
/// for some time, or because the tenant's chain has an unreadable row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log takes no more lines at the moment")]
pub struct AuditFull;

/// The audit log. Clones share the same queue.
#[derive(Clone)]
pub struct AuditLog {
    queue: mpsc::Sender<Message>,
    unreadable_chains: Arc<UnreadableChains>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
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
        let unreadable_chains = Arc::<UnreadableChains>::default();
        let writer = Writer::new(
            Chains::new(Arc::clone(&store)),
            lines,
            Arc::clone(&unreadable_chains),
        );
        // An arbiter that has stopped starts nothing; then no line is ever accepted.
        let _is_running = arbiter.spawn(writer.run());
        Self {
            queue,
            unreadable_chains,
            store,
            clock,
        }
    }

    /// Reserves room for one line. A caller that shows or changes something reserves room first and
    /// records the line afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if there was no room for five seconds, or immediately if the tenant's chain
    /// has an unreadable row.
    pub async fn reserve(&self, tenant: Tenant) -> Result<AuditPermit, AuditFull> {
        if self.unreadable_chains.has(tenant) {
            return Err(AuditFull);
        }
        let room = Duration::from_millis(AUDIT_ROOM_MS_MAX);
        let reserved = tokio::time::timeout(room, self.queue.clone().reserve_owned()).await;
        match reserved {
            Ok(Ok(permit)) => Ok(AuditPermit { permit, tenant }),
            Ok(Err(_)) | Err(_) => Err(AuditFull),
        }
    }

    /// Waits at most five seconds until every line accepted so far is committed. Returns whether it
    /// is.
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
    let mut chains = Chains::new(Arc::clone(store));
    for group in lines.chunks(AUDIT_GROUP_LINES_MAX) {
        chains.append(tenant, group).await?;
    }
    Ok(())
}
