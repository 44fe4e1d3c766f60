//! Chooses the sensor set and the strength of an event, by which its confidence is looked up.

use porchlight_schema::event::Confidence;

use super::decode::State;
use crate::confidence::{Confidences, SensorSet};

/// The measurements of a run of seconds at the time it is reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) state: State,
    /// The length of the run, seconds.
    pub(super) seconds: f32,
    /// The mean evidence of its seconds for the state.
    pub(super) evidence: f32,
    /// The number of seconds with a fix.
    pub(super) fix_sec: u16,
    /// Whether the body was measured in most of the run.
    pub(super) by_body: bool,
    /// Whether mostly the step counter alone measured it.
    pub(super) by_counter: bool,
    /// Whether height was measured.
    pub(super) has_height: bool,
    /// The height gained or lost, metres.
    pub(super) height_m: f32,
    /// The mean speed over ground, m/s.
    pub(super) speed_mps: f32,
}

/// Fixes at least once in this many seconds can follow a movement.
const DENSE_SEC: f32 = 3.0;
/// Fixes at least once in this many seconds can follow a drive.
const MIDDLING_SEC: f32 = 7.0;
/// Fixes less often than once in this many seconds add nothing to a measured body.
const SELDOM_SEC: f32 = 20.0;

impl Seen {
    /// Returns the sensors that showed the run.
    fn set(&self) -> SensorSet {
        let every = |seconds: f32| f32::from(self.fix_sec) * seconds >= self.seconds;
        match (self.state, self.by_body) {
            (State::Still, true) if self.by_counter => SensorSet::StoppedCounter,
            (State::Still, true) if !self.has_height && !every(SELDOM_SEC) => {
                SensorSet::StoppedAlone
            }
            (State::Still, true) => SensorSet::StoppedBody,
            (State::Still, false) if every(DENSE_SEC) => SensorSet::StoppedDense,
            (State::Still, false) => SensorSet::StoppedSparse,
            (State::Walk, true) if self.by_counter => SensorSet::WalkingCounter,
            (State::Walk, true) if self.has_height => SensorSet::WalkingHeight,
            (State::Walk, true) if every(SELDOM_SEC) => SensorSet::WalkingPlaced,
            (State::Walk, true) => SensorSet::WalkingAlone,
            (State::Walk, false) if every(DENSE_SEC) => SensorSet::WalkingDense,
            (State::Walk, false) => SensorSet::WalkingSparse,
            (State::Climb, _) if !self.has_height => SensorSet::StairsStride,
            (State::Climb, true) if !self.by_counter => SensorSet::StairsBody,
            (State::Climb, _) => SensorSet::StairsHeight,
            (State::Ride, _) if !self.has_height => SensorSet::ElevatorPushed,
            (State::Ride, true) if !self.by_counter => SensorSet::ElevatorBody,
            (State::Ride, _) => SensorSet::ElevatorHeight,
            (State::Drive, true) if every(MIDDLING_SEC) => SensorSet::DrivingBody,
            (State::Drive, true) => SensorSet::DrivingBodySparse,
            (State::Drive, false) if every(DENSE_SEC) => SensorSet::DrivingDense,
            (State::Drive, false) if every(MIDDLING_SEC) => SensorSet::DrivingMiddling,
            (State::Drive, false) => SensorSet::DrivingSparse,
        }
    }
}

/// Returns the confidence in a run.
pub(super) fn of(table: Confidences, seen: &Seen) -> Confidence {
    let strength = match (seen.state, seen.has_height) {
        (State::Still | State::Walk, _) => seen.evidence,
        (State::Climb | State::Ride, true) => seen.height_m.abs(),
        (State::Climb | State::Ride, false) => seen.seconds,
        (State::Drive, _) => seen.speed_mps,
    };
    table.of(seen.set(), strength)
}

/// Returns the confidence in a controlled passage, from the sum of its evidence; `is_felt` says
/// whether the phone sends acceleration.
pub(super) fn of_passage(table: Confidences, is_felt: bool, log_odds: f32) -> Confidence {
    let set = if is_felt {
        SensorSet::Gate
    } else {
        SensorSet::GateUnfelt
    };
    table.of(set, log_odds)
}

/// Returns the confidence in a retraced path that is `beyond_m` metres longer than the minimum.
pub(super) fn of_retraced(table: Confidences, beyond_m: f32) -> Confidence {
    table.of(SensorSet::Backtracking, beyond_m)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALK: Seen = Seen {
        state: State::Walk,
        seconds: 60.0,
        evidence: 1.0,
        fix_sec: 60,
        by_body: true,
        by_counter: false,
        has_height: true,
        height_m: 0.0,
        speed_mps: 1.3,
    };

    #[test]
    fn the_sensors_choose_the_set() {
        let without_height = Seen {
            has_height: false,
            ..WALK
        };
        assert_eq!(WALK.set(), SensorSet::WalkingHeight);
        assert_eq!(without_height.set(), SensorSet::WalkingPlaced);
        let rare = Seen {
            fix_sec: 2,
            ..without_height
        };
        assert_eq!(rare.set(), SensorSet::WalkingAlone);
        let counted = Seen {
            by_counter: true,
            ..WALK
        };
        assert_eq!(counted.set(), SensorSet::WalkingCounter);
        let placed = Seen {
            by_body: false,
            ..WALK
        };
        assert_eq!(placed.set(), SensorSet::WalkingDense);
    }

    #[test]
    fn a_step_counter_counts_as_no_acceleration_on_stairs() {
        let stairs = Seen {
            state: State::Climb,
            by_counter: true,
            ..WALK
        };
        assert_eq!(stairs.set(), SensorSet::StairsHeight);
    }
}
