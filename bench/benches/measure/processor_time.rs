//! Criterion by processor time: what else the machine does then hardly counts.

use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// Nanoseconds that this thread has run, by the scheduler's account. It is brought up to date at each of the
/// scheduler's ticks (some milliseconds), so a sample must be long against that: few and long ones.
pub(crate) struct ProcessorTime;

/// Samples of one benchmark.
pub(crate) const SAMPLES: usize = 12;

fn ran_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or_default()
}

impl Measurement for ProcessorTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        ran_ns()
    }

    fn end(&self, started: u64) -> u64 {
        // Criterion takes no zero for an answer.
        ran_ns().saturating_sub(started).max(1)
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        static TIMES: WallTime = WallTime;
        TIMES.formatter()
    }
}
