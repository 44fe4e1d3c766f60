//! The start of a session, and its idempotency key.

use std::sync::Arc;

use porchlight_ports::{
    Idempotency, MessageBody, NewSession, StartOutcome, StoreError, StoreResult,
};
use porchlight_schema::limits::IDEMPOTENCY_MS;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::state::{LWT_ATTEMPTS_MAX, SessionRecord, back_off, message};
use crate::cql::Inner;
use crate::cql::layout::slots::tenant_key;
use crate::cql::statements::db::{Lwt, decode, encode};
use crate::cql::statements::write_group::WriteGroup;
use crate::cql::webhooks::relay::MessageHead;
use crate::cql::work::live_sessions::WorkTable;

/// The stored result of an idempotency key, with everything needed to finish the start that it
/// began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::cql) struct IdempotencyRecord {
    pub(in crate::cql) body_hash: [u8; 32],
    pub(in crate::cql) record: SessionRecord,
    pub(in crate::cql) event: MessageEvent,
    pub(in crate::cql) message_at: TimestampMs,
    pub(in crate::cql) body: Arc<str>,
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
    pub(in crate::cql) async fn start(&self, new: NewSession) -> StoreResult<StartOutcome> {
        let session_id = new.start.session_id;
        // Nobody else has the random id: only a repeated call finds the session.
        if let Some((_, made)) = self.caches.records.get(&session_id) {
            return Ok(StartOutcome::Repeated(Box::new(made.start.clone())));
        }
        let first = self.message_endpoint(new.start.tenant).await?;
        let record = SessionRecord {
            start: new.start,
            first,
        };
        self.begin_own(&record, &new.message);
        let started = self.start_new(record, new.message, new.idempotency).await;
        if !matches!(started, Ok(StartOutcome::Created)) {
            self.evict_own(session_id);
        }
        started
    }

    /// Creates a session, unless its idempotency key has one.
    async fn start_new(
        &self,
        record: SessionRecord,
        message: MessageBody,
        idempotency: Option<Idempotency>,
    ) -> StoreResult<StartOutcome> {
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

    /// Creates a session. Its own row is written last: without it, readers find none of the other
    /// rows.
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
        if let Some((message, endpoint_id)) = &message {
            self.cache_body(message);
            self.queue(&MessageHead::new(message, *endpoint_id)).await?;
        }
        self.cache_record(&Arc::new(record.clone()));
        Ok(())
    }

    /// Creates the session of an idempotency key, unless it exists. The process that stored the key
    /// may have stopped before it created the session.
    async fn finish_start(&self, stored: &IdempotencyRecord) -> StoreResult<()> {
        let session_id = stored.record.start.session_id;
        if self.record(session_id).await?.is_none() {
            self.create_session(&stored.record, stored.message())
                .await?;
        }
        Ok(())
    }

    pub(super) async fn find_earlier_start(
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
        let earlier: IdempotencyRecord = decode("idempotency", &stored)?;
        if now >= earlier.record.start.created_at.plus_ms(IDEMPOTENCY_MS) {
            return Ok(None);
        }
        if earlier.body_hash != idempotency.body_hash {
            return Ok(Some(StartOutcome::KeyReused));
        }
        self.finish_start(&earlier).await?;
        let start = Box::new(earlier.record.start);
        Ok(Some(StartOutcome::Repeated(start)))
    }

    /// Stores the record `ours` under an idempotency key, or returns the record that was stored
    /// there within the last day.
    pub(in crate::cql) async fn put_idempotency(
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
        // A plain read shows a refused or applied transaction; a serial read resolves an outcome in
        // doubt.
        let mut read = &statements.idempotency_get;
        for _ in 0..LWT_ATTEMPTS_MAX {
            let stored: Option<(Vec<u8>,)> = self.db.row(read, (tenant, hash)).await?;
            let outcome = match stored {
                Some((stored,)) => {
                    let earlier: IdempotencyRecord = decode("idempotency", &stored)?;
                    let is_ours = earlier == ours;
                    let created_at = earlier.record.start.created_at;
                    if is_ours || now < created_at.plus_ms(IDEMPOTENCY_MS) {
                        return Ok(earlier);
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
}
