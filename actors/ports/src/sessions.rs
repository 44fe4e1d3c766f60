//! Sessions, their snapshots, and what they come to.

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::message::{Message, MessageEvent};
use porchlight_schema::session::{Pod, SessionEnd, SessionStart, SessionStatus, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::StoreResult;

/// A message to be committed with what causes it. The store queues it if the tenant has an endpoint that is enabled,
/// under the session's next number, and drops it otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageBody {
    /// What it tells.
    pub event: MessageEvent,
    /// When it happened.
    pub created_at: TimestampMs,
    /// The exact body.
    pub body: Arc<str>,
}

/// An `Idempotency-Key` and what came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key, per tenant.
    pub key: String,
    /// SHA-256 of the request's body.
    pub body_hash: [u8; 32],
}

/// A session to be made.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its start.
    pub start: SessionStart,
    /// Remembered for [`porchlight_schema::limits::IDEMPOTENCY_MS`] from `start.created_at`.
    pub idempotency: Option<Idempotency>,
    /// `session.started`.
    pub message: MessageBody,
}

/// How a start went.
#[derive(Debug, Clone, PartialEq)]
pub enum StartOutcome {
    /// The session was made.
    Created,
    /// The same key and body made this one before.
    Repeated(Box<SessionStart>),
    /// The same key came with another body.
    KeyReused,
}

/// A session as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// How it began.
    pub start: SessionStart,
    /// How it ended; none while it records.
    pub end: Option<SessionEnd>,
}

impl SessionRow {
    /// Recording without an end, completed with one.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        if self.end.is_some() {
            SessionStatus::Completed
        } else {
            SessionStatus::Recording
        }
    }
}

/// How an end went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOutcome {
    /// The end that counts: this one, or the one that came first.
    pub end: SessionEnd,
    /// Whether it is this one.
    pub first: bool,
}

/// A PoD and when it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRow {
    /// The PoD.
    pub pod: Pod,
    /// When the service took it.
    pub received_at: TimestampMs,
}

impl PodRow {
    /// What replaces a stored PoD when this one comes; none where it is the same. It counts as later than the stored one,
    /// whatever the clock said: a clock that was set back must not drop a PoD that is acknowledged.
    #[must_use]
    pub fn replacing(mut self, stored: Option<&Self>) -> Option<Self> {
        if let Some(stored) = stored {
            if stored.pod == self.pod {
                return None;
            }
            self.received_at = self.received_at.max(stored.received_at.plus_ms(1));
        }
        Some(self)
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Only in this state.
    pub status: Option<SessionStatus>,
    /// Only of this delivery.
    pub delivery_id: Option<String>,
    /// Only of this courier.
    pub external_rider_id: Option<String>,
    /// Only made at this time or later.
    pub from: Option<TimestampMs>,
    /// Only made before this time.
    pub to: Option<TimestampMs>,
}

/// A part of a list, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, C> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page begins: after this; none at the end.
    pub next: Option<C>,
}

/// What of a session an insight was made from; by it a start-up finds insights that are behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "StoredCovered")]
pub struct Covered {
    /// Batches in the journal.
    pub batches: u32,
    /// When the PoD came.
    pub pod_received_at: Option<TimestampMs>,
    /// When the app stopped the session that the service had ended.
    pub late_stop_at: Option<TimestampMs>,
}

/// [`Covered`] as it is stored. Rows of version 1.0 hold `pod_received_at: Option<TimestampMs>` in place of `beyond`;
/// postcard writes both in the same bytes.
#[derive(Serialize, Deserialize)]
struct StoredCovered {
    batches: u32,
    beyond: StoredBeyond,
}

/// What an insight covers beside batches. The order of the variants is stored.
#[derive(Serialize, Deserialize)]
enum StoredBeyond {
    Nothing,
    Pod(TimestampMs),
    LateStop(TimestampMs),
    PodAndLateStop(TimestampMs, TimestampMs),
}

impl Serialize for Covered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return StoredCovered::from(*self).serialize(serializer);
        }
        // By name, where names are written: for people, and for comparing.
        let mut fields = serializer.serialize_struct("Covered", 3)?;
        fields.serialize_field("batches", &self.batches)?;
        fields.serialize_field("pod_received_at", &self.pod_received_at)?;
        fields.serialize_field("late_stop_at", &self.late_stop_at)?;
        fields.end()
    }
}

impl From<StoredCovered> for Covered {
    fn from(stored: StoredCovered) -> Self {
        let (pod_received_at, late_stop_at) = match stored.beyond {
            StoredBeyond::Nothing => (None, None),
            StoredBeyond::Pod(pod) => (Some(pod), None),
            StoredBeyond::LateStop(stop) => (None, Some(stop)),
            StoredBeyond::PodAndLateStop(pod, stop) => (Some(pod), Some(stop)),
        };
        Self {
            batches: stored.batches,
            pod_received_at,
            late_stop_at,
        }
    }
}

impl From<Covered> for StoredCovered {
    fn from(covered: Covered) -> Self {
        Self {
            batches: covered.batches,
            beyond: match (covered.pod_received_at, covered.late_stop_at) {
                (None, None) => StoredBeyond::Nothing,
                (Some(pod), None) => StoredBeyond::Pod(pod),
                (None, Some(stop)) => StoredBeyond::LateStop(stop),
                (Some(pod), Some(stop)) => StoredBeyond::PodAndLateStop(pod, stop),
            },
        }
    }
}

/// An insight as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredInsight {
    /// The insight.
    pub record: InsightRecord,
    /// What it was made from.
    pub covered: Covered,
    /// What was known beforehand when the session was first scored, as the scorer wrote it; used again ever after.
    pub known: Vec<u8>,
    /// Samples that no detector saw. Rows of version 1.0 do not have it, and are read as having none.
    pub dropped: DroppedSamples,
}

impl<'de> Deserialize<'de> for StoredInsight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const FIELDS: &[&str] = &["record", "covered", "known", "dropped"];
        deserializer.deserialize_struct("StoredInsight", FIELDS, StoredInsightFields)
    }
}

/// Reads the fields of a [`StoredInsight`] in their order, as postcard stores them.
struct StoredInsightFields;

impl<'de> Visitor<'de> for StoredInsightFields {
    type Value = StoredInsight;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the fields of a stored insight in order")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<StoredInsight, A::Error> {
        let missing = |place| A::Error::invalid_length(place, &"4 fields");
        Ok(StoredInsight {
            record: fields.next_element()?.ok_or_else(|| missing(0))?,
            covered: fields.next_element()?.ok_or_else(|| missing(1))?,
            known: fields.next_element()?.ok_or_else(|| missing(2))?,
            // The bytes of a row of version 1.0 end here.
            dropped: fields.next_element().ok().flatten().unwrap_or_default(),
        })
    }
}

/// A machine's state at a point of its session. May be thrown away at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Which owner wrote it; higher counts.
    pub generation: u64,
    /// The `seq` that the machine expects next.
    pub next_seq: u32,
    /// The state.
    pub state: Vec<u8>,
}

/// Sessions.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Makes a session, remembers its idempotency key and queues its message, in one step.
    async fn start(&self, new: NewSession) -> StoreResult<StartOutcome>;

    /// What a start with this key has come to before, at `now`: never [`StartOutcome::Created`]. None: nothing is known of it.
    async fn started_before(
        &self,
        tenant: Tenant,
        idempotency: Idempotency,
        now: TimestampMs,
    ) -> StoreResult<Option<StartOutcome>>;

    /// A session, whoever's it is: the caller checks the tenant.
    async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>>;

    /// Ends a session and queues its message, in one step; the first end counts, a later one changes nothing and
    /// queues nothing. `pod`, when given, is attached in the same step. None: there is no such session.
    async fn end(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>>;

    /// Replaces the end of a session that the service ended by `end`, the app's own stop, and queues nothing; the first
    /// such stop counts, and an end by the app stays. None: there is no such session, or it has not ended.
    async fn stop_after_timeout(
        &self,
        session_id: SessionId,
        end: SessionEnd,
    ) -> StoreResult<Option<EndOutcome>>;

    /// Attaches a PoD; a later one replaces it. False: the same one was there, nothing changed.
    async fn attach_pod(&self, session_id: SessionId, pod: PodRow) -> StoreResult<bool>;

    /// A session's PoD.
    async fn pod(&self, session_id: SessionId) -> StoreResult<Option<PodRow>>;

    /// A tenant's sessions, newest first, `limit` at most, made before the session `after` (in the order of the list).
    async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>>;

    /// Sessions of these shards that record, in order of id, after `after`, at most `limit`.
    async fn live(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionRow>>;

    /// Sessions of these shards that have ended and whose insight may not cover all there is, in order of id, after
    /// `after`, at most `limit`. The end, a stop after it, a late batch and a PoD mark a session in the step that stores
    /// them; the insight that covers them takes the mark away.
    async fn behind(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>>;

    /// The messages of a session, in order.
    async fn messages(&self, session_id: SessionId) -> StoreResult<Vec<Message>>;

    /// A message by its id.
    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>>;
}

/// Snapshots.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Writes a snapshot; it need not be durable.
    async fn put_snapshot(&self, session_id: SessionId, snapshot: Snapshot) -> StoreResult<()>;

    /// The newest snapshot: the highest generation, then the highest `next_seq`.
    async fn newest_snapshot(&self, session_id: SessionId) -> StoreResult<Option<Snapshot>>;
}

/// Insights, and what is learned from them.
#[async_trait]
pub trait Insights: Send + Sync {
    /// Commits an insight and queues its message, in one step, if its revision is the one after what is stored
    /// (1 where nothing is). False: another one came first; nothing changed. `learned` is written in the same step.
    async fn commit_insight(
        &self,
        session_id: SessionId,
        insight: StoredInsight,
        message: MessageBody,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<bool>;

    /// A session's newest insight.
    async fn insight(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>>;

    /// What was learned under this key.
    async fn recall(&self, key: [u8; 32]) -> StoreResult<Option<Vec<u8>>>;
}

#[cfg(test)]
mod tests;
