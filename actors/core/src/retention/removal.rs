//! Orders the removal of expired data with restrictions and legal holds, which any node may place.
//!
//! A sweep stores the sessions that it is about to treat, and then reads the marks; a hold writes
//! its mark, and then reads the stored removal. So at least one of them finds the other. A removal
//! that was stored again after the marks were read is decided: its sessions lose their data, even
//! if the process is killed. A hold that finds its session in it waits until the removal has ended.
//! A removal that is not decided has removed nothing, and is dropped for a hold.

use porchlight_schema::ids::SessionId;
use serde::{Deserialize, Serialize};

use super::DataClass;

/// The removal of one class of data of some sessions, as it is stored with the tenant's policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// A random number. A process that was suspended must not take a later removal of the same
    /// sessions for its own.
    number: u64,
    /// The class of data.
    pub class: DataClass,
    /// The sessions that lose the data.
    pub sessions: Vec<SessionId>,
    /// Whether the marks were read after the removal was stored.
    #[serde(default)]
    decided: bool,
}

impl Removal {
    /// Plans a removal. Store it before you read the marks.
    #[must_use]
    pub fn plan(number: u64, class: DataClass, sessions: Vec<SessionId>) -> Self {
        Self {
            number,
            class,
            sessions,
            decided: false,
        }
    }

    /// Decides the removal, without the sessions that must be kept by the marks that were read
    /// since it was stored. Returns `None` if no session is left. Store the result before you
    /// remove anything.
    #[must_use]
    pub fn decide(&self, must_keep: impl Fn(SessionId) -> bool) -> Option<Self> {
        let mut decided = self.clone();
        decided.sessions.retain(|id| !must_keep(*id));
        decided.decided = true;
        (!decided.sessions.is_empty()).then_some(decided)
    }

    /// Returns whether the sessions lose their data even if a mark is written now. The other
    /// removals have removed nothing.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.decided
    }

    /// Returns whether both are the same removal, in any state.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use porchlight_schema::time::TimestampMs;
    use proptest::prelude::*;

    use super::*;

    fn session(number: u128) -> SessionId {
        SessionId::new(TimestampMs(5), number)
    }

    #[test]
    fn a_decided_removal_has_only_sessions_that_need_not_be_kept() {
        let planned = Removal::plan(7, DataClass::Insight, vec![session(1), session(2)]);
        assert!(!planned.is_decided());
        let decided = planned.decide(|id| id == session(1)).unwrap();
        assert!(decided.is_decided() && decided.is_same(&planned));
        assert_eq!(decided.sessions, [session(2)]);
        assert_eq!(planned.decide(|_| true), None);
    }

    /// The stored rows, and the knowledge of a sweep and of a hold of the same session. Both may
    /// stop for any time between two steps, and the sweep may be killed.
    #[derive(Debug, Default)]
    struct World {
        is_marked: bool,
        is_removed: bool,
        stored: Option<Removal>,
        sweep: u8,
        planned: Option<Removal>,
        sees_mark: bool,
        hold: u8,
        numbers: u64,
    }

    impl World {
        fn sweep(&mut self) {
            self.sweep = match self.sweep {
                // A sweep finishes the removal of a sweep that was killed.
                0 if self.stored.as_ref().is_some_and(Removal::is_decided) => {
                    self.planned = self.stored.clone();
                    3
                }
                0 => {
                    self.numbers += 1;
                    let class = DataClass::Insight;
                    self.planned = Some(Removal::plan(self.numbers, class, vec![session(1)]));
                    self.stored = self.planned.clone();
                    1
                }
                1 => {
                    self.sees_mark = self.is_marked;
                    2
                }
                2 if self.stored != self.planned => 0,
                2 => {
                    let sees_mark = self.sees_mark;
                    let planned = self.planned.as_ref();
                    self.planned = planned.and_then(|one| one.decide(|_| sees_mark));
                    self.stored = self.planned.clone();
                    if self.stored.is_some() { 3 } else { 0 }
                }
                3 => {
                    self.is_removed = true;
                    4
                }
                _ => {
                    self.stored = None;
                    0
                }
            };
        }

        fn kill_sweep(&mut self) {
            self.sweep = 0;
            self.planned = None;
        }

        /// Returns the answer of the hold, once it has one: whether the session is there.
        fn hold(&mut self) -> Option<bool> {
            match (self.hold, &self.stored) {
                (0, _) => {
                    self.is_marked = true;
                    self.hold = 1;
                }
                (1, Some(removal)) if removal.is_decided() => {}
                (1, _) => {
                    self.stored = None;
                    self.hold = 2;
                }
                _ => return Some(!self.is_removed),
            }
            None
        }
    }

    proptest! {
        #[test]
        fn a_session_that_a_hold_has_found_is_never_removed(
            steps in prop::collection::vec(0_u8..8, 1..200),
        ) {
            let (mut world, mut answers) = (World::default(), BTreeSet::new());
            for step in steps {
                match step {
                    0 => world.kill_sweep(),
                    1..=3 => answers.extend(world.hold()),
                    _ => world.sweep(),
                }
                prop_assert!(!(world.is_removed && answers.contains(&true)), "{world:?}");
            }
        }
    }
}
