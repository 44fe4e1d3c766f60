//! Keeps the marks, or the incidents, of a session for scoring, within a bound.

use std::collections::{BTreeMap, VecDeque};

use porchlight_schema::limits::SESSION_MARKS_MAX;

/// The maximum number of the first entries of a name. The rest of [`SESSION_MARKS_MAX`] is for the
/// most recent ones.
const FIRST_MAX: usize = SESSION_MARKS_MAX / 2;
const RECENT_MAX: usize = SESSION_MARKS_MAX - FIRST_MAX;

/// The times of the entries of one name, in milliseconds since the session's start.
#[derive(Debug, Default)]
struct Times {
    first: Vec<u32>,
    recent: VecDeque<u32>,
}

/// The first and the most recent entries of each name. Names are bounded separately, so the names
/// that an app invents displace no other name, and the last entry of a name is always kept.
#[derive(Debug)]
pub(super) struct Kept<Name>(BTreeMap<Name, Times>);

impl<Name> Default for Kept<Name> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Name: Copy + Ord> Kept<Name> {
    /// Adds the next entry.
    pub(super) fn push(&mut self, t_ms: u32, name: Name) {
        let times = self.0.entry(name).or_default();
        if times.first.len() < FIRST_MAX {
            times.first.push(t_ms);
            return;
        }
        if times.recent.len() == RECENT_MAX {
            times.recent.pop_front();
        }
        times.recent.push_back(t_ms);
    }

    /// Returns the kept entries in order of time, then name.
    pub(super) fn into_sorted(self) -> Vec<(u32, Name)> {
        let of_name = |(name, times): (Name, Times)| {
            let all = times.first.into_iter().chain(times.recent);
            all.map(move |t_ms| (t_ms, name))
        };
        let mut entries: Vec<_> = self.0.into_iter().flat_map(of_name).collect();
        entries.sort_unstable();
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::MarkName;

    #[test]
    fn the_last_drop_off_is_kept_after_any_number_of_other_marks() {
        let mut kept = Kept::default();
        for t_ms in 0..10_000 {
            kept.push(t_ms, MarkName::Other);
        }
        for t_ms in 10_000..11_000 {
            kept.push(t_ms, MarkName::HandedOver);
        }
        let entries = kept.into_sorted();
        assert_eq!(entries.len(), 2 * SESSION_MARKS_MAX);
        assert_eq!(entries.first(), Some(&(0, MarkName::Other)));
        assert_eq!(entries.last(), Some(&(10_999, MarkName::HandedOver)));
        assert!(entries.contains(&(9_999, MarkName::Other)));
        assert!(entries.contains(&(10_000, MarkName::HandedOver)));
    }

    #[test]
    fn all_entries_within_the_bound_are_kept_in_order() {
        let mut kept = Kept::default();
        for t_ms in 0..SESSION_MARKS_MAX as u32 {
            kept.push(t_ms, MarkName::PodCaptured);
            kept.push(t_ms, MarkName::Arrived);
        }
        let entries = kept.into_sorted();
        assert_eq!(entries.len(), 2 * SESSION_MARKS_MAX);
        assert!(entries.is_sorted());
    }
}
