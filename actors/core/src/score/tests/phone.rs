//! A plain phone, as written by an outsider who knows the contract and nothing of the detectors.
//! Samples are JSON lines, read and replayed as a service would; every sensor is as simple as it
//! can be.

use std::fmt::Write as _;

use porchlight_schema::insight::Score;
use porchlight_schema::sample::json::decode_sample;
use porchlight_schema::sample::packed::BatchBuilder;
use porchlight_schema::session::{Address, PodType, Point};
use porchlight_schema::time::TimestampMs;
use serde_json::{Value, json};

use crate::context::SessionContext;
use crate::score::{Knowledge, PodInput, ScoreInput, Scored, score_and_learn};
use crate::session::replay::Replay;

/// The metres in a degree of latitude, on the sphere.
const DEGREE_M: f64 = 111_195.0;
const LAT: f64 = 48.2;
const LNG: f64 = 11.6;

/// The kind of position error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    /// Positions have no error.
    None,
    /// Each fix has an independent error of 2 m.
    Dice,
    /// The error wanders, as in a receiver.
    Wander,
}

/// The movement of a body.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gait {
    Rests,
    Walks,
    Climbs,
    Rides { pushes: f64 },
    Drives,
}

/// A phone that records.
#[derive(Debug, Clone)]
pub(super) struct Phone {
    error: Error,
    seed: u64,
    t: f64,
    at: (f64, f64),
    height_m: f64,
    wander: (f64, f64),
    gust: f64,
    /// The steps up to each second.
    steps: Vec<f64>,
    indoors_since: Option<f64>,
    silent: bool,
    lines: String,
    without: Vec<&'static str>,
    address: Address,
    /// Whether the platform marks fixes as simulated.
    pub(super) mock: bool,
    /// Whether the body lies on a table, regardless of the positions.
    pub(super) lies: bool,
    /// Whether the car is so soft that the phone measures no motion in it.
    pub(super) soft: bool,
    /// Whether the phone sends no fix while it stays in place.
    pub(super) frugal: bool,
    /// Whether the phone reports only mean and spread of the body's motion.
    pub(super) terse: bool,
    /// The acceleration that the phone reports as 1, m/s².
    pub(super) accel_unit: f64,
    /// Whether the accelerometer repeats one reading.
    pub(super) is_stuck: bool,
    /// Whether it locates itself by stations where reception is lost, good to 30 m.
    pub(super) by_stations: bool,
    /// Whether its fixes always report a speed of 0.
    pub(super) mute: bool,
    /// Whether every sixth fix is one of a network: up to 60 m off, with an accuracy of 0 and no
    /// speed.
    pub(super) has_network_fixes: bool,
    /// The step to which the phone's barometer rounds, hPa.
    pub(super) round_hpa: Option<f64>,
    /// The seconds from fix to fix, and from one report of the step counter to the next.
    pub(super) fix_every: f64,
    pub(super) count_every: f64,
    /// The seconds by which the step counter is late.
    pub(super) count_late: usize,
    /// The speed at which it drives, walks, climbs stairs and rides, m/s.
    pub(super) drive_mps: f64,
    pub(super) walk_mps: f64,
    pub(super) stairs_mps: f64,
    pub(super) lift_mps: f64,
    /// The steps per second on stairs.
    pub(super) stairs_hz: f64,
    /// The rise per metre of the streets on which it drives and walks.
    pub(super) grade: f64,
    /// The seconds from pressure to pressure, and the roughness of the pressure, hPa.
    pub(super) pressure_every: f64,
    pub(super) rough_hpa: f64,
    /// The strength of gusts in the open, hPa. Each lasts some seconds.
    pub(super) gust_hpa: f64,
    /// The difference between the pressure in a house and in the street, hPa.
    pub(super) house_hpa: f64,
    /// The metres added to the accuracy of each fix.
    pub(super) vaguer_m: f64,
    /// The seconds from the last sample to the end of the session.
    pub(super) ends_after: f64,
    pub(super) timed_out: bool,
    pub(super) pod: bool,
    /// The time at which the proof arrives, in seconds since the start; the end if `None`.
    pub(super) pod_at: Option<f64>,
    /// The time by which the phone's clock is ahead of the service's, in milliseconds. The service
    /// sets the times of the proof and of the end.
    pub(super) clock_ahead_ms: u32,
}

impl Phone {
    /// Creates a phone in the street, 800 m west of the address, which is the origin.
    pub(super) fn new(error: Error, seed: u64) -> Self {
        Self {
            error,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            t: 0.0,
            at: (-800.0, -30.0),
            height_m: 0.0,
            wander: (0.0, 0.0),
            gust: 0.0,
            steps: vec![1_000.0],
            indoors_since: None,
            silent: false,
            lines: String::new(),
            without: Vec::new(),
            address: Address {
                line1: "1 Street".to_owned(),
                city: "Town".to_owned(),
                country: "DE".to_owned(),
                ..Address::at(Point { lat: LAT, lng: LNG })
            },
            mock: false,
            lies: false,
            soft: false,
            frugal: false,
            terse: false,
            accel_unit: 1.0,
            is_stuck: false,
            by_stations: false,
            mute: false,
            has_network_fixes: false,
            round_hpa: None,
            fix_every: 1.0,
            count_every: 1.0,
            count_late: 0,
            drive_mps: 9.0,
            walk_mps: 1.3,
            stairs_mps: 0.3,
            lift_mps: 1.2,
            stairs_hz: 1.8,
            grade: 0.0,
            pressure_every: 1.0,
            rough_hpa: 0.01,
            gust_hpa: 0.0,
            house_hpa: 0.0,
            vaguer_m: 0.0,
            ends_after: 0.0,
            timed_out: false,
            pod: false,
            pod_at: None,
            clock_ahead_ms: 0,
        }
    }

    /// Sets a field of the address, by its name in the API.
    pub(super) fn address(mut self, name: &str, value: Value) -> Self {
        let point = |value: &Value| Point {
            lat: value["lat"].as_f64().unwrap(),
            lng: value["lng"].as_f64().unwrap(),
        };
        let number = || value.as_f64().unwrap();
        let address = &mut self.address;
        match name {
            "lat" => address.point.lat = number(),
            "lng" => address.point.lng = number(),
            "unit" => address.unit = value.as_str().map(str::to_owned),
            "floor" => address.floor = Some(number() as i16),
            "accuracyM" => address.accuracy_m = number() as f32,
            "storeyHeightM" => address.storey_height_m = Some(number() as f32),
            "entrance" => address.entrance = Some(point(&value)),
            "gates" => address.gates = value.as_array().unwrap().iter().map(point).collect(),
            other => panic!("an address has no field {other}"),
        }
        self
    }

    /// Returns a place by metres east and north of the address, in the API's format.
    pub(super) fn point(east: f64, north: f64) -> Value {
        json!({ "lat": LAT + north / DEGREE_M, "lng": LNG + east / (DEGREE_M * libm::cos(LAT.to_radians())) })
    }

    /// Removes these sensor kinds from the phone.
    pub(super) fn without(mut self, kinds: &[&'static str]) -> Self {
        self.without.extend(kinds);
        self
    }

    /// Returns an evenly distributed number in −1 to 1 (xorshift, Marsaglia 2003).
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 40) as f64 / f64::from(1_u32 << 23) - 1.0
    }

    /// Returns an approximately normal number with spread 1.
    fn noise(&mut self) -> f64 {
        (self.chance() + self.chance() + self.chance()) * 1.0
    }

    fn say(&mut self, kind: &str, mut sample: Value) {
        if self.silent || self.without.contains(&kind) {
            return;
        }
        sample["t"] = json!(self.t);
        sample["kind"] = json!(kind);
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "{sample}");
    }

    fn second(&mut self, gait: Gait, speed_mps: f64) {
        if speed_mps > 0.0 || !self.frugal {
            self.locate(speed_mps);
        }
        let house_hpa = self.indoors_since.map_or(0.0, |_| self.house_hpa);
        if self.gust_hpa > 0.0 {
            self.gust = 0.8 * self.gust + 0.6 * self.noise();
        }
        let gust_hpa = if self.indoors_since.is_none() {
            self.gust_hpa * self.gust
        } else {
            0.0
        };
        let hpa = 1_013.25 * libm::exp(-self.height_m / 8_434.0)
            + house_hpa
            + gust_hpa
            + self.rough_hpa * self.chance();
        let hpa = match self.round_hpa {
            Some(step) => (hpa / step).round() * step,
            None => hpa,
        };
        if self.t % self.pressure_every == 0.0 {
            self.say("pressure", json!({ "hPa": hpa }));
        }
        let gait = if self.lies { Gait::Rests } else { gait };
        let cadence = match gait {
            Gait::Walks => 1.8,
            Gait::Climbs => self.stairs_hz,
            _ => 0.0,
        };
        let newest = self.steps.len() - 1;
        self.steps.push(self.steps[newest] + cadence);
        let count = self.steps[(newest + 1).saturating_sub(self.count_late)] as u64;
        if self.t % self.count_every == 0.0 {
            self.say("steps", json!({ "count": count }));
        }
        let (spread, vertical) = match gait {
            Gait::Rests => (0.04, 0.0),
            Gait::Walks => (2.0, 0.0),
            Gait::Climbs => (2.3, 0.0),
            Gait::Rides { pushes } => (0.06, pushes),
            Gait::Drives => (if self.soft { 0.04 } else { 0.5 }, 0.0),
        };
        let spread = spread * (1.0 + 0.1 * self.chance());
        let (vertical, spread) = if self.is_stuck {
            (0.0, 0.0)
        } else {
            (vertical / self.accel_unit, spread / self.accel_unit)
        };
        let mut motion =
            json!({ "accelMean": 9.81 / self.accel_unit + vertical, "accelStd": spread });
        if !self.terse {
            motion["verticalMean"] = json!(vertical);
            motion["cadenceHz"] = json!(cadence);
        }
        self.say("motion", motion);
        self.t += 1.0;
    }

    fn locate(&mut self, speed_mps: f64) {
        if self.t % self.fix_every != 0.0 {
            return;
        }
        // Reception fades within 15 s of a doorway, and is then lost.
        let indoors = self.indoors_since.map(|since| self.t - since);
        let accuracy = match indoors {
            None => 5.0,
            Some(sec) if sec <= 15.0 => 5.0 + 6.0 * sec,
            Some(_) if self.by_stations => 30.0,
            Some(_) => return,
        };
        let accuracy = accuracy + self.vaguer_m;
        let (east, north) = (self.noise(), self.noise());
        let off = match self.error {
            Error::None => (0.0, 0.0),
            Error::Dice => (2.0 * east, 2.0 * north),
            Error::Wander => {
                self.wander.0 = 0.95 * self.wander.0 + 0.8 * east;
                self.wander.1 = 0.95 * self.wander.1 + 0.8 * north;
                self.wander
            }
        };
        let scale = if self.error == Error::None {
            0.0
        } else {
            accuracy / 5.0
        };
        let mut sample = Self::point(self.at.0 + scale * off.0, self.at.1 + scale * off.1);
        sample["accuracyM"] = json!(accuracy);
        sample["speedMps"] = json!(if self.mute { 0.0 } else { speed_mps });
        if self.mock {
            sample["mock"] = json!(true);
        }
        if self.has_network_fixes && self.t % 6.0 == 0.0 {
            sample = Self::point(self.at.0 + 60.0 * self.chance(), self.at.1);
            sample["accuracyM"] = json!(0.0);
        }
        self.say("location", sample);
    }

    fn go(&mut self, to: (f64, f64), gait: Gait, speed_mps: f64) {
        let from = self.at;
        let way = (to.0 - from.0, to.1 - from.1);
        let seconds = (libm::hypot(way.0, way.1) / speed_mps).ceil().max(1.0);
        for second in 1..=seconds as u32 {
            let part = f64::from(second) / seconds;
            self.at = (from.0 + part * way.0, from.1 + part * way.1);
            self.height_m += self.grade * libm::hypot(way.0, way.1) / seconds;
            self.second(gait, speed_mps);
        }
    }

    pub(super) fn drive(mut self, east: f64, north: f64) -> Self {
        self.go((east, north), Gait::Drives, self.drive_mps);
        self
    }

    pub(super) fn walk(mut self, east: f64, north: f64) -> Self {
        self.go((east, north), Gait::Walks, self.walk_mps);
        self
    }

    pub(super) fn stay(mut self, seconds: u32) -> Self {
        for _ in 0..seconds {
            self.second(Gait::Rests, 0.0);
        }
        self
    }

    /// Climbs the given metres by stairs, or by an elevator that accelerates and brakes at 1 m/s².
    pub(super) fn climb(mut self, metres: f64, elevator: bool) -> Self {
        let from_m = self.height_m;
        let way_m = metres.abs();
        // Over a short distance the elevator never reaches its speed.
        let (speed_mps, ramp_sec) = if elevator {
            let speed_mps = self.lift_mps.min(way_m.sqrt());
            (speed_mps, speed_mps)
        } else {
            (self.stairs_mps, 0.0)
        };
        let total_sec = way_m / speed_mps + ramp_sec;
        let speed_at = |t: f64| t.min(total_sec - t).clamp(0.0, speed_mps);
        let way_at = |t: f64| {
            let left_sec = (total_sec - t).max(0.0);
            if t <= ramp_sec {
                t * t / 2.0
            } else if left_sec <= ramp_sec {
                way_m - left_sec * left_sec / 2.0
            } else {
                speed_mps * (t - ramp_sec / 2.0)
            }
        };
        for second in 0..total_sec.ceil() as u32 {
            let t = f64::from(second);
            self.height_m = from_m + way_at((t + 0.5).min(total_sec)) * metres.signum();
            let pushes = (speed_at(t + 1.0) - speed_at(t)) * metres.signum();
            let gait = if elevator {
                Gait::Rides { pushes }
            } else {
                Gait::Climbs
            };
            self.second(gait, 0.0);
        }
        self.height_m = from_m + metres;
        self
    }

    pub(super) fn go_in(mut self) -> Self {
        self.indoors_since = Some(self.t);
        self
    }

    pub(super) fn come_out(mut self) -> Self {
        self.indoors_since = None;
        self
    }

    pub(super) fn mark(mut self, name: &str) -> Self {
        self.say("mark", json!({ "name": name }));
        self
    }

    pub(super) fn system(mut self, name: &str) -> Self {
        self.say("system", json!({ "name": name }));
        self
    }

    /// Performs `act` without sending data.
    pub(super) fn without_data(mut self, act: impl FnOnce(Self) -> Self) -> Self {
        self.silent = true;
        let mut phone = act(self);
        phone.silent = false;
        phone
    }

    /// Performs `act` without sending data of these sensor kinds.
    pub(super) fn without_during(
        mut self,
        kinds: &[&'static str],
        act: impl FnOnce(Self) -> Self,
    ) -> Self {
        let before = self.without.clone();
        self.without.extend(kinds);
        let mut phone = act(self);
        phone.without = before;
        phone
    }

    /// Continues the positions from another place.
    pub(super) fn leap(mut self, east: f64, north: f64) -> Self {
        self.at = (east, north);
        self
    }

    /// Sets the phone's clock back.
    pub(super) fn set_back(mut self, seconds: f64) -> Self {
        self.t -= seconds;
        self
    }

    pub(super) fn now_sec(&self) -> f64 {
        self.t
    }

    pub(super) fn scored(&self) -> Scored {
        let mut builder = BatchBuilder::default();
        let lines = self.lines.as_bytes().split(|&byte| byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            decode_sample(line, &mut builder).unwrap();
        }
        let context = SessionContext::of_address(&self.address, None);
        let mut replay = Replay::new(&context);
        replay.batch(0, &builder.pack());
        let replayed = replay.finish();
        let ended_ms = ((self.t + self.ends_after) * 1_000.0) as u32;
        let pod_ms = self.pod_at.map_or(ended_ms, |at| (at * 1_000.0) as u32);
        let created_at = TimestampMs(1_700_000_000_000);
        let started_at = created_at.plus_ms(i64::from(self.clock_ahead_ms));
        let received_at = created_at.plus_ms(i64::from(pod_ms));
        score_and_learn(&ScoreInput {
            context: &context,
            windows: &replayed.windows,
            events: &replayed.events,
            marks: &replayed.marks,
            system: &replayed.system,
            clock_steps: &replayed.clock_steps,
            pod: self
                .pod
                .then(|| PodInput::received(PodType::Photo, received_at, started_at, created_at)),
            duration_ms: ended_ms.saturating_sub(self.clock_ahead_ms),
            timed_out: self.timed_out,
            missing_batches: replayed.missing_batches,
            quarantined_batches: 0,
            known: &Knowledge::default(),
        })
    }

    pub(super) fn score(&self) -> Score {
        self.scored().score
    }
}
