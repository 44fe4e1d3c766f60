//! The movement track: evidence second by second, decoded to a course of states, made into events by the arbiter.

use serde::{Deserialize, Serialize};

use super::Detector;
use super::constants::{
    CLIMB_FAST_MPS, CLIMB_SLOW_MPS, CLIMB_SPREAD_MPS, DELAY_MAX, DELAY_MIN, DRIVE_LOG_ODDS_MAX,
    DRIVE_SLOPE, DRIVE_SPEED_MPS, DRIVE_UNSEEN_LOG_ODDS, LEVEL_MPS, LEVEL_SPREAD_MPS,
    RATE_COST_MAX, RIDE_ALONE_LOG_ODDS, RIDE_ALONE_MPS, RIDE_MPS, UNMEASURED_RIDE_COST,
};
use super::decode::{Decoder, Evidence};
use super::frame::Frame;
use super::height::{HeightTrack, RideTrack};
use super::motion::{MotionState, vehicle_hint};
use super::position::{Leg, PositionTrack};
use super::track::Arbiter;
use crate::context::SessionContext;
use crate::timeline::EventLog;
use crate::window::{WINDOW_MS, Window};

/// Seconds that wait for what follows: the height's slope and the speed of a leg are known a little later.
const WAITING: usize = DELAY_MAX + 4;

/// Finds the movement track.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct MovementDetector {
    motion: MotionState,
    height: HeightTrack,
    ride: RideTrack,
    position: PositionTrack,
    /// The last seconds: those already decoded that the slope still needs, then those that wait.
    frames: [Frame; WAITING],
    filled: u8,
    /// How many of `frames` were decoded.
    done: u8,
    has_body: bool,
    decoder: Decoder,
    arbiter: Arbiter,
}

impl Detector for MovementDetector {
    fn observe(&mut self, context: &SessionContext, window: &Window, log: &mut EventLog) {
        let gait = self.motion.observe(window);
        self.has_body |= gait.is_measured;
        let frame = Frame {
            t_ms: window.t_ms,
            gait: gait.log_odds,
            has_body: gait.is_measured,
            has_steps: gait.has_steps,
            height_m: self.height.observe(window),
            speed_mps: None,
            ride_mps: self.ride.observe(window),
            vehicle: vehicle_hint(window),
        };
        self.append(frame);
        if let Some(leg) = self.position.observe(window) {
            self.fill(&leg);
        }
        while usize::from(self.filled - self.done) > self.delay() {
            self.decode_next(context, log);
        }
    }

    fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        while self.done < self.filled {
            self.decode_next(context, log);
        }
        let Self {
            decoder, arbiter, ..
        } = self;
        decoder.flush(|frame, state| arbiter.observe(context, frame, state, log));
        arbiter.finish(context, t_ms, log);
        self.filled = 0;
        self.done = 0;
        // What was before a silence says nothing of height or place after it.
        self.height = HeightTrack::default();
        self.ride = RideTrack::default();
        self.position = PositionTrack::default();
    }
}

impl MovementDetector {
    /// Seconds that wait: longer where positions are all there is, and come seldom.
    fn delay(&self) -> usize {
        if self.has_body {
            DELAY_MIN
        } else {
            let interval = (self.position.usual_interval_ms() / WINDOW_MS as f32) as usize;
            (DELAY_MIN + 2 * interval).min(DELAY_MAX)
        }
    }

    fn append(&mut self, frame: Frame) {
        if usize::from(self.filled) == WAITING {
            self.frames.rotate_left(1);
            self.filled -= 1;
            self.done = self.done.saturating_sub(1);
        }
        if let Some(place) = self.frames.get_mut(usize::from(self.filled)) {
            *place = frame;
            self.filled += 1;
        }
    }

    /// Writes what a fix says of the seconds before it that wait.
    fn fill(&mut self, leg: &Leg) {
        for frame in &mut self.frames[usize::from(self.done)..usize::from(self.filled)] {
            let middle_ms = frame.t_ms + WINDOW_MS / 2;
            if middle_ms > leg.from_ms.saturating_sub(WINDOW_MS)
                && middle_ms <= leg.to_ms + WINDOW_MS
            {
                frame.speed_mps = Some(leg.speed_mps);
            }
            if let Some(gait) = leg.gait.filter(|_| !frame.has_body) {
                frame.gait = gait;
            }
        }
    }

    fn decode_next(&mut self, context: &SessionContext, log: &mut EventLog) {
        let place = usize::from(self.done);
        let Some(frame) = self.frames.get(place).copied() else {
            return;
        };
        let evidence = evidence_of(&frame, self.rate_mps(place));
        let Self {
            decoder, arbiter, ..
        } = self;
        decoder.observe(&frame, &evidence, |frame, state| {
            arbiter.observe(context, frame, state, log)
        });
        self.done += 1;
    }

    /// Slope of the height around a second, m/s: least squares over three seconds before and after.
    fn rate_mps(&self, place: usize) -> Option<f32> {
        let from = place.saturating_sub(DELAY_MIN);
        let to = (place + DELAY_MIN + 1).min(usize::from(self.filled));
        let (mut count, mut sum_t, mut sum_h, mut sum_tt, mut sum_th) =
            (0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32);
        let here_ms = self.frames.get(place)?.t_ms;
        for frame in self.frames.get(from..to)? {
            let Some(height_m) = frame.height_m else {
                continue;
            };
            let t_sec = (frame.t_ms as f32 - here_ms as f32) / 1_000.0;
            count += 1.0;
            sum_t += t_sec;
            sum_h += height_m;
            sum_tt += t_sec * t_sec;
            sum_th += t_sec * height_m;
        }
        let spread = count * sum_tt - sum_t * sum_t;
        (count >= 3.0 && spread > 0.5).then(|| (count * sum_th - sum_t * sum_h) / spread)
    }
}

fn cost(off: f32, spread: f32) -> f32 {
    let share = (off.max(0.0)) / spread;
    (0.5 * share * share).min(RATE_COST_MAX)
}

/// What one second says for each state.
fn evidence_of(frame: &Frame, rate_mps: Option<f32>) -> Evidence {
    let drive = match frame.speed_mps {
        Some(speed_mps) => (DRIVE_SLOPE * (speed_mps - DRIVE_SPEED_MPS))
            .clamp(-DRIVE_LOG_ODDS_MAX, DRIVE_LOG_ODDS_MAX),
        None => 0.0,
    };
    let (level, climb, ride) = match rate_mps.map(f32::abs) {
        Some(rate_mps) => (
            cost(rate_mps - LEVEL_MPS, LEVEL_SPREAD_MPS),
            cost(CLIMB_SLOW_MPS - rate_mps, CLIMB_SPREAD_MPS)
                + cost(rate_mps - CLIMB_FAST_MPS, CLIMB_SPREAD_MPS),
            cost(RIDE_MPS - rate_mps, CLIMB_SPREAD_MPS),
        ),
        None if frame.ride_mps.abs() >= RIDE_ALONE_MPS => {
            (RIDE_ALONE_LOG_ODDS, UNMEASURED_RIDE_COST, 0.0)
        }
        None => (0.0, UNMEASURED_RIDE_COST, UNMEASURED_RIDE_COST),
    };
    let on_foot = -drive.max(0.0);
    // A vehicle is at home at any height; without a speed only a gait speaks against it.
    let driving = match frame.speed_mps {
        Some(_) => drive + frame.vehicle,
        None => DRIVE_UNSEEN_LOG_ODDS - frame.gait.max(0.0) + frame.vehicle,
    };
    [
        -frame.gait - level + on_foot,
        frame.gait - level + on_foot,
        frame.gait - climb + on_foot,
        -frame.gait - ride + on_foot,
        driving,
    ]
}
