//! Deletes rows that lead to finished work. The deletes are collected, so that few requests carry
//! them, and are sent once this process has verified that it still serves.
//!
//! A row that leads to finished work does no harm: a process that finds it examines its session
//! again and removes it. So the deletes may be late, and a process that is killed may leave some
//! rows. A delete carries the time at which it was decided, so that a row that is written later
//! stays. A process that another one has replaced in the meantime sends no deletes: the other one
//! may have stored data of which this one does not know.

use std::sync::{Mutex, MutexGuard, PoisonError};

use porchlight_observe::error_text;
use porchlight_schema::ids::SessionId;

use super::live_sessions::Entry;
use crate::cql::Inner;
use crate::cql::connection::connect::next_timestamp_us;
use crate::cql::nodes::serving::stored_epoch;
use crate::cql::statements::write_group::WriteGroup;

/// The maximum number of deletes that wait. Rows beyond it stay until an owner finds them.
const WAITING_MAX: usize = 65_536;
/// The maximum number of rows that are deleted concurrently.
const ROWS_AT_ONCE: usize = 256;

/// A row to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Row {
    /// The row of a session in a bucket of the live sessions.
    Live,
    /// The mark of a session with this tag.
    Mark(Vec<u8>),
}

/// A delete that waits.
#[derive(Debug, Clone)]
struct WaitingDelete {
    row: Row,
    entry: Entry,
    /// The time at which it was decided, in microseconds of the Unix epoch.
    decided_us: i64,
}

/// The deletes that wait.
#[derive(Default)]
pub(in crate::cql) struct Deletes {
    waiting: Mutex<Vec<WaitingDelete>>,
}

impl Deletes {
    fn lock(&self) -> MutexGuard<'_, Vec<WaitingDelete>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, row: Row, entry: Entry) {
        self.wait([WaitingDelete {
            row,
            entry,
            decided_us: next_timestamp_us(),
        }]);
    }

    fn wait(&self, deletes: impl IntoIterator<Item = WaitingDelete>) {
        let mut waiting = self.lock();
        let room = WAITING_MAX.saturating_sub(waiting.len());
        waiting.extend(deletes.into_iter().take(room));
    }

    /// Adds the delete of a session's row in a bucket of the live sessions.
    pub(in crate::cql) fn add_live(&self, entry: Entry) {
        self.add(Row::Live, entry);
    }

    /// Adds the delete of a session's mark in a bucket of the marked sessions.
    pub(in crate::cql) fn add_mark(&self, session_id: SessionId, bucket: i64, tag: Vec<u8>) {
        self.add(Row::Mark(tag), Entry { session_id, bucket });
    }

    /// Takes the deletes that were decided before this time.
    fn take(&self, before_us: i64) -> Vec<WaitingDelete> {
        let mut waiting = self.lock();
        let is_due = |delete: &mut WaitingDelete| delete.decided_us < before_us;
        waiting.extract_if(.., is_due).collect()
    }
}

impl Inner {
    /// Sends the deletes that were decided before this time, in microseconds of the Unix epoch, at
    /// which this process still served. A delete that fails waits for the next call.
    pub(in crate::cql) async fn send_deletes(&self, before_us: i64) {
        let waiting = self.deletes.take(before_us);
        for chunk in waiting.chunks(ROWS_AT_ONCE) {
            let mut group = WriteGroup::default();
            for delete in chunk {
                self.add_delete(&mut group, delete.clone());
            }
            if let Err(error) = self.db.write_group(group).await {
                tracing::warn!(
                    error = error_text(&error),
                    rows = chunk.len(),
                    "the rows of finished sessions could not be removed yet"
                );
                self.deletes.wait(chunk.iter().cloned());
            }
        }
    }

    /// Sends all deletes that wait, if this process still serves.
    pub(in crate::cql) async fn send_last_deletes(&self) {
        let has_deletes = !self.deletes.lock().is_empty();
        if has_deletes
            && let Ok(epoch) = stored_epoch(&self.db).await
            && epoch == self.epoch
        {
            self.send_deletes(i64::MAX).await;
        }
    }

    fn add_delete<'s>(&'s self, group: &mut WriteGroup<'s>, delete: WaitingDelete) {
        let WaitingDelete {
            row,
            entry: Entry { session_id, bucket },
            decided_us,
        } = delete;
        let (shard, key) = (
            i16::from(session_id.shard().0),
            session_id.to_bytes().to_vec(),
        );
        let statements = &self.db.statements;
        match row {
            Row::Live => {
                let values = (decided_us, shard, bucket, key);
                group.add(&statements.live_delete_at, 0, values);
            }
            Row::Mark(tag) => {
                let values = (decided_us, shard, bucket, key, tag);
                group.add(&statements.behind_delete_at, 0, values);
            }
        }
    }
}
