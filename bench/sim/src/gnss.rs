//! Simulates position fixes. Outdoors, the error wanders with a memory of half a minute. Behind a
//! wall, the receiver first continues for a few seconds as if nothing had happened, then coasts
//! with worsening accuracy and falls silent. Outside again, it needs some seconds to recover.

use libm::{exp, hypot, log};

use super::rng::{Draw, Rng, Wander};
use super::sample::{Fix, Reading, Sample, rounded};
use super::script::{Script, Tick};
use super::world::World;

/// The behaviour of a receiver after it loses sight of the sky.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indoors {
    /// The claimed radius doubles every few seconds, up to hundreds of metres, while the last
    /// position is held or coasts; then silence with an occasional coarse fix (iPhones in New York,
    /// 62 entries).
    Ladder,
    /// Fixes stop some seconds after the entry.
    Silence,
    /// The platform switches to Wi-Fi: a fix every few seconds, 15 to 60 m off.
    Wifi,
    /// The receiver continues with the errors of [`Indoors::Wifi`] but claims its outdoor accuracy
    /// (Androids in a museum).
    Optimistic,
}

/// The parameters of a position receiver.
#[derive(Debug, Clone)]
pub(super) struct Receiver {
    interval_s: f64,
    /// The 68 % radius under the open sky.
    open_m: f64,
    /// The constant ratio of the claimed to the true accuracy.
    claim_factor: f64,
    memory_s: f64,
    indoors: Indoors,
    /// The time from losing the sky until the receiver notices.
    notice_s: f64,
    /// The time from regaining the sky until a good fix.
    return_s: f64,
    /// The duration of cell-tower fixes at the start.
    cold_s: f64,
    /// Whether the platform repeats its last fix at rest.
    repeats: bool,
    /// Whether accuracy claims come in steps (5, 10, 30, 50 …).
    stepped: bool,
}

/// The accuracy steps of platforms that round their claims.
const STEPS_M: [f64; 8] = [5.0, 10.0, 15.0, 25.0, 30.0, 50.0, 65.0, 100.0];
/// The share of visible sky below which the receiver has no signal.
const SKY_MIN: f64 = 0.25;

impl Receiver {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        let indoors = draw.choose(
            Indoors::Ladder,
            &[
                Indoors::Ladder,
                Indoors::Silence,
                Indoors::Wifi,
                Indoors::Optimistic,
            ],
        );
        let open_m = if draw.chance(0.3) {
            draw.range(7.0, 16.0)
        } else {
            draw.range(2.5, 7.0)
        };
        Self {
            interval_s: if draw.chance(0.85) {
                1.0
            } else {
                draw.range(2.0, 5.0)
            },
            open_m,
            claim_factor: draw.range(0.75, 1.5),
            memory_s: draw.range(12.0, 60.0),
            indoors,
            notice_s: draw.range(3.0, 10.0),
            return_s: draw.range(1.0, 8.0),
            cold_s: if draw.chance(0.35) {
                draw.range(2.0, 18.0)
            } else {
                0.0
            },
            repeats: indoors == Indoors::Ladder || draw.chance(0.25),
            stepped: indoors == Indoors::Ladder && draw.chance(0.7),
        }
    }

    fn claim(&self, radius_m: f64) -> f64 {
        if !self.stepped {
            return rounded(radius_m.max(1.0), 1);
        }
        STEPS_M
            .into_iter()
            .find(|&step| step >= radius_m)
            .unwrap_or_else(|| rounded(radius_m, 0))
    }

    /// Returns the fixes for a script.
    pub(super) fn fixes(&self, script: &Script, world: &World, rng: &mut Rng) -> Vec<Sample> {
        let mut run = Run::new(self, rng);
        let mut samples = Vec::new();
        let mut t = rng.range(0.0, self.interval_s);
        while t < script.now() {
            let Some(tick) = script.at(t) else { break };
            if let Some(fix) = run.fix(t, tick, world, rng) {
                samples.push(Sample::new(t, rng.range(0.0, 0.15), Reading::Location(fix)));
            }
            t += self.interval_s + rng.range(-0.03, 0.03);
        }
        samples
    }
}

/// The state of a receiver during a script.
struct Run<'r> {
    receiver: &'r Receiver,
    error: [Wander; 2],
    altitude: Wander,
    claim: Wander,
    last: Option<Fix>,
    last_t: f64,
    /// The time at which the view of the sky was lost; `None` while there is one.
    dark_t: Option<f64>,
    /// The time until which the receiver is recovering.
    back_t: f64,
    /// The drifting offset of the estimated from the true position without sky.
    drift: [Wander; 2],
    held: Option<(f64, f64)>,
    next_coarse_t: f64,
}

/// A moment in which the receiver sees no satellites.
struct Shadow {
    /// The time, seconds.
    t: f64,
    /// The time since the receiver saw satellites, seconds.
    dark_s: f64,
    /// The place to which the receiver's estimate has drifted, metres east and north.
    drifted: (f64, f64),
    /// The place that a receiver under open sky would report, metres east and north.
    place: (f64, f64),
}

impl<'r> Run<'r> {
    fn new(receiver: &'r Receiver, rng: &mut Rng) -> Self {
        // A 68 % radius is 1.51 standard deviations of each axis.
        let axis_m = receiver.open_m / 1.51;
        let mut wander = |deviation, memory_s| Wander::new(rng, deviation, memory_s);
        Self {
            receiver,
            error: [
                wander(axis_m, receiver.memory_s),
                wander(axis_m, receiver.memory_s),
            ],
            altitude: wander(4.0, 60.0),
            claim: wander(0.12, 20.0),
            last: None,
            last_t: 0.0,
            dark_t: None,
            back_t: receiver.cold_s,
            drift: [wander(9.0, 25.0), wander(9.0, 25.0)],
            held: None,
            next_coarse_t: 0.0,
        }
    }

    fn fix(&mut self, t: f64, tick: &Tick, world: &World, rng: &mut Rng) -> Option<Fix> {
        let dt_s = (t - self.last_t).max(0.01);
        self.last_t = t;
        if tick.sky < SKY_MIN {
            self.dark_t.get_or_insert(t);
        } else if let Some(dark_t) = self.dark_t.take() {
            self.held = None;
            // The receiver recovers from a short loss immediately, and takes its full time after a
            // long one.
            let share = (1.0 - exp(-(t - dark_t) / 20.0)).max(0.1);
            self.back_t = t + self.receiver.return_s * share * rng.range(0.7, 1.3);
        }
        // Nearby walls reflect signals: the error doubles when half of the sky is hidden.
        let radius_m = self.receiver.open_m * (1.0 + 2.0 * (1.0 - tick.sky.max(SKY_MIN)));
        let error = self
            .error
            .each_mut()
            .map(|axis| axis.step(rng, dt_s, radius_m / 1.51));
        let drift = self.drift.each_mut().map(|axis| axis.step(rng, dt_s, 14.0));
        let claim_m = radius_m * self.receiver.claim_factor * exp(self.claim.step(rng, dt_s, 0.12));
        let altitude_m = world.altitude_m + tick.height_m + self.altitude.step(rng, dt_s, 4.0);
        let dark_s = self.dark_t.map_or(0.0, |dark_t| t - dark_t);
        let place = (tick.east_m + error[0], tick.north_m + error[1]);
        let reading = if dark_s > self.receiver.notice_s {
            let shadow = Shadow {
                t,
                dark_s,
                drifted: (tick.east_m + drift[0], tick.north_m + drift[1]),
                place,
            };
            self.fix_without_signal(&shadow, tick, world, rng)
        } else if t < self.back_t {
            self.fix_while_recovering(t, place, world, rng)
        } else {
            self.fix_in_the_open(tick, place, claim_m, altitude_m, world, rng)
        };
        if reading.is_some() {
            self.last.clone_from(&reading);
        }
        reading
    }

    fn fix_in_the_open(
        &self,
        tick: &Tick,
        place: (f64, f64),
        claim_m: f64,
        altitude_m: f64,
        world: &World,
        rng: &mut Rng,
    ) -> Option<Fix> {
        // Recorded phones repeat every fifth fix outdoors, most of them at rest.
        if self.receiver.repeats && tick.speed_mps < 0.3 && rng.chance(0.6) {
            return self.last.clone();
        }
        let speed_mps = (tick.speed_mps + 0.25 * rng.normal()).max(0.0);
        let bearing_deg =
            world.course_deg(tick.heading_rad) + 60.0 / (1.0 + 4.0 * speed_mps) * rng.normal();
        let moving = speed_mps > 0.5;
        Some(Fix {
            speed_mps: Some(rounded(speed_mps, 2)),
            bearing_deg: Some(if moving {
                rounded(bearing_deg.rem_euclid(360.0), 1).min(359.9)
            } else {
                -1.0
            }),
            altitude_m: Some(rounded(altitude_m, 1)),
            ..bare(world, place, Some(self.receiver.claim(claim_m)), "gnss")
        })
    }

    fn fix_while_recovering(
        &mut self,
        t: f64,
        place: (f64, f64),
        world: &World,
        rng: &mut Rng,
    ) -> Option<Fix> {
        if t < self.receiver.cold_s && self.last.is_none() {
            self.held = Some((
                place.0 + 120.0 * rng.normal(),
                place.1 + 120.0 * rng.normal(),
            ));
        }
        if t < self.receiver.cold_s {
            let held = self.held.unwrap_or(place);
            let claim_m = if rng.chance(0.3) { 165.0 } else { 1414.0 };
            return Some(bare(world, held, Some(claim_m), "fused"));
        }
        // The accuracy improves as the good fix approaches: 100 m, 65 m, 30 m.
        let left_s = self.back_t - t;
        if left_s > 4.0 {
            return None;
        }
        let claim_m = 30.0 + 18.0 * left_s;
        let off_m = claim_m / 2.2;
        let place = (
            place.0 + off_m * rng.normal() * 0.5,
            place.1 + off_m * rng.normal() * 0.5,
        );
        Some(bare(
            world,
            place,
            Some(self.receiver.claim(claim_m)),
            "fused",
        ))
    }

    fn fix_without_signal(
        &mut self,
        shadow: &Shadow,
        tick: &Tick,
        world: &World,
        rng: &mut Rng,
    ) -> Option<Fix> {
        let &Shadow {
            t,
            dark_s,
            drifted,
            place,
        } = shadow;
        let noticed_s = dark_s - self.receiver.notice_s;
        match self.receiver.indoors {
            Indoors::Silence => {
                (noticed_s < 4.0).then(|| bare(world, place, Some(30.0 + 10.0 * noticed_s), "gnss"))
            }
            Indoors::Wifi | Indoors::Optimistic => {
                let every_s = if self.receiver.indoors == Indoors::Wifi {
                    6.0
                } else {
                    1.0
                };
                if t < self.next_coarse_t {
                    return None;
                }
                self.next_coarse_t = t + every_s * rng.range(0.6, 1.4);
                let off_m = hypot(drifted.0 - tick.east_m, drifted.1 - tick.north_m);
                let claim_m = match self.receiver.indoors {
                    Indoors::Optimistic => {
                        self.receiver.open_m * self.receiver.claim_factor * rng.range(0.8, 1.6)
                    }
                    _ => (off_m * rng.range(0.7, 1.6)).clamp(20.0, 65.0),
                };
                Some(bare(world, drifted, Some(rounded(claim_m, 1)), "fused"))
            }
            Indoors::Ladder => {
                let claim_m =
                    (self.receiver.open_m.max(20.0) * exp(noticed_s / 5.0 * log(2.0))).min(200.0);
                let held = *self.held.get_or_insert(place);
                // After a quarter of a minute at the maximum radius, only occasional coarse fixes
                // remain.
                if noticed_s > 30.0 {
                    if t < self.next_coarse_t {
                        return None;
                    }
                    self.next_coarse_t = t + rng.range(5.0, 40.0);
                    return Some(bare(
                        world,
                        drifted,
                        Some(rounded(rng.range(160.0, 420.0), 1)),
                        "fused",
                    ));
                }
                Some(bare(world, held, Some(rounded(claim_m, 1)), "gnss"))
            }
        }
    }
}

/// Creates a fix without speed, course and altitude.
pub(super) fn bare(
    world: &World,
    place: (f64, f64),
    accuracy_m: Option<f64>,
    provider: &'static str,
) -> Fix {
    let (lat, lng) = world.degrees(place);
    Fix {
        lat: rounded(lat, 7),
        lng: rounded(lng, 7),
        accuracy_m,
        altitude_m: None,
        speed_mps: None,
        bearing_deg: None,
        mock: false,
        provider: Some(provider),
    }
}
