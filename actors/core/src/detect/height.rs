//! Tracks the height over a reference from pressure, and detects rides from acceleration alone.

use serde::{Deserialize, Serialize};

use super::parameters::evidence::RIDE_ALONE_MPS;
use super::parameters::height::{
    COARSE_LEAP_MS, COARSE_SEC_MAX, COARSE_SEC_MIN, HEIGHT_BEFORE_LEAP_M, HEIGHT_GAP_MS,
    HEIGHT_LEAP_M, HEIGHT_LEAP_M_MAX, RIDE_ALONE_MS_MAX, RIDE_BASE_NEW, RIDE_BRAKE_SHARE,
    RIDE_DEAD_MPS2, RIDE_LOUD_SEC_MAX, RIDE_LOUD_STD_MPS2, RIDE_OVERSHOOT, RIDE_PUSH_MS_MAX,
    RIDE_QUIET_STD_MPS2, RIDE_SETTLE_MPS2, RIDE_SETTLE_SEC, RIDE_STOPPED_SHARE,
};
use super::parameters::runs::{RIDE_ALONE_MS_MIN, RIDE_HEIGHT_M_MIN};
use crate::barometer::{is_coarse, whole_hpa};
use crate::window::{BodyMotion, WINDOW_MS, Window};

/// The factor from the logarithm of a pressure ratio to a height, metres.
const SCALE_HEIGHT_M: f32 = crate::barometer::SCALE_HEIGHT_M as f32;

/// Tracks the height from pressure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct HeightTrack {
    reference_hpa: Option<f32>,
    /// The newest height, with its time.
    last: Option<(u32, f32)>,
    /// The change of height in the newest second, in metres.
    moved_m: f32,
    /// The offset in metres that compensates leaps that no body can make.
    offset_m: f32,
    /// The number of seconds with a whole number of hectopascals, and of all seconds with pressure;
    /// both are halved when they grow large.
    whole: (u16, u16),
    /// The newest second with a whole number of hectopascals, and that number.
    newest_whole: Option<(u32, f32)>,
    /// Whether the pressure has leapt from one whole number to another.
    has_leapt: bool,
}

impl HeightTrack {
    /// Returns the height over the session's reference after the next second. Returns `None`
    /// without pressure.
    pub(super) fn observe(&mut self, window: &Window) -> Option<f32> {
        let pressure_hpa = window.pressure_hpa?;
        if self.count_whole_reading(window.t_ms, pressure_hpa) {
            self.last = None;
            return None;
        }
        let reference_hpa = *self.reference_hpa.get_or_insert(pressure_hpa);
        let raw_m = SCALE_HEIGHT_M * libm::logf(reference_hpa / pressure_hpa) + self.offset_m;
        let mut height_m = raw_m;
        if let Some((last_ms, last_m)) = self.last {
            let apart_ms = window.t_ms.saturating_sub(last_ms);
            let apart_sec = (apart_ms as f32 / 1_000.0).max(1.0);
            // A cabin gains speed over some seconds; the pressure leaps out of rest.
            let is_fast = self.moved_m >= HEIGHT_BEFORE_LEAP_M;
            let leap_m = apart_sec
                * if is_fast {
                    HEIGHT_LEAP_M_MAX
                } else {
                    HEIGHT_LEAP_M
                };
            // A stale first value, a slammed door or a restarted sensor makes the pressure leap.
            // The height then continues from its last value.
            if apart_ms <= HEIGHT_GAP_MS && (raw_m - last_m).abs() > leap_m {
                self.offset_m += last_m - raw_m;
                height_m = last_m;
            }
            self.moved_m = (height_m - last_m).abs() / apart_sec;
        }
        self.last = Some((window.t_ms, height_m));
        Some(height_m)
    }

    /// Counts a second, and returns whether the barometer reports whole hectopascals, 8 m each: it
    /// then shows no floors, and its steps look like elevators. A pressure that stays at a whole
    /// number shows nothing yet: it may be steady.
    fn count_whole_reading(&mut self, t_ms: u32, pressure_hpa: f32) -> bool {
        let newest_hpa = whole_hpa(pressure_hpa);
        if let Some(newest_hpa) = newest_hpa {
            let before = self.newest_whole.replace((t_ms, newest_hpa));
            self.has_leapt |= before.is_some_and(|(before_ms, before_hpa)| {
                before_hpa != newest_hpa && t_ms.saturating_sub(before_ms) <= COARSE_LEAP_MS
            });
        }
        let (mut whole, mut all) = self.whole;
        if all >= COARSE_SEC_MAX {
            (whole, all) = (whole / 2, all / 2);
        }
        (whole, all) = (whole + u16::from(newest_hpa.is_some()), all + 1);
        self.whole = (whole, all);
        self.has_leapt && all >= COARSE_SEC_MIN && is_coarse(usize::from(whole), usize::from(all))
    }
}

/// A ride detected from acceleration alone: a body at rest is pushed one way, and some time later
/// the other way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct LoneRide {
    /// The start of the first push, in milliseconds since the session's start.
    pub start_ms: u32,
    /// The height gained by double integration, in metres, accurate to a third.
    pub rise_m: f32,
}

impl LoneRide {
    /// Returns the ride with its last second, which begins at `end_ms`, if it is long and high
    /// enough.
    fn ended_with(self, end_ms: u32) -> Option<(u32, Self)> {
        let is_long = end_ms.saturating_sub(self.start_ms) >= RIDE_ALONE_MS_MIN;
        (is_long && self.rise_m.abs() >= RIDE_HEIGHT_M_MIN).then_some((end_ms, self))
    }
}

/// The strength of a push up or down: the speed gained in its two strongest consecutive seconds.
/// Wherever the seconds begin, two of them contain most of a cabin's push.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Strength {
    /// The acceleration of the newest second, in m/s².
    newest_mps2: f32,
    /// The largest speed gained upwards and downwards in two seconds, in m/s.
    up_mps: f32,
    down_mps: f32,
}

impl Strength {
    /// Adds a second.
    fn add(&mut self, over_mps2: f32) {
        let gained_mps = self.newest_mps2 + over_mps2;
        self.newest_mps2 = over_mps2;
        self.up_mps = self.up_mps.max(gained_mps);
        self.down_mps = self.down_mps.max(-gained_mps);
    }

    /// Returns whether pushes in both directions were similarly strong, if `unseen_mps` of the
    /// weaker one were not measured. A cabin brakes as strongly as it starts; a hand that takes
    /// another grip does not.
    fn is_of_cabin(&self, unseen_mps: f32) -> bool {
        let (weaker_mps, stronger_mps) = if self.up_mps < self.down_mps {
            (self.up_mps, self.down_mps)
        } else {
            (self.down_mps, self.up_mps)
        };
        weaker_mps + unseen_mps >= RIDE_BRAKE_SHARE * stronger_mps
    }
}

/// A push of a body that was at rest.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Push {
    start_ms: u32,
    /// The speed gained so far, in m/s.
    speed_mps: f32,
    /// The height gained so far, in metres.
    rise_m: f32,
    strength: Strength,
}

impl Push {
    /// Returns the push after one more second of this acceleration.
    fn after_second(mut self, over_mps2: f32) -> Self {
        self.strength.add(over_mps2);
        Self {
            rise_m: self.rise_m + self.speed_mps + over_mps2 / 2.0,
            speed_mps: self.speed_mps + over_mps2,
            ..self
        }
    }
}

/// A ride in progress, after its first push.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct RideInProgress {
    ride: LoneRide,
    /// The speed that the first push gave, in m/s.
    first_mps: f32,
    /// The current speed, in m/s.
    speed_mps: f32,
    strength: Strength,
}

impl RideInProgress {
    /// Returns whether only the integration error is left of the speed that the first push gave.
    fn has_stopped(&self) -> bool {
        self.speed_mps.abs() <= RIDE_STOPPED_SHARE * self.first_mps.abs()
    }

    /// Returns the ride with its last second, which begins at `end_ms`, if the cabin has stopped by
    /// a push like the first one, of which `unseen_mps` were not measured.
    fn ended_with(self, end_ms: u32, unseen_mps: f32) -> Option<(u32, LoneRide)> {
        self.ride
            .ended_with(end_ms)
            .filter(|_| self.has_stopped() && self.strength.is_of_cabin(unseen_mps))
    }
}

/// Detects the two pushes of an elevator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct RideTrack {
    /// The acceleration measured at rest, in m/s², which includes the sensor's bias.
    base_mps2: Option<f32>,
    /// The number of consecutive quiet seconds.
    quiet_sec: u8,
    /// The number of consecutive seconds that were not quiet but could belong to a ride.
    loud_sec: u8,
    /// Whether the value at rest has ever settled.
    is_settled: bool,
    /// The push in progress.
    push: Option<Push>,
    /// The ride after the first push.
    ride: Option<RideInProgress>,
    /// Whether the newest second could belong to the beginning or end of a ride: it shows a push,
    /// or shakes too strongly to distinguish.
    has_push: bool,
}

impl RideTrack {
    /// Returns whether the newest second could belong to a ride's beginning or end.
    pub(super) fn has_push(&self) -> bool {
        self.has_push
    }

    /// Returns the start of a possible ride in progress, in milliseconds since the session's start.
    /// A ride starts with its first push.
    pub(super) fn start_ms(&self) -> Option<u32> {
        let ride = self.ride.map(|going| going.ride.start_ms);
        ride.or(self.push.map(|push| push.start_ms))
    }

    /// Adds a second to the ride in progress, and returns the ride if it ends with that second.
    fn continue_ride(&mut self, window: &Window, over_mps2: f32) -> Option<(u32, LoneRide)> {
        let going = self.ride.as_mut()?;
        // A smaller acceleration is noise that would add up over a long ride.
        let gained_mps = if over_mps2.abs() < RIDE_DEAD_MPS2 {
            0.0
        } else {
            over_mps2
        };
        going.ride.rise_m += going.speed_mps + gained_mps / 2.0;
        going.speed_mps += gained_mps;
        going.strength.add(over_mps2);
        let (going, first_mps) = (*going, going.first_mps);
        let is_over = window.end_ms().saturating_sub(going.ride.start_ms) > RIDE_ALONE_MS_MAX;
        if is_over || going.speed_mps * first_mps < -RIDE_OVERSHOOT * first_mps * first_mps {
            self.ride = None;
        } else if over_mps2.abs() < RIDE_DEAD_MPS2 && going.has_stopped() {
            self.ride = None;
            return going.ended_with(window.t_ms, 0.0);
        }
        None
    }

    /// Returns whether a second can belong to a ride. It must be quiet, or one of the few seconds
    /// in which a push in progress begins or ends, because that spreads the acceleration.
    fn can_ride(&self, motion: &BodyMotion) -> bool {
        motion.accel_std <= RIDE_QUIET_STD_MPS2
            || (motion.accel_std <= RIDE_LOUD_STD_MPS2
                && self.loud_sec < RIDE_LOUD_SEC_MAX
                && (self.push.is_some() || self.ride.is_some()))
    }

    /// Ends the ride because the body moves. Returns it if the cabin had stopped in the second
    /// before `t_ms`, so that the courier left it immediately.
    fn end_immediately(&mut self, t_ms: u32) -> Option<(u32, LoneRide)> {
        let going = self.ride.take()?;
        // The first step out of the cabin hides the rest of the push.
        going.ended_with(t_ms.checked_sub(WINDOW_MS)?, going.speed_mps.abs())
    }

    /// Continues the push and the ride at the same speed through a second without acceleration,
    /// unless they would get too long.
    fn coast(&mut self, window: &Window) {
        if self.start_ms().is_none() {
            self.quiet_sec = 0;
            return;
        }
        let lasts =
            |start_ms: u32, most_ms: u32| window.end_ms().saturating_sub(start_ms) <= most_ms;
        self.push = self
            .push
            .filter(|push| lasts(push.start_ms, RIDE_PUSH_MS_MAX));
        self.ride = self
            .ride
            .filter(|going| lasts(going.ride.start_ms, RIDE_ALONE_MS_MAX));
        if let Some(push) = &mut self.push {
            push.rise_m += push.speed_mps;
        }
        if let Some(going) = &mut self.ride {
            going.ride.rise_m += going.speed_mps;
        }
    }

    /// Returns the ended ride and its last second (this one or the previous one), in milliseconds
    /// since the session's start.
    pub(super) fn observe(&mut self, window: &Window) -> Option<(u32, LoneRide)> {
        self.has_push = true;
        let Some(motion) = window.motion else {
            self.coast(window);
            return None;
        };
        if !self.can_ride(&motion) {
            self.quiet_sec = 0;
            self.push = None;
            return self.end_immediately(window.t_ms);
        }
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
        // Acceleration after a walk is the hand coming to rest, unless it is as strong as that of a
        // cabin that starts immediately.
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
            // No push lasts this long. The phone is now held differently and shows another value at
            // rest.
            *base_mps2 = motion.accel_mean;
            self.push = None;
            return None;
        }
        if self.ride.is_some() {
            return self.continue_ride(window, over_mps2);
        }
        // A push ends with the acceleration, or turns into the opposite push if the ride does not
        // coast between them.
        let goes_on =
            |speed_mps: f32| over_mps2.abs() >= RIDE_DEAD_MPS2 && speed_mps * over_mps2 > 0.0;
        match self.push {
            Some(push) if goes_on(push.speed_mps) => self.push = Some(push.after_second(over_mps2)),
            Some(push) if push.speed_mps.abs() >= RIDE_ALONE_MPS => {
                self.push = None;
                let after = push.after_second(over_mps2);
                let ride = LoneRide {
                    start_ms: push.start_ms,
                    rise_m: after.rise_m,
                };
                self.ride = Some(RideInProgress {
                    ride,
                    first_mps: push.speed_mps,
                    speed_mps: after.speed_mps,
                    strength: after.strength,
                });
            }
            _ if over_mps2.abs() >= RIDE_DEAD_MPS2 => {
                let push = Push {
                    start_ms: window.t_ms,
                    ..Push::default()
                };
                self.push = Some(push.after_second(over_mps2));
            }
            _ => {
                self.push = None;
                *base_mps2 += RIDE_BASE_NEW * over_mps2;
            }
        }
        None
    }
}
