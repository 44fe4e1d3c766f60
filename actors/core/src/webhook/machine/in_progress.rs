//! The lanes in progress, counted and ordered by permit and by start.
//!
//! An endpoint has hundreds of lanes in progress, and each answer needs the free permits and the
//! oldest attempt several times. The counts and ordered sets supply both without a pass over all
//! lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

use super::{Class, LaneInProgress, Stage, TIMED_OUT_LANES_MAX};
use crate::webhook::Queued;

/// The lanes in progress, and the lanes whose last attempt timed out.
#[derive(Debug, Default)]
pub(super) struct LanesInProgress {
    lanes: BTreeMap<SessionId, LaneInProgress>,
    /// The lanes whose last attempt timed out. Their next attempt begins with a slow permit.
    timed_out: BTreeSet<SessionId>,
    index: Index,
}

/// The counts and orders of the lanes in progress.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    /// The number of lanes with a quick permit, by class.
    quick: [usize; Class::COUNT],
    /// The number of lanes with a slow permit.
    slow: usize,
    /// The lanes with an attempt in flight and a quick permit, the oldest attempt first.
    quick_attempts: BTreeSet<(TimestampMs, SessionId)>,
    /// The lanes with an attempt in flight and a slow permit, the oldest attempt first.
    slow_attempts: BTreeSet<(TimestampMs, SessionId)>,
    /// The lanes with an attempt in flight, by the time since which their message has been due.
    due: BTreeSet<(TimestampMs, SessionId)>,
    /// The lanes whose commit failed.
    uncommitted: BTreeSet<SessionId>,
    /// The number of lanes whose last attempt timed out.
    timed_out: usize,
}

/// Returns the time since which a message has been due.
fn due_since(message: &Queued) -> TimestampMs {
    message.due_at.unwrap_or(message.id.made_at())
}

impl Index {
    fn add(&mut self, lane: SessionId, busy: &LaneInProgress) {
        if busy.is_slow {
            self.slow += 1;
        } else {
            self.quick[busy.class as usize] += 1;
        }
        match &busy.stage {
            Stage::Sending {
                attempted,
                begun_at,
            } => {
                self.attempts(busy.is_slow).insert((*begun_at, lane));
                self.due.insert((due_since(attempted), lane));
            }
            Stage::Uncommitted(_) => {
                self.uncommitted.insert(lane);
            }
            Stage::Reading | Stage::Committing(_) => {}
        }
    }

    fn remove(&mut self, lane: SessionId, busy: &LaneInProgress) {
        if busy.is_slow {
            self.slow -= 1;
        } else {
            self.quick[busy.class as usize] -= 1;
        }
        match &busy.stage {
            Stage::Sending {
                attempted,
                begun_at,
            } => {
                self.attempts(busy.is_slow).remove(&(*begun_at, lane));
                self.due.remove(&(due_since(attempted), lane));
            }
            Stage::Uncommitted(_) => {
                self.uncommitted.remove(&lane);
            }
            Stage::Reading | Stage::Committing(_) => {}
        }
    }

    fn attempts(&mut self, is_slow: bool) -> &mut BTreeSet<(TimestampMs, SessionId)> {
        if is_slow {
            &mut self.slow_attempts
        } else {
            &mut self.quick_attempts
        }
    }
}

impl LanesInProgress {
    /// Returns the number of lanes in progress.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Returns whether no lane is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Returns whether the lane is in progress.
    pub(super) fn contains(&self, lane: SessionId) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// Returns the lane, if it is in progress.
    pub(super) fn get(&self, lane: SessionId) -> Option<&LaneInProgress> {
        self.lanes.get(&lane)
    }

    /// Returns all lanes in progress.
    pub(super) fn all(&self) -> impl Iterator<Item = &LaneInProgress> {
        self.lanes.values()
    }

    /// Adds a lane that is not in progress.
    pub(super) fn insert(&mut self, lane: SessionId, busy: LaneInProgress) {
        self.remove(lane);
        self.index.add(lane, &busy);
        self.index.timed_out += usize::from(self.timed_out.contains(&lane));
        self.lanes.insert(lane, busy);
    }

    /// Removes a lane.
    pub(super) fn remove(&mut self, lane: SessionId) -> Option<LaneInProgress> {
        let busy = self.lanes.remove(&lane)?;
        self.index.remove(lane, &busy);
        self.index.timed_out -= usize::from(self.timed_out.contains(&lane));
        Some(busy)
    }

    /// Changes a lane, if it is in progress, and returns the result of `change`.
    pub(super) fn update<T>(
        &mut self,
        lane: SessionId,
        change: impl FnOnce(&mut LaneInProgress) -> T,
    ) -> Option<T> {
        let busy = self.lanes.get_mut(&lane)?;
        self.index.remove(lane, busy);
        let result = change(busy);
        self.index.add(lane, busy);
        Some(result)
    }

    /// Returns the number of lanes that hold a quick permit.
    pub(super) fn quick(&self) -> usize {
        self.index.quick.iter().sum()
    }

    /// Returns the number of lanes of a class that hold a quick permit.
    pub(super) fn quick_of(&self, class: Class) -> usize {
        self.index.quick[class as usize]
    }

    /// Returns the number of lanes that hold a slow permit.
    pub(super) fn slow(&self) -> usize {
        self.index.slow
    }

    /// Returns the number of attempts in flight that began at `begun_by` or earlier, counted up to
    /// `max`.
    pub(super) fn attempts_begun_by(&self, begun_by: TimestampMs, max: usize) -> usize {
        let Index {
            quick_attempts,
            slow_attempts,
            ..
        } = &self.index;
        let of = |attempts: &BTreeSet<(TimestampMs, SessionId)>| {
            let begun = attempts.iter().take_while(|(at, _)| *at <= begun_by);
            begun.take(max).count()
        };
        (of(quick_attempts) + of(slow_attempts)).min(max)
    }

    /// Returns the lanes with a quick permit whose attempt began at `begun_by` or earlier, the
    /// oldest attempt first.
    pub(super) fn quick_begun_by(&self, begun_by: TimestampMs) -> impl Iterator<Item = SessionId> {
        let attempts = self.index.quick_attempts.iter();
        let begun = attempts.take_while(move |(at, _)| *at <= begun_by);
        begun.map(|&(_, lane)| lane)
    }

    /// Returns the beginning of the oldest attempt with a quick permit that began after `begun_by`.
    pub(super) fn quick_begun_after(&self, begun_by: TimestampMs) -> Option<TimestampMs> {
        let last = (begun_by, SessionId::from_bytes([u8::MAX; 16]));
        let later = (Bound::Excluded(last), Bound::Unbounded);
        let mut later = self.index.quick_attempts.range(later);
        later.next().map(|&(at, _)| at)
    }

    /// Returns the time since which the longest-due message with an attempt in flight has been due.
    pub(super) fn oldest_due(&self) -> Option<TimestampMs> {
        self.index.due.first().map(|&(due_since, _)| due_since)
    }

    /// Returns the lanes whose commit failed.
    pub(super) fn uncommitted(&self) -> &BTreeSet<SessionId> {
        &self.index.uncommitted
    }

    /// Returns whether the last attempt of a lane timed out.
    pub(super) fn has_timed_out(&self, lane: SessionId) -> bool {
        self.timed_out.contains(&lane)
    }

    /// Returns the number of lanes in progress whose last attempt timed out.
    pub(super) fn timed_out(&self) -> usize {
        self.index.timed_out
    }

    /// Records whether the last attempt of a lane timed out.
    pub(super) fn record_timeout(&mut self, lane: SessionId, timed_out: bool) {
        if timed_out {
            if self.timed_out.insert(lane) {
                self.index.timed_out += usize::from(self.contains(lane));
            }
            if self.timed_out.len() > TIMED_OUT_LANES_MAX
                && let Some(forgotten) = self.timed_out.pop_first()
            {
                self.index.timed_out -= usize::from(self.contains(forgotten));
            }
        } else if self.timed_out.remove(&lane) {
            self.index.timed_out -= usize::from(self.contains(lane));
        }
    }

    /// Checks the counts and orders against a pass over all lanes.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut counted = Index::default();
        for (&lane, busy) in &self.lanes {
            counted.add(lane, busy);
            counted.timed_out += usize::from(self.timed_out.contains(&lane));
        }
        assert_eq!(self.index, counted);
    }
}
