//! The movement track: it collects the evidence of each second, decodes the most likely sequence of
//! states, and lets the arbiter turn the states into events.

use serde::{Deserialize, Serialize};

use super::counter_lag::{CounterLag, walks_by_speed};
use super::decode::Decoder;
use super::evidence::{PreviousSpeed, evidence_of};
use super::frame::{Frame, KeptFrame};
use super::height::{LoneRide, RideTrack};
use super::motion::{Gait, vehicle_hint};
use super::parameters::evidence::{DELAY_MAX, DELAY_MIN, DRIVE_SPEED_MPS, LEVEL_MPS};
use super::parameters::gait::REST_LOG_ODDS;
use super::parameters::height::{
    HEIGHT_BRIDGE_MS, HEIGHT_INTERVAL_NEW, RIDE_QUIET_STD_MPS2, SPARSE_HEIGHT_MS,
};
use super::parameters::position::REST_HOLDS_MS;
use super::parameters::runs::{
    CLIMB_SPEED_HOLDS_INTERVALS, CLIMB_SPEED_HOLDS_MS, COLD_FIX_MS, DRIVE_HOLDS_INTERVALS,
    SKY_ACCURACY_M, SKY_HOLDS_MS, SPARSE_FIX_MS, WALK_ACCURACY_M_MAX,
};
use super::position::{Leg, PositionTrack};
use super::rolling::Rolling;
use super::short_queue::ShortQueue;
use super::slope;
use super::track::Arbiter;
use super::vehicle_signs::VehicleSigns;
use super::{Detector, Observation};
use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::window::{WINDOW_MS, Window};

/// The maximum number of seconds in `frames`: the decoded ones that the slope still needs, the
/// seconds of the longest delay, and the newest.
const WAITING: usize = DELAY_MIN + DELAY_MAX + 1;

/// A detector that finds stays, walks, stairs, rides and drives.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct MovementDetector {
    ride: RideTrack,
    position: PositionTrack,
    vehicle_signs: VehicleSigns,
    rolling: Rolling,
    /// The last seconds: decoded seconds that the slope still needs, followed by the waiting
    /// seconds.
    frames: ShortQueue<KeptFrame, WAITING>,
    /// The number of decoded seconds in `frames`.
    decoded: u8,
    has_body: bool,
    /// The delay of the step counter, on a phone that sends nothing else about the body.
    counter_lag: CounterLag,
    /// Whether a height was ever measured.
    has_height: bool,
    /// The time of the newest fix if it was good enough for one under the sky; 0 otherwise.
    sky_ms: u32,
    /// The start of the first second since the session's start or since a silence, milliseconds.
    begun_ms: Option<u32>,
    /// Whether a fix has shown a speed since `begun_ms`.
    has_leg: bool,
    /// The newest second with a speed from satellites, and that speed in m/s; 0 once it is too old
    /// to count.
    last_ground_speed: (u32, f32),
    /// The newest second with any speed over ground, and that speed in m/s.
    last_speed: (u32, f32),
    /// The newest second with a height, and that height.
    newest_height: Option<(u32, f32)>,
    /// The usual time between two heights in milliseconds; 0 before the second one.
    height_interval_ms: f32,
    /// A ride found without a barometer, and its last second, kept until that second is decided.
    lone_ride: Option<(u32, LoneRide)>,
    decoder: Decoder,
    arbiter: Arbiter,
}

impl Detector for MovementDetector {
    fn heap_bytes(&self) -> usize {
        self.frames.heap_bytes()
            + self.position.heap_bytes()
            + self.decoder.heap_bytes()
            + self.arbiter.heap_bytes()
    }

    fn observe(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let Observation {
            window,
            gait,
            height_m,
            ..
        } = *observation;
        self.begun_ms.get_or_insert(window.t_ms);
        self.has_body |= gait.is_measured;
        self.has_height |= height_m.is_some();
        if let Some(fix) = window.last_fix() {
            let is_good = fix.accuracy_known && fix.accuracy_m <= SKY_ACCURACY_M;
            self.sky_ms = if is_good { fix.t_ms.max(1) } else { 0 };
        }
        let ride = self.ride.observe(window);
        let frame = Frame {
            t_ms: window.t_ms,
            gait: gait.log_odds,
            has_body: gait.is_measured,
            by_counter: gait.is_measured && window.motion.is_none(),
            has_steps: gait.has_steps,
            has_push: self.ride.has_push(),
            is_loud: window
                .motion
                .is_some_and(|motion| motion.accel_std > RIDE_QUIET_STD_MPS2),
            has_fix: window.last_fix().is_some(),
            sees_sky: window
                .end_ms()
                .checked_sub(self.sky_ms)
                .is_some_and(|since_ms| self.sky_ms > 0 && since_ms <= SKY_HOLDS_MS),
            height_m,
            vehicle: vehicle_hint(window),
        };
        if ride.is_some() && !self.measures_height(window.t_ms) {
            self.lone_ride = ride;
        }
        self.append(KeptFrame::of(&frame));
        if frame.by_counter {
            self.shift_counter(window, gait.log_odds, gait.has_steps);
        }
        if let Some(height_m) = height_m {
            self.fill_heights(window.t_ms, height_m);
        }
        if window.motion.is_some() {
            self.correct_second_before(&gait);
        }
        let leg = if frame.has_fix {
            self.position.observe(window, self.has_body)
        } else {
            None
        };
        if let Some(leg) = &leg {
            self.apply_leg(leg);
        }
        if window.motion.is_some() {
            self.fill_body_gap();
        }
        if let Some(since_ms) = self.vehicle_signs.observe(window, leg.as_ref()) {
            self.remove_gait(since_ms);
        }
        let delay = self.delay(window.t_ms);
        while self.frames.len() - usize::from(self.decoded) > delay {
            self.decode_next(context, log);
        }
    }

    fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        self.arbiter.end_with(t_ms);
        while usize::from(self.decoded) < self.frames.len() {
            self.decode_next(context, log);
        }
        let Self {
            decoder,
            arbiter,
            lone_ride,
            ..
        } = self;
        decoder.flush(|frame, state| arbiter.observe(context, frame, state, lone_ride, None, log));
        arbiter.finish(context, t_ms, log);
        self.frames = ShortQueue::default();
        self.decoded = 0;
        self.begun_ms = None;
        self.has_leg = false;
        self.newest_height = None;
        self.last_speed = (0, 0.0);
        // The evidence from before a silence does not apply to the place after it.
        self.ride = RideTrack::default();
        self.position = PositionTrack::default();
        self.vehicle_signs = VehicleSigns::default();
        self.rolling = Rolling::default();
    }
}

impl MovementDetector {
    /// Returns the number of seconds to wait. It is larger if positions are the only input and are
    /// rare.
    fn delay(&self, newest_ms: u32) -> usize {
        let is_early = newest_ms.saturating_sub(self.begun_ms.unwrap_or(newest_ms)) < COLD_FIX_MS;
        if is_early && self.position.is_empty() {
            // The first fix shows whether the session began in a vehicle.
            DELAY_MAX
        } else {
            // No interval is longer than a minute.
            let seconds = |interval_ms: f32| usize::from(interval_ms as u16) / WINDOW_MS as usize;
            let by_height = if self.height_interval_ms > SPARSE_HEIGHT_MS {
                DELAY_MIN + seconds(self.height_interval_ms) + 1
            } else {
                DELAY_MIN + self.height_gap_sec(newest_ms)
            };
            let by_position = if self.has_body {
                DELAY_MIN.max(self.counter_lag.seconds() + 1)
            } else {
                DELAY_MIN + 2 * seconds(self.position.usual_interval_ms())
            };
            // A start is known once the vehicle is fast enough.
            let by_start = DELAY_MIN + self.vehicle_signs.possible_sec(newest_ms);
            by_height.max(by_position).max(by_start).min(DELAY_MAX)
        }
    }

    /// Returns the number of seconds since the newest height, or 0 if it is so old that the next
    /// one cannot be joined to it. The next height shows whether the seconds between led up or
    /// down.
    fn height_gap_sec(&self, now_ms: u32) -> usize {
        self.newest_height
            .map(|(t_ms, _)| now_ms.saturating_sub(t_ms))
            .filter(|&gap_ms| gap_ms <= HEIGHT_BRIDGE_MS)
            .map_or(0, |gap_ms| (gap_ms / WINDOW_MS) as usize)
    }

    /// Moves the step counter's evidence from the newest second to the one in which the steps were
    /// taken.
    fn shift_counter(&mut self, window: &Window, log_odds: f32, has_steps: bool) {
        let fix = window.last_fix().filter(|fix| fix.accuracy_known);
        let speed_mps = fix
            .filter(|fix| fix.accuracy_m <= WALK_ACCURACY_M_MAX)
            .and_then(|fix| fix.speed_mps);
        self.counter_lag
            .observe(has_steps, speed_mps.and_then(walks_by_speed));
        let lag = self.counter_lag.seconds();
        if lag == 0 {
            return;
        }
        let place = self.frames.len().checked_sub(1 + lag);
        if let Some(kept) = self.frames.last_mut() {
            kept.put_body(0.0, false);
        }
        let place = place.filter(|&place| place >= usize::from(self.decoded));
        if let Some(kept) = place.and_then(|place| self.frames.get_mut(place)) {
            kept.put_counter(log_odds, has_steps);
        }
    }

    /// Fills a second without data about the body between two seconds with the weaker evidence of
    /// both: the body did not change from one to the other.
    fn fill_body_gap(&mut self) {
        let Some(place) = self.frames.len().checked_sub(3) else {
            return;
        };
        if place + 1 < usize::from(self.decoded) {
            return;
        }
        let Some([before, missing, after]) = self.frames.get_mut(place..place + 3) else {
            return;
        };
        let is_next = after.t_ms() - before.t_ms() == 2 * WINDOW_MS;
        if is_next && !missing.has_body() && before.has_acceleration() && after.has_acceleration() {
            missing.put_between(before, after);
        }
    }

    /// Removes the gait from the waiting seconds since a vehicle shakes the phone.
    fn remove_gait(&mut self, since_ms: u32) {
        for kept in self.waiting() {
            if kept.t_ms() >= since_ms && kept.gait() > 0.0 {
                kept.put_body(0.0, false);
            }
        }
    }

    /// Returns whether a barometer reports often enough to show a ride.
    fn measures_height(&self, now_ms: u32) -> bool {
        self.newest_height
            .is_some_and(|(t_ms, _)| now_ms.saturating_sub(t_ms) <= HEIGHT_BRIDGE_MS)
    }

    /// Fills the waiting seconds between the previous height and the new one, whose seconds have no
    /// height of their own because the barometer reports rarely. The height between two readings
    /// counts as changing steadily.
    fn fill_heights(&mut self, t_ms: u32, height_m: f32) {
        let Some((before_ms, before_m)) = self.newest_height.replace((t_ms, height_m)) else {
            return;
        };
        let apart_ms = t_ms.saturating_sub(before_ms);
        let new = if self.height_interval_ms > 0.0 {
            HEIGHT_INTERVAL_NEW
        } else {
            1.0
        };
        let interval_ms = apart_ms.min(HEIGHT_BRIDGE_MS) as f32;
        self.height_interval_ms += new * (interval_ms - self.height_interval_ms);
        if apart_ms <= WINDOW_MS || apart_ms > HEIGHT_BRIDGE_MS {
            return;
        }
        for kept in self.waiting() {
            if kept.t_ms() > before_ms && kept.t_ms() < t_ms {
                let share = (kept.t_ms() - before_ms) as f32 / apart_ms as f32;
                kept.put_height(before_m + share * (height_m - before_m));
            }
        }
    }

    /// Appends the newest second.
    fn append(&mut self, frame: KeptFrame) {
        if self.frames.len() == WAITING {
            self.frames.drop_first(1);
            self.decoded = self.decoded.saturating_sub(1);
        }
        self.frames.push(frame);
    }

    /// Writes the evidence of the newest acceleration about the second before it, while the state
    /// of that second is not decoded.
    fn correct_second_before(&mut self, gait: &Gait) {
        let [.., kept, _] = self.waiting() else {
            return;
        };
        if let Some((log_odds, has_steps)) = gait.before {
            kept.put_body(log_odds, has_steps);
        }
        // The evidence of the stride covers the last 4 s and belongs to the middle of them.
        if let Some(climb) = gait.climb {
            kept.put_climb(climb);
        }
    }

    /// Returns the seconds that are not decoded.
    #[inline]
    fn waiting(&mut self) -> &mut [KeptFrame] {
        self.frames
            .get_mut(usize::from(self.decoded)..)
            .unwrap_or_default()
    }

    /// Writes the speed and the evidence of a fix into the waiting seconds before it.
    fn apply_leg(&mut self, leg: &Leg) {
        // A vehicle revealed by the first speed was already moving before that.
        let is_first = !self.has_leg && leg.speed_mps >= DRIVE_SPEED_MPS;
        self.has_leg = true;
        // The phone's own speed is instantaneous, so it applies since the previous fix.
        let early_ms = if leg.is_reported_speed { 0 } else { WINDOW_MS };
        let after_ms = leg.from_ms.saturating_sub(early_ms);
        // Only a late counter needs the evidence of the speed.
        let counter_is_late = self.counter_lag.seconds() > 0;
        for kept in self.waiting().iter_mut().rev() {
            let middle_ms = kept.t_ms() + WINDOW_MS / 2;
            let is_since = is_first || middle_ms > after_ms;
            let is_within = is_since && middle_ms <= leg.to_ms + WINDOW_MS;
            // A speed applies to its own seconds, a displacement to the middle of its interval.
            let holds = if leg.sees_walk {
                is_within
            } else {
                middle_ms + REST_HOLDS_MS >= leg.to_ms
            };
            if !is_since && !holds {
                // The speed does not apply to the earlier seconds either.
                break;
            }
            if is_within {
                kept.put_speed(leg.speed_mps, leg.is_non_satellite);
                kept.put_carried(leg.is_carried);
                if leg.sees_walk {
                    kept.put_sees_walk();
                }
            }
            if let Some(gait) = leg.gait
                && holds
            {
                if !kept.has_body() {
                    kept.put_gait(gait);
                } else if leg.sees_walk && is_within && counter_is_late {
                    kept.join_counter(gait);
                }
            }
        }
    }

    /// Records the speed of `kept`, the next second to be decoded, and returns the speeds that
    /// still count for it.
    fn update_speeds(&mut self, kept: &KeptFrame) -> PreviousSpeed {
        let (t_ms, speed_mps) = (kept.t_ms(), kept.speed_mps());
        if let Some(speed_mps) = speed_mps {
            self.last_speed = (t_ms, speed_mps);
        }
        // Behind a door, platforms report station fixes as satellite fixes: places jump while the
        // claimed accuracies stay small.
        match speed_mps.filter(|_| !kept.is_non_satellite()) {
            Some(speed_mps) => self.last_ground_speed = (t_ms, speed_mps),
            None if self.last_ground_speed.1 > 0.0
                && t_ms.saturating_sub(self.last_ground_speed.0) > self.speed_holds_ms() =>
            {
                self.last_ground_speed.1 = 0.0;
            }
            None => {}
        }
        let begun_ms = self.begun_ms.unwrap_or(t_ms);
        let before_fix = !self.has_leg && t_ms.saturating_sub(begun_ms) < COLD_FIX_MS;
        PreviousSpeed {
            recent_mps: self.last_ground_speed.1,
            way_mps: self.position.way_mps(t_ms, self.speed_holds_ms()),
            // Before the first known speed, a vehicle may be moving at any speed.
            possible_vehicle_mps: if self.has_leg {
                self.last_speed.1
            } else {
                f32::INFINITY
            },
            // A passenger is at rest, so rest shows nothing where a vehicle may be moving unseen.
            may_drive: before_fix || (speed_mps.is_none() && self.drove_recently(t_ms)),
        }
    }

    /// Passes the oldest waiting second to the decoder.
    fn decode_next(&mut self, context: &SessionContext, log: &mut EventLog) {
        let place = usize::from(self.decoded);
        let Some(mut kept) = self.frames.get(place).copied() else {
            return;
        };
        let before = self.update_speeds(&kept);
        if self.rolling.observe(&kept, self.decoder.drives()) && kept.gait() > 0.0 {
            kept.put_body(0.0, false);
        }
        let rate = self.rate_mps(place);
        let evidence = evidence_of(&kept, rate, &before);
        let is_unseen = kept.speed_mps().is_none() && kept.vehicle() <= 0.0;
        let mut possible_ride_ms = self.ride.start_ms();
        if let Some(height_m) = kept.height_m() {
            possible_ride_ms = None;
            let (rate_mps, error_mps) = rate.unwrap_or_default();
            kept.put_slope(
                rate_mps,
                error_mps,
                slope::smooth_m(&self.frames, place, height_m),
            );
        } else if let Some((rate_mps, error_mps)) = rate {
            kept.put_slope(rate_mps, error_mps, 0.0);
        }
        let Self {
            decoder,
            arbiter,
            lone_ride,
            ..
        } = self;
        decoder.observe(kept, is_unseen, &evidence, |frame, state| {
            arbiter.observe(context, frame, state, lone_ride, possible_ride_ms, log)
        });
        self.decoded += 1;
        // The slope needs only this many past seconds.
        if let Some(useless) = usize::from(self.decoded).checked_sub(DELAY_MIN) {
            self.frames.drop_first(useless);
            self.decoded = DELAY_MIN as u8;
        }
    }

    /// Returns whether the newest speed was a vehicle's and the next fix is still to come, on a
    /// phone that sends fixes rarely.
    fn drove_recently(&self, t_ms: u32) -> bool {
        let (at_ms, speed_mps) = self.last_speed;
        let usual_ms = self.position.expected_interval_ms();
        speed_mps >= DRIVE_SPEED_MPS
            && usual_ms >= SPARSE_FIX_MS
            && t_ms.saturating_sub(at_ms) as f32 <= DRIVE_HOLDS_INTERVALS * usual_ms
    }

    /// Returns for how long a speed over ground counts against climbing: until the next fixes are
    /// overdue, because then the courier is inside.
    fn speed_holds_ms(&self) -> u32 {
        let usual_ms = self.position.usual_interval_ms();
        ((CLIMB_SPEED_HOLDS_INTERVALS * usual_ms) as u32 + 2 * WINDOW_MS).min(CLIMB_SPEED_HOLDS_MS)
    }

    /// Returns the slope of the height around a second and its standard error, in m/s, by least
    /// squares over three seconds before and after.
    fn rate_mps(&self, place: usize) -> Option<(f32, f32)> {
        if !self.has_height {
            return None;
        }
        let from = place.saturating_sub(DELAY_MIN);
        let to = (place + DELAY_MIN + 1).min(self.frames.len());
        let (seconds, here) = (self.frames.get(from..to)?, self.frames.get(place)?);
        let (rate_mps, error_mps) = slope::around(seconds, here)?;
        // If the body rests, the height may follow the S-shaped curve of a cabin that starts and
        // stops, which is not noise. A walk swings the pressure in a pocket, which is noise.
        let is_quiet = here.has_body() && here.gait() <= -REST_LOG_ODDS && !here.is_loud();
        let curved_mps = if is_quiet && rate_mps.abs() >= LEVEL_MPS {
            slope::curved_error_mps(seconds)
        } else {
            None
        };
        Some((
            rate_mps,
            curved_mps.map_or(error_mps, |curved_mps| curved_mps.min(error_mps)),
        ))
    }
}
