//! Marks of sessions whose insight may be out of date, and their removal once the insight covers
//! everything.

use porchlight_ports::{Covered, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;

use super::live_sessions::{WorkTable, buckets_to_clear};
use crate::cql::Inner;
use crate::cql::sessions::own_sessions::OwnState;
use crate::cql::sessions::state::State;
use crate::cql::statements::write_group::WriteGroup;
use crate::damage::report;

/// The tag of the mark that the end of a session sets.
pub(in crate::cql) const END: &[u8] = b"end";

impl Inner {
    /// Marks that a session's insight may be out of date; the tag names the cause.
    pub(in crate::cql) async fn mark_rescore(
        &self,
        session_id: SessionId,
        tag: &[u8],
    ) -> StoreResult<()> {
        let mut group = WriteGroup::default();
        self.add_mark(&mut group, session_id, tag).await?;
        self.db.write_group(group).await
    }

    /// Adds the row of a mark, as in [`Self::mark_rescore`], to the rows to write.
    pub(in crate::cql) async fn add_mark<'s>(
        &'s self,
        group: &mut WriteGroup<'s>,
        session_id: SessionId,
        tag: &[u8],
    ) -> StoreResult<()> {
        if tag != END {
            self.before_further_mark(session_id);
        }
        let (shard, bucket) = self.open_bucket(WorkTable::ToScore, session_id).await?;
        let (key, ttl) = (session_id.to_bytes().to_vec(), self.row_ttls.retained);
        let values = (shard, bucket, key, tag.to_vec(), ttl);
        group.add(&self.db.statements.behind_put, tag.len(), values);
        Ok(())
    }

    /// Removes the marks of an ended session whose official insight covers everything. Returns
    /// whether it does. `found_in` is the bucket in which a mark was found.
    ///
    /// The marks are read before the data, so that data that arrives meanwhile keeps its mark. Call
    /// it only when no other node can write without setting a mark
    /// ([`Self::may_receive_late_batches`]).
    pub(in crate::cql) async fn settle(
        &self,
        session_id: SessionId,
        found_in: Option<i64>,
    ) -> StoreResult<bool> {
        let mut buckets = buckets_to_clear(session_id, self.clock.now());
        buckets.extend(found_in.filter(|bucket| !buckets.contains(bucket)));
        let marks = self.marks(session_id, buckets).await?;
        let stored = match self.own_state(session_id) {
            OwnState::Decided(version, state) => Some((version, state.as_ref().clone())),
            OwnState::Undecided | OwnState::Unknown => self.versioned_state(session_id).await?,
        };
        let Some((version, state)) = stored else {
            return Ok(false);
        };
        // A process may have died between the change and its copies, to which only the marks lead.
        self.relay(session_id, &state).await?;
        self.drop_learned(session_id, version, &state).await?;
        let present = match self.present(session_id, &state).await {
            // The `failed` insight of a session whose data cannot be read covers nothing.
            Err(StoreError::Damaged(row)) => {
                report("the data of an ended session", &row);
                Covered::default()
            }
            present => present?,
        };
        if state.insight.map(|official| official.covered) != Some(present) {
            return Ok(false);
        }
        for (bucket, tag) in marks {
            self.deletes.add_mark(session_id, bucket, tag);
        }
        Ok(true)
    }

    /// Returns the marks of a session in these buckets, each with its bucket.
    async fn marks(
        &self,
        session_id: SessionId,
        buckets: Vec<i64>,
    ) -> StoreResult<Vec<(i64, Vec<u8>)>> {
        if self
            .own(session_id)
            .is_some_and(|own| !own.has_further_marks)
        {
            return Ok(buckets
                .into_iter()
                .map(|bucket| (bucket, END.to_vec()))
                .collect());
        }
        let (shard, key) = (i16::from(session_id.shard().0), session_id.to_bytes());
        let statement = &self.db.statements.behind_tags;
        let mut marks = Vec::new();
        for bucket in buckets {
            let partition_key = (shard, bucket, key.as_slice());
            let tags = self.db.rows(statement, partition_key, usize::MAX);
            let tags: Vec<(Vec<u8>,)> = tags.await?;
            marks.extend(tags.into_iter().map(|(tag,)| (bucket, tag)));
        }
        Ok(marks)
    }

    /// Returns the data that the insight of a session in this state must cover now.
    async fn present(&self, session_id: SessionId, state: &State) -> StoreResult<Covered> {
        let unwritten = self.unwritten(session_id);
        let batches = match unwritten.batches {
            true => 0,
            false => self.count(session_id).await?,
        };
        let pod = match unwritten.pod {
            true => None,
            false => self.pod(session_id).await?,
        };
        Ok(Covered {
            batches,
            pod_received_at: pod.map(|pod| pod.received_at),
            late_stop_at: state.end.and_then(|end| end.late_stop_at()),
        })
    }
}
