//! From windows to events: one family of detectors a file, and the arbiter between those that compete.

mod constants;
mod decode;
mod floors;
mod frame;
mod gps;
mod height;
mod motion;
mod movement;
mod position;
mod track;

use porchlight_schema::event::Confidence;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::timeline::EventLog;
use crate::window::Window;
use gps::GpsDetector;
use movement::MovementDetector;

/// What a family of detectors does, second by second. Memory is fixed; nothing is allocated for a window.
trait Detector {
    /// Looks at the next second.
    fn observe(&mut self, context: &SessionContext, window: &Window, log: &mut EventLog);

    /// Nothing follows, or nothing for at least half a minute: what is open ends at `t_ms`, the last sample.
    fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog);
}

/// All detectors of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    gps: GpsDetector,
    movement: MovementDetector,
    last_sample_ms: Option<u32>,
}

impl Detection {
    /// Of a session that begins.
    #[must_use]
    pub fn new(_context: &SessionContext) -> Self {
        Self {
            gps: GpsDetector::default(),
            movement: MovementDetector::default(),
            last_sample_ms: None,
        }
    }

    /// Looks at the next second.
    pub fn observe(&mut self, context: &SessionContext, window: &Window, log: &mut EventLog) {
        if let Some(t_ms) = window.silent_since_ms {
            self.gps.finish(context, t_ms, log);
            self.movement.finish(context, t_ms, log);
        }
        self.gps.observe(context, window, log);
        self.movement.observe(context, window, log);
        if window.alive {
            self.last_sample_ms = Some(window.last_sample_ms);
        }
    }

    /// The session is over: what is open ends at the last sample.
    pub fn finish(&mut self, context: &SessionContext, log: &mut EventLog) {
        if let Some(t_ms) = self.last_sample_ms {
            self.gps.finish(context, t_ms, log);
            self.movement.finish(context, t_ms, log);
        }
    }
}

/// The logistic function of a sum of weighted features, as a confidence.
fn logistic(log_odds: f32) -> Confidence {
    Confidence::from_probability(1.0 / (1.0 + libm::exp(-f64::from(log_odds))))
}
