//! Looks up the confidence of an event by the sensors that showed it and by its strength.

use porchlight_schema::event::Confidence;

use super::decode::State;
use super::parameters::confidence::{DENSE_SEC, MIDDLING_SEC, SELDOM_SEC};
use crate::confidence::{Confidences, SensorSet};

/// The measurements of a run by which its confidence is looked up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RunMeasurements {
    pub(super) state: State,
    /// The length of the run, seconds.
    pub(super) seconds: f32,
    /// The mean evidence of its seconds for the state.
    pub(super) evidence: f32,
    /// The number of its seconds with a fix.
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

impl RunMeasurements {
    /// Returns the sensors that showed the run.
    fn sensor_set(&self) -> SensorSet {
        let has_fix_every = |seconds: f32| f32::from(self.fix_sec) * seconds >= self.seconds;
        match (self.state, self.by_body) {
            (State::Still, true) if self.by_counter => SensorSet::StoppedCounter,
            (State::Still, true) if !self.has_height && !has_fix_every(SELDOM_SEC) => {
                SensorSet::StoppedAlone
            }
            (State::Still, true) => SensorSet::StoppedBody,
            (State::Still, false) if has_fix_every(DENSE_SEC) => SensorSet::StoppedDense,
            (State::Still, false) => SensorSet::StoppedSparse,
            (State::Walk, true) if self.by_counter => SensorSet::WalkingCounter,
            (State::Walk, true) if self.has_height => SensorSet::WalkingHeight,
            (State::Walk, true) if has_fix_every(SELDOM_SEC) => SensorSet::WalkingPlaced,
            (State::Walk, true) => SensorSet::WalkingAlone,
            (State::Walk, false) if has_fix_every(DENSE_SEC) => SensorSet::WalkingDense,
            (State::Walk, false) => SensorSet::WalkingSparse,
            (State::Climb, _) if !self.has_height => SensorSet::StairsStride,
            (State::Climb, true) if !self.by_counter => SensorSet::StairsBody,
            (State::Climb, _) => SensorSet::StairsHeight,
            (State::Ride, _) if !self.has_height => SensorSet::ElevatorPushed,
            (State::Ride, true) if !self.by_counter => SensorSet::ElevatorBody,
            (State::Ride, _) => SensorSet::ElevatorHeight,
            (State::Drive, true) if has_fix_every(MIDDLING_SEC) => SensorSet::DrivingBody,
            (State::Drive, true) => SensorSet::DrivingBodySparse,
            (State::Drive, false) if has_fix_every(DENSE_SEC) => SensorSet::DrivingDense,
            (State::Drive, false) if has_fix_every(MIDDLING_SEC) => SensorSet::DrivingMiddling,
            (State::Drive, false) => SensorSet::DrivingSparse,
        }
    }
}

/// Returns the confidence in a run.
pub(super) fn of_run(table: Confidences, run: &RunMeasurements) -> Confidence {
    let strength = match (run.state, run.has_height) {
        (State::Still | State::Walk, _) => run.evidence,
        (State::Climb | State::Ride, true) => run.height_m.abs(),
        (State::Climb | State::Ride, false) => run.seconds,
        (State::Drive, _) => run.speed_mps,
    };
    table.of(run.sensor_set(), strength)
}

/// Returns the confidence in a gate, from the sum of its evidence. `has_acceleration` says whether
/// the phone sends acceleration.
pub(super) fn of_gate(table: Confidences, has_acceleration: bool, log_odds: f32) -> Confidence {
    let set = if has_acceleration {
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

    const WALK: RunMeasurements = RunMeasurements {
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
        let without_height = RunMeasurements {
            has_height: false,
            ..WALK
        };
        assert_eq!(WALK.sensor_set(), SensorSet::WalkingHeight);
        assert_eq!(without_height.sensor_set(), SensorSet::WalkingPlaced);
        let rare = RunMeasurements {
            fix_sec: 2,
            ..without_height
        };
        assert_eq!(rare.sensor_set(), SensorSet::WalkingAlone);
        let counted = RunMeasurements {
            by_counter: true,
            ..WALK
        };
        assert_eq!(counted.sensor_set(), SensorSet::WalkingCounter);
        let placed = RunMeasurements {
            by_body: false,
            ..WALK
        };
        assert_eq!(placed.sensor_set(), SensorSet::WalkingDense);
    }

    #[test]
    fn a_step_counter_counts_as_no_acceleration_on_stairs() {
        let stairs = RunMeasurements {
            state: State::Climb,
            by_counter: true,
            ..WALK
        };
        assert_eq!(stairs.sensor_set(), SensorSet::StairsHeight);
    }
}
