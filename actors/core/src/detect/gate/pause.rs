//! Collects and weighs the evidence that a pause was a gate.

use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::detect::Observation;
use crate::detect::parameters::gate::{
    GATE_AFTER_MS, GATE_ARRIVED_LOG_ODDS, GATE_AT_VEHICLE_LOG_ODDS, GATE_AWAY_LOG_ODDS,
    GATE_AWAY_M, GATE_BACK_COSINE, GATE_BACK_RAD, GATE_BASE_LOG_ODDS, GATE_CABIN_SEC,
    GATE_CAP_LOG_ODDS, GATE_CLEAR_ACCURACIES, GATE_DECAY_LOG_ODDS, GATE_DECAY_M_MIN,
    GATE_DECAY_RATIO, GATE_DECIDE_MS, GATE_DOOR_MS, GATE_FIELD_LOG_ODDS, GATE_FIELD_UT,
    GATE_GAIT_LOG_ODDS, GATE_INSIDE_ACCURACY_M, GATE_INSIDE_LOG_ODDS, GATE_KNOWN_LOG_ODDS,
    GATE_KNOWN_M, GATE_LEG_M, GATE_NEAR_LOG_ODDS, GATE_NEAR_M, GATE_NEAR_VEHICLE_M,
    GATE_NEAR_VEHICLE_SEC, GATE_NO_SWING_LOG_ODDS, GATE_ON_COSINE, GATE_ON_LOG_ODDS,
    GATE_ROUND_VEHICLE_SEC, GATE_SHORT_LOG_ODDS, GATE_SHORT_MS, GATE_SHORTER_SHARE,
    GATE_SWING_LOG_ODDS,
};
use crate::detect::parameters::runs::WALK_SPEED_MPS_MAX;
use crate::geo::Place;

/// A pause that may be a gate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Pause {
    pub(super) start_ms: u32,
    pub(super) end_ms: Option<u32>,
    pub(super) accuracy_m: f32,
    pub(super) field_ut: Option<f32>,
    /// The place from which the walk came.
    pub(super) from: Option<Place>,
    /// The place of the pause.
    pub(super) place: Option<Place>,
    /// The number of fixes whose mean is `place`.
    pub(super) fixes: u8,
    /// The place that the walk after the pause has reached.
    pub(super) onward: Option<Place>,
    /// The accuracy of `onward`.
    pub(super) onward_accuracy_m: f32,
    /// The number of walks since the pause, each after a rest of some seconds.
    pub(super) walks: u8,
    /// The least cosine of the angle between the path to the pause and the path after it, over all
    /// places of the latter. `None` while no place shows a direction.
    pub(super) least_cosine: Option<f32>,
    /// The turn about gravity since the pause began, in radians. `None` without a gyroscope.
    pub(super) yaw_rad: Option<f32>,
    pub(super) has_pressure: bool,
    pub(super) has_swing: bool,
    pub(super) has_decay: bool,
    pub(super) has_field_change: bool,
    /// Whether fixes were inaccurate or missing when the pause began.
    pub(super) is_inside: bool,
    /// Whether the courier reported during the pause that this is the door.
    pub(super) is_arrived: bool,
    /// Whether a door's pressure leap occurred during the pause.
    pub(super) has_swing_within: bool,
    /// The seconds of walking before the pause, at most 60.
    pub(super) came_sec: u8,
    /// Whether the path after the pause led to stairs or a ride.
    pub(super) leads_to_climb: bool,
    /// The seconds of walking between the vehicle and the pause. `None` if no vehicle was left.
    pub(super) from_vehicle_sec: Option<u8>,
    /// The place where the vehicle was left.
    pub(super) vehicle: Option<Place>,
    /// Whether the courier was some way from the vehicle since it was left.
    pub(super) has_returned: bool,
    /// Whether the courier rested again a few steps after the pause, perhaps in a cabin.
    pub(super) rests_nearby: bool,
}

/// Returns the mean of `count` places, of which `place` is the newest and `before` is the mean of
/// the others.
pub(super) fn running_mean(before: Place, place: Place, count: u8) -> Place {
    let share = 1.0 / f32::from(count.max(1));
    Place {
        east_m: before.east_m + share * (place.east_m - before.east_m),
        north_m: before.north_m + share * (place.north_m - before.north_m),
    }
}

impl Pause {
    /// Adds the evidence of a second during the pause or after it.
    pub(super) fn observe(
        &mut self,
        observation: &Observation<'_>,
        swing_m: Option<f32>,
        is_silent: bool,
    ) {
        let window = observation.window;
        let is_within =
            |t_ms: u32| t_ms >= self.start_ms && self.end_ms.is_none_or(|end_ms| t_ms <= end_ms);
        self.is_arrived |= window.arrived_ms.is_some_and(is_within);
        self.has_pressure |= swing_m.is_some();
        // Changes of the air or the field long after the pause come from the walk itself, not from
        // the door.
        if self
            .end_ms
            .is_none_or(|end_ms| window.t_ms.saturating_sub(end_ms) < GATE_AFTER_MS)
        {
            // In a pocket the walk itself swings the pressure by metres, so only a leap at rest is
            // a door's.
            let is_swing = observation.gait.log_odds <= GATE_GAIT_LOG_ODDS
                && swing_m.is_some_and(|swing_m| swing_m > 0.0);
            self.has_swing |= is_swing;
            self.has_swing_within |= is_swing
                && self
                    .end_ms
                    .is_none_or(|end_ms| window.t_ms <= end_ms + GATE_DOOR_MS);
            // A gyroscope that does not work reads exactly zero.
            let yaw_rad = window.motion.and_then(|motion| motion.yaw_rad);
            if let Some(yaw_rad) = yaw_rad.filter(|&rad| rad != 0.0 || self.yaw_rad.is_some()) {
                self.yaw_rad = Some(self.yaw_rad.unwrap_or(0.0) + yaw_rad);
            }
            if let (Some(before_ut), Some(now_ut)) = (self.field_ut, window.magnetic_ut) {
                self.has_field_change |= (now_ut - before_ut).abs() >= GATE_FIELD_UT;
            }
        }
        for fix in window.fixes() {
            if self.end_ms.is_none() && fix.accuracy_m <= GATE_INSIDE_ACCURACY_M {
                self.stay_at(fix.place);
            }
            self.has_decay |= self.is_decayed(fix.accuracy_m);
        }
        self.has_decay |= is_silent;
    }

    /// Returns whether an accuracy value is much worse than before the pause.
    fn is_decayed(&self, accuracy_m: f32) -> bool {
        accuracy_m >= GATE_DECAY_M_MIN.max(GATE_DECAY_RATIO * self.accuracy_m)
    }

    /// Refines the place of the pause with another fix.
    pub(super) fn stay_at(&mut self, place: Place) {
        self.fixes = self.fixes.saturating_add(1);
        self.place = Some(
            self.place
                .map_or(place, |before| running_mean(before, place, self.fixes)),
        );
    }

    /// Returns whether the pause was next to the vehicle, because the courier looks for the parcel
    /// or locks the door. A few steps lead round a van. On a longer path positions decide, since
    /// their errors barely change within a minute.
    pub(super) fn is_at_vehicle(&self) -> bool {
        let Some(walked_sec) = self.from_vehicle_sec else {
            return false;
        };
        let apart_m = self
            .place
            .zip(self.vehicle)
            .map(|(place, vehicle)| place.distance_m(vehicle));
        walked_sec <= GATE_ROUND_VEHICLE_SEC
            || ((self.has_returned || walked_sec <= GATE_NEAR_VEHICLE_SEC)
                && apart_m.is_some_and(|apart_m| apart_m <= GATE_NEAR_VEHICLE_M))
    }

    /// Returns whether the address names a gate or an entrance at the place of the pause.
    pub(super) fn is_known(&self, context: &SessionContext) -> bool {
        self.place.is_some_and(|place| {
            let near_m = GATE_KNOWN_M.max(self.accuracy_m);
            context
                .gates
                .iter()
                .chain(&context.entrance)
                .any(|gate| gate.distance_m(place) <= near_m)
        })
    }

    /// Returns the distance from the address in metres, less the address's own error.
    pub(super) fn away_m(&self, context: &SessionContext) -> Option<f32> {
        let away_m = self.place?.distance_m(Place::default());
        Some((away_m - context.accuracy_m).max(0.0))
    }

    /// Returns whether the pause was near the address.
    pub(super) fn is_near(&self, context: &SessionContext) -> bool {
        self.away_m(context)
            .is_some_and(|away_m| away_m <= GATE_NEAR_M)
    }

    /// Sets the place that the walk after the pause has reached, unless the fix jumped there or is
    /// much less accurate than before: behind a door fixes show no direction.
    pub(super) fn set_onward(&mut self, t_ms: u32, place: Place, accuracy_m: f32) {
        let (Some(end_ms), Some(from)) = (self.end_ms, self.place) else {
            return;
        };
        let walked_sec = t_ms.saturating_sub(end_ms) as f32 / 1_000.0;
        if t_ms > end_ms
            && !self.is_decayed(accuracy_m)
            && t_ms - end_ms <= GATE_DECIDE_MS
            && place.distance_m(from) <= GATE_NEAR_M + WALK_SPEED_MPS_MAX * walked_sec
        {
            (self.onward, self.onward_accuracy_m) = (Some(place), accuracy_m);
            let cosine = self.cosine(1.0);
            self.least_cosine = self.least_cosine.into_iter().chain(cosine).reduce(f32::min);
        }
    }

    /// Returns whether the walk turned round. The pause is then the end of the way and not a
    /// passage. Positions decide if they show the direction clearly, and otherwise the gyroscope
    /// does. The last place need only lie behind the pause if an earlier one shows the way back:
    /// the courier may have turned from the path of the house into the street.
    pub(super) fn goes_back(&self) -> bool {
        let led_back = self
            .least_cosine
            .is_some_and(|cosine| cosine < GATE_BACK_COSINE);
        let lies_behind = self.cosine(1.0).is_none_or(|cosine| cosine < 0.0);
        // The position wanders while the courier waits, and the gyroscope does not. A right angle
        // shows neither: a way back that soon leads round a corner has it, too.
        let has_wandered = || self.has_kept_direction() && !self.is_clearly_behind();
        if led_back && lies_behind && !has_wandered() {
            return true;
        }
        if let Some(yaw_rad) = self.yaw_rad {
            let turned = yaw_rad.abs();
            let turns_back =
                (GATE_BACK_RAD..2.0 * core::f32::consts::PI - GATE_BACK_RAD).contains(&turned);
            return turns_back
                && self
                    .cosine(1.0)
                    .is_none_or(|cosine| cosine <= GATE_ON_COSINE);
        }
        false
    }

    /// Returns whether the gyroscope shows that the walk went on in the direction in which it came.
    fn has_kept_direction(&self) -> bool {
        self.yaw_rad
            .is_some_and(|yaw_rad| libm::cosf(yaw_rad) >= GATE_ON_COSINE)
    }

    /// Returns whether the gyroscope shows a passage where no position does: the walk led on in the
    /// direction in which it came. On a phone without a barometer two rests a few steps apart may
    /// be the wait for an elevator and an unseen ride.
    fn is_passage_by_gyroscope(&self) -> bool {
        let may_be_ride = self.rests_nearby || self.came_sec <= GATE_CABIN_SEC;
        self.has_kept_direction() && (self.has_pressure || !may_be_ride)
    }

    /// Returns whether positions show the way back beyond their errors, even if these have changed
    /// completely during the pause.
    fn is_clearly_behind(&self) -> bool {
        self.cosine(GATE_CLEAR_ACCURACIES)
            .is_some_and(|cosine| cosine < GATE_BACK_COSINE)
    }

    /// Returns whether nothing distinguishes the pause from a stay at the door of the address. The
    /// pause may have been there, neither positions nor the gyroscope show the direction of the
    /// walk after it, and there is no sign of a passage. That walk is not too short to be the way
    /// back: it took `went_sec` seconds, or has not ended (`None`).
    pub(super) fn may_be_at_door(&self, context: &SessionContext, went_sec: Option<u8>) -> bool {
        let is_at_address = self
            .away_m(context)
            .is_some_and(|away_m| away_m <= GATE_LEG_M.max(self.accuracy_m));
        let has_direction = self.least_cosine.is_some() || self.yaw_rad.is_some();
        let has_sign = self.has_swing
            || self.leads_to_climb
            || (self.has_decay && !self.is_inside)
            || self.is_known(context);
        // The walk from a gate to the door is shorter than the walk from the vehicle to the gate.
        let is_short = went_sec
            .is_some_and(|sec| f32::from(sec) < GATE_SHORTER_SHARE * f32::from(self.came_sec));
        is_at_address && !has_direction && !has_sign && !is_short
    }

    /// Returns whether the walk has led away from the pause, or other evidence shows a gate there.
    pub(super) fn leads_on(&self, context: &SessionContext) -> bool {
        let both = self.place.zip(self.onward);
        let leads_away = both.is_some_and(|(place, here)| here.distance_m(place) >= GATE_LEG_M);
        leads_away || self.has_swing || self.is_known(context)
    }

    /// Returns the cosine of the angle between the path to the pause and the path from it. Returns
    /// `None` if one of them is shorter than this many times its position error, because its
    /// direction is then noise.
    fn cosine(&self, accuracies: f32) -> Option<f32> {
        let (from, place, here) = (self.from?, self.place?, self.onward?);
        let (came, goes) = (place.distance_m(from), here.distance_m(place));
        let along = (place.east_m - from.east_m) * (here.east_m - place.east_m)
            + (place.north_m - from.north_m) * (here.north_m - place.north_m);
        let came_m = GATE_LEG_M.max(accuracies * self.accuracy_m);
        let goes_m = came_m.max(accuracies * self.onward_accuracy_m);
        (came >= came_m && goes >= goes_m).then(|| along / (came * goes))
    }

    /// Returns the log-odds that the pause, of `wait_ms` milliseconds, was at a gate.
    pub(super) fn log_odds(&self, context: &SessionContext, wait_ms: u32) -> f32 {
        let is_known = self.is_known(context);
        let away_m = self.away_m(context);
        let mut log_odds = GATE_BASE_LOG_ODDS;
        if is_known {
            log_odds += GATE_KNOWN_LOG_ODDS;
        }
        if self.has_swing {
            log_odds += GATE_SWING_LOG_ODDS;
        } else if self.has_pressure {
            log_odds += GATE_NO_SWING_LOG_ODDS;
        }
        if self.has_decay && !self.is_inside {
            log_odds += GATE_DECAY_LOG_ODDS;
        }
        if self.has_field_change {
            log_odds += GATE_FIELD_LOG_ODDS;
        }
        match away_m {
            Some(away_m) if away_m <= GATE_NEAR_M => log_odds += GATE_NEAR_LOG_ODDS,
            Some(away_m) if away_m > GATE_AWAY_M => log_odds += GATE_AWAY_LOG_ODDS,
            None if self.is_passage_by_gyroscope() => log_odds += GATE_ON_LOG_ODDS,
            _ => {}
        }
        if wait_ms < GATE_SHORT_MS {
            log_odds += GATE_SHORT_LOG_ODDS;
        }
        if self.is_inside {
            log_odds += GATE_INSIDE_LOG_ODDS;
        }
        if self.is_arrived {
            log_odds += GATE_ARRIVED_LOG_ODDS;
        }
        if self.is_at_vehicle() {
            log_odds += GATE_AT_VEHICLE_LOG_ODDS;
        }
        // Without a door's pressure or a known gate the result is uncertain (sources: gates).
        if is_known || self.has_swing {
            log_odds
        } else {
            log_odds.min(GATE_CAP_LOG_ODDS)
        }
    }
}
