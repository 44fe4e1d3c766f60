//! `GPS_DEGRADED`, `GPS_LOST`, `GPS_RESTORED`: one state machine over the fixes.

use porchlight_schema::event::{EventType, Metadata};
use serde::{Deserialize, Serialize};

use super::constants::{
    CONFIDENCE_GPS, DEGRADED_ACCURACY_M, DEGRADED_FIXES, DEGRADED_RATIO, GOOD_ACCURACY_M,
    LOST_AFTER_MS, RESTORED_WITHIN_MS, USELESS_ACCURACY_M, USUAL_BIN_M, USUAL_BIN_RATIO,
};
use super::{Detector, Observation, logistic};
use crate::context::SessionContext;
use crate::timeline::EventLog;
use crate::window::Fix;

/// Where the position stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Quality {
    /// No good fix yet: phones begin with stale and wild ones.
    #[default]
    Unknown,
    /// Usable fixes.
    Good,
    /// Fixes of little use.
    Degraded,
    /// None, or useless ones.
    Lost,
}

/// Fixes after which the median is taken anew.
const USUAL_EVERY: u8 = 4;

/// Bins of the accuracies that were usable.
const BINS: usize = 24;

/// The median of the session's usable accuracies, to the width of a bin: 8 % either way.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Usual {
    counts: [u16; BINS],
    /// Fixes since the median was taken.
    newer: u8,
    /// Upper edge of the bin of the median, metres; 0 before the first.
    median_m: f32,
}

impl Usual {
    fn take(&mut self, accuracy_m: f32) {
        let mut edge_m = USUAL_BIN_M;
        let mut place = 0;
        while place + 1 < BINS && accuracy_m > edge_m {
            edge_m *= USUAL_BIN_RATIO;
            place += 1;
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
            if *count == u16::MAX {
                // Old fixes count half: only their proportions matter.
                self.counts = self.counts.map(|count| count / 2);
            }
        }
        // The median of many moves slowly.
        self.newer += 1;
        if self.newer < USUAL_EVERY && self.median_m > 0.0 {
            return;
        }
        self.newer = 0;
        let all: u32 = self.counts.iter().map(|&count| u32::from(count)).sum();
        let (mut below, mut edge_m) = (0, USUAL_BIN_M);
        for &count in &self.counts {
            below += u32::from(count);
            if below * 2 >= all {
                break;
            }
            edge_m *= USUAL_BIN_RATIO;
        }
        self.median_m = edge_m;
    }

    fn is_far_below(&self, accuracy_m: f32) -> bool {
        self.median_m > 0.0 && accuracy_m >= DEGRADED_RATIO * self.median_m
    }
}

/// Tells the quality of the position.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct GpsDetector {
    quality: Quality,
    usual: Usual,
    last_useful_ms: Option<u32>,
    /// First of the poor fixes running, and how many.
    poor: Option<(u32, u8)>,
    /// While degraded: the first fix that is no longer poor.
    better_ms: Option<u32>,
    /// After a degradation or a loss, until it is restored: the last two good fixes.
    good_ms: Option<[Option<u32>; 2]>,
    /// What is to be restored was lost, and not only degraded.
    was_lost: bool,
}

impl Detector for GpsDetector {
    fn observe(
        &mut self,
        _context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let window = observation.window;
        for fix in window.fixes.iter().flatten() {
            self.see(fix, log);
        }
        if !window.alive || !matches!(self.quality, Quality::Good | Quality::Degraded) {
            return;
        }
        let Some(since_ms) = self.last_useful_ms else {
            return;
        };
        if window.last_sample_ms.saturating_sub(since_ms) >= LOST_AFTER_MS {
            self.close(since_ms, log);
            self.quality = Quality::Lost;
            self.was_lost = true;
            self.poor = None;
            self.good_ms = Some([None; 2]);
            log.open(
                EventType::GpsLost,
                since_ms,
                logistic(CONFIDENCE_GPS),
                Metadata::None,
            );
        }
    }

    fn finish(&mut self, _context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        self.close(t_ms, log);
        // What comes after a silence is judged anew; what was not restored before it can be restored after it.
        let quality = if self.quality == Quality::Unknown {
            Quality::Unknown
        } else {
            Quality::Good
        };
        *self = Self {
            quality,
            usual: self.usual.clone(),
            good_ms: self.good_ms.map(|_| [None; 2]),
            was_lost: self.was_lost,
            ..Self::default()
        };
    }
}

impl GpsDetector {
    fn see(&mut self, fix: &Fix, log: &mut EventLog) {
        let is_good = fix.accuracy_m <= GOOD_ACCURACY_M;
        if self.quality == Quality::Unknown {
            if !is_good {
                return;
            }
            self.quality = Quality::Good;
        }
        if fix.accuracy_m <= USELESS_ACCURACY_M {
            self.last_useful_ms = Some(fix.t_ms);
            if self.quality == Quality::Lost {
                log.close(
                    EventType::GpsLost,
                    fix.t_ms,
                    logistic(CONFIDENCE_GPS),
                    Metadata::None,
                );
                self.quality = Quality::Good;
            }
        }
        // After a loss the first fixes are worse than usual, and still restore: they can't degrade at the same time.
        let is_unusual = self.usual.is_far_below(fix.accuracy_m) && !(self.was_lost && is_good);
        let is_poor = fix.accuracy_m >= DEGRADED_ACCURACY_M || is_unusual;
        if is_poor {
            self.see_poor(fix.t_ms, log);
        } else {
            self.see_usable(fix, log);
        }
        if self.good_ms.is_some() && is_good && !is_poor {
            self.see_good(fix.t_ms, log);
        }
    }

    fn see_poor(&mut self, t_ms: u32, log: &mut EventLog) {
        self.better_ms = None;
        let (since_ms, count) = self.poor.map_or((t_ms, 1), |(since_ms, count)| {
            (since_ms, count.saturating_add(1))
        });
        self.poor = Some((since_ms, count));
        if self.quality == Quality::Good && count >= DEGRADED_FIXES {
            self.quality = Quality::Degraded;
            self.good_ms = Some([None; 2]);
            log.open(
                EventType::GpsDegraded,
                since_ms,
                logistic(CONFIDENCE_GPS),
                Metadata::None,
            );
        }
    }

    /// A degradation ends with the first of two fixes running that are not poor.
    fn see_usable(&mut self, fix: &Fix, log: &mut EventLog) {
        self.poor = None;
        self.usual.take(fix.accuracy_m);
        if self.quality == Quality::Degraded {
            match self.better_ms.take() {
                None => self.better_ms = Some(fix.t_ms),
                Some(better_ms) => {
                    log.close(
                        EventType::GpsDegraded,
                        better_ms,
                        logistic(CONFIDENCE_GPS),
                        Metadata::None,
                    );
                    self.quality = Quality::Good;
                }
            }
        }
    }

    fn see_good(&mut self, t_ms: u32, log: &mut EventLog) {
        let Some([before_ms, last_ms]) = self.good_ms else {
            return;
        };
        match before_ms.filter(|before_ms| t_ms - before_ms <= RESTORED_WITHIN_MS) {
            Some(first_ms) if last_ms.is_some() => {
                self.close(first_ms, log);
                self.quality = Quality::Good;
                self.good_ms = None;
                self.was_lost = false;
                log.instant(EventType::GpsRestored, first_ms, logistic(CONFIDENCE_GPS));
            }
            _ => {
                self.good_ms = Some(match (before_ms, last_ms) {
                    (None, _) => [Some(t_ms), None],
                    (Some(_), None) => [before_ms, Some(t_ms)],
                    (Some(_), Some(_)) => [last_ms, Some(t_ms)],
                });
            }
        }
    }

    fn close(&mut self, t_ms: u32, log: &mut EventLog) {
        self.better_ms = None;
        log.close(
            EventType::GpsDegraded,
            t_ms,
            logistic(CONFIDENCE_GPS),
            Metadata::None,
        );
        log.close(
            EventType::GpsLost,
            t_ms,
            logistic(CONFIDENCE_GPS),
            Metadata::None,
        );
    }
}
