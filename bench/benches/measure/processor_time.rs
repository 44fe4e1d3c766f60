//! Criterion measurement by processor time, so that other load on the computer has little effect on
//! the result.

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// A measurement of this thread's CPU time in nanoseconds, as counted by the scheduler. The kernel
/// updates the counter at each scheduler tick (some milliseconds), so each sample must be long
/// compared with a tick: use few, long samples.
pub(crate) struct ProcessorTime;

/// The number of samples per benchmark.
const SAMPLES: usize = 12;

/// Returns a benchmark configuration that measures CPU time.
pub(crate) fn criterion() -> Criterion<ProcessorTime> {
    Criterion::default()
        .with_measurement(ProcessorTime)
        .sample_size(SAMPLES)
}

/// Returns the CPU time of this thread in nanoseconds.
fn cpu_time_ns() -> u64 {
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
        cpu_time_ns()
    }

    fn end(&self, started: u64) -> u64 {
        // Criterion does not accept zero.
        cpu_time_ns().saturating_sub(started).max(1)
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
