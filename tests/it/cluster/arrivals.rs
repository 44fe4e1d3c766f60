//! Sessions at a fixed rate, and the times at which their messages arrive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use porchlight_schema::time::TimestampMs;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::cost::session;
use crate::phone::Client;
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};

/// The kernel's ticks per second in `/proc/PID/stat`.
const TICKS_PER_SEC: f64 = 100.0;

/// A received message.
pub(super) struct Arrival {
    session_id: String,
    event: String,
    at: TimestampMs,
    /// The time of the event that the message reports.
    happened_at: TimestampMs,
}

impl Arrival {
    fn read(request: &str) -> Self {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        Self {
            session_id: body["data"]["sessionId"].as_str().unwrap().to_owned(),
            event: body["event"].as_str().unwrap().to_owned(),
            at: TimestampMs(i64::try_from(now.as_millis()).unwrap()),
            happened_at: serde_json::from_value(body["timestamp"].clone()).unwrap(),
        }
    }
}

pub(super) type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// Takes the messages that have arrived since the last call.
pub(super) fn take(arrivals: &Arrivals) -> Vec<Arrival> {
    std::mem::take(&mut *arrivals.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Starts a receiver that notes when each message arrives.
pub(super) async fn receiver(authority: &Authority) -> (Receiver, Arrivals) {
    let arrivals = Arrivals::default();
    let log = Arc::clone(&arrivals);
    let receiver = Receiver::start(authority, Shown::Good, move |mut stream, _requests| {
        let log = Arc::clone(&log);
        async move {
            while let Some(request) = read_request(&mut stream).await {
                let arrival = Arrival::read(&request);
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(arrival);
                if stream.write_all(OK.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    });
    (receiver.await, arrivals)
}

/// Formats the median and the 99th percentile.
pub(super) fn median_and_p99(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    let at = |share: usize| values.get(values.len() * share / 100).copied();
    format!(
        "{} and {}",
        at(50).unwrap_or_default(),
        at(99).unwrap_or_default()
    )
}

/// Returns the time in milliseconds from the event of each message to its arrival.
pub(super) fn lags(arrived: &[Arrival]) -> Vec<i64> {
    let lag = |arrival: &Arrival| arrival.at.since_ms(arrival.happened_at);
    arrived.iter().map(lag).collect()
}

/// Returns the time in milliseconds from the stop of each session to its insight.
pub(super) fn insight_delays(arrived: &[Arrival]) -> Vec<i64> {
    let of = |event: &'static str| arrived.iter().filter(move |arrival| arrival.event == event);
    let stops: BTreeMap<_, _> = of("session.stopped")
        .map(|arrival| (&arrival.session_id, arrival.happened_at))
        .collect();
    let delays = of("insight.updated").filter_map(|arrival| {
        let stopped_at = stops.get(&arrival.session_id)?;
        Some(arrival.happened_at.since_ms(*stopped_at))
    });
    delays.collect()
}

/// Starts and stops sessions at a rate for this long. Returns those that are not finished yet.
pub(super) async fn begin_sessions(
    client: Client,
    per_sec: u32,
    duration: Duration,
) -> JoinSet<()> {
    let (began, mut sessions) = (Instant::now(), JoinSet::new());
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_sec);
    while began.elapsed() < duration {
        ticks.tick().await;
        sessions.spawn(session(client.clone(), None, true));
        while let Some(done) = sessions.try_join_next() {
            done.unwrap();
        }
    }
    sessions
}

/// Returns the processor time of a process in seconds.
pub(super) fn processor_sec(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, numbers) = stat.rsplit_once(')').unwrap();
    let ticks = numbers.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS_PER_SEC
}
