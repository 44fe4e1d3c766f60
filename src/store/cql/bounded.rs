//! The nodes' agreement on partitions with a bound.
//!
//! In releases before migration 8, a partition of a session's journal had up to 4,096 batches of any size, and a list of one
//! courier's or one delivery's sessions was one partition for the whole retention. A node of such a release does not find
//! rows in partitions of the new layout, so all nodes change at an agreed time:
//!
//! 1. Each heartbeat writes the layout that its node can read.
//! 2. Once a process has seen for [`AGREED_AFTER_MS`] that all members read the new layout, it stores a time that is
//!    [`AGREED_AHEAD_MS`] ahead. The first process to do so decides.
//! 3. Every process that does not know of a time looks for one, at most [`LOOK_EVERY_MS`] before it reads or writes a
//!    partition that depends on it.
//!
//! The layout of a session's journal depends only on the time in the session's id and on the agreed time, so all nodes
//! compute the same partitions without a further read. New keyspaces use the new layout from the start.

mod own;
mod rooms;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{AGREED_AFTER_MS, AGREED_AHEAD_MS, LOOK_EVERY_MS};
use porchlight_schema::time::TimestampMs;

use super::Inner;
use super::db::Lwt;
pub(super) use own::{Own, merge};
pub(super) use rooms::Rooms;

/// The row of `generations` with the agreed time, in milliseconds since 1970.
pub(super) const BOUNDED_SINCE: &str = "bounded_partitions";
/// The layout of partitions that nodes of this release read, as in the statement of a heartbeat.
const LAYOUT: i32 = 1;
/// The standing of a member that has left or failed.
const GONE: i8 = 2;

// Each process looks several times between an agreement and its time.
const _: () = assert!(AGREED_AHEAD_MS as u64 >= 5 * LOOK_EVERY_MS);

/// What a process does after it looked for an agreed time and found none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Some members do not read the new layout, or did not a short time ago.
    Wait,
    /// All members have read the new layout for long enough.
    Propose,
}

/// One process's view of the agreement.
#[derive(Debug, Clone, Copy, Default)]
struct View {
    since: Option<TimestampMs>,
    looked_at: Option<Instant>,
    ready_from: Option<Instant>,
}

impl View {
    /// Whether the process must look again before it relies on this view.
    fn is_due(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now.duration_since(at) < Duration::from_millis(LOOK_EVERY_MS);
        self.since.is_none() && !self.looked_at.is_some_and(is_recent)
    }

    /// Decides what follows from a look that found no agreed time.
    fn on_none(&mut self, now: Instant, all_read_it: bool) -> Next {
        self.looked_at = Some(now);
        if !all_read_it {
            self.ready_from = None;
            return Next::Wait;
        }
        let ready_from = *self.ready_from.get_or_insert(now);
        if now.duration_since(ready_from) < Duration::from_millis(AGREED_AFTER_MS) {
            return Next::Wait;
        }
        Next::Propose
    }
}

/// The cached agreement of this process.
#[derive(Default)]
pub(super) struct Bounded {
    view: Mutex<View>,
    looking: tokio::sync::Mutex<()>,
}

impl Bounded {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether all members that may write read the new layout, by the cells of their rows: standing and layout.
fn all_read_it(members: &[(Option<i8>, Option<i32>)]) -> bool {
    let reads_it = |&(standing, layout): &(Option<i8>, Option<i32>)| {
        standing == Some(GONE) || layout.is_some_and(|layout| layout >= LAYOUT)
    };
    members.iter().all(reads_it)
}

impl Inner {
    /// Returns the time from which new sessions use bounded partitions, or `None` while the nodes have not agreed on one.
    /// An agreed time never changes.
    pub(super) async fn bounded_since(&self) -> StoreResult<Option<TimestampMs>> {
        let bounded = &self.memory.bounded;
        let view = *bounded.view();
        if !view.is_due(Instant::now()) {
            return Ok(view.since);
        }
        let _turn = bounded.looking.lock().await;
        let view = *bounded.view();
        if !view.is_due(Instant::now()) {
            return Ok(view.since);
        }
        let began = Instant::now();
        if let Some(since) = self.stored_since().await? {
            bounded.view().since = Some(since);
            return Ok(Some(since));
        }
        let statement = &self.db.statements.members_layouts;
        let members = self.db.few(statement, (super::nodes::CLUSTER,)).await?;
        let next = bounded.view().on_none(began, all_read_it(&members));
        if next == Next::Wait {
            return Ok(None);
        }
        let since = self
            .agree_on(self.clock.now().plus_ms(AGREED_AHEAD_MS))
            .await?;
        bounded.view().since = Some(since);
        Ok(Some(since))
    }

    /// Whether a session's journal uses bounded partitions, by the time in its id.
    pub(super) async fn has_bounded_journal(&self, session_id: SessionId) -> StoreResult<bool> {
        let since = self.bounded_since().await?;
        Ok(since.is_some_and(|since| session_id.made_at() >= since))
    }

    /// Reads the agreed time serially, which first completes another process's interrupted proposal.
    async fn stored_since(&self) -> StoreResult<Option<TimestampMs>> {
        let statement = &self.db.statements.generation_serial;
        let row: Option<(i64,)> = self.db.row(statement, (BOUNDED_SINCE,)).await?;
        Ok(row.map(|(since,)| TimestampMs(since)))
    }

    /// Proposes a time and returns the agreed one, which may be another process's.
    async fn agree_on(&self, since: TimestampMs) -> StoreResult<TimestampMs> {
        let statement = &self.db.statements.bounded_since_make;
        let values = (BOUNDED_SINCE, since.0);
        if let Lwt::Applied = self.db.lightweight(statement, values).await? {
            tracing::info!("the nodes have agreed on bounded partitions");
            return Ok(since);
        }
        // An undecided proposal fails here or is completed by this read.
        self.stored_since().await?.ok_or(StoreError::Overloaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_proposed_only_after_all_members_read_the_layout_for_long_enough() {
        let mut view = View::default();
        let began = Instant::now();
        let after = |ms: u64| began + Duration::from_millis(ms);
        assert!(view.is_due(began));
        assert_eq!(view.on_none(began, true), Next::Wait);
        assert!(!view.is_due(after(LOOK_EVERY_MS - 1)));
        assert!(view.is_due(after(LOOK_EVERY_MS)));
        // A node of an earlier release joins in between.
        assert_eq!(view.on_none(after(AGREED_AFTER_MS - 1), false), Next::Wait);
        let again = AGREED_AFTER_MS + 5;
        assert_eq!(view.on_none(after(again), true), Next::Wait);
        let almost = again + AGREED_AFTER_MS - 1;
        assert_eq!(view.on_none(after(almost), true), Next::Wait);
        assert_eq!(view.on_none(after(almost + 1), true), Next::Propose);
        view.since = Some(TimestampMs(1));
        assert!(!view.is_due(after(10 * almost)));
    }

    #[test]
    fn members_of_earlier_releases_count_until_they_are_gone() {
        let (up, old, gone) = ((Some(0), Some(1)), (Some(0), None), (Some(2), None));
        assert!(all_read_it(&[]));
        assert!(all_read_it(&[up, gone, (Some(1), Some(2))]));
        assert!(!all_read_it(&[up, old]));
        assert!(!all_read_it(&[(None, None)]), "a row without a heartbeat");
    }
}
