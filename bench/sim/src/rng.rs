//! Seeded random numbers.

use libm::{cos, exp, log, sqrt};

/// The part of every parameter range that a scenario draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParameterSet {
    /// The part for tuning thresholds and weights.
    Tuning,
    /// The part for evaluation: the lowest and highest tenth and the middle fifth of every range,
    /// which [`ParameterSet::Tuning`] never draws.
    HeldOut,
}

/// The held-out bands of the unit interval, as (from, to).
const HELD_OUT_BANDS: [(f64, f64); 3] = [(0.0, 0.1), (0.4, 0.6), (0.9, 1.0)];
/// The remaining bands of the unit interval.
const TUNING_BANDS: [(f64, f64); 2] = [(0.1, 0.4), (0.6, 0.9)];

impl ParameterSet {
    fn bands(self) -> &'static [(f64, f64)] {
        match self {
            Self::Tuning => &TUNING_BANDS,
            Self::HeldOut => &HELD_OUT_BANDS,
        }
    }
}

/// A random generator (SplitMix64, Steele et al. 2014): small, fast, good enough for noise, not for
/// secrets.
#[derive(Debug, Clone)]
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    /// Creates a generator for one purpose of a seed, so that leaving out one sensor does not
    /// change the noise of another.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut rng = Self {
            state: seed ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03),
        };
        rng.next();
        rng.next();
        rng
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws uniformly from 0 to 1, excluding 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws uniformly from `low` to `high`.
    pub(super) fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns true with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws from a normal distribution with mean 0 and deviation 1 (Box and Muller, one of the
    /// pair).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = sqrt(-2.0 * log(1.0 - self.unit()));
        radius * cos(std::f64::consts::TAU * self.unit())
    }

    /// Draws a factor around 1, always above 0, with this deviation of its logarithm.
    pub(super) fn factor(&mut self, deviation: f64) -> f64 {
        exp(deviation * self.normal())
    }
}

/// Draws a scenario's parameters, each from the part of its range that the set allows.
#[derive(Debug, Clone)]
pub(super) struct Draw {
    pub(super) rng: Rng,
    set: ParameterSet,
}

impl Draw {
    pub(super) fn new(rng: Rng, set: ParameterSet) -> Self {
        Self { rng, set }
    }

    /// Draws from `low` to `high`, within the set's bands.
    pub(super) fn range(&mut self, low: f64, high: f64) -> f64 {
        let bands = self.set.bands();
        let mut rest = self.rng.unit() * bands.iter().map(|(from, to)| to - from).sum::<f64>();
        for (from, to) in bands {
            if rest < to - from {
                return low + (high - low) * (from + rest);
            }
            rest -= to - from;
        }
        high
    }

    /// Returns true with this probability. Binary choices are not held out.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    /// Draws one of the choices uniformly. Discrete choices are not held out.
    pub(super) fn choose<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let place = (self.rng.unit() * (others.len() + 1) as f64) as usize;
        others.get(place).copied().unwrap_or(first)
    }

    /// Draws a whole number uniformly from `low..=high`.
    pub(super) fn whole(&mut self, low: i32, high: i32) -> i32 {
        low + (self.rng.unit() * f64::from(high - low + 1)) as i32
    }
}

/// A value that fluctuates around 0 with limited memory (first-order Gauss–Markov process).
#[derive(Debug, Clone)]
pub(super) struct Wander {
    value: f64,
    time_constant_s: f64,
}

impl Wander {
    /// Creates a value with a random start of deviation `deviation`.
    pub(super) fn new(rng: &mut Rng, deviation: f64, time_constant_s: f64) -> Self {
        Self {
            value: deviation * rng.normal(),
            time_constant_s,
        }
    }

    /// Advances by `dt_s`, after which the deviation is `deviation`, and returns the value.
    pub(super) fn step(&mut self, rng: &mut Rng, dt_s: f64, deviation: f64) -> f64 {
        let kept = exp(-dt_s / self.time_constant_s);
        self.value = kept * self.value + deviation * sqrt(1.0 - kept * kept) * rng.normal();
        self.value
    }
}
