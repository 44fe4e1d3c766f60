//! A simulated delivery: the phone's requests and samples, and the truth.

use porchlight_schema::insight::ReasonCode;
use serde_json::{Value, json};

use super::phone::{Kit, MotionSensor, Phone};
use super::rng::{Draw, Rng};
use super::sample::{Reading, Sample, rounded};
use super::scenario::{Kind, Plan, Scenario, forge, silence};
use super::script::Mode;
use super::stream::{Batches, Loss};
use super::truth::{self, Truth, gps_events};
use super::world::World;

/// The minimum length of a silence that is never interpolated (contract 4).
const GAP_S: f64 = 30.0;

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// The phone stops the session at this second.
    Stop(f64),
    /// The phone never stops the session.
    TimeOut,
}

/// A simulated delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The scenario that produced the delivery.
    pub scenario: Scenario,
    /// The sensors of the phone.
    pub kit: Kit,
    /// The body of `POST /v1/sessions/start`, without `startedAt`.
    pub start: Value,
    /// The samples, in the order in which the phone can send them.
    pub samples: Vec<Sample>,
    /// The body of `POST /v1/sessions/{id}/pod`, if a proof of delivery is attached.
    pub pod: Option<Value>,
    /// The end of the session.
    pub end: End,
    /// The end of the recording in seconds since the start, which is also the time of the stop, if
    /// there is one.
    pub end_t: f64,
    /// The true course of the delivery.
    pub truth: Truth,
}

impl Scenario {
    /// Simulates the delivery.
    #[must_use]
    pub fn deliver(self) -> Delivery {
        self.deliver_at(None)
    }

    /// Simulates the delivery on a known street that runs east: the vehicle passes this point, in
    /// degrees of latitude and longitude, and the building stands north of it. Everything else is
    /// as in [`Self::deliver`].
    #[must_use]
    pub fn deliver_on_street(self, street_deg: (f64, f64)) -> Delivery {
        self.deliver_at(Some(street_deg))
    }

    fn deliver_at(self, street_deg: Option<(f64, f64)>) -> Delivery {
        let seed = self.seed.wrapping_mul(64).wrapping_add(self.kind as u64);
        let mut draw = Draw::new(Rng::new(seed, 1), self.set);
        let mut world = World::draw(&mut draw);
        if let Some(street_deg) = street_deg {
            world.place_on_street(street_deg);
        }
        let mut phone = Phone::draw(&mut draw, self.kit.or(self.kind.kit()));
        if self.kind == Kind::MotionOnly && phone.kit.motion == MotionSensor::None {
            phone.kit.motion = MotionSensor::Motion;
        }
        if self.kind == Kind::SpoofedWalk && self.kit.is_none() {
            phone.kit = self.spoofers_kit(phone.kit);
        }
        if self.kind == Kind::HandledPhone {
            phone = phone.handled(&mut Draw::new(Rng::new(self.seed, 5), self.set));
        }
        let plan = self.act(&world, &mut draw);
        let mut samples = phone.record(&plan.script, plan.claims.as_ref(), &world, seed);
        forge(self.kind, &plan, &world, &mut draw, &mut samples);
        Delivery::assemble(self, phone.kit, &world, plan, samples, &mut draw)
    }
}

impl Delivery {
    fn assemble(
        scenario: Scenario,
        kit: Kit,
        world: &World,
        plan: Plan,
        samples: Vec<Sample>,
        draw: &mut Draw,
    ) -> Self {
        let end_t = rounded(plan.script.now() + 1.0, 3);
        let start = start_body(scenario, &kit, world, &plan, draw);
        let truth = truth_of(scenario, &kit, &plan, &samples, end_t);
        let number = scenario.seed;
        let pod = plan.pod.then(
            || json!({ "type": "photo", "url": format!("https://pod.example/{number}.jpg") }),
        );
        let end = if scenario.kind == Kind::TimedOut {
            End::TimeOut
        } else {
            End::Stop(end_t)
        };
        Self {
            scenario,
            kit,
            start,
            samples,
            pod,
            end,
            end_t,
            truth,
        }
    }

    /// Splits the samples into batches of `seconds` each, numbered from 0; spans without samples
    /// produce no batch.
    #[must_use]
    pub fn batches(&self, seconds: f64) -> Batches<'_> {
        Batches::new(&self.samples, seconds)
    }

    /// Returns the delivery with a part of its samples lost. The truth stays unchanged.
    #[must_use]
    pub fn with_loss(&self, loss: &Loss) -> Self {
        Self {
            samples: loss.apply(self.scenario.seed, &self.samples),
            ..self.clone()
        }
    }
}

fn point(world: &World, place: (f64, f64)) -> Value {
    let (lat, lng) = world.degrees(place);
    json!({ "lat": rounded(lat, 7), "lng": rounded(lng, 7) })
}

fn start_body(scenario: Scenario, kit: &Kit, world: &World, plan: &Plan, draw: &mut Draw) -> Value {
    // A geocoded point is off by a few metres, and its accuracy roughly reflects that.
    let exact_m = draw.range(3.0, 18.0);
    let off = (
        exact_m / 1.51 * draw.rng.normal(),
        exact_m / 1.51 * draw.rng.normal(),
    );
    let mut address = point(world, (plan.address.0 + off.0, plan.address.1 + off.1));
    address["line1"] = json!(format!("{} Lindenweg", draw.whole(1, 200)));
    address["city"] = json!("Musterstadt");
    address["country"] = json!("DE");
    if draw.chance(0.6) {
        address["accuracyM"] = json!(rounded(exact_m, 0));
    }
    if let Some(floor) = plan.floor {
        address["floor"] = json!(floor);
        if draw.chance(0.4) {
            address["storeyHeightM"] = json!(rounded(world.storey_m, 1));
        }
        if draw.chance(0.4) && plan.script.entrance_t.is_some() {
            address["entrance"] = point(world, (0.0, 0.0));
        }
    }
    if !plan.gates.is_empty() {
        address["gates"] = plan.gates.iter().map(|&gate| point(world, gate)).collect();
    }
    let platform = draw.choose("android", &["ios"]);
    json!({
        "deliveryId": format!("{}-{}", scenario.kind.as_str(), scenario.seed),
        "externalRiderId": format!("rider-{}", scenario.seed % 97),
        "sessionType": "delivery",
        "address": address,
        "device": {
            "platform": platform,
            "model": "simulated",
            "osVersion": "1",
            "sdkVersion": "sim",
            "sensors": kit.sensors(),
        },
    })
}

fn truth_of(scenario: Scenario, kit: &Kit, plan: &Plan, samples: &[Sample], end_t: f64) -> Truth {
    let script = &plan.script;
    let mut events = truth::movement(&script.ticks);
    events.extend(truth::annotations(script));
    let mut added = plan.added.clone();
    match scenario.kind {
        Kind::InterruptedAtDoor => {
            if let Some(&(from, to)) = script.visits.last() {
                events = truth::cut(&events, silence(from, to));
            }
            added = vec![ReasonCode::TelemetryStreamInterrupted];
        }
        // Every fix stands alone between two gaps, so no event can be seen.
        Kind::ThinData => {
            events.clear();
            added = vec![ReasonCode::TelemetryStreamInterrupted];
        }
        Kind::TimedOut => added.push(ReasonCode::SessionTimeout),
        Kind::MotionOnly => added.clear(),
        _ => {}
    }
    if scenario.kind != Kind::ThinData && kit.location {
        events.extend(gps_of(samples));
    }
    for silence in silences(samples) {
        events = truth::cut(&events, silence);
    }
    events.sort_by_key(|event| (event.t_start_ms, event.event_type, event.t_end_ms));
    let dwell = script.visits.last().copied();
    let reached = dwell.and_then(|(from, _)| script.at(from + 0.5));
    Truth {
        events,
        entrance_t: script.entrance_t,
        dwell: dwell.map(|(from, to)| (rounded(from, 1), rounded(to.min(end_t), 1))),
        right_doorstep: plan.right_doorstep,
        floors_climbed: reached.map(|tick| tick.floor),
        elevator_used: script.ticks.iter().any(|tick| tick.mode == Mode::Ride),
        // A visit without samples cannot be counted, and the field cannot be null.
        attempt_cycles: plan
            .attempt_cycles
            .filter(|_| !matches!(scenario.kind, Kind::ThinData | Kind::InterruptedAtDoor)),
        outcome: scenario.outcome(plan.outcome, reached.is_some_and(|tick| tick.floor != 0)),
        added,
        fraudulent: plan.fraudulent,
        phone_carried: plan.carried,
    }
}

/// Returns the silences that are too long for an event to span them (contract 4).
fn silences(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut sample_t: Vec<f64> = samples.iter().map(|sample| sample.t).collect();
    sample_t.sort_by(f64::total_cmp);
    let pairs = sample_t.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(from, to)| to - from >= GAP_S).collect()
}

fn gps_of(samples: &[Sample]) -> Vec<truth::TruthEvent> {
    let mut fixes = Vec::new();
    let mut alive_t = Vec::new();
    for sample in samples {
        match &sample.reading {
            Reading::Location(fix) => fixes.push((sample.t, fix.accuracy_m)),
            _ => alive_t.push(sample.t),
        }
    }
    alive_t.sort_by(f64::total_cmp);
    gps_events(&fixes, &alive_t)
}
