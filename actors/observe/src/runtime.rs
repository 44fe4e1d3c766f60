//! The process itself: which version runs, and how late its threads are.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::Histogram;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{RuntimeKind, name};

/// How often a thread's lateness is looked at. Two ticks fit between two scrapes a second apart, and a hundred threads
/// that tick cost nothing that could be measured.
const TICK: Duration = Duration::from_millis(500);

/// The handles of the process.
#[derive(Debug)]
pub struct RuntimeMetrics {
    lag: Vec<Histogram>,
}

impl RuntimeMetrics {
    /// The handles, resolved at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<RuntimeMetrics> = LazyLock::new(RuntimeMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let lag = |kind: &RuntimeKind| metrics::histogram!(name::RUNTIME_LAG_SECONDS, "runtime" => kind.as_str());
        Self {
            lag: RuntimeKind::ALL.iter().map(lag).collect(),
        }
    }

    /// Tells which version runs.
    pub(super) fn tell(&self) {
        metrics::gauge!(name::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    }
}

/// Ticks on the thread that runs it, for ever, and tells how late each tick is. What keeps the thread (a handler that
/// takes long, a call that blocks) shows here whoever it was. `on_tick` is called at each.
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
