//! The task that commits lines.
//!
//! [`LineQueue`] decides whose lines are next. A chain with a damaged row takes no lines,
//! however often the writer tries. The writer then sets its tenant aside: it keeps the tenant's
//! lines in memory, refuses further ones, and repeats the commit at intervals, because an operator
//! may repair the row.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use porchlight_core::audit::{Flush, Line, LineQueue};
use porchlight_observe::restarts::Restarts;
use porchlight_observe::{Task, error_text};
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::limits::AUDIT_QUEUE_LINES_MAX;
use porchlight_schema::session::Tenant;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::Message;
use super::chain::Chains;
use crate::panic_as_error::panic_as_error;

/// A line and its room in the tenant's share, which is free again when the line is committed.
type HeldLine = (Line, OwnedSemaphorePermit);
/// A commit that has ended: the tenant, its lines, and whether they were appended.
type Ended = (Tenant, Vec<HeldLine>, StoreResult<bool>);

/// The tenants whose chains have a damaged row.
#[derive(Debug, Default)]
pub(super) struct DamagedChains(RwLock<HashSet<Tenant>>);

impl DamagedChains {
    pub(super) fn has(&self, tenant: Tenant) -> bool {
        let tenants = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tenants.contains(&tenant)
    }

    fn insert(&self, tenant: Tenant) {
        let mut tenants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tenants.insert(tenant);
    }

    fn remove(&self, tenant: Tenant) {
        let mut tenants = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tenants.remove(&tenant);
    }
}

/// The task that commits lines.
pub(super) struct Writer {
    chains: Arc<Chains>,
    messages: mpsc::Receiver<Message>,
    damaged_chains: Arc<DamagedChains>,
    queue: LineQueue<HeldLine>,
    commits: FuturesUnordered<BoxFuture<'static, Ended>>,
    /// The callers who wait until lines are committed.
    flushes: Vec<(Flush, oneshot::Sender<bool>)>,
    /// The flush after the last line, once no sender is left.
    last: Option<Flush>,
    began_at: Instant,
}

impl Writer {
    pub(super) fn new(
        chains: Chains,
        messages: mpsc::Receiver<Message>,
        damaged_chains: Arc<DamagedChains>,
    ) -> Self {
        Self {
            chains: Arc::new(chains),
            messages,
            damaged_chains,
            queue: LineQueue::default(),
            commits: FuturesUnordered::new(),
            flushes: Vec::new(),
            last: None,
            began_at: Instant::now(),
        }
    }

    /// Commits lines until no sender is left, even if a step panics.
    pub(super) async fn run(mut self) {
        let mut restarts = Restarts::new(Task::AuditWriter);
        while restarts.run(self.commit_lines()).await.is_none() {}
    }

    async fn commit_lines(&mut self) {
        let mut messages = Vec::new();
        loop {
            while let Some((tenant, lines)) = self.queue.begin(self.now_ms()) {
                let commit = commit(Arc::clone(&self.chains), tenant, lines);
                self.commits.push(Box::pin(commit));
            }
            self.answer_flushes();
            if self
                .last
                .is_some_and(|last| self.queue.is_flushed(last).is_some())
            {
                return;
            }
            let has_room = self.queue.len() < AUDIT_QUEUE_LINES_MAX;
            let wake_at_ms = self.queue.begins_at_ms();
            let wake_at = self.began_at + Duration::from_millis(wake_at_ms.unwrap_or(0));
            tokio::select! {
                received = self.messages.recv_many(&mut messages, AUDIT_QUEUE_LINES_MAX),
                    if has_room && self.last.is_none() =>
                {
                    if received == 0 {
                        self.last = Some(self.queue.flush(None));
                    }
                    messages.drain(..).for_each(|message| self.take_up(message));
                }
                Some(ended) = self.commits.next(), if !self.commits.is_empty() => self.end(ended),
                () = tokio::time::sleep_until(wake_at), if wake_at_ms.is_some() => {}
                else => return,
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn take_up(&mut self, message: Message) {
        match message {
            Message::Line(tenant, line) => self.queue.push(tenant, *line, self.now_ms()),
            Message::Flush(tenant, done) => {
                let flush = self.queue.flush(tenant);
                self.flushes.push((flush, done));
            }
        }
    }

    fn answer_flushes(&mut self) {
        for (flush, done) in std::mem::take(&mut self.flushes) {
            match self.queue.is_flushed(flush) {
                // The receiver may have stopped waiting.
                Some(is_committed) => drop(done.send(is_committed)),
                None if done.is_closed() => {}
                None => self.flushes.push((flush, done)),
            }
        }
    }

    fn end(&mut self, (tenant, lines, appended): Ended) {
        let now_ms = self.now_ms();
        match appended {
            Ok(true) => {
                self.queue.complete(tenant);
                self.damaged_chains.remove(tenant);
            }
            Ok(false) => self.queue.fail(tenant, lines, now_ms),
            Err(error @ StoreError::Damaged(_)) => {
                if !self.damaged_chains.has(tenant) {
                    tracing::error!(
                        organization = %tenant.organization_id,
                        error = error_text(&error),
                        "the audit log of an organization has a damaged row: its audited requests are refused"
                    );
                }
                self.damaged_chains.insert(tenant);
                self.queue.set_aside(tenant, lines, now_ms);
            }
            Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "the audit log cannot be written"
                );
                self.queue.fail(tenant, lines, now_ms);
            }
        }
    }
}

/// Appends a group of lines once. A panic keeps the lines for a retry.
async fn commit(chains: Arc<Chains>, tenant: Tenant, lines: Vec<HeldLine>) -> Ended {
    let (lines, rooms): (Vec<Line>, Vec<_>) = lines.into_iter().unzip();
    let appended = panic_as_error(chains.try_append(tenant, &lines)).await;
    (tenant, lines.into_iter().zip(rooms).collect(), appended)
}
