//! Detects gait or rest from the learned models of acceleration and from the phone's step counter.

use porchlight_schema::sample::ActivityType;
use serde::{Deserialize, Serialize};

use super::parameters::gait::{
    ACTIVITY_WEIGHT, CLEAR_GAIT_SHARE, CLIMB_SPREAD_MPS2_MIN, CLIMB_SWING_MAX, CLIMB_SWING_MIN,
    CLIMB_SWING_MPS2, CLIMB_SWING_SHARE, CLIMB_SWING_SLOPE, IMPACT_NEW, POCKET_IMPACT_SHARE,
    SHAKE_STD_MPS2, SHAKEN_GAIT_SHARE, STEPS_COARSE_MS, STEPS_IDLE_SEC_MIN, STEPS_INTERVAL_NEW,
    STEPS_LOG_ODDS, STEPS_PROMPT_MIN, STEPS_SILENT_LOG_ODDS, STEPS_WALK_HZ_MIN, STEPS_WITHIN_MS,
    STEPS_WITHIN_MS_MIN,
};
use crate::gait::{Evidence, Models, MotionHistory};
use crate::window::{BodyMotion, Stride, WINDOW_MS, Window};

/// The state of the body that is kept from second to second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct MotionState {
    /// The newest second in which the counter showed a step.
    last_step_ms: Option<u32>,
    /// Whether the counter reports even without a rise, or has ever risen. Its silence then means
    /// rest.
    counts_steps: bool,
    /// The number of consecutive seconds in which the counter reported without a rise; it stops at
    /// the maximum of its type.
    idle_sec: u8,
    /// The number of reports without a rise in consecutive seconds.
    idle_in_row: u8,
    /// Whether the counter reports each second, also at rest. A second without a report then shows
    /// nothing, because the report is missing.
    reports_at_rest: bool,
    /// The usual time between two rises on a walk, in milliseconds; 0 before the first two.
    usual_ms: f32,
    /// The newest second in which the counter reported.
    last_report_ms: Option<u32>,
    /// The number of prompt reports of a rise that are still missing until the counter counts as
    /// prompt; 0 if it is. The reports of a coarse counter cover many seconds, so that they show no
    /// walk or stay by themselves.
    coarse: u8,
    /// The share of impacts in the acceleration of the last strides; 0 before the first stride.
    impact_share: f32,
    /// The newest seconds of `motion`, if the phone sends it.
    history: MotionHistory,
    /// The second after the newest one with acceleration, and the step counter's evidence for that
    /// newest one, which the expected second can still correct.
    expected: Option<(u32, f32)>,
}

/// The evidence of one second about the body.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Gait {
    /// Log-odds: positive for gait, negative for rest.
    pub log_odds: f32,
    /// Whether a sensor measured the body.
    pub is_measured: bool,
    /// Whether steps were seen.
    pub has_steps: bool,
    /// The log-odds from the stride alone, around the previous second: positive for climbing
    /// stairs, negative for level ground. `None` if the phone is not on a thigh or the courier does
    /// not walk.
    pub climb: Option<f32>,
    /// The log-odds of the previous second, now that this one is known, and whether steps were seen
    /// in it. `None` if that second had no acceleration.
    pub before: Option<(f32, bool)>,
}

impl MotionState {
    /// Reads the step counter, and returns whether it shows walking.
    fn count_steps(&mut self, window: &Window) -> bool {
        let since = |last_ms: u32| window.t_ms.saturating_sub(last_ms);
        let since_ms = self.last_step_ms.map(since);
        if let Some(steps) = window.steps
            && let Some(last_ms) = self.last_report_ms.replace(window.t_ms)
        {
            self.observe_report(u32::from(steps), since(last_ms));
        }
        match window.steps {
            Some(0) => {
                self.idle_sec = self.idle_sec.saturating_add(1);
                self.counts_steps |= self.idle_sec >= STEPS_IDLE_SEC_MIN;
            }
            Some(_) => {
                self.idle_sec = 0;
                self.counts_steps = true;
                self.last_step_ms = Some(window.t_ms);
                if let Some(apart_ms) = since_ms.filter(|&apart_ms| apart_ms <= STEPS_WITHIN_MS) {
                    let apart_ms = apart_ms as f32;
                    let new = if self.usual_ms > 0.0 {
                        STEPS_INTERVAL_NEW
                    } else {
                        1.0
                    };
                    self.usual_ms += new * (apart_ms - self.usual_ms);
                }
                return true;
            }
            None => {}
        }
        // A counter that reports every second is trusted immediately. A counter that reports on
        // change is trusted after twice its usual interval.
        let within_ms = if self.idle_sec > 0 {
            0
        } else if self.usual_ms > 0.0 {
            ((2.0 * self.usual_ms) as u32).clamp(STEPS_WITHIN_MS_MIN, STEPS_WITHIN_MS)
        } else {
            STEPS_WITHIN_MS
        };
        since_ms.is_some_and(|since_ms| since_ms < within_ms)
    }

    /// Learns from a report, and from the time since the one before, whether the counter reports
    /// each second or rarely. A counter that reports on change is silent during a stay, and few
    /// steps follow. A rare report has the steps of the whole time, or none.
    fn observe_report(&mut self, steps: u32, since_ms: u32) {
        self.idle_in_row = if steps == 0 && since_ms <= WINDOW_MS {
            self.idle_in_row.saturating_add(1)
        } else {
            0
        };
        self.reports_at_rest |= self.idle_in_row >= STEPS_IDLE_SEC_MIN;
        let has_walked = steps as f32 * 1_000.0 >= STEPS_WALK_HZ_MIN * since_ms as f32;
        if since_ms >= STEPS_COARSE_MS && (steps == 0 || has_walked) {
            self.coarse = STEPS_PROMPT_MIN;
        } else if since_ms <= STEPS_WITHIN_MS && steps > 0 {
            self.coarse = self.coarse.saturating_sub(1);
        }
    }

    /// Detects climbing from the stride: on stairs the thigh is raised much higher than on level
    /// ground, and a phone in the trouser pocket is swung and tilted once each stride. The
    /// sharpness of the impacts shows that the phone is there.
    fn climb_by_stride(&mut self, stride: &Stride) -> Option<f32> {
        let new = if self.impact_share > 0.0 {
            IMPACT_NEW
        } else {
            1.0
        };
        self.impact_share += new * (stride.impact_share - self.impact_share);
        if self.impact_share < POCKET_IMPACT_SHARE {
            return None;
        }
        let share = stride.swing_mps2 / stride.spread_mps2.max(CLIMB_SPREAD_MPS2_MIN);
        let by_share = libm::logf(share.max(CLIMB_SWING_MIN) / CLIMB_SWING_SHARE);
        let by_swing = libm::logf(stride.swing_mps2.max(CLIMB_SWING_MIN) / CLIMB_SWING_MPS2);
        let log_odds = CLIMB_SWING_SLOPE * by_share.min(by_swing);
        Some(log_odds.clamp(-CLIMB_SWING_MAX, CLIMB_SWING_MAX))
    }

    /// Returns the log-odds by acceleration of the previous and this second, and how they enter the
    /// decoder.
    fn by_acceleration(&mut self, models: Models, motion: &BodyMotion) -> ([f32; 2], Evidence) {
        let models = models.get();
        if let Some(log_odds) = motion.gait {
            self.history.skip();
            return (log_odds, models.imu_evidence);
        }
        let features = self
            .history
            .observe(motion.accel_mean, motion.accel_std, motion.cadence_hz);
        // If the phone has reported a cadence before, its silence means that the courier does not
        // walk.
        let model = if self.history.reports_cadence() {
            &models.with_cadence
        } else {
            &models.without_cadence
        };
        let log_odds = features.map(|features| model.log_odds(&features));
        (log_odds, models.motion_evidence)
    }

    /// Forgets the seconds before a silence, which are not next to those after it.
    pub(super) fn end_silence(&mut self) {
        self.history.clear();
        self.expected = None;
    }

    /// Processes the next second.
    pub(super) fn observe(&mut self, models: Models, window: &Window) -> Gait {
        if !self.counts_steps && !window.has_body_data() {
            // Neither a sensor nor the silence of the counter shows anything.
            self.history.skip();
            self.expected = None;
            return Gait::default();
        }
        let has_risen = self.count_steps(window);
        let is_coarse = self.coarse > 0;
        let steps_lately = has_risen && !is_coarse;
        let stepped = window.steps.is_some_and(|steps| steps > 0) && !is_coarse;
        let has_counter = self.counts_steps && !is_coarse;
        // A second without a report shows rest only if the phone sent other data in it, and the
        // counter does not report each second.
        let is_heard = has_counter
            && window.has_measurement
            && (window.steps.is_some() || !self.reports_at_rest);
        let by_counter = if has_counter && steps_lately {
            STEPS_LOG_ODDS
        } else if is_heard {
            STEPS_SILENT_LOG_ODDS
        } else {
            0.0
        };
        let expected = self.expected.take();
        let Some(motion) = window.motion else {
            self.history.skip();
            let log_odds = by_counter * 2.0;
            return Gait {
                log_odds,
                is_measured: is_heard || (has_counter && steps_lately && window.has_measurement),
                has_steps: steps_lately,
                climb: None,
                before: None,
            };
        };
        let ([before, own], evidence) = self.by_acceleration(models, &motion);
        // The phone is shaken too hard to distinguish gait from rest by its acceleration alone: it
        // falls, or the courier runs. The counter reports the steps of a run some seconds late.
        // Until then a gait in the acceleration counts for less.
        if motion.accel_std > SHAKE_STD_MPS2 {
            let share = match (steps_lately, own > 0.0) {
                (true, _) => 1.0,
                (false, true) => SHAKEN_GAIT_SHARE,
                (false, false) => 0.0,
            };
            return Gait {
                log_odds: share * evidence.gait,
                is_measured: true,
                has_steps: stepped,
                climb: None,
                before: None,
            };
        }
        self.expected = Some((window.t_ms + WINDOW_MS, by_counter));
        // A counter lags, so it is ignored where acceleration is clear.
        let weigh = |log_odds: f32, by_counter: f32| {
            let log_odds = evidence.of(log_odds, by_counter);
            (log_odds, log_odds >= CLEAR_GAIT_SHARE * evidence.gait)
        };
        let (log_odds, is_clear) = weigh(own, by_counter);
        Gait {
            log_odds,
            is_measured: true,
            has_steps: stepped || is_clear,
            climb: motion
                .stride
                .and_then(|stride| self.climb_by_stride(&stride)),
            before: expected
                .filter(|(t_ms, _)| *t_ms == window.t_ms)
                .map(|(_, by_counter)| weigh(before, by_counter)),
        }
    }
}

/// Returns the phone's own evidence for a vehicle, which is only a hint.
pub(super) fn vehicle_hint(window: &Window) -> f32 {
    match window.activity {
        Some((ActivityType::Driving | ActivityType::Cycling, confidence)) => {
            ACTIVITY_WEIGHT * confidence
        }
        Some((ActivityType::Walking | ActivityType::Running, confidence)) => {
            -ACTIVITY_WEIGHT * confidence
        }
        _ => 0.0,
    }
}
