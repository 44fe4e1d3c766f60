//! Determines the speed over ground and rest from fixes alone.

use serde::{Deserialize, Serialize};

use super::newest_place::{NewestPlace, Repetition};
use super::parameters::evidence::{CONFIRMING_SHARE, DRIVE_SPEED_MPS};
use super::parameters::position::{
    DOPPLER_ACCURACY_M_MAX, FIX_ACCURACY_M_MAX, FIX_AGAIN_MS, FIX_BASELINE_MS_MAX,
    FIX_BASELINE_MS_MIN, FIX_LEAP_ACCURACIES, FIX_LEAP_MPS, FIX_LEAPS_MAX, FIX_NOISE_SHARE,
    GAIT_BY_POSITION_MAX, GAIT_BY_SPEED_MPS, GAIT_BY_SPEED_SLOPE, INTERVAL_MS_MAX, INTERVAL_NEW,
    NON_SATELLITE_NOISE_SHARE, REST_ACCURACY_SHARE, REST_BASELINE_MS, REST_RADIUS_M,
    REST_SLOPE_SHARE, REST_SPEED_MPS, SPEED_ACCURACY_M_MAX, SPEED_AGE_MS,
};
use super::parameters::runs::{WALK_ACCURACY_M_MAX, WALK_SPEED_MPS_MAX};
use super::short_queue::ShortQueue;
use crate::geo::Place;
use crate::window::{Fix, WINDOW_MS, Window};

/// The number of fixes kept for displacement: the last half minute at intervals of 5 s.
const KEPT: usize = 8;

/// The part of a fix that displacement needs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Crumb {
    t_ms: u32,
    place: Place,
    accuracy_m: f32,
}

/// The track of the last fixes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct PositionTrack {
    /// The kept fixes, newest last, at least [`FIX_BASELINE_MS_MIN`] apart.
    crumbs: ShortQueue<Crumb, KEPT>,
    usual_interval_ms: f32,
    newest_interval_ms: f32,
    last_ms: Option<u32>,
    /// The number of consecutive fixes that jumped: no vehicle could have reached them from the
    /// newest crumb.
    leaps: u8,
    /// Whether the phone has reported a speed of its own.
    reports_speed: bool,
    /// Whether the phone has reported an accuracy. A fix without one may then be anywhere in a
    /// street; before that, the phone is one that never reports any.
    reports_accuracy: bool,
    newest: NewestPlace,
}

/// The evidence of a fix about the time before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Leg {
    /// The start of the interval, in milliseconds since the session's start.
    pub from_ms: u32,
    /// The end of the interval, in milliseconds since the session's start.
    pub to_ms: u32,
    /// The speed over ground in the interval, in m/s.
    pub speed_mps: f32,
    /// Whether the speed is the phone's own.
    pub is_reported_speed: bool,
    /// Whether the phone reports speeds but reported none here. The fix is not from satellites, and
    /// may be anywhere.
    pub is_non_satellite: bool,
    /// Whether the speed is the phone's own and accurate enough to distinguish walking from rest.
    pub sees_walk: bool,
    /// Whether satellites show without doubt that the phone moves faster than a walk: a speed of
    /// its own that the displacement confirms, or a displacement beyond the error of the positions.
    pub is_carried: bool,
    /// Log-odds: positive for walking, negative for staying. They apply to the middle of the last
    /// [`REST_BASELINE_MS`].
    pub gait: Option<f32>,
}

impl PositionTrack {
    /// Returns the usual time between two fixes in milliseconds; 0 without fixes.
    pub(super) fn usual_interval_ms(&self) -> f32 {
        self.usual_interval_ms
    }

    /// Returns the time after which the next fix is expected, in milliseconds; 0 before the second
    /// fix.
    pub(super) fn expected_interval_ms(&self) -> f32 {
        self.usual_interval_ms.max(self.newest_interval_ms)
    }

    /// Returns the heap size in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.crumbs.heap_bytes()
    }

    /// Returns the speed over ground from the oldest to the newest place of the last half minute, in
    /// m/s, on a phone that reports no speed of its own. Behind walls its places wander within
    /// seconds, but over that time they come back. There is none if the newest place is older than
    /// `holds_ms` at `t_ms`.
    pub(super) fn way_mps(&self, t_ms: u32, holds_ms: u32) -> Option<f32> {
        if self.reports_speed {
            return None;
        }
        let last = self.crumbs.last()?;
        if t_ms.saturating_sub(last.t_ms) > holds_ms {
            return None;
        }
        let first = self
            .crumbs
            .iter()
            .find(|crumb| last.t_ms - crumb.t_ms <= FIX_BASELINE_MS_MAX)?;
        let way_ms = last.t_ms - first.t_ms;
        (way_ms >= REST_BASELINE_MS)
            .then(|| last.place.distance_m(first.place) * 1_000.0 / way_ms as f32)
    }

    /// Returns whether no fix has arrived yet.
    pub(super) fn is_empty(&self) -> bool {
        self.last_ms.is_none()
    }

    /// Processes the next second; `has_body` means that the phone has measured the body.
    pub(super) fn observe(&mut self, window: &Window, has_body: bool) -> Option<Leg> {
        match &window.fixes {
            [None, _] => None,
            [Some(fix), None] => self.observe_fix(fix, has_body),
            [Some(first), Some(last)] => {
                let leg = self.observe_first_of_two(first, has_body);
                self.observe_fix(last, has_body).or(leg)
            }
        }
    }

    /// Processes the first of two fixes in one second.
    #[inline(never)]
    fn observe_first_of_two(&mut self, fix: &Fix, has_body: bool) -> Option<Leg> {
        self.observe_fix(fix, has_body)
    }

    #[inline(always)]
    fn observe_fix(&mut self, fix: &Fix, has_body: bool) -> Option<Leg> {
        // A fix that the platform marks as simulated does not show where the phone is, but the body
        // shows its movement.
        if fix.mock && has_body {
            return None;
        }
        let before_ms = self.last_ms;
        let is_second = self.newest.is_at(fix)
            && before_ms.is_some_and(|before_ms| fix.t_ms.saturating_sub(before_ms) < FIX_AGAIN_MS);
        if is_second || self.newest.is_read_again(fix) {
            return None;
        }
        if let Some(last_ms) = self.last_ms {
            let interval_ms = (fix.t_ms.saturating_sub(last_ms) as f32).min(INTERVAL_MS_MAX);
            self.usual_interval_ms += INTERVAL_NEW * (interval_ms - self.usual_interval_ms);
            self.newest_interval_ms = interval_ms;
        }
        self.last_ms = Some(fix.t_ms);
        self.reports_accuracy |= fix.accuracy_known;
        if fix.accuracy_m > FIX_ACCURACY_M_MAX {
            return self.vehicle_speed_leg(fix, before_ms);
        }
        let crumb = Crumb {
            t_ms: fix.t_ms,
            place: fix.place,
            accuracy_m: fix.accuracy_m,
        };
        let repetition = self.newest.observe(fix);
        if self.reject_leap(fix) {
            return None;
        }
        let reports_speed = self.reports_speed;
        let leg = match fix.speed_mps {
            Some(_) if repetition == Repetition::OfMovement => Some(Leg {
                sees_walk: false,
                gait: self.rest_evidence(fix),
                ..self.own_speed_leg(fix, 0.0, before_ms)
            }),
            Some(speed_mps) if fix.accuracy_m <= SPEED_ACCURACY_M_MAX => {
                Some(self.own_speed_leg(fix, speed_mps, before_ms))
            }
            _ => self
                .vehicle_speed_leg(fix, before_ms)
                // A platform repeats a fix that is not from satellites until it has another one.
                .or_else(|| {
                    self.displacement_leg(fix, has_body)
                        .filter(|_| !reports_speed || repetition == Repetition::None)
                }),
        };
        if self
            .crumbs
            .last()
            .is_none_or(|last| fix.t_ms.saturating_sub(last.t_ms) >= FIX_BASELINE_MS_MIN)
        {
            if self.crumbs.len() == KEPT {
                self.crumbs.drop_first(1);
            }
            self.crumbs.push(crumb);
        }
        leg
    }

    /// Builds the leg from the phone's own speed.
    fn own_speed_leg(&mut self, fix: &Fix, speed_mps: f32, before_ms: Option<u32>) -> Leg {
        // A phone without a speed may report 0 instead.
        self.reports_speed |= speed_mps > 0.0;
        let sees_walk = fix.accuracy_known && fix.accuracy_m <= WALK_ACCURACY_M_MAX;
        let usual_ms = self.usual_interval_ms.max(self.newest.moving_interval_ms());
        let usual_ms = (usual_ms as u32).clamp(SPEED_AGE_MS.0, SPEED_AGE_MS.1);
        let apart_ms = before_ms.map_or(usual_ms, |before_ms| {
            (fix.t_ms - before_ms).clamp(usual_ms, usual_ms + 2 * WINDOW_MS)
        });
        // If it is accurate enough, the phone's own speed distinguishes walking from rest
        // immediately.
        let gait = if sees_walk {
            let by_speed = GAIT_BY_SPEED_SLOPE * (speed_mps - GAIT_BY_SPEED_MPS);
            Some(by_speed.clamp(-GAIT_BY_POSITION_MAX, GAIT_BY_POSITION_MAX))
        } else {
            self.rest_evidence(fix)
        };
        Leg {
            from_ms: fix.t_ms.saturating_sub(apart_ms),
            to_ms: fix.t_ms,
            speed_mps,
            is_reported_speed: true,
            is_non_satellite: false,
            sees_walk,
            is_carried: speed_mps > WALK_SPEED_MPS_MAX
                && fix.accuracy_m <= SPEED_ACCURACY_M_MAX
                && self.confirms(fix, speed_mps),
            gait,
        }
    }

    /// Returns whether the distance to the newest crumb confirms a speed.
    fn confirms(&self, fix: &Fix, speed_mps: f32) -> bool {
        self.baseline(fix.t_ms, FIX_BASELINE_MS_MIN)
            .is_some_and(|before| {
                let sec = (fix.t_ms - before.t_ms) as f32 / 1_000.0;
                fix.place.distance_m(before.place) >= CONFIRMING_SHARE * speed_mps * sec
            })
    }

    /// Builds the leg of a fix with a poor position, if the phone's own speed is a vehicle's. A
    /// receiver measures speed by the Doppler shift, independently of its position. A lower speed
    /// is ignored, because indoors it freezes at the speed of the walk in.
    #[inline(never)]
    fn vehicle_speed_leg(&mut self, fix: &Fix, before_ms: Option<u32>) -> Option<Leg> {
        let is_vehicle = |speed_mps: &f32| *speed_mps >= DRIVE_SPEED_MPS;
        let speed_mps = fix.speed_mps.filter(is_vehicle)?;
        if fix.accuracy_m > DOPPLER_ACCURACY_M_MAX {
            return None;
        }
        let leg = self.own_speed_leg(fix, speed_mps, before_ms);
        Some(Leg { gait: None, ..leg })
    }

    /// Builds the leg from the distance between the fix and an earlier one.
    fn displacement_leg(&self, fix: &Fix, has_body: bool) -> Option<Leg> {
        let before = self.baseline(fix.t_ms, FIX_BASELINE_MS_MIN)?;
        let is_non_satellite = self.reports_speed || !fix.accuracy_known;
        let net_mps = self.net_speed_mps(fix, &before, has_body);
        let is_steady = !is_non_satellite || (has_body && !self.reports_accuracy);
        // Over a longer time the errors of the positions hide less of the speed. The newest part of
        // that time confirms that the phone still moves.
        let longer_mps = self
            .crumbs
            .iter()
            .filter(|crumb| fix.t_ms.saturating_sub(crumb.t_ms) <= FIX_BASELINE_MS_MAX)
            .filter(|crumb| crumb.t_ms < before.t_ms && is_steady)
            .map(|crumb| self.net_speed_mps(fix, crumb, has_body))
            .filter(|&mps| self.confirms(fix, mps))
            .fold(0.0, f32::max);
        let speed_mps = net_mps.max(longer_mps);
        Some(Leg {
            from_ms: before.t_ms,
            to_ms: fix.t_ms,
            speed_mps,
            is_reported_speed: false,
            is_non_satellite,
            sees_walk: false,
            is_carried: !is_non_satellite && speed_mps > WALK_SPEED_MPS_MAX,
            gait: self.rest_evidence(fix),
        })
    }

    /// Returns the speed from an earlier crumb to a fix, in m/s, less the error of both places. On
    /// a phone that reports no accuracy and measures no body, only the distances between fixes can
    /// show a drive, so none is subtracted there.
    fn net_speed_mps(&self, fix: &Fix, before: &Crumb, has_body: bool) -> f32 {
        let (a_m, b_m) = (fix.accuracy_m, before.accuracy_m);
        let is_vague = !fix.accuracy_known || a_m.max(b_m) > WALK_ACCURACY_M_MAX;
        let share = if !self.reports_accuracy {
            if has_body { FIX_NOISE_SHARE } else { 0.0 }
        } else if self.reports_speed || is_vague {
            NON_SATELLITE_NOISE_SHARE
        } else {
            FIX_NOISE_SHARE
        };
        let noise_m = share * (a_m * a_m + b_m * b_m).sqrt();
        let apart_m = (fix.place.distance_m(before.place) - noise_m).max(0.0);
        apart_m * 1_000.0 / (fix.t_ms - before.t_ms).max(1) as f32
    }

    /// Returns whether to leave a fix out because no vehicle could have reached it: it jumped, like
    /// fixes from wrongly located stations. If several fixes in a row jump, the crumbs were wrong,
    /// and are removed.
    fn reject_leap(&mut self, fix: &Fix) -> bool {
        let Some(last) = self.crumbs.last() else {
            return false;
        };
        // Most fixes are so close that no square root is needed.
        let (east_m, north_m) = (
            fix.place.east_m - last.place.east_m,
            fix.place.north_m - last.place.north_m,
        );
        if east_m.abs() + north_m.abs() < 0.99 * FIX_LEAP_MPS {
            self.leaps = 0;
            return false;
        }
        let apart_m = fix.place.distance_m(last.place)
            - FIX_LEAP_ACCURACIES * (fix.accuracy_m + last.accuracy_m);
        let apart_sec = (fix.t_ms.saturating_sub(last.t_ms) as f32 / 1_000.0).max(1.0);
        if apart_m <= FIX_LEAP_MPS * apart_sec {
            self.leaps = 0;
            return false;
        }
        self.leaps += 1;
        if self.leaps < FIX_LEAPS_MAX {
            return true;
        }
        self.leaps = 0;
        self.crumbs = ShortQueue::default();
        false
    }

    /// Returns the newest crumb that is at least `apart_ms` old.
    fn baseline(&self, t_ms: u32, apart_ms: u32) -> Option<Crumb> {
        let crumb = self
            .crumbs
            .iter()
            .rev()
            .find(|crumb| t_ms.saturating_sub(crumb.t_ms) >= apart_ms)?;
        (t_ms - crumb.t_ms <= FIX_BASELINE_MS_MAX).then_some(*crumb)
    }

    /// Returns the evidence for staying or going, from the distance to the phone's place a quarter
    /// of a minute before.
    fn rest_evidence(&self, fix: &Fix) -> Option<f32> {
        let before = self.baseline(fix.t_ms, REST_BASELINE_MS)?;
        let accuracy_m = if self.reports_accuracy {
            REST_ACCURACY_SHARE * fix.accuracy_m.max(before.accuracy_m)
        } else {
            0.0
        };
        let slow_m = REST_SPEED_MPS * (fix.t_ms - before.t_ms) as f32 / 1_000.0;
        let radius_m = REST_RADIUS_M.max(accuracy_m).max(slow_m);
        let apart_m = fix.place.distance_m(before.place);
        let by_place = ((apart_m - radius_m) / (REST_SLOPE_SHARE * radius_m))
            .clamp(-GAIT_BY_POSITION_MAX, GAIT_BY_POSITION_MAX);
        // If a walk would lead less far than the places stray, they show little of either. For
        // normal errors the log-odds fall with the square of the way over the error.
        let walk_share = (2.0 * slow_m / radius_m).min(1.0);
        Some(by_place * walk_share * walk_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(second: u32, east_m: f32, accuracy_m: f32, speed_mps: Option<f32>) -> Fix {
        Fix {
            t_ms: second * 1_000,
            place: Place {
                east_m,
                north_m: 0.0,
            },
            accuracy_m,
            accuracy_known: true,
            speed_mps,
            bearing_deg: None,
            altitude_m: None,
            mock: false,
            provider: None,
        }
    }

    /// Behind a door the platform draws a new Wi-Fi fix every eight seconds, 30 m from the one
    /// before and within its claimed 25 m, and repeats it in between. The courier rests.
    #[test]
    fn fixes_that_jump_within_their_accuracy_show_no_vehicle() {
        let mut track = PositionTrack::default();
        for second in 0..20 {
            track.observe_fix(&fix(second, 1.4 * second as f32, 5.0, Some(1.4)), false);
        }
        for second in 20..80 {
            let east_m = if second / 8 % 2 == 0 { 30.0 } else { 60.0 };
            let leg = track.observe_fix(&fix(second, east_m, 25.0, None), false);
            assert!(
                leg.is_none_or(|leg| leg.speed_mps < DRIVE_SPEED_MPS),
                "{leg:?}"
            );
            let is_new = second % 8 == 0;
            assert!(second < 21 || is_new || leg.is_none(), "{second}: {leg:?}");
        }
    }

    /// The van drives at 8 m/s. The phone reports a speed of 0 until it has moved by more than its
    /// accuracy of 15 m, and then none. The distances between its fixes still show the drive.
    #[test]
    fn a_phone_that_reports_only_zeros_shows_a_drive() {
        let mut track = PositionTrack::default();
        for second in 0..8 {
            track.observe_fix(&fix(second, 8.0 * second as f32, 15.0, Some(0.0)), false);
        }
        let legs = (8..40).filter_map(|second| {
            track.observe_fix(&fix(second, 8.0 * second as f32, 15.0, None), false)
        });
        let slowest_mps = legs.map(|leg| leg.speed_mps).fold(f32::INFINITY, f32::min);
        assert!(slowest_mps >= DRIVE_SPEED_MPS, "{slowest_mps}");
    }

    /// The app listens to two providers and gets each fix from both, 20 ms apart. The phone sends a fix
    /// each 10 s, and the second one adds nothing.
    #[test]
    fn a_fix_from_a_second_provider_is_no_new_fix() {
        let (mut once, mut twice) = (PositionTrack::default(), PositionTrack::default());
        for number in 0..12 {
            let first = fix(number * 10, 12.0 * number as f32, 10.0, None);
            let again = Fix {
                t_ms: first.t_ms + 20,
                ..first
            };
            let leg = once.observe_fix(&first, false);
            assert_eq!(twice.observe_fix(&first, false), leg, "{number}");
            assert_eq!(twice.observe_fix(&again, false), None, "{number}");
        }
        assert_eq!(once.usual_interval_ms(), twice.usual_interval_ms());
    }

    /// A phone on a table sends fixes of a drive at 8 m/s that the platform marks as simulated. If
    /// the phone measures the body, they show no movement; otherwise nothing else does.
    #[test]
    fn simulated_fixes_show_no_movement_of_a_measured_body() {
        let simulated = |second: u32| Fix {
            mock: true,
            ..fix(second, 8.0 * second as f32, 5.0, Some(8.0))
        };
        let (mut measured, mut unmeasured) = (PositionTrack::default(), PositionTrack::default());
        for second in 0..20 {
            assert_eq!(measured.observe_fix(&simulated(second), true), None);
            let leg = unmeasured.observe_fix(&simulated(second), false);
            assert!(leg.is_some_and(|leg| leg.speed_mps >= DRIVE_SPEED_MPS));
        }
        assert!(measured.is_empty());
    }

    /// A bus in a tunnel is located by stations at 15 m/s: the places are farther apart than their
    /// accuracies explain.
    #[test]
    fn fixes_that_move_beyond_their_accuracy_show_a_vehicle() {
        let mut track = PositionTrack::default();
        track.observe_fix(&fix(0, 0.0, 5.0, Some(15.0)), false);
        let legs = (1..8).filter_map(|number| {
            let second = number * 8;
            track.observe_fix(&fix(second, 15.0 * second as f32, 25.0, None), false)
        });
        let fast = legs.filter(|leg| leg.speed_mps >= DRIVE_SPEED_MPS).count();
        assert_eq!(fast, 7);
    }

    /// The phone reports neither accuracy nor speed. Behind walls its fixes wander by 25 m within
    /// five seconds and come back, while the courier, whose body is measured, stands at the door.
    /// The fixes show no vehicle there, and still show the van, at 8 m/s.
    #[test]
    fn fixes_without_an_accuracy_that_wander_at_a_door_show_no_vehicle() {
        let bare = |second: u32, east_m: f32| Fix {
            accuracy_known: false,
            ..fix(second, east_m, 20.0, None)
        };
        let mut track = PositionTrack::default();
        for second in 0..60 {
            let phase = (second % 10) as f32;
            let east_m = 5.0 * phase.min(10.0 - phase);
            let leg = track.observe_fix(&bare(second, east_m), true);
            assert!(
                leg.is_none_or(|leg| leg.speed_mps < DRIVE_SPEED_MPS),
                "{second}: {leg:?}"
            );
        }
        let mut track = PositionTrack::default();
        for second in 0..40 {
            let leg = track.observe_fix(&bare(second, 8.0 * second as f32), true);
            let is_fast = leg.is_some_and(|leg| leg.speed_mps >= DRIVE_SPEED_MPS);
            assert_eq!(is_fast, second >= 4, "{second}: {leg:?}");
        }
    }
}
