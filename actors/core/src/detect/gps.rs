//! `GPS_DEGRADED`, `GPS_LOST` and `GPS_RESTORED`: the contract's rules for the fixes.

mod usual;

use porchlight_schema::event::{EventType, Metadata};
use serde::{Deserialize, Serialize};

use super::{Detector, Observation, logistic};
use crate::context::SessionContext;
use crate::detect::parameters::gps::{
    CONFIDENCE_GPS, DEGRADED_ACCURACY_M, DEGRADED_FIXES, FIRST_FIX_MS, FIX_AFTER_PAUSE_MS,
    GOOD_ACCURACY_M, LOST_AFTER_MS, RESTORED_WITHIN_MS, USELESS_ACCURACY_M,
};
use crate::detect::parameters::position::FIX_AGAIN_MS;
use crate::event_log::EventLog;
use crate::window::{Fix, Window};
use usual::UsualAccuracy;

/// A run of consecutive degraded fixes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct PoorRun {
    since_ms: u32,
    count: u8,
    /// Whether one of the counted fixes was worse than a fix that restores.
    is_coarse: bool,
}

/// A detector for the quality of the position.
///
/// The detector settles the cases that the contract's rules leave open. A run of useless fixes is a
/// degradation too. A degradation ends with the first fix that is not degraded, or where a loss
/// begins. A loss begins with the last useful fix, or with the useless fix that follows
/// immediately. During a degradation or loss nothing is restored. A fix that restores cannot
/// degrade: after a degradation beyond 35 m, or a loss, fixes of up to 35 m are not degraded until
/// the usual accuracy is back, however good that accuracy is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct GpsDetector {
    usual: UsualAccuracy,
    /// Whether a good fix has arrived: the first fixes of a phone are often stale or far off.
    is_known: bool,
    /// The time of the first useful fix since the last silence.
    first_useful_ms: Option<u32>,
    last_useful_ms: Option<u32>,
    /// The time from which the position may turn out to be lost: the newest useful fix, or the
    /// useless fix that followed immediately.
    since_ms: Option<u32>,
    /// The time since `since_ms` for which samples arrived, milliseconds.
    alive_ms: u32,
    last_sample_ms: Option<u32>,
    /// Whether the stream resumes after a silence that a useful fix preceded. A loss can then begin
    /// with the first sample.
    is_resuming: bool,
    is_lost: bool,
    poor: Option<PoorRun>,
    is_degraded: bool,
    /// The last two good fixes after a degradation or a loss, until it is restored.
    good_ms: Option<[Option<u32>; 2]>,
    /// Whether no fix was as good as usual since a coarse degradation or a loss.
    is_lenient: bool,
}

impl Detector for GpsDetector {
    #[inline]
    fn observe(
        &mut self,
        _context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let window = observation.window;
        for fix in window.fixes() {
            if !is_copy(window, fix) {
                self.observe_fix(fix, log);
            }
        }
        if window.has_sample {
            self.count_alive_until(window.last_sample_ms, log);
        }
    }

    fn finish(&mut self, _context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        // Useless fixes that did not last long enough for a loss are a degradation.
        let run = self.poor.take().filter(|run| run.count >= DEGRADED_FIXES);
        if let Some(run) = run.filter(|_| !self.is_lost) {
            self.degrade(run, log);
        }
        self.end_degraded(t_ms, log);
        self.end_lost(t_ms, log);
        // After a silence the position is judged from the start; a position not restored before it
        // can be restored after it.
        *self = Self {
            usual: self.usual.clone(),
            is_known: self.is_known,
            is_resuming: self.since_ms.is_some() || self.is_resuming,
            good_ms: self.good_ms.map(|_| [None; 2]),
            is_lenient: self.is_lenient,
            ..Self::default()
        };
    }
}

/// Returns whether a fix repeats the one before it in the same second, because two providers report
/// it. The repetition is not another fix.
fn is_copy(window: &Window, fix: &Fix) -> bool {
    let [Some(first), Some(last)] = &window.fixes else {
        return false;
    };
    fix.t_ms == last.t_ms
        && last.t_ms.saturating_sub(first.t_ms) < FIX_AGAIN_MS
        && last.place == first.place
        && last.accuracy_m == first.accuracy_m
}

impl GpsDetector {
    /// Processes the next fix.
    fn observe_fix(&mut self, fix: &Fix, log: &mut EventLog) {
        let (t_ms, accuracy_m) = (fix.t_ms, fix.accuracy_m);
        let is_useful = accuracy_m <= USELESS_ACCURACY_M;
        let pause_ms = t_ms.saturating_sub(self.last_sample_ms.unwrap_or(t_ms));
        if is_useful && pause_ms >= FIX_AFTER_PAUSE_MS {
            // The stream was silent before the fix, so the pause does not count.
            self.last_sample_ms = Some(t_ms);
        } else {
            self.count_alive_until(t_ms, log);
        }
        if is_useful {
            self.first_useful_ms.get_or_insert(t_ms);
            self.last_useful_ms = Some(t_ms);
            (self.since_ms, self.alive_ms) = (Some(t_ms), 0);
            self.is_resuming = false;
            self.end_lost(t_ms, log);
        } else if self.since_ms == self.last_useful_ms && self.alive_ms < LOST_AFTER_MS {
            (self.since_ms, self.alive_ms) = (self.since_ms.map(|_| t_ms), 0);
        } else if let Some(since_ms) = self.since_ms {
            // A phone that sends useless fixes is not silent, however rarely they come.
            self.alive_ms = self.alive_ms.max(t_ms.saturating_sub(since_ms));
        }
        let is_good = accuracy_m <= GOOD_ACCURACY_M;
        self.is_known |= is_good;
        // Useless fixes during a loss are not degradation.
        if !self.is_known || self.is_lost {
            return;
        }
        let is_unusual = self.usual.is_degraded(accuracy_m);
        if is_good && !is_unusual {
            self.is_lenient = false;
        }
        if accuracy_m >= DEGRADED_ACCURACY_M {
            self.count_poor(t_ms, is_useful, true, log);
            return;
        }
        self.usual.add(accuracy_m);
        if is_unusual && !(self.is_lenient && is_good) {
            self.count_poor(t_ms, is_useful, !is_good, log);
            return;
        }
        self.count_usable(t_ms, log);
        if is_good {
            self.count_good(t_ms, log);
        }
    }

    /// Counts the time up to `newest_ms` for which samples arrived without a useful fix.
    #[inline]
    fn count_alive_until(&mut self, newest_ms: u32, log: &mut EventLog) {
        // If fixes are the only samples, the newest sample was already seen as a fix.
        let is_known = self.last_sample_ms == Some(newest_ms);
        if !is_known || self.is_resuming || self.alive_ms >= LOST_AFTER_MS {
            self.extend_alive_until(newest_ms, log);
        }
    }

    /// Adds the time since the last sample, and opens a loss if the position is lost.
    fn extend_alive_until(&mut self, newest_ms: u32, log: &mut EventLog) {
        if self.is_resuming {
            self.is_resuming = false;
            self.since_ms = Some(newest_ms);
        }
        let from_ms = self.last_sample_ms.unwrap_or(newest_ms);
        self.last_sample_ms = Some(newest_ms.max(from_ms));
        let Some(since_ms) = self.since_ms else {
            return;
        };
        let pause_ms = newest_ms.saturating_sub(from_ms.max(since_ms));
        // A silence of that length interrupts the stream, even if it is too short to end the
        // events.
        if pause_ms < LOST_AFTER_MS {
            self.alive_ms = self.alive_ms.saturating_add(pause_ms);
        }
        // A position that was never available cannot be lost.
        let was_known = self.is_known
            || self
                .first_useful_ms
                .is_some_and(|first_ms| since_ms.saturating_sub(first_ms) >= FIRST_FIX_MS);
        if self.alive_ms >= LOST_AFTER_MS && was_known && !self.is_lost {
            self.end_degraded(since_ms, log);
            self.poor = None;
            self.is_lost = true;
            self.is_lenient = true;
            self.good_ms = Some([None; 2]);
            log.open(
                EventType::GpsLost,
                since_ms,
                logistic(CONFIDENCE_GPS),
                Metadata::None,
            );
        }
    }

    /// Counts a degraded fix, and begins a degradation once there are enough.
    fn count_poor(&mut self, t_ms: u32, is_useful: bool, is_coarse: bool, log: &mut EventLog) {
        let run = self.poor.get_or_insert(PoorRun {
            since_ms: t_ms,
            count: 0,
            is_coarse: false,
        });
        run.count = run.count.saturating_add(1);
        run.is_coarse |= is_coarse;
        let run = *run;
        if run.count < DEGRADED_FIXES {
            return;
        }
        self.is_lenient |= run.is_coarse;
        // Useless fixes alone may turn out to be a loss that began with them.
        if is_useful {
            self.degrade(run, log);
        }
    }

    /// Opens a degradation that began with the first fix of the run.
    fn degrade(&mut self, run: PoorRun, log: &mut EventLog) {
        self.good_ms = Some([None; 2]);
        if !self.is_degraded {
            self.is_degraded = true;
            log.open(
                EventType::GpsDegraded,
                run.since_ms,
                logistic(CONFIDENCE_GPS),
                Metadata::None,
            );
        }
    }

    /// Ends a run of degraded fixes with a usable one.
    fn count_usable(&mut self, t_ms: u32, log: &mut EventLog) {
        let Some(run) = self.poor.take() else { return };
        if run.count >= DEGRADED_FIXES {
            if !self.is_degraded {
                self.degrade(run, log);
            }
            self.end_degraded(t_ms, log);
        } else if !run.is_coarse {
            // A single fix was worse than usual but still good. No degradation began with it, so it
            // counts as one of the three fixes that restore.
            self.count_good(run.since_ms, log);
        }
    }

    /// Counts a good fix after a degradation or a loss, and restores the position at the third.
    fn count_good(&mut self, t_ms: u32, log: &mut EventLog) {
        let Some(good_ms) = self.good_ms else {
            return;
        };
        let within = |&before_ms: &u32| t_ms.saturating_sub(before_ms) <= RESTORED_WITHIN_MS;
        self.good_ms = match good_ms.map(|good_ms| good_ms.filter(within)) {
            [Some(first_ms), Some(_)] => {
                log.instant(EventType::GpsRestored, first_ms, logistic(CONFIDENCE_GPS));
                None
            }
            [None, None] => Some([Some(t_ms), None]),
            [first_ms, last_ms] => Some([last_ms.or(first_ms), Some(t_ms)]),
        };
    }

    fn end_degraded(&mut self, t_ms: u32, log: &mut EventLog) {
        if core::mem::take(&mut self.is_degraded) {
            log.close(
                EventType::GpsDegraded,
                t_ms,
                logistic(CONFIDENCE_GPS),
                Metadata::None,
            );
        }
    }

    fn end_lost(&mut self, t_ms: u32, log: &mut EventLog) {
        if core::mem::take(&mut self.is_lost) {
            log.close(
                EventType::GpsLost,
                t_ms,
                logistic(CONFIDENCE_GPS),
                Metadata::None,
            );
        }
    }
}
