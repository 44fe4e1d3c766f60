//! Metrics of the process: its version, and the lag of its threads.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Gauge, Histogram};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{RuntimeKind, name};

/// Interval of the lag measurement. Two ticks fit between two scrapes a second apart, and the cost
/// of a hundred ticking threads is not measurable.
const TICK: Duration = Duration::from_millis(500);

/// The metric handles of the process.
#[derive(Debug)]
pub struct RuntimeMetrics {
    lag: Vec<Histogram>,
    /// 1 if the process before this one ended without draining.
    pub unclean_start: Gauge,
}

impl RuntimeMetrics {
    /// Returns the handles, created at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<RuntimeMetrics> = LazyLock::new(RuntimeMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let lag = |kind: &RuntimeKind| metrics::histogram!(name::RUNTIME_LAG_SECONDS, "runtime" => kind.as_str());
        Self {
            lag: RuntimeKind::ALL.iter().map(lag).collect(),
            unclean_start: metrics::gauge!(name::UNCLEAN_START),
        }
    }

    /// Reports the running version, and a clean start. The server sets `unclean_start` if it finds
    /// that the process before this one did not drain.
    pub(super) fn record(&self) {
        metrics::gauge!(name::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        self.unclean_start.set(0.0);
    }
}

/// Measures the lag of its thread forever: a handler that takes long, or a call that blocks, delays
/// the ticks. `on_tick` runs at each tick.
pub async fn watch_lag(kind: RuntimeKind, on_tick: impl Fn()) {
    let lag = &RuntimeMetrics::get().lag[kind as usize];
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let due = ticks.tick().await;
        on_tick();
        lag.record(Instant::now().saturating_duration_since(due).as_secs_f64());
    }
}
