//! This process's knowledge of a session's journal, and of batches whose write is in doubt.

use std::time::Instant;

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;

use super::super::Inner;
use super::head::Head;
use super::row::number;

impl Inner {
    /// Remembers a batch whose write failed: it may still appear in the journal.
    pub(super) fn doubt(&self, session_id: SessionId, seq: u32, hash: [u8; 32]) {
        let key = (session_id, seq);
        let mut doubtful = self.memory.doubtful.get(&key).unwrap_or_default();
        if !doubtful.contains(&hash) {
            doubtful.push(hash);
        }
        self.memory.doubtful.put(key, doubtful);
    }

    /// Deletes batches whose write failed and which a read did not find, so that they never appear
    /// beside the batch with this hash. The delete is later than their write, by the timestamps of
    /// this process.
    pub(super) async fn rule_out(
        &self,
        place: (&[u8], i32, i32),
        doubtful: Vec<[u8; 32]>,
        hash: &[u8; 32],
    ) -> StoreResult<()> {
        let (key, bucket, seq) = place;
        for other in doubtful.iter().filter(|other| *other != hash) {
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

    /// Returns the state of a session's journal, current enough to decide whether `seq` is new. One
    /// read refreshes it, whatever the number of batches that other nodes have accepted.
    pub(super) async fn current_tip(&self, session_id: SessionId, seq: u32) -> StoreResult<Head> {
        let tip = self.tip(session_id).await?;
        let generation = self.generation_of(session_id);
        if tip.erased || !self.ownership.is_shared() || tip.is_current(generation) {
            return Ok(tip);
        }
        let read_at = Instant::now();
        let key = session_id.to_bytes();
        let bucket = self.journal_bucket(session_id, seq).await?;
        let values = (key.as_slice(), bucket);
        let row: Option<(i32,)> = self.db.row(&self.db.statements.batch_last, values).await?;
        let last = row.map(|(last,)| number(last)).transpose()?;
        self.memory.tips.change(&session_id, |tip| {
            last.into_iter().for_each(|last| tip.raise(last));
            tip.read_at = Some(read_at);
            tip.owned_in = generation;
        });
        Ok(self.memory.tips.get(&session_id).unwrap_or(tip))
    }

    /// Learns that another node has written a batch.
    pub(super) fn learn_batch(&self, session_id: SessionId, seq: u32) {
        self.memory.tips.change(&session_id, |tip| tip.raise(seq));
    }

    /// Returns the known state of a session's journal, read if it is not cached.
    async fn tip(&self, session_id: SessionId) -> StoreResult<Head> {
        if let Some(tip) = self.memory.tips.get(&session_id) {
            return Ok(tip);
        }
        let _turn = self.memory.loading.lock(&session_id).await;
        if let Some(tip) = self.memory.tips.get(&session_id) {
            return Ok(tip);
        }
        let read_at = Some(Instant::now());
        let owned_in = self.generation_of(session_id);
        let tip = Head {
            highest: self.highest(session_id).await?,
            ended: false,
            read_at,
            owned_in,
            snapshots: 0,
            erased: false,
        };
        self.memory.tips.put(session_id, tip);
        // The state is read after the tip is cached, so that a later end finds the tip and updates it.
        let state = self.state(session_id).await?;
        let ended = state.is_some_and(|state| state.end.is_some());
        self.memory
            .tips
            .change(&session_id, |tip| tip.ended |= ended);
        Ok(Head { ended, ..tip })
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
