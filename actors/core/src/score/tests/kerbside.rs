//! Tests couriers who park right at the main door, so that each walk up to the stairs is very
//! short.

use porchlight_schema::event::EventType;

use super::acts::leave;
use super::errands::floor;
use super::phone::{Error, Phone};
use super::script::Script;
use super::spans;
use crate::score::MarkName;

/// Parks three metres from the intercom, and goes up the given metres and back.
fn at_the_kerb(phone: Phone, metres: f64, elevator: bool) -> Phone {
    let wait = |phone: Phone| if elevator { phone.stay(12) } else { phone };
    let phone = phone.drive(0.0, -11.0).stay(10).walk(0.0, -8.5).stay(15);
    let phone = wait(phone.go_in().walk(0.0, -5.9).stay(6))
        .walk(2.6, -5.9)
        .stay(6);
    let phone = phone.walk(2.6, -4.6).climb(metres, elevator);
    let phone = phone.walk(10.0, -4.6).stay(35);
    let phone = wait(phone.walk(2.6, -4.6)).climb(-metres, elevator);
    let phone = phone.walk(0.0, -8.5).come_out().walk(0.0, -11.0);
    phone.stay(10).drive(-500.0, -30.0)
}

/// Each walk from the vehicle to the intercom, through the hall and to the stairs takes two
/// seconds, which is not an event. Steps on the climb, or before the ride, show that it is not a
/// hill.
#[test]
fn a_vehicle_at_the_main_door_does_not_hide_the_way_up() {
    for (elevator, event_type) in [(false, EventType::Stairs), (true, EventType::Elevator)] {
        for seed in 1..4 {
            let phone = floor(Phone::new(Error::Wander, seed), 3);
            let score = at_the_kerb(phone, 9.0, elevator).score();
            let climbs = score
                .events
                .iter()
                .filter(|event| event.event_type == event_type);
            assert_eq!(
                (climbs.count(), score.summary.floors_climbed),
                (2, Some(3)),
                "elevator {elevator}, seed {seed}: {:?}",
                spans(&score)
            );
        }
    }
}

/// No detector found the climb from the vehicle at the main door, and the first detected walk is
/// upstairs. The pressure still shows the floor.
#[test]
fn an_undetected_climb_from_the_vehicle_counts_from_there() {
    let mut script = Script::new(31).floor(3).drive_to(0.0, -8.0).stay(10);
    script = script.go_in().climb(9.6, false);
    script.events.pop();
    let script = script
        .walk_to(10.0, 4.0)
        .stay(45)
        .mark(MarkName::LeftAtDoor);
    let script = script.walk_to(2.0, 4.0).climb(-9.6, false);
    let score = leave(script.walk_to(0.0, -4.0).come_out()).score();
    assert_eq!(score.summary.floors_climbed, Some(3), "{:#?}", score.events);
}
