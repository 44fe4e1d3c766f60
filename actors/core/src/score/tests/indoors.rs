//! Tests the effects of a building on pressure and positions, and the results that must appear
//! nevertheless.

use porchlight_schema::insight::ReasonCode;
use serde_json::json;

use super::contract::ERRORS;
use super::errands::{come, flat, floor, go};
use super::phone::{Error, Phone};

/// Ventilation holds a house above or below the street by more than half a storey.
#[test]
fn indoor_air_pressure_is_not_a_floor() {
    for error in ERRORS {
        for house_hpa in [-0.2, 0.2] {
            let mut phone = Phone::new(error, 5).address("storeyHeightM", json!(3.0));
            phone.house_hpa = house_hpa;
            let score = flat(phone, 9.0, false).score();
            assert_eq!(
                score.summary.floors_climbed,
                Some(3),
                "{error:?}, {house_hpa} hPa: {:#?}",
                score.evidence
            );
        }
    }
}

/// The drop-off is some way from the address, as with a position behind walls: on the address's
/// floor it counts as an attempt, and the door is not reported; on another floor, or at street
/// level, it does not.
#[test]
fn a_drop_off_near_the_address_counts_on_its_floor() {
    for (wanted, outcome) in [
        (3, ReasonCode::FullAttempt),
        (1, ReasonCode::PartialAttempt),
    ] {
        let phone = floor(Phone::new(Error::None, 5), wanted);
        let phone = phone.address("accuracyM", json!(8));
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let phone = phone.walk(0.0, 2.0).climb(9.0, false).walk(26.0, 2.0);
        let phone = phone.stay(30).mark("handed_over").stay(5);
        let score = go(phone
            .walk(0.0, 2.0)
            .climb(-9.0, false)
            .walk(0.0, -8.0)
            .come_out()
            .walk(0.0, -30.0))
        .score();
        assert!(
            score.reason_codes.contains(&outcome),
            "{wanted}: {:?} {:#?}",
            score.reason_codes,
            score.evidence
        );
    }
}
