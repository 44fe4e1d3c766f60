//! Simulates a phone in the hand of a standing courier: typing, scanning a label, taking a
//! photograph, fumbling.
//!
//! The movements are those of an arm: minimum-jerk motions from rest to rest (Flash and Hogan
//! 1985), 0.1 to 0.4 m and 20 to 90 degrees within 0.4 to 1.2 s, so accelerations peak at 1 to 4
//! m/s². Taps on the screen are pulses of 20 to 40 ms, 2.5 to 6 per second. Between them, the hand
//! trembles.

use libm::{cos, exp, sin, sqrt};

use super::rng::{Draw, Rng, Wander};

/// The way a courier handles the phone.
#[derive(Debug, Clone)]
pub(super) struct Habit {
    /// The size of all movements relative to the usual one.
    vigour: f64,
    /// The fraction of time in which the phone is only held.
    calm: f64,
    seed: u64,
}

impl Habit {
    pub(super) fn draw(draw: &mut Draw) -> Self {
        Self {
            vigour: draw.range(0.6, 1.5),
            calm: draw.range(0.15, 0.6),
            seed: draw.rng.next(),
        }
    }
}

/// A movement from rest to rest.
#[derive(Debug, Clone, Copy)]
struct Move {
    from_t: f64,
    duration_s: f64,
    angle_rad: f64,
    way_m: [f64; 3],
}

/// A short acceleration pulse.
#[derive(Debug, Clone, Copy)]
struct Pulse {
    t: f64,
    width_s: f64,
    size_mps2: [f64; 3],
}

/// The hand's effect on the phone at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handled {
    /// The rotation angle about the phone's current axis.
    pub(super) angle_rad: f64,
    pub(super) accel_mps2: [f64; 3],
    /// The turn rate about gravity as seen by a gyroscope, in rad/s.
    pub(super) turn_rps: f64,
    /// Whether a recogniser may mistake the motion for steps.
    pub(super) is_brisk: bool,
}

/// A sequence of handling actions.
#[derive(Debug)]
pub(super) struct Handling {
    habit: Habit,
    rng: Rng,
    axis: [f64; 3],
    moves: Vec<Move>,
    pulses: Vec<Pulse>,
    noise: [Wander; 3],
    noise_mps2: f64,
    sway: Wander,
    sway_rad: f64,
    until_t: f64,
    is_brisk: bool,
}

impl Handling {
    pub(super) fn new(habit: &Habit) -> Self {
        let mut rng = Rng::new(habit.seed, 21);
        let axis = direction(&mut rng);
        let noise = [0.0; 3].map(|_| Wander::new(&mut rng, 0.05, 0.1));
        let sway = Wander::new(&mut rng, 0.03, 1.0);
        Self {
            habit: habit.clone(),
            rng,
            axis,
            moves: Vec::new(),
            pulses: Vec::new(),
            noise,
            noise_mps2: 0.0,
            sway,
            sway_rad: 0.0,
            until_t: 0.0,
            is_brisk: false,
        }
    }

    /// Returns the axis of the phone's rotation.
    pub(super) fn axis(&self) -> [f64; 3] {
        self.axis
    }

    /// Returns the handling's own random generator.
    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Advances by `dt_s` and returns the hand's effect at time `t`.
    pub(super) fn step(&mut self, t: f64, dt_s: f64) -> Handled {
        if t >= self.until_t {
            self.next_act(t);
        }
        let mut handled = Handled {
            is_brisk: self.is_brisk,
            ..Handled::default()
        };
        for one in &self.moves {
            let share = ((t - one.from_t) / one.duration_s).clamp(0.0, 1.0);
            handled.angle_rad +=
                one.angle_rad * share.powi(3) * (10.0 - 15.0 * share + 6.0 * share * share);
            let bend = 60.0 * share - 180.0 * share * share + 120.0 * share.powi(3);
            let pace = 30.0 * share * share - 60.0 * share.powi(3) + 30.0 * share.powi(4);
            handled.turn_rps += 0.5 * one.angle_rad * pace / one.duration_s;
            for (sum, way_m) in handled.accel_mps2.iter_mut().zip(one.way_m) {
                *sum += way_m * bend / (one.duration_s * one.duration_s);
            }
        }
        for pulse in &self.pulses {
            let off = (t - pulse.t) / pulse.width_s;
            if off.abs() < 4.0 {
                // A pulse and its rebound.
                let shape = (1.0 - off * off) * exp(-0.5 * off * off);
                for (sum, size) in handled.accel_mps2.iter_mut().zip(pulse.size_mps2) {
                    *sum += size * shape;
                }
            }
        }
        let (rng, noise_mps2) = (&mut self.rng, self.noise_mps2);
        for (sum, wander) in handled.accel_mps2.iter_mut().zip(&mut self.noise) {
            *sum += wander.step(rng, dt_s, noise_mps2);
        }
        handled.angle_rad += self.sway.step(rng, dt_s, self.sway_rad);
        handled
    }

    /// Ends the current action because the courier moves on.
    pub(super) fn stop(&mut self, t: f64) {
        self.until_t = t;
        self.moves.clear();
        self.pulses.clear();
    }

    fn next_act(&mut self, t: f64) {
        self.moves.clear();
        self.pulses.clear();
        self.axis = direction(&mut self.rng);
        self.noise_mps2 = self.habit.vigour * self.rng.range(0.04, 0.14);
        self.sway_rad = self.rng.range(0.01, 0.05);
        self.is_brisk = false;
        if self.rng.chance(self.habit.calm) {
            self.until_t = t + self.rng.range(1.0, 6.0);
            return;
        }
        match (self.rng.unit() * 6.0) as u32 {
            0 | 1 => self.type_text(t),
            2 => self.scan(t),
            3 => self.photograph(t),
            4 => self.fumble(t),
            _ => self.shift_weight(t),
        }
    }

    fn type_text(&mut self, t: f64) {
        self.until_t = t + self.rng.range(3.0, 12.0);
        let rate_hz = self.rng.range(2.5, 6.0);
        let size = self.habit.vigour * self.rng.range(0.2, 1.2);
        let mut at_t = t;
        while at_t < self.until_t {
            at_t += self.rng.range(0.5, 1.5) / rate_hz;
            let size_mps2 = size * self.rng.factor(0.4);
            self.push(at_t, 0.02, 0.04, size_mps2);
        }
    }

    fn scan(&mut self, t: f64) {
        let mut at_t = t;
        for _ in 0..1 + (self.rng.unit() * 4.0) as u32 {
            at_t = self.move_and_return(at_t, (0.4, 0.9), (0.6, 2.0));
        }
        self.until_t = at_t;
    }

    fn photograph(&mut self, t: f64) {
        let end_t = self.move_and_return(t, (0.7, 1.2), (1.5, 4.0));
        self.push((t + end_t) / 2.0, 0.02, 0.04, 0.6 * self.habit.vigour);
        self.until_t = end_t;
    }

    fn fumble(&mut self, t: f64) {
        self.until_t = t + self.rng.range(1.0, 4.0);
        self.noise_mps2 = self.habit.vigour * self.rng.range(0.4, 1.6);
        self.sway_rad = self.rng.range(0.1, 0.35);
        self.is_brisk = true;
    }

    fn shift_weight(&mut self, t: f64) {
        let mut at_t = t;
        for _ in 0..1 + (self.rng.unit() * 3.0) as u32 {
            at_t += self.rng.range(0.5, 1.3);
            let size_mps2 = self.habit.vigour * self.rng.range(0.8, 2.2);
            self.push(at_t, 0.08, 0.16, size_mps2);
        }
        self.is_brisk = true;
        self.until_t = at_t + self.rng.range(0.5, 2.0);
    }

    /// Adds an arm movement, a hold, and the movement back, and returns its end time.
    fn move_and_return(&mut self, t: f64, move_s: (f64, f64), hold_s: (f64, f64)) -> f64 {
        let angle_rad = self.rng.range(0.35, 1.5) * if self.rng.chance(0.5) { 1.0 } else { -1.0 };
        let way = direction(&mut self.rng)
            .map(|part| part * self.habit.vigour * self.rng.range(0.1, 0.3));
        let there_s = self.rng.range(move_s.0, move_s.1);
        let back_t = t + there_s + self.rng.range(hold_s.0, hold_s.1);
        let back_s = self.rng.range(move_s.0, move_s.1);
        for (from_t, duration_s, sign) in [(t, there_s, 1.0), (back_t, back_s, -1.0)] {
            self.moves.push(Move {
                from_t,
                duration_s,
                angle_rad: sign * angle_rad,
                way_m: way.map(|part| sign * part),
            });
        }
        self.is_brisk = true;
        back_t + back_s + self.rng.range(0.1, 0.8)
    }

    fn push(&mut self, t: f64, width_from_s: f64, width_to_s: f64, size_mps2: f64) {
        let width_s = self.rng.range(width_from_s, width_to_s);
        let size_mps2 = direction(&mut self.rng).map(|part| part * size_mps2);
        self.pulses.push(Pulse {
            t,
            width_s,
            size_mps2,
        });
    }
}

/// Returns a uniformly distributed direction.
fn direction(rng: &mut Rng) -> [f64; 3] {
    let along = rng.range(-1.0, 1.0);
    let turn = rng.range(0.0, std::f64::consts::TAU);
    let across = sqrt(1.0 - along * along);
    [across * cos(turn), across * sin(turn), along]
}

/// Rotates a vector about an axis (Rodrigues).
pub(super) fn turned(vector: [f64; 3], axis: [f64; 3], angle_rad: f64) -> [f64; 3] {
    let (sine, cosine) = (sin(angle_rad), cos(angle_rad));
    let dot: f64 = vector.iter().zip(axis).map(|(v, a)| v * a).sum();
    let [x, y, z] = vector;
    let [a, b, c] = axis;
    let cross = [b * z - c * y, c * x - a * z, a * y - b * x];
    [0, 1, 2].map(|k| vector[k] * cosine + cross[k] * sine + axis[k] * dot * (1.0 - cosine))
}
