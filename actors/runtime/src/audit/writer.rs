//! The task that commits lines.
//!
//! A chain with an unreadable row takes no lines, however often the writer tries. The writer then
//! sets its tenant aside: it keeps the tenant's lines in memory, refuses further ones, and repeats
//! the commit at intervals, because an operator may repair the row. The number of kept lines is
//! bounded by the queue, from which they come.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use porchlight_core::audit::Line;
use porchlight_observe::chain;
use porchlight_ports::StoreError;
use porchlight_schema::limits::{
    AUDIT_GATHER_MS, AUDIT_GROUP_LINES_MAX, AUDIT_QUEUE_LINES_MAX, AUDIT_SET_ASIDE_RETRY_MS,
};
use porchlight_schema::session::Tenant;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Message;
use super::chain::{Chains, tenant_key};

/// The pause before the writer retries a write that the store did not accept.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// The interval at which the writer retries chains with an unreadable row.
const RETRY_ASIDE_EVERY: Duration = Duration::from_millis(AUDIT_SET_ASIDE_RETRY_MS);

/// Lines by tenant, in the order of [`tenant_key`].
type Lines = BTreeMap<Vec<u8>, (Tenant, Vec<Line>)>;

/// The tenants whose chains have an unreadable row.
#[derive(Debug, Default)]
pub(super) struct UnreadableChains(RwLock<HashSet<Tenant>>);

impl UnreadableChains {
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
    chains: Chains,
    lines: mpsc::Receiver<Message>,
    unreadable_chains: Arc<UnreadableChains>,
    /// The lines of the tenants with unreadable chains.
    kept: Lines,
    /// The time at which `kept` is tried again.
    retry_at: Instant,
}

impl Writer {
    pub(super) fn new(
        chains: Chains,
        lines: mpsc::Receiver<Message>,
        unreadable_chains: Arc<UnreadableChains>,
    ) -> Self {
        Self {
            chains,
            lines,
            unreadable_chains,
            kept: Lines::new(),
            retry_at: Instant::now(),
        }
    }

    /// Commits lines until no sender is left.
    pub(super) async fn run(mut self) {
        let mut messages = Vec::new();
        while self.receive(&mut messages).await {
            if !self.kept.is_empty() && self.retry_at <= Instant::now() {
                let kept = std::mem::take(&mut self.kept);
                self.commit_all(kept).await;
                self.retry_at = Instant::now() + RETRY_ASIDE_EVERY;
            }
            let (lines, flushes) = sorted(messages.drain(..));
            self.commit_all(lines).await;
            for (tenant, done) in flushes {
                let is_committed = match tenant {
                    Some(tenant) => !self.kept.contains_key(&tenant_key(tenant)),
                    None => self.kept.is_empty(),
                };
                // The receiver may have stopped waiting.
                let _sent = done.send(is_committed);
            }
        }
    }

    /// Gathers messages; none if kept lines must be tried again. Returns `false` if no sender is
    /// left.
    async fn receive(&mut self, messages: &mut Vec<Message>) -> bool {
        let received = self.lines.recv_many(messages, AUDIT_QUEUE_LINES_MAX);
        let taken = if self.kept.is_empty() {
            received.await
        } else {
            match tokio::time::timeout_at(self.retry_at, received).await {
                Ok(taken) => taken,
                Err(_) => return true,
            }
        };
        if taken == 0 {
            return false;
        }
        let is_waited_for = |message: &Message| matches!(message, Message::Flush(..));
        if !messages.iter().any(is_waited_for) {
            tokio::time::sleep(Duration::from_millis(AUDIT_GATHER_MS)).await;
            while messages.len() < AUDIT_QUEUE_LINES_MAX
                && let Ok(more) = self.lines.try_recv()
            {
                messages.push(more);
            }
        }
        true
    }

    async fn commit_all(&mut self, lines: Lines) {
        for (key, (tenant, lines)) in lines {
            // Lines of a tenant with an unreadable chain stay in their order.
            let left = match self.kept.contains_key(&key) {
                true => lines,
                false => self.commit(tenant, lines).await,
            };
            if left.is_empty() {
                self.unreadable_chains.remove(tenant);
                continue;
            }
            self.unreadable_chains.insert(tenant);
            let kept = self.kept.entry(key).or_insert((tenant, Vec::new()));
            kept.1.extend(left);
        }
    }

    /// Commits lines, regardless of how long the store takes. Returns the lines that an unreadable
    /// row of the chain keeps from being committed.
    async fn commit(&mut self, tenant: Tenant, mut lines: Vec<Line>) -> Vec<Line> {
        while !lines.is_empty() {
            let (group, _) = lines.split_at(lines.len().min(AUDIT_GROUP_LINES_MAX));
            match self.chains.append(tenant, group).await {
                Ok(()) => {
                    let committed = group.len();
                    lines.drain(..committed);
                }
                Err(error @ StoreError::Corrupt(_)) => {
                    if !self.unreadable_chains.has(tenant) {
                        tracing::error!(
                            organization = %tenant.organization_id,
                            error = chain(&error),
                            "the audit log of an organization has an unreadable row: its requests are refused"
                        );
                    }
                    return lines;
                }
                Err(error) => {
                    tracing::warn!(error = chain(&error), "the audit log cannot be written");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
        lines
    }
}

/// A request for an answer when lines are committed: those of one tenant, or all.
type Flush = (Option<Tenant>, oneshot::Sender<bool>);

/// Groups messages by tenant.
fn sorted(messages: impl Iterator<Item = Message>) -> (Lines, Vec<Flush>) {
    let (mut lines, mut flushes) = (Lines::new(), Vec::new());
    for message in messages {
        match message {
            Message::Flush(tenant, done) => flushes.push((tenant, done)),
            Message::Line(tenant, line) => {
                let own = lines.entry(tenant_key(tenant));
                own.or_insert((tenant, Vec::new())).1.push(*line);
            }
        }
    }
    (lines, flushes)
}
