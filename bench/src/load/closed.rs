//! Closed loop: every connection sends its next batch when the previous one is answered, or when it
//! is due if the load has a pace.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;

use super::http::Connection;
use super::report::{Counts, Latency};
use super::target::{Stream, Target};
use super::wire::{Format, LINES, Sender};
use super::{elapsed_ns, process};
use crate::body::Mix;

/// The load to generate.
#[derive(Debug, Clone, Copy)]
pub struct Closed {
    /// The number of connections.
    pub connections: u32,
    /// The number of sessions, spread over the connections; at least one each.
    pub sessions: u32,
    /// The number of batches of all connections together.
    pub batches: u32,
    /// The run ends early after this time.
    pub at_most: Duration,
    /// The form of the batches.
    pub format: Format,
    /// The content of the batches.
    pub mix: Mix,
    /// The maximum number of batches sent per second; unlimited if `None`.
    pub pace_per_sec: Option<f64>,
    /// The number of batches per session, if the run includes the start, the stop and the scoring
    /// of each session.
    pub all_in: Option<u32>,
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
    error: Option<anyhow::Error>,
}

/// Runs the load. Starts the sessions first, which is not measured unless the run is all-in.
///
/// # Errors
///
/// Returns an error if the server cannot be reached, if a session is not started, or if no batch is
/// accepted.
pub async fn run(target: &Target, pid: u32, load: Closed) -> anyhow::Result<ClosedResult> {
    // The floor reads one form only, and has no sessions.
    let is_floor = target.key.is_none();
    let format = if is_floor { Format::Json } else { load.format };
    let all_in = load.all_in.filter(|_| !is_floor);
    let per_connection = match all_in {
        Some(_) if format == Format::Ndjson => LINES as u32,
        Some(_) => 1,
        None => load.sessions.div_ceil(load.connections).max(1),
    };
    let mut ready = Vec::new();
    for _ in 0..load.connections {
        let mut connection = Connection::new(target.address);
        let mut streams = vec![Stream::default(); per_connection as usize];
        if all_in.is_none() {
            target.begin_all(&mut connection, &mut streams).await?;
        }
        ready.push((connection, streams));
    }
    let tally = Rc::new(RefCell::new(Tally {
        left: load.batches,
        ..Tally::default()
    }));
    let (began, cpu_before) = (Instant::now(), process::cpu_sec(pid)?);
    let tasks = tokio::task::LocalSet::new();
    for (index, (connection, streams)) in (0_u32..).zip(ready) {
        let sender = Sender::new(format, load.mix, target, streams.len());
        let pace = load.pace_per_sec.map(|per_sec| Pace {
            began,
            interval: Duration::from_secs_f64(
                f64::from(load.connections * sender.batches()) / per_sec,
            ),
            turn: f64::from(index) / f64::from(load.connections),
        });
        let lane = Lane {
            target: target.clone(),
            connection,
            streams,
            sender,
            pace,
            all_in,
            until: began + load.at_most,
        };
        let tally = Rc::clone(&tally);
        tasks.spawn_local(async move {
            let ended = lane.run(&tally).await;
            if let Err(error) = ended {
                tally.borrow_mut().error.get_or_insert(error);
            }
        });
    }
    tasks.await;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_sec = process::cpu_sec(pid)? - cpu_before;
    let mut tally = tally.borrow_mut();
    if let Some(error) = tally.error.take() {
        return Err(error);
    }
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

/// The times at which a connection sends.
struct Pace {
    began: Instant,
    interval: Duration,
    /// The number of the next time.
    turn: f64,
}

impl Pace {
    async fn due(&mut self) {
        let due = self.began + self.interval.mul_f64(self.turn);
        self.turn += 1.0;
        tokio::time::sleep_until(due.into()).await;
    }
}

/// One connection with its sessions.
struct Lane {
    target: Target,
    connection: Connection,
    streams: Vec<Stream>,
    sender: Sender,
    pace: Option<Pace>,
    all_in: Option<u32>,
    until: Instant,
}

impl Lane {
    async fn run(mut self, tally: &RefCell<Tally>) -> anyhow::Result<()> {
        let mut scored_last = None;
        loop {
            // An all-in run sends whole sessions only.
            let between_sessions = self.streams.iter().all(|stream| stream.path.is_empty());
            if self.all_in.is_none() || between_sessions {
                let mut tally = tally.borrow_mut();
                if tally.left == 0 || Instant::now() >= self.until {
                    break;
                }
                tally.left = tally.left.saturating_sub(match self.all_in {
                    Some(batches) => batches * self.streams.len() as u32,
                    None => self.sender.batches(),
                });
            }
            if between_sessions {
                self.target
                    .begin_all(&mut self.connection, &mut self.streams)
                    .await?;
            }
            if let Some(pace) = &mut self.pace {
                pace.due().await;
            }
            self.exchange(tally).await;
            for stream in &mut self.streams {
                if self.all_in.is_some_and(|batches| stream.seq >= batches) {
                    self.target.stop(&mut self.connection, stream).await?;
                    scored_last = Some(std::mem::take(stream));
                }
            }
        }
        if let Some(stream) = scored_last {
            self.target
                .until_scored(&mut self.connection, &stream)
                .await?;
        }
        Ok(())
    }

    async fn exchange(&mut self, tally: &RefCell<Tally>) {
        let sent = Instant::now();
        let answers = self
            .sender
            .exchange(&mut self.connection, &mut self.streams)
            .await;
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
