//! Measures the isolation that the service promises between two tenants on one node.
//!
//! The first tenant sends at a steady rate, alone and then alongside a second tenant that opens as
//! many connections as it can.

mod conduct;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use porchlight_schema::limits::{
    KEY_REQUESTS_PER_SECOND_DEFAULT, TENANT_LIVE_SESSIONS_MAX, TENANT_SESSION_STARTS_PER_SEC,
};
use serde::Serialize;
use tokio::sync::oneshot;

pub use self::conduct::Conduct;
use self::conduct::{Hostile, SILENT, Tally};
use super::overload::{self, Overload, OverloadResult};
use super::server::Server;
use super::target::Target;

/// The parameters of a neighbour run.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// The service's binary.
    pub server: PathBuf,
    /// The first tenant's batches per second.
    pub per_sec: f64,
    /// The duration of each of the two runs of a round.
    pub duration: Duration,
    /// The number of the second tenant's connections.
    pub connections: u32,
    /// The conduct of the second tenant.
    pub conduct: Conduct,
    /// The number of rounds; each runs the first tenant alone, then alongside the second.
    pub rounds: u32,
}

/// The result of a neighbour run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeighbourResult {
    /// The first tenant's results alone, by round.
    pub alone: Vec<OverloadResult>,
    /// The first tenant's results alongside the second, by round.
    pub beside: Vec<OverloadResult>,
    /// The conduct of the second tenant.
    pub conduct: String,
    /// The number of the second tenant's requests that the service accepted.
    pub second_accepted: u64,
    /// The number of the second tenant's requests that the service refused.
    pub second_refused: u64,
    /// The number of the second tenant's requests without a response.
    pub second_failed: u64,
}

impl NeighbourResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let p99 = |runs: &[OverloadResult]| {
            let mut p99: Vec<f64> = runs.iter().map(|run| run.latency.p99_ms).collect();
            p99.sort_by(f64::total_cmp);
            p99.get(p99.len() / 2).copied().unwrap_or_default()
        };
        let missing = |runs: &[OverloadResult]| -> u64 {
            let counts = runs.iter().map(|run| {
                run.counts.refused_with_retry_after
                    + run.counts.refused_without_retry_after
                    + run.counts.failed
                    + run.unsent
            });
            counts.sum()
        };
        let (alone, beside) = (p99(&self.alone), p99(&self.beside));
        format!(
            "{}: p99 {alone} ms alone, {beside} ms with the other tenant ({:.2} times); {} and {} not accepted; of the other tenant {} accepted, {} refused, {} without a response",
            self.conduct,
            beside / alone,
            missing(&self.alone),
            missing(&self.beside),
            self.second_accepted,
            self.second_refused,
            self.second_failed,
        )
    }
}

/// Runs all rounds against a new service with the limits that it has by default.
///
/// # Errors
///
/// Returns an error if the service or a session fails to start.
pub async fn run(load: &Neighbour) -> anyhow::Result<NeighbourResult> {
    let variables = [
        (
            "SERVER__RATE_LIMIT_PER_SECOND",
            KEY_REQUESTS_PER_SECOND_DEFAULT.to_string(),
        ),
        (
            "LIMITS__TENANT_SESSION_STARTS_PER_SECOND",
            TENANT_SESSION_STARTS_PER_SEC.to_string(),
        ),
        (
            "LIMITS__TENANT_LIVE_SESSIONS",
            TENANT_LIVE_SESSIONS_MAX.to_string(),
        ),
    ];
    let variables = variables.map(|(name, value)| (format!("PORCHLIGHT__{name}"), value));
    let server = Server::service_with(&load.server, &variables).await?;
    let second = server.another_tenant()?;
    let first_load = Overload {
        per_sec: load.per_sec,
        duration: load.duration,
        connections: 64,
    };
    let tally = Arc::new(Tally::default());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..load.rounds {
        alone.push(overload::run(&server.target, server.pid(), first_load).await?);
        let hostile = Running::begin(load, second.clone(), Arc::clone(&tally)).await?;
        beside.push(overload::run(&server.target, server.pid(), first_load).await?);
        hostile.end();
        // By then the service has timed out the abandoned requests of the second tenant.
        tokio::time::sleep(2 * SILENT).await;
    }
    Ok(NeighbourResult {
        alone,
        beside,
        conduct: load.conduct.to_string(),
        second_accepted: tally.accepted.load(Ordering::Relaxed),
        second_refused: tally.refused.load(Ordering::Relaxed),
        second_failed: tally.failed.load(Ordering::Relaxed),
    })
}

/// The second tenant's connections, on a thread of their own: otherwise the first tenant would
/// wait for them within the load generator.
struct Running {
    end: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Running {
    /// Starts all sessions and connections. Returns once all of them run.
    async fn begin(load: &Neighbour, target: Target, tally: Arc<Tally>) -> anyhow::Result<Self> {
        let (end, ended) = oneshot::channel();
        let (begun, has_begun) = oneshot::channel();
        let (conduct, connections) = (load.conduct, load.connections);
        let thread = std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = match runtime.enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(begun.send(Err(error.into()))),
            };
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async {
                let mut all = Vec::new();
                for number in 0..connections {
                    let index_of_total = (number, connections);
                    match Hostile::begin(conduct, &target, index_of_total, &tally).await {
                        Ok(hostile) => all.push(hostile),
                        Err(error) => return drop(begun.send(Err(error))),
                    }
                }
                for hostile in all {
                    tokio::task::spawn_local(hostile.run(conduct));
                }
                // If nobody listens any more, the run has failed.
                if begun.send(Ok(())).is_ok() {
                    let _ = ended.await;
                }
            });
        });
        has_begun.await??;
        Ok(Self { end, thread })
    }

    /// Drops all connections.
    fn end(self) {
        // An error means that the thread has already ended.
        let _ = self.end.send(());
        let _ = self.thread.join();
    }
}
