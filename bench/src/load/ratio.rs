//! The service compared with the floor, alternating in one run.
//!
//! The result is the service's whole cost per batch as a multiple of reading and parsing it.
//! Alternatively, compares the service on another store with the service on the embedded one.

use std::path::PathBuf;

use serde::Serialize;

use super::closed::{self, Closed, ClosedResult};
use super::report::median;
use super::server::Server;

/// The parameters of a comparison.
#[derive(Debug, Clone)]
pub struct Ratio {
    /// The service's binary, a release build.
    pub server: PathBuf,
    /// The environment variables of the service's configuration.
    pub variables: Vec<(String, String)>,
    /// The base of the comparison.
    pub base: Base,
    /// The number of rounds; each runs both servers.
    pub rounds: u32,
    /// The load of each half of a round.
    pub load: Closed,
}

/// The base that the service is compared with.
#[derive(Debug, Clone)]
pub enum Base {
    /// The floor, started from this binary.
    Floor(PathBuf),
    /// The service on an embedded store.
    Embedded,
}

impl Base {
    fn name(&self) -> &'static str {
        match self {
            Self::Floor(_) => "floor",
            Self::Embedded => "embedded store",
        }
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RatioResult {
    /// The name of the base.
    pub base: &'static str,
    /// The service's CPU time per request divided by the base's, the median over the rounds.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// The base's CPU time per request in microseconds, the median over the rounds.
    pub base_cpu_us: f64,
    /// The service's CPU time per request in microseconds, the median over the rounds.
    pub server_cpu_us: f64,
    /// The base's median of the rounds' p50 and p99, milliseconds.
    pub base_latency_ms: (f64, f64),
    /// The service's median of the rounds' p50 and p99, milliseconds.
    pub server_latency_ms: (f64, f64),
    /// The base's results, by round.
    pub base_rounds: Vec<ClosedResult>,
    /// The service's results, by round.
    pub server: Vec<ClosedResult>,
}

impl RatioResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            base,
            ratio,
            server_cpu_us,
            base_cpu_us,
            server_latency_ms: (server_p50_ms, server_p99_ms),
            base_latency_ms: (base_p50_ms, base_p99_ms),
            ..
        } = self;
        let mut sorted = self.ratios.clone();
        sorted.sort_by(f64::total_cmp);
        let rounds = sorted.len();
        let (least, most) = (
            sorted.first().unwrap_or(ratio),
            sorted.last().unwrap_or(ratio),
        );
        format!(
            "ratio {ratio} (median of {rounds} rounds, {least} to {most}): service {server_cpu_us} µs, {base} {base_cpu_us} µs of processor time for each batch; p50 {server_p50_ms} and {base_p50_ms} ms, p99 {server_p99_ms} and {base_p99_ms} ms"
        )
    }
}

/// Runs the comparison. Both servers stay up and take turns.
///
/// # Errors
///
/// Returns an error if a server fails to start or accepts no batch.
pub async fn run(run: &Ratio) -> anyhow::Result<RatioResult> {
    let base = match &run.base {
        Base::Floor(binary) => Server::floor(binary).await?,
        Base::Embedded => Server::service(&run.server).await?,
    };
    let service = Server::service_with(&run.server, &run.variables).await?;
    // The unmeasured warm-up is a twentieth of a round.
    let warm_up = Closed {
        batches: run.load.batches / 20,
        ..run.load
    };
    let (mut base_rounds, mut server, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..run.rounds {
        let mut halves = Vec::new();
        for side in [&base, &service] {
            closed::run(&side.target, side.pid(), warm_up).await?;
            halves.push(closed::run(&side.target, side.pid(), run.load).await?);
        }
        if let [of_base, of_server] = halves.as_slice() {
            ratios.push(
                (of_server.cpu_us_per_request / of_base.cpu_us_per_request * 1000.0).round()
                    / 1000.0,
            );
            base_rounds.push(of_base.clone());
            server.push(of_server.clone());
        }
    }
    let cpu = |results: &[ClosedResult]| {
        median(
            &results
                .iter()
                .map(|result| result.cpu_us_per_request)
                .collect::<Vec<_>>(),
        )
    };
    let latency = |results: &[ClosedResult]| {
        let of =
            |one: fn(&ClosedResult) -> f64| median(&results.iter().map(one).collect::<Vec<_>>());
        (
            of(|result| result.latency.p50_ms),
            of(|result| result.latency.p99_ms),
        )
    };
    Ok(RatioResult {
        base_latency_ms: latency(&base_rounds),
        server_latency_ms: latency(&server),
        base: run.base.name(),
        ratio: median(&ratios),
        base_cpu_us: cpu(&base_rounds),
        server_cpu_us: cpu(&server),
        ratios,
        base_rounds,
        server,
    })
}
