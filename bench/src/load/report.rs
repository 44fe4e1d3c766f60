//! Response counts and latencies.

use std::collections::BTreeMap;

use serde::Serialize;

/// The latencies of responses, from the first byte of the request to the last byte of the response.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// The median in milliseconds.
    pub p50_ms: f64,
    /// The 90th percentile in milliseconds.
    pub p90_ms: f64,
    /// The 99th percentile in milliseconds.
    pub p99_ms: f64,
    /// The maximum in milliseconds.
    pub max_ms: f64,
}

impl Latency {
    /// Computes the latencies from durations in nanoseconds, sorting them in place. All values are
    /// zero if there are no durations.
    #[must_use]
    pub fn of(durations_ns: &mut [u64]) -> Self {
        durations_ns.sort_unstable();
        let at = |share: f64| {
            let index = (share * durations_ns.len() as f64) as usize;
            let index = index.min(durations_ns.len().saturating_sub(1));
            durations_ns
                .get(index)
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

/// The response counts by status, with refusals split by the presence of `Retry-After`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// The number of responses per status.
    pub by_status: BTreeMap<u16, u64>,
    /// The number of 429 and 503 responses with `Retry-After`.
    pub refused_with_retry_after: u64,
    /// The number of 429 and 503 responses without `Retry-After`.
    pub refused_without_retry_after: u64,
    /// The number of requests without a complete response.
    pub failed: u64,
}

impl Counts {
    /// Counts a response.
    pub fn answer(&mut self, answer: &super::http::Answer) {
        *self.by_status.entry(answer.status).or_default() += 1;
        if matches!(answer.status, 429 | 503) {
            let refused = if answer.has_retry_after {
                &mut self.refused_with_retry_after
            } else {
                &mut self.refused_without_retry_after
            };
            *refused += 1;
        }
    }

    /// Returns the number of accepted requests.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.by_status.get(&202).copied().unwrap_or(0)
    }

    /// Returns the number of sent requests.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.by_status.values().sum::<u64>() + self.failed
    }
}

/// Returns the median of `values`, or 0 if `values` is empty.
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
    fn percentiles_and_medians_are_computed() {
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
