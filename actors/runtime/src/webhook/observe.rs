//! What webhooks tell of themselves. Labels are closed enums; who it was stands in the log.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};
use porchlight_core::webhook::{Cause, Report, State, Update};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use crate::observe::{Definition, counter, gauge, histogram};
use crate::ports::{Depth, StoreError};

/// The metrics of webhooks.
pub const CATALOGUE: &[Definition] = &[
    counter(
        "porchlight_webhook_attempts_total",
        &["outcome"],
        "Tries, by outcome: delivered, or the cause.",
    ),
    histogram(
        "porchlight_webhook_attempt_seconds",
        &[],
        "A try, from its start to the head or the failure.",
    ),
    histogram(
        "porchlight_webhook_first_attempt_age_seconds",
        &[],
        "From a message's commit to its first try.",
    ),
    histogram(
        "porchlight_webhook_delivery_age_seconds",
        &[],
        "From a message's commit to its delivery.",
    ),
    counter(
        "porchlight_webhook_finished_total",
        &["state"],
        "Messages that came to an end, by state.",
    ),
    gauge("porchlight_webhook_in_flight", &[], "Tries under way."),
    gauge("porchlight_webhook_window_lanes", &[], "Lanes in memory."),
    gauge(
        "porchlight_webhook_lanes_blocked",
        &[],
        "Lanes in memory that wait for a retry.",
    ),
    gauge(
        "porchlight_webhook_oldest_due_timestamp_seconds",
        &[],
        "Since when the oldest message waits that could be sent; 0 when none does.",
    ),
    gauge(
        "porchlight_webhook_messages",
        &["state"],
        "Messages kept that wait for a first try or a retry, or failed for good; counted each minute.",
    ),
    gauge(
        "porchlight_webhook_overlaps",
        &[],
        "Endpoints whose previous secret still signs.",
    ),
    counter(
        "porchlight_webhook_store_failures_total",
        &[],
        "Calls that the store failed; tried again after a pause.",
    ),
];

/// The handles.
#[derive(Debug)]
pub struct WebhookMetrics {
    delivered: Counter,
    causes: Vec<Counter>,
    attempt: Histogram,
    first_attempt: Histogram,
    delivery: Histogram,
    finished: [Counter; 3],
    /// Tries under way.
    pub in_flight: Gauge,
    /// Lanes in memory.
    pub window: Gauge,
    /// Lanes in memory that wait for a retry.
    pub blocked: Gauge,
    /// Since when the oldest message waits that could be sent.
    pub oldest_due: Gauge,
    overlaps: Gauge,
    messages: [Gauge; 3],
    store_failures: Counter,
}

fn seconds(ms: i64) -> f64 {
    ms.max(0) as f64 / 1000.0
}

impl WebhookMetrics {
    fn new() -> Self {
        let attempts = |outcome: &'static str| metrics::counter!("porchlight_webhook_attempts_total", "outcome" => outcome);
        let finished = |state: &'static str| metrics::counter!("porchlight_webhook_finished_total", "state" => state);
        Self {
            delivered: attempts("delivered"),
            causes: Cause::ALL
                .iter()
                .map(|cause| attempts(cause.as_str()))
                .collect(),
            attempt: metrics::histogram!("porchlight_webhook_attempt_seconds"),
            first_attempt: metrics::histogram!("porchlight_webhook_first_attempt_age_seconds"),
            delivery: metrics::histogram!("porchlight_webhook_delivery_age_seconds"),
            finished: ["delivered", "failed", "superseded"].map(finished),
            in_flight: metrics::gauge!("porchlight_webhook_in_flight"),
            window: metrics::gauge!("porchlight_webhook_window_lanes"),
            blocked: metrics::gauge!("porchlight_webhook_lanes_blocked"),
            oldest_due: metrics::gauge!("porchlight_webhook_oldest_due_timestamp_seconds"),
            overlaps: metrics::gauge!("porchlight_webhook_overlaps"),
            messages: ["pending", "retrying", "failed"]
                .map(|state| metrics::gauge!("porchlight_webhook_messages", "state" => state)),
            store_failures: metrics::counter!("porchlight_webhook_store_failures_total"),
        }
    }

    /// The handles; resolved at the first call, which must come after the recorder was installed.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<WebhookMetrics> = LazyLock::new(WebhookMetrics::new);
        &METRICS
    }

    /// All gauges at 0.
    pub(crate) fn reset(&self) {
        for gauge in [
            &self.in_flight,
            &self.window,
            &self.blocked,
            &self.oldest_due,
        ] {
            gauge.set(0.0);
        }
        self.set_depth(&Depth::default());
    }

    /// The outboxes were counted.
    pub(super) fn set_depth(&self, depth: &Depth) {
        let [pending, retrying, failed] = &self.messages;
        pending.set(depth.pending as f64);
        retrying.set(depth.retrying as f64);
        failed.set(depth.failed as f64);
        self.overlaps.set(depth.overlaps as f64);
    }

    /// A try ended.
    pub(super) fn on_attempt(&self, report: &Report, attempt: u32, created_at: TimestampMs) {
        match report.cause {
            None => self.delivered.increment(1),
            Some(cause) => {
                if let Some(counter) = self.causes.get(cause as usize) {
                    counter.increment(1);
                }
            }
        }
        self.attempt.record(seconds(i64::from(report.duration_ms)));
        if attempt == 1 {
            self.first_attempt
                .record(seconds(report.at.since_ms(created_at)));
        }
    }

    /// A message was changed.
    pub(super) fn on_update(&self, tenant: Tenant, update: &Update) {
        let (before, after) = (&update.before, &update.after);
        if before.state == after.state {
            return;
        }
        let [delivered, failed, superseded] = &self.finished;
        match after.state {
            State::Waiting => {}
            State::Delivered => {
                delivered.increment(1);
                if let Some(report) = &update.report {
                    let waited_ms = report.ended_at().since_ms(after.id.made_at());
                    self.delivery.record(seconds(waited_ms));
                }
            }
            State::Failed => {
                failed.increment(1);
                let cause = update.report.as_ref().and_then(|report| report.cause);
                tracing::warn!(organization = %tenant.organization_id, env = tenant.env.as_str(),
                    session = %after.session_id, message = %after.id, attempts = after.attempts,
                    cause = cause.map(Cause::as_str), "webhook failed for good");
            }
            State::Superseded => superseded.increment(1),
        }
    }

    /// The store failed a tenant's webhooks, which will try again.
    pub(super) fn on_store_failure(&self, tenant: Tenant, doing: &'static str, error: &StoreError) {
        self.store_failures.increment(1);
        tracing::warn!(organization = %tenant.organization_id, env = tenant.env.as_str(), doing, %error,
            "the store failed a webhook");
    }
}
