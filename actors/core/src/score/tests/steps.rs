//! Tests step counters that stop, are corrected, or report rarely.

use porchlight_schema::insight::ReasonCode::{DeliveredToRightDoorstep, FullAttempt};
use porchlight_schema::sample::json::decode_batch;

use super::acts::twice;
use super::errands::{come, floor, go, house};
use super::phone::{Error, Phone};
use super::script::Script;
use super::{assert_sound, spans};
use crate::score::MarkName;
use crate::session::replay::Replay;

/// A phone sends one count of steps, and none after the permission is withdrawn; it sends no
/// cadence either. The courier walks away from the door and comes back: that is another visit.
#[test]
fn a_counter_that_stops_does_not_hide_a_walk() {
    let without = |first: Option<u16>| {
        let mut script = twice();
        script.marks.retain(|mark| mark.1 == MarkName::HandedOver);
        for window in &mut script.windows {
            window.steps = None;
            window.fixes = [None, None];
            if let Some(motion) = &mut window.motion {
                motion.cadence_hz = None;
            }
        }
        script.windows[0].steps = first;
        script.score().summary.attempt_cycles
    };
    assert_eq!(without(Some(0)), without(None));
}

/// A phone corrects its count from 5,000 to 4,999, then goes on; later the phone restarts and
/// counts from 0; at last it adds a day's steps at once. Nobody takes thousands of steps in a
/// second.
#[test]
fn a_corrected_count_is_not_a_walk() {
    let context = Script::new(1).context();
    let counts = [5_000, 4_999, 5_001, 5_003, 2, 4, 9_000];
    let samples: Vec<String> = (0..)
        .zip(counts)
        .map(|(t, count)| format!(r#"{{"t":{t},"kind":"steps","count":{count}}}"#))
        .collect();
    let text = format!(r#"{{"seq":0,"samples":[{}]}}"#, samples.join(","));
    let mut replay = Replay::new(&context);
    replay.batch(0, &decode_batch(text.as_bytes()).unwrap().batch);
    let replayed = replay.finish();
    let steps: Vec<u16> = replayed
        .windows
        .iter()
        .filter_map(|one| one.steps)
        .collect();
    assert_eq!(steps[..6], [0, 0, 2, 2, 2, 2]);
    assert!(steps[6] <= 65, "{}", steps[6]);
}

/// A phone that measures no motion reports its count every few seconds, every ten seconds or every
/// minute. The count, or its fixes, show the walks and the stay at the door.
#[test]
fn a_counter_that_reports_rarely_hides_no_walk_and_no_stay() {
    for count_every in [2.0, 3.0, 4.0, 10.0, 30.0, 60.0] {
        for (error, seed) in [(Error::None, 1), (Error::Dice, 2), (Error::Wander, 3)] {
            let mut phone = Phone::new(error, seed).without(&["motion"]);
            phone.count_every = count_every;
            let score = house(phone).score();
            let name = format!("every {count_every} s, {error:?}");
            assert_sound(&name, &score);
            assert_eq!(
                score.reason_codes,
                [FullAttempt, DeliveredToRightDoorstep],
                "{name}: {:?}",
                spans(&score)
            );
        }
    }
}

/// The elevator is two steps from the door. A counter that is late by some seconds claims that the
/// courier walks during the ring or the wait for the cabin; the acceleration shows that the courier
/// stands.
#[test]
fn a_late_counter_does_not_change_the_time_at_the_door() {
    for late_sec in [0, 3, 5, 7, 9] {
        let mut phone = floor(Phone::new(Error::Wander, 3), 5);
        phone.count_late = late_sec;
        let phone = come(phone).walk(0.0, -30.0).walk(0.0, -8.0).go_in();
        let phone = phone.walk(0.0, 2.0).stay(15).climb(15.0, true);
        let phone = phone.walk(2.6, 2.0).stay(25).walk(0.0, 2.0).stay(18);
        let phone = phone.climb(-15.0, true).walk(0.0, -8.0).come_out();
        let score = go(phone.walk(0.0, -30.0)).score();
        let door = score.metrics.time_at_door_sec;
        assert!(
            door.is_some_and(|door| (door - 25.0_f64).abs() <= 4.0),
            "late by {late_sec} s: {door:?} {:?}",
            spans(&score)
        );
    }
}

/// The phone has no fix from the vehicle to the door, and inside only fixes by stations. Its counter
/// reports the whole walk when the courier already stands at the door. These steps were taken on the
/// way, so the place of the vehicle is no place of the stay.
#[test]
fn a_walk_that_is_reported_at_the_door_does_not_move_the_door() {
    let codes = |count_every: f64| {
        let mut phone = Phone::new(Error::Wander, 4);
        (phone.count_every, phone.by_stations) = (count_every, true);
        let phone = come(phone).without_during(&["location"], |phone| {
            let phone = phone.walk(0.0, -30.0).walk(0.0, -8.0).go_in();
            phone.walk(0.0, 1.0).stay(12)
        });
        let arrived_sec = phone.now_sec() - 12.0;
        assert!(
            count_every < 2.0 || (arrived_sec + 1.0..arrived_sec + 12.0).contains(&count_every)
        );
        let phone = phone.stay(30).walk(0.0, -8.0).come_out();
        let score = go(phone.walk(0.0, -30.0)).score();
        assert_sound("a late report", &score);
        score.reason_codes
    };
    assert_eq!(codes(158.0), codes(1.0));
}
