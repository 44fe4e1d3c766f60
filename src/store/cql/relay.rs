//! Writes the copies that must follow a change: a message and its entries. Every write is idempotent, because
//! the rows are immutable.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::message::{Message, MessageEvent};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::Inner;
use super::db::encode;
use super::slots::OutboxKind;
use super::slots::{Owner, SLOT_MS, slot_of, tenant_key};
use super::state::State;

/// Pauses between attempts at writes that did not succeed immediately.
const AGAIN_AFTER: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(60),
];

/// Maximum size of a message's body that is remembered until it is sent.
const BODY_REMEMBERED_BYTES_MAX: usize = 8 * 1024;

/// A message without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) id: MessageId,
    pub(super) tenant: Tenant,
    pub(super) session_id: SessionId,
    pub(super) number: u32,
    pub(super) event: MessageEvent,
    pub(super) created_at: TimestampMs,
    /// The endpoint for which it was queued.
    pub(super) endpoint_id: EndpointId,
}

impl Head {
    pub(super) fn new(message: &Message, endpoint_id: EndpointId) -> Self {
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

    pub(super) fn with_body(self, body: Arc<str>) -> Message {
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
    /// Writes the copies that a session's last state change requires, unless this process has written them already.
    pub(super) async fn relay(&self, session_id: SessionId, state: &State) -> StoreResult<()> {
        if state.pending.is_empty() || self.memory.copied.get(&session_id) == Some(state.change) {
            return Ok(());
        }
        self.write_copies(state).await?;
        self.memory.copied.put(session_id, state.change);
        Ok(())
    }

    async fn write_copies(&self, state: &State) -> StoreResult<()> {
        let pending = &state.pending;
        let learned = pending.learned.iter().map(|(key, value)| async move {
            let (statement, values) = (
                &self.db.statements.learned_put,
                (key.as_slice(), value.as_slice()),
            );
            match state.changed_at {
                Some(at) => self.db.write_at(statement, values, at.0 * 1_000).await,
                None => self.db.write(statement, values).await,
            }
        });
        let learning = try_join_all(learned);
        let placing = async {
            match &pending.message {
                Some((message, endpoint_id)) => {
                    self.put_message(message, *endpoint_id).await?;
                    self.queue(&Head::new(message, *endpoint_id)).await
                }
                None => Ok(()),
            }
        };
        try_join(learning, placing).await.map(drop)
    }

    /// Stores a message and lists it among its tenant's; it is not queued yet.
    pub(super) async fn put_message(
        &self,
        message: &Message,
        endpoint_id: EndpointId,
    ) -> StoreResult<()> {
        let head = Head::new(message, endpoint_id);
        let key = self.delivery_key(head.tenant, head.id, false).await?;
        let (session, id) = (head.session_id.to_bytes(), head.id.to_bytes());
        let (tenant, data) = (tenant_key(head.tenant), encode(&head)?);
        let (data, life, statements) = (data.as_slice(), self.lives.retained, &self.db.statements);
        let number = number_cell(head.number);
        let body = message.body.as_bytes();
        let by_session = (session.as_slice(), number, data, body, life);
        let by_id = (id.as_slice(), data, life);
        let listed = (tenant.as_slice(), key, id.as_slice(), data, life);
        let writes = try_join(
            self.db.write(&statements.message_put, by_session),
            self.db.write(&statements.message_id_put, by_id),
        );
        try_join(writes, self.db.write(&statements.delivery_put, listed)).await?;
        if body.len() <= BODY_REMEMBERED_BYTES_MAX {
            let place = (head.session_id, head.number);
            self.memory.bodies.put(place, Arc::clone(&message.body));
        }
        Ok(())
    }

    /// Queues a message where its endpoint's owner looks. The hint carries the present time, however
    /// long ago the message was created, because the owner does not read old hints again.
    pub(super) async fn queue(&self, head: &Head) -> StoreResult<()> {
        let place = (head.session_id, head.number);
        let at = head.id.made_at().max(self.clock.now());
        self.put_outbox(head.endpoint_id, OutboxKind::Ready, at, head.id, &place)
            .await
    }

    /// Writes a row into an outbox's slot of `at`, or into the present slot if that one has ended.
    pub(super) async fn put_outbox<T: Serialize + Sync>(
        &self,
        endpoint_id: EndpointId,
        kind: OutboxKind,
        at: TimestampMs,
        id: MessageId,
        data: &T,
    ) -> StoreResult<()> {
        let slot = slot_of(at.max(self.clock.now()), SLOT_MS);
        self.list_slots(&[(Owner::Outbox(endpoint_id, kind), slot)])
            .await?;
        let endpoint = endpoint_id.to_bytes();
        let (id, data) = (id.to_bytes(), encode(data)?);
        let (endpoint, id, data) = (endpoint.as_slice(), id.as_slice(), data.as_slice());
        let values = (
            endpoint,
            slot,
            kind as i8,
            at.0,
            id,
            data,
            self.lives.outbox,
        );
        self.db.write(&self.db.statements.outbox_put, values).await
    }

    /// Performs a decided action now or, while the database is unavailable, as soon as possible. If
    /// the process ends first, the next one finds the action by its mark.
    pub(super) async fn see_to<F>(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Fn(Arc<Self>) -> F + Send + 'static,
    ) where
        F: Future<Output = StoreResult<()>> + Send + 'static,
    {
        let Err(error) = work(Arc::clone(self)).await else {
            return;
        };
        tracing::warn!(%error, what, "not written yet; it is tried again");
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let mut pauses = AGAIN_AFTER.into_iter();
            let mut pause = Duration::ZERO;
            while inner.check_open().is_ok() {
                pause = pauses.next().unwrap_or(pause);
                tokio::time::sleep(pause).await;
                if work(Arc::clone(&inner)).await.is_ok() {
                    return;
                }
            }
        });
    }
}

/// Returns a message's number as a cell.
pub(super) fn number_cell(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
