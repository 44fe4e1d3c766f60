//! Simulates the motion of the phone in gait, at rest, in a vehicle and in an elevator, and the
//! step counter.

use libm::{cos, sin, sqrt};

use super::handling::{Habit, Handled, Handling, turned};
use super::rng::{Draw, Rng, Wander};
use super::sample::{Reading, Sample, rounded};
use super::script::{Mode, Script, Tick};

const GRAVITY_MPS2: f64 = 9.81;

/// The place where the phone is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// In the hand, with the screen in view.
    Hand,
    /// In a trouser pocket, swinging with the leg.
    Pocket,
    /// In a bag, which damps the motion.
    Bag,
}

/// The carrying position of the phone and the errors of its accelerometer.
#[derive(Debug, Clone)]
pub(super) struct Carry {
    /// The standard deviation of the norm while walking: 0.7 to 1.6 in the hand, 1.7 to 6 in the
    /// pocket.
    gait_mps2: f64,
    /// The standard deviation while standing: 0.01 in a pocket, 0.2 to 0.5 with the phone in the
    /// hand.
    rest_mps2: f64,
    /// The standard deviation in a vehicle, caused by engine and road.
    road_mps2: f64,
    /// The constant error of each axis; means at rest lie between 9.3 and 10.2.
    bias_mps2: [f64; 3],
    noise_mps2: f64,
    /// The upward direction in the phone's axes.
    up: [f64; 3],
    /// The fidgets per minute while standing: the parcel, the bell, a photograph.
    fidgets_per_min: f64,
    /// The courier's use of the phone in the hand while standing; `None` if the phone is not in
    /// use.
    habit: Option<Habit>,
}

impl Carry {
    /// Returns the same motion errors for a phone that is held and used in the hand.
    pub(super) fn handled(self, draw: &mut Draw) -> Self {
        Self {
            gait_mps2: draw.range(0.7, 1.7),
            rest_mps2: draw.range(0.05, 0.2),
            fidgets_per_min: 0.0,
            habit: Some(Habit::draw(draw)),
            ..self
        }
    }

    pub(super) fn draw(draw: &mut Draw) -> Self {
        let placement = draw.choose(Placement::Hand, &[Placement::Pocket, Placement::Bag]);
        let (gait_mps2, rest_mps2) = match placement {
            Placement::Hand => (draw.range(0.7, 1.7), draw.range(0.08, 0.35)),
            Placement::Pocket => (draw.range(1.7, 5.0), draw.range(0.01, 0.08)),
            Placement::Bag => (draw.range(0.8, 2.2), draw.range(0.02, 0.12)),
        };
        let tilt = draw.range(0.0, std::f64::consts::PI);
        let turn = draw.range(0.0, std::f64::consts::TAU);
        let up = [sin(tilt) * cos(turn), sin(tilt) * sin(turn), cos(tilt)];
        Self {
            gait_mps2,
            rest_mps2,
            road_mps2: draw.range(0.2, 0.9),
            bias_mps2: [
                draw.range(-0.2, 0.2),
                draw.range(-0.2, 0.2),
                draw.range(-0.3, 0.3),
            ],
            noise_mps2: draw.range(0.01, 0.04),
            up,
            fidgets_per_min: draw.range(0.5, 5.0),
            habit: None,
        }
    }
}

/// The motion of a body: acceleration along and across gravity, one element at a time.
struct Gait<'c> {
    carry: &'c Carry,
    phase: f64,
    sway: Wander,
    shake: [Wander; 3],
    fidget_until_t: f64,
    heading_rad: f64,
    speed_mps: f64,
    across: [[f64; 3]; 2],
    handling: Option<Handling>,
    handled: Handled,
}

impl<'c> Gait<'c> {
    fn new(carry: &'c Carry, rng: &mut Rng) -> Self {
        Self {
            carry,
            phase: 0.0,
            sway: Wander::new(rng, 0.1, 5.0),
            shake: [0.0; 3].map(|_| Wander::new(rng, 0.05, 0.08)),
            fidget_until_t: 0.0,
            heading_rad: 0.0,
            speed_mps: 0.0,
            across: across(carry.up),
            handling: carry.habit.as_ref().map(Handling::new),
            handled: Handled::default(),
        }
    }

    /// Returns the turn rate about gravity and the forward and sideways acceleration. The script
    /// turns instantly, but a body takes most of a second and a vehicle two or three.
    fn turn_and_pull(&mut self, tick: &Tick, dt_s: f64) -> (f64, [f64; 2]) {
        let turn_s = if tick.mode.in_vehicle() { 1.5 } else { 0.4 };
        let yaw_rps = wrapped(tick.heading_rad - self.heading_rad) / turn_s;
        self.heading_rad += yaw_rps * dt_s;
        let ahead_mps2 = (tick.speed_mps - self.speed_mps) / 0.4;
        self.speed_mps += ahead_mps2 * dt_s;
        // On foot, a change of pace is part of the gait.
        let felt = if tick.mode.in_vehicle() {
            [ahead_mps2, self.speed_mps * yaw_rps]
        } else {
            [0.0, 0.0]
        };
        (yaw_rps, felt)
    }

    /// Advances the handling of the phone while the courier stands, and ends it when the courier
    /// moves on.
    fn handle(&mut self, t: f64, stands: bool, dt_s: f64) {
        let Some(handling) = &mut self.handling else {
            return;
        };
        if stands {
            self.handled = handling.step(t, dt_s);
        } else {
            handling.stop(t);
            let angle_rad = self.handled.angle_rad * (1.0 - (dt_s / 0.3).min(1.0));
            self.handled = Handled {
                angle_rad,
                ..Handled::default()
            };
        }
    }

    /// Returns the cadence reported by a phone in use: it misses one second in ten of a walk and
    /// mistakes one in five brisk movements for steps.
    fn recognised_hz(&mut self, true_hz: f64) -> f64 {
        let Some(handling) = &mut self.handling else {
            return true_hz;
        };
        let rng = handling.rng();
        if true_hz > 0.0 {
            if rng.chance(0.1) { 0.0 } else { true_hz }
        } else if self.handled.is_brisk && rng.chance(0.2) {
            rng.range(1.2, 2.6)
        } else {
            0.0
        }
    }

    /// Returns the upward direction in the phone's axes for its current orientation.
    fn up(&self) -> [f64; 3] {
        match &self.handling {
            Some(handling) => turned(self.carry.up, handling.axis(), self.handled.angle_rad),
            None => self.carry.up,
        }
    }

    /// Returns the phone's acceleration (x, y, z) and its turn rate about gravity, `dt_s` after the
    /// previous element.
    fn element(&mut self, t: f64, tick: &Tick, dt_s: f64, rng: &mut Rng) -> ([f64; 3], f64) {
        let carry = self.carry;
        let stays = matches!(tick.mode, Mode::Stand | Mode::Sit);
        if stays && rng.chance(carry.fidgets_per_min / 60.0 * dt_s) {
            self.fidget_until_t = t + rng.range(0.5, 2.5);
        }
        let shake_mps2 = match tick.mode {
            _ if stays && t < self.fidget_until_t => 0.9,
            Mode::Stand | Mode::Ride => carry.rest_mps2,
            Mode::Sit | Mode::Halt => 0.5 * carry.rest_mps2 + 0.03,
            // A phone in a holder or on a seat feels the road, more strongly at higher speed.
            Mode::Drive => carry.road_mps2 * (0.4 + 0.6 * (tick.speed_mps / 10.0).min(1.5)),
            Mode::Walk | Mode::Stairs => 0.35 * carry.gait_mps2,
        };
        let shake = self
            .shake
            .each_mut()
            .map(|axis| axis.step(rng, dt_s, shake_mps2 / 1.2));
        let sway = 1.0 + self.sway.step(rng, dt_s, 0.12);
        let mut along = tick.lift_mps2;
        if tick.cadence_hz > 0.0 {
            self.phase += tick.cadence_hz * dt_s * std::f64::consts::TAU;
            // A heel strike is sharper than a sine, so two harmonics are added. The sum keeps the
            // standard deviation of the gait.
            let amplitude = carry.gait_mps2 * 1.25 * sway;
            along += amplitude
                * (sin(self.phase)
                    + 0.45 * sin(2.0 * self.phase + 0.7)
                    + 0.2 * sin(3.0 * self.phase));
        }
        let (yaw_rps, pull_mps2) = self.turn_and_pull(tick, dt_s);
        let yaw_rps = yaw_rps + 0.05 * shake_mps2.min(1.0) * rng.normal();
        let norm = GRAVITY_MPS2 + along;
        self.handle(t, tick.mode == Mode::Stand, dt_s);
        let yaw_rps = yaw_rps + self.handled.turn_rps;
        let ([ahead, aside], up) = (self.across, self.up());
        let axis = |k: usize| {
            let pulled = ahead[k] * pull_mps2[0] + aside[k] * pull_mps2[1];
            up[k] * norm + pulled + shake[k] + carry.bias_mps2[k] + self.handled.accel_mps2[k]
        };
        let accel =
            [axis(0), axis(1), axis(2)].map(|value| value + carry.noise_mps2 * rng.normal());
        (accel, yaw_rps)
    }
}

/// Returns two directions perpendicular to `up` and to each other.
fn across(up: [f64; 3]) -> [[f64; 3]; 2] {
    // An axis that is not close to vertical.
    let flat = if up[0].abs() < 0.7 {
        [1.0, 0.0, 0.0]
    } else {
        [0.0, 1.0, 0.0]
    };
    let ahead = unit(cross(up, flat));
    [ahead, cross(up, ahead)]
}

fn cross(one: [f64; 3], other: [f64; 3]) -> [f64; 3] {
    [
        one[1] * other[2] - one[2] * other[1],
        one[2] * other[0] - one[0] * other[2],
        one[0] * other[1] - one[1] * other[0],
    ]
}

fn unit(vector: [f64; 3]) -> [f64; 3] {
    let length = sqrt(vector.iter().map(|part| part * part).sum());
    vector.map(|part| part / length)
}

fn wrapped(angle_rad: f64) -> f64 {
    let turn = std::f64::consts::TAU;
    (angle_rad + std::f64::consts::PI).rem_euclid(turn) - std::f64::consts::PI
}

/// Returns one-second windows of raw motion.
pub(super) fn windows(
    carry: &Carry,
    script: &Script,
    hz: u16,
    gyro: bool,
    rng: &mut Rng,
) -> Vec<Sample> {
    let mut gait = Gait::new(carry, rng);
    let dt_s = 1.0 / f64::from(hz);
    let mut samples = Vec::new();
    for second in 0..script.now() as u32 {
        let mut accel = [0; 3].map(|_| Vec::with_capacity(usize::from(hz)));
        let mut turn = [0; 3].map(|_| Vec::with_capacity(usize::from(hz)));
        for element in 0..hz {
            let t = f64::from(second) + f64::from(element) * dt_s;
            let Some(tick) = script.at(t) else { continue };
            let (value, yaw_rps) = gait.element(t, tick, dt_s, rng);
            for k in 0..3 {
                accel[k].push(rounded(value[k], 3));
                turn[k].push(rounded(carry.up[k] * yaw_rps + 0.01 * rng.normal(), 4));
            }
        }
        let [ax, ay, az] = accel;
        let [gx, gy, gz] = turn.map(|axis| gyro.then_some(axis));
        let reading = Reading::Imu {
            hz: f64::from(hz),
            ax,
            ay,
            az,
            gx,
            gy,
            gz,
        };
        samples.push(Sample::new(f64::from(second), 1.0, reading));
    }
    samples
}

/// Returns one-second motion summaries, reduced by the phone from 25 elements per second.
pub(super) fn motions(carry: &Carry, script: &Script, rng: &mut Rng) -> Vec<Sample> {
    const HZ: u16 = 25;
    let mut gait = Gait::new(carry, rng);
    let dt_s = 1.0 / f64::from(HZ);
    let mut samples = Vec::new();
    for second in 0..script.now() as u32 {
        let (mut sum, mut squares, mut along, mut yaw_rad, mut cadence_hz) =
            (0.0, 0.0, 0.0, 0.0, 0.0);
        for element in 0..HZ {
            let t = f64::from(second) + f64::from(element) * dt_s;
            let Some(tick) = script.at(t) else { continue };
            let ([x, y, z], yaw_rps) = gait.element(t, tick, dt_s, rng);
            let norm = sqrt(x * x + y * y + z * z);
            sum += norm;
            squares += norm * norm;
            along += x * carry.up[0] + y * carry.up[1] + z * carry.up[2] - GRAVITY_MPS2;
            yaw_rad += yaw_rps * dt_s;
            cadence_hz += tick.cadence_hz / f64::from(HZ);
        }
        let count = f64::from(HZ);
        let mean = sum / count;
        let seen_hz = if cadence_hz > 0.7 {
            cadence_hz * rng.factor(0.04)
        } else {
            0.0
        };
        let seen_hz = gait.recognised_hz(seen_hz);
        let reading = Reading::Motion {
            accel_mean: rounded(mean, 3),
            accel_std: rounded(sqrt((squares / count - mean * mean).max(0.0)), 3),
            vertical_mean: rounded(along / count, 3),
            cadence_hz: rounded(seen_hz.min(10.0), 2),
            yaw_rad: rounded(yaw_rad, 3),
        };
        samples.push(Sample::new(f64::from(second), 1.0, reading));
    }
    samples
}

/// The phone's step counter: accurate, but late, and fooled by rough roads.
#[derive(Debug, Clone)]
pub(super) struct StepCounter {
    /// The reporting delay: up to 10 s on Android, 2 to 3 s on iPhones.
    latency_s: f64,
    interval_s: f64,
    first: u32,
    /// The fraction of steps that the phone detects; a back pocket loses some.
    seen: f64,
    /// The false steps per second on a rough road.
    false_hz: f64,
    /// The number of steps before the counter registers a walk and adds them all together.
    run_in: u32,
}

impl StepCounter {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self {
            latency_s: draw.range(0.3, 10.0),
            interval_s: draw.choose(1.0, &[1.0, 2.5]),
            first: if draw.chance(0.5) {
                draw.whole(200, 30_000) as u32
            } else {
                0
            },
            seen: draw.range(0.93, 1.02),
            false_hz: if draw.chance(0.3) {
                draw.range(0.0, 0.12)
            } else {
                0.0
            },
            run_in: draw.whole(0, 8) as u32,
        }
    }

    /// Returns the counts for a script: one at the start, then one whenever the count has risen.
    pub(super) fn counts(&self, script: &Script, rng: &mut Rng) -> Vec<Sample> {
        let totals = self.totals(script, rng);
        let mut samples = Vec::new();
        let (mut said, mut t) = (None, rng.range(0.0, 1.0));
        while t < script.now() {
            let place = ((t - self.latency_s) / super::script::TICK_S).max(0.0) as usize;
            let count = self.first + totals.get(place).copied().unwrap_or(0);
            if said != Some(count) {
                said = Some(count);
                samples.push(Sample::new(t, 0.0, Reading::Steps { count }));
            }
            t += self.interval_s * rng.range(0.95, 1.05);
        }
        samples
    }

    /// Returns the steps counted up to each tick.
    fn totals(&self, script: &Script, rng: &mut Rng) -> Vec<u32> {
        let (mut total, mut walk, mut idle_s) = (0.0_f64, 0.0_f64, 0.0);
        let step = super::script::TICK_S;
        script
            .ticks
            .iter()
            .map(|tick| {
                if tick.cadence_hz > 0.0 {
                    idle_s = 0.0;
                    let before = walk;
                    walk += tick.cadence_hz * step * self.seen;
                    let run_in = f64::from(self.run_in);
                    total += if walk <= run_in {
                        0.0
                    } else {
                        walk - if before <= run_in { 0.0 } else { before }
                    };
                } else {
                    idle_s += step;
                    walk = if idle_s > 3.0 { 0.0 } else { walk };
                    if tick.mode == Mode::Drive && rng.chance(self.false_hz * step) {
                        total += 1.0;
                    }
                }
                total as u32
            })
            .collect()
    }
}
