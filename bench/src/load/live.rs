//! Many concurrent sessions with occasional batches: measures the memory per session.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::http::Connection;
use super::report::{Counts, Latency};
use super::target::{Stream, Target};
use super::{elapsed_ns, process};
use crate::body::{BatchWriter, Mix};

/// The parameters of a run with live sessions.
#[derive(Debug, Clone, Copy)]
pub struct Live {
    /// The number of sessions.
    pub sessions: u32,
    /// The number of batches per session.
    pub rounds: u32,
    /// The time between two batches of a session.
    pub period: Duration,
    /// The number of connections shared by the sessions.
    pub connections: u32,
    /// The content of the batches.
    pub mix: Mix,
}

/// The result of a run with live sessions.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveResult {
    /// The number of started sessions.
    pub sessions: u32,
    /// The time to start the sessions in seconds.
    pub start_sec: f64,
    /// The counts of the responses to the batches.
    pub counts: Counts,
    /// The resident memory before the first session in bytes.
    pub before_bytes: u64,
    /// The resident memory after the starts and after each round in bytes.
    pub after_bytes: Vec<u64>,
    /// The memory added per session by the end of the run in bytes.
    pub bytes_per_session: f64,
    /// The latency of the accepted batches of the last round.
    pub latency: Latency,
}

impl LiveResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let (sessions, accepted, bytes) = (
            self.sessions,
            self.counts.accepted(),
            self.bytes_per_session,
        );
        format!(
            "{sessions} live sessions, {accepted} batches accepted, {bytes} bytes of resident memory each, p99 {} ms",
            self.latency.p99_ms
        )
    }
}

/// Starts the sessions and runs the rounds.
///
/// # Errors
///
/// Returns an error if the server is unreachable or a session fails to start.
pub async fn run(target: &Target, pid: u32, load: Live) -> anyhow::Result<LiveResult> {
    let before_bytes = process::resident_bytes(pid)?;
    let began = Instant::now();
    let tasks = tokio::task::LocalSet::new();
    let share = load.sessions.div_ceil(load.connections);
    let lanes = tasks
        .run_until(start_all(target, load.connections, share))
        .await?;
    let start_sec = began.elapsed().as_secs_f64();
    let sessions: usize = lanes.iter().map(|lane| lane.1.len()).sum();
    let mut after_bytes = vec![process::resident_bytes(pid)?];
    let counts = Rc::new(RefCell::new(Counts::default()));
    let lanes = Rc::new(RefCell::new(lanes));
    let accepted_ns = Rc::new(RefCell::new(Vec::new()));
    for _ in 0..load.rounds {
        let round_began = Instant::now();
        accepted_ns.borrow_mut().clear();
        let log = Log {
            counts: Rc::clone(&counts),
            accepted_ns: Rc::clone(&accepted_ns),
        };
        tasks.run_until(round(target, load, &lanes, &log)).await;
        let rest = load.period.saturating_sub(round_began.elapsed());
        tokio::time::sleep(rest).await;
        after_bytes.push(process::resident_bytes(pid)?);
    }
    let last_bytes = after_bytes.last().copied().unwrap_or(before_bytes);
    let counts = counts.borrow().clone();
    let latency = Latency::of(&mut accepted_ns.borrow_mut());
    Ok(LiveResult {
        sessions: sessions as u32,
        start_sec: (start_sec * 10.0).round() / 10.0,
        counts,
        before_bytes,
        after_bytes,
        bytes_per_session: ((last_bytes as f64 - before_bytes as f64) / sessions as f64).round(),
        latency,
    })
}

/// The responses to the batches.
#[derive(Clone)]
struct Log {
    counts: Rc<RefCell<Counts>>,
    accepted_ns: Rc<RefCell<Vec<u64>>>,
}

type Lane = (Connection, Vec<Stream>);

async fn start_all(target: &Target, connections: u32, share: u32) -> anyhow::Result<Vec<Lane>> {
    let mut starting = Vec::new();
    for _ in 0..connections {
        let target = target.clone();
        starting.push(tokio::task::spawn_local(async move {
            let mut connection = Connection::new(target.address);
            let mut streams = Vec::new();
            for _ in 0..share {
                streams.push(target.begin(&mut connection).await?);
            }
            anyhow::Ok((connection, streams))
        }));
    }
    let mut lanes = Vec::new();
    for lane in starting {
        lanes.push(lane.await??);
    }
    Ok(lanes)
}

/// Sends one batch per session, spread evenly over nine tenths of the period.
async fn round(target: &Target, load: Live, lanes: &Rc<RefCell<Vec<Lane>>>, log: &Log) {
    let Live { period, mix, .. } = load;
    let headers: Rc<str> = target.headers().into();
    let began = Instant::now();
    let busy = Rc::new(Cell::new(0_u32));
    let taken: Vec<Lane> = lanes.borrow_mut().drain(..).collect();
    for (mut connection, mut streams) in taken {
        let (headers, log, lanes, busy) =
            (headers.clone(), log.clone(), lanes.clone(), busy.clone());
        busy.set(busy.get() + 1);
        tokio::task::spawn_local(async move {
            let mut writer = BatchWriter::of(mix);
            let pause = period.mul_f64(0.9) / streams.len().max(1) as u32;
            for (turn, stream) in (0_u32..).zip(&mut streams) {
                let due = began + pause * turn;
                tokio::time::sleep_until(due.into()).await;
                let body = writer.write(stream.seq);
                let sent = Instant::now();
                match connection
                    .request("POST", &stream.path, &headers, body)
                    .await
                {
                    Ok(answer) => {
                        log.counts.borrow_mut().answer(&answer);
                        if answer.status == 202 {
                            stream.seq += 1;
                            log.accepted_ns.borrow_mut().push(elapsed_ns(sent));
                        }
                    }
                    Err(_) => log.counts.borrow_mut().failed += 1,
                }
            }
            lanes.borrow_mut().push((connection, streams));
            busy.set(busy.get() - 1);
        });
    }
    while busy.get() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
