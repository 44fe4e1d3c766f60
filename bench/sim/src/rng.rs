//! Chance, all of it from a seed.

use libm::{cos, exp, log, sqrt};

/// Which part of every range of a parameter a scenario draws from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParameterSet {
    /// What thresholds and weights may be tuned on.
    Tuning,
    /// Kept for judging: the lowest and the highest tenth and the middle fifth of every range, which
    /// [`ParameterSet::Tuning`] never draws.
    HeldOut,
}

/// Bands of the unit interval that are held out, as (from, to).
const HELD_OUT_BANDS: [(f64, f64); 3] = [(0.0, 0.1), (0.4, 0.6), (0.9, 1.0)];
/// What is left of it.
const TUNING_BANDS: [(f64, f64); 2] = [(0.1, 0.4), (0.6, 0.9)];

impl ParameterSet {
    fn bands(self) -> &'static [(f64, f64)] {
        match self {
            Self::Tuning => &TUNING_BANDS,
            Self::HeldOut => &HELD_OUT_BANDS,
        }
    }
}

/// A generator (SplitMix64, Steele et al. 2014): small, fast, good enough for noise, not for secrets.
#[derive(Debug, Clone)]
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    /// A generator for one purpose of one seed: the noise of one sensor does not shift when another is left out.
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

    /// Evenly in 0 to 1, 1 excluded.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly in `low` to `high`.
    pub(super) fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller, one of the pair).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = sqrt(-2.0 * log(1.0 - self.unit()));
        radius * cos(std::f64::consts::TAU * self.unit())
    }

    /// Around 1, with this deviation of its logarithm; never 0 or less.
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

    /// In `low` to `high`, within the set's bands.
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

    /// True with this probability; what can only be one way or the other is not held out.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.rng.chance(probability)
    }

    /// One of the choices, each as likely; what can only be counted is not held out.
    pub(super) fn choose<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let place = (self.rng.unit() * (others.len() + 1) as f64) as usize;
        others.get(place).copied().unwrap_or(first)
    }

    /// A whole number in `low..=high`, each as likely.
    pub(super) fn whole(&mut self, low: i32, high: i32) -> i32 {
        low + (self.rng.unit() * f64::from(high - low + 1)) as i32
    }
}

/// A value that wanders around 0 and forgets (Gauss–Markov of first order).
#[derive(Debug, Clone)]
pub(super) struct Wander {
    value: f64,
    time_constant_s: f64,
}

impl Wander {
    /// Begins at a draw of deviation `deviation`.
    pub(super) fn new(rng: &mut Rng, deviation: f64, time_constant_s: f64) -> Self {
        Self {
            value: deviation * rng.normal(),
            time_constant_s,
        }
    }

    /// The value `dt_s` later, when its deviation is `deviation` by then.
    pub(super) fn step(&mut self, rng: &mut Rng, dt_s: f64, deviation: f64) -> f64 {
        let kept = exp(-dt_s / self.time_constant_s);
        self.value = kept * self.value + deviation * sqrt(1.0 - kept * kept) * rng.normal();
        self.value
    }
}
