//! Remembers how far the owner of an outbox has examined its ready entries, so that it does not
//! read them again each minute.

use porchlight_schema::time::TimestampMs;

/// The longest time in milliseconds between the time of a ready entry and the moment from which
/// readers see it: the difference between two nodes' clocks, and a slow write. An entry that
/// becomes visible later is found when its slot is settled.
const VISIBLE_MS: i64 = 60_000;

/// The ready entries of an outbox that its owner has examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExaminedEntries {
    /// The generation in which this process owned the outbox. In a later one, another process may
    /// have changed cursors in between.
    generation: u64,
    /// The time before which no entry is confirmed.
    up_to: TimestampMs,
    /// The beginning of the last read.
    began: TimestampMs,
}

impl ExaminedEntries {
    /// Returns the examined entries after a read of all entries that were not known to be finished.
    /// The read began at `began`; `first` is the time of the first entry that it confirmed.
    pub(super) fn new(generation: u64, began: TimestampMs, first: Option<TimestampMs>) -> Self {
        let visible = began.plus_ms(-VISIBLE_MS);
        Self {
            generation,
            up_to: first.map_or(visible, |first| first.min(visible)),
            began,
        }
    }

    /// Returns the time from which entries must be read at `now`. Returns `None` if all must be
    /// read: after a change of the owner, and after the clock was set back, because new entries may
    /// then be older than known ones.
    pub(super) fn from(self, generation: u64, now: TimestampMs) -> Option<TimestampMs> {
        (self.generation == generation && now >= self.began).then_some(self.up_to)
    }

    /// Includes a confirmed entry that became visible too late.
    pub(super) fn include(&mut self, at: TimestampMs) {
        self.up_to = self.up_to.min(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimestampMs = TimestampMs(1_763_636_100_000);
    const VISIBLE: TimestampMs = TimestampMs(NOW.0 - VISIBLE_MS);

    #[test]
    fn finished_entries_are_not_read_again() {
        let examined = ExaminedEntries::new(3, NOW, None);
        assert_eq!(examined.from(3, NOW.plus_ms(90_000)), Some(VISIBLE));
        // A confirmed entry to which others may still be added does not move the time forward.
        let examined = ExaminedEntries::new(3, NOW, Some(NOW));
        assert_eq!(examined.from(3, NOW), Some(VISIBLE));
    }

    #[test]
    fn the_entry_of_a_waiting_message_is_read_each_time() {
        let waits = NOW.plus_ms(-400_000);
        assert_eq!(
            ExaminedEntries::new(3, NOW, Some(waits)).from(3, NOW),
            Some(waits)
        );
        let mut examined = ExaminedEntries::new(3, NOW, None);
        examined.include(waits);
        examined.include(NOW);
        assert_eq!(examined.from(3, NOW), Some(waits));
    }

    #[test]
    fn all_entries_are_read_after_a_change_of_the_owner_and_after_the_clock_was_set_back() {
        let examined = ExaminedEntries::new(3, NOW, None);
        assert_eq!(examined.from(4, NOW), None);
        assert_eq!(examined.from(3, NOW.plus_ms(-1)), None);
    }
}
