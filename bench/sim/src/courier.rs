//! The courier and the vehicle: actions that append to the [`Script`].

use libm::{atan2, hypot, sqrt};

use super::rng::{Draw, Wander};
use super::script::{Mode, Script, TICK_S, Tick};
use super::world::{Place, World};

/// The movement parameters of a courier.
#[derive(Debug, Clone)]
struct Habits {
    /// The walking speed on level ground with a parcel, 0.9 to 1.7 m/s.
    walk_mps: f64,
    /// The length of a step on level ground.
    step_m: f64,
    /// The steps per second on stairs, 1.4 to 2.0.
    stairs_hz: f64,
    /// The height of a stair, 0.15 to 0.18 m.
    riser_m: f64,
    /// The acceleration and braking of the vehicle.
    vehicle_mps2: f64,
    /// The speed limit of the street.
    cruise_mps: f64,
}

/// An elevator; comfort limits are 1 to 1.5 m/s² and 2.5 m/s³, and slow hydraulic elevators do 0.4
/// m/s.
#[derive(Debug, Clone)]
struct Lift {
    speed_mps: f64,
    accel_mps2: f64,
    door_s: f64,
}

/// A courier that writes a script by acting it out.
#[derive(Debug)]
pub(super) struct Courier<'w> {
    pub(super) world: &'w World,
    pub(super) draw: Draw,
    pub(super) script: Script,
    habits: Habits,
    lift: Lift,
    place: Place,
    height_m: f64,
    floor: i16,
    heading_rad: f64,
    indoor: bool,
    shielded: bool,
    pace: Wander,
}

impl<'w> Courier<'w> {
    pub(super) fn new(world: &'w World, mut draw: Draw, from: Place) -> Self {
        let habits = Habits {
            walk_mps: draw.range(0.9, 1.7),
            step_m: draw.range(0.6, 0.8),
            stairs_hz: draw.range(1.4, 2.0),
            riser_m: draw.range(0.15, 0.18),
            vehicle_mps2: draw.range(1.0, 2.2),
            cruise_mps: draw.range(4.0, 14.0),
        };
        let lift = Lift {
            speed_mps: draw.range(0.5, 2.5),
            accel_mps2: draw.range(0.5, 1.2),
            door_s: draw.range(2.0, 4.5),
        };
        let pace = Wander::new(&mut draw.rng, 0.06, 8.0);
        let script = Script {
            ticks: Vec::new(),
            marks: Vec::new(),
            doors_t: Vec::new(),
            entrance_t: None,
            visits: Vec::new(),
            gates: Vec::new(),
            retraced: Vec::new(),
        };
        let height_m = world.ground_m(from);
        Self {
            world,
            draw,
            script,
            habits,
            lift,
            place: from,
            height_m,
            floor: 0,
            heading_rad: 0.0,
            indoor: false,
            shielded: false,
            pace,
        }
    }

    pub(super) fn now(&self) -> f64 {
        self.script.now()
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    fn tick(&mut self, mode: Mode, speed_mps: f64, lift_mps2: f64, cadence_hz: f64) {
        self.script.ticks.push(Tick {
            mode,
            east_m: self.place.0,
            north_m: self.place.1,
            height_m: self.height_m,
            floor: self.floor,
            speed_mps,
            heading_rad: self.heading_rad,
            lift_mps2,
            cadence_hz,
            sky: self.world.sky(self.place, self.indoor, self.shielded),
            indoor: self.indoor,
        });
    }

    /// Moves by `step_m` towards a place and returns the remaining distance.
    fn advance(&mut self, to: Place, step_m: f64) -> f64 {
        let (east, north) = (to.0 - self.place.0, to.1 - self.place.1);
        let left = hypot(east, north);
        if left > 1e-6 {
            self.heading_rad = atan2(east, north);
        }
        if left <= step_m {
            self.place = to;
            return 0.0;
        }
        self.place = (
            self.place.0 + east / left * step_m,
            self.place.1 + north / left * step_m,
        );
        left - step_m
    }

    fn stay(&mut self, mode: Mode, duration_s: f64) {
        for _ in 0..ticks(duration_s) {
            self.tick(mode, 0.0, 0.0, 0.0);
        }
    }

    /// Drives through the places and parks at the last one, with occasional traffic halts.
    pub(super) fn drive(&mut self, through: &[Place]) {
        let mut speed_mps = 0.0_f64;
        for (leg, to) in through.iter().enumerate() {
            let last = leg + 1 == through.len();
            let halt_here = !last && self.draw.chance(0.35);
            let end_mps = if last || halt_here {
                0.0
            } else {
                3.5_f64.min(self.habits.cruise_mps)
            };
            loop {
                let left = hypot(to.0 - self.place.0, to.1 - self.place.1);
                let braking_mps = sqrt(end_mps * end_mps + 2.0 * self.habits.vehicle_mps2 * left);
                let sway = 1.0 + self.pace.step(&mut self.draw.rng, TICK_S, 0.06);
                let wanted = (self.habits.cruise_mps * sway).min(braking_mps);
                let change = self.habits.vehicle_mps2 * TICK_S;
                speed_mps =
                    (speed_mps + (wanted - speed_mps).clamp(-2.0 * change, change)).max(0.4);
                let rest = self.advance(*to, speed_mps * TICK_S);
                self.height_m = self.world.ground_m(self.place);
                self.tick(Mode::Drive, speed_mps, 0.0, 0.0);
                if rest <= 0.0 {
                    break;
                }
            }
            if halt_here {
                let halt_s = self.draw.range(6.0, 45.0);
                speed_mps = 0.0;
                self.stay(Mode::Halt, halt_s);
            }
        }
    }

    /// Sits in the parked vehicle.
    pub(super) fn sit(&mut self, duration_s: f64) {
        self.stay(Mode::Sit, duration_s);
    }

    /// Stands still. Less than 5 s is a pause of the walk.
    pub(super) fn stand(&mut self, duration_s: f64) {
        self.stay(Mode::Stand, duration_s);
    }

    /// Walks through the places on level ground.
    pub(super) fn walk(&mut self, through: &[Place]) {
        for to in through {
            loop {
                let sway = 1.0 + self.pace.step(&mut self.draw.rng, TICK_S, 0.06);
                let speed_mps = self.habits.walk_mps * sway.max(0.5);
                let rest = self.advance(*to, speed_mps * TICK_S);
                if !self.indoor {
                    self.height_m = self.world.ground_m(self.place);
                }
                self.tick(Mode::Walk, speed_mps, 0.0, speed_mps / self.habits.step_m);
                if rest <= 0.0 {
                    break;
                }
            }
        }
    }

    /// Passes the entrance in either direction, sometimes delayed by the door.
    pub(super) fn pass_entrance(&mut self) {
        if self.draw.chance(0.6) {
            let fumble_s = self.draw.range(0.8, 2.5);
            self.stand(fumble_s);
        }
        self.indoor = !self.indoor;
        let now = self.now();
        self.script.doors_t.push(now);
        if self.indoor && self.script.entrance_t.is_none() {
            self.script.entrance_t = Some(now);
        }
    }

    /// Takes the stairs to a floor: two flights per storey with a landing between them.
    pub(super) fn stairs_to(&mut self, floor: i16) {
        let well = self.place;
        while self.floor != floor {
            let next = if floor > self.floor {
                self.floor + 1
            } else {
                self.floor - 1
            };
            let (from_m, to_m) = (self.height_m, self.world.floor_m(next));
            let middle_m = (from_m + to_m) / 2.0;
            // The flights lie side by side, so the path makes one full turn per storey.
            self.flight((well.0 + 3.0, well.1), middle_m);
            self.landing((well.0 + 3.0, well.1 + 1.2));
            self.flight((well.0, well.1 + 1.2), to_m);
            self.floor = next;
            if self.floor != floor {
                self.landing(well);
            }
        }
        self.height_m = self.world.floor_m(floor);
        self.shielded = self.floor < 0;
    }

    fn flight(&mut self, to: Place, to_m: f64) {
        // Descending is slightly faster than climbing.
        let hurry = if to_m < self.height_m { 1.1 } else { 1.0 };
        let cadence_hz =
            self.habits.stairs_hz * hurry * (1.0 + self.pace.step(&mut self.draw.rng, 4.0, 0.05));
        let rise_m = to_m - self.height_m;
        let duration_s = rise_m.abs() / (cadence_hz * self.habits.riser_m);
        let run_mps = hypot(to.0 - self.place.0, to.1 - self.place.1) / duration_s;
        let count = ticks(duration_s).max(1);
        for _ in 0..count {
            self.advance(to, run_mps * TICK_S);
            self.height_m += rise_m / f64::from(count);
            self.tick(Mode::Stairs, run_mps, 0.0, cadence_hz);
        }
        self.height_m = to_m;
    }

    fn landing(&mut self, to: Place) {
        const LANDING_MPS: f64 = 0.5;
        while self.advance(to, LANDING_MPS * TICK_S) > 0.0 {
            self.tick(Mode::Stairs, LANDING_MPS, 0.0, self.habits.stairs_hz);
        }
    }

    /// Calls the elevator, waits, rides to a floor and steps out. The elevator may stop at other
    /// floors on the way.
    pub(super) fn ride_to(&mut self, floor: i16) {
        let wait_s = self.draw.range(3.0, 45.0);
        self.stand(wait_s);
        self.shielded = true;
        // The courier waits a few steps from the door and walks to the back of the car.
        let in_m = self.habits.walk_mps * self.draw.range(2.8, 4.5);
        let (car, hall) = ((self.place.0 + in_m, self.place.1), self.place);
        self.walk(&[car]);
        let doors_s = self.lift.door_s + self.draw.range(0.0, 4.0);
        self.stand(doors_s);
        let floors_between = (floor - self.floor).abs() - 1;
        if floors_between > 0 && self.draw.chance(0.3) {
            let past = self.draw.whole(1, i32::from(floors_between)) as i16;
            let halt = if floor > self.floor {
                self.floor + past
            } else {
                self.floor - past
            };
            self.move_car(halt);
            let halt_s = self.lift.door_s * 2.0 + self.draw.range(1.0, 6.0);
            self.stay(Mode::Ride, halt_s);
        }
        self.move_car(floor);
        let doors_s = self.lift.door_s;
        self.stand(doors_s);
        self.walk(&[hall]);
        self.shielded = self.floor < 0;
    }

    /// Moves the car to a floor with a trapezoidal speed profile, its corners rounded over 0.6 s
    /// (about 2 m/s³).
    fn move_car(&mut self, floor: i16) {
        let (from_m, to_m) = (self.height_m, self.world.floor_m(floor));
        let way_m = (to_m - from_m).abs();
        let accel = self.lift.accel_mps2;
        let top_mps = self.lift.speed_mps.min(sqrt(way_m * accel));
        let ramp_s = top_mps / accel;
        let total_s = 2.0 * ramp_s + (way_m - top_mps * ramp_s) / top_mps;
        let speed_at = |t: f64| (t.min(total_s - t) * accel).clamp(0.0, top_mps);
        let rounded_at = |t: f64| {
            (-3..=3)
                .map(|k| speed_at(t + f64::from(k) * TICK_S))
                .sum::<f64>()
                / 7.0
        };
        let sign = if to_m > from_m { 1.0 } else { -1.0 };
        let mut before_mps = 0.0;
        for k in -3..ticks(total_s) + 4 {
            let mps = rounded_at((f64::from(k) + 0.5) * TICK_S);
            self.height_m += sign * mps * TICK_S;
            self.tick(Mode::Ride, 0.0, sign * (mps - before_mps) / TICK_S, 0.0);
            before_mps = mps;
        }
        self.height_m = to_m;
        self.floor = floor;
    }

    /// Stands at the door and records the visit and the app marks during it.
    pub(super) fn visit(&mut self, duration_s: f64, marks: &[(f64, &'static str)]) {
        let from = self.now();
        self.script.marks.extend(
            marks
                .iter()
                .map(|(share, name)| (from + share * duration_s, *name)),
        );
        self.stand(duration_s);
        self.script.visits.push((from, self.now()));
    }

    /// Waits at a gate or for the main door to open. Some couriers have a code, others ring.
    pub(super) fn wait_at_gate(&mut self) {
        let duration_s = if self.draw.chance(0.4) {
            self.draw.range(3.2, 9.0)
        } else {
            self.draw.range(9.0, 85.0)
        };
        let from = self.now();
        self.stand(duration_s);
        self.script.gates.push((from, self.now()));
    }

    /// Walks to a wrong place, notices the mistake, and returns the same way.
    pub(super) fn go_astray(&mut self, to: Place) {
        let from = self.place;
        self.walk(&[to]);
        if self.draw.chance(0.7) {
            let look_s = self.draw.range(1.5, 12.0);
            self.stand(look_s);
        }
        let turned_t = self.now();
        self.walk(&[from]);
        let retraced_m = hypot(to.0 - from.0, to.1 - from.1);
        self.script
            .retraced
            .push((turned_t, self.now(), retraced_m));
    }
}

fn ticks(duration_s: f64) -> i32 {
    (duration_s / TICK_S).round() as i32
}
