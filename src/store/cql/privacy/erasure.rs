//! Erases one session: deletes its partitions and rows, and the session's own row last. The deletes
//! carry a timestamp that lies a day ahead: they also cover rows of a node whose clock is ahead,
//! and writes of nodes that do not know of the erasure yet.
//!
//! The database removes deleted data from its files when it compacts them after `gc_grace_seconds`.
//! Rows of the outbox that name the session stay until they expire: they hold IDs only.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::retention::{belongs_to_session, is_of_one_session};
use porchlight_ports::{
    Erasure, RecorderPage, RecorderRow, Removed, SessionFilter, SessionRows, StoreError,
    StoreResult,
};
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::limits::PRIVACY_SETTLE_SHARED_MS;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use crate::cql::connection::connect::next_timestamp_us;
use crate::cql::journal::JournalHead;
use crate::cql::layout::slots::{AT_ONCE, DeliveryList, tenant_key};
use crate::cql::sessions::starts::IdempotencyRecord;
use crate::cql::statements::db::{Lwt, decode, id_bytes};
use crate::cql::webhooks::relay::MessageHead;
use crate::cql::work::live_sessions::all_buckets;
use crate::cql::{CqlStore, Inner};
use crate::damage::{replaceable, skipped};

/// The number of microseconds by which the timestamp of a write that removes facts about a place is
/// ahead of the clock. It is the longest time that a score takes from its read of the row to its
/// insight, and as much again for clocks that differ. Until then, scores add nothing to the place.
const REMOVAL_AHEAD_US: i64 = 2 * PRIVACY_SETTLE_SHARED_MS * 1_000;
/// A row of `recorders`: id, version, data.
type StoredRecorder = (Vec<u8>, Option<i64>, Option<Vec<u8>>);
/// A row of `idempotency`: token, tenant, key, data.
type StoredIdempotencyKey = (i64, Vec<u8>, Vec<u8>, Vec<u8>);

impl Inner {
    async fn session_rows(self: Arc<Self>, session_id: SessionId) -> StoreResult<SessionRows> {
        let state = replaceable(self.state(session_id).await, session_id, "its state")?;
        Ok(SessionRows {
            batches: u64::from(self.count(session_id).await?),
            insights: u64::from(state.is_some_and(|state| state.insight.is_some())),
            messages: self.heads(session_id).await?.len() as u64,
        })
    }

    async fn erase_session(self: Arc<Self>, session_id: SessionId) -> StoreResult<()> {
        self.evict_own(session_id);
        // A session with a damaged record stays, because its rows in the lists follow from the
        // record.
        let Some(record) = self.record(session_id).await? else {
            return Ok(());
        };
        self.caches
            .journal_heads
            .put(session_id, JournalHead::of_erased());
        let messages = self.heads(session_id).await?;
        self.erase_journal(session_id).await?;
        for message in &messages {
            self.erase_message(message).await?;
        }
        self.erase_rows(&record.start).await?;
        self.caches.records.remove(&session_id);
        self.caches.states_written.remove(&session_id);
        Ok(())
    }

    /// Removes the traces of a session among these learned rows. The other rows stay.
    pub(in crate::cql) async fn remove_traces(
        &self,
        session_id: SessionId,
        keys: &[[u8; 32]],
    ) -> StoreResult<()> {
        let traces = keys.iter().filter(|key| is_of_one_session(key));
        let removing = traces.map(|key| self.remove_trace(session_id, key));
        let removing = stream::iter(removing.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        removing.try_collect().await
    }

    async fn remove_trace(&self, session_id: SessionId, key: &[u8; 32]) -> StoreResult<()> {
        let Some((data, written_at_us)) = self.learned_row(key).await? else {
            return Ok(());
        };
        if !belongs_to_session(session_id, key, &data) {
            return Ok(());
        }
        // The delete has the earliest possible timestamp, because another session may write the row
        // next.
        let delete = &self.db.statements.learned_delete;
        let values = (key.as_slice(),);
        self.db.write_after(delete, values, written_at_us).await
    }

    /// Returns a learned row and the time of its write.
    async fn learned_row(&self, key: &[u8; 32]) -> StoreResult<Option<(Vec<u8>, i64)>> {
        let statement = &self.db.statements.learned_get_time;
        let row: Option<(Option<Vec<u8>>, Option<i64>)> =
            self.db.row(statement, (key.as_slice(),)).await?;
        Ok(row.and_then(|(data, written_at_us)| data.zip(written_at_us)))
    }

    async fn damaged_sessions(
        &self,
        tenant: Tenant,
        subject: Subject,
        until: TimestampMs,
    ) -> StoreResult<Vec<SessionId>> {
        let mut filter = SessionFilter {
            to: Some(until.plus_ms(1)),
            ..SessionFilter::default()
        };
        match subject {
            Subject::ExternalRiderId(id) => filter.external_rider_id = Some(id),
            Subject::DeliveryId(id) => filter.delivery_id = Some(id),
            // A damaged session cannot be erased by its id alone.
            Subject::SessionId(id) => return self.record(id).await.map(|_| Vec::new()),
        }
        self.list_damaged(tenant, &filter).await
    }

    async fn remove_telemetry(self: Arc<Self>, session_id: SessionId) -> StoreResult<()> {
        self.evict_own(session_id);
        self.erase_journal(session_id).await?;
        let session = session_id.to_bytes();
        let statement = &self.db.statements.snapshots_delete;
        self.db.erase(statement, (session.as_slice(),)).await
    }

    async fn remove_messages(self: Arc<Self>, session_id: SessionId) -> StoreResult<()> {
        self.evict_own(session_id);
        // The message in the session's state is removed first: a process that finds a mark would
        // write the message again from the state.
        self.drop_message(session_id).await?;
        for message in &self.heads(session_id).await? {
            self.erase_message(message).await?;
        }
        let (session, statements) = (session_id.to_bytes(), &self.db.statements);
        let session = session.as_slice();
        for statement in [&statements.messages_delete, &statements.cursor_delete] {
            self.db.erase(statement, (session,)).await?;
        }
        Ok(())
    }

    /// Deletes the tenant's idempotency keys that were stored up to `until` and whose session no
    /// longer exists, among the next `limit` keys of all tenants: the table has no index by tenant.
    /// `after` is the token of the last examined partition.
    async fn erase_idempotency_keys(
        self: Arc<Self>,
        tenant: Tenant,
        until: TimestampMs,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Removed<Vec<u8>>> {
        let statements = &self.db.statements;
        let after = after.and_then(|token| Some(i64::from_be_bytes(token.try_into().ok()?)));
        // No partition has the smallest token.
        let from = after.unwrap_or(i64::MIN);
        let values = (from, i32::try_from(limit).unwrap_or(i32::MAX));
        let statement = &statements.idempotency_after;
        let rows: Vec<StoredIdempotencyKey> = self.db.rows(statement, values, limit).await?;
        let next = rows.last().filter(|_| rows.len() >= limit);
        let next = next.map(|(token, ..)| token.to_be_bytes().to_vec());
        let own = tenant_key(tenant);
        let mut removed = 0;
        for (_, tenant, key, data) in rows {
            if tenant != own {
                continue;
            }
            let stored = decode("idempotency", &data).map(Some);
            let Some(stored): Option<IdempotencyRecord> = skipped(stored, "an idempotency key")?
            else {
                continue;
            };
            let start = &stored.record.start;
            let exists = match self.record(start.session_id).await {
                Err(error) if error.is_of_single_rows() => true,
                record => record?.is_some(),
            };
            if start.created_at > until || exists {
                continue;
            }
            let values = (tenant.as_slice(), key.as_slice(), data.as_slice());
            match self
                .db
                .lightweight(&statements.idempotency_delete, values)
                .await?
            {
                Lwt::Applied => removed += 1,
                Lwt::Refused => {}
                Lwt::InDoubt(_) => return Err(StoreError::Overloaded),
            }
        }
        Ok(Removed {
            rows: removed,
            next,
        })
    }

    async fn erase_journal(&self, session_id: SessionId) -> StoreResult<()> {
        let key = session_id.to_bytes();
        let buckets = self.buckets(session_id, 0).await?;
        let deletes = buckets.into_iter().map(|bucket| {
            let values = (key.as_slice(), bucket);
            self.db.erase(&self.db.statements.batches_delete, values)
        });
        try_join_all(deletes).await.map(drop)
    }

    async fn erase_message(&self, message: &MessageHead) -> StoreResult<()> {
        let body_key = (message.session_id, message.number);
        self.caches.bodies.remove(&body_key);
        let statements = &self.db.statements;
        let (tenant, id) = (tenant_key(message.tenant), message.id.to_bytes());
        let keys = self.delivery_keys(message.tenant, message.id, DeliveryList::All);
        for key in keys.await? {
            let listed = (tenant.as_slice(), key, id.as_slice());
            self.db.erase(&statements.delivery_delete, listed).await?;
        }
        self.unlist_failed(message.tenant, message.id).await?;
        for statement in [&statements.message_id_delete, &statements.attempts_delete] {
            self.db.erase(statement, (id.as_slice(),)).await?;
        }
        Ok(())
    }

    /// Deletes everything but the journal and the messages' own rows. The session's row and its
    /// rows in the lists are deleted last, because they lead to the others. The traces are deleted
    /// after the state, without which no score can be committed: a score in flight has written its
    /// traces before, or removes them itself.
    async fn erase_rows(&self, start: &SessionStart) -> StoreResult<()> {
        let statements = &self.db.statements;
        let session = start.session_id.to_bytes();
        let session = session.as_slice();
        let partitions = [
            &statements.notes_delete,
            &statements.snapshots_delete,
            &statements.insights_delete,
            &statements.pods_delete,
            &statements.messages_delete,
            &statements.cursor_delete,
            &statements.reviews_delete,
        ];
        try_join_all(partitions.map(|statement| self.db.erase(statement, (session,)))).await?;
        let shard = i16::from(start.session_id.shard().0);
        for bucket in all_buckets(start.session_id) {
            let values = (shard, bucket, session);
            for statement in [&statements.live_delete, &statements.behind_delete_all] {
                self.db.erase(statement, values).await?;
            }
        }
        let state = &statements.state_delete;
        match self.db.lightweight(state, (session,)).await? {
            Lwt::Applied | Lwt::Refused => {}
            Lwt::InDoubt(error) => return Err(error),
        }
        let learned = self.learned_by(start.session_id).await?;
        self.remove_traces(start.session_id, &learned).await?;
        let learned_by = &statements.learned_by_delete;
        self.db.erase(learned_by, (session,)).await?;
        self.erase_record(start).await
    }

    async fn learned_by(&self, session_id: SessionId) -> StoreResult<Vec<[u8; 32]>> {
        let session = session_id.to_bytes();
        let statement = &self.db.statements.learned_by_get;
        let values = (session.as_slice(),);
        let rows: Vec<(Vec<u8>,)> = self.db.rows(statement, values, usize::MAX).await?;
        let keys = rows.into_iter().map(|(key,)| {
            <[u8; 32]>::try_from(key)
                .map_err(|_| StoreError::Damaged("learned_by_session: not a key".to_owned()))
        });
        keys.collect()
    }

    async fn replace_learned(
        &self,
        key: [u8; 32],
        expected: Vec<u8>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        let statements = &self.db.statements;
        let Some((_, written_at_us)) = self
            .learned_row(&key)
            .await?
            .filter(|(stored, _)| *stored == expected)
        else {
            return Ok(false);
        };
        // A condition would protect nothing, because an insight overwrites these rows without one.
        // A score that has already read the row of a place writes the removed facts again; the
        // later timestamp makes this write count instead.
        let ahead_us = if is_of_one_session(&key) {
            0
        } else {
            REMOVAL_AHEAD_US
        };
        let at_us = (next_timestamp_us() + ahead_us).max(written_at_us.saturating_add(1));
        let key = key.as_slice();
        match data {
            Some(data) => {
                let (put, values) = (&statements.learned_put, (key, data.as_slice()));
                self.db.write_at(put, values, at_us).await?;
            }
            None => {
                let delete = &statements.learned_delete;
                self.db.write_at(delete, (key,), at_us).await?;
            }
        }
        Ok(true)
    }

    /// Returns a page of recorders in the order of the tokens of their partitions, without damaged
    /// ones.
    async fn recorders(
        &self,
        after: Option<RecorderId>,
        limit: usize,
    ) -> StoreResult<RecorderPage> {
        let statements = &self.db.statements;
        let rows_max = i32::try_from(limit).unwrap_or(i32::MAX);
        let rows: Vec<StoredRecorder> = match after {
            Some(after) => {
                let after = after.to_bytes();
                let values = (after.as_slice(), rows_max);
                let statement = &statements.recorders_after;
                self.db.rows(statement, values, limit).await?
            }
            None => {
                let statement = &statements.recorders_first;
                self.db.rows(statement, (rows_max,), limit).await?
            }
        };
        let has_more = rows.len() >= limit;
        let (mut recorders, mut last) = (Vec::new(), None);
        for (id, version, data) in rows {
            let id = RecorderId::from_bytes(id_bytes("recorders", &id)?);
            last = Some(id);
            // The row's key may live longer than its cells.
            if let (Some(version), Some(data)) = (version, data)
                && let Some(data) = skipped(decode("recorders", &data).map(Some), "a recorder")?
            {
                let version = version.unsigned_abs();
                recorders.push((id, RecorderRow { version, data }));
            }
        }
        Ok((recorders, last.filter(|_| has_more)))
    }
}

#[async_trait]
impl Erasure for CqlStore {
    async fn start_of(&self, session_id: SessionId) -> StoreResult<Option<SessionStart>> {
        self.run_without_deadline(|inner| async move {
            let record = inner.record(session_id).await?;
            Ok(record.map(|record| record.start))
        })
        .await
    }

    async fn damaged_sessions(
        &self,
        tenant: Tenant,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<Vec<SessionId>> {
        let subject = subject.clone();
        self.run_without_deadline(|inner| async move {
            inner.damaged_sessions(tenant, subject, until).await
        })
        .await
    }

    async fn session_rows(&self, session_id: SessionId) -> StoreResult<SessionRows> {
        self.run_without_deadline(|inner| inner.session_rows(session_id))
            .await
    }

    async fn erase_session(&self, session_id: SessionId) -> StoreResult<()> {
        self.run_without_deadline(|inner| inner.erase_session(session_id))
            .await
    }

    async fn remove_telemetry(&self, session_id: SessionId) -> StoreResult<()> {
        self.run_without_deadline(|inner| inner.remove_telemetry(session_id))
            .await
    }

    async fn remove_messages(&self, session_id: SessionId) -> StoreResult<()> {
        self.run_without_deadline(|inner| inner.remove_messages(session_id))
            .await
    }

    async fn learned_by(&self, session_id: SessionId) -> StoreResult<Vec<[u8; 32]>> {
        self.run_with_deadline(|inner| async move { inner.learned_by(session_id).await })
            .await
    }

    async fn replace_learned(
        &self,
        key: [u8; 32],
        expected: Vec<u8>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        self.run_to_completion(
            |inner| async move { inner.replace_learned(key, expected, data).await },
        )
        .await
    }

    async fn recorders(
        &self,
        after: Option<RecorderId>,
        limit: usize,
    ) -> StoreResult<RecorderPage> {
        self.run_without_deadline(|inner| async move { inner.recorders(after, limit).await })
            .await
    }

    async fn erase_idempotency_keys(
        &self,
        tenant: Tenant,
        until: TimestampMs,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Removed<Vec<u8>>> {
        self.run_without_deadline(|inner| inner.erase_idempotency_keys(tenant, until, after, limit))
            .await
    }

    fn rows_expire(&self) -> bool {
        true
    }

    async fn renew_session(&self, session_id: SessionId) -> StoreResult<bool> {
        self.run_without_deadline(|inner| inner.renew_session(session_id))
            .await
    }

    async fn requeue(&self, session_id: SessionId) -> StoreResult<()> {
        self.run_without_deadline(|inner| async move { inner.requeue(session_id).await })
            .await
    }

    async fn purge(&self) -> StoreResult<()> {
        Ok(())
    }
}
