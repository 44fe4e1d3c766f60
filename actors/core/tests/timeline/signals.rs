//! Generates a phone's samples for a script of its bearer's actions, with minimal physics, for
//! tests of single effects.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its own samples are wrong"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "test signals need no bit-for-bit determinism across platforms"
)]

use porchlight_core::context::SessionContext;
use porchlight_core::timeline::Timeline;
use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch};
use porchlight_schema::sample::{Imu, Kind, Location, Pressure, Sample, Steps};
use porchlight_schema::session::{Address, Point};

/// An action of the bearer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Stay,
    Walk { heading_deg: f64 },
    Stairs { mps: f64, heading_deg: f64 },
    Ride { mps: f64 },
    Drive { mps: f64, climb_mps: f64 },
}

/// The sensors and properties of the phone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phone {
    pub location: bool,
    pub accuracy_m: f32,
    pub pressure: bool,
    pub imu: bool,
    pub steps: bool,
    /// The bias of the accelerometer, added to the length of gravity, m/s².
    pub bias: f32,
    /// The duration of one `imu` array, seconds.
    pub imu_sec: usize,
}

impl Phone {
    pub(crate) const ALL: Self = Self {
        location: true,
        accuracy_m: 6.0,
        pressure: true,
        imu: true,
        steps: true,
        bias: 0.0,
        imu_sec: 1,
    };
}

/// A sample that owns its arrays.
#[derive(Debug, Clone)]
pub(crate) enum Owned {
    Plain(Sample<'static>),
    Imu { t_ms: u32, accel: [Vec<f32>; 3] },
}

pub(crate) const IMU_HZ: usize = 25;

impl Owned {
    pub(crate) fn sample(&self) -> Sample<'_> {
        match self {
            Self::Plain(sample) => *sample,
            Self::Imu {
                t_ms,
                accel: [x, y, z],
            } => Sample::Imu(Imu {
                t_ms: *t_ms,
                hz: IMU_HZ as f32,
                accel: [x, y, z],
                gyro: None,
            }),
        }
    }
}

/// A deterministic pseudo-random number generator.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns a number between -1 and 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

const LAT: f64 = 52.0;
const LNG: f64 = 13.0;
const METRES_PER_DEGREE: f64 = 111_195.0;

/// Returns a context whose address is `east_m` and `north_m` from the start of every script.
pub(crate) fn context_at(east_m: f64, north_m: f64) -> SessionContext {
    let address = Address {
        accuracy_m: 10.0,
        storey_height_m: Some(3.0),
        ..Address::at(point(east_m, north_m))
    };
    SessionContext::of_address(&address, None)
}

fn point(east_m: f64, north_m: f64) -> Point {
    Point {
        lat: LAT + north_m / METRES_PER_DEGREE,
        lng: LNG + east_m / (METRES_PER_DEGREE * LAT.to_radians().cos()),
    }
}

/// The bearer's position and the motion of the body, second by second.
struct Body {
    east_m: f64,
    north_m: f64,
    height_m: f64,
    speed_mps: f64,
    steps: f64,
    climb_mps: f64,
}

impl Body {
    /// Returns the ground speed, direction, vertical speed and steps per second of an act.
    fn act(act: Act) -> (f64, f64, f64, f64) {
        match act {
            Act::Stay => (0.0, 0.0, 0.0, 0.0),
            Act::Walk { heading_deg } => (1.3, heading_deg, 0.0, 1.8),
            Act::Stairs { mps, heading_deg } => (0.5, heading_deg, mps, 1.6),
            Act::Ride { mps } => (0.0, 0.0, mps, 0.0),
            Act::Drive { mps, climb_mps } => (mps, 90.0, climb_mps, 0.0),
        }
    }
}

/// Returns the samples of a script of acts with their seconds, kind by kind in time order.
pub(crate) fn samples(script: &[(Act, u32)], phone: Phone, seed: u64) -> Vec<Owned> {
    let mut noise = Noise::new(seed);
    let mut body = Body {
        east_m: 0.0,
        north_m: 0.0,
        height_m: 0.0,
        speed_mps: 0.0,
        steps: 0.0,
        climb_mps: 0.0,
    };
    let mut out = Vec::new();
    let mut accel: Vec<f32> = Vec::new();
    let mut t_sec: u32 = 0;
    for &(act, seconds) in script {
        for _ in 0..seconds {
            let (speed_mps, heading_deg, climb_mps, cadence_hz) = Body::act(act);
            let push = climb_mps - body.climb_mps;
            body.climb_mps = climb_mps;
            body.speed_mps = speed_mps;
            body.east_m += speed_mps * heading_deg.to_radians().sin();
            body.north_m += speed_mps * heading_deg.to_radians().cos();
            body.height_m += climb_mps;
            body.steps += cadence_hz;
            let shakes = matches!(act, Act::Drive { .. });
            // The push of a cabin; the gait below covers stairs, which are climbed in steps.
            let lift = if matches!(act, Act::Ride { .. } | Act::Stay) {
                push
            } else {
                0.0
            };
            for place in 0..IMU_HZ {
                let t = f64::from(t_sec) + place as f64 / IMU_HZ as f64;
                let gait = if cadence_hz > 0.0 {
                    2.2 * (std::f64::consts::TAU * cadence_hz * t).sin()
                } else {
                    0.0
                };
                let rough = if shakes { 0.3 } else { 0.06 };
                accel.push((9.81 + lift + gait + rough * noise.next()) as f32 + phone.bias);
            }
            emit(&mut out, phone, &body, t_sec, &mut noise);
            t_sec += 1;
            if phone.imu && accel.len() == IMU_HZ * phone.imu_sec {
                out.push(array(&mut accel, t_sec));
            }
        }
    }
    if phone.imu && !accel.is_empty() {
        out.push(array(&mut accel, t_sec));
    }
    out.sort_by_key(|owned| owned.sample().t_ms());
    out
}

fn array(accel: &mut Vec<f32>, end_sec: u32) -> Owned {
    let z = std::mem::take(accel);
    let t_ms = end_sec * 1_000 - (z.len() * 1_000 / IMU_HZ) as u32;
    Owned::Imu {
        t_ms,
        accel: [vec![0.0; z.len()], vec![0.0; z.len()], z],
    }
}

fn emit(out: &mut Vec<Owned>, phone: Phone, body: &Body, t_sec: u32, noise: &mut Noise) {
    let t_ms = t_sec * 1_000;
    if phone.location {
        let wander_m = 0.3 * f64::from(phone.accuracy_m).min(5.0);
        let at = point(
            body.east_m + wander_m * noise.next(),
            body.north_m + wander_m * noise.next(),
        );
        out.push(Owned::Plain(Sample::Location(Location {
            t_ms: t_ms + 100,
            lat: at.lat,
            lng: at.lng,
            accuracy_m: Some(phone.accuracy_m),
            altitude_m: None,
            speed_mps: Some(body.speed_mps as f32),
            bearing_deg: None,
            mock: false,
            provider: None,
        })));
    }
    if phone.pressure {
        for part in 0..2 {
            let height_m = body.height_m + 0.1 * noise.next();
            let hpa = (1_013.0 * (-height_m / 8_434.0).exp()) as f32;
            out.push(Owned::Plain(Sample::Pressure(Pressure {
                t_ms: t_ms + 200 + 500 * part,
                hpa,
            })));
        }
    }
    if phone.steps {
        out.push(Owned::Plain(Sample::Steps(Steps {
            t_ms: t_ms + 900,
            count: 1_000 + body.steps as u32,
        })));
    }
}

/// Returns the samples in batches of `size`.
pub(crate) fn batches(samples: &[Owned], size: usize) -> Vec<PackedBatch> {
    let chunks = samples.chunks(size.max(1));
    chunks
        .map(|chunk| {
            let mut builder = BatchBuilder::default();
            for owned in chunk {
                builder.push(&owned.sample()).unwrap();
            }
            builder.pack()
        })
        .collect()
}

/// Returns the events of the samples in batches of `size`.
pub(crate) fn events_of(context: &SessionContext, samples: &[Owned], size: usize) -> Vec<Event> {
    let mut timeline = Timeline::default();
    for batch in batches(samples, size) {
        timeline.push_batch(context, &batch).unwrap();
    }
    timeline.finish(context);
    timeline.events().to_vec()
}

/// Returns the events of one type.
pub(crate) fn of_type(events: &[Event], event_type: EventType) -> Vec<Event> {
    events
        .iter()
        .copied()
        .filter(|event| event.event_type == event_type)
        .collect()
}

/// Returns the samples as they would arrive if each kind lagged by its own time, which changes
/// every few seconds: at most `lag_ms`.
pub(crate) fn delayed(samples: &[Owned], lag_ms: u32, seed: u64) -> Vec<Owned> {
    let mut keyed: Vec<(u32, usize, Owned)> = Vec::new();
    let mut newest = [0_u32; Kind::ALL.len()];
    for (place, owned) in samples.iter().enumerate() {
        let sample = owned.sample();
        let (kind, t_ms) = (sample.kind() as usize, sample.t_ms());
        let mut noise = Noise::new(
            seed.wrapping_mul(31)
                .wrapping_add(kind as u64 * 7 + u64::from(t_ms / 7_000)),
        );
        noise.next();
        let lag = ((noise.next() + 1.0) / 2.0 * f64::from(lag_ms)) as u32;
        // The order within a kind is kept.
        newest[kind] = newest[kind].max(t_ms + lag);
        keyed.push((newest[kind], place, owned.clone()));
    }
    keyed.sort_by_key(|(at_ms, place, _)| (*at_ms, *place));
    keyed.into_iter().map(|(_, _, owned)| owned).collect()
}
