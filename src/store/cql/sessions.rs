//! Sessions: their start, end and PoD.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join;
use porchlight_ports::{
    EndOutcome, Idempotency, IsKnown, MessageBody, NewSession, Page, PodRow, SessionFilter,
    SessionRow, Sessions, StartOutcome, StoreError, StoreResult,
};
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::limits::IDEMPOTENCY_MS;
use porchlight_schema::message::{Message, MessageEvent};
use porchlight_schema::session::{SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::db::{Lwt, decode, encode};
use super::live_sessions::{Entry, WorkTable, buckets_to_clear};
use super::relay::MessageHead;
use super::slots::tenant_key;
use super::state::{Change, Decision, LWT_ATTEMPTS_MAX, SessionRecord, State, back_off, message};
use super::write_group::WriteGroup;
use super::{CqlStore, Inner};

/// The tag of the mark of a session that the app stopped after the service had ended it.
const LATE_STOP: &[u8] = b"late stop";

/// The stored result of an idempotency key, with everything needed to finish the start that it
/// began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct IdempotencyRecord {
    pub(super) body_hash: [u8; 32],
    pub(super) record: SessionRecord,
    pub(super) event: MessageEvent,
    pub(super) message_at: TimestampMs,
    pub(super) body: Arc<str>,
}

impl IdempotencyRecord {
    fn message(&self) -> MessageBody {
        MessageBody {
            event: self.event,
            created_at: self.message_at,
            body: Arc::clone(&self.body),
        }
    }
}

/// Returns the key of an idempotency key's row: the first half of its hash, as in the embedded
/// store.
fn key_hash(idempotency: &Idempotency) -> Vec<u8> {
    let hash = Sha256::digest(idempotency.key.as_bytes());
    hash.get(..16).unwrap_or_default().to_vec()
}

impl Inner {
    async fn start(&self, new: NewSession) -> StoreResult<StartOutcome> {
        let NewSession {
            start,
            idempotency,
            message,
        } = new;
        let made = self.record(start.session_id);
        let (made, first) = try_join(made, self.message_endpoint(start.tenant)).await?;
        if let Some(made) = made {
            return Ok(StartOutcome::Repeated(Box::new(made.start)));
        }
        let record = SessionRecord { start, first };
        let Some(idempotency) = idempotency else {
            self.create_session(&record, message).await?;
            return Ok(StartOutcome::Created);
        };
        let ours = IdempotencyRecord {
            body_hash: idempotency.body_hash,
            record,
            event: message.event,
            message_at: message.created_at,
            body: message.body,
        };
        let hash = key_hash(&idempotency);
        let stored = self.put_idempotency(&hash, ours.clone()).await?;
        if stored.body_hash != ours.body_hash {
            return Ok(StartOutcome::KeyReused);
        }
        self.finish_start(&stored).await?;
        Ok(if stored == ours {
            StartOutcome::Created
        } else {
            StartOutcome::Repeated(Box::new(stored.record.start))
        })
    }

    /// Creates a session. Its own row is written last: without it, readers find none of the other rows.
    async fn create_session(&self, record: &SessionRecord, body: MessageBody) -> StoreResult<()> {
        let session_id = record.start.session_id;
        let (shard, bucket) = self.open_bucket(WorkTable::Live, session_id).await?;
        let key = session_id.to_bytes();
        let statements = &self.db.statements;
        let message = record
            .first
            .map(|endpoint_id| (message(&record.start, 0, body), endpoint_id));
        let mut group = WriteGroup::default();
        let live = (shard, bucket, key.to_vec(), self.row_ttls.live);
        group.add(&statements.live_put, 0, live);
        self.add_to_lists(&mut group, &record.start).await?;
        if let Some((message, endpoint_id)) = &message {
            self.add_message(&mut group, message, *endpoint_id).await?;
        }
        self.db.write_group(group).await?;
        let data = encode(record)?;
        let row = (key.as_slice(), data.as_slice(), self.row_ttls.retained);
        self.db.write(&statements.session_put, row).await?;
        match &message {
            Some((message, endpoint_id)) => {
                self.cache_body(message);
                self.queue(&MessageHead::new(message, *endpoint_id)).await
            }
            None => Ok(()),
        }
    }

    /// Creates the session of an idempotency key, unless it exists. The process that stored the key may have stopped before
    /// it created the session.
    async fn finish_start(&self, stored: &IdempotencyRecord) -> StoreResult<()> {
        let session_id = stored.record.start.session_id;
        if self.record(session_id).await?.is_none() {
            self.create_session(&stored.record, stored.message())
                .await?;
        }
        Ok(())
    }

    async fn find_earlier_start(
        &self,
        tenant: Tenant,
        idempotency: Idempotency,
        now: TimestampMs,
    ) -> StoreResult<Option<StartOutcome>> {
        let (tenant, hash) = (tenant_key(tenant), key_hash(&idempotency));
        let key = (tenant.as_slice(), hash.as_slice());
        let read = &self.db.statements.idempotency_get;
        let stored: Option<(Vec<u8>,)> = self.db.row(read, key).await?;
        let Some((stored,)) = stored else {
            return Ok(None);
        };
        let there: IdempotencyRecord = decode("idempotency", &stored)?;
        if now >= there.record.start.created_at.plus_ms(IDEMPOTENCY_MS) {
            return Ok(None);
        }
        if there.body_hash != idempotency.body_hash {
            return Ok(Some(StartOutcome::KeyReused));
        }
        self.finish_start(&there).await?;
        let start = Box::new(there.record.start);
        Ok(Some(StartOutcome::Repeated(start)))
    }

    /// Stores `ours` under an idempotency key, or returns the record that was stored within the
    /// last day.
    pub(super) async fn put_idempotency(
        &self,
        hash: &[u8],
        ours: IdempotencyRecord,
    ) -> StoreResult<IdempotencyRecord> {
        let (tenant, data) = (tenant_key(ours.record.start.tenant), encode(&ours)?);
        let (tenant, data) = (tenant.as_slice(), data.as_slice());
        let ttl = self.row_ttls.idempotency;
        let statements = &self.db.statements;
        let now = ours.record.start.created_at;
        let _guard = self.caches.states.lock(&(tenant, hash)).await;
        // A plain read shows a refused or applied transaction; a serial read resolves an outcome in doubt.
        let mut read = &statements.idempotency_get;
        for _ in 0..LWT_ATTEMPTS_MAX {
            let stored: Option<(Vec<u8>,)> = self.db.row(read, (tenant, hash)).await?;
            let outcome = match stored {
                Some((stored,)) => {
                    let there: IdempotencyRecord = decode("idempotency", &stored)?;
                    let is_ours = there == ours;
                    let created_at = there.record.start.created_at;
                    if is_ours || now < created_at.plus_ms(IDEMPOTENCY_MS) {
                        return Ok(there);
                    }
                    let values = (ttl, data, tenant, hash, stored.as_slice());
                    let change = &statements.idempotency_change;
                    self.db.lightweight(change, values).await?
                }
                None => {
                    let values = (tenant, hash, data, ttl);
                    let make = &statements.idempotency_make;
                    self.db.lightweight(make, values).await?
                }
            };
            match outcome {
                Lwt::Applied => return Ok(ours),
                Lwt::Refused => {}
                Lwt::InDoubt(_) => read = &statements.idempotency_serial,
            }
            back_off().await;
        }
        Err(StoreError::Overloaded)
    }

    async fn end(
        self: Arc<Self>,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>> {
        let Some(record) = self.known_record(session_id).await? else {
            return Ok(None);
        };
        // Usually nothing was decided before the end. Otherwise the transaction is refused, and reads the state.
        let mut stored = None;
        if let Some(pod) = pod {
            stored = self.versioned_state(session_id, false).await?;
            let state = stored.as_ref().map(|(_, state)| state);
            if state.is_none_or(|state| state.end.is_none()) {
                // The PoD comes before the end, so that the first insight includes it. If two processes
                // end the session, the other's PoD stays as an earlier one.
                self.replace_pod(session_id, pod).await?;
            }
        }
        let decide = |state: &State| match state.end {
            Some(first) => Decision::Keep(EndOutcome::later(first)),
            None => {
                let change = Change {
                    end: Some(end),
                    insight: None,
                    message: Some(message.clone()),
                    learned: Vec::new(),
                };
                Decision::Change(Box::new(change), EndOutcome::first(end))
            }
        };
        let (outcome, state) = self.change_state(&record, stored, decide).await?;
        self.caches
            .journal_heads
            .change(&session_id, |head| head.has_ended = true);
        self.perform_with_retries("a session's end", session_id, move |inner| {
            let state = state.clone();
            async move { inner.finish_end(session_id, &state).await }
        })
        .await;
        Ok(Some(outcome))
    }

    async fn stop_after_timeout(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
    ) -> StoreResult<Option<EndOutcome>> {
        let Some(record) = self.record(session_id).await? else {
            return Ok(None);
        };
        // Marked before the change, so that the mark stays if the process dies after it; and again after it, because
        // another node may have found meanwhile that the insight covers all stored data.
        self.mark_rescore(session_id, LATE_STOP).await?;
        let decide = |state: &State| match state.end {
            Some(stored) if stored.reason.is_timeout() => {
                let change = Change {
                    end: Some(end),
                    insight: None,
                    message: None,
                    learned: Vec::new(),
                };
                let outcome = EndOutcome::first(end);
                Decision::Change(Box::new(change), Some(outcome))
            }
            stored => Decision::Keep(stored.map(EndOutcome::later)),
        };
        let stored = self.versioned_state(session_id, false).await?;
        let current_end = stored.as_ref().and_then(|(_, state)| state.end);
        if let Some(pod) = pod
            && current_end.is_some_and(|end| end.reason.is_timeout())
        {
            // As in `end`, the PoD comes first.
            self.replace_pod(session_id, pod).await?;
        }
        let (outcome, _) = self.change_state(&record, stored, decide).await?;
        if outcome.is_some_and(|outcome| outcome.is_first) {
            self.mark_rescore(session_id, LATE_STOP).await?;
        }
        Ok(outcome)
    }

    /// Completes an end: the message, the mark for scoring, and the removal from the live sessions,
    /// in this order.
    pub(super) async fn finish_end(&self, session_id: SessionId, state: &State) -> StoreResult<()> {
        let mut last = WriteGroup::default();
        if state.insight.is_none() {
            self.add_mark(&mut last, session_id, b"end").await?;
        }
        self.relay_and_write(session_id, state, last).await?;
        self.note_end(session_id);
        for bucket in buckets_to_clear(session_id, self.clock.now()) {
            self.delete_live(Entry { session_id, bucket }).await?;
        }
        Ok(())
    }

    /// Removes a session's row from a bucket of the live sessions.
    pub(super) async fn delete_live(&self, entry: Entry) -> StoreResult<()> {
        let shard = i16::from(entry.session_id.shard().0);
        let key = entry.session_id.to_bytes();
        let values = (shard, entry.bucket, key.as_slice());
        self.db.write(&self.db.statements.live_delete, values).await
    }

    pub(super) async fn put_pod(&self, session_id: SessionId, pod: &PodRow) -> StoreResult<()> {
        let (key, data) = (session_id.to_bytes(), encode(pod)?);
        let hash: [u8; 32] = Sha256::digest(&data).into();
        let ttl = self.row_ttls.retained;
        let values = (
            key.as_slice(),
            pod.received_at.0,
            hash.as_slice(),
            data.as_slice(),
            ttl,
        );
        self.db.write(&self.db.statements.pod_put, values).await
    }

    /// Stores a PoD unless it is identical with the stored one. Returns the PoD that is stored now, and whether it is
    /// new.
    async fn replace_pod(&self, session_id: SessionId, pod: PodRow) -> StoreResult<(PodRow, bool)> {
        let stored = self.pod(session_id).await?;
        let replacing = pod.clone().replacing(stored.as_ref());
        if let Some(pod) = replacing {
            self.put_pod(session_id, &pod).await?;
            return Ok((pod, true));
        }
        Ok((stored.unwrap_or(pod), false))
    }

    async fn attach_pod(&self, session_id: SessionId, pod: PodRow) -> StoreResult<bool> {
        if self.record(session_id).await?.is_none() {
            return Ok(false);
        }
        let (stored, is_new) = self.replace_pod(session_id, pod).await?;
        let state = self.state(session_id).await?;
        // An identical PoD is marked too: the first call may have failed between the PoD and its mark.
        if state.is_some_and(|state| state.lacks_pod(&stored)) {
            self.mark_rescore(session_id, &Sha256::digest(encode(&stored)?))
                .await?;
        }
        Ok(is_new)
    }

    pub(super) async fn pod(&self, session_id: SessionId) -> StoreResult<Option<PodRow>> {
        let key = session_id.to_bytes();
        let row: Option<(Vec<u8>,)> = self
            .db
            .row(&self.db.statements.pod_get, (key.as_slice(),))
            .await?;
        row.map(|(data,)| decode("pods", &data)).transpose()
    }

    pub(super) async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        let (record, state) = try_join(self.record(session_id), self.state(session_id)).await?;
        let end = state.and_then(|state| state.end);
        if end.is_some() {
            // Another node may have ended it, so further batches are late.
            self.caches
                .journal_heads
                .change(&session_id, |head| head.has_ended = true);
        }
        let record = record.map(Arc::new);
        if let Some(record) = &record {
            self.cache_record(record);
        }
        Ok(record.map(|record| SessionRow {
            start: record.start.clone(),
            end,
        }))
    }
}

#[async_trait]
impl Sessions for CqlStore {
    async fn start(&self, new: NewSession) -> StoreResult<StartOutcome> {
        self.run_to_completion(|inner| async move { inner.start(new).await })
            .await
    }

    async fn find_earlier_start(
        &self,
        tenant: Tenant,
        idempotency: Idempotency,
        now: TimestampMs,
    ) -> StoreResult<Option<StartOutcome>> {
        self.run_to_completion(|inner| async move {
            inner.find_earlier_start(tenant, idempotency, now).await
        })
        .await
    }

    async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        self.read(|inner| async move { inner.find(session_id).await })
            .await
    }

    async fn end(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>> {
        self.run_to_completion(|inner| inner.end(session_id, end, pod, message))
            .await
    }

    async fn stop_after_timeout(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
    ) -> StoreResult<Option<EndOutcome>> {
        self.run_to_completion(|inner| async move {
            inner.stop_after_timeout(session_id, end, pod).await
        })
        .await
    }

    async fn attach_pod(&self, session_id: SessionId, pod: PodRow) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.attach_pod(session_id, pod).await })
            .await
    }

    async fn pod(&self, session_id: SessionId) -> StoreResult<Option<PodRow>> {
        self.read(|inner| async move { inner.pod(session_id).await })
            .await
    }

    async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        self.inner.check_open()?;
        self.inner.list(tenant, filter, limit as usize, after).await
    }

    async fn live(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionRow>> {
        self.run_without_deadline(|inner| inner.live(shards, after, limit, Arc::new(|_| false)))
            .await
    }

    async fn live_unknown(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
        is_known: IsKnown,
    ) -> StoreResult<Vec<SessionRow>> {
        self.run_without_deadline(|inner| inner.live(shards, after, limit, is_known))
            .await
    }

    async fn to_score(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>> {
        self.run_without_deadline(|inner| inner.to_score(shards, after, limit))
            .await
    }

    async fn messages(&self, session_id: SessionId) -> StoreResult<Vec<Message>> {
        self.read(|inner| async move { inner.messages(session_id).await })
            .await
    }

    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        self.read(|inner| async move { inner.message(id).await })
            .await
    }
}
