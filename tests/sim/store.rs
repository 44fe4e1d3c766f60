//! The store that the simulated nodes see: the real one on memory, behind calls that are slow, are
//! refused, lose their answer, or panic.
//!
//! The real store has its own threads. A call is executed while the runtime's one thread stands
//! still, so that virtual time does not advance meanwhile and a seed always runs the same way.

mod block_on;
mod privacy;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use porchlight_ports::{
    Acknowledged, Appended, Collection, Document, Documents, EndOutcome, Idempotency, Insights,
    Journal, JournalEntry, Keys, MessageBody, NewSession, Note, Organization, Page, PodRow,
    RecorderRow, Recorders, SessionFilter, SessionRow, Sessions, Snapshot, Snapshots, StartOutcome,
    StoreError, StoreResult, StoredInsight,
};
use porchlight_schema::ids::{KeyId, MessageId, OrganizationId, RecorderId, SessionId, ShardSet};
use porchlight_schema::key::KeyRecord;
use porchlight_schema::message::Message;
use porchlight_schema::review::Review;
use porchlight_schema::session::{SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;

pub(crate) use block_on::block_on;

use crate::chance::Chance;
use crate::plan::FaultRates;

/// The text of every injected panic; the panic hook does not print these.
pub(crate) const INJECTED: &str = "an injected panic";
/// The maximum size of a snapshot. The service does not check it: it follows from the bounds of the
/// detectors' state and of the events.
const SNAPSHOT_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Append,
    Newest,
    Read,
    Count,
    Note,
    Notes,
    Start,
    Find,
    End,
    AttachPod,
    Pod,
    Live,
    ToScore,
    PutSnapshot,
    NewestSnapshot,
    CommitInsight,
    Insight,
    BadSnapshot,
    Other,
}

/// Returns the name of a session in the streams of chance.
pub(crate) fn subject(session_id: SessionId) -> u64 {
    u128::from_be_bytes(session_id.to_bytes()) as u64
}

/// Damages a snapshot so that it restores and then panics at the first batch, where arithmetic is
/// checked: its last field, the count of batches since the last snapshot, gets the maximum value.
fn damage(state: &mut Vec<u8>) {
    let last = state.pop();
    assert_eq!(last, Some(0), "a snapshot ends with a count of 0");
    state.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
}

/// The store of one life of a node.
pub(crate) struct FaultyStore {
    pub(crate) real: Arc<MemoryStore>,
    fault_rates: FaultRates,
    /// The seed and the life, which name the streams of chance.
    name: [u64; 2],
    counts: Mutex<BTreeMap<(Call, u64), u64>>,
    has_no_faults: AtomicBool,
    /// Whether the real store refuses everything from now on.
    broken: AtomicBool,
    /// Whether the rows of the journals are damaged.
    pub(crate) has_damaged_journals: AtomicBool,
}

impl FaultyStore {
    pub(crate) fn new(
        real: Arc<MemoryStore>,
        fault_rates: FaultRates,
        seed: u64,
        life: u64,
    ) -> Self {
        Self {
            real,
            fault_rates,
            name: [seed, life],
            counts: Mutex::default(),
            has_no_faults: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            has_damaged_journals: AtomicBool::new(false),
        }
    }

    /// Ends all faults.
    pub(crate) fn end_faults(&self) {
        self.has_no_faults.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_no_faults(&self) -> bool {
        self.has_no_faults.load(Ordering::Relaxed)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Returns the number of reads of the journal of a session.
    pub(crate) fn journal_reads(&self, id: SessionId) -> u64 {
        let counts = self.counts.lock().unwrap();
        let reads = counts.get(&(Call::Read, subject(id)));
        reads.copied().unwrap_or(0)
    }

    /// Returns the number of calls of this kind for this subject.
    fn nth(&self, call: Call, subject: u64) -> u64 {
        let mut counts = self.counts.lock().unwrap();
        let nth = counts.entry((call, subject)).or_default();
        *nth += 1;
        *nth
    }

    fn chance(&self, call: Call, subject: u64, nth: u64) -> Chance {
        Chance::of(&[self.name[0], self.name[1], call as u64, subject, nth])
    }

    async fn call<T>(
        &self,
        call: Call,
        about: Option<SessionId>,
        real: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let subject = about.map_or(0, subject);
        let nth = self.nth(call, subject);
        let mut chance = self.chance(call, subject, nth);
        let fault_rates = self.fault_rates;
        let mut dawdle_ms = || {
            if chance.permille(fault_rates.slow) {
                chance.between(1, fault_rates.slow_ms_max) as u64
            } else {
                1
            }
        };
        let (before_ms, after_ms) = (dawdle_ms(), dawdle_ms());
        let fair = self.has_no_faults();
        let mut strikes = |share| chance.permille(share) && !fair;
        let (refuse, lose) = (
            strikes(fault_rates.refuse),
            strikes(fault_rates.lose_answer),
        );
        let (panic_before, panic_after) = (
            strikes(fault_rates.panic / 2),
            strikes(fault_rates.panic / 2),
        );
        tokio::time::sleep(Duration::from_millis(before_ms)).await;
        assert!(!panic_before, "{INJECTED}");
        if refuse {
            return Err(StoreError::Overloaded);
        }
        let answer = block_on(real);
        if let Err(StoreError::Unavailable(_)) = &answer {
            self.broken.store(true, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        assert!(!panic_after, "{INJECTED}");
        if lose {
            return Err(StoreError::unavailable("the answer was lost"));
        }
        answer
    }
}

#[async_trait]
impl Journal for FaultyStore {
    async fn append(
        &self,
        id: SessionId,
        seq: u32,
        batch: porchlight_schema::sample::packed::PackedBatch,
        received_at: TimestampMs,
    ) -> StoreResult<Appended> {
        let real = self.real.append(id, seq, batch, received_at);
        self.call(Call::Append, Some(id), real).await
    }

    async fn newest(&self, id: SessionId) -> StoreResult<Option<(u32, TimestampMs)>> {
        self.call(Call::Newest, Some(id), self.real.newest(id))
            .await
    }

    async fn read(&self, id: SessionId, from: u32, limit: usize) -> StoreResult<Vec<JournalEntry>> {
        if self.has_damaged_journals.load(Ordering::Relaxed) {
            self.nth(Call::Read, subject(id));
            return Err(StoreError::Damaged("a batch".to_owned()));
        }
        self.call(
            Call::Read,
            Some(id),
            Journal::read(&*self.real, id, from, limit),
        )
        .await
    }

    async fn acknowledged(&self, id: SessionId, ranges_max: usize) -> StoreResult<Acknowledged> {
        let real = self.real.acknowledged(id, ranges_max);
        self.call(Call::Other, Some(id), real).await
    }

    async fn count(&self, id: SessionId) -> StoreResult<u32> {
        self.call(Call::Count, Some(id), self.real.count(id)).await
    }

    async fn note(&self, id: SessionId, note: Note) -> StoreResult<()> {
        self.call(Call::Note, Some(id), self.real.note(id, note))
            .await
    }

    async fn notes(&self, id: SessionId) -> StoreResult<Vec<Note>> {
        self.call(Call::Notes, Some(id), self.real.notes(id)).await
    }
}

#[async_trait]
impl Documents for FaultyStore {
    async fn document(&self, of: Collection, key: Vec<u8>) -> StoreResult<Option<Vec<u8>>> {
        self.real.document(of, key).await
    }

    async fn replace_document(
        &self,
        of: Collection,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        self.real.replace_document(of, key, expected, data).await
    }

    async fn documents(
        &self,
        of: Collection,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<Document>> {
        self.real.documents(of, after, limit).await
    }
}

#[async_trait]
impl Recorders for FaultyStore {
    async fn create_recorder(
        &self,
        id: RecorderId,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<()> {
        let real = self.real.create_recorder(id, data, expires_at);
        self.call(Call::Other, None, real).await
    }

    async fn recorder(&self, id: RecorderId) -> StoreResult<Option<RecorderRow>> {
        self.call(Call::Other, None, self.real.recorder(id)).await
    }

    async fn change_recorder(
        &self,
        id: RecorderId,
        version: u64,
        data: Vec<u8>,
        expires_at: TimestampMs,
    ) -> StoreResult<bool> {
        let real = self.real.change_recorder(id, version, data, expires_at);
        self.call(Call::Other, None, real).await
    }

    async fn remove_recorder(&self, id: RecorderId) -> StoreResult<bool> {
        self.call(Call::Other, None, self.real.remove_recorder(id))
            .await
    }
}

#[async_trait]
impl Sessions for FaultyStore {
    async fn start(&self, new: NewSession) -> StoreResult<StartOutcome> {
        self.call(Call::Start, None, self.real.start(new)).await
    }

    async fn find_earlier_start(
        &self,
        tenant: Tenant,
        idempotency: Idempotency,
        now: TimestampMs,
    ) -> StoreResult<Option<StartOutcome>> {
        let before = self.real.find_earlier_start(tenant, idempotency, now);
        self.call(Call::Start, None, before).await
    }

    async fn find(&self, id: SessionId) -> StoreResult<Option<SessionRow>> {
        self.call(Call::Find, Some(id), self.real.find(id)).await
    }

    async fn end(
        &self,
        id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>> {
        self.call(Call::End, Some(id), self.real.end(id, end, pod, message))
            .await
    }

    async fn stop_after_timeout(
        &self,
        id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
    ) -> StoreResult<Option<EndOutcome>> {
        let real = self.real.stop_after_timeout(id, end, pod);
        self.call(Call::End, Some(id), real).await
    }

    async fn attach_pod(&self, id: SessionId, pod: PodRow) -> StoreResult<bool> {
        self.call(Call::AttachPod, Some(id), self.real.attach_pod(id, pod))
            .await
    }

    async fn pod(&self, id: SessionId) -> StoreResult<Option<PodRow>> {
        self.call(Call::Pod, Some(id), self.real.pod(id)).await
    }

    async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        let real = self.real.list(tenant, filter, limit, after);
        self.call(Call::Other, None, real).await
    }

    async fn live(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionRow>> {
        self.call(Call::Live, None, self.real.live(shards, after, limit))
            .await
    }

    async fn to_score(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>> {
        self.call(
            Call::ToScore,
            None,
            self.real.to_score(shards, after, limit),
        )
        .await
    }

    async fn messages(&self, id: SessionId) -> StoreResult<Vec<Message>> {
        self.call(Call::Other, Some(id), self.real.messages(id))
            .await
    }

    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        self.call(Call::Other, None, self.real.message(id)).await
    }
}

#[async_trait]
impl Snapshots for FaultyStore {
    async fn put_snapshot(&self, id: SessionId, snapshot: Snapshot) -> StoreResult<()> {
        assert!(
            snapshot.state.len() <= SNAPSHOT_BYTES_MAX,
            "I4: a snapshot grew too large"
        );
        self.call(
            Call::PutSnapshot,
            Some(id),
            self.real.put_snapshot(id, snapshot),
        )
        .await
    }

    async fn newest_snapshot(&self, id: SessionId) -> StoreResult<Option<Snapshot>> {
        let real = self.real.newest_snapshot(id);
        let mut found = self.call(Call::NewestSnapshot, Some(id), real).await?;
        let nth = self.nth(Call::BadSnapshot, subject(id));
        let mut chance = self.chance(Call::BadSnapshot, subject(id), nth);
        if let Some(snapshot) = &mut found
            && chance.permille(self.fault_rates.bad_snapshot)
            && !self.has_no_faults()
        {
            damage(&mut snapshot.state);
        }
        Ok(found)
    }
}

#[async_trait]
impl Insights for FaultyStore {
    async fn commit_insight(
        &self,
        id: SessionId,
        insight: StoredInsight,
        message: MessageBody,
        learned: Vec<([u8; 32], Vec<u8>)>,
    ) -> StoreResult<bool> {
        let real = self.real.commit_insight(id, insight, message, learned);
        self.call(Call::CommitInsight, Some(id), real).await
    }

    async fn insight(&self, id: SessionId) -> StoreResult<Option<StoredInsight>> {
        self.call(Call::Insight, Some(id), self.real.insight(id))
            .await
    }

    async fn put_review(&self, id: SessionId, review: Review) -> StoreResult<bool> {
        self.real.put_review(id, review).await
    }

    async fn review(&self, id: SessionId) -> StoreResult<Option<Review>> {
        self.real.review(id).await
    }

    async fn recall(&self, key: [u8; 32]) -> StoreResult<Option<Vec<u8>>> {
        self.call(Call::Other, None, self.real.recall(key)).await
    }

    async fn recall_all(&self, keys: Vec<[u8; 32]>) -> StoreResult<BTreeMap<[u8; 32], Vec<u8>>> {
        self.call(Call::Other, None, self.real.recall_all(keys))
            .await
    }
}

#[async_trait]
impl Keys for FaultyStore {
    async fn organization(&self, candidate: Organization) -> StoreResult<Organization> {
        self.real.organization(candidate).await
    }

    async fn organizations(&self) -> StoreResult<Vec<Organization>> {
        self.real.organizations().await
    }

    async fn put_key(&self, hash: [u8; 32], record: KeyRecord) -> StoreResult<()> {
        self.real.put_key(hash, record).await
    }

    async fn find_key(&self, hash: [u8; 32]) -> StoreResult<Option<KeyRecord>> {
        self.real.find_key(hash).await
    }

    async fn list_keys(&self, of: Option<OrganizationId>) -> StoreResult<Vec<KeyRecord>> {
        self.real.list_keys(of).await
    }

    async fn record_key_use(&self, hash: [u8; 32], hour: TimestampMs) -> StoreResult<()> {
        self.real.record_key_use(hash, hour).await
    }

    async fn revoke_key(&self, id: KeyId, at: TimestampMs) -> StoreResult<Option<KeyRecord>> {
        self.real.revoke_key(id, at).await
    }
}
