//! Height over a reference, from pressure; and rides told by acceleration alone.

use serde::{Deserialize, Serialize};

use super::constants::{
    HEIGHT_GAP_MS, HEIGHT_LEAP_M, RIDE_ALONE_MPS, RIDE_ALONE_MS_MAX, RIDE_ALONE_MS_MIN,
    RIDE_BASE_NEW, RIDE_DEAD_MPS2, RIDE_HEIGHT_M_MIN, RIDE_LOUD_SEC_MAX, RIDE_LOUD_STD_MPS2,
    RIDE_OVERSHOOT, RIDE_PUSH_MS_MAX, RIDE_QUIET_STD_MPS2, RIDE_SETTLE_MPS2, RIDE_SETTLE_SEC,
    RIDE_STOPPED_SHARE, SCALE_HEIGHT_M,
};
use crate::window::{BodyMotion, WINDOW_MS, Window};

/// The height track.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct HeightTrack {
    reference_hpa: Option<f32>,
    /// The newest height, and when.
    last: Option<(u32, f32)>,
    /// What is added after a leap that no body makes.
    offset_m: f32,
}

impl HeightTrack {
    /// Height over the session's reference after the next second; none without pressure.
    pub(super) fn observe(&mut self, window: &Window) -> Option<f32> {
        let pressure_hpa = window.pressure_hpa?;
        let reference_hpa = *self.reference_hpa.get_or_insert(pressure_hpa);
        let raw_m = SCALE_HEIGHT_M * libm::logf(reference_hpa / pressure_hpa) + self.offset_m;
        let mut height_m = raw_m;
        if let Some((last_ms, last_m)) = self.last {
            let apart_ms = window.t_ms.saturating_sub(last_ms);
            let leap_m = HEIGHT_LEAP_M * (apart_ms as f32 / 1_000.0).max(1.0);
            // A stale first value, a door slammed, a sensor restarted: the track goes on from where it was.
            if apart_ms <= HEIGHT_GAP_MS && (raw_m - last_m).abs() > leap_m {
                self.offset_m += last_m - raw_m;
                height_m = last_m;
            }
        }
        self.last = Some((window.t_ms, height_m));
        Some(height_m)
    }
}

/// A ride that acceleration alone tells: a body at rest is pushed one way, and some time later the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct LoneRide {
    /// When the first push began, milliseconds since the session's start.
    pub start_ms: u32,
    /// Height gained by integrating twice, metres: good to a third.
    pub rise_m: f32,
}

impl LoneRide {
    /// The ride with its last second, which begins at `end_ms`, if it is long and high enough to be one.
    fn ended_with(self, end_ms: u32) -> Option<(u32, Self)> {
        let is_long = end_ms.saturating_sub(self.start_ms) >= RIDE_ALONE_MS_MIN;
        (is_long && self.rise_m.abs() >= RIDE_HEIGHT_M_MIN).then_some((end_ms, self))
    }
}

/// Whether of the speed that the first push gave nothing is left but the error of adding up.
fn has_stopped(first_mps: f32, speed_mps: f32) -> bool {
    speed_mps.abs() <= RIDE_STOPPED_SHARE * first_mps.abs()
}

/// A push of a body that was at rest.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Push {
    start_ms: u32,
    /// Speed that it gave so far, m/s.
    speed_mps: f32,
    /// Height that it gave so far, metres.
    rise_m: f32,
}

impl Push {
    /// After a second of so much acceleration more.
    fn after(self, over_mps2: f32) -> Self {
        Self {
            rise_m: self.rise_m + self.speed_mps + over_mps2 / 2.0,
            speed_mps: self.speed_mps + over_mps2,
            ..self
        }
    }
}

/// Looks for the two pushes of an elevator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct RideTrack {
    /// What the accelerometer shows at rest, m/s²: it is off by its own bias.
    base_mps2: Option<f32>,
    /// Quiet seconds running.
    quiet_sec: u8,
    /// Seconds running that were not quiet and yet could be of a ride.
    loud_sec: u8,
    /// Whether the value at rest was ever seen to settle.
    is_settled: bool,
    /// The push that goes on.
    push: Option<Push>,
    /// After the first push: the ride, the speed that push gave, the speed now.
    ride: Option<(LoneRide, f32, f32)>,
    /// Whether the newest second could be part of a ride's beginning or end: pushed, or shaken so that none can tell.
    has_push: bool,
}

impl RideTrack {
    /// Whether the newest second could be part of a ride's beginning or end.
    pub(super) fn has_push(&self) -> bool {
        self.has_push
    }

    /// When a ride that may be under way began, milliseconds since the session's start: with its first push.
    pub(super) fn begun_ms(&self) -> Option<u32> {
        let ride = self.ride.map(|(ride, _, _)| ride.start_ms);
        ride.or(self.push.map(|push| push.start_ms))
    }

    /// A second more of a ride under way; the ride, if it ends with it.
    fn ride_on(&mut self, window: &Window, over_mps2: f32) -> Option<(u32, LoneRide)> {
        let (ride, first_mps, speed_mps) = self.ride.as_mut()?;
        // Less is noise, and would add up over a long ride.
        let gained_mps = if over_mps2.abs() < RIDE_DEAD_MPS2 {
            0.0
        } else {
            over_mps2
        };
        ride.rise_m += *speed_mps + gained_mps / 2.0;
        *speed_mps += gained_mps;
        let (ride, first_mps, speed_mps) = (*ride, *first_mps, *speed_mps);
        let is_over = window.end_ms().saturating_sub(ride.start_ms) > RIDE_ALONE_MS_MAX;
        if is_over || speed_mps * first_mps < -RIDE_OVERSHOOT * first_mps * first_mps {
            self.ride = None;
        } else if over_mps2.abs() < RIDE_DEAD_MPS2 && has_stopped(first_mps, speed_mps) {
            self.ride = None;
            return ride.ended_with(window.t_ms);
        }
        None
    }

    /// Whether a second can be of a ride: quiet, or one of the few in which a push under way begins or ends, which spreads
    /// the acceleration by itself.
    fn can_ride(&self, motion: &BodyMotion) -> bool {
        motion.accel_std <= RIDE_QUIET_STD_MPS2
            || (motion.accel_std <= RIDE_LOUD_STD_MPS2
                && self.loud_sec < RIDE_LOUD_SEC_MAX
                && (self.push.is_some() || self.ride.is_some()))
    }

    /// The ride under way, if the speed is back at none with the second before `t_ms`: the doors were open at once.
    fn left_at_once(&mut self, t_ms: u32) -> Option<(u32, LoneRide)> {
        let (ride, first_mps, speed_mps) = self.ride.take()?;
        let end_ms = t_ms.checked_sub(WINDOW_MS)?;
        ride.ended_with(end_ms)
            .filter(|_| has_stopped(first_mps, speed_mps))
    }

    /// The ride that has ended, and its last second, milliseconds since the session's start: this second or the one before.
    pub(super) fn observe(&mut self, window: &Window) -> Option<(u32, LoneRide)> {
        self.has_push = true;
        let Some(motion) = window.motion.filter(|motion| self.can_ride(motion)) else {
            self.quiet_sec = 0;
            self.push = None;
            return self.left_at_once(window.t_ms);
        };
        if motion.accel_std <= RIDE_QUIET_STD_MPS2 {
            self.quiet_sec = self.quiet_sec.saturating_add(1);
            self.loud_sec = 0;
        } else {
            self.loud_sec += 1;
        }
        let base_before_mps2 = self.base_mps2.unwrap_or(motion.accel_mean);
        self.has_push = (motion.accel_mean - base_before_mps2).abs() >= RIDE_DEAD_MPS2;
        let base_mps2 = self.base_mps2.get_or_insert(motion.accel_mean);
        let over_mps2 = motion.accel_mean - *base_mps2;
        // What follows a walk is the hand coming to rest, unless it is as much as a cabin that starts at once.
        if self.quiet_sec <= RIDE_SETTLE_SEC
            && (!self.is_settled || over_mps2.abs() < RIDE_SETTLE_MPS2)
        {
            *base_mps2 += over_mps2 * 0.5;
            return None;
        }
        self.is_settled = true;
        if let Some(push) = self.push
            && window.t_ms.saturating_sub(push.start_ms) >= RIDE_PUSH_MS_MAX
        {
            // Nothing pushes for so long: the phone is held in another way, and shows another value at rest.
            *base_mps2 = motion.accel_mean;
            self.push = None;
            return None;
        }
        if self.ride.is_some() {
            return self.ride_on(window, over_mps2);
        }
        // A push ends with the acceleration, or turns into the opposite one where there is no coasting between.
        let goes_on =
            |speed_mps: f32| over_mps2.abs() >= RIDE_DEAD_MPS2 && speed_mps * over_mps2 > 0.0;
        match self.push {
            Some(push) if goes_on(push.speed_mps) => self.push = Some(push.after(over_mps2)),
            Some(push) if push.speed_mps.abs() >= RIDE_ALONE_MPS => {
                self.push = None;
                let after = push.after(over_mps2);
                let ride = LoneRide {
                    start_ms: push.start_ms,
                    rise_m: after.rise_m,
                };
                self.ride = Some((ride, push.speed_mps, after.speed_mps));
            }
            _ if over_mps2.abs() >= RIDE_DEAD_MPS2 => {
                let push = Push {
                    start_ms: window.t_ms,
                    ..Push::default()
                };
                self.push = Some(push.after(over_mps2));
            }
            _ => {
                self.push = None;
                *base_mps2 += RIDE_BASE_NEW * over_mps2;
            }
        }
        None
    }
}
