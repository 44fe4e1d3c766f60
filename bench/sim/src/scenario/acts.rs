//! The courier's actions for each kind.

use porchlight_schema::insight::ReasonCode;

use crate::courier::Courier;
use crate::script::Script;
use crate::world::Place;

/// The acted script and its expected result.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) script: Script,
    /// The script of the claimed positions, if they differ from the true ones.
    pub(crate) claims: Option<Script>,
    /// The address's point in local metres.
    pub(crate) address: Place,
    /// The floor of the address; `None` if it is not given.
    pub(crate) floor: Option<i16>,
    pub(crate) gates: Vec<Place>,
    /// Whether the drop-off was at the address's door.
    pub(crate) right_doorstep: bool,
    pub(crate) outcome: Option<ReasonCode>,
    pub(crate) added: Vec<ReasonCode>,
    pub(crate) attempt_cycles: Option<u32>,
    pub(crate) fraudulent: bool,
    pub(crate) carried: bool,
    /// Whether a proof of delivery is attached.
    pub(crate) pod: bool,
}

impl Plan {
    /// Creates the plan of a delivery with a stay at the right door.
    fn done(courier: Courier<'_>, address: Place, floor: Option<i16>) -> Self {
        let visits = courier.script.visits.len() as u32;
        Self {
            script: courier.script,
            claims: None,
            address,
            floor,
            gates: Vec::new(),
            right_doorstep: true,
            outcome: Some(ReasonCode::FullAttempt),
            added: vec![ReasonCode::DeliveredToRightDoorstep],
            attempt_cycles: Some(visits),
            fraudulent: false,
            carried: true,
            pod: true,
        }
    }

    /// Returns the plan as a delivery that missed the right door.
    fn missed(self, outcome: Option<ReasonCode>, added: &[ReasonCode]) -> Self {
        Self {
            right_doorstep: false,
            outcome,
            added: added.to_vec(),
            attempt_cycles: None,
            ..self
        }
    }
}

/// The door of a house, outdoors, one step before the entrance.
const PORCH: Place = (0.0, -0.8);

/// The app marks at the door, each with its time as a fraction of the stay.
const MARKS: [(f64, &str); 2] = [(0.15, "arrived"), (0.7, "pod_captured")];

fn kerb(courier: &Courier<'_>, east: f64) -> Place {
    (east, courier.world.street_north_m + 2.5)
}

/// Drives to the address's street, parks, and returns the place next to the vehicle.
fn arrive(courier: &mut Courier<'_>) -> Place {
    let east = courier.draw.range(-70.0, 45.0);
    park_at(courier, east)
}

fn park_at(courier: &mut Courier<'_>, east: f64) -> Place {
    let street = courier.world.street_north_m;
    let from = courier.place();
    let turn = from.0 + (east - from.0) * courier.draw.range(0.35, 0.75);
    courier.drive(&[(turn, from.1), (turn, street), (east, street)]);
    let rummage_s = courier.draw.range(2.0, 25.0);
    courier.sit(rummage_s);
    kerb(courier, east)
}

/// Walks back to the vehicle and drives away.
fn leave(courier: &mut Courier<'_>, vehicle: Place, through: &[Place]) {
    courier.walk(through);
    courier.walk(&[vehicle]);
    let note_s = courier.draw.range(2.0, 30.0);
    courier.sit(note_s);
    if courier.draw.chance(0.6) {
        let away_m = courier.draw.range(60.0, 300.0);
        let street = courier.world.street_north_m;
        courier.drive(&[(vehicle.0 + away_m, street)]);
    }
}

fn dwell_s(courier: &mut Courier<'_>) -> f64 {
    courier.draw.range(10.0, 90.0)
}

/// Walks along the pavement to the entrance.
fn to_entrance(courier: &mut Courier<'_>, vehicle: Place) {
    let (kerb_east, kerb_north) = kerb(courier, 0.0);
    courier.walk(&[vehicle, (kerb_east, kerb_north), PORCH]);
}

pub(super) fn house(mut courier: Courier<'_>) -> Plan {
    let vehicle = arrive(&mut courier);
    to_entrance(&mut courier, vehicle);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &MARKS);
    let corner = kerb(&courier, 0.0);
    leave(&mut courier, vehicle, &[corner]);
    let floor = courier.draw.chance(0.3).then_some(0);
    Plan::done(courier, PORCH, floor)
}

/// Draws the place in the hall behind the entrance where stairs and elevator are.
fn hall(courier: &mut Courier<'_>) -> Place {
    (courier.draw.range(-3.0, 3.0), courier.draw.range(5.0, 14.0))
}

/// Draws the place of a door on a floor, along the corridor.
fn flat(courier: &mut Courier<'_>, hall: Place) -> Place {
    let along_m = courier.draw.range(3.0, 22.0);
    (
        hall.0
            + if courier.draw.chance(0.5) {
                along_m
            } else {
                -along_m
            },
        hall.1 + 1.0,
    )
}

fn change_floor(courier: &mut Courier<'_>, floor: i16, ride: bool) {
    if ride {
        courier.ride_to(floor)
    } else {
        courier.stairs_to(floor)
    }
}

/// Goes from the entrance to a door on a floor and returns the hall and the door.
fn go_up(courier: &mut Courier<'_>, floor: i16, ride: bool) -> (Place, Place) {
    // The main door may be locked, which costs a wait; otherwise a code opens it immediately.
    if courier.draw.chance(0.35) {
        courier.wait_at_gate();
    }
    courier.pass_entrance();
    let hall = hall(courier);
    courier.walk(&[(0.0, 2.0), hall]);
    change_floor(courier, floor, ride);
    let door = flat(courier, hall);
    courier.walk(&[door]);
    (hall, door)
}

fn go_out(courier: &mut Courier<'_>, hall: Place, ride: bool) {
    courier.walk(&[hall]);
    change_floor(courier, 0, ride);
    courier.walk(&[(0.0, 2.0), (0.0, 0.3)]);
    courier.pass_entrance();
    courier.walk(&[PORCH]);
}

fn to_floor(mut courier: Courier<'_>, floor: i16, ride: bool) -> Plan {
    let vehicle = arrive(&mut courier);
    to_entrance(&mut courier, vehicle);
    let (hall, door) = go_up(&mut courier, floor, ride);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &MARKS);
    go_out(&mut courier, hall, ride);
    let corner = kerb(&courier, 0.0);
    leave(&mut courier, vehicle, &[corner]);
    Plan::done(courier, door, Some(floor))
}

pub(super) fn upstairs(mut courier: Courier<'_>, ride: bool) -> Plan {
    let floor = courier
        .draw
        .whole(if ride { 2 } else { 1 }, if ride { 14 } else { 4 }) as i16;
    to_floor(courier, floor, ride)
}

/// Goes by stairs or elevator to the floor above or below the address's.
pub(super) fn neighbouring_floor(mut courier: Courier<'_>) -> Plan {
    let ride = courier.draw.chance(0.5);
    let floor = courier.draw.whole(1, if ride { 14 } else { 4 }) as i16;
    let too_high = floor == 1 || courier.draw.chance(0.5);
    let plan = to_floor(courier, if too_high { floor + 1 } else { floor - 1 }, ride);
    Plan {
        floor: Some(floor),
        ..plan.missed(Some(ReasonCode::PartialAttempt), &[])
    }
}

pub(super) fn basement(mut courier: Courier<'_>) -> Plan {
    let ride = courier.draw.chance(0.4);
    let floor = -courier.draw.whole(1, 2) as i16;
    to_floor(courier, floor, ride)
}

pub(super) fn lobby(mut courier: Courier<'_>) -> Plan {
    let vehicle = arrive(&mut courier);
    to_entrance(&mut courier, vehicle);
    courier.pass_entrance();
    let desk = (courier.draw.range(-3.0, 3.0), courier.draw.range(3.0, 9.0));
    courier.walk(&[(0.0, 2.0), desk]);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &[(0.15, "arrived"), (0.7, "handed_over")]);
    courier.walk(&[(0.0, 0.3)]);
    courier.pass_entrance();
    let corner = kerb(&courier, 0.0);
    leave(&mut courier, vehicle, &[PORCH, corner]);
    let floor = courier.draw.whole(2, 12) as i16;
    Plan::done(courier, (4.0, 9.0), Some(floor)).missed(
        Some(ReasonCode::PartialAttempt),
        &[ReasonCode::PossibleLobbyHandoff],
    )
}

/// Parks far from the address and walks there; if `claimed`, the courier claims a delivery.
pub(super) fn elsewhere(mut courier: Courier<'_>, teleports: bool) -> Plan {
    let vehicle = arrive(&mut courier);
    let shop = (
        vehicle.0 + courier.draw.range(-40.0, 40.0),
        vehicle.1 + courier.draw.range(8.0, 30.0),
    );
    courier.walk(&[vehicle, shop]);
    let claimed = teleports || courier.draw.chance(0.5);
    let errand_s = courier.draw.range(20.0, 120.0);
    let from = courier.now();
    courier.stand(errand_s);
    if claimed {
        courier
            .script
            .marks
            .push((from + 0.8 * errand_s, "pod_captured"));
    }
    leave(&mut courier, vehicle, &[]);
    // The address is far away, in another street.
    let away_m = courier.draw.range(450.0, 2500.0);
    let plan = Plan::done(courier, (away_m, 300.0), None);
    let outcome = if teleports {
        None
    } else {
        Some(ReasonCode::NoAttempt)
    };
    Plan {
        fraudulent: claimed,
        pod: claimed,
        ..plan.missed(outcome, &[])
    }
}

pub(super) fn wrong_address(mut courier: Courier<'_>) -> Plan {
    let vehicle = arrive(&mut courier);
    to_entrance(&mut courier, vehicle);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &MARKS);
    let corner = kerb(&courier, 0.0);
    leave(&mut courier, vehicle, &[corner]);
    let away_m = courier.draw.range(220.0, 420.0);
    Plan::done(courier, (away_m, 12.0), None).missed(
        Some(ReasonCode::NoAttempt),
        &[ReasonCode::PossibleWrongAddress],
    )
}

pub(super) fn second_attempt(mut courier: Courier<'_>) -> Plan {
    let vehicle = arrive(&mut courier);
    let corner = kerb(&courier, 0.0);
    to_entrance(&mut courier, vehicle);
    let stay_s = courier.draw.range(15.0, 60.0);
    courier.visit(stay_s, &[(0.2, "arrived")]);
    // No one opens: the courier returns to the street, makes a call, and returns. The distance
    // is enough for a second visit (contract: 15 m).
    let away = (corner.0 + courier.draw.range(22.0, 60.0), corner.1);
    courier.walk(&[corner, away]);
    let call_s = courier.draw.range(12.0, 90.0);
    courier.stand(call_s);
    courier.walk(&[corner, PORCH]);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &[(0.7, "handed_over")]);
    leave(&mut courier, vehicle, &[corner]);
    Plan::done(courier, PORCH, None)
}

pub(super) fn gate(mut courier: Courier<'_>) -> Plan {
    let vehicle = arrive(&mut courier);
    let setback_m = courier.draw.range(12.0, 35.0);
    // The house is set back from the street: first the gate, then the drive.
    let gate = (
        courier.draw.range(-4.0, 4.0),
        -setback_m.min(-courier.world.street_north_m - 4.0),
    );
    let corner = kerb(&courier, gate.0);
    courier.walk(&[vehicle, corner, gate]);
    courier.wait_at_gate();
    let indoors = courier.draw.chance(0.5);
    courier.walk(&[PORCH]);
    let (floor, address) = if indoors {
        let floor = courier.draw.whole(1, 4) as i16;
        let (hall, door) = go_up(&mut courier, floor, false);
        let stay_s = dwell_s(&mut courier);
        courier.visit(stay_s, &MARKS);
        go_out(&mut courier, hall, false);
        (Some(floor), door)
    } else {
        let stay_s = dwell_s(&mut courier);
        courier.visit(stay_s, &MARKS);
        (None, PORCH)
    };
    leave(&mut courier, vehicle, &[gate, corner]);
    let is_known = courier.draw.chance(0.4);
    let plan = Plan::done(courier, address, floor);
    Plan {
        gates: if is_known { vec![gate] } else { Vec::new() },
        ..plan
    }
}

/// Parks near a gate at the kerb or a house without one, and usually searches for the parcel next
/// to the vehicle first.
pub(super) fn gate_at_kerb(mut courier: Courier<'_>) -> Plan {
    let gate_east = courier.draw.range(-4.0, 4.0);
    let apart_m = courier.draw.range(6.0, 30.0);
    let side = if courier.draw.chance(0.5) { 1.0 } else { -1.0 };
    let vehicle = park_at(&mut courier, gate_east + side * apart_m);
    if courier.draw.chance(0.7) {
        // The courier walks from the driver's door to the rear of the van and searches.
        let rear = (vehicle.0 + courier.draw.range(3.0, 6.0), vehicle.1);
        courier.walk(&[vehicle, rear]);
        let search_s = courier.draw.range(4.0, 60.0);
        courier.stand(search_s);
    }
    let gate = kerb(&courier, gate_east);
    courier.walk(&[gate]);
    if courier.draw.chance(0.6) {
        courier.wait_at_gate();
    }
    courier.walk(&[PORCH]);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &MARKS);
    leave(&mut courier, vehicle, &[gate]);
    Plan::done(courier, PORCH, None)
}

pub(super) fn backtracking(mut courier: Courier<'_>) -> Plan {
    let vehicle = arrive(&mut courier);
    let corner = kerb(&courier, 0.0);
    courier.walk(&[vehicle, corner]);
    let past_m = courier.draw.range(22.0, 80.0);
    // The courier continues past the house in the same direction.
    let onward = if vehicle.0 < 0.0 { past_m } else { -past_m };
    courier.go_astray((corner.0 + onward, corner.1));
    courier.walk(&[PORCH]);
    let stay_s = dwell_s(&mut courier);
    courier.visit(stay_s, &MARKS);
    leave(&mut courier, vehicle, &[corner]);
    Plan::done(courier, PORCH, None)
}

pub(super) fn phone_in_vehicle(mut courier: Courier<'_>) -> Plan {
    arrive(&mut courier);
    let away_s = courier.draw.range(75.0, 300.0);
    let from = courier.now();
    courier.sit(away_s);
    courier
        .script
        .marks
        .push((from + away_s - 2.0, "handed_over"));
    let away_m = courier.draw.range(80.0, 300.0);
    let (east, street) = courier.place();
    courier.drive(&[(east + away_m, street)]);
    let plan = Plan::done(courier, PORCH, None).missed(Some(ReasonCode::PossibleNoAttempt), &[]);
    Plan {
        carried: false,
        ..plan
    }
}

/// Leaves the phone or its owner at home while the positions show `claimed`.
pub(super) fn at_home(mut courier: Courier<'_>, claimed: Plan) -> Plan {
    courier.stand(claimed.script.now());
    courier.script.marks = claimed.script.marks.clone();
    let plan = Plan {
        script: courier.script,
        claims: Some(claimed.script.clone()),
        fraudulent: true,
        ..claimed
    };
    Plan {
        carried: false,
        ..plan.missed(None, &[])
    }
}
