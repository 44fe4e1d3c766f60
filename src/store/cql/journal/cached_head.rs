//! The cached heads of journals, and the batches whose write is in doubt.

use std::time::Instant;

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;

use super::super::Inner;
use super::head::JournalHead;
use super::row::number;

impl Inner {
    /// Records a batch whose write failed: it may still appear in the journal.
    pub(super) fn record_in_doubt(&self, session_id: SessionId, seq: u32, hash: [u8; 32]) {
        let key = (session_id, seq);
        let mut in_doubt = self.caches.in_doubt.get(&key).unwrap_or_default();
        if !in_doubt.contains(&hash) {
            in_doubt.push(hash);
        }
        self.caches.in_doubt.put(key, in_doubt);
    }

    /// Deletes batches whose write failed and which a read did not find, so that they never appear
    /// in addition to the batch with this hash. The delete is later than their write, by the
    /// timestamps of this process.
    pub(super) async fn delete_in_doubt(
        &self,
        place: (&[u8], i32, i32),
        in_doubt: Vec<[u8; 32]>,
        hash: &[u8; 32],
    ) -> StoreResult<()> {
        let (key, bucket, seq) = place;
        for other in in_doubt.iter().filter(|other| *other != hash) {
            let values = (key, bucket, seq, other.as_slice());
            let delete = &self.db.statements.batch_delete;
            self.db.write(delete, values).await?;
        }
        Ok(())
    }

    /// Returns the generation in which this process owns a session's shard now.
    fn generation_of(&self, session_id: SessionId) -> Option<u64> {
        self.ownership.generation(session_id.shard())
    }

    /// Returns the head of a session's journal, current enough to decide whether `seq` is new. One
    /// read refreshes it, for any number of batches that other nodes have accepted.
    pub(super) async fn current_head(
        &self,
        session_id: SessionId,
        seq: u32,
    ) -> StoreResult<JournalHead> {
        let head = self.cached_head(session_id).await?;
        let generation = self.generation_of(session_id);
        if head.is_erased || !self.ownership.is_shared() || head.is_current(generation) {
            return Ok(head);
        }
        let read_at = Instant::now();
        let key = session_id.to_bytes();
        let bucket = self.journal_bucket(session_id, seq).await?;
        let values = (key.as_slice(), bucket);
        let row: Option<(i32,)> = self.db.row(&self.db.statements.batch_last, values).await?;
        let last = row.map(|(last,)| number(last)).transpose()?;
        self.caches.journal_heads.change(&session_id, |head| {
            last.into_iter().for_each(|last| head.raise(last));
            head.read_at = Some(read_at);
            head.owned_in = generation;
        });
        Ok(self.caches.journal_heads.get(&session_id).unwrap_or(head))
    }

    /// Raises the cached head for a batch that another node has written.
    pub(super) fn raise_cached_head(&self, session_id: SessionId, seq: u32) {
        self.caches
            .journal_heads
            .change(&session_id, |head| head.raise(seq));
    }

    /// Returns the cached head of a session's journal, and reads it if it is not cached.
    async fn cached_head(&self, session_id: SessionId) -> StoreResult<JournalHead> {
        if let Some(head) = self.caches.journal_heads.get(&session_id) {
            return Ok(head);
        }
        let _guard = self.caches.loading.lock(&session_id).await;
        if let Some(head) = self.caches.journal_heads.get(&session_id) {
            return Ok(head);
        }
        let read_at = Some(Instant::now());
        let owned_in = self.generation_of(session_id);
        let head = JournalHead {
            highest: self.highest(session_id).await?,
            has_ended: false,
            read_at,
            owned_in,
            snapshots: 0,
            is_erased: false,
        };
        self.caches.journal_heads.put(session_id, head);
        // The state is read after the head is cached, so that a later end finds the head and
        // updates it.
        let state = self.state(session_id).await?;
        let has_ended = state.is_some_and(|state| state.end.is_some());
        self.caches
            .journal_heads
            .change(&session_id, |head| head.has_ended |= has_ended);
        Ok(JournalHead { has_ended, ..head })
    }

    pub(super) async fn highest(&self, session_id: SessionId) -> StoreResult<Option<u32>> {
        let key = session_id.to_bytes();
        for bucket in self.buckets(session_id, 0).await?.into_iter().rev() {
            let values = (key.as_slice(), bucket);
            let row: Option<(i32,)> = self.db.row(&self.db.statements.batch_last, values).await?;
            if let Some((seq,)) = row {
                return number(seq).map(Some);
            }
        }
        Ok(None)
    }
}
