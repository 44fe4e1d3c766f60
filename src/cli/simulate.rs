//! `porchlight simulate`: a fleet of simulated phones against a running service, for load tests and
//! for evaluation.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use porchlight_schema::time::TimestampMs;
use porchlight_sim::{Delivery, End, Kind, ParameterSet, Scenario};
use serde_json::json;
use tokio::sync::Semaphore;

use super::client::{Client, ServiceArguments};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    service: ServiceArguments,
    /// The number of deliveries.
    #[arg(long, default_value_t = 20)]
    deliveries: u32,
    /// The number of concurrent phones.
    #[arg(long, default_value = "10")]
    phones: NonZeroUsize,
    /// Simulate only this kind of delivery; the output of this command contains the names.
    #[arg(long)]
    kind: Option<String>,
    /// The first seed. Reusing a seed produces identical traces, which are flagged as copies;
    /// default: new deliveries each time.
    #[arg(long)]
    seed: Option<u64>,
    /// The speed relative to real time, at least 0.01; 0: as fast as the service accepts the
    /// batches.
    #[arg(long, default_value_t = 0.0, value_parser = speed)]
    speed: f64,
    /// The length of each batch in seconds of telemetry.
    #[arg(long, default_value_t = 10.0, value_parser = batch_sec)]
    batch_sec: f64,
}

/// The slowest speed: a delivery of a quarter of an hour then takes a day.
const SPEED_MIN: f64 = 0.01;

/// Parses the speed of the phones.
fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if speed == 0.0 || (speed.is_finite() && speed >= SPEED_MIN) {
        Ok(speed)
    } else {
        Err(format!("must be 0, or at least {SPEED_MIN}"))
    }
}

/// Parses the duration of a batch.
fn batch_sec(text: &str) -> Result<f64, String> {
    let sec: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if sec.is_finite() && sec > 0.0 {
        Ok(sec)
    } else {
        Err("must be longer than 0 s".to_owned())
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    super::block_on(simulate(arguments))
}

async fn simulate(arguments: &Arguments) -> anyhow::Result<()> {
    let client = arguments.service.client()?;
    let only = match &arguments.kind {
        Some(name) => Some(Kind::from_name(name).with_context(|| {
            let names = Kind::ALL.map(Kind::as_str).join(", ");
            format!("no kind of delivery is called {name}; the kinds are {names}")
        })?),
        None => None,
    };
    let phones = Arc::new(Semaphore::new(arguments.phones.get()));
    // Repeated traces look like fraud, so the default seed is random.
    let seed = arguments
        .seed
        .unwrap_or_else(|| jiff::Timestamp::now().as_millisecond().unsigned_abs());
    eprintln!("--seed {seed}");
    let mut running = tokio::task::JoinSet::new();
    let mut failed = 0;
    for number in 0..arguments.deliveries {
        let phone = Arc::clone(&phones).acquire_owned().await?;
        let kind = only.unwrap_or(Kind::ALL[number as usize % Kind::ALL.len()]);
        let delivery = Scenario::new(
            kind,
            ParameterSet::Tuning,
            seed.wrapping_add(u64::from(number)),
        )
        .deliver();
        let (client, speed, batch_sec) = (client.clone(), arguments.speed, arguments.batch_sec);
        running.spawn(async move {
            let result = run_delivery(&client, &delivery, speed, batch_sec).await;
            drop(phone);
            (kind, result)
        });
        while let Some(done) = running.try_join_next() {
            failed += u32::from(!report(done?)?);
        }
    }
    while let Some(done) = running.join_next().await {
        failed += u32::from(!report(done?)?);
    }
    if failed > 0 {
        bail!("{failed} of {} deliveries failed", arguments.deliveries);
    }
    Ok(())
}

/// Prints the result of a delivery. Returns whether it succeeded.
fn report((kind, result): (Kind, anyhow::Result<String>)) -> anyhow::Result<bool> {
    match &result {
        Ok(line) => say!("{:20} {line}", kind.as_str())?,
        Err(error) => say!("{:20} failed: {error:#}", kind.as_str())?,
    }
    Ok(result.is_ok())
}

/// Returns the start and the end of a delivery whose first batch is due now. The telemetry always
/// covers the whole length, so at a speed above 1 the delivery starts in the past and ends when the
/// last batch is due. At speed 0 it has just ended.
fn times(now: TimestampMs, length_ms: i64, speed: f64) -> (TimestampMs, TimestampMs) {
    let sent_for_ms = if speed > 0.0 {
        (length_ms as f64 / speed) as i64
    } else {
        0
    };
    let started_at = now.plus_ms((sent_for_ms - length_ms).min(0));
    (started_at, started_at.plus_ms(length_ms))
}

/// Runs one delivery, and returns a line with its result.
async fn run_delivery(
    client: &Client,
    delivery: &Delivery,
    speed: f64,
    batch_sec: f64,
) -> anyhow::Result<String> {
    let started = Instant::now();
    let length_ms = (delivery.end_t * 1000.0).ceil() as i64;
    let now = TimestampMs(jiff::Timestamp::now().as_millisecond());
    let (started_at, ended_at) = times(now, length_ms, speed);
    let mut start = delivery.start.clone();
    start["startedAt"] = json!(started_at);
    let session = client.start(&start).await?;
    for batch in delivery.batches(batch_sec) {
        if speed > 0.0 {
            let due = started + Duration::from_secs_f64(batch.ready_t() / speed);
            tokio::time::sleep_until(due.into()).await;
        }
        client.send(&session, batch.json()?).await?;
    }
    if let Some(pod) = &delivery.pod {
        client.attach_pod(&session, pod).await?;
    }
    if delivery.end == End::TimeOut {
        return Ok(format!("{} left to time out", session.session_id));
    }
    let ended_at = ended_at.to_string();
    client.stop(&session, Some(&ended_at)).await?;
    let insight = client.wait_until_scored(&session.session_id).await?;
    Ok(format!("{} {}", session.session_id, insight["reasonCodes"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_zero_or_a_number_that_no_clock_overflows() {
        assert_eq!(
            [speed("0"), speed("0.01"), speed("20")],
            [Ok(0.0), Ok(0.01), Ok(20.0)]
        );
        for text in ["1e-300", "-1", "NaN", "inf", "fast"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_delivery_is_as_long_as_its_telemetry_at_every_speed() {
        let now = TimestampMs(1_000_000);
        for (speed, started_at) in [
            (0.0, 900_000),
            (0.5, 1_000_000),
            (1.0, 1_000_000),
            (20.0, 905_000),
        ] {
            let times = times(now, 100_000, speed);
            assert_eq!(times.0, TimestampMs(started_at), "{speed}");
            assert_eq!(times.1, times.0.plus_ms(100_000), "{speed}");
        }
    }

    #[test]
    fn a_batch_takes_some_time() {
        assert_eq!([batch_sec("0.5"), batch_sec("10")], [Ok(0.5), Ok(10.0)]);
        for text in ["0", "-10", "NaN", "inf", "long"] {
            assert!(batch_sec(text).is_err(), "{text}");
        }
    }
}
