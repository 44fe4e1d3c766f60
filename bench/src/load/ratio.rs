//! The service against the floor, alternating in one run: what everything that the service does for a batch costs,
//! as a multiple of reading and parsing it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;

use super::closed::{self, Closed, ClosedResult};
use super::http::Connection;
use super::report::median;
use super::target::Target;

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

/// A process that ends with its handle, and the folder that it works in.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens, and as whom to speak to it.
    pub target: Target,
    folder: Option<PathBuf>,
}

impl Server {
    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts the floor.
    ///
    /// # Errors
    ///
    /// Where it does not come up within 10 s.
    pub async fn floor(binary: &Path) -> anyhow::Result<Self> {
        let address = free_address()?;
        let child = Command::new(binary)
            .args(["--port", &address.port().to_string()])
            .spawn()
            .with_context(|| format!("{} does not start; build it first", binary.display()))?;
        let server = Self {
            child,
            target: Target { address, key: None },
            folder: None,
        };
        wait_for(address, "/", 202).await?;
        Ok(server)
    }

    /// Starts the service on an embedded store in a new folder, with a secret key, and without a limit of the key's
    /// rate that the load could meet: it is still counted and checked.
    ///
    /// # Errors
    ///
    /// Where it does not come up within 10 s.
    pub async fn service(binary: &Path) -> anyhow::Result<Self> {
        let (address, ops_address) = (free_address()?, free_address()?);
        let folder = std::env::temp_dir().join(format!(
            "porchlight-load-{}-{}",
            std::process::id(),
            address.port()
        ));
        std::fs::create_dir_all(&folder)?;
        let config_path = folder.join("porchlight.toml");
        let config = format!(
            "[server]\nlisten = \"{address}\"\nops_listen = \"{ops_address}\"\nrate_limit_per_second = 10000000\n[store]\npath = {:?}\n",
            folder.join("data"),
        );
        std::fs::write(&config_path, config)?;
        let log = std::fs::File::create(folder.join("log"))?;
        let child = Command::new(binary)
            .arg("serve")
            .arg("--config")
            .arg(&config_path)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start", binary.display()))?;
        let mut server = Self {
            child,
            target: Target { address, key: None },
            folder: Some(folder),
        };
        wait_for(ops_address, "/readyz", 200).await?;
        server.target.key = Some(create_key(binary, &config_path)?);
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to do where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn create_key(binary: &Path, config_path: &Path) -> anyhow::Result<String> {
    let output = Command::new(binary)
        .args([
            "keys", "create", "--org", "load", "--env", "sandbox", "--kind", "secret", "--config",
        ])
        .arg(config_path)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "keys create failed");
    let key = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(!key.is_empty(), "keys create printed no key");
    Ok(key)
}

/// An address of the loopback interface that nobody listens on at the moment.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

async fn wait_for(address: SocketAddr, path: &str, status: u16) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = Connection::new(address).request("GET", path, "", b"").await;
        if answer.is_ok_and(|answer| answer.status == status) {
            return Ok(());
        }
        ensure!(
            Instant::now() < until,
            "nothing answers {status} at {address}{path}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
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
