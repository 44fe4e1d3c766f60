//! Tests phones that report one of their sensors rarely, or not at all where it matters.

use porchlight_schema::insight::ReasonCode;

use super::errands::{come, floor, go, house};
use super::phone::{Error, Phone};
use super::{assert_sound, spans};

const ERRORS: [Error; 3] = [Error::None, Error::Dice, Error::Wander];

/// A phone sends a fix every 15 s or less often, so that each pause between two fixes is a
/// `GPS_LOST`. The courier stays at the door of a house and enters nothing.
#[test]
fn a_pause_between_rare_fixes_is_no_entrance() {
    for error in ERRORS {
        for every_sec in [12.0, 15.0, 30.0] {
            let mut phone = Phone::new(error, 41);
            phone.fix_every = every_sec;
            let score = house(phone).score();
            let name = format!("{error:?}, every {every_sec} s");
            assert_sound(&name, &score);
            let entrance_sec = score.metrics.time_from_entrance_to_door_sec;
            assert_eq!(entrance_sec, None, "{name}: {:?}", spans(&score));
        }
    }
}

/// The courier parks 160 m from the address. From then on the phone knows only the cell of the
/// network, and the fixes are off by 900 m. The courier stays at a door, but nothing shows that it is
/// the address's.
#[test]
fn a_stay_of_unknown_place_is_no_visit() {
    for error in ERRORS {
        let mut phone = Phone::new(error, 42).drive(-160.0, -30.0).stay(10);
        phone.vaguer_m = 900.0;
        let phone = phone.walk(0.0, -30.0).walk(0.0, -2.0).stay(35);
        let phone = phone.mark("handed_over").walk(0.0, -30.0);
        let score = phone
            .walk(-160.0, -30.0)
            .stay(10)
            .drive(-500.0, -30.0)
            .score();
        let name = format!("{error:?}");
        assert_sound(&name, &score);
        let outcome = score.reason_codes[0];
        assert_eq!(outcome, ReasonCode::PossibleNoAttempt, "{name}");
        assert_eq!(score.summary.attempt_cycles, 0, "{name}");
        assert_eq!(score.metrics.time_at_door_sec, None, "{name}");
        assert_eq!(score.metrics.time_from_entrance_to_door_sec, None, "{name}");
    }
}

/// Returns a delivery to the fifth floor by an elevator whose push no sensor measured, by a phone
/// without bad reception. The barometer is silent from the hall to the door.
fn unmeasured_ride(error: Error, motion: bool) -> Phone {
    let mut phone = floor(Phone::new(error, 43), 5);
    if !motion {
        phone = phone.without(&["motion"]);
    }
    let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0);
    let silent: &[&str] = if motion {
        &["pressure", "motion"]
    } else {
        &["pressure"]
    };
    let phone = phone.without_during(silent, |phone| {
        phone
            .walk(0.0, 2.0)
            .stay(12)
            .climb(15.0, true)
            .walk(8.0, 2.0)
    });
    let phone = phone.stay(35).mark("handed_over");
    let phone = phone.without_during(silent, |phone| {
        phone
            .walk(0.0, 2.0)
            .stay(12)
            .climb(-15.0, true)
            .walk(0.0, -8.0)
    });
    go(phone.walk(0.0, -30.0))
}

/// The courier rides 15 m up while the barometer is silent. The ride is not detected, but the levels
/// before and after it show that there was one.
#[test]
fn a_rise_in_a_hole_of_the_barometer_is_no_lobby_hand_off() {
    for error in ERRORS {
        for motion in [false, true] {
            let score = unmeasured_ride(error, motion).score();
            let name = format!("{error:?}, motion: {motion}");
            assert_sound(&name, &score);
            let floors = score.summary.floors_climbed;
            assert!(
                matches!(floors, None | Some(5)),
                "{name}: {floors:?} {:?} {:#?}",
                spans(&score),
                score.evidence
            );
            assert_ne!(score.summary.elevator_used, Some(false), "{name}");
            assert!(
                !score
                    .reason_codes
                    .contains(&ReasonCode::PossibleLobbyHandoff),
                "{name}: {:?}",
                score.reason_codes
            );
        }
    }
}
