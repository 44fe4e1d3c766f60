//! Modifies recorded samples as a fraudulent courier or a failing stream would.

use libm::{cos, exp, sin};

use super::Kind;
use super::acts::Plan;
use crate::rng::{Draw, Wander};
use crate::sample::{Fix, Reading, Sample, rounded};
use crate::world::World;

/// Changes the samples as the kind requires.
pub(crate) fn forge(
    kind: Kind,
    plan: &Plan,
    world: &World,
    draw: &mut Draw,
    samples: &mut Vec<Sample>,
) {
    match kind {
        Kind::MockFixes => simulate_fixes(plan, world, draw, samples, true),
        Kind::SpoofedWalk => simulate_fixes(plan, world, draw, samples, false),
        Kind::Teleport => teleport(plan, world, draw, samples),
        Kind::ThinData => thin(draw, samples),
        Kind::InterruptedAtDoor => {
            if let Some(&(from, to)) = plan.script.visits.last() {
                let (from, to) = silence(from, to);
                samples.retain(|sample| sample.ready_t < from || sample.ready_t > to);
            }
        }
        _ => {}
    }
}

/// Returns the silent span around a stay at the door.
pub(crate) fn silence(from: f64, to: f64) -> (f64, f64) {
    (from - 12.0, to.max(from + 15.0) + 15.0)
}

/// The noise that a route-simulating app adds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    /// The app adds no noise.
    None,
    /// Independent noise per fix, in metres.
    Dice(f64),
    /// Drifting noise as from a receiver: the error in metres and its memory in seconds.
    Wander(f64, f64),
}

/// The quality of the simulated fixes of a route.
#[derive(Debug, Clone, Copy)]
struct Craft {
    noise: Noise,
    /// The claimed accuracy of the fixes; `claim_wanders` is its fluctuation.
    accuracy_m: f64,
    claim_wanders: f64,
    /// The error of the altitude in metres; 0 for a constant altitude, `None` for no altitude.
    altitude: Option<f64>,
}

impl Craft {
    /// Draws the quality: half of the apps add no noise, one in five adds that of a receiver. The
    /// platform's interface for simulated fixes requires an accuracy, and most apps use a constant.
    fn draw(draw: &mut Draw) -> Self {
        let noise = match draw.whole(0, 9) {
            0..=4 => Noise::None,
            5..=7 => Noise::Dice(draw.range(0.5, 3.0)),
            _ => Noise::Wander(draw.range(1.0, 4.0), draw.range(12.0, 40.0)),
        };
        Self {
            noise,
            accuracy_m: rounded(draw.range(3.0, 12.0), 1),
            claim_wanders: if draw.chance(0.25) { 0.12 } else { 0.0 },
            altitude: match draw.whole(0, 9) {
                0..=5 => Some(0.0),
                6 | 7 => Some(draw.range(1.0, 5.0)),
                _ => None,
            },
        }
    }
}

/// Replaces the fixes with those of a route-simulating app: positions on the route plus the app's
/// noise.
fn simulate_fixes(
    plan: &Plan,
    world: &World,
    draw: &mut Draw,
    samples: &mut [Sample],
    flagged: bool,
) {
    let Some(route) = &plan.claims else { return };
    let craft = Craft::draw(draw);
    let (off_m, memory_s) = match craft.noise {
        Noise::Wander(off_m, memory_s) => (off_m, memory_s),
        _ => (0.0, 1.0),
    };
    let mut wander = [0.0; 2].map(|_| Wander::new(&mut draw.rng, off_m, memory_s));
    let mut claim = Wander::new(&mut draw.rng, craft.claim_wanders, 20.0);
    let mut height = Wander::new(&mut draw.rng, 1.0, 60.0);
    for sample in samples {
        let Some(tick) = route.at(sample.t) else {
            continue;
        };
        let Reading::Location(fix) = &mut sample.reading else {
            continue;
        };
        let off = match craft.noise {
            Noise::None => [0.0; 2],
            Noise::Dice(off_m) => [0.0; 2].map(|_| off_m * draw.rng.normal()),
            Noise::Wander(..) => wander
                .each_mut()
                .map(|axis| axis.step(&mut draw.rng, 1.0, off_m)),
        };
        let (lat, lng) = world.degrees((tick.east_m + off[0], tick.north_m + off[1]));
        let claim_m = craft.accuracy_m * exp(claim.step(&mut draw.rng, 1.0, craft.claim_wanders));
        let height_m = height.step(&mut draw.rng, 1.0, 1.0);
        *fix = Fix {
            lat: rounded(lat, 7),
            lng: rounded(lng, 7),
            accuracy_m: Some(rounded(claim_m, 1)),
            altitude_m: craft
                .altitude
                .map(|off_m| rounded(world.altitude_m + off_m * height_m, 1)),
            speed_mps: Some(rounded(tick.speed_mps, 2)),
            bearing_deg: Some(rounded(world.course_deg(tick.heading_rad), 1).min(359.9)),
            mock: flagged,
            provider: Some("gnss"),
        };
    }
}

/// Moves the fixes to the address while the courier stands elsewhere; afterwards they are true
/// again.
fn teleport(plan: &Plan, world: &World, draw: &mut Draw, samples: &mut [Sample]) {
    let marked_t = plan
        .script
        .marks
        .first()
        .map_or(plan.script.now() * 0.7, |mark| mark.0);
    let (from, to) = (
        marked_t - draw.range(20.0, 60.0),
        marked_t + draw.range(10.0, 60.0),
    );
    let constant_m = rounded(draw.range(4.0, 10.0), 1);
    let turn = draw.range(0.0, std::f64::consts::TAU);
    for sample in samples
        .iter_mut()
        .filter(|sample| sample.t >= from && sample.t < to)
    {
        let Reading::Location(fix) = &mut sample.reading else {
            continue;
        };
        let (east, north) = plan.address;
        let off_m = 4.0 + draw.rng.normal();
        let (lat, lng) = world.degrees((east + off_m * sin(turn), north + off_m * cos(turn)));
        (fix.lat, fix.lng) = (rounded(lat, 7), rounded(lng, 7));
        fix.accuracy_m = Some(constant_m);
        fix.speed_mps = Some(0.0);
    }
}

/// Keeps a handful of fixes, one every minute or two.
fn thin(draw: &mut Draw, samples: &mut Vec<Sample>) {
    let mut next_t = draw.range(5.0, 40.0);
    let mut left = draw.whole(2, 5);
    samples.retain(|sample| {
        let keep = left > 0 && sample.t >= next_t;
        if keep {
            left -= 1;
            next_t = sample.t + draw.range(45.0, 120.0);
        }
        keep
    });
}
