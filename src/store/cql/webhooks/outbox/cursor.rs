//! The cursor of a session's messages: the state of each message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use porchlight_core::webhook::{AttemptResult, Cause, Index, Queued, State};
use porchlight_ports::{DeliveryRow, StoreError, StoreResult};
use porchlight_schema::ids::{MessageId, SessionId, Shard};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use crate::cql::Inner;
use crate::cql::statements::db::{decode, encode};
use crate::cql::webhooks::relay::MessageHead;

/// The name of a damaged cursor in the log.
pub(in crate::cql) const CURSOR: &str = "the state of its messages";

/// The state of one message. A message without one is as it was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    state: State,
    attempts: u32,
    due_at: Option<TimestampMs>,
    parked: bool,
    cause: Option<Cause>,
    status_code: Option<u16>,
    delivered_at: Option<TimestampMs>,
}

impl Step {
    fn of(row: &DeliveryRow) -> Self {
        Self {
            state: row.queued.state,
            attempts: row.queued.attempts,
            due_at: row.queued.due_at,
            parked: row.queued.parked,
            cause: row.cause,
            status_code: row.status_code,
            delivered_at: row.delivered_at,
        }
    }
}

/// The states of a session's messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Cursor {
    steps: BTreeMap<u32, Step>,
    /// The time up to which requested retries of a message are finished.
    manual: Vec<(MessageId, TimestampMs)>,
}

impl Cursor {
    /// Returns the index in which a message is listed.
    pub(super) fn index(&self, number: u32) -> Index {
        match self.steps.get(&number) {
            None => Index::Ready,
            Some(step) => match (step.state, step.parked, step.due_at) {
                (State::Waiting, false, None) => Index::Ready,
                (State::Waiting, false, Some(due_at)) => Index::Due(due_at),
                (State::Held, false, Some(until)) => Index::Held(until),
                _ => Index::None,
            },
        }
    }

    /// Returns whether a message is as it was queued, or is not queued yet.
    pub(crate) fn is_untouched(&self, number: u32) -> bool {
        !self.steps.contains_key(&number)
    }

    /// Returns the number of a message's attempts.
    pub(super) fn attempts(&self, number: u32) -> u32 {
        self.steps.get(&number).map_or(0, |step| step.attempts)
    }

    /// Returns whether messages other than `listed` wait.
    pub(super) fn has_waiting_besides(&self, listed: &BTreeSet<u32>) -> bool {
        let mut waiting = self.steps.iter();
        waiting.any(|(number, step)| {
            matches!(step.state, State::Waiting | State::Held) && !listed.contains(number)
        })
    }

    /// Returns whether a retry that was requested at this time is finished.
    pub(super) fn is_manual_done(&self, id: MessageId, requested_at: TimestampMs) -> bool {
        self.manual_done_up_to(id)
            .is_some_and(|up_to| requested_at <= up_to)
    }

    /// Returns the time up to which manual requests for this message are completed.
    pub(crate) fn manual_done_up_to(&self, id: MessageId) -> Option<TimestampMs> {
        let mut done = self.manual.iter();
        done.find(|(done, _)| *done == id).map(|&(_, up_to)| up_to)
    }

    /// Records that a retry that was requested at this time is finished.
    pub(super) fn finish_manual(&mut self, id: MessageId, requested_at: TimestampMs) {
        match self.manual.iter_mut().find(|(done, _)| *done == id) {
            Some((_, up_to)) => *up_to = (*up_to).max(requested_at),
            None => self.manual.push((id, requested_at)),
        }
    }

    /// Returns a message's row in its present state.
    pub(crate) fn row(&self, head: &MessageHead) -> DeliveryRow {
        let queued = Queued::new(head.id, head.session_id, head.number, head.event);
        let row = DeliveryRow::new(queued, head.endpoint_id);
        self.apply_to(row)
    }

    /// Returns a row in its present state, given the row as it was queued.
    pub(super) fn apply_to(&self, fresh: DeliveryRow) -> DeliveryRow {
        let Some(step) = self.steps.get(&fresh.queued.number) else {
            return fresh;
        };
        DeliveryRow {
            queued: Queued {
                state: step.state,
                attempts: step.attempts,
                due_at: step.due_at,
                parked: step.parked,
                ..fresh.queued
            },
            cause: step.cause,
            status_code: step.status_code,
            delivered_at: step.delivered_at,
            ..fresh
        }
    }

    /// Imports the state of a message.
    pub(crate) fn import(&mut self, row: &DeliveryRow) {
        let fresh = Queued::new(
            row.queued.id,
            row.queued.session_id,
            row.queued.number,
            row.queued.event,
        );
        if row.queued != fresh {
            self.steps.insert(row.queued.number, Step::of(row));
        }
    }

    /// Applies a change if the message is still in the state in which it was read. Returns whether
    /// it was.
    pub(super) fn change(
        &mut self,
        before: &Queued,
        after: Queued,
        report: Option<&AttemptResult>,
    ) -> bool {
        let fresh = Queued::new(before.id, before.session_id, before.number, before.event);
        // The comparison below uses only the state of the row, so any endpoint will do.
        let endpoint_id = porchlight_schema::ids::EndpointId::from_bytes([0; 16]);
        let row = self.apply_to(DeliveryRow::new(fresh, endpoint_id));
        if row.queued != *before {
            return false;
        }
        let row = row.changed(after, report);
        self.steps.insert(before.number, Step::of(&row));
        true
    }
}

/// Returns the generation in which a cursor may be written: that in which it was read, if this
/// process still acts in it. In between, another owner may have written a cursor that the later
/// generation would hide.
fn generation_to_write(read_in: Option<u64>, acting: Option<u64>) -> StoreResult<u64> {
    acting
        .filter(|_| acting == read_in)
        .ok_or_else(|| StoreError::unavailable("another node acts for this tenant's shard now"))
}

impl Inner {
    /// Returns a session's cursor. `shard` is the shard of its tenant.
    pub(crate) async fn cursor(
        &self,
        shard: Shard,
        session_id: SessionId,
    ) -> StoreResult<Arc<Cursor>> {
        if let Some(cursor) = self.known_cursor(shard, session_id) {
            return Ok(cursor);
        }
        let _guard = self.caches.lanes.lock(&session_id).await;
        let (_, cursor) = self.load_cursor(shard, session_id).await?;
        Ok(cursor)
    }

    /// Returns the cached cursor of a session. It is valid only while this process owns the shard
    /// in the generation in which it was read or written; otherwise another process may have
    /// written since.
    fn known_cursor(&self, shard: Shard, session_id: SessionId) -> Option<Arc<Cursor>> {
        let acting = self.ownership.generation(shard)?;
        self.cursor_of(acting, session_id)
    }

    /// Returns the cursor that was cached in this generation.
    fn cursor_of(&self, generation: u64, session_id: SessionId) -> Option<Arc<Cursor>> {
        let (known_in, cursor) = self.caches.cursors.get(&session_id)?;
        (known_in == generation).then_some(cursor)
    }

    /// Reads a session's cursor for a caller that holds the lane's lock. Also returns the
    /// generation in which this process owned the shard before the read.
    pub(super) async fn load_cursor(
        &self,
        shard: Shard,
        session_id: SessionId,
    ) -> StoreResult<(Option<u64>, Arc<Cursor>)> {
        let acting = self.ownership.generation(shard);
        let known = acting.and_then(|acting| self.cursor_of(acting, session_id));
        if let Some(cursor) = known {
            return Ok((acting, cursor));
        }
        let key = session_id.to_bytes();
        let statement = &self.db.statements.cursor_get;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (key.as_slice(),)).await?;
        let cursor = match row {
            Some((data,)) => decode("lane_cursor", &data)?,
            None => Cursor::default(),
        };
        let cursor = Arc::new(cursor);
        if let Some(acting) = acting {
            let known = (acting, Arc::clone(&cursor));
            self.caches.cursors.put(session_id, known);
        }
        Ok((acting, cursor))
    }

    /// Writes a session's cursor under the generation in which this process owns `shard`, its
    /// tenant's. `read_in` is the generation in which the cursor was read. A process that does not
    /// own the shard in that generation writes nothing: the row would sort below, or hide a change
    /// that another owner made since the read.
    pub(crate) async fn put_cursor(
        &self,
        shard: Shard,
        session_id: SessionId,
        read_in: Option<u64>,
        cursor: Cursor,
    ) -> StoreResult<()> {
        let (key, data) = (session_id.to_bytes(), encode(&cursor)?);
        let acting = generation_to_write(read_in, self.ownership.generation(shard))?;
        let generation = i64::try_from(acting).unwrap_or(i64::MAX);
        let values = (
            key.as_slice(),
            generation,
            data.as_slice(),
            self.row_ttls.retained,
        );
        self.db
            .write(&self.db.statements.cursor_put, values)
            .await?;
        self.caches
            .cursors
            .put(session_id, (acting, Arc::new(cursor)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::message::MessageEvent;

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_763_636_100_000);

    #[test]
    fn a_change_applies_once_and_only_to_the_state_that_was_read() {
        let session_id = SessionId::new(NOW, 1);
        let id = MessageId::derived(NOW, session_id, 3);
        let fresh = Queued::new(id, session_id, 3, MessageEvent::InsightUpdated);
        let mut cursor = Cursor::default();
        assert_eq!(cursor.index(3), Index::Ready);
        let due_at = Some(NOW.plus_ms(60_000));
        let failed = Queued {
            attempts: 1,
            due_at,
            ..fresh
        };
        assert!(cursor.change(&fresh, failed, None));
        assert!(!cursor.change(&fresh, failed, None));
        assert_eq!(cursor.index(3), Index::Due(NOW.plus_ms(60_000)));
        let delivered = Queued {
            attempts: 2,
            due_at: None,
            state: State::Delivered,
            ..fresh
        };
        assert!(cursor.change(&failed, delivered, None));
        assert_eq!(cursor.index(3), Index::None);
    }

    #[test]
    fn a_cursor_is_written_only_in_the_generation_in_which_it_was_read() {
        assert_eq!(generation_to_write(Some(3), Some(3)).unwrap(), 3);
        // The shard went to another owner and came back between the read and the write.
        assert!(generation_to_write(Some(3), Some(5)).is_err());
        assert!(generation_to_write(None, Some(5)).is_err());
        assert!(generation_to_write(Some(3), None).is_err());
        assert!(generation_to_write(None, None).is_err());
    }

    #[test]
    fn manual_requests_are_processed_in_order() {
        let id = MessageId::derived(NOW, SessionId::new(NOW, 1), 3);
        let mut cursor = Cursor::default();
        assert!(!cursor.is_manual_done(id, NOW));
        cursor.finish_manual(id, NOW);
        assert!(cursor.is_manual_done(id, NOW));
        assert!(!cursor.is_manual_done(id, NOW.plus_ms(1)));
    }
}
