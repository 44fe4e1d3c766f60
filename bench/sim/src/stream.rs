//! Batches of a delivery, and their loss and reordering in transit.

use serde::Serialize;

use super::rng::Rng;
use super::sample::Sample;

/// A batch that serialises as the body of `POST /v1/sessions/{id}/telemetry`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Batch<'s> {
    /// The sequence number.
    pub seq: u32,
    /// The samples of the batch.
    pub samples: &'s [Sample],
}

impl Batch<'_> {
    /// Returns the time at which the phone has the whole batch, in seconds since the session's
    /// start.
    #[must_use]
    pub fn ready_t(&self) -> f64 {
        self.samples.last().map_or(0.0, |sample| sample.ready_t)
    }

    /// Serialises the batch as JSON.
    ///
    /// # Errors
    ///
    /// Never returns an error for samples of the simulator, because all their numbers are finite.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// An iterator that splits samples into batches.
#[derive(Debug, Clone)]
pub struct Batches<'s> {
    rest: &'s [Sample],
    seconds: f64,
    seq: u32,
}

impl<'s> Batches<'s> {
    pub(super) fn new(samples: &'s [Sample], seconds: f64) -> Self {
        Self {
            rest: samples,
            seconds: seconds.max(0.1),
            seq: 0,
        }
    }
}

impl<'s> Iterator for Batches<'s> {
    type Item = Batch<'s>;

    fn next(&mut self) -> Option<Batch<'s>> {
        let until = ((self.rest.first()?.ready_t / self.seconds).floor() + 1.0) * self.seconds;
        let count = self
            .rest
            .iter()
            .take_while(|sample| sample.ready_t < until)
            .count()
            .max(1);
        let (samples, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        let batch = Batch {
            seq: self.seq,
            samples,
        };
        self.seq += 1;
        Some(batch)
    }
}

/// A loss of samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loss {
    /// The fraction of samples lost independently at random, 0 to 1.
    pub share: f64,
    /// The kinds that are lost entirely, by their names in the wire format.
    pub kinds: Vec<&'static str>,
    /// The spans in which all samples are lost, as (from, to) in seconds.
    pub spans: Vec<(f64, f64)>,
}

impl Loss {
    fn loses(&self, sample: &Sample, rng: &mut Rng) -> bool {
        let by_chance = rng.chance(self.share);
        by_chance
            || self.kinds.contains(&sample.reading.kind())
            || self
                .spans
                .iter()
                .any(|&(from, to)| sample.t >= from && sample.t < to)
    }

    pub(super) fn apply(&self, seed: u64, samples: &[Sample]) -> Vec<Sample> {
        let mut rng = Rng::new(seed, 21);
        samples
            .iter()
            .filter(|sample| !self.loses(sample, &mut rng))
            .cloned()
            .collect()
    }
}

/// Returns an arrival order in which batches overtake others by up to `reach` places and some
/// arrive twice. The result holds indices into the list of batches, each at least once.
#[must_use]
pub fn disorder(batches: usize, seed: u64, reach: usize, doubled_share: f64) -> Vec<usize> {
    let mut rng = Rng::new(seed, 22);
    let mut keyed: Vec<(f64, usize)> = Vec::with_capacity(batches);
    for place in 0..batches {
        keyed.push((place as f64 + rng.range(0.0, reach as f64 + 0.5), place));
        if rng.chance(doubled_share) {
            keyed.push((place as f64 + rng.range(0.0, reach as f64 + 0.5), place));
        }
    }
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    keyed.into_iter().map(|(_, place)| place).collect()
}
