//! Open loop: batches fall due at a fixed rate, even if the server falls behind. Refusals must
//! carry a `Retry-After`, and accepted batches must stay fast.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::http::Connection;
use super::report::{Counts, Latency};
use super::target::{Stream, Target};
use super::{elapsed_ns, process};
use crate::body::BatchWriter;

/// The parameters of an overload run.
#[derive(Debug, Clone, Copy)]
pub struct Overload {
    /// The batches that fall due per second.
    pub per_sec: f64,
    /// The duration of the run.
    pub duration: Duration,
    /// The number of connections. A batch that falls due while all of them are busy is counted, but
    /// not sent.
    pub connections: u32,
}

/// The result of an overload run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverloadResult {
    /// The batches that fell due per second.
    pub due_per_sec: f64,
    /// The response counts.
    pub counts: Counts,
    /// The number of batches that fell due while every connection was busy.
    pub unsent: u64,
    /// The latency of the accepted batches.
    pub latency: Latency,
    /// The accepted batches per second.
    pub accepted_per_sec: f64,
    /// The server's resident memory every half second, in bytes.
    pub resident_bytes: Vec<u64>,
}

impl OverloadResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        let mib = |bytes: Option<&u64>| bytes.map_or(0, |bytes| bytes / 1024 / 1024);
        let (first, most) = (
            self.resident_bytes.first(),
            self.resident_bytes.iter().max(),
        );
        format!(
            "{:.0} due/s: {} accepted, {} refused with Retry-After, {} without, {} failed, {} unsent; p99 {} ms; {} MiB resident before, {} at most",
            self.due_per_sec,
            self.counts.accepted(),
            self.counts.refused_with_retry_after,
            self.counts.refused_without_retry_after,
            self.counts.failed,
            self.unsent,
            self.latency.p99_ms,
            mib(first),
            mib(most),
        )
    }
}

struct Shared {
    idle: RefCell<Vec<Lane>>,
    counts: RefCell<Counts>,
    accepted_ns: RefCell<Vec<u64>>,
    busy: Cell<u32>,
}

/// A connection and the session that sends its batches over it.
struct Lane {
    connection: Connection,
    stream: Stream,
    writer: BatchWriter,
}

/// Runs the open loop, with one session per connection.
///
/// # Errors
///
/// Returns an error if the server is unreachable or a session fails to start.
pub async fn run(target: &Target, pid: u32, load: Overload) -> anyhow::Result<OverloadResult> {
    let mut lanes = Vec::new();
    for _ in 0..load.connections {
        let mut connection = Connection::new(target.address);
        let stream = target.begin(&mut connection).await?;
        lanes.push(Lane {
            connection,
            stream,
            writer: BatchWriter::default(),
        });
    }
    let shared = Rc::new(Shared {
        idle: RefCell::new(lanes),
        counts: RefCell::default(),
        accepted_ns: RefCell::default(),
        busy: Cell::new(0),
    });
    let tasks = tokio::task::LocalSet::new();
    let (unsent, resident_bytes) = tasks.run_until(pace(target, pid, load, &shared)).await?;
    let counts = shared.counts.borrow().clone();
    Ok(OverloadResult {
        due_per_sec: load.per_sec,
        unsent,
        latency: Latency::of(&mut shared.accepted_ns.borrow_mut()),
        accepted_per_sec: (counts.accepted() as f64 / load.duration.as_secs_f64()).round(),
        counts,
        resident_bytes,
    })
}

async fn pace(
    target: &Target,
    pid: u32,
    load: Overload,
    shared: &Rc<Shared>,
) -> anyhow::Result<(u64, Vec<u64>)> {
    let headers: Rc<str> = target.headers().into();
    let (began, mut due, mut unsent) = (Instant::now(), 0_u64, 0_u64);
    let mut resident_bytes = vec![process::resident_bytes(pid)?];
    while began.elapsed() < load.duration {
        let until_now = (began.elapsed().as_secs_f64() * load.per_sec) as u64;
        for _ in due..until_now {
            let lane = shared.idle.borrow_mut().pop();
            match lane {
                Some(lane) => {
                    shared.busy.set(shared.busy.get() + 1);
                    tokio::task::spawn_local(send(lane, headers.clone(), shared.clone()));
                }
                None => unsent += 1,
            }
        }
        due = until_now;
        if began.elapsed().as_millis() as usize / 500 >= resident_bytes.len() {
            resident_bytes.push(process::resident_bytes(pid)?);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Requests in flight may take as long as the server's request timeout.
    let deadline = Instant::now() + Duration::from_secs(30);
    while shared.busy.get() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    resident_bytes.push(process::resident_bytes(pid)?);
    Ok((unsent, resident_bytes))
}

async fn send(mut lane: Lane, headers: Rc<str>, shared: Rc<Shared>) {
    let sent = Instant::now();
    let body = lane.writer.write(lane.stream.seq);
    match lane
        .connection
        .request("POST", &lane.stream.path, &headers, body)
        .await
    {
        Ok(answer) => {
            shared.counts.borrow_mut().answer(&answer);
            if answer.status == 202 {
                lane.stream.seq += 1;
                shared.accepted_ns.borrow_mut().push(elapsed_ns(sent));
            }
        }
        Err(_) => shared.counts.borrow_mut().failed += 1,
    }
    shared.busy.set(shared.busy.get() - 1);
    shared.idle.borrow_mut().push(lane);
}
