//! Imports another store's data with its numbers and times. The session's row comes last, so an
//! interrupted import of a session starts over; every write is idempotent.

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::retention::is_of_one_session;
use porchlight_core::webhook::{AttemptResult, Index, ManualRetry, State as MessageState};
use porchlight_ports::{
    DeliveryRow, Endpoint, JournalEntry, Note, PodRow, RecorderRow, StoreResult, StoredInsight,
};
use porchlight_schema::ids::{EndpointId, RecorderId, SessionId};
use porchlight_schema::limits::RECORDER_EXPIRES_SEC_MAX;
use porchlight_schema::message::{Message, MessageEvent};
use porchlight_schema::session::{SessionEnd, SessionStart};
use porchlight_schema::time::TimestampMs;

use super::journal::note_bytes;
use super::layout::slots::AT_ONCE;
use super::layout::slots::OutboxKind;
use super::sessions::starts::IdempotencyRecord;
use super::sessions::state::{OfficialInsight, SessionRecord, State};
use super::statements::db::{Lwt, encode, id_bytes};
use super::webhooks::outbox::Cursor;
use super::webhooks::relay::number_cell;
use super::work::live_sessions::WorkTable;
use super::{CqlStore, Inner};

/// A message, its state, and its finished attempts by number.
pub(super) type ImportedMessage = (Message, DeliveryRow, Vec<(u32, AttemptResult)>);

/// A session of another store, without its batches.
#[derive(Debug, Clone)]
pub(crate) struct ImportedSession {
    /// The start of the session.
    pub(crate) start: SessionStart,
    /// The end of the session.
    pub(crate) end: Option<SessionEnd>,
    /// The newest insight of the session.
    pub(crate) insight: Option<StoredInsight>,
    /// Whether the insight may not cover all data.
    pub(crate) needs_rescoring: bool,
    /// The PoD of the session.
    pub(crate) pod: Option<PodRow>,
    /// The notes of the session.
    pub(crate) notes: Vec<Note>,
    /// The messages of the session, in order.
    pub(crate) messages: Vec<ImportedMessage>,
}

impl CqlStore {
    /// Returns whether a session was imported completely.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn has_session(&self, session_id: SessionId) -> StoreResult<bool> {
        Ok(self.inner.record(session_id).await?.is_some())
    }

    /// Imports batches of a session.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_batches(
        &self,
        session_id: SessionId,
        batches: Vec<JournalEntry>,
    ) -> StoreResult<()> {
        let writing: Vec<_> = batches
            .iter()
            .map(|entry| self.inner.put_batch(session_id, entry))
            .collect();
        let writing = stream::iter(writing).buffer_unordered(AT_ONCE);
        writing.try_collect::<Vec<()>>().await.map(drop)
    }

    /// Imports a session whose batches were imported.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_session(&self, session: ImportedSession) -> StoreResult<()> {
        self.run_without_deadline(|inner| async move { inner.import(&session).await })
            .await
    }

    /// Imports the list of the learned rows that a session wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_learned_by(
        &self,
        session_id: SessionId,
        keys: &[[u8; 32]],
    ) -> StoreResult<()> {
        let (db, session) = (&self.inner.db, session_id.to_bytes());
        for key in keys {
            let values = (
                session.as_slice(),
                key.as_slice(),
                self.inner.row_ttls.retained,
            );
            db.write(&db.statements.learned_by_put, values).await?;
        }
        Ok(())
    }

    /// Imports a requested retry of an imported message.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_request(
        &self,
        endpoint: &Endpoint,
        request: ManualRetry,
    ) -> StoreResult<()> {
        let inner = &self.inner;
        let Some(row) = inner.delivery_row(endpoint.tenant, request.id).await? else {
            return Ok(());
        };
        let data = (request.session_id, row.queued.number, request.again);
        let (kind, at) = (OutboxKind::Manual, request.requested_at);
        inner
            .put_outbox(endpoint.id, kind, at, request.id, &data)
            .await
    }

    /// Imports an idempotency key, by its hash, whose session was imported.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_idempotency(
        &self,
        hash: &[u8],
        body_hash: [u8; 32],
        session_id: SessionId,
    ) -> StoreResult<()> {
        let Some(record) = self.inner.record(session_id).await? else {
            return Ok(());
        };
        let record = IdempotencyRecord {
            body_hash,
            message_at: record.start.created_at,
            record,
            event: MessageEvent::SessionStarted,
            body: "".into(),
        };
        self.inner.put_idempotency(hash, record).await.map(drop)
    }

    /// Imports a recorder unless it exists. The expiry is part of data that only the service reads,
    /// so the row lives as long as a recorder may until the next push writes it again.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_recorder(
        &self,
        id: RecorderId,
        row: RecorderRow,
    ) -> StoreResult<()> {
        let latest = id
            .made_at()
            .plus_ms(i64::from(RECORDER_EXPIRES_SEC_MAX) * 1_000);
        self.run_without_deadline(|inner| async move { inner.put_recorder(id, &row, latest).await })
            .await
    }

    /// Returns the ids of all sessions, in no order.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub(crate) async fn session_ids(
        &self,
    ) -> StoreResult<BoxStream<'static, StoreResult<SessionId>>> {
        let db = &self.inner.db;
        let rows = db.stream::<(Vec<u8>,)>(&db.statements.sessions_all, ());
        let ids = rows.await?.map(|row| {
            let (id,) = row?;
            Ok(SessionId::from_bytes(id_bytes("sessions", &id)?))
        });
        Ok(ids.boxed())
    }

    /// Imports learned data.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    pub(crate) async fn import_learned(&self, key: [u8; 32], value: &[u8]) -> StoreResult<()> {
        let (inner, key_bytes) = (&self.inner, key.as_slice());
        if is_of_one_session(&key) {
            return inner.put_trace(key_bytes, value).await;
        }
        let put = &inner.db.statements.learned_put;
        inner.db.write(put, (key_bytes, value)).await
    }
}

impl Inner {
    async fn import(&self, session: &ImportedSession) -> StoreResult<()> {
        let start = &session.start;
        let session_id = start.session_id;
        let (key, ttl) = (session_id.to_bytes(), self.row_ttls.retained);
        let statements = &self.db.statements;
        for note in &session.notes {
            let note = note_bytes(*note);
            let values = (key.as_slice(), note.as_slice(), ttl);
            self.db.write(&statements.note_put, values).await?;
        }
        if let Some(pod) = &session.pod {
            self.put_pod(session_id, pod).await?;
        }
        let queued = self.import_messages(session).await?;
        let official = match &session.insight {
            Some(insight) => Some(self.import_insight(session_id, insight).await?),
            None => None,
        };
        let first = session.messages.first();
        let record = SessionRecord {
            start: start.clone(),
            first: first
                .filter(|(message, ..)| message.event == MessageEvent::SessionStarted)
                .map(|(_, row, _)| row.endpoint_id),
        };
        let count = u32::try_from(session.messages.len()).unwrap_or(u32::MAX);
        let state = State::imported(session.end, official, count);
        // An existing row belongs to an earlier import or has changed since.
        let data = encode(&state)?;
        let values = (key.as_slice(), 1_i64, data.as_slice(), ttl);
        let made = self.db.lightweight(&statements.state_make, values).await?;
        if let Lwt::InDoubt(error) = made {
            // A serial read completes the transaction or rules it out. Without a state the session
            // would count as live; the next run imports it again, because its row comes last.
            let stored = self.serial_state(session_id).await?;
            stored.ok_or(error)?;
        }
        self.list_session(start).await?;
        if session.needs_rescoring {
            self.mark_rescore(session_id, b"import").await?;
        }
        if session.end.is_none() {
            let (shard, bucket) = self.open_bucket(WorkTable::Live, session_id).await?;
            let values = (shard, bucket, key.as_slice(), self.row_ttls.live);
            self.db.write(&statements.live_put, values).await?;
        }
        for (endpoint_id, kind, at, row) in queued {
            let body_key = (session_id, row.queued.number);
            self.put_outbox(endpoint_id, kind, at, row.queued.id, &body_key)
                .await?;
        }
        // The session's row comes last: the next run skips a session that has one.
        let data = encode(&record)?;
        let values = (key.as_slice(), data.as_slice(), ttl);
        self.db.write(&statements.session_put, values).await?;
        Ok(())
    }

    /// Imports messages and their states. Returns the messages that must be examined.
    async fn import_messages<'s>(
        &self,
        session: &'s ImportedSession,
    ) -> StoreResult<Vec<(EndpointId, OutboxKind, TimestampMs, &'s DeliveryRow)>> {
        let mut cursor = Cursor::default();
        let mut queued = Vec::new();
        for (message, row, attempts) in &session.messages {
            self.put_message(message, row.endpoint_id).await?;
            for (number, report) in attempts {
                let (id, data) = (message.id.to_bytes(), encode(report)?);
                let number = number_cell(*number);
                let values = (
                    id.as_slice(),
                    number,
                    data.as_slice(),
                    self.row_ttls.retained,
                );
                let put = &self.db.statements.attempt_put;
                self.db.write(put, values).await?;
            }
            if row.queued.state == MessageState::Failed {
                self.list_failed(message.tenant, message.id).await?;
            }
            let at = match row.queued.index() {
                Index::Ready => Some((OutboxKind::Ready, message.id.made_at())),
                Index::Due(due_at) => Some((OutboxKind::Due, due_at)),
                Index::Held(until) => Some((OutboxKind::Held, until)),
                Index::None => None,
            };
            queued.extend(at.map(|(kind, at)| (row.endpoint_id, kind, at, row)));
            cursor.import(row);
        }
        if !session.messages.is_empty() {
            let shard = session.start.tenant.organization_id.shard();
            // The keyspace has no cursor of the session yet, so the old cursor is not read.
            let acting = self.ownership.generation(shard);
            self.put_cursor(shard, session.start.session_id, acting, cursor)
                .await?;
        }
        Ok(queued)
    }

    async fn import_insight(
        &self,
        session_id: SessionId,
        insight: &StoredInsight,
    ) -> StoreResult<OfficialInsight> {
        // The tag is constant, so a repeated import writes the same row.
        let (tag, key) = ([0; 16], session_id.to_bytes());
        let (revision, data) = (insight.record.revision, encode(insight)?);
        let values = (
            key.as_slice(),
            number_cell(revision),
            tag.as_slice(),
            data.as_slice(),
            self.row_ttls.retained,
        );
        let put = &self.db.statements.insight_put;
        self.db.write(put, values).await?;
        Ok(OfficialInsight {
            revision,
            tag,
            covered: insight.covered,
        })
    }
}
