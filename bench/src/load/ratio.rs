//! The service against the floor, alternating in one run: what everything that the service does for a batch costs,
//! as a multiple of reading and parsing it.

use std::path::PathBuf;

use serde::Serialize;

use super::closed::{self, Closed, ClosedResult};
use super::report::median;
use super::server::Server;

/// How it is run.
#[derive(Debug, Clone)]
pub struct Ratio {
    /// The service's binary, a release build.
    pub server: PathBuf,
    /// The floor's binary.
    pub floor: PathBuf,
    /// Rounds; each runs both.
    pub rounds: u32,
    /// The load of each half of a round.
    pub load: Closed,
}

/// What it came to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RatioResult {
    /// Server time for each request over the floor's, the median over the rounds.
    pub ratio: f64,
    /// The ratio of each round.
    pub ratios: Vec<f64>,
    /// The floor's processor time for each request, microseconds, the median.
    pub floor_cpu_us: f64,
    /// The service's.
    pub server_cpu_us: f64,
    /// The floor, round by round.
    pub floor: Vec<ClosedResult>,
    /// The service, round by round.
    pub server: Vec<ClosedResult>,
}

impl RatioResult {
    /// The same in a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let (ratio, rounds) = (self.ratio, self.ratios.len());
        let (server_us, floor_us) = (self.server_cpu_us, self.floor_cpu_us);
        format!(
            "ratio {ratio} (median of {rounds} rounds): service {server_us} µs, floor {floor_us} µs of processor time for each batch"
        )
    }
}

/// Runs it: both servers stay up, and take turns.
///
/// # Errors
///
/// Where one of them does not come up, or accepts nothing.
pub async fn run(run: &Ratio) -> anyhow::Result<RatioResult> {
    let floor_server = Server::floor(&run.floor).await?;
    let service = Server::service(&run.server).await?;
    // A twentieth of a round warms up, unmeasured.
    let warm_up = Closed {
        batches: run.load.batches / 20,
        ..run.load
    };
    let (mut floor, mut server, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..run.rounds {
        let mut halves = Vec::new();
        for side in [&floor_server, &service] {
            closed::run(&side.target, side.pid(), warm_up).await?;
            halves.push(closed::run(&side.target, side.pid(), run.load).await?);
        }
        if let [of_floor, of_server] = halves.as_slice() {
            ratios.push(
                (of_server.cpu_us_per_request / of_floor.cpu_us_per_request * 1000.0).round()
                    / 1000.0,
            );
            floor.push(of_floor.clone());
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
    Ok(RatioResult {
        ratio: median(&ratios),
        floor_cpu_us: cpu(&floor),
        server_cpu_us: cpu(&server),
        ratios,
        floor,
        server,
    })
}
