//! Writes and reads the audit log.
//!
//! [`AuditPermit::record`] puts a line into a bounded queue. One task gathers the queue for a fifth
//! of a second, appends each tenant's lines to its chain in one commit, and retries until the store
//! accepts them. A request is therefore answered without waiting for the store. A crash can lose
//! the lines of its last second; a stop loses none. While the store accepts no lines, the queue
//! fills. A request then waits for room and is refused after five seconds, so that nothing is shown
//! without being recorded.

mod chain;
mod expire;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use porchlight_core::audit::Line;
use porchlight_ports::{Clock, Store, StoreResult};
use porchlight_schema::limits::{
    AUDIT_GATHER_MS, AUDIT_GROUP_LINES_MAX, AUDIT_QUEUE_LINES_MAX, AUDIT_ROOM_MS_MAX,
};
use porchlight_schema::session::Tenant;
use tokio::sync::{mpsc, oneshot};

use chain::Chains;
pub(crate) use expire::expire;
pub use read::{AuditPage, ChainReport, Outcome, verify_all};

/// The pause before the writer retries a write that the store did not accept.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A message to the writer.
enum Message {
    /// Appends this line to the tenant's chain.
    Line(Tenant, Box<Line>),
    /// Requests a notification when everything before this message is committed.
    Flush(oneshot::Sender<()>),
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
/// for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the audit log takes no more lines at the moment")]
pub struct AuditFull;

/// The audit log. Clones share the same queue.
#[derive(Clone)]
pub struct AuditLog {
    queue: mpsc::Sender<Message>,
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
        let writer = Writer {
            chains: Chains::new(Arc::clone(&store)),
            lines,
        };
        // An arbiter that has stopped starts nothing; then no line is ever accepted.
        let _is_running = arbiter.spawn(writer.run());
        Self {
            queue,
            store,
            clock,
        }
    }

    /// Reserves room for one line. A caller that shows or changes something reserves room first and
    /// records the line afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if there was no room for five seconds.
    pub async fn reserve(&self, tenant: Tenant) -> Result<AuditPermit, AuditFull> {
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
        let (done, is_done) = oneshot::channel();
        let flushed =
            async { self.queue.send(Message::Flush(done)).await.is_ok() && is_done.await.is_ok() };
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

/// The task that commits lines.
struct Writer {
    chains: Chains,
    lines: mpsc::Receiver<Message>,
}

impl Writer {
    async fn run(mut self) {
        let mut messages = Vec::new();
        loop {
            let taken = self
                .lines
                .recv_many(&mut messages, AUDIT_QUEUE_LINES_MAX)
                .await;
            if taken == 0 {
                return;
            }
            let is_waited_for = |message: &Message| matches!(message, Message::Flush(_));
            if !messages.iter().any(is_waited_for) {
                tokio::time::sleep(Duration::from_millis(AUDIT_GATHER_MS)).await;
                while let Ok(more) = self.lines.try_recv() {
                    messages.push(more);
                    if messages.len() >= AUDIT_QUEUE_LINES_MAX {
                        break;
                    }
                }
            }
            let mut flushes = Vec::new();
            let mut lines: BTreeMap<Vec<u8>, (Tenant, Vec<Line>)> = BTreeMap::new();
            for message in messages.drain(..) {
                match message {
                    Message::Flush(done) => flushes.push(done),
                    Message::Line(tenant, line) => {
                        let own = lines.entry(chain::tenant_key(tenant));
                        own.or_insert_with(|| (tenant, Vec::new())).1.push(*line);
                    }
                }
            }
            for (tenant, lines) in lines.into_values() {
                self.commit(tenant, &lines).await;
            }
            for done in flushes {
                // The receiver may have stopped waiting.
                let _sent = done.send(());
            }
        }
    }

    /// Commits lines, regardless of how long the store takes.
    async fn commit(&mut self, tenant: Tenant, lines: &[Line]) {
        for group in lines.chunks(AUDIT_GROUP_LINES_MAX) {
            loop {
                let written: StoreResult<()> = self.chains.append(tenant, group).await;
                let Err(error) = written else {
                    break;
                };
                tracing::warn!(%error, "the audit log cannot be written");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}
