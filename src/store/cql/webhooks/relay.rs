//! Writes the copies that must follow a change: a message and its entries. Every write is
//! idempotent, because the rows are immutable.
//!
//! 1. A lightweight transaction changes the state of a session. It stores the message and the
//!    learned rows in the same cell ([`State::pending`]).
//! 2. The relay writes the copies: the message by session and by id, its entry among the tenant's
//!    deliveries, its outbox entry and the learned rows.
//! 3. A later transaction replaces the message in the cell, after it has repeated step 2 if
//!    necessary. Learned rows are removed from the cell as soon as the session is settled.
//!
//! If the process dies between the steps, the session still has a rescoring mark or an entry among
//! the live sessions. The next owner finds the session by it and repeats step 2.

use std::sync::Arc;
use std::time::Duration;

use porchlight_observe::error_text;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::message::{Message, MessageEvent};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use crate::cql::Inner;
use crate::cql::layout::slots::{DeliveryList, OutboxKind, SLOT_MS, slot_of, tenant_key};
use crate::cql::sessions::state::State;
use crate::cql::statements::db::encode;
use crate::cql::statements::write_group::WriteGroup;

/// The delays before the retries of a failed write. If a single process serves, the last one
/// repeats; in a cluster, the owner then finds the work by its mark.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(60),
];

/// The maximum size of a message body that is cached until it is sent.
const CACHED_BODY_BYTES_MAX: usize = 8 * 1024;

/// A message without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cql) struct MessageHead {
    pub(in crate::cql) id: MessageId,
    pub(in crate::cql) tenant: Tenant,
    pub(in crate::cql) session_id: SessionId,
    pub(in crate::cql) number: u32,
    pub(in crate::cql) event: MessageEvent,
    pub(in crate::cql) created_at: TimestampMs,
    /// The endpoint for which it was queued.
    pub(in crate::cql) endpoint_id: EndpointId,
}

impl MessageHead {
    pub(in crate::cql) fn new(message: &Message, endpoint_id: EndpointId) -> Self {
        Self {
            id: message.id,
            tenant: message.tenant,
            session_id: message.session_id,
            number: message.number,
            event: message.event,
            created_at: message.created_at,
            endpoint_id,
        }
    }

    pub(in crate::cql) fn with_body(self, body: Arc<str>) -> Message {
        Message {
            id: self.id,
            tenant: self.tenant,
            session_id: self.session_id,
            number: self.number,
            event: self.event,
            created_at: self.created_at,
            body,
        }
    }
}

impl Inner {
    /// Writes the copies that a session's last state change requires, unless this process has
    /// written them already.
    pub(in crate::cql) async fn relay(
        &self,
        session_id: SessionId,
        state: &State,
    ) -> StoreResult<()> {
        self.relay_and_write(session_id, state, WriteGroup::default())
            .await
    }

    /// Writes the copies that a session's last state change requires, like [`Self::relay`],
    /// together with further rows.
    ///
    /// The message and its outbox entry share a request. If the entry is stored and the message is
    /// not, the owner of the outbox finds nothing to send, and keeps the entry. The copies are
    /// written again until all are stored, by this process, or by the next one that finds the
    /// session by its mark or among the live sessions.
    pub(in crate::cql) async fn relay_and_write<'s>(
        &'s self,
        session_id: SessionId,
        state: &State,
        mut rows: WriteGroup<'s>,
    ) -> StoreResult<()> {
        let is_copied = self.caches.copied.get(&session_id) == Some(state.change);
        if state.pending.is_empty() || is_copied {
            return self.db.write_group(rows).await;
        }
        self.add_learned(&mut rows, state);
        let message = state.pending.message.as_ref();
        if let Some((message, endpoint_id)) = message {
            self.add_message(&mut rows, message, *endpoint_id).await?;
            let head = MessageHead::new(message, *endpoint_id);
            self.add_to_queue(&mut rows, &head).await?;
        }
        self.db.write_group(rows).await?;
        if let Some((message, endpoint_id)) = message {
            self.cache_body(message);
            self.on_message_written(MessageHead::new(message, *endpoint_id));
        }
        self.caches.copied.put(session_id, state.change);
        Ok(())
    }

    /// Adds the learned rows of a state to the rows to write.
    fn add_learned<'s>(&'s self, group: &mut WriteGroup<'s>, state: &State) {
        let statements = &self.db.statements;
        for (key, value) in &state.pending.learned {
            let (bytes, key, value) = (value.len(), key.to_vec(), value.clone());
            match state.changed_at {
                Some(at) => {
                    let values = (key, value, at.0 * 1_000);
                    group.add(&statements.learned_put_at, bytes, values);
                }
                None => group.add(&statements.learned_put, bytes, (key, value)),
            }
        }
    }

    /// Stores a message and lists it among its tenant's; it is not queued yet.
    pub(in crate::cql) async fn put_message(
        &self,
        message: &Message,
        endpoint_id: EndpointId,
    ) -> StoreResult<()> {
        let mut group = WriteGroup::default();
        self.add_message(&mut group, message, endpoint_id).await?;
        self.db.write_group(group).await?;
        self.cache_body(message);
        Ok(())
    }

    /// Adds a message's rows to the rows to write.
    pub(in crate::cql) async fn add_message<'s>(
        &'s self,
        group: &mut WriteGroup<'s>,
        message: &Message,
        endpoint_id: EndpointId,
    ) -> StoreResult<()> {
        let head = MessageHead::new(message, endpoint_id);
        let key = self
            .delivery_key(head.tenant, head.id, DeliveryList::All)
            .await?;
        let (session, id) = (
            head.session_id.to_bytes().to_vec(),
            head.id.to_bytes().to_vec(),
        );
        let (tenant, data) = (tenant_key(head.tenant), encode(&head)?);
        let (ttl, statements) = (self.row_ttls.retained, &self.db.statements);
        let body = message.body.as_bytes().to_vec();
        let bytes = data.len();
        let by_session = (session, number_cell(head.number), data.clone(), body, ttl);
        group.add(
            &statements.message_put,
            bytes + message.body.len(),
            by_session,
        );
        group.add(
            &statements.message_id_put,
            bytes,
            (id.clone(), data.clone(), ttl),
        );
        group.add(
            &statements.delivery_put,
            bytes,
            (tenant, key, id, data, ttl),
        );
        Ok(())
    }

    /// Caches the body of a message that was written now, unless it is large.
    pub(in crate::cql) fn cache_body(&self, message: &Message) {
        if message.body.len() <= CACHED_BODY_BYTES_MAX {
            let key = (message.session_id, message.number);
            self.caches.bodies.put(key, Arc::clone(&message.body));
        }
    }

    /// Queues a message in the outbox of its endpoint.
    pub(in crate::cql) async fn queue(&self, head: &MessageHead) -> StoreResult<()> {
        let mut group = WriteGroup::default();
        self.add_to_queue(&mut group, head).await?;
        self.db.write_group(group).await
    }

    /// Adds the outbox entry of a message to the rows to write. The entry carries the present time,
    /// even if the message was created long ago, because the owner does not read old entries again.
    async fn add_to_queue<'s>(
        &'s self,
        group: &mut WriteGroup<'s>,
        head: &MessageHead,
    ) -> StoreResult<()> {
        let target = (head.session_id, head.number);
        let at = head.id.made_at().max(self.clock.now());
        let (endpoint_id, kind) = (head.endpoint_id, OutboxKind::Ready);
        self.add_entry(group, endpoint_id, kind, at, head.id, &target)
            .await
    }

    /// Writes an entry into an outbox's slot of `at`, or into the present slot if that one has
    /// ended.
    pub(in crate::cql) async fn put_outbox<T: Serialize + Sync>(
        &self,
        endpoint_id: EndpointId,
        kind: OutboxKind,
        at: TimestampMs,
        id: MessageId,
        data: &T,
    ) -> StoreResult<()> {
        let mut group = WriteGroup::default();
        self.add_entry(&mut group, endpoint_id, kind, at, id, data)
            .await?;
        self.db.write_group(group).await
    }

    /// Adds a row in an outbox to the rows to write, like [`Self::put_outbox`].
    async fn add_entry<'s, T: Serialize + Sync>(
        &'s self,
        group: &mut WriteGroup<'s>,
        endpoint_id: EndpointId,
        kind: OutboxKind,
        at: TimestampMs,
        id: MessageId,
        data: &T,
    ) -> StoreResult<()> {
        let slot = slot_of(at.max(self.clock.now()), SLOT_MS);
        let partition = self.outbox_partition(endpoint_id, kind, slot).await?;
        let (endpoint, id) = (endpoint_id.to_bytes().to_vec(), id.to_bytes().to_vec());
        let (data, ttl) = (encode(data)?, self.row_ttls.outbox);
        let (bytes, kind) = (data.len(), kind as i8);
        let values = (endpoint, partition, kind, at.0, id, data, ttl);
        group.add(&self.db.statements.outbox_put, bytes, values);
        Ok(())
    }

    /// Performs a decided action of a session now, and retries it in the background if it fails. If
    /// the retries end first, the owner of the session's shard finds the action by its mark.
    pub(in crate::cql) async fn perform_with_retries<F>(
        self: &Arc<Self>,
        action: &'static str,
        session_id: SessionId,
        work: impl Fn(Arc<Self>) -> F + Send + 'static,
    ) where
        F: Future<Output = StoreResult<()>> + Send + 'static,
    {
        let decided_in = self.ownership.generation(session_id.shard());
        let Err(error) = work(Arc::clone(self)).await else {
            return;
        };
        let permit = Arc::clone(&self.retry_permits).try_acquire_owned().ok();
        // A process that serves alone scans for marks only when it starts, so it retries all
        // actions.
        if permit.is_none() && self.ownership.is_shared() {
            tracing::warn!(
                error = error_text(&error),
                action,
                "a write failed and is left to the next scan for marks: too many are being retried"
            );
            return;
        }
        tracing::warn!(
            error = error_text(&error),
            action,
            "a write failed and will be retried"
        );
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let _permit = permit;
            let mut last = error;
            for delay in retry_delays(inner.ownership.is_shared()) {
                tokio::time::sleep(delay).await;
                match inner.may_retry(session_id, decided_in).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        last = error;
                        continue;
                    }
                }
                match work(Arc::clone(&inner)).await {
                    Ok(()) => return,
                    Err(error) => last = error,
                }
            }
            tracing::warn!(
                error = error_text(&last),
                action,
                "a write failed repeatedly and is left to the next scan for marks"
            );
        });
    }

    /// Returns whether this process may retry an action of a session that it decided in this
    /// generation of the session's shard. The store must be open, no other process may have taken
    /// over, and the session must exist, because a removal does not find the rows that are written
    /// after it.
    async fn may_retry(&self, session_id: SessionId, decided_in: Option<u64>) -> StoreResult<bool> {
        if self.check_open().is_err() || self.ownership.generation(session_id.shard()) != decided_in
        {
            return Ok(false);
        }
        Ok(self.record(session_id).await?.is_some())
    }
}

/// Returns the delays before the retries of a failed write. A process that serves alone scans for
/// marks only when it starts, so its retries do not end.
fn retry_delays(is_shared: bool) -> impl Iterator<Item = Duration> {
    let last = RETRY_DELAYS.last().copied().filter(|_| !is_shared);
    let repeated = last.into_iter().flat_map(std::iter::repeat);
    RETRY_DELAYS.into_iter().chain(repeated)
}

/// Returns a message's number as a cell.
pub(in crate::cql) fn number_cell(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_end_where_another_scan_finds_the_work() {
        assert_eq!(retry_delays(true).collect::<Vec<_>>(), RETRY_DELAYS);
        let alone: Vec<_> = retry_delays(false).take(100).collect();
        assert_eq!(alone.len(), 100);
        assert_eq!(alone.last(), RETRY_DELAYS.last());
    }
}
