//! Finds the times at which the phone's clock was set back.
//!
//! A phone should count the time of its samples by a monotonic clock. A phone that takes the time
//! of day repeats some seconds when its clock is set back, and the intake drops the samples of
//! these seconds as out of order. The time between the last sample before them and the first one
//! after them is then longer than their difference.

use porchlight_schema::sample::Kind;

use crate::intake::measures;
use crate::window::ClockStep;

/// The least time by which a clock is set back that counts, in milliseconds: a vehicle in a town
/// (14 m/s) then seems to be faster than any delivery vehicle (50 m/s).
const STEP_MS_MIN: u32 = 3_000;
/// The times of two kinds of samples agree within this, in milliseconds: each has an interval of about
/// a second.
const AGREE_MS: u32 = 2_000;
/// The maximum number of times that are kept for each kind of samples.
const STEPS_MAX: usize = 32;

/// The samples of one kind that were out of order.
#[derive(Debug, Clone, Copy, Default)]
struct Repeated {
    /// The time of the newest sample before them.
    newest_ms: u32,
    /// The times of the first and the last of them.
    first_ms: u32,
    last_ms: u32,
}

impl Repeated {
    fn length_ms(&self) -> u32 {
        self.newest_ms.saturating_sub(self.first_ms)
    }

    /// Returns whether the samples repeat all the time up to the newest one before them. The samples
    /// of a batch that is late do not.
    fn is_whole(&self) -> bool {
        self.length_ms() >= STEP_MS_MIN && self.last_ms.saturating_add(AGREE_MS) >= self.newest_ms
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self.newest_ms.abs_diff(other.newest_ms) <= AGREE_MS
            && self.length_ms().abs_diff(other.length_ms()) <= AGREE_MS
    }
}

/// The times of one kind of samples.
#[derive(Debug, Clone, Default)]
struct OneKind {
    newest_ms: Option<u32>,
    /// The samples out of order since the newest one.
    now: Option<Repeated>,
    /// The first samples that repeated a whole time.
    whole: Vec<Repeated>,
}

/// Watches the times of the samples in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    kinds: [OneKind; Kind::ALL.len()],
}

impl ClockWatch {
    /// Takes the time of the next sample.
    #[inline]
    pub(super) fn push(&mut self, kind: Kind, t_ms: u32) {
        let Some(one) = self.kinds.get_mut(kind as usize) else {
            return;
        };
        match one.newest_ms {
            Some(newest_ms) if t_ms < newest_ms => one.repeat(newest_ms, t_ms),
            _ => (one.newest_ms, one.now) = (Some(t_ms), None),
        }
    }

    /// Returns the times at which the clock was set back, in order: fixes repeated a whole time, and
    /// another kind of measurements repeated the same time, if the phone sent one.
    pub(super) fn steps(&self) -> Vec<ClockStep> {
        let is_location = |index: usize| index == Kind::Location as usize;
        let indexed = || self.kinds.iter().enumerate();
        let whole = |wanted: bool| {
            indexed()
                .filter(move |(index, _)| is_location(*index) == wanted)
                .flat_map(|(_, one)| one.whole.iter())
        };
        let measuring = Kind::ALL.iter().filter(|kind| measures(**kind));
        let sent = measuring.filter_map(|kind| self.kinds.get(*kind as usize)?.newest_ms);
        let is_alone = sent.count() == 1;
        whole(true)
            .filter(|fixes| is_alone || whole(false).any(|other| fixes.agrees_with(other)))
            .map(|fixes| ClockStep {
                t_ms: fixes.newest_ms,
                by_ms: fixes.length_ms(),
            })
            .collect()
    }
}

impl OneKind {
    /// Takes the time of a sample that is out of order.
    fn repeat(&mut self, newest_ms: u32, t_ms: u32) {
        let repeated = self.now.get_or_insert(Repeated {
            newest_ms,
            first_ms: t_ms,
            last_ms: t_ms,
        });
        let was_whole = repeated.is_whole();
        repeated.last_ms = repeated.last_ms.max(t_ms);
        if !was_whole && repeated.is_whole() && self.whole.len() < STEPS_MAX {
            self.whole.push(*repeated);
        }
    }
}
