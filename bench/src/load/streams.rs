//! Long-lived connections: the server memory per connection, and their effect on ingest.

use std::time::Duration;

use anyhow::ensure;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::closed::{self, Closed, ClosedResult};
use super::http::Connection;
use super::process;
use super::socket::Socket;
use super::target::Target;

/// The parameters of a streams run.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// The number of event streams, each for its own session.
    pub events: u32,
    /// The number of WebSockets, each for another session.
    pub sockets: u32,
    /// The ingest load, run before the connections open and again while they are open.
    pub load: Closed,
}

/// The result of a streams run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamsResult {
    /// The resident memory per event stream in bytes.
    pub bytes_per_event_stream: f64,
    /// The resident memory per WebSocket in bytes.
    pub bytes_per_socket: f64,
    /// The ingest result without the connections.
    pub without: ClosedResult,
    /// The ingest result while all connections are open.
    pub beside: ClosedResult,
}

impl StreamsResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{:.0} bytes for each event stream, {:.0} for each WebSocket; ingest p99 {} ms before, {} ms with all of them open",
            self.bytes_per_event_stream,
            self.bytes_per_socket,
            self.without.latency.p99_ms,
            self.beside.latency.p99_ms,
        )
    }
}

/// Opens the connections and measures ingest without and with them. The target needs a secret key.
///
/// # Errors
///
/// Returns an error if the server does not open all connections.
pub async fn run(target: &Target, pid: u32, streams: Streams) -> anyhow::Result<StreamsResult> {
    let mut connection = Connection::new(target.address);
    let mut paths = Vec::new();
    // Create all sessions and their actors before the first measurement.
    for _ in 0..streams.events + streams.sockets {
        let path = target.begin(&mut connection).await?.path;
        let insight = path.replace("/telemetry", "/insights");
        connection
            .request("GET", &insight, &target.headers(), b"")
            .await?;
        paths.push(path);
    }
    let (of_events, of_sockets) = paths.split_at(streams.events as usize);
    let without = closed::run(target, pid, streams.load).await?;
    let before = settled_bytes(pid).await?;
    let mut open = Vec::new();
    for path in of_events {
        open.push(subscribe(target, &path.replace("/telemetry", "/events")).await?);
    }
    let with_events = settled_bytes(pid).await?;
    let mut sockets = Vec::new();
    for path in of_sockets {
        sockets.push(Socket::open(target.address, path, &target.headers()).await?);
    }
    let with_sockets = settled_bytes(pid).await?;
    let beside = closed::run(target, pid, streams.load).await?;
    let each = |after: u64, before: u64, count: usize| {
        after.saturating_sub(before) as f64 / count.max(1) as f64
    };
    Ok(StreamsResult {
        bytes_per_event_stream: each(with_events, before, open.len()),
        bytes_per_socket: each(with_sockets, with_events, sockets.len()),
        without,
        beside,
    })
}

/// Returns the resident memory after all pending work has finished.
async fn settled_bytes(pid: u32) -> anyhow::Result<u64> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    process::resident_bytes(pid)
}

async fn subscribe(target: &Target, path: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(target.address).await?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\n{}\r\n",
        target.address,
        target.headers()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut received = [0; 1_024];
    let read = stream.read(&mut received).await?;
    let head = received.get(..read).unwrap_or_default();
    ensure!(
        head.starts_with(b"HTTP/1.1 200 "),
        "no event stream: {}",
        String::from_utf8_lossy(head)
    );
    Ok(stream)
}
