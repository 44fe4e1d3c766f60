//! `GPS_DEGRADED`, `GPS_LOST`, `GPS_RESTORED`: one state machine over the fixes.

use porchlight_schema::event::{EventType, Metadata};
use serde::{Deserialize, Serialize};

use super::constants::{
    DEGRADED_ACCURACY_M, DEGRADED_FIXES, DEGRADED_RATIO, GOOD_ACCURACY_M, LOST_AFTER_INTERVALS,
    LOST_AFTER_MS, RESTORED_WITHIN_MS, USELESS_ACCURACY_M, USUAL_ACCURACY_M_MIN,
    USUAL_ACCURACY_NEW, USUAL_INTERVAL_MS_MAX, USUAL_INTERVAL_NEW,
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

/// Tells the quality of the position.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct GpsDetector {
    quality: Quality,
    usual_accuracy_m: Option<f32>,
    usual_interval_ms: Option<f32>,
    last_fix_ms: Option<u32>,
    last_useful_ms: Option<u32>,
    /// First of the bad fixes running, and how many.
    bad: Option<(u32, u8)>,
    /// The last two good fixes.
    good_ms: [Option<u32>; 2],
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
        let patience_ms =
            self.usual_interval_ms
                .map_or(0.0, |interval_ms| interval_ms * LOST_AFTER_INTERVALS) as u32;
        let silence_ms = window.end_ms().saturating_sub(since_ms);
        if silence_ms > LOST_AFTER_MS.max(patience_ms) {
            self.close(since_ms, log);
            self.quality = Quality::Lost;
            self.good_ms = [None; 2];
            log.open(EventType::GpsLost, since_ms, logistic(3.0), Metadata::None);
        }
    }

    fn finish(&mut self, _context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        self.close(t_ms, log);
        // What comes after a silence is judged anew, by the accuracy that is usual here.
        *self = Self {
            usual_accuracy_m: self.usual_accuracy_m,
            ..Self::default()
        };
    }
}

impl GpsDetector {
    fn see(&mut self, fix: &Fix, log: &mut EventLog) {
        let is_good = fix.accuracy_m <= GOOD_ACCURACY_M;
        // A fix that would restore can't degrade, however good the session's usual ones are: the two would take turns.
        let is_unusual = self
            .usual_accuracy_m
            .is_some_and(|usual_m| fix.accuracy_m >= DEGRADED_RATIO * usual_m);
        let is_bad = fix.accuracy_m >= DEGRADED_ACCURACY_M || (is_unusual && !is_good);
        if let Some(last_ms) = self.last_fix_ms {
            let interval_ms = (fix.t_ms - last_ms) as f32;
            let usual_ms = self
                .usual_interval_ms
                .get_or_insert(interval_ms.min(USUAL_INTERVAL_MS_MAX));
            *usual_ms += USUAL_INTERVAL_NEW * (interval_ms.min(USUAL_INTERVAL_MS_MAX) - *usual_ms);
        }
        self.last_fix_ms = Some(fix.t_ms);
        if fix.accuracy_m <= USELESS_ACCURACY_M {
            self.last_useful_ms = Some(fix.t_ms);
        }
        self.bad = match (is_bad, self.bad) {
            (false, _) => None,
            (true, None) => Some((fix.t_ms, 1)),
            (true, Some((since_ms, count))) => Some((since_ms, count.saturating_add(1))),
        };
        match self.quality {
            Quality::Unknown if is_good => self.quality = Quality::Good,
            Quality::Good => {
                if let Some((since_ms, _)) = self.bad.filter(|&(_, count)| count >= DEGRADED_FIXES)
                {
                    self.quality = Quality::Degraded;
                    self.good_ms = [None; 2];
                    log.open(
                        EventType::GpsDegraded,
                        since_ms,
                        logistic(3.0),
                        Metadata::None,
                    );
                }
            }
            Quality::Degraded | Quality::Lost if is_good => self.see_good_again(fix.t_ms, log),
            Quality::Unknown | Quality::Degraded | Quality::Lost => {}
        }
        if is_good && self.quality == Quality::Good {
            let usual_m = self
                .usual_accuracy_m
                .get_or_insert(fix.accuracy_m.max(USUAL_ACCURACY_M_MIN));
            *usual_m += USUAL_ACCURACY_NEW * (fix.accuracy_m.max(USUAL_ACCURACY_M_MIN) - *usual_m);
        }
    }

    fn see_good_again(&mut self, t_ms: u32, log: &mut EventLog) {
        if let [Some(first_ms), Some(_)] = self.good_ms
            && t_ms - first_ms <= RESTORED_WITHIN_MS
        {
            self.close(first_ms, log);
            self.quality = Quality::Good;
            log.instant(EventType::GpsRestored, first_ms, logistic(3.0));
            self.good_ms = [None; 2];
            self.bad = None;
        } else {
            self.good_ms = if self.good_ms[0].is_none() {
                [Some(t_ms), None]
            } else if self.good_ms[1].is_none() {
                [self.good_ms[0], Some(t_ms)]
            } else {
                [self.good_ms[1], Some(t_ms)]
            };
        }
    }

    fn close(&mut self, t_ms: u32, log: &mut EventLog) {
        log.close(EventType::GpsDegraded, t_ms, logistic(3.0), Metadata::None);
        log.close(EventType::GpsLost, t_ms, logistic(3.0), Metadata::None);
    }
}
