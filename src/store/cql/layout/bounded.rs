//! The nodes' agreement to use partitions of bounded size.
//!
//! In releases before migration 8, a partition of a session's journal had up to 4,096 batches of
//! any size, and a list of one courier's or one delivery's sessions was one partition for the whole
//! retention. A node of such a release does not find rows in partitions of the new layout, so all
//! nodes change at an agreed time:
//!
//! 1. Each heartbeat writes the layout that its node can read.
//! 2. Once a process has seen for [`Agreement::after`] that all members read the new layout, it
//!    stores a time that is [`Agreement::ahead`] ahead. The first process to do so decides.
//! 3. Every process that does not know a time reads it, at most [`Agreement::read_interval`] before
//!    it reads or writes a partition that depends on it.
//!
//! The layout of a session's journal depends only on the time in the session's id and on the agreed
//! time, so all nodes compute the same partitions without a further read. New keyspaces use the new
//! layout from the start.

mod own;
mod row_shares;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use porchlight_core::ownership::MemberStatus;
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

use crate::cql::nodes::ownership::{CLUSTER, READS_LAYOUT, status_cell};
use crate::cql::statements::db::Lwt;
use crate::cql::{Agreement, Inner};
pub(in crate::cql) use own::{OWN_READ_MAX, OwnPartition, cut_full_read, merge};
pub(in crate::cql) use row_shares::RowShares;

/// The row of `generations` with the agreed time, in milliseconds since 1970.
pub(in crate::cql) const BOUNDED_SINCE: &str = "bounded_partitions";
/// The layout that all members must read before a process writes bounded partitions. It stays when
/// a later change raises [`READS_LAYOUT`].
const BOUNDED_NEEDS: i32 = 1;
const _: () = assert!(
    BOUNDED_NEEDS <= READS_LAYOUT,
    "a release reads what it writes"
);
/// The status of a member that has left or failed.
const GONE: i8 = status_cell(MemberStatus::Gone);

/// The next step of a process that read no agreed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    /// Some members do not read the new layout, or did not a short time ago.
    Wait,
    /// All members have read the new layout for long enough.
    Propose,
}

/// One process's view of the agreement on bounded partitions.
#[derive(Debug, Clone, Copy, Default)]
struct AgreementView {
    since: Option<TimestampMs>,
    read_at: Option<Instant>,
    ready_from: Option<Instant>,
}

impl AgreementView {
    /// Returns whether the process must read the agreed time before it relies on this view.
    fn is_due(&self, now: Instant, agreement: Agreement) -> bool {
        let is_recent = |at: Instant| now.duration_since(at) < agreement.read_interval;
        self.since.is_none() && !self.read_at.is_some_and(is_recent)
    }

    /// Decides the next step after a read that found no agreed time.
    fn on_none(&mut self, now: Instant, all_read_layout: bool, agreement: Agreement) -> NextStep {
        self.read_at = Some(now);
        if !all_read_layout {
            self.ready_from = None;
            return NextStep::Wait;
        }
        let ready_from = *self.ready_from.get_or_insert(now);
        if now.duration_since(ready_from) < agreement.after {
            return NextStep::Wait;
        }
        NextStep::Propose
    }
}

/// This process's cached view of the agreement on bounded partitions.
pub(in crate::cql) struct BoundedPartitions {
    agreement: Agreement,
    view: Mutex<AgreementView>,
    reading: tokio::sync::Mutex<()>,
}

impl BoundedPartitions {
    pub(in crate::cql) fn new(agreement: Agreement) -> Self {
        Self {
            agreement,
            view: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    fn view(&self) -> MutexGuard<'_, AgreementView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the view if this process may rely on it, and need not read the agreed time.
    fn reliable_view(&self) -> Option<AgreementView> {
        let view = *self.view();
        (!view.is_due(Instant::now(), self.agreement)).then_some(view)
    }
}

/// Returns whether all members that may write read the new layout, by the status and layout cells
/// of their rows.
fn all_read_layout(members: &[(Option<i8>, Option<i32>)]) -> bool {
    let reads_layout = |&(status, layout): &(Option<i8>, Option<i32>)| {
        status == Some(GONE) || layout.is_some_and(|layout| layout >= BOUNDED_NEEDS)
    };
    members.iter().all(reads_layout)
}

impl Inner {
    /// Returns the time from which new sessions use bounded partitions, or `None` while the nodes
    /// have not agreed on one. An agreed time never changes.
    pub(super) async fn bounded_since(&self) -> StoreResult<Option<TimestampMs>> {
        let bounded = &self.bounded;
        if let Some(view) = bounded.reliable_view() {
            return Ok(view.since);
        }
        let _guard = bounded.reading.lock().await;
        if let Some(view) = bounded.reliable_view() {
            return Ok(view.since);
        }
        let began = Instant::now();
        let since = match self.stored_since().await? {
            Some(since) => since,
            None => {
                let statement = &self.db.statements.members_layouts;
                let members = self.db.few(statement, (CLUSTER,)).await?;
                let all_read_layout = all_read_layout(&members);
                let next = bounded
                    .view()
                    .on_none(began, all_read_layout, bounded.agreement);
                if next == NextStep::Wait {
                    return Ok(None);
                }
                let ahead_ms = i64::try_from(bounded.agreement.ahead.as_millis()).unwrap_or(0);
                self.agree_on(self.clock.now().plus_ms(ahead_ms)).await?
            }
        };
        bounded.view().since = Some(since);
        Ok(Some(since))
    }

    /// Returns whether a session's journal uses bounded partitions, by the time in its id.
    pub(in crate::cql) async fn has_bounded_journal(
        &self,
        session_id: SessionId,
    ) -> StoreResult<bool> {
        let since = self.bounded_since().await?;
        Ok(since.is_some_and(|since| session_id.made_at() >= since))
    }

    /// Reads the agreed time serially, which first completes another process's interrupted
    /// proposal.
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_proposed_only_after_all_members_read_the_layout_for_long_enough() {
        let agreement = Agreement::default();
        let (mut view, began, ms) = (
            AgreementView::default(),
            Instant::now(),
            Duration::from_millis(1),
        );
        let is_due = |view: AgreementView, at| view.is_due(at, agreement);
        assert!(is_due(view, began));
        assert_eq!(view.on_none(began, true, agreement), NextStep::Wait);
        assert!(!is_due(view, began + agreement.read_interval - ms));
        assert!(is_due(view, began + agreement.read_interval));
        // A node of an earlier release joins in between.
        let almost = began + agreement.after - ms;
        assert_eq!(view.on_none(almost, false, agreement), NextStep::Wait);
        let again = began + agreement.after + ms;
        assert_eq!(view.on_none(again, true, agreement), NextStep::Wait);
        let almost = again + agreement.after - ms;
        assert_eq!(view.on_none(almost, true, agreement), NextStep::Wait);
        assert_eq!(
            view.on_none(almost + ms, true, agreement),
            NextStep::Propose
        );
        view.since = Some(TimestampMs(1));
        assert!(!is_due(view, almost + 9 * agreement.after));
    }

    #[test]
    fn members_of_earlier_releases_count_until_they_are_gone() {
        let (up, old, gone) = ((Some(0), Some(1)), (Some(0), None), (Some(2), None));
        assert!(all_read_layout(&[]));
        assert!(all_read_layout(&[up, gone, (Some(1), Some(2))]));
        assert!(!all_read_layout(&[up, old]));
        assert!(
            !all_read_layout(&[(None, None)]),
            "a row without a heartbeat"
        );
    }
}
