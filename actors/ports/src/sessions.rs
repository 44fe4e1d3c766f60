//! Sessions, their snapshots and their insights.

mod filter;
mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::message::{Message, MessageEvent};
use porchlight_schema::review::Review;
use porchlight_schema::session::{Pod, SessionEnd, SessionStart, SessionStatus, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::StoreResult;
pub use filter::SessionFilter;
pub use outcome::SessionOutcome;

/// A message to be committed together with its cause. The store queues it under the session's next
/// number if the tenant has a webhook, and drops it otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageBody {
    /// The event of the message.
    pub event: MessageEvent,
    /// The time of the message: of the session's start or end, or of the insight's update.
    pub created_at: TimestampMs,
    /// The exact body.
    pub body: Arc<str>,
}

/// An `Idempotency-Key` and its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key, unique per tenant.
    pub key: String,
    /// SHA-256 of the request's body.
    pub body_hash: [u8; 32],
}

/// A new session.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// The start of the session.
    pub start: SessionStart,
    /// The idempotency key of the request, remembered for
    /// [`porchlight_schema::limits::IDEMPOTENCY_MS`] from `start.created_at`.
    pub idempotency: Option<Idempotency>,
    /// The `session.started` message.
    pub message: MessageBody,
}

/// The outcome of a start.
#[derive(Debug, Clone, PartialEq)]
pub enum StartOutcome {
    /// The session was created.
    Created,
    /// An earlier request with this key and body created this session.
    Repeated(Box<SessionStart>),
    /// The key was already used with another body.
    KeyReused,
}

/// A session's start and end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The start of the session.
    pub start: SessionStart,
    /// The end; `None` while the session is live.
    pub end: Option<SessionEnd>,
}

impl SessionRow {
    /// Returns the status: recording without an end, completed with one.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        if self.end.is_some() {
            SessionStatus::Completed
        } else {
            SessionStatus::Recording
        }
    }
}

/// The outcome of ending a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOutcome {
    /// The end that counts: this one, or an earlier one.
    pub end: SessionEnd,
    /// Whether this end counts.
    pub is_first: bool,
}

impl EndOutcome {
    /// Returns the outcome of an end that counts.
    #[must_use]
    pub fn first(end: SessionEnd) -> Self {
        Self {
            end,
            is_first: true,
        }
    }

    /// Returns the outcome of an end of a session that had ended before with `end`.
    #[must_use]
    pub fn later(end: SessionEnd) -> Self {
        Self {
            end,
            is_first: false,
        }
    }
}

/// A PoD and its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRow {
    /// The PoD itself.
    pub pod: Pod,
    /// The time at which the service received the PoD.
    pub received_at: TimestampMs,
}

impl PodRow {
    /// Returns the row that replaces the stored PoD, or `None` if the PoD is unchanged. The time of
    /// the row is always later than the time of the stored PoD, even if the clock was set back: an
    /// acknowledged PoD must not be dropped.
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

/// A page of a list, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, C> {
    /// The rows of the page.
    pub rows: Vec<T>,
    /// The cursor after which the next page begins; `None` at the end.
    pub next: Option<C>,
}

/// The data that an insight covers. A start compares it with the stored data to find insights that
/// are out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "StoredCovered")]
pub struct Covered {
    /// Number of batches in the journal.
    pub batches: u32,
    /// The time at which the service received the PoD.
    pub pod_received_at: Option<TimestampMs>,
    /// The time at which the app stopped a session that the service had already ended.
    pub late_stop_at: Option<TimestampMs>,
}

/// [`Covered`] as it is stored. Rows of version 1.0 hold `pod_received_at: Option<TimestampMs>` in
/// place of `beyond`; postcard writes both in the same bytes.
#[derive(Serialize, Deserialize)]
struct StoredCovered {
    batches: u32,
    beyond: StoredBeyond,
}

/// The data that an insight covers in addition to batches. The order of the variants is stored.
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

/// A stored insight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredInsight {
    /// The insight itself.
    pub record: InsightRecord,
    /// The data that it covers.
    pub covered: Covered,
    /// Knowledge of the place and of earlier traces when the session was first scored, as the
    /// scorer wrote it; later scorings use it again.
    pub known: Vec<u8>,
    /// Samples that no detector saw. Rows of version 1.0 do not have it, and are read as having
    /// none.
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

/// A machine's state at one point of its session. Snapshots may be discarded at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The owner's generation; the highest counts.
    pub generation: u64,
    /// The `seq` that the machine expects next.
    pub next_seq: u32,
    /// The encoded state.
    pub state: Vec<u8>,
}

/// The parts of a session that a store knows, without a read, to be unwritten. A part that is
/// `false` may have been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unwritten {
    /// Whether the journal has no batch.
    pub batches: bool,
    /// Whether there are no notes.
    pub notes: bool,
    /// Whether there is no PoD.
    pub pod: bool,
    /// Whether there is no insight.
    pub insight: bool,
}

/// The callback that returns whether the caller already knows a live session.
pub type IsKnown = Arc<dyn Fn(SessionId) -> bool + Send + Sync>;

/// The storage of sessions.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Creates a session, remembers its idempotency key and queues its message, in one step.
    async fn start(&self, new: NewSession) -> StoreResult<StartOutcome>;

    /// Returns the earlier outcome of a start with this key, at `now`; never
    /// [`StartOutcome::Created`]. Returns `None` if the key is unknown.
    async fn find_earlier_start(
        &self,
        tenant: Tenant,
        idempotency: Idempotency,
        now: TimestampMs,
    ) -> StoreResult<Option<StartOutcome>>;

    /// Returns a session of any tenant: the caller checks the tenant.
    async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>>;

    /// Returns a session of any tenant if the store knows it without a read. Another process may
    /// have changed it a few seconds ago, so the caller makes only changes that check the stored
    /// state, such as [`Sessions::end`]. By default, a store knows nothing.
    fn known(&self, session_id: SessionId) -> Option<SessionRow> {
        let _ = session_id;
        None
    }

    /// Returns the parts of a session that the store knows to be unwritten, under the same
    /// condition as [`Sessions::known`].
    fn unwritten(&self, session_id: SessionId) -> Unwritten {
        let _ = session_id;
        Unwritten::default()
    }

    /// Ends a session and queues its message, in one step. The first end counts; a later end
    /// changes and queues nothing. `pod`, if given, is attached in the same step. Returns `None` if
    /// there is no such session.
    async fn end(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>>;

    /// Replaces the end of a session that the service ended with `end`, the app's own stop,
    /// together with its proof of delivery, and queues nothing. The first such stop counts, and an
    /// end by the app stays, without the proof. Returns `None` if there is no such session or the
    /// session has not ended.
    async fn stop_after_timeout(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
    ) -> StoreResult<Option<EndOutcome>>;

    /// Attaches or replaces a PoD. Returns `false` without the session or for an identical PoD.
    async fn attach_pod(&self, session_id: SessionId, pod: PodRow) -> StoreResult<bool>;

    /// Returns a session's PoD.
    async fn pod(&self, session_id: SessionId) -> StoreResult<Option<PodRow>>;

    /// Returns a tenant's sessions, newest first, at most `limit`, after the session `after` in the
    /// order of the list.
    async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>>;

    /// Returns the live sessions of these shards in order of id, after `after`, at most `limit`.
    async fn live(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionRow>>;

    /// Returns live sessions like [`Sessions::live`], without those that the caller knows. The
    /// result is empty only if no unknown session is left. A store may return a known session
    /// nevertheless.
    async fn live_unknown(
        &self,
        shards: ShardSet,
        mut after: Option<SessionId>,
        limit: usize,
        is_known: IsKnown,
    ) -> StoreResult<Vec<SessionRow>> {
        loop {
            let page = self.live(shards, after, limit).await?;
            let Some(last) = page.last() else {
                return Ok(page);
            };
            after = Some(last.start.session_id);
            let unknown = page
                .into_iter()
                .filter(|row| !is_known(row.start.session_id));
            let unknown: Vec<_> = unknown.collect();
            if !unknown.is_empty() {
                return Ok(unknown);
            }
        }
    }

    /// Returns sessions of these shards that have ended and whose insight may not cover all stored
    /// data, in order of id, after `after`, at most `limit`. The end, a stop after it, a late batch
    /// and a PoD mark a session in the step that stores them; the insight that covers them removes
    /// the mark.
    async fn to_score(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>>;

    /// Returns the messages of a session, in order.
    async fn messages(&self, session_id: SessionId) -> StoreResult<Vec<Message>>;

    /// Returns a message by its id.
    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>>;
}

/// The storage of snapshots.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Writes a snapshot; it need not be durable.
    async fn put_snapshot(&self, session_id: SessionId, snapshot: Snapshot) -> StoreResult<()>;

    /// Returns the newest snapshot: the highest generation, then the highest `next_seq`.
    async fn newest_snapshot(&self, session_id: SessionId) -> StoreResult<Option<Snapshot>>;
}

/// Stores insights and learned data.
#[async_trait]
pub trait Insights: Send + Sync {
    /// Commits an insight and queues its message, in one step, if its revision follows the stored
    /// revision (1 if no revision is stored). Returns `false` and changes nothing if another commit
    /// was faster. `learned` is written in the same step.
    async fn commit_insight(
        &self,
        session_id: SessionId,
        insight: StoredInsight,
        message: MessageBody,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<bool>;

    /// Returns whether the newest insight of an ended session covers all stored data about the
    /// session, and if so removes the marks by which other nodes would find it. The caller has
    /// known of the end for [`END_SETTLES_MS`](porchlight_schema::limits::END_SETTLES_MS). A store
    /// of one process has no such marks; it changes nothing and returns `false`.
    async fn settle(&self, session_id: SessionId) -> StoreResult<bool> {
        let _ = session_id;
        Ok(false)
    }

    /// Returns a session's newest insight.
    async fn insight(&self, session_id: SessionId) -> StoreResult<Option<StoredInsight>>;

    /// Returns the outcome of each of these sessions, in their order; `None` for one without an
    /// insight. A page of a list reads at most [`LIST_INSIGHTS_READ_MAX`].
    ///
    /// [`LIST_INSIGHTS_READ_MAX`]: porchlight_schema::limits::LIST_INSIGHTS_READ_MAX
    async fn outcomes(
        &self,
        session_ids: Vec<SessionId>,
    ) -> StoreResult<Vec<Option<SessionOutcome>>> {
        let mut outcomes = Vec::with_capacity(session_ids.len());
        for session_id in session_ids {
            outcomes.push(self.insight(session_id).await?.map(SessionOutcome::from));
        }
        Ok(outcomes)
    }

    /// Replaces the review of a session's decision, regardless of its insight. Returns `false` if
    /// there is no such session.
    async fn put_review(&self, session_id: SessionId, review: Review) -> StoreResult<bool>;

    /// Returns the review of a session's decision.
    async fn review(&self, session_id: SessionId) -> StoreResult<Option<Review>>;

    /// Returns the data learned under this key.
    async fn recall(&self, key: [u8; 32]) -> StoreResult<Option<Vec<u8>>>;

    /// Returns the data learned under each of a few keys; keys without data are missing.
    async fn recall_all(&self, keys: Vec<[u8; 32]>) -> StoreResult<BTreeMap<[u8; 32], Vec<u8>>>;
}

#[cfg(test)]
mod tests;
