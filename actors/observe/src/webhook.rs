//! Metrics of webhooks. Labels are closed enums; customers are in the log.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};
use porchlight_core::webhook::{AttemptResult, Cause, State, Update};
use porchlight_ports::{Depth, StoreError};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{error_text, name};

label! {
    /// The outcome of an attempt: delivered, or the cause of its failure.
    AttemptOutcome {
        /// The receiver answered 2xx.
        Delivered = "delivered",
        /// The failure cause [`Cause::Dns`].
        Dns = "dns",
        /// The failure cause [`Cause::Connect`].
        Connect = "connect",
        /// The failure cause [`Cause::Tls`].
        Tls = "tls",
        /// The failure cause [`Cause::BlockedAddress`].
        BlockedAddress = "blocked_address",
        /// The failure cause [`Cause::Timeout`].
        Timeout = "timeout",
        /// The failure cause [`Cause::Status`].
        Status = "status",
        /// The failure cause [`Cause::Redirect`].
        Redirect = "redirect",
        /// The failure cause [`Cause::Protocol`].
        Protocol = "protocol",
        /// The failure cause [`Cause::Internal`].
        Internal = "internal",
    }
}

impl AttemptOutcome {
    /// Returns the outcome for a cause; `None`: delivered.
    #[must_use]
    pub const fn of(cause: Option<Cause>) -> Self {
        match cause {
            None => Self::Delivered,
            Some(Cause::Dns) => Self::Dns,
            Some(Cause::Connect) => Self::Connect,
            Some(Cause::Tls) => Self::Tls,
            Some(Cause::BlockedAddress) => Self::BlockedAddress,
            Some(Cause::Timeout) => Self::Timeout,
            Some(Cause::Status) => Self::Status,
            Some(Cause::Redirect) => Self::Redirect,
            Some(Cause::Protocol) => Self::Protocol,
            Some(Cause::Internal) => Self::Internal,
        }
    }
}

label! {
    /// The final state of a message.
    Finished {
        /// An attempt succeeded.
        Delivered = "delivered",
        /// All attempts failed.
        Failed = "failed",
        /// A newer insight replaced the message.
        Superseded = "superseded",
        /// The endpoint of the message was paused for too long.
        Cancelled = "cancelled",
    }
}

label! {
    /// A stored message that is not delivered.
    Kept {
        /// The message waits for its first attempt.
        Pending = "pending",
        /// The message waits for a retry.
        Retrying = "retrying",
        /// All attempts failed.
        Failed = "failed",
    }
}

label! {
    /// A store operation of a webhook actor.
    StoreCall {
        /// Read the endpoint.
        Endpoint = "endpoint",
        /// List a part of the outbox.
        Listing = "listing",
        /// Read the messages of a lane.
        Lane = "lane",
        /// Read the body of a message.
        Body = "body",
        /// Commit the result of an attempt, and read the lane again.
        Commit = "commit",
    }
}

/// The metric handles of webhooks.
#[derive(Debug)]
pub struct WebhookMetrics {
    attempts: Vec<Counter>,
    attempt: Histogram,
    first_attempt: Histogram,
    delivery: Histogram,
    finished: Vec<Counter>,
    /// Attempts in flight.
    pub in_flight: Gauge,
    /// Lanes in memory.
    pub window: Gauge,
    /// Lanes in memory that wait for a retry.
    pub blocked: Gauge,
    /// Age of the oldest message that is due.
    pub oldest_due: Gauge,
    overlaps: Gauge,
    messages: Vec<Gauge>,
    store_failures: Counter,
    store_calls: Vec<Counter>,
    rows_listed: Counter,
}

fn seconds(ms: i64) -> f64 {
    ms.max(0) as f64 / 1000.0
}

impl WebhookMetrics {
    fn new() -> Self {
        let attempts = |outcome: &AttemptOutcome| metrics::counter!(name::WEBHOOK_ATTEMPTS_TOTAL, "outcome" => outcome.as_str());
        let finished = |state: &Finished| metrics::counter!(name::WEBHOOK_FINISHED_TOTAL, "state" => state.as_str());
        let kept =
            |state: &Kept| metrics::gauge!(name::WEBHOOK_MESSAGES, "state" => state.as_str());
        let store_calls = |call: &StoreCall| metrics::counter!(name::WEBHOOK_STORE_CALLS_TOTAL, "call" => call.as_str());
        Self {
            attempts: AttemptOutcome::ALL.iter().map(attempts).collect(),
            attempt: metrics::histogram!(name::WEBHOOK_ATTEMPT_SECONDS),
            first_attempt: metrics::histogram!(name::WEBHOOK_FIRST_ATTEMPT_AGE_SECONDS),
            delivery: metrics::histogram!(name::WEBHOOK_DELIVERY_AGE_SECONDS),
            finished: Finished::ALL.iter().map(finished).collect(),
            in_flight: metrics::gauge!(name::WEBHOOK_IN_FLIGHT),
            window: metrics::gauge!(name::WEBHOOK_WINDOW_LANES),
            blocked: metrics::gauge!(name::WEBHOOK_LANES_BLOCKED),
            oldest_due: metrics::gauge!(name::WEBHOOK_OLDEST_DUE_TIMESTAMP_SECONDS),
            overlaps: metrics::gauge!(name::WEBHOOK_OVERLAPS),
            messages: Kept::ALL.iter().map(kept).collect(),
            store_failures: metrics::counter!(name::WEBHOOK_STORE_FAILURES_TOTAL),
            store_calls: StoreCall::ALL.iter().map(store_calls).collect(),
            rows_listed: metrics::counter!(name::WEBHOOK_ROWS_LISTED_TOTAL),
        }
    }

    /// Returns the handles, created at the first call, which must follow the installation of the
    /// recorder.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<WebhookMetrics> = LazyLock::new(WebhookMetrics::new);
        &METRICS
    }

    /// Sets all gauges to 0.
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

    /// Records the fill levels of the outboxes.
    pub fn set_depth(&self, depth: &Depth) {
        for (kept, gauge) in Kept::ALL.iter().zip(&self.messages) {
            gauge.set(match kept {
                Kept::Pending => depth.pending,
                Kept::Retrying => depth.retrying,
                Kept::Failed => depth.failed,
            } as f64);
        }
        self.overlaps.set(depth.overlaps as f64);
    }

    /// Records a finished attempt.
    pub fn on_attempt(&self, report: &AttemptResult, attempt: u32, created_at: TimestampMs) {
        self.attempts[AttemptOutcome::of(report.cause) as usize].increment(1);
        self.attempt.record(seconds(i64::from(report.duration_ms)));
        if attempt == 1 {
            self.first_attempt
                .record(seconds(report.at.since_ms(created_at)));
        }
    }

    /// Records a change of a message.
    pub fn on_update(&self, tenant: Tenant, update: &Update) {
        let (before, after) = (&update.before, &update.after);
        if before.state == after.state {
            return;
        }
        let finished = |state: Finished| self.finished[state as usize].increment(1);
        match after.state {
            State::Waiting | State::Held => {}
            State::Delivered => {
                finished(Finished::Delivered);
                if let Some(report) = &update.report {
                    let waited_ms = report.ended_at().since_ms(after.id.made_at());
                    self.delivery.record(seconds(waited_ms));
                }
            }
            State::Failed => {
                finished(Finished::Failed);
                // A message that fails without an attempt fails because its body cannot be read.
                let cause = update.report.as_ref();
                let cause = cause.map_or(Some(Cause::Internal), |report| report.cause);
                tracing::warn!(organization = %tenant.organization_id, env = tenant.env.as_str(),
                    session = %after.session_id, message = %after.id, attempts = after.attempts,
                    cause = cause.map(Cause::as_str), "webhook delivery failed permanently");
            }
            State::Superseded => finished(Finished::Superseded),
            State::Cancelled => finished(Finished::Cancelled),
        }
    }

    /// Records a store operation of a webhook actor.
    pub fn on_store_call(&self, call: StoreCall) {
        self.store_calls[call as usize].increment(1);
    }

    /// Records rows that the store read to list outboxes.
    pub fn on_rows_listed(&self, rows: usize) {
        self.rows_listed.increment(rows as u64);
    }

    /// Records that a store operation of a tenant's webhooks failed; they will retry.
    pub fn on_store_failure(&self, tenant: Tenant, doing: &'static str, error: &StoreError) {
        self.store_failures.increment(1);
        tracing::warn!(organization = %tenant.organization_id, env = tenant.env.as_str(), doing, error = error_text(error),
            "a store operation of a webhook failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_matches_the_api() {
        for cause in Cause::ALL {
            assert_eq!(AttemptOutcome::of(Some(cause)).as_str(), cause.as_str());
        }
        assert_eq!(AttemptOutcome::ALL.len(), Cause::ALL.len() + 1);
    }
}
