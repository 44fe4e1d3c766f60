//! `porchlight-load`: puts a server on this computer under load. It prints one line of text, then
//! one of JSON.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use porchlight_bench::body::Mix;
use porchlight_bench::load::closed::{self, Closed};
use porchlight_bench::load::live::{self, Live};
use porchlight_bench::load::neighbour::{self, Conduct, Neighbour};
use porchlight_bench::load::overload::{self, Overload};
use porchlight_bench::load::process;
use porchlight_bench::load::ratio::{self, Base, Ratio};
use porchlight_bench::load::restart::{self, Restart};
use porchlight_bench::load::server::Server;
use porchlight_bench::load::streams::{self, Streams};
use porchlight_bench::load::wire::Format;
use porchlight_bench::load::{http, target::Target};
use serde::Serialize;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures latency, throughput and CPU time while every connection sends its next batch when
    /// the last is answered.
    Closed(ClosedRun),
    /// Sends batches at a fixed rate, or at a multiple of the closed loop's rate: refusals, latency
    /// of accepted ones, memory.
    Overload(OverloadRun),
    /// Measures the memory per session with many live sessions, each sending one batch per period.
    Live(LiveRun),
    /// Measures the p99 and refusals of a tenant at a steady rate, alone and alongside a tenant
    /// that opens many connections.
    Neighbour(NeighbourRun),
    /// Measures the time until the service is ready after `kill -9` with many live sessions.
    Restart(RestartRun),
    /// Measures the memory per open event stream and WebSocket, and their effect on ingest.
    Streams(StreamsRun),
    /// Compares the CPU time per request of the service and the floor, or of the service on another
    /// and the embedded store, in alternating runs.
    Ratio(RatioRun),
}

/// The arguments of `closed`.
#[derive(Debug, Args)]
struct ClosedRun {
    #[command(flatten)]
    target: ServerArguments,
    #[command(flatten)]
    load: ClosedLoad,
}

/// The arguments of `overload`.
#[derive(Debug, Args)]
struct OverloadRun {
    #[command(flatten)]
    target: ServerArguments,
    /// Batches that fall due per second; by default the rate of a closed loop times `--times`.
    #[arg(long)]
    per_sec: Option<f64>,
    /// The multiple of the closed loop's rate.
    #[arg(long, default_value_t = 3.0)]
    times: f64,
    /// The duration in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[arg(long, default_value_t = 1024)]
    connections: u32,
}

/// The arguments of `live`.
#[derive(Debug, Args)]
struct LiveRun {
    #[command(flatten)]
    target: ServerArguments,
    #[arg(long, default_value_t = 100_000)]
    sessions: u32,
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// Seconds between two batches of a session.
    #[arg(long, default_value_t = 60)]
    period: u64,
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// The mix of sample kinds: location, walk, dense, drive or imu
    #[arg(long, default_value_t = Mix::Walk)]
    mix: Mix,
}

/// The arguments of `neighbour`.
#[derive(Debug, Args)]
struct NeighbourRun {
    /// The service's binary, a release build.
    #[arg(long)]
    server: PathBuf,
    /// The first tenant's batches per second.
    #[arg(long, default_value_t = 200.0)]
    per_sec: f64,
    /// The duration of each run in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The number of the second tenant's connections.
    #[arg(long, default_value_t = 1_000)]
    connections: u32,
    /// The conduct of the second tenant: announce, tokens, ended, ndjson, zstd or websocket.
    /// Without it, each conduct is run in turn.
    #[arg(long)]
    conduct: Option<Conduct>,
    #[arg(long, default_value_t = 3)]
    rounds: u32,
}

/// The arguments of `restart`.
#[derive(Debug, Args)]
struct RestartRun {
    /// The service's binary, a release build.
    #[arg(long)]
    server: PathBuf,
    #[arg(long, default_value_t = 100_000)]
    sessions: u32,
    #[arg(long, default_value_t = 64)]
    connections: u32,
    /// The number of kills.
    #[arg(long, default_value_t = 3)]
    kills: u32,
}

/// The arguments of `streams`.
#[derive(Debug, Args)]
struct StreamsRun {
    #[command(flatten)]
    target: ServerArguments,
    #[arg(long, default_value_t = 2_000)]
    events: u32,
    #[arg(long, default_value_t = 2_000)]
    sockets: u32,
    #[command(flatten)]
    load: ClosedLoad,
}

/// The arguments of `ratio`.
#[derive(Debug, Args)]
struct RatioRun {
    /// The service's binary, a release build.
    #[arg(long)]
    server: PathBuf,
    /// The floor's binary; by default the one next to this binary.
    #[arg(long)]
    floor: Option<PathBuf>,
    /// A variable of the service's configuration, such as `PORCHLIGHT__STORE__KIND=cql`. The
    /// service with it is compared with the service on an embedded store.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "floor", value_parser = variable)]
    set: Vec<(String, String)>,
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    #[command(flatten)]
    load: ClosedLoad,
}

/// Parses `NAME=VALUE`.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The server under load.
#[derive(Debug, Args)]
struct ServerArguments {
    /// URL of a running server, such as `http://127.0.0.1:8080`; requires `--pid`.
    #[arg(long, requires = "pid")]
    url: Option<String>,
    /// Process ID of the running server.
    #[arg(long)]
    pid: Option<u32>,
    /// Client or secret key of the running service; omit it for the floor.
    #[arg(long, env = "PORCHLIGHT_KEY")]
    key: Option<String>,
    /// Binary of a service to start for this run, instead of `--url`.
    #[arg(long, conflicts_with = "url")]
    server: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ClosedLoad {
    #[arg(long, default_value_t = 64)]
    connections: u32,
    #[arg(long, default_value_t = 256)]
    sessions: u32,
    /// Total number of batches.
    #[arg(long, default_value_t = 40_000)]
    batches: u32,
    /// Time limit in seconds.
    #[arg(long, default_value_t = 60)]
    at_most: u64,
    /// Wire format: json, gzip, protobuf, ndjson or websocket. NDJSON needs 32 sessions per
    /// connection.
    #[arg(long, default_value_t)]
    format: Format,
    /// The content of the batches: location, walk, dense, drive or imu. Protobuf and WebSocket take
    /// location only.
    #[arg(long, default_value_t = Mix::Walk)]
    mix: Mix,
    /// The maximum number of batches sent per second; absent: as many as the server answers.
    #[arg(long)]
    pace: Option<f64>,
    /// Includes the start, the stop and the scoring of each session in the cost of its batches.
    #[arg(long)]
    all_in: bool,
    /// The number of batches in a session of an all-in run.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    session_batches: u32,
}

impl ClosedLoad {
    fn load(&self) -> Closed {
        let Self {
            connections,
            sessions,
            batches,
            at_most,
            format,
            mix,
            pace,
            all_in,
            session_batches,
        } = *self;
        Closed {
            connections,
            sessions,
            batches,
            at_most: Duration::from_secs(at_most),
            format,
            // Only this mix has a protobuf form here.
            mix: match format {
                Format::Protobuf | Format::Websocket => Mix::Location,
                Format::Json | Format::Gzip | Format::Ndjson => mix,
            },
            pace_per_sec: pace,
            all_in: all_in.then_some(session_batches),
        }
    }
}

/// The server under load: started for this run, or already running.
struct Chosen {
    target: Target,
    pid: u32,
    _server: Option<Server>,
}

impl ServerArguments {
    async fn choose(&self) -> anyhow::Result<Chosen> {
        if let Some(binary) = &self.server {
            let server = Server::service(binary).await?;
            return Ok(Chosen {
                target: server.target.clone(),
                pid: server.pid(),
                _server: Some(server),
            });
        }
        let url = self
            .url
            .as_deref()
            .context("specify --server BINARY, or --url and --pid")?;
        let target = Target {
            address: http::loopback_address(url)?,
            key: self.key.clone(),
        };
        Ok(Chosen {
            target,
            pid: self.pid.context("--pid")?,
            _server: None,
        })
    }
}

#[derive(Serialize)]
struct Line<'a, T> {
    machine: String,
    #[serde(flatten)]
    result: &'a T,
}

fn print<T: Serialize>(text: &str, result: &T) -> anyhow::Result<()> {
    println!("{text}");
    println!(
        "{}",
        serde_json::to_string(&Line {
            machine: process::machine(),
            result
        })?
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tokio::task::LocalSet::new()
        .run_until(run(arguments.command))
        .await
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Closed(run) => closed_loop(run).await,
        Command::Overload(run) => overloaded(run).await,
        Command::Live(run) => live_sessions(run).await,
        Command::Restart(run) => restarts(run).await,
        Command::Neighbour(run) => neighbours(run).await,
        Command::Streams(run) => open_streams(run).await,
        Command::Ratio(run) => ratios(run).await,
    }
}

async fn closed_loop(run: ClosedRun) -> anyhow::Result<()> {
    let chosen = run.target.choose().await?;
    let result = closed::run(&chosen.target, chosen.pid, run.load.load()).await?;
    print(&result.text(), &result)
}

async fn live_sessions(run: LiveRun) -> anyhow::Result<()> {
    let chosen = run.target.choose().await?;
    let load = Live {
        sessions: run.sessions,
        rounds: run.rounds,
        period: Duration::from_secs(run.period),
        connections: run.connections,
        mix: run.mix,
    };
    let result = live::run(&chosen.target, chosen.pid, load).await?;
    print(&result.text(), &result)
}

async fn restarts(run: RestartRun) -> anyhow::Result<()> {
    let result = restart::run(&Restart {
        server: run.server,
        sessions: run.sessions,
        connections: run.connections,
        kills: run.kills,
    })
    .await?;
    print(&result.text(), &result)
}

async fn neighbours(run: NeighbourRun) -> anyhow::Result<()> {
    let all = run.conduct.map_or_else(Conduct::all, |one| vec![one]);
    for conduct in all {
        let result = neighbour::run(&Neighbour {
            server: run.server.clone(),
            per_sec: run.per_sec,
            duration: Duration::from_secs(run.seconds),
            connections: run.connections,
            conduct,
            rounds: run.rounds,
        })
        .await?;
        print(&result.text(), &result)?;
    }
    Ok(())
}

async fn open_streams(run: StreamsRun) -> anyhow::Result<()> {
    let chosen = run.target.choose().await?;
    let load = Streams {
        events: run.events,
        sockets: run.sockets,
        load: run.load.load(),
    };
    let result = streams::run(&chosen.target, chosen.pid, load).await?;
    print(&result.text(), &result)
}

async fn ratios(run: RatioRun) -> anyhow::Result<()> {
    let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("porchlight-floor"));
    let base = if run.set.is_empty() {
        Base::Floor(run.floor.map_or_else(beside, Ok)?)
    } else {
        Base::Embedded
    };
    let result = ratio::run(&Ratio {
        server: run.server,
        variables: run.set,
        base,
        rounds: run.rounds,
        load: run.load.load(),
    })
    .await?;
    print(&result.text(), &result)
}

/// Measures the closed loop's rate, multiplies it if no rate is given, then runs the overload.
async fn overloaded(run: OverloadRun) -> anyhow::Result<()> {
    let chosen = run.target.choose().await?;
    let normal = Closed {
        connections: 64,
        sessions: 256,
        batches: 20_000,
        at_most: Duration::from_secs(20),
        format: Format::Json,
        mix: Mix::Location,
        pace_per_sec: None,
        all_in: None,
    };
    let normal = closed::run(&chosen.target, chosen.pid, normal).await?;
    let load = Overload {
        per_sec: run.per_sec.unwrap_or(normal.per_sec * run.times),
        duration: Duration::from_secs(run.seconds),
        connections: run.connections,
    };
    let result = overload::run(&chosen.target, chosen.pid, load).await?;
    let text = format!(
        "{}; a closed loop: p99 {} ms",
        result.text(),
        normal.latency.p99_ms
    );
    print(&text, &result)
}
