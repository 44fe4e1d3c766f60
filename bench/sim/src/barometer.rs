//! Simulates air pressure: height, weather, wind, doors, ventilation, and sensor noise.

use libm::{cos, exp, log, sqrt};

use super::rng::{Draw, Rng, Wander};
use super::sample::{Reading, Sample, rounded};
use super::script::{Script, Tick};
use super::world::World;

/// The gas constant of dry air over gravity: scale height = this × absolute temperature (29.27
/// m/K).
const SCALE_M_PER_K: f64 = 29.27;

/// A barometer and the air around it.
#[derive(Debug, Clone)]
pub(super) struct Barometer {
    interval_s: f64,
    sea_hpa: f64,
    kelvin: f64,
    /// The white noise of one reading; recordings show 0.001 to 0.017 hPa, depending on the phone.
    noise_hpa: f64,
    /// The pressure of gusts on the case outdoors.
    wind_hpa: f64,
    /// The drift of weather and sensor: below 0.1 hPa in ten minutes, rarely more.
    drift_hpa: f64,
    /// The pressure pulse of a door: 5 to 30 Pa, decaying within a second or two.
    door_hpa: f64,
    /// The constant pressure offset inside the building, caused by ventilation.
    house_hpa: f64,
    /// The varying pressure offset inside a vehicle, caused by its fan.
    cabin_hpa: f64,
    /// The duration of stale readings at the start, which date from before the session.
    stale_s: f64,
    stale_hpa: f64,
    decimals: i32,
}

impl Barometer {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let sealed = draw.chance(0.5);
        Self {
            interval_s: draw.choose(1.0, &[0.2, 0.5, 1.0]),
            sea_hpa: draw.range(990.0, 1030.0),
            kelvin: draw.range(263.0, 308.0),
            noise_hpa: exp(draw.range(log(0.001), log(0.017))),
            wind_hpa: draw.range(0.0, 0.02),
            drift_hpa: if draw.chance(0.1) {
                draw.range(0.1, 0.3)
            } else {
                draw.range(0.0, 0.1)
            },
            door_hpa: if sealed {
                draw.range(0.05, 0.3)
            } else {
                draw.range(0.0, 0.05)
            },
            house_hpa: draw.range(-0.12, 0.12),
            cabin_hpa: draw.range(0.0, 0.25),
            stale_s: if draw.chance(0.25) {
                draw.range(0.5, 4.0)
            } else {
                0.0
            },
            stale_hpa: draw.range(-2.5, 2.5),
            decimals: draw.choose(3, &[2]),
        }
    }

    fn true_hpa(&self, altitude_m: f64) -> f64 {
        self.sea_hpa * exp(-altitude_m / (SCALE_M_PER_K * self.kelvin))
    }

    /// Returns the readings for a script.
    pub(super) fn readings(&self, script: &Script, world: &World, rng: &mut Rng) -> Vec<Sample> {
        let mut air = Air::new(self, script, rng);
        let mut samples = Vec::new();
        let mut t = rng.range(0.0, self.interval_s);
        while t < script.now() {
            let Some(tick) = script.at(t) else { break };
            let offset_hpa = air.offset_hpa(t, tick, rng);
            let mut hpa = self.true_hpa(world.altitude_m + tick.height_m)
                + offset_hpa
                + self.noise_hpa * rng.normal();
            if t < self.stale_s {
                hpa = self.true_hpa(world.altitude_m) + self.stale_hpa;
            }
            let hpa = rounded(hpa.clamp(300.0, 1150.0), self.decimals);
            samples.push(Sample::new(
                t,
                rng.range(0.0, 0.1),
                Reading::Pressure { hpa },
            ));
            t += self.interval_s * rng.range(0.97, 1.03);
        }
        samples
    }
}

/// The pressure effects other than height.
struct Air<'b> {
    barometer: &'b Barometer,
    doors_t: &'b [f64],
    wind: Wander,
    drift_phase: f64,
    drift_period_s: f64,
    cabin: Wander,
    /// The share of the pressure's adjustment to the building's ventilation, 0 to 1.
    inside: f64,
    before_t: f64,
}

impl<'b> Air<'b> {
    fn new(barometer: &'b Barometer, script: &'b Script, rng: &mut Rng) -> Self {
        Self {
            barometer,
            doors_t: &script.doors_t,
            wind: Wander::new(rng, 0.5 * barometer.wind_hpa, 1.5),
            drift_phase: rng.range(0.0, std::f64::consts::TAU),
            drift_period_s: rng.range(900.0, 3600.0),
            cabin: Wander::new(rng, barometer.cabin_hpa, 40.0),
            inside: 0.0,
            before_t: 0.0,
        }
    }

    fn offset_hpa(&mut self, t: f64, tick: &Tick, rng: &mut Rng) -> f64 {
        let dt_s = (t - self.before_t).max(0.0);
        self.before_t = t;
        let toward = if tick.indoor { 1.0 } else { 0.0 };
        self.inside += (toward - self.inside) * (1.0 - exp(-dt_s / 1.5));
        let fast = tick.mode.in_vehicle() && tick.speed_mps > 0.0;
        let wind_hpa = self.barometer.wind_hpa
            * if tick.indoor {
                0.1
            } else {
                1.0 + sqrt(tick.speed_mps) * 0.3
            };
        let cabin_hpa =
            self.cabin
                .step(rng, dt_s, if fast { self.barometer.cabin_hpa } else { 0.0 });
        let door_hpa: f64 = self
            .doors_t
            .iter()
            .filter(|&&door_t| t >= door_t && t - door_t < 8.0)
            .map(|door_t| self.barometer.door_hpa * exp(-(t - door_t) / 0.9))
            .sum();
        let drift_hpa = self.barometer.drift_hpa
            * cos(self.drift_phase + t / self.drift_period_s * std::f64::consts::TAU);
        self.wind.step(rng, dt_s, wind_hpa)
            + drift_hpa
            + door_hpa
            + self.barometer.house_hpa * self.inside
            + if tick.mode.in_vehicle() {
                cabin_hpa
            } else {
                0.0
            }
    }
}
