//! Tests phones that count the time of samples by a clock that is set back.

use porchlight_schema::insight::ReasonCode;

use super::errands::{go, house};
use super::phone::{Error, Phone};
use super::{assert_sound, spans};

/// The clock is set back during the drive, and the samples of the repeated time are dropped. The
/// vehicle seems to jump, but it only drove on.
#[test]
fn a_clock_that_is_set_back_is_no_fraud() {
    for error in [Error::None, Error::Dice, Error::Wander] {
        for back_sec in [5.0, 10.0, 20.0, 60.0] {
            let phone = Phone::new(error, 51)
                .drive(-1_600.0, -30.0)
                .drive(-700.0, -30.0);
            let score = house(phone.set_back(back_sec)).score();
            let name = format!("{error:?}, {back_sec} s");
            assert_sound(&name, &score);
            let outcome = score.reason_codes[0];
            assert_eq!(
                outcome,
                ReasonCode::FullAttempt,
                "{name}: {:?}",
                spans(&score)
            );
            assert!(score.summary.right_doorstep, "{name}");
            assert!(
                score.summary.fraud_score < 0.1,
                "{name}: {:#?}",
                score.evidence
            );
        }
    }
}

/// The position jumps by 3 km at the moment at which the clock is set back. No vehicle is so fast,
/// also if the time of the step is added.
#[test]
fn a_jump_at_a_clock_step_is_still_a_jump() {
    for error in [Error::Dice, Error::Wander] {
        let phone = Phone::new(error, 52)
            .leap(-3_000.0, -30.0)
            .walk(-3_000.0, 30.0)
            .stay(30);
        let phone = phone
            .set_back(20.0)
            .leap(0.0, -2.0)
            .stay(60)
            .mark("handed_over");
        let score = go(phone).score();
        let mut fraud = score
            .evidence
            .iter()
            .filter(|entry| entry.about == "fraudScore");
        assert!(
            fraud.any(|entry| entry.signal == "teleport" && entry.points > 0.0),
            "{error:?}: {:#?}",
            score.evidence
        );
    }
}
