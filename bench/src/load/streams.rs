//! Connections that stay: what each takes of the server's memory, and what ingest feels of them.

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

/// How much.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// Event streams, one for each session.
    pub events: u32,
    /// WebSockets, one for each of as many other sessions.
    pub sockets: u32,
    /// The load before and beside them.
    pub load: Closed,
}

/// What it came to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamsResult {
    /// Resident memory of each event stream, bytes.
    pub bytes_per_event_stream: f64,
    /// Of each WebSocket.
    pub bytes_per_socket: f64,
    /// Ingest before.
    pub without: ClosedResult,
    /// Ingest beside all of them.
    pub beside: ClosedResult,
}

impl StreamsResult {
    /// The same in a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{:.0} bytes for each event stream, {:.0} for each WebSocket; ingest p99 {} ms before, {} ms beside them",
            self.bytes_per_event_stream,
            self.bytes_per_socket,
            self.without.latency.p99_ms,
            self.beside.latency.p99_ms,
        )
    }
}

/// Runs it, with a secret key.
///
/// # Errors
///
/// Where the server does not open as many.
pub async fn run(target: &Target, pid: u32, streams: Streams) -> anyhow::Result<StreamsResult> {
    let mut connection = Connection::new(target.address);
    let mut paths = Vec::new();
    // The sessions themselves are there before anything is measured, and so are their actors.
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

/// Resident memory once nothing is under way.
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
