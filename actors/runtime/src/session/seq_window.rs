//! The latest batches of a session that this node was notified of. A batch in the journal without a
//! notification was lost on its way from another node.

use porchlight_observe::peer::PeerMetrics;
use porchlight_ports::JournalEntry;

use super::SessionHandle;

/// A set of batch numbers, exact for the highest and the 63 before it. Lower numbers count as
/// known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SeqWindow {
    /// The number after the highest known one.
    next: u32,
    /// Bit i is set if the number `next - 1 - i` is known.
    mask: u64,
}

impl SeqWindow {
    /// Adds a number. Returns whether it is new.
    pub(crate) fn insert(&mut self, seq: u32) -> bool {
        if seq >= self.next {
            let by = seq - self.next + 1;
            self.mask = self.mask.checked_shl(by).unwrap_or(0) | 1;
            self.next = seq.saturating_add(1);
            return true;
        }
        let Some(bit) = 1_u64.checked_shl(self.next - 1 - seq) else {
            return false;
        };
        let is_new = self.mask & bit == 0;
        self.mask |= bit;
        is_new
    }
}

impl SessionHandle {
    /// Records a page of the journal that was read by an actor that expects `next_seq`. If the
    /// actor had caught up before, the batches without a notification are counted.
    pub(crate) fn record_read(&self, page: &[JournalEntry], next_seq: u32, had_caught_up: bool) {
        let mut slot = self.slot();
        let new = page.iter().filter(|entry| slot.notified.insert(entry.seq));
        let repaired = new.filter(|entry| entry.seq >= next_seq).count();
        if had_caught_up && repaired > 0 {
            PeerMetrics::get().repaired.increment(repaired as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut notified = SeqWindow::default();
        for (seq, is_new) in [(0, true), (0, false), (3, true), (1, true), (3, false)] {
            assert_eq!(notified.insert(seq), is_new, "{seq}");
        }
        assert!(notified.insert(70));
        assert!(notified.insert(7), "63 below the highest");
        assert!(
            !notified.insert(6),
            "a number below the window counts as known"
        );
        assert!(notified.insert(u32::MAX - 1));
    }

    #[test]
    fn within_the_window_it_behaves_as_a_set() {
        for stride in 1..200_u32 {
            let (mut notified, mut set) = (SeqWindow::default(), std::collections::BTreeSet::new());
            for step in 0..200 {
                let seq = step * stride % 61;
                assert_eq!(notified.insert(seq), set.insert(seq), "{stride}: {seq}");
            }
        }
    }
}
