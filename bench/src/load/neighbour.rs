//! Measures the isolation that the service promises between two tenants on one node.
//!
//! The first tenant sends at a steady rate, alone and then alongside a second tenant that opens as
//! many connections as it can.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::Connection;
use super::overload::{self, Overload, OverloadResult};
use super::server::Server;
use super::target::{Stream, Target};
use crate::body::BatchWriter;

/// The silence of a connection that has announced a body, slightly shorter than the service's
/// limit.
const SILENT: Duration = Duration::from_secs(9);
/// The interval between the batches of a sending connection.
const BATCH_EVERY: Duration = Duration::from_secs(1);

/// The parameters of a neighbour run.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// The service's binary.
    pub server: PathBuf,
    /// The first tenant's batches per second.
    pub per_sec: f64,
    /// The duration of each of the two runs of a round.
    pub duration: Duration,
    /// The second tenant's connections: half of them announce a body of 1 MiB and never send it,
    /// half send one batch per second.
    pub connections: u32,
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
    /// The number of 429 responses to the second tenant.
    pub second_refused: u64,
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
            "p99 {alone} ms alone, {beside} ms with the other tenant ({:.2} times); {} and {} not accepted; the other tenant was refused {} times",
            beside / alone,
            missing(&self.alone),
            missing(&self.beside),
            self.second_refused,
        )
    }
}

/// Runs all rounds against a new service.
///
/// # Errors
///
/// Returns an error if the service or a session fails to start.
pub async fn run(load: &Neighbour) -> anyhow::Result<NeighbourResult> {
    let server = Server::service(&load.server).await?;
    let second = server.another_tenant()?;
    let first_load = Overload {
        per_sec: load.per_sec,
        duration: load.duration,
        connections: 64,
    };
    let refused = Rc::new(Cell::new(0));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..load.rounds {
        alone.push(overload::run(&server.target, server.pid(), first_load).await?);
        let mut begun = Vec::new();
        for _ in 0..load.connections {
            let mut connection = Connection::new(second.address);
            begun.push((second.begin(&mut connection).await?, connection));
        }
        let tasks = begun
            .into_iter()
            .enumerate()
            .map(|(number, (stream, connection))| {
                let (second, refused) = (second.clone(), Rc::clone(&refused));
                if number % 2 == 0 {
                    tokio::task::spawn_local(announce(second, stream, refused))
                } else {
                    tokio::task::spawn_local(send(second, stream, connection, refused))
                }
            });
        let tasks: Vec<_> = tasks.collect();
        beside.push(overload::run(&server.target, server.pid(), first_load).await?);
        for task in tasks {
            task.abort();
        }
        // By then the service has timed out the abandoned requests of the second tenant.
        tokio::time::sleep(2 * SILENT).await;
    }
    Ok(NeighbourResult {
        alone,
        beside,
        second_refused: refused.get(),
    })
}

/// Announces bodies in an endless loop and never sends them.
async fn announce(target: Target, stream: Stream, refused: Rc<Cell<u64>>) {
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: load\r\n{}content-type: application/json\r\ncontent-length: 1048576\r\n\r\n",
        stream.path,
        target.headers()
    );
    loop {
        let Ok(mut connection) = TcpStream::connect(target.address).await else {
            tokio::time::sleep(BATCH_EVERY).await;
            continue;
        };
        if connection.write_all(head.as_bytes()).await.is_err() {
            continue;
        }
        let mut answer = [0; 12];
        let answered = tokio::time::timeout(SILENT, connection.read_exact(&mut answer)).await;
        if answered.is_ok() && answer.ends_with(b"429") {
            refused.set(refused.get() + 1);
            tokio::time::sleep(BATCH_EVERY).await;
        }
    }
}

/// Sends one batch per second in an endless loop.
async fn send(
    target: Target,
    mut stream: Stream,
    mut connection: Connection,
    refused: Rc<Cell<u64>>,
) {
    let (mut writer, headers) = (BatchWriter::default(), target.headers());
    loop {
        let body = writer.write(stream.seq);
        let answer = connection.request("POST", &stream.path, &headers, body);
        match answer.await {
            Ok(answer) if answer.status == 202 => stream.seq += 1,
            Ok(answer) if answer.status == 429 => refused.set(refused.get() + 1),
            _ => {}
        }
        tokio::time::sleep(BATCH_EVERY).await;
    }
}
