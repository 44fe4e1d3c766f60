//! A phone: its sensors, its carrying position, and its recording of a script.

use libm::exp;

use super::barometer::Barometer;
use super::body::{self, Carry, StepCounter};
use super::gnss::Receiver;
use super::rng::{Draw, Rng};
use super::sample::{Reading, Sample, rounded};
use super::script::{Mode, Script};
use super::world::World;

/// The motion data that a phone sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MotionSensor {
    /// One-second windows of raw acceleration, optionally with turn rates.
    Imu {
        /// The elements per second.
        hz: u16,
        /// Whether turn rates are included.
        gyro: bool,
    },
    /// A few summary values per second.
    Motion,
    /// No motion data.
    None,
}

/// The sensors of a phone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kit {
    /// Whether the phone sends position fixes.
    pub location: bool,
    /// Whether the phone sends air pressure.
    pub barometer: bool,
    /// Whether the phone sends step counts.
    pub steps: bool,
    /// The motion data of the phone.
    pub motion: MotionSensor,
    /// Whether the phone sends the magnetic field.
    pub magnetic: bool,
    /// Whether the phone sends the platform's recognised activities.
    pub activity: bool,
    /// Whether the app sends marks.
    pub marks: bool,
}

impl Kit {
    /// A kit with all sensors.
    pub const FULL: Self = Self {
        location: true,
        barometer: true,
        steps: true,
        motion: MotionSensor::Imu { hz: 25, gyro: true },
        magnetic: true,
        activity: true,
        marks: true,
    };
    /// A kit with position fixes only.
    pub const LOCATION_ONLY: Self = Self {
        barometer: false,
        steps: false,
        motion: MotionSensor::None,
        magnetic: false,
        activity: false,
        marks: false,
        ..Self::FULL
    };

    pub(super) fn draw(draw: &mut Draw) -> Self {
        let motion = draw.choose(
            MotionSensor::Motion,
            &[
                MotionSensor::Motion,
                MotionSensor::Imu { hz: 25, gyro: true },
                MotionSensor::Imu { hz: 50, gyro: true },
                MotionSensor::Imu {
                    hz: 50,
                    gyro: false,
                },
            ],
        );
        Self {
            motion,
            magnetic: draw.chance(0.3),
            activity: draw.chance(0.6),
            ..Self::FULL
        }
    }

    /// Returns the names of the sample kinds that the phone can send, for `device.sensors`.
    #[must_use]
    pub fn sensors(&self) -> Vec<&'static str> {
        let motion = match self.motion {
            MotionSensor::Imu { .. } => Some("imu"),
            MotionSensor::Motion => Some("motion"),
            MotionSensor::None => None,
        };
        [
            self.location.then_some("location"),
            self.barometer.then_some("pressure"),
            self.steps.then_some("steps"),
            motion,
            self.magnetic.then_some("magnetic"),
            self.activity.then_some("activity"),
            self.marks.then_some("mark"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A phone with the individual parameters of its sensors.
#[derive(Debug, Clone)]
pub(super) struct Phone {
    pub(super) kit: Kit,
    receiver: Receiver,
    barometer: Barometer,
    carry: Carry,
    steps: StepCounter,
    activity_lag_s: f64,
}

/// The purpose numbers of the random generators.
const POSITION: u64 = 11;
const AIR: u64 = 12;
const BODY: u64 = 13;
const STEPS: u64 = 14;
const OTHER: u64 = 15;

impl Phone {
    pub(super) fn draw(draw: &mut Draw, kit: Option<Kit>) -> Self {
        let drawn = Kit::draw(draw);
        Self {
            kit: kit.unwrap_or(drawn),
            receiver: Receiver::draw(draw),
            barometer: Barometer::draw(draw),
            carry: Carry::draw(draw),
            steps: StepCounter::draw(draw),
            activity_lag_s: draw.range(4.0, 30.0),
        }
    }

    /// Returns the same phone in the hand of a courier who uses it at every stay.
    pub(super) fn handled(self, draw: &mut Draw) -> Self {
        Self {
            carry: self.carry.handled(draw),
            ..self
        }
    }

    /// Records a script and returns the samples in the order in which the phone can send them. If
    /// `claims` is given, the positions come from that script instead of the true one.
    pub(super) fn record(
        &self,
        script: &Script,
        claims: Option<&Script>,
        world: &World,
        seed: u64,
    ) -> Vec<Sample> {
        let kit = &self.kit;
        let mut samples = Vec::new();
        if kit.location {
            let walked = claims.unwrap_or(script);
            samples.extend(
                self.receiver
                    .fixes(walked, world, &mut Rng::new(seed, POSITION)),
            );
        }
        if kit.barometer {
            samples.extend(
                self.barometer
                    .readings(script, world, &mut Rng::new(seed, AIR)),
            );
        }
        if kit.steps {
            samples.extend(self.steps.counts(script, &mut Rng::new(seed, STEPS)));
        }
        match kit.motion {
            MotionSensor::Imu { hz, gyro } => {
                samples.extend(body::windows(
                    &self.carry,
                    script,
                    hz,
                    gyro,
                    &mut Rng::new(seed, BODY),
                ));
            }
            MotionSensor::Motion => samples.extend(body::motions(
                &self.carry,
                script,
                &mut Rng::new(seed, BODY),
            )),
            MotionSensor::None => {}
        }
        let mut rng = Rng::new(seed, OTHER);
        if kit.magnetic {
            samples.extend(magnetic(script, &mut rng));
        }
        if kit.activity {
            samples.extend(self.activities(script, &mut rng));
        }
        if kit.marks {
            samples.extend(
                script
                    .marks
                    .iter()
                    .map(|&(t, name)| Sample::new(t, 0.0, Reading::Mark { name })),
            );
        }
        samples.sort_by(|one, other| one.ready_t.total_cmp(&other.ready_t));
        samples
    }

    /// Simulates the platform's activity recogniser, which is mostly right and late.
    fn activities(&self, script: &Script, rng: &mut Rng) -> Vec<Sample> {
        let mut samples = Vec::new();
        let (mut said, mut since, mut current) = ("", 0.0, "");
        for (place, tick) in script.ticks.iter().enumerate() {
            let t = place as f64 * super::script::TICK_S;
            let name = match tick.mode {
                Mode::Drive | Mode::Halt => "driving",
                Mode::Sit | Mode::Stand | Mode::Ride => "still",
                Mode::Walk | Mode::Stairs => "walking",
            };
            if name != current {
                (current, since) = (name, t);
            }
            if current != said && t - since > self.activity_lag_s {
                said = current;
                let name = if rng.chance(0.07) { "unknown" } else { said };
                let confidence = rounded(rng.range(0.5, 0.98), 2);
                samples.push(Sample::new(
                    t,
                    0.0,
                    Reading::Activity {
                        activity_type: name,
                        confidence,
                    },
                ));
            }
        }
        samples
    }
}

/// Simulates the earth's field (48 µT, dipping) as the phone turns, distorted by the steel of a
/// building and an elevator.
fn magnetic(script: &Script, rng: &mut Rng) -> Vec<Sample> {
    let mut steel = [0.0_f64; 3].map(|_| super::rng::Wander::new(rng, 1.0, 6.0));
    let mut samples = Vec::new();
    let mut t = 0.5;
    while let Some(tick) = script.at(t).filter(|_| t < script.now()) {
        let bend_ut = if tick.indoor {
            12.0 * (1.0 + exp(-5.0 * tick.sky))
        } else {
            1.5
        };
        let [x, y, z] = steel.each_mut().map(|axis| axis.step(rng, 1.0, bend_ut));
        let (sin, cos) = (libm::sin(tick.heading_rad), libm::cos(tick.heading_rad));
        let (x, y, z) = (
            rounded(20.0 * sin + x, 2),
            rounded(20.0 * cos + y, 2),
            rounded(-43.0 + z, 2),
        );
        samples.push(Sample::new(t, 0.0, Reading::Magnetic { x, y, z }));
        t += 1.0;
    }
    samples
}
