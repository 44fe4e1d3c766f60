//! Turns windows into events: one family of detectors per file, and an arbiter between competing
//! detectors.

mod backtracking;
mod confidence;
mod cost;
pub(crate) mod counter_lag;
mod decode;
mod evidence;
mod frame;
mod gate;
mod gps;
mod height;
mod motion;
mod movement;
mod newest_place;
mod occupancy;
pub(crate) mod parameters;
mod position;
mod rolling;
mod run;
mod shaken;
mod short_queue;
mod slope;
mod soft;
mod start;
mod sway;
mod tally;
mod track;
mod vehicle_signs;

use porchlight_schema::event::Confidence;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::window::Window;
use backtracking::BacktrackingDetector;
use gate::GateDetector;
use gps::GpsDetector;
use height::HeightTrack;
use motion::{Gait, MotionState};
use movement::MovementDetector;

/// The input of all detectors for one second: the window, and the values that are computed from it
/// once.
#[derive(Debug, Clone, Copy)]
struct Observation<'a> {
    window: &'a Window,
    gait: Gait,
    /// The height above the session's reference, metres.
    height_m: Option<f32>,
    /// The time since the newest fix, milliseconds; `None` before the first fix.
    fix_age_ms: Option<u32>,
}

/// A family of detectors that processes one second after another. Its memory is bounded.
trait Detector {
    /// Returns the number of bytes of the detector on the heap.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Processes the next second.
    fn observe(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    );

    /// Ends open events at `t_ms`, the last sample, because the session has ended or was silent for
    /// at least half a minute.
    fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog);
}

/// All detectors of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Detection {
    motion: MotionState,
    height: HeightTrack,
    gps: GpsDetector,
    movement: MovementDetector,
    gate: GateDetector,
    backtracking: BacktrackingDetector,
    last_fix_ms: Option<u32>,
    last_sample_ms: Option<u32>,
}

impl Detection {
    /// Returns the number of bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let Self {
            motion: _,
            height: _,
            gps,
            movement,
            gate,
            backtracking,
            last_fix_ms: _,
            last_sample_ms: _,
        } = self;
        let detectors: [&dyn Detector; 4] = [gps, movement, gate, backtracking];
        detectors.iter().map(|one| one.heap_bytes()).sum()
    }

    /// Processes the next second.
    pub fn observe(&mut self, context: &SessionContext, window: &Window, log: &mut EventLog) {
        if let Some(t_ms) = window.silent_since_ms {
            self.end_all(context, t_ms, log);
        }
        if let Some(fix) = window.last_fix() {
            self.last_fix_ms = Some(fix.t_ms);
        }
        let observation = Observation {
            window,
            gait: self.motion.observe(context.models, window),
            height_m: self.height.observe(window),
            fix_age_ms: self
                .last_fix_ms
                .map(|last_ms| window.end_ms().saturating_sub(last_ms)),
        };
        // The detectors of gates and retraced paths read the open events of the others, so they run
        // last.
        self.gps.observe(context, &observation, log);
        self.movement.observe(context, &observation, log);
        self.gate.observe(context, &observation, log);
        self.backtracking.observe(context, &observation, log);
        if window.has_sample {
            self.last_sample_ms = Some(window.last_sample_ms);
        }
    }

    /// Ends open events at the last sample, because the session has ended.
    pub fn finish(&mut self, context: &SessionContext, log: &mut EventLog) {
        if let Some(t_ms) = self.last_sample_ms {
            self.end_all(context, t_ms, log);
        }
    }

    fn end_all(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        self.gps.finish(context, t_ms, log);
        self.movement.finish(context, t_ms, log);
        self.gate.finish(context, t_ms, log);
        self.backtracking.finish(context, t_ms, log);
        // Nothing measured before a silence belongs to the seconds after it.
        self.motion.end_silence();
        self.height = HeightTrack::default();
        self.last_fix_ms = None;
    }
}

/// Converts log-odds to a confidence by the logistic function.
fn logistic(log_odds: f32) -> Confidence {
    Confidence::from_probability(1.0 / (1.0 + libm::exp(-f64::from(log_odds))))
}
