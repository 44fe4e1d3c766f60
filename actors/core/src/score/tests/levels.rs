//! Tests drop-offs about which the levels, the climbs and the marks disagree.

use porchlight_schema::event::EventType;
use porchlight_schema::insight::ReasonCode;

use super::acts::{arrive, leave};
use super::script::Script;
use crate::score::MarkName;

/// Walks from the vehicle into the hall of the house.
fn in_hall(script: Script) -> Script {
    let script = script.walk_to(0.0, -25.0).walk_to(0.0, -1.0);
    script.go_in().walk_to(2.0, 9.0)
}

fn is_lobby(script: &Script) -> bool {
    let codes = script.score().reason_codes;
    codes.contains(&ReasonCode::PossibleLobbyHandoff)
}

/// The courier climbs 6 m to a door. The house is under pressure there, so that the levels show no
/// rise. With the climb on record, nobody can say that no height was gained.
#[test]
fn a_climb_before_the_drop_off_is_no_lobby_hand_off() {
    let visit = |climbs: bool| {
        let script = in_hall(arrive(21).floor(3));
        let mut script = if climbs {
            script.climb(6.0, false)
        } else {
            script
        };
        for window in &mut script.windows {
            window.pressure_hpa = Some(955.3);
        }
        let from_ms = script.duration_ms();
        let script = script.walk_to(4.0, 9.0).stay(30).mark(MarkName::HandedOver);
        let mut script = leave(script.walk_to(0.0, -1.0).come_out());
        for window in &mut script.windows {
            if window.t_ms >= from_ms {
                window.pressure_hpa = Some(955.3);
            }
        }
        script
    };
    assert!(is_lobby(&visit(false)), "{:#?}", visit(false).score());
    assert!(!is_lobby(&visit(true)), "{:#?}", visit(true).score());
}

/// The courier climbs 6 m, lays the parcel down, marks it within two seconds, and goes down. The
/// detector took the way up and down for one climb. The rise is that of the levels, or unknown.
#[test]
fn a_climb_that_goes_on_at_the_drop_off_is_not_a_ground_floor() {
    for is_inside in [false, true] {
        let script = arrive(22).floor(2).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
        let script = if is_inside { script.go_in() } else { script };
        let script = script.climb(6.0, false).stay(4).mark(MarkName::LeftAtDoor);
        let mut script = script.climb(-6.0, false);
        let down = script.events.pop().unwrap();
        script.events.last_mut().unwrap().t_end_ms = down.t_end_ms;
        let score = leave(script.walk_to(0.0, -2.0).come_out()).score();
        let floors = score.summary.floors_climbed;
        assert!(
            matches!(floors, None | Some(2)),
            "{is_inside}: {floors:?} {:#?}",
            score.evidence
        );
    }
}

/// The elevator rides one storey of 2.6 m within three seconds, and the courier shifts the parcel
/// from one arm to the other meanwhile. The leap of the pressure is a ride, and not a door.
#[test]
fn a_ride_of_one_storey_is_not_a_door() {
    let script = in_hall(arrive(23).floor(3)).stay(12).climb(2.6, true);
    let script = script.walk_to(6.0, 9.0).stay(30).mark(MarkName::HandedOver);
    let mut script = leave(script.stay(10).walk_to(0.0, -1.0).come_out());
    let ride = script
        .events
        .iter()
        .find(|event| event.event_type == EventType::Elevator)
        .unwrap();
    let rides = ride.t_start_ms..ride.t_end_ms.unwrap();
    let mut heights_m = [0.3, 2.4, 2.6].into_iter();
    let mut pushes = [1.1, 0.0, -1.1].into_iter();
    for window in &mut script.windows {
        if rides.contains(&window.t_ms) {
            let height_m: f32 = heights_m.next().unwrap();
            window.pressure_hpa = Some(955.0 * libm::expf(-height_m / 8_434.0));
            let motion = window.motion.as_mut().unwrap();
            motion.vertical_mean = pushes.next();
            (motion.accel_std, motion.cadence_hz) = (1.5, Some(1.5));
            window.steps = Some(1);
        }
    }
    let score = script.score();
    assert_eq!(
        score.summary.floors_climbed,
        Some(1),
        "{:#?}",
        score.evidence
    );
    assert!(!is_lobby(&script), "{:#?}", score.evidence);
}

/// The courier pauses at the main door. Then the phone is silent for two minutes, in which the
/// courier rides up, marks the drop-off and comes back to the elevator. The pause is not the
/// drop-off, and its floor is not that of the door.
#[test]
fn a_mark_in_a_silence_belongs_to_no_stay_before_it() {
    for wait_sec in [10, 40] {
        let script = arrive(24).floor(8).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
        let script = script.wait_at_gate(wait_sec).silence(60);
        let mut script = script.mark(MarkName::HandedOver).silence(60).go_in();
        script.lift_to(25.6);
        let script = script.stay(12).climb(-25.6, true).walk_to(0.0, -1.0);
        let script = leave(script.come_out());
        let score = script.score();
        assert_eq!(score.summary.floors_climbed, None, "{:#?}", score.evidence);
        assert!(!is_lobby(&script), "{:#?}", score.evidence);
    }
}

/// The courier stays at a door on the second floor, and marks the drop-off some seconds later on
/// the stairs down. The position is 27 m beside the address, more than two of its uncertainties. The
/// stay is the drop-off, and the height is that of the stay.
#[test]
fn a_mark_on_the_first_steps_down_belongs_to_the_stay() {
    for late_sec in [1, 4, 8] {
        let mut script = arrive(25).floor(2);
        script.address.accuracy_m = 8.0;
        let script = script.walk_to(0.0, -25.0).walk_to(27.0, -1.0);
        let script = script.climb(6.4, false).stay(25);
        let left_ms = script.duration_ms();
        let mut script = script.climb(-6.4, false);
        let marked_ms = left_ms + late_sec * 1_000;
        script.marks.push((marked_ms, MarkName::HandedOver));
        let script = leave(script);
        let score = script.score();
        assert_eq!(
            score.summary.floors_climbed,
            Some(2),
            "{late_sec}: {:#?}",
            score.evidence
        );
        let door_sec = score.metrics.time_at_door_sec;
        assert_eq!(door_sec, Some(25.0), "{late_sec}: {:#?}", score.evidence);
        assert_eq!(score.summary.attempt_cycles, 1, "{late_sec}");
        assert_eq!(score.reason_codes[0], ReasonCode::FullAttempt, "{late_sec}");
    }
}

/// A part of the stairs was not detected, and reception was lost only behind it, so the entrance
/// seems to be upstairs and the rise too small. If the way back shows the whole height, the floor of
/// the address is not refused. If it agrees with the rise, the floor is wrong.
#[test]
fn a_higher_way_back_contradicts_a_wrong_floor() {
    for (hidden_m, outcome, floors) in [
        (7.6, ReasonCode::FullAttempt, None),
        (0.0, ReasonCode::PartialAttempt, Some(1)),
    ] {
        let mut script = arrive(26).floor(3).walk_to(0.0, -25.0).walk_to(0.0, -1.0);
        if hidden_m > 0.0 {
            script = script.climb(hidden_m, false);
            script.events.pop();
        }
        let script = script.walk_to(0.0, 9.0).go_in().walk_to(0.0, 24.0);
        let script = script.climb(2.0, false).walk_to(4.0, 24.0).stay(30);
        let script = script.mark(MarkName::HandedOver).walk_to(0.0, 24.0);
        let script = script.climb(-2.0 - hidden_m, false).walk_to(0.0, -1.0);
        let score = leave(script.come_out()).score();
        let found = (score.reason_codes[0], score.summary.floors_climbed);
        assert_eq!(
            found,
            (outcome, floors),
            "{hidden_m}: {:#?}",
            score.evidence
        );
        let mut entries = score.evidence.iter();
        let refused = entries.find(|entry| entry.signal == "not_up_to_floor");
        let innocent = refused.map(|entry| entry.explanation.as_str());
        let numbering = "Buildings number their floors differently.";
        let is_refused = outcome == ReasonCode::PartialAttempt;
        assert_eq!(innocent, is_refused.then_some(numbering));
    }
}
