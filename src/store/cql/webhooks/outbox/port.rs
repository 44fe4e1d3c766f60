//! The outbox port of the CQL store.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{join, try_join, try_join_all};
use porchlight_core::webhook::{Change, Index, Lane, Listing, ManualRetry, Queued, State, Update};
use porchlight_ports::{
    DeliveryDetail, DeliveryFilter, DeliveryRow, Depth, Endpoint, Outbox, Page, RetryOutcome,
    StoreResult, Work,
};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, Shard, ShardSet};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::cursor::CURSOR;
use super::{Cursor, OutboxId};
use crate::cql::layout::slots::OutboxKind;
use crate::cql::statements::db::{decode, encode};
use crate::cql::webhooks::relay::{MessageHead, number_cell};
use crate::cql::{CqlStore, Inner};
use crate::damage::{readable, replaceable};

/// The maximum number of a lane's messages that are read together.
const LANE_READ_MAX: usize = 256;
/// The maximum number of a session's messages that are read.
const SESSION_MESSAGES_MAX: usize = 65_536;
/// The maximum number of a session's messages that are cached between the read of a lane and the
/// commit of its change.
const CACHED_HEADS_MAX: usize = 64;

impl Inner {
    /// Returns all messages of a session in their present states, in order. `shard` is the shard of
    /// its tenant.
    pub(crate) async fn lane_rows(
        &self,
        shard: Shard,
        session_id: SessionId,
    ) -> StoreResult<Vec<DeliveryRow>> {
        let (heads, cursor) =
            try_join(self.heads(session_id), self.cursor(shard, session_id)).await?;
        Ok(heads.iter().map(|head| cursor.row(head)).collect())
    }

    /// Returns all messages of a session without their bodies for a delivery, in order and without
    /// damaged ones.
    async fn heads_to_send(&self, session_id: SessionId) -> StoreResult<Vec<MessageHead>> {
        match self.own_heads(session_id) {
            Some(heads) => Ok(heads),
            None => self.heads(session_id).await,
        }
    }

    /// Reads all messages of a session without their bodies, in order and without damaged ones.
    pub(in crate::cql) async fn heads(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Vec<MessageHead>> {
        let key = session_id.to_bytes();
        let statement = &self.db.statements.message_heads;
        let rows = self
            .db
            .rows::<(Vec<u8>,)>(statement, (key.as_slice(),), SESSION_MESSAGES_MAX);
        let rows = rows.await?;
        let heads = rows.iter().map(|(head,)| {
            let head = decode("messages", head).map(Some);
            replaceable(head, session_id, "a message")
        });
        heads.filter_map(StoreResult::transpose).collect()
    }

    /// Returns the waiting messages of a lane, in order; none if their state cannot be read. If a
    /// later release wrote one of the messages, the lane waits: no message overtakes it.
    async fn waiting(
        &self,
        shard: Shard,
        endpoint_id: EndpointId,
        session_id: SessionId,
    ) -> StoreResult<Vec<Queued>> {
        let heads = self.heads_to_send(session_id);
        let (heads, cursor) = join(heads, self.cursor(shard, session_id)).await;
        let Some(heads) = readable(heads.map(Some), session_id, "a message")? else {
            return Ok(Vec::new());
        };
        let Some(cursor) = readable(cursor.map(Some), session_id, CURSOR)? else {
            return Ok(Vec::new());
        };
        let waiting = waiting_of(endpoint_id, &heads, &cursor);
        if heads.len() <= CACHED_HEADS_MAX {
            self.caches.lanes_read.put(session_id, Arc::new(heads));
        }
        Ok(waiting)
    }

    async fn lane(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        manual: Option<ManualRetry>,
    ) -> StoreResult<Lane> {
        let shard = tenant.organization_id.shard();
        let waiting = self.waiting(shard, endpoint_id, session_id).await?;
        let mut lane = Lane {
            waiting,
            manual: None,
        };
        if let Some(request) = manual {
            let cursor = self.cursor(shard, session_id).await?;
            let row = self.delivery_row(tenant, request.id).await?;
            // Messages for a deleted endpoint are cancelled.
            let row = row.filter(|row| !row.queued.is_waiting() || row.endpoint_id == endpoint_id);
            if !cursor.is_manual_done(request.id, request.requested_at) {
                lane.manual = row.map(|row| row.queued);
            }
        }
        Ok(lane)
    }

    async fn commit(
        self: Arc<Self>,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        change: Change,
    ) -> StoreResult<Vec<Queued>> {
        let shard = tenant.organization_id.shard();
        let cursor = {
            let _guard = self.caches.lanes.lock(&session_id).await;
            let (read_in, cursor) = self.load_cursor(shard, session_id).await?;
            let mut cursor = cursor.as_ref().clone();
            if let Some(request) = &change.manual_done {
                cursor.finish_manual(request.id, request.requested_at);
            }
            let updates = change.updates.iter();
            let taken: Vec<&Update> = updates
                .filter(|update| {
                    cursor.change(&update.before, update.after, update.report.as_ref())
                })
                .collect();
            // Outbox entries and attempt logs are written before the change itself.
            let putting = taken
                .iter()
                .map(|update| self.put_changed_entry(endpoint_id, update));
            let applying = taken.iter().map(|update| self.apply_update(tenant, update));
            try_join(try_join_all(putting), try_join_all(applying)).await?;
            self.put_cursor(shard, session_id, read_in, cursor.clone())
                .await?;
            cursor
        };
        match self.caches.lanes_read.remove(&session_id) {
            Some(heads) => Ok(waiting_of(endpoint_id, &heads, &cursor)),
            None => self.waiting(shard, endpoint_id, session_id).await,
        }
    }

    /// Rewrites the outbox entries of all waiting messages of a session.
    pub(in crate::cql) async fn requeue(&self, session_id: SessionId) -> StoreResult<()> {
        let Some(record) = self.record(session_id).await? else {
            return Ok(());
        };
        let shard = record.start.tenant.organization_id.shard();
        let rows = self.lane_rows(shard, session_id).await?;
        let waiting = rows.iter().filter(|row| row.queued.is_waiting());
        let putting = waiting.map(|row| self.put_entry(row.endpoint_id, &row.queued));
        try_join_all(putting).await.map(drop)
    }

    /// Writes the outbox entry of a message if the update moves the message to another index.
    async fn put_changed_entry(&self, endpoint_id: EndpointId, update: &Update) -> StoreResult<()> {
        if update.before.index() == update.after.index() {
            return Ok(());
        }
        self.put_entry(endpoint_id, &update.after).await
    }

    /// Writes the outbox entry of a message.
    async fn put_entry(&self, endpoint_id: EndpointId, after: &Queued) -> StoreResult<()> {
        let (kind, at) = match after.index() {
            Index::Ready => (OutboxKind::Ready, after.id.made_at().max(self.clock.now())),
            Index::Due(due_at) => (OutboxKind::Due, due_at),
            Index::Held(until) => (OutboxKind::Held, until),
            Index::None => return Ok(()),
        };
        let target = (after.session_id, after.number);
        self.put_outbox(endpoint_id, kind, at, after.id, &target)
            .await
    }

    /// Logs an attempt, and lists a message that has failed.
    async fn apply_update(&self, tenant: Tenant, update: &Update) -> StoreResult<()> {
        let after = &update.after;
        if let Some(report) = &update.report {
            let (id, data) = (after.id.to_bytes(), encode(report)?);
            let attempt = number_cell(after.attempts);
            let values = (
                id.as_slice(),
                attempt,
                data.as_slice(),
                self.row_ttls.retained,
            );
            self.db
                .write(&self.db.statements.attempt_put, values)
                .await?;
        }
        match (update.before.state, after.state) {
            (State::Failed, State::Failed) => Ok(()),
            (_, State::Failed) => self.list_failed(tenant, after.id).await,
            (State::Failed, _) => self.unlist_failed(tenant, after.id).await,
            _ => Ok(()),
        }
    }
}

/// Returns the waiting messages of an endpoint, in order.
fn waiting_of(endpoint_id: EndpointId, heads: &[MessageHead], cursor: &Cursor) -> Vec<Queued> {
    let rows = heads.iter().map(|head| cursor.row(head));
    let ours = rows.filter(|row| row.endpoint_id == endpoint_id);
    let waiting = ours.map(|row| row.queued).filter(Queued::is_waiting);
    waiting.take(LANE_READ_MAX).collect()
}

#[async_trait]
impl Outbox for CqlStore {
    async fn endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
        self.run_with_deadline(|inner| async move { inner.endpoint(tenant).await })
            .await
    }

    async fn create_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.create_endpoint(&endpoint).await })
            .await
    }

    async fn replace_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.replace_endpoint(&endpoint).await })
            .await
    }

    async fn delete_endpoint(&self, tenant: Tenant) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.delete_endpoint(tenant).await })
            .await
    }

    async fn endpoints(&self) -> StoreResult<Vec<Endpoint>> {
        self.run_with_deadline(|inner| async move { inner.endpoints().await })
            .await
    }

    async fn listing(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        manual: usize,
    ) -> StoreResult<Listing> {
        let outbox = OutboxId {
            shard: tenant.organization_id.shard(),
            endpoint_id,
        };
        self.run_without_deadline(|inner| async move {
            inner.listing(outbox, ready, due, held, manual).await
        })
        .await
    }

    async fn lane(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        manual: Option<ManualRetry>,
    ) -> StoreResult<Lane> {
        self.run_with_deadline(|inner| async move {
            inner.lane(tenant, endpoint_id, session_id, manual).await
        })
        .await
    }

    async fn body(&self, session_id: SessionId, number: u32) -> StoreResult<Option<Arc<str>>> {
        self.run_with_deadline(|inner| async move {
            // Most messages are sent once, and by the process that has written them.
            if let Some(body) = inner.caches.bodies.remove(&(session_id, number)) {
                return Ok(Some(body));
            }
            let found = inner.message_at(session_id, number).await?;
            Ok(found.map(|(_, body)| body))
        })
        .await
    }

    async fn commit(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        change: Change,
    ) -> StoreResult<Vec<Queued>> {
        self.run_to_completion(|inner| inner.commit(tenant, endpoint_id, session_id, change))
            .await
    }

    async fn deliveries(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: u32,
        after: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>> {
        self.run_with_deadline(|inner| async move {
            inner
                .deliveries(tenant, filter, limit as usize, after)
                .await
        })
        .await
    }

    async fn delivery(&self, tenant: Tenant, id: MessageId) -> StoreResult<Option<DeliveryDetail>> {
        self.run_with_deadline(|inner| async move { inner.delivery(tenant, id).await })
            .await
    }

    async fn request_retry(
        &self,
        tenant: Tenant,
        id: MessageId,
        at: TimestampMs,
    ) -> StoreResult<RetryOutcome> {
        self.run_to_completion(|inner| async move { inner.request_retry(tenant, id, at).await })
            .await
    }

    async fn retryable(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: usize,
        after: Option<MessageId>,
    ) -> StoreResult<Vec<DeliveryRow>> {
        self.run_while_awaited(|inner| async move {
            inner.retryable(tenant, filter, limit, after).await
        })
        .await
    }

    async fn request_retries(
        &self,
        tenant: Tenant,
        chosen: Vec<DeliveryRow>,
        at: TimestampMs,
    ) -> StoreResult<usize> {
        self.run_without_deadline(|inner| async move {
            inner.request_retries(tenant, &chosen, at).await
        })
        .await
    }

    async fn depth(&self, now: TimestampMs) -> StoreResult<Depth> {
        self.run_without_deadline(|inner| inner.depth(now)).await
    }

    async fn work(&self, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>> {
        self.run_without_deadline(|inner| inner.work(shards, until))
            .await
    }
}
