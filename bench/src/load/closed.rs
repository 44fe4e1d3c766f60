//! Closed loop: every connection sends its next batch as soon as the last one is answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;

use super::http::Connection;
use super::report::{Counts, Latency};
use super::target::{Stream, Target};
use super::wire::{Format, Sender};
use super::{elapsed_ns, process};

/// The parameters of a closed-loop run.
#[derive(Debug, Clone, Copy)]
pub struct Closed {
    /// The number of concurrent connections.
    pub connections: u32,
    /// The number of sessions, spread over the connections; each connection has at least one.
    pub sessions: u32,
    /// The number of batches over all connections.
    pub batches: u32,
    /// The time limit of the run.
    pub at_most: Duration,
    /// The wire format of the batches.
    pub format: Format,
}

/// The result of a closed-loop run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedResult {
    /// The response counts.
    pub counts: Counts,
    /// The latency of the accepted batches.
    pub latency: Latency,
    /// The accepted batches per second.
    pub per_sec: f64,
    /// The server's CPU time per request in microseconds, user and kernel, over all threads.
    pub cpu_us_per_request: f64,
}

impl ClosedResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let Latency {
            p50_ms,
            p99_ms,
            max_ms,
            ..
        } = self.latency;
        let (accepted, per_sec, cpu_us) = (
            self.counts.accepted(),
            self.per_sec,
            self.cpu_us_per_request,
        );
        format!(
            "{accepted} accepted, {per_sec} batches/s, {cpu_us} µs of server time each, p50 {p50_ms} ms, p99 {p99_ms} ms, max {max_ms} ms"
        )
    }
}

#[derive(Debug, Default)]
struct Tally {
    left: u32,
    counts: Counts,
    accepted_ns: Vec<u64>,
}

/// Runs the closed loop. It starts the sessions first; their cost is not measured.
///
/// # Errors
///
/// Returns an error if the server is unreachable, a session fails to start, or no batch is
/// accepted.
pub async fn run(target: &Target, pid: u32, load: Closed) -> anyhow::Result<ClosedResult> {
    let per_connection = load.sessions.div_ceil(load.connections).max(1);
    let mut ready = Vec::new();
    for _ in 0..load.connections {
        let mut connection = Connection::new(target.address);
        let mut streams = Vec::new();
        for _ in 0..per_connection {
            streams.push(target.begin(&mut connection).await?);
        }
        ready.push((connection, streams));
    }
    let tally = Rc::new(RefCell::new(Tally {
        left: load.batches,
        ..Tally::default()
    }));
    let (began, cpu_before) = (Instant::now(), process::cpu_sec(pid)?);
    let tasks = tokio::task::LocalSet::new();
    for (connection, streams) in ready {
        // The floor accepts JSON only.
        let is_floor = target.key.is_none();
        let format = if is_floor { Format::Json } else { load.format };
        let sender = Sender::new(format, target, streams.len());
        tasks.spawn_local(send(
            connection,
            streams,
            sender,
            tally.clone(),
            began + load.at_most,
        ));
    }
    tasks.await;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_sec = process::cpu_sec(pid)? - cpu_before;
    let mut tally = tally.borrow_mut();
    ensure!(
        tally.counts.accepted() > 0,
        "nothing was accepted: {:?}",
        tally.counts
    );
    let sent = tally.counts.sent() as f64;
    Ok(ClosedResult {
        latency: Latency::of(&mut tally.accepted_ns),
        per_sec: (tally.counts.accepted() as f64 / seconds).round(),
        cpu_us_per_request: (cpu_sec * 1e8 / sent).round() / 100.0,
        counts: tally.counts.clone(),
    })
}

async fn send(
    mut connection: Connection,
    mut streams: Vec<Stream>,
    mut sender: Sender,
    tally: Rc<RefCell<Tally>>,
    until: Instant,
) {
    loop {
        {
            let mut tally = tally.borrow_mut();
            if tally.left == 0 || Instant::now() >= until {
                return;
            }
            tally.left = tally.left.saturating_sub(sender.batches());
        }
        let sent = Instant::now();
        let answers = sender.exchange(&mut connection, &mut streams).await;
        let ns = elapsed_ns(sent);
        let mut tally = tally.borrow_mut();
        match answers {
            Ok(answers) => {
                for answer in answers {
                    tally.counts.answer(&answer);
                    if answer.status == 202 {
                        tally.accepted_ns.push(ns);
                    }
                }
            }
            Err(_) => tally.counts.failed += 1,
        }
    }
}
