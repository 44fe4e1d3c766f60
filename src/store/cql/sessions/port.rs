//! Sessions: their end and PoD, and their port.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join;
use porchlight_ports::{
    EndOutcome, Idempotency, IsKnown, MessageBody, NewSession, Page, PodRow, SessionFilter,
    SessionRow, Sessions, StartOutcome, StoreResult, Unwritten,
};
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::message::Message;
use porchlight_schema::session::{SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;
use sha2::{Digest, Sha256};

use super::state::{Change, Decision, State, random_tag};
use crate::cql::statements::db::{decode, encode};
use crate::cql::statements::write_group::WriteGroup;
use crate::cql::work::live_sessions::{Entry, buckets_to_clear};
use crate::cql::work::settle::END;
use crate::cql::{CqlStore, Inner};

/// Returns the tag of a mark of a session that the app stopped after the service had ended it. Each
/// mark has a tag of its own, so that a delete of an earlier mark does not remove it, even if its
/// writer's clock is behind.
fn late_stop_tag() -> Vec<u8> {
    [b"late stop".as_slice(), &random_tag()].concat()
}

impl Inner {
    async fn end(
        self: Arc<Self>,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>> {
        let Some(record) = self.cached_record(session_id).await? else {
            return Ok(None);
        };
        // Most sessions have no state before their end, so the state is read only with a PoD. If
        // there is a state nevertheless, the transaction is refused and the state is read then.
        let mut stored = None;
        if let Some(pod) = pod {
            stored = self.versioned_state(session_id).await?;
            let state = stored.as_ref().map(|(_, state)| state);
            if state.is_none_or(|state| state.end.is_none()) {
                // The PoD comes before the end, so that the first insight includes it. If two
                // processes end the session, the other's PoD stays as an earlier one.
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
        // Marked before the change, so that the mark stays if the process dies after it; and again
        // after it, because another node may have found meanwhile that the insight covers all
        // stored data.
        self.mark_rescore(session_id, &late_stop_tag()).await?;
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
        let stored = self.versioned_state(session_id).await?;
        let current_end = stored.as_ref().and_then(|(_, state)| state.end);
        if let Some(pod) = pod
            && current_end.is_some_and(|end| end.reason.is_timeout())
        {
            // As in `end`, the PoD comes first.
            self.replace_pod(session_id, pod).await?;
        }
        let (outcome, _) = self.change_state(&record, stored, decide).await?;
        if outcome.is_some_and(|outcome| outcome.is_first) {
            self.mark_rescore(session_id, &late_stop_tag()).await?;
        }
        Ok(outcome)
    }

    /// Completes an end: the message and the mark for scoring, and then the removal from the live
    /// sessions.
    pub(in crate::cql) async fn finish_end(
        &self,
        session_id: SessionId,
        state: &State,
    ) -> StoreResult<()> {
        let mut last = WriteGroup::default();
        if state.insight.is_none() {
            self.add_mark(&mut last, session_id, END).await?;
        }
        self.relay_and_write(session_id, state, last).await?;
        self.record_end_seen(session_id);
        for bucket in buckets_to_clear(session_id, self.clock.now()) {
            self.deletes.add_live(Entry { session_id, bucket });
        }
        Ok(())
    }

    pub(in crate::cql) async fn put_pod(
        &self,
        session_id: SessionId,
        pod: &PodRow,
    ) -> StoreResult<()> {
        self.before_pod_write(session_id);
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

    /// Stores a PoD unless it is identical with the stored one. Returns the PoD that is stored now,
    /// and whether it is new.
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
        // An identical PoD is marked too: the first call may have failed between the PoD and its
        // mark.
        if state.is_some_and(|state| state.lacks_pod(&stored)) {
            self.mark_rescore(session_id, &Sha256::digest(encode(&stored)?))
                .await?;
        }
        Ok(is_new)
    }

    pub(in crate::cql) async fn pod(&self, session_id: SessionId) -> StoreResult<Option<PodRow>> {
        let key = session_id.to_bytes();
        let row: Option<(Vec<u8>,)> = self
            .db
            .row(&self.db.statements.pod_get, (key.as_slice(),))
            .await?;
        row.map(|(data,)| decode("pods", &data)).transpose()
    }

    pub(in crate::cql) async fn find(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Option<SessionRow>> {
        let state = self.versioned_state(session_id);
        let (record, stored) = try_join(self.record(session_id), state).await?;
        let version = stored.as_ref().map_or(0, |(version, _)| *version);
        self.compare_own(session_id, version);
        let state = stored.map(|(_, state)| state);
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
        self.run_with_deadline(|inner| async move { inner.find(session_id).await })
            .await
    }

    fn known(&self, session_id: SessionId) -> Option<SessionRow> {
        self.inner.known(session_id)
    }

    fn unwritten(&self, session_id: SessionId) -> Unwritten {
        self.inner.unwritten(session_id)
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
        self.run_with_deadline(|inner| async move { inner.pod(session_id).await })
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
        self.run_with_deadline(|inner| async move { inner.messages(session_id).await })
            .await
    }

    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        self.run_with_deadline(|inner| async move { inner.message(id).await })
            .await
    }
}
