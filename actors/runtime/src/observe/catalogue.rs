//! The metric catalogue: every name, what it measures, and its labels.

use metrics::Unit;

/// What kind of metric it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// A distribution, in classic buckets.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The full name, as it is exposed.
    pub name: &'static str,
    /// What kind.
    pub instrument: Instrument,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it measures.
    pub help: &'static str,
}

pub(crate) const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition {
        name,
        instrument: Instrument::Counter,
        labels,
        help,
    }
}

pub(crate) const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition {
        name,
        instrument: Instrument::Gauge,
        labels,
        help,
    }
}

pub(crate) const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition {
        name,
        instrument: Instrument::Histogram,
        labels,
        help,
    }
}

/// Every metric of the service but those of webhooks, which stand in [`crate::webhook::observe::CATALOGUE`].
pub const CATALOGUE: &[Definition] = &[
    gauge("porchlight_actor_live", &["actor"], "Actors that live."),
    counter(
        "porchlight_actor_started_total",
        &["actor"],
        "Actors that were started.",
    ),
    counter(
        "porchlight_actor_stopped_total",
        &["actor", "reason"],
        "Actors that stopped, by reason.",
    ),
    counter(
        "porchlight_actor_restarts_total",
        &["actor"],
        "Actors that were rebuilt from the store after a panic.",
    ),
    gauge(
        "porchlight_actor_mailbox_messages",
        &["actor"],
        "Messages that wait in mailboxes.",
    ),
    histogram(
        "porchlight_actor_mailbox_wait_seconds",
        &["actor"],
        "Time that messages wait in a mailbox.",
    ),
    histogram(
        "porchlight_actor_handle_seconds",
        &["actor", "message"],
        "Time that handling a message takes.",
    ),
    counter(
        "porchlight_actor_messages_total",
        &["actor", "message", "outcome"],
        "Messages handled, by outcome.",
    ),
    counter(
        "porchlight_actor_rejected_total",
        &["actor"],
        "Messages that were not accepted, for want of room.",
    ),
    counter(
        "porchlight_ingest_batches_total",
        &["outcome"],
        "Batches of telemetry, by outcome.",
    ),
    counter(
        "porchlight_ingest_samples_total",
        &[],
        "Samples that were taken.",
    ),
    counter(
        "porchlight_ingest_samples_unknown_total",
        &[],
        "Samples of unknown kinds, which were skipped.",
    ),
    counter(
        "porchlight_ingest_packed_bytes_total",
        &[],
        "Bytes of packed batches that were taken.",
    ),
    gauge(
        "porchlight_ingest_in_flight_bytes",
        &[],
        "Bytes of request bodies that are admitted and not acknowledged.",
    ),
    gauge(
        "porchlight_ingest_limit_batches",
        &[],
        "Batches that may be between their last byte and their acknowledgement; more are refused.",
    ),
    gauge("porchlight_sessions_live", &[], "Sessions that record."),
    counter(
        "porchlight_sessions_started_total",
        &[],
        "Sessions that were started.",
    ),
    counter(
        "porchlight_sessions_ended_total",
        &["reason"],
        "Sessions that ended, by reason.",
    ),
    counter(
        "porchlight_session_holes_given_up_total",
        &[],
        "Holes in seq that live sessions gave up.",
    ),
    counter(
        "porchlight_session_hand_overs_lost_total",
        &[],
        "Batches that a busy session reads from the journal later.",
    ),
    counter(
        "porchlight_session_batches_quarantined_total",
        &[],
        "Batches that were left out because they made a detector panic.",
    ),
    counter(
        "porchlight_insights_total",
        &["outcome"],
        "Insights that were committed, by outcome.",
    ),
    counter(
        "porchlight_http_requests_total",
        &["route", "method", "status"],
        "Requests answered, by route, method and class of status.",
    ),
    histogram(
        "porchlight_http_request_seconds",
        &["route"],
        "Time from a request's head to its answer.",
    ),
    gauge(
        "porchlight_http_in_flight_requests",
        &[],
        "Requests that are being answered.",
    ),
    histogram(
        "porchlight_store_commit_seconds",
        &[],
        "Time that writing and syncing one group takes.",
    ),
    counter(
        "porchlight_store_groups_total",
        &[],
        "Groups that were committed.",
    ),
    counter(
        "porchlight_store_operations_total",
        &["outcome"],
        "Write operations, by outcome.",
    ),
    gauge(
        "porchlight_store_queue_operations",
        &[],
        "Write operations that wait for the committer.",
    ),
    gauge(
        "porchlight_scoring_waiting_sessions",
        &[],
        "Sessions that wait to be scored.",
    ),
];

/// Tells the recorder what each metric is.
pub fn describe() {
    for definition in CATALOGUE.iter().chain(crate::webhook::observe::CATALOGUE) {
        let unit = if definition.name.ends_with("_seconds") {
            Unit::Seconds
        } else if definition.name.contains("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        };
        match definition.instrument {
            Instrument::Counter => {
                metrics::describe_counter!(definition.name, unit, definition.help)
            }
            Instrument::Gauge => metrics::describe_gauge!(definition.name, unit, definition.help),
            Instrument::Histogram => {
                metrics::describe_histogram!(definition.name, unit, definition.help)
            }
        }
    }
}
