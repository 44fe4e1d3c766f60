//! The periodic work of all webhooks: a scan of the store, the numbers of waiting messages, and the
//! age of the oldest one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use porchlight_observe::restarts::Restarts;
use porchlight_observe::webhook::WebhookMetrics;
use porchlight_observe::{Task, error_text};
use porchlight_schema::limits::WHEEL_AHEAD_MS;

use super::Inner;
use super::presence::NO_MESSAGE_DUE;

/// The interval at which the store is scanned for lost wakes and for retries that are soon due, and
/// at which waiting messages are counted.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);
/// The interval at which the age of the oldest message is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Scans the store for lost wakes and for retries that are soon due, until the process drains.
pub(super) async fn scan(inner: Weak<Inner>) {
    let mut restarts = Restarts::new(Task::WebhookScan);
    loop {
        {
            let Some(inner) = inner.upgrade() else { return };
            if inner.is_draining() {
                return;
            }
            // The next scan repeats one that panicked.
            let _scanned = restarts.run(scan_once(&inner)).await;
        }
        tokio::time::sleep(SCAN_INTERVAL).await;
    }
}

async fn scan_once(inner: &Arc<Inner>) {
    let until = inner.clock.now().plus_ms(WHEEL_AHEAD_MS as i64);
    match inner.outbox.work(inner.own(), until).await {
        Ok(work) => {
            for work in work {
                inner.wake(work.tenant, None);
            }
        }
        Err(error) => {
            tracing::warn!(
                error = error_text(&error),
                "the outboxes could not be scanned"
            )
        }
    }
}

/// Reports the numbers of waiting messages until the process drains. With long backlogs a count
/// takes minutes, and the scan must not wait for it.
pub(super) async fn report_depth(inner: Weak<Inner>) {
    let mut restarts = Restarts::new(Task::WebhookCount);
    loop {
        {
            let Some(inner) = inner.upgrade() else { return };
            if inner.is_draining() {
                return;
            }
            // The next count repeats one that panicked.
            let _counted = restarts.run(count_once(&inner)).await;
        }
        tokio::time::sleep(SCAN_INTERVAL).await;
    }
}

async fn count_once(inner: &Inner) {
    match inner.outbox.depth(inner.clock.now()).await {
        Ok(depth) => WebhookMetrics::get().set_depth(&depth),
        Err(error) => {
            tracing::warn!(
                error = error_text(&error),
                "the outboxes could not be counted"
            )
        }
    }
}

/// Reports the age of the oldest message that is due.
pub(super) async fn report_oldest(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let Some(inner) = inner.upgrade() else { return };
        let oldest = inner.actors.iter();
        let oldest = oldest.map(|entry| entry.value().0.oldest.load(Ordering::Relaxed));
        let oldest = oldest.min().filter(|&oldest| oldest != NO_MESSAGE_DUE);
        let gauge = &WebhookMetrics::get().oldest_due;
        gauge.set(oldest.map_or(0.0, |oldest| oldest as f64 / 1000.0));
    }
}

#[cfg(test)]
mod tests;
