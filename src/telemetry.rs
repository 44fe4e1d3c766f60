//! JSON logs on standard output, and metrics for the operators' listener.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use porchlight_observe::request::{self, RequestName};
use porchlight_observe::restarts::Restarts;
use porchlight_observe::runtime::watch_lag;
use porchlight_observe::store::StoreMetrics;
use porchlight_observe::{RuntimeKind, Task, name};
use tracing_subscriber::EnvFilter;

use crate::notify::{ThreadTicks, feed_watchdog};

/// Buckets for waiting and handling times of messages: 50 µs to 5 s.
const ACTOR_SECONDS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0,
];
/// Buckets for HTTP requests: OpenTelemetry's, with finer ones below, because a batch takes about a
/// millisecond.
const HTTP_SECONDS: [f64; 17] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    7.5, 10.0,
];
/// Buckets for the age of webhook messages: 1 s to a day.
const AGE_SECONDS: [f64; 12] = [
    0.01, 0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 10_800.0, 43_200.0, 86_400.0,
];
/// The interval at which histograms are drained, so that a scrape has little work.
const UPKEEP: Duration = Duration::from_secs(5);
/// The interval at which the size of the store's folder is measured.
const DISK_MEASURE_INTERVAL: Duration = Duration::from_secs(60);

/// Starts logging with this filter, one JSON object per line.
pub fn install_logs(filter: EnvFilter) -> anyhow::Result<()> {
    let logs = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .with_current_span(false);
    logs.try_init()
        .map_err(|error| anyhow::anyhow!("logs cannot be installed: {error}"))?;
    std::panic::set_hook(Box::new(|panic| {
        // The location, but not the message, which may quote data.
        let place = panic.location().map(ToString::to_string);
        let request = request::current();
        let request_id = request.as_ref().map(RequestName::as_str);
        let thread = std::thread::current();
        tracing::error!(request_id, place, thread = thread.name(), "panic");
    }));
    Ok(())
}

/// Installs the process's metrics recorder with every series at 0. Requires a runtime for its
/// maintenance task.
pub fn install_metrics() -> anyhow::Result<PrometheusHandle> {
    let recorder = PrometheusBuilder::new()
        .set_buckets(&ACTOR_SECONDS)?
        .set_buckets_for_metric(
            Matcher::Full(name::HTTP_REQUEST_SECONDS.into()),
            &HTTP_SECONDS,
        )?
        .set_buckets_for_metric(
            Matcher::Full(name::INGEST_ACK_SECONDS.into()),
            &HTTP_SECONDS,
        )?
        .set_buckets_for_metric(Matcher::Suffix("_age_seconds".into()), &AGE_SECONDS)?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).context("another recorder is installed")?;
    porchlight_observe::install();
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut restarts = Restarts::new(Task::Upkeep);
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            let _done = restarts.run(async { upkeep.run_upkeep() }).await;
        }
    });
    Ok(handle)
}

/// Monitors the threads, and the folder of the embedded store if there is one.
pub fn watch(actors: &[ArbiterHandle], folder: Option<&Path>) {
    let thread_ticks = ThreadTicks::of(actors.len());
    for (thread, arbiter) in actors.iter().enumerate() {
        let thread_ticks = Arc::clone(&thread_ticks);
        let watching = watch_lag(RuntimeKind::Actors, move || thread_ticks.tick(thread));
        // A stopped arbiter needs no monitor.
        let _watching = arbiter.spawn(watching);
    }
    actix_rt::spawn(watch_lag(RuntimeKind::Main, || {}));
    actix_rt::spawn(feed_watchdog(thread_ticks));
    if let Some(folder) = folder {
        actix_rt::spawn(measure_folder(folder.to_owned()));
    }
}

async fn measure_folder(folder: PathBuf) {
    loop {
        let measured = folder.clone();
        let bytes =
            actix_rt::task::spawn_blocking(move || (bytes_below(&measured), free_bytes(&measured)));
        if let Ok((taken, free)) = bytes.await {
            let metrics = StoreMetrics::get();
            metrics.disk.set(taken as f64);
            metrics
                .disk_free
                .set(free.map_or(f64::NAN, |free| free as f64));
        }
        actix_rt::time::sleep(DISK_MEASURE_INTERVAL).await;
    }
}

/// Returns the bytes that this user may still write in the folder's file system; `None` if unknown.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns the total size of the files below a folder. Removed or unreadable files count as 0.
fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
