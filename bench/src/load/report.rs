//! What came back.

use std::collections::BTreeMap;

use serde::Serialize;

/// Latencies of answers, from the request's first byte to the answer's last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 90 % are faster, milliseconds.
    pub p90_ms: f64,
    /// 99 % are faster, milliseconds.
    pub p99_ms: f64,
    /// The slowest, milliseconds.
    pub max_ms: f64,
}

impl Latency {
    /// Of durations in nanoseconds, which it sorts; zeros where there is none.
    #[must_use]
    pub fn of(durations_ns: &mut [u64]) -> Self {
        durations_ns.sort_unstable();
        let at = |share: f64| {
            let place = (share * durations_ns.len() as f64) as usize;
            let place = place.min(durations_ns.len().saturating_sub(1));
            durations_ns
                .get(place)
                .map_or(0.0, |&ns| (ns as f64 / 1e4).round() / 100.0)
        };
        Self {
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

/// Answers by status, `refused` ones apart by whether they said when to come again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// 429 and 503 with `Retry-After`.
    pub refused_with_retry_after: u64,
    /// 429 and 503 without.
    pub refused_without_retry_after: u64,
    /// Requests without a whole answer.
    pub failed: u64,
}

impl Counts {
    /// Takes note of an answer.
    pub fn answer(&mut self, answer: &super::http::Answer) {
        *self.by_status.entry(answer.status).or_default() += 1;
        if matches!(answer.status, 429 | 503) {
            let refused = if answer.retry_after {
                &mut self.refused_with_retry_after
            } else {
                &mut self.refused_without_retry_after
            };
            *refused += 1;
        }
    }

    /// How many were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.by_status.get(&202).copied().unwrap_or(0)
    }

    /// How many were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.by_status.values().sum::<u64>() + self.failed
    }
}

/// The middle of some values; 0 where there is none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or(0.0);
    if sorted.len() % 2 == 1 {
        upper
    } else {
        (upper + sorted.get(middle.wrapping_sub(1)).copied().unwrap_or(0.0)) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians() {
        let mut durations: Vec<u64> = (1..=100).rev().map(|ms| ms * 1_000_000).collect();
        let latency = Latency::of(&mut durations);
        assert_eq!(
            (latency.p50_ms, latency.p99_ms, latency.max_ms),
            (51.0, 100.0, 100.0)
        );
        assert_eq!(Latency::of(&mut []), Latency::default());
        assert_eq!(
            (median(&[3.0, 1.0, 2.0]), median(&[1.0, 2.0]), median(&[])),
            (2.0, 1.5, 0.0)
        );
    }
}
