//! Insights, learned data, and reads of messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::retention::is_of_one_session;
use porchlight_ports::{
    Insights, MessageBody, SessionOutcome, StoreError, StoreResult, StoredInsight,
};
use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::message::Message;
use porchlight_schema::review::Review;

use super::state::{Change, Decision, OfficialInsight, State, random_tag};
use crate::cql::statements::db::{decode, encode};
use crate::cql::statements::write_group::WriteGroup;
use crate::cql::webhooks::relay::{MessageHead, number_cell};
use crate::cql::{CqlStore, Inner};
use crate::damage::{INSIGHT, readable};

/// The maximum number of insights that one call reads at the same time.
const INSIGHTS_READ_AT_ONCE_MAX: usize = 16;

fn revision_of(state: Option<&State>) -> u32 {
    let official = state.and_then(|state| state.insight);
    official.map_or(0, |official| official.revision)
}

impl Inner {
    async fn commit_insight(
        self: Arc<Self>,
        session_id: SessionId,
        insight: StoredInsight,
        message: MessageBody,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<bool> {
        let (revision, covered) = (insight.record.revision, insight.covered);
        let Some(record) = self.cached_record(session_id).await? else {
            return Ok(false);
        };
        let follows = |state: Option<&State>| revision_of(state).checked_add(1) == Some(revision);
        let own_state = self.caches.states_written.get(&session_id);
        let own_state = own_state.filter(|(_, state)| follows(Some(state)));
        let stored = match own_state {
            // If another process has written a later state, the transaction is refused.
            Some((version, state)) => Some((version, state.as_ref().clone())),
            None => self.versioned_state(session_id).await?,
        };
        // An end leaves a state, so that only a session that has been removed since has none.
        if stored.is_none() && self.record(session_id).await?.is_none() {
            return Ok(false);
        }
        if !follows(stored.as_ref().map(|(_, state)| state)) {
            return Ok(false);
        }
        let mut rows = WriteGroup::default();
        let (traces, learned) = self.add_traces(&mut rows, session_id, learned).await?;
        let tag = random_tag();
        let (key, data) = (session_id.to_bytes().to_vec(), encode(&insight)?);
        let (bytes, ttl) = (data.len(), self.row_ttls.retained);
        let row = (key, number_cell(revision), tag.to_vec(), data, ttl);
        rows.add(&self.db.statements.insight_put, bytes, row);
        self.db.write_group(rows).await?;
        let decide = |state: &State| {
            if !follows(Some(state)) {
                return Decision::Keep(false);
            }
            let change = Change {
                end: None,
                insight: Some(OfficialInsight {
                    revision,
                    tag,
                    covered,
                }),
                message: Some(message.clone()),
                learned: learned.clone(),
            };
            Decision::Change(Box::new(change), true)
        };
        let changed = self.change_state(&record, stored, decide).await;
        let is_committed = matches!(changed, Ok((true, _)));
        if !is_committed && self.state(session_id).await?.is_none() {
            // An erasure in the meantime has not seen them.
            self.remove_traces(session_id, &traces).await?;
        }
        let (committed, state) = changed?;
        if committed {
            self.perform_with_retries("an insight's message", session_id, move |inner| {
                let state = state.clone();
                async move {
                    inner.relay(session_id, &state).await?;
                    if inner.may_receive_late_batches(session_id) {
                        return Ok(());
                    }
                    inner.settle(session_id, None).await.map(drop)
                }
            })
            .await;
        }
        Ok(committed)
    }

    /// Stores the list of the learned rows that a session writes, and adds its traces to the rows
    /// to write; returns the keys of the traces, and the other rows. They are written before the
    /// insight counts, so that no learned row lacks its entry. A repeated scoring finds the traces
    /// and does not write them again.
    async fn add_traces<'s>(
        &'s self,
        rows: &mut WriteGroup<'s>,
        session_id: SessionId,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<(Vec<[u8; 32]>, Vec<([u8; 32], Vec<u8>)>)> {
        let (statements, ttl) = (&self.db.statements, self.row_ttls.retained);
        let mut entries = WriteGroup::default();
        for (key, _) in &learned {
            let values = (session_id.to_bytes().to_vec(), key.to_vec(), ttl);
            entries.add(&statements.learned_by_put, 0, values);
        }
        self.db.write_group(entries).await?;
        let (traces, others): (Vec<_>, Vec<_>) = learned
            .into_iter()
            .partition(|(key, _)| is_of_one_session(key));
        let mut keys = Vec::with_capacity(traces.len());
        for (key, data) in traces {
            keys.push(key);
            rows.add(&statements.trace_put, data.len(), (key.to_vec(), data, ttl));
        }
        Ok((keys, others))
    }

    /// Stores a trace, which expires with its session.
    pub(in crate::cql) async fn put_trace(&self, key: &[u8], data: &[u8]) -> StoreResult<()> {
        let values = (key, data, self.row_ttls.retained);
        let put = &self.db.statements.trace_put;
        self.db.write(put, values).await
    }

    async fn insight(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>> {
        let data = self.encoded_insight(session_id).await?;
        data.map(|data| decode("insights", &data)).transpose()
    }

    /// Returns the outcome of a session. Decodes the insight outside of the caller's thread,
    /// because the caller reads many.
    async fn outcome(&self, session_id: SessionId) -> StoreResult<Option<SessionOutcome>> {
        let Some(data) = self.encoded_insight(session_id).await? else {
            return Ok(None);
        };
        let decoded = tokio::task::spawn_blocking(move || {
            decode::<StoredInsight>("insights", &data).map(SessionOutcome::from)
        });
        decoded.await.map_err(StoreError::unavailable)?.map(Some)
    }

    /// Returns the bytes of a session's newest insight.
    async fn encoded_insight(&self, session_id: SessionId) -> StoreResult<Option<Vec<u8>>> {
        let state = self.state(session_id).await?;
        let Some(official) = state.and_then(|state| state.insight) else {
            return Ok(None);
        };
        let key = session_id.to_bytes();
        let revision = number_cell(official.revision);
        let values = (key.as_slice(), revision, official.tag.as_slice());
        let statement = &self.db.statements.insight_get;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, values).await?;
        let (data,) = row.ok_or_else(|| {
            StoreError::Damaged("insights: the official one is not there".to_owned())
        })?;
        Ok(Some(data))
    }

    /// Returns a message of a session, in two parts.
    pub(in crate::cql) async fn message_at(
        &self,
        session_id: SessionId,
        number: u32,
    ) -> StoreResult<Option<(MessageHead, Arc<str>)>> {
        let key = session_id.to_bytes();
        let values = (key.as_slice(), number_cell(number));
        let statement = &self.db.statements.message_get;
        let row: Option<(Vec<u8>, Vec<u8>)> = self.db.row(statement, values).await?;
        row.map(|(head, body)| message_of(&head, body)).transpose()
    }

    pub(in crate::cql) async fn messages(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Vec<Message>> {
        // A message that was written for a failed start does not count.
        if self.record(session_id).await?.is_none() {
            return Ok(Vec::new());
        }
        let key = session_id.to_bytes();
        let statement = &self.db.statements.messages_get;
        let rows: Vec<(Vec<u8>, Vec<u8>)> = self
            .db
            .rows(statement, (key.as_slice(),), usize::MAX)
            .await?;
        rows.into_iter()
            .map(|(head, body)| {
                let (head, body) = message_of(&head, body)?;
                Ok(head.with_body(body))
            })
            .collect()
    }

    pub(in crate::cql) async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        let Some(head) = self.message_head(id).await? else {
            return Ok(None);
        };
        let found = self.message_at(head.session_id, head.number).await?;
        Ok(found.map(|(head, body)| head.with_body(body)))
    }
}

fn message_of(head: &[u8], body: Vec<u8>) -> StoreResult<(MessageHead, Arc<str>)> {
    let body = String::from_utf8(body)
        .map_err(|_| StoreError::Damaged("messages: a body that is not UTF-8".to_owned()))?;
    Ok((decode("messages", head)?, body.into()))
}

#[async_trait]
impl Insights for CqlStore {
    async fn commit_insight(
        &self,
        session_id: SessionId,
        insight: StoredInsight,
        message: MessageBody,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<bool> {
        self.run_to_completion(|inner| inner.commit_insight(session_id, insight, message, learned))
            .await
    }

    async fn settle(&self, session_id: SessionId) -> StoreResult<bool> {
        // The batches are counted, which takes long in the longest sessions.
        self.run_without_deadline(|inner| async move { inner.settle(session_id, None).await })
            .await
    }

    async fn insight(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>> {
        self.run_with_deadline(|inner| async move { inner.insight(session_id).await })
            .await
    }

    async fn outcomes(
        &self,
        session_ids: Vec<SessionId>,
    ) -> StoreResult<Vec<Option<SessionOutcome>>> {
        let read = |session_id| {
            self.run_with_deadline(move |inner| async move {
                readable(inner.outcome(session_id).await, session_id, INSIGHT)
            })
        };
        stream::iter(session_ids)
            .map(read)
            .buffered(INSIGHTS_READ_AT_ONCE_MAX)
            .try_collect()
            .await
    }

    async fn put_review(&self, session_id: SessionId, review: Review) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.put_review(session_id, &review).await })
            .await
    }

    async fn review(&self, session_id: SessionId) -> StoreResult<Option<Review>> {
        self.run_with_deadline(|inner| async move { inner.review(session_id).await })
            .await
    }

    async fn recall(&self, key: [u8; 32]) -> StoreResult<Option<Vec<u8>>> {
        self.run_with_deadline(|inner| async move {
            let db = &inner.db;
            let statement = &db.statements.learned_get;
            let row: Option<(Vec<u8>,)> = db.row(statement, (key.as_slice(),)).await?;
            Ok(row.map(|(data,)| data))
        })
        .await
    }

    async fn recall_all(&self, keys: Vec<[u8; 32]>) -> StoreResult<BTreeMap<[u8; 32], Vec<u8>>> {
        self.run_with_deadline(|inner| async move {
            let db = &inner.db;
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 32]>::as_slice).collect();
            let statement = &db.statements.learned_get_all;
            let rows: Vec<(Vec<u8>, Vec<u8>)> = db.few(statement, (keys,)).await?;
            let rows = rows.into_iter();
            rows.map(|(key, data)| {
                let key = key.try_into().map_err(|_| {
                    StoreError::Damaged("learned: a key of another length".to_owned())
                })?;
                Ok((key, data))
            })
            .collect()
        })
        .await
    }
}
