//! The journal, notes and snapshots.

mod cached_head;
mod head;
mod row;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use porchlight_ports::{
    Acknowledged, Appended, Journal, JournalEntry, Note, Snapshot, Snapshots, StoreResult,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::JOURNAL_READ_BYTES_MAX;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;

use super::layout::slots::{Direction, SlotOwner};
use super::{CqlStore, Inner};
pub(super) use head::JournalHead;
pub(super) use row::note_bytes;
use row::{bucket_of, cell, entry, note_of, number, parts, payload};

/// The maximum number of a session's notes that are read.
const NOTES_MAX: usize = 65_536;

impl Inner {
    async fn append(
        &self,
        session_id: SessionId,
        seq: u32,
        batch: PackedBatch,
        received_at: TimestampMs,
    ) -> StoreResult<Appended> {
        let _guard = self.caches.batches.lock(&(session_id, seq)).await;
        let head = self.current_head(session_id, seq).await?;
        if head.is_erased {
            return Ok(Appended::Erased);
        }
        let in_doubt = self.caches.in_doubt.get(&(session_id, seq));
        let (key, hash) = (session_id.to_bytes(), batch.hash());
        let bucket = self.journal_bucket(session_id, seq).await?;
        let row_key = (key.as_slice(), bucket, cell(seq));
        let is_above = head.highest.is_none_or(|highest| seq > highest);
        if !is_above || head.has_ended || in_doubt.is_some() {
            let statement = &self.db.statements.batch_hashes;
            let stored: Vec<(Vec<u8>,)> = self.db.rows(statement, row_key, usize::MAX).await?;
            if !stored.is_empty() {
                let in_first_release = batch.hash_without_skipped();
                let is_repeated = stored.iter().any(|(stored,)| {
                    let stored = stored.as_slice();
                    stored == hash || in_first_release.is_some_and(|first| stored == first)
                });
                return Ok(if is_repeated {
                    // The process that wrote the batch may have stopped before it set the mark.
                    self.mark_late(session_id, head, &hash).await?;
                    Appended::Repeated
                } else {
                    Appended::Conflict
                });
            }
            self.delete_in_doubt(row_key, in_doubt.unwrap_or_default(), &hash)
                .await?;
        }
        let entry = JournalEntry {
            seq,
            received_at,
            batch,
        };
        if let Err(error) = self.put_batch(session_id, &entry).await {
            self.record_in_doubt(session_id, seq, hash);
            return Err(error);
        }
        self.caches
            .journal_heads
            .change(&session_id, |head| head.raise(seq));
        // The session may have ended in the meantime.
        let head = self.caches.journal_heads.get(&session_id).unwrap_or(head);
        self.mark_late(session_id, head, &hash).await?;
        (self.on_durable)(session_id, entry);
        Ok(Appended::New)
    }

    /// Returns the partition of a session's journal that has this batch.
    pub(super) async fn journal_bucket(&self, session_id: SessionId, seq: u32) -> StoreResult<i32> {
        let is_bounded = self.has_bounded_journal(session_id).await?;
        Ok(bucket_of(seq, is_bounded))
    }

    /// Writes a batch unconditionally.
    pub(super) async fn put_batch(
        &self,
        session_id: SessionId,
        entry: &JournalEntry,
    ) -> StoreResult<()> {
        let bucket = self.journal_bucket(session_id, entry.seq).await?;
        if bucket > 0 {
            self.list_slots(&[(SlotOwner::Journal(session_id), i64::from(bucket))])
                .await?;
        }
        self.before_batch_write(session_id);
        let (key, hash) = (session_id.to_bytes(), entry.batch.hash());
        let data = payload(&entry.batch, entry.received_at);
        let row = (
            key.as_slice(),
            bucket,
            cell(entry.seq),
            hash.as_slice(),
            data.as_slice(),
            self.row_ttls.retained,
        );
        self.db.write(&self.db.statements.batch_put, row).await
    }

    /// Marks a completed session because a batch arrived late.
    async fn mark_late(
        &self,
        session_id: SessionId,
        head: JournalHead,
        hash: &[u8],
    ) -> StoreResult<()> {
        if head.has_ended {
            self.mark_rescore(session_id, hash).await?;
        }
        Ok(())
    }

    /// Returns the partitions of a session's journal from this one on: the first always exists, the
    /// others are listed.
    pub(super) async fn buckets(&self, session_id: SessionId, from: i32) -> StoreResult<Vec<i32>> {
        let mut buckets = Vec::new();
        if from == 0 {
            buckets.push(0);
        }
        let owner = SlotOwner::Journal(session_id);
        let further = self
            .slots(
                owner,
                i64::from(from.max(1)),
                i64::MAX,
                Direction::Ascending,
            )
            .await?;
        buckets.extend(
            further
                .into_iter()
                .filter_map(|slot| i32::try_from(slot).ok()),
        );
        Ok(buckets)
    }

    async fn newest(&self, session_id: SessionId) -> StoreResult<Option<(u32, TimestampMs)>> {
        let Some(seq) = self.highest(session_id).await? else {
            return Ok(None);
        };
        let key = session_id.to_bytes();
        let values = (
            key.as_slice(),
            self.journal_bucket(session_id, seq).await?,
            cell(seq),
        );
        let statement = &self.db.statements.batch_first_of;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, values).await?;
        row.map(|(data,)| Ok((seq, parts(&data)?.0))).transpose()
    }

    async fn read(
        &self,
        session_id: SessionId,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        let entries = self.read_entries(session_id, from_seq, limit).await?;
        if let Some(last) = entries.last() {
            self.raise_cached_head(session_id, last.seq);
        }
        Ok(entries)
    }

    async fn read_entries(
        &self,
        session_id: SessionId,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        let key = session_id.to_bytes();
        let mut entries: Vec<JournalEntry> = Vec::new();
        let mut bytes = 0;
        let first = self.journal_bucket(session_id, from_seq).await?;
        for bucket in self.buckets(session_id, first).await? {
            let values = (key.as_slice(), bucket, cell(from_seq));
            let statement = &self.db.statements.batches_from;
            let mut rows = self.db.stream::<(i32, Vec<u8>)>(statement, values).await?;
            while let Some((seq, data)) = rows.try_next().await? {
                let seq = number(seq)?;
                // The first of two batches with the same number counts.
                if entries.last().is_some_and(|last| last.seq == seq) {
                    continue;
                }
                bytes += data.len();
                let is_full = entries.len() >= limit || bytes > JOURNAL_READ_BYTES_MAX;
                if is_full && !entries.is_empty() {
                    return Ok(entries);
                }
                entries.push(entry(seq, &data)?);
            }
        }
        Ok(entries)
    }

    pub(super) async fn count(&self, session_id: SessionId) -> StoreResult<u32> {
        let key = session_id.to_bytes();
        let mut count = 0;
        for bucket in self.buckets(session_id, 0).await? {
            let values = (key.as_slice(), bucket);
            let statement = &self.db.statements.batch_numbers;
            let mut rows = self.db.stream::<(i32,)>(statement, values).await?;
            let mut last = None;
            while let Some((seq,)) = rows.try_next().await? {
                count += u32::from(last != Some(seq));
                last = Some(seq);
            }
        }
        Ok(count)
    }

    async fn acknowledged(
        &self,
        session_id: SessionId,
        ranges_max: usize,
    ) -> StoreResult<Acknowledged> {
        let key = session_id.to_bytes();
        let mut acknowledged = Acknowledged::default();
        for bucket in self.buckets(session_id, 0).await? {
            let values = (key.as_slice(), bucket);
            let statement = &self.db.statements.batch_numbers;
            let mut rows = self.db.stream::<(i32,)>(statement, values).await?;
            while let Some((seq,)) = rows.try_next().await? {
                acknowledged.push(number(seq)?, ranges_max);
            }
        }
        Ok(acknowledged)
    }
}

#[async_trait]
impl Journal for CqlStore {
    async fn append(
        &self,
        session_id: SessionId,
        seq: u32,
        batch: PackedBatch,
        received_at: TimestampMs,
    ) -> StoreResult<Appended> {
        self.run_to_completion(|inner| async move {
            inner.append(session_id, seq, batch, received_at).await
        })
        .await
    }

    fn learn_forwarded(&self, session_id: SessionId, seq: u32) {
        self.inner.raise_cached_head(session_id, seq);
    }

    async fn newest(&self, session_id: SessionId) -> StoreResult<Option<(u32, TimestampMs)>> {
        self.run_with_deadline(|inner| async move { inner.newest(session_id).await })
            .await
    }

    async fn read(
        &self,
        session_id: SessionId,
        from_seq: u32,
        limit: usize,
    ) -> StoreResult<Vec<JournalEntry>> {
        self.run_with_deadline(|inner| async move { inner.read(session_id, from_seq, limit).await })
            .await
    }

    async fn acknowledged(
        &self,
        session_id: SessionId,
        ranges_max: usize,
    ) -> StoreResult<Acknowledged> {
        self.run_with_deadline(
            |inner| async move { inner.acknowledged(session_id, ranges_max).await },
        )
        .await
    }

    async fn count(&self, session_id: SessionId) -> StoreResult<u32> {
        // Only scoring counts. The longest sessions have a million batches, which takes longer to
        // count than a caller may wait for an answer.
        self.run_without_deadline(|inner| async move { inner.count(session_id).await })
            .await
    }

    async fn note(&self, session_id: SessionId, note: Note) -> StoreResult<()> {
        self.run_with_deadline(|inner| async move {
            inner.check_serving().await?;
            inner.before_note_write(session_id);
            let (key, note) = (session_id.to_bytes(), note_bytes(note));
            let values = (key.as_slice(), note.as_slice(), inner.row_ttls.retained);
            let db = &inner.db;
            db.write(&db.statements.note_put, values).await
        })
        .await
    }

    async fn notes(&self, session_id: SessionId) -> StoreResult<Vec<Note>> {
        self.run_with_deadline(|inner| async move {
            let (key, db) = (session_id.to_bytes(), &inner.db);
            let statement = &db.statements.notes_get;
            let rows: Vec<(Vec<u8>,)> = db.rows(statement, (key.as_slice(),), NOTES_MAX).await?;
            rows.iter().map(|(bytes,)| note_of(bytes)).collect()
        })
        .await
    }
}

#[async_trait]
impl Snapshots for CqlStore {
    async fn put_snapshot(&self, session_id: SessionId, snapshot: Snapshot) -> StoreResult<()> {
        self.run_with_deadline(|inner| async move {
            let (key, db) = (session_id.to_bytes(), &inner.db);
            let generation = i64::try_from(snapshot.generation).unwrap_or(i64::MAX);
            let next_seq = cell(snapshot.next_seq);
            let values = (
                key.as_slice(),
                generation,
                next_seq,
                snapshot.state.as_slice(),
                inner.row_ttls.snapshots,
            );
            db.write(&db.statements.snapshot_put, values).await?;
            // Without a cached head, the number of older snapshots is unknown.
            let mut is_full = true;
            let journal_heads = &inner.caches.journal_heads;
            journal_heads.change(&session_id, |head| is_full = head.on_snapshot());
            if is_full {
                let older = (key.as_slice(), generation, next_seq);
                db.write(&db.statements.snapshots_trim, older).await?;
            }
            Ok(())
        })
        .await
    }

    async fn newest_snapshot(&self, session_id: SessionId) -> StoreResult<Option<Snapshot>> {
        self.run_with_deadline(|inner| async move {
            let (key, db) = (session_id.to_bytes(), &inner.db);
            let statement = &db.statements.snapshot_get;
            let row: Option<(i64, i32, Vec<u8>)> = db.row(statement, (key.as_slice(),)).await?;
            Ok(match row {
                Some((generation, next_seq, state)) => Some(Snapshot {
                    generation: generation.unsigned_abs(),
                    next_seq: number(next_seq)?,
                    state,
                }),
                None => None,
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use porchlight_ports::StoreError;
    use porchlight_schema::sample::packed::BatchBuilder;

    use super::*;

    #[test]
    fn notes_round_trip_and_sort_in_order() {
        let notes = [
            Note::Skipped { first: 2, last: 3 },
            Note::Skipped {
                first: 300,
                last: 301,
            },
            Note::Quarantined { seq: 1 },
            Note::Quarantined { seq: 70_000 },
            Note::TelemetryExpired,
            Note::MessagesExpired,
        ];
        assert!(notes.is_sorted());
        let bytes = notes.map(note_bytes);
        assert!(bytes.is_sorted());
        for (note, bytes) in notes.into_iter().zip(bytes) {
            assert_eq!(note_of(&bytes).unwrap(), note);
            assert!(matches!(note_of(&bytes[1..]), Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn rows_of_a_later_release_are_not_damaged() {
        assert!(matches!(note_of(&[4, 1]), Err(StoreError::Newer(_))));
        let packed = BatchBuilder::default().pack();
        let row = payload(&packed, TimestampMs(5));
        assert_eq!(entry(1, &row).unwrap().batch, packed);
        for place in [0, row.len() - packed.as_bytes().len()] {
            let mut later = row.clone();
            later[place] = 9;
            assert!(matches!(entry(1, &later), Err(StoreError::Newer(_))));
            later[place] = 0;
            assert!(matches!(entry(1, &later), Err(StoreError::Damaged(_))));
        }
    }
}
