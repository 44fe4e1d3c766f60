//! The metric catalogue: every name with its meaning, unit and labels. The code takes names from
//! [`name`]; the page `docs/metrics.md` and the tests of the dashboards are generated from
//! [`CATALOGUE`].

use metrics::Unit;

use super::cluster::{ChangeOutcome, ClockDirection, Found, NodesChange, ShardMove, Stale};
use super::http::{Method, Route, StatusClass};
use super::peer::{Forwarded, LiveOutcome, Nudged, PeerAnswer, PeerRoute};
use super::privacy::{PrivacyOutcome, PrivacyType};
use super::resolver::{LookUpOutcome, PermitPoolKind};
use super::shares::Share;
use super::store::{ClockState, DatabaseWarning, LightweightOutcome, StatementKind, StoreOutcome};
use super::streams::{MessageOutcome, StreamEnd, StreamKind};
use super::webhook::{AttemptOutcome, Finished, Kept, StoreCall};
use super::{
    ActorKind, BatchOutcome, InsightOutcome, MessageKind, Outcome, ReplayCheck, RuntimeKind,
    SessionEnded, StopReason, Task,
};

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// A value that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution with classic buckets.
    Histogram,
}

impl Instrument {
    /// Returns the word in `# TYPE` and in the docs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// The name of the label.
    pub name: &'static str,
    /// All of its values; empty if another crate has the list.
    pub values: &'static [&'static str],
}

/// The definition of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The section of the docs.
    pub section: &'static str,
    /// The full name as exposed.
    pub name: &'static str,
    /// The type of instrument.
    pub instrument: Instrument,
    /// The unit of the values.
    pub unit: Unit,
    /// The labels of the metric.
    pub labels: &'static [Label],
    /// The help text of the metric.
    pub help: &'static str,
}

/// Declares each metric once: as a constant with its name, and as an entry of the catalogue.
macro_rules! catalogue {
    ($($section:literal {$(
        $id:ident = $instrument:ident, $unit:ident, $name:literal
            [$($label:literal: $values:expr),*], $help:literal;
    )+})+) => {
        /// The names of the metrics.
        pub mod name {
            $($(#[doc = $help] pub const $id: &str = $name;)+)+
        }

        /// Every metric of the service.
        pub const CATALOGUE: &[Definition] = &[$($(Definition {
            section: $section,
            name: $name,
            instrument: Instrument::$instrument,
            unit: Unit::$unit,
            labels: &[$(Label { name: $label, values: $values }),*],
            help: $help,
        }),+),+];
    };
}

catalogue! {
    "Actors" {
        ACTOR_LIVE = Gauge, Count, "porchlight_actor_live"
            ["actor": ActorKind::VALUES], "Running actors.";
        ACTOR_STARTED_TOTAL = Counter, Count, "porchlight_actor_started_total"
            ["actor": ActorKind::VALUES], "Started actors.";
        ACTOR_STOPPED_TOTAL = Counter, Count, "porchlight_actor_stopped_total"
            ["actor": ActorKind::VALUES, "reason": StopReason::VALUES], "Actors that stopped, by reason.";
        ACTOR_RESTARTS_TOTAL = Counter, Count, "porchlight_actor_restarts_total"
            ["actor": ActorKind::VALUES], "Actors that were rebuilt from the store after a panic.";
        ACTOR_MAILBOX_MESSAGES = Gauge, Count, "porchlight_actor_mailbox_messages"
            ["actor": ActorKind::VALUES], "Messages in mailboxes.";
        ACTOR_MAILBOX_WAIT_SECONDS = Histogram, Seconds, "porchlight_actor_mailbox_wait_seconds"
            ["actor": ActorKind::VALUES], "Time for which messages wait in a mailbox.";
        ACTOR_HANDLE_SECONDS = Histogram, Seconds, "porchlight_actor_handle_seconds"
            ["actor": ActorKind::VALUES, "message": MessageKind::VALUES], "Duration of handling a message.";
        ACTOR_MESSAGES_TOTAL = Counter, Count, "porchlight_actor_messages_total"
            ["actor": ActorKind::VALUES, "message": MessageKind::VALUES, "outcome": Outcome::VALUES], "Messages handled, by outcome.";
        ACTOR_REJECTED_TOTAL = Counter, Count, "porchlight_actor_rejected_total"
            ["actor": ActorKind::VALUES], "Messages that a full mailbox refused.";
        TASK_PANICS_TOTAL = Counter, Count, "porchlight_task_panics_total"
            ["task": Task::VALUES], "Panics of background tasks.";
    }
    "Ingest" {
        INGEST_BATCHES_TOTAL = Counter, Count, "porchlight_ingest_batches_total"
            ["outcome": BatchOutcome::VALUES], "Batches of telemetry, by outcome.";
        INGEST_ACK_SECONDS = Histogram, Seconds, "porchlight_ingest_ack_seconds"
            [], "Time from the last byte of a batch to its acknowledgement, on any path: single batches, NDJSON, WebSocket, recorders.";
        INGEST_SAMPLES_TOTAL = Counter, Count, "porchlight_ingest_samples_total"
            [], "Accepted samples.";
        INGEST_SAMPLES_UNKNOWN_TOTAL = Counter, Count, "porchlight_ingest_samples_unknown_total"
            [], "Skipped samples of unknown kinds.";
        INGEST_PACKED_BYTES_TOTAL = Counter, Bytes, "porchlight_ingest_packed_bytes_total"
            [], "Bytes of accepted batches, packed.";
        INGEST_IN_FLIGHT_BYTES = Gauge, Bytes, "porchlight_ingest_in_flight_bytes"
            [], "Bytes of request bodies that are admitted and not yet acknowledged.";
        INGEST_LIMIT_BATCHES = Gauge, Count, "porchlight_ingest_limit_batches"
            [], "Limit on batches between their last byte and their acknowledgement; further batches are refused.";
    }
    "Shares" {
        SHARE_REFUSED_TOTAL = Counter, Count, "porchlight_share_refused_total"
            ["share": Share::VALUES], "Requests refused with 429 because a tenant's share of this node is used up.";
        SHARE_LIMIT = Gauge, Count, "porchlight_share_limit"
            ["share": Share::VALUES], "The share of this node that one tenant may use; 0 means no limit.";
        SHARE_LARGEST_USE = Gauge, Count, "porchlight_share_largest_use"
            ["share": Share::VALUES], "The usage by the tenant that uses the most of a share; 0 for rates.";
    }
    "Sessions and insights" {
        SESSIONS_LIVE = Gauge, Count, "porchlight_sessions_live"
            [], "Sessions in progress.";
        SESSIONS_STARTED_TOTAL = Counter, Count, "porchlight_sessions_started_total"
            [], "Started sessions.";
        SESSIONS_ENDED_TOTAL = Counter, Count, "porchlight_sessions_ended_total"
            ["reason": SessionEnded::VALUES], "Ended sessions, by reason.";
        SESSION_HOLES_GIVEN_UP_TOTAL = Counter, Count, "porchlight_session_holes_given_up_total"
            [], "Gaps in seq that sessions in progress stopped waiting for.";
        SESSION_MAILBOX_OVERFLOWS_TOTAL = Counter, Count, "porchlight_session_hand_overs_lost_total"
            [], "Batches that found a full mailbox; the session reads them from the journal later.";
        SESSION_BATCHES_QUARANTINED_TOTAL = Counter, Count, "porchlight_session_batches_quarantined_total"
            [], "Quarantined batches, on which a detector panicked.";
        SESSION_SNAPSHOTS_DISCARDED_TOTAL = Counter, Count, "porchlight_session_snapshots_discarded_total"
            [], "Snapshots of another release; their sessions were rebuilt from their journals.";
        INSIGHTS_TOTAL = Counter, Count, "porchlight_insights_total"
            ["outcome": InsightOutcome::VALUES], "Committed insights, by outcome.";
        SCORING_WAITING_SESSIONS = Gauge, Count, "porchlight_scoring_waiting_sessions"
            [], "Sessions that wait to be scored, are being scored, or wait for another attempt.";
        SCORING_REPLAY_CHECKS_TOTAL = Counter, Count, "porchlight_scoring_replay_checks_total"
            ["outcome": ReplayCheck::VALUES], "Sampled sessions whose live events were compared with a replay, by outcome; `different` must stay 0.";
    }
    "HTTP" {
        HTTP_REQUESTS_TOTAL = Counter, Count, "porchlight_http_requests_total"
            ["route": Route::VALUES, "method": Method::VALUES, "status": StatusClass::VALUES], "Answered requests, by route, method and class of status.";
        HTTP_REQUEST_SECONDS = Histogram, Seconds, "porchlight_http_request_seconds"
            ["route": Route::VALUES], "Time from a request's head to its answer.";
        HTTP_IN_FLIGHT_REQUESTS = Gauge, Count, "porchlight_http_in_flight_requests"
            [], "Requests in flight.";
        HTTP_PROBLEMS_TOTAL = Counter, Count, "porchlight_http_problems_total"
            ["code": &[]], "Refused requests, by the code of the problem.";
    }
    "Streams" {
        STREAMS_OPEN = Gauge, Count, "porchlight_streams_open"
            ["stream": StreamKind::VALUES], "Open event streams, WebSockets and NDJSON requests.";
        STREAMS_ENDED_TOTAL = Counter, Count, "porchlight_streams_ended_total"
            ["stream": StreamKind::VALUES, "reason": StreamEnd::VALUES], "Event streams, WebSockets and NDJSON requests that ended or were refused, by reason.";
        STREAM_MESSAGES_TOTAL = Counter, Count, "porchlight_stream_messages_total"
            ["stream": StreamKind::VALUES, "outcome": MessageOutcome::VALUES], "Batches received and messages sent over streams.";
    }
    "Webhooks" {
        WEBHOOK_ATTEMPTS_TOTAL = Counter, Count, "porchlight_webhook_attempts_total"
            ["outcome": AttemptOutcome::VALUES], "Attempts, by outcome: delivered, or the cause of the failure.";
        WEBHOOK_ATTEMPT_SECONDS = Histogram, Seconds, "porchlight_webhook_attempt_seconds"
            [], "Duration of an attempt until the response's head or the failure.";
        WEBHOOK_FIRST_ATTEMPT_AGE_SECONDS = Histogram, Seconds, "porchlight_webhook_first_attempt_age_seconds"
            [], "Time from a message's commit to its first attempt.";
        WEBHOOK_DELIVERY_AGE_SECONDS = Histogram, Seconds, "porchlight_webhook_delivery_age_seconds"
            [], "Time from a message's commit to its delivery.";
        WEBHOOK_FINISHED_TOTAL = Counter, Count, "porchlight_webhook_finished_total"
            ["state": Finished::VALUES], "Finished messages, by final state.";
        WEBHOOK_IN_FLIGHT = Gauge, Count, "porchlight_webhook_in_flight"
            [], "Attempts in flight.";
        WEBHOOK_WINDOW_LANES = Gauge, Count, "porchlight_webhook_window_lanes"
            [], "Lanes in memory.";
        WEBHOOK_LANES_BLOCKED = Gauge, Count, "porchlight_webhook_lanes_blocked"
            [], "Lanes in memory that wait for a retry.";
        WEBHOOK_OLDEST_DUE_TIMESTAMP_SECONDS = Gauge, Seconds, "porchlight_webhook_oldest_due_timestamp_seconds"
            [], "Due time of the oldest message that could be sent; 0 without such a message.";
        WEBHOOK_MESSAGES = Gauge, Count, "porchlight_webhook_messages"
            ["state": Kept::VALUES], "Stored messages that wait for an attempt or have failed permanently; counted each minute.";
        WEBHOOK_OVERLAPS = Gauge, Count, "porchlight_webhook_overlaps"
            [], "Endpoints whose previous secret is still valid.";
        WEBHOOK_STORE_FAILURES_TOTAL = Counter, Count, "porchlight_webhook_store_failures_total"
            [], "Failed store calls of webhooks, which are retried after a pause.";
        WEBHOOK_STORE_CALLS_TOTAL = Counter, Count, "porchlight_webhook_store_calls_total"
            ["call": StoreCall::VALUES], "Store operations of webhook actors.";
        WEBHOOK_ROWS_LISTED_TOTAL = Counter, Count, "porchlight_webhook_rows_listed_total"
            [], "Rows that the store read to list outboxes, including those of finished messages.";
        WEBHOOK_PERMITS_IN_USE = Gauge, Count, "porchlight_webhook_permits_in_use"
            ["pool": PermitPoolKind::VALUES], "Permits that the attempts and the DNS lookups of all tenants hold.";
        WEBHOOK_PERMITS_REFUSED_TOTAL = Counter, Count, "porchlight_webhook_permits_refused_total"
            ["pool": PermitPoolKind::VALUES], "Attempts and DNS lookups that found no permit in time because their tenant's share was used up. They are repeated and not counted.";
        WEBHOOK_LOOKUPS_TOTAL = Counter, Count, "porchlight_webhook_lookups_total"
            ["outcome": LookUpOutcome::VALUES], "DNS lookups of receivers, by outcome.";
        WEBHOOK_LOOKUP_SECONDS = Histogram, Seconds, "porchlight_webhook_lookup_seconds"
            [], "Duration of DNS lookups that queried a name server.";
        WEBHOOK_RESOLVER_AWAY = Gauge, Count, "porchlight_webhook_resolver_away"
            [], "1 while the DNS resolver of this node does not answer: webhook attempts are repeated and not counted.";
    }
    "Store" {
        STORE_COMMIT_SECONDS = Histogram, Seconds, "porchlight_store_commit_seconds"
            [], "Duration of writing and syncing one group.";
        STORE_GROUPS_TOTAL = Counter, Count, "porchlight_store_groups_total"
            [], "Committed groups.";
        STORE_OPERATIONS_TOTAL = Counter, Count, "porchlight_store_operations_total"
            ["outcome": StoreOutcome::VALUES], "Write operations, by outcome.";
        STORE_LIGHTWEIGHT_TOTAL = Counter, Count, "porchlight_store_lightweight_total"
            ["outcome": LightweightOutcome::VALUES], "Lightweight transactions on a CQL cluster, by outcome.";
        STORE_STATEMENTS_TOTAL = Counter, Count, "porchlight_store_statements_total"
            ["kind": StatementKind::VALUES], "Statements that a CQL cluster executed, by kind.";
        STORE_ROWS_READ_TOTAL = Counter, Count, "porchlight_store_rows_read_total"
            [], "Rows that a CQL cluster returned.";
        STORE_DATABASE_WARNINGS = Gauge, Count, "porchlight_store_database_warnings"
            ["reason": DatabaseWarning::VALUES], "1 for each property of the database that makes the service slower or less safe; the log says how to change it.";
        STORE_QUEUE_OPERATIONS = Gauge, Count, "porchlight_store_queue_operations"
            [], "Write operations that wait for the committer.";
        STORE_DISK_BYTES = Gauge, Bytes, "porchlight_store_disk_bytes"
            [], "Bytes that the embedded store uses on its disk; measured each minute.";
        STORE_RETENTION_CLOCK = Gauge, Count, "porchlight_store_retention_clock"
            ["state": ClockState::VALUES], "1 for the result of comparing the wall clock with the newest stored time; old sessions are deleted only while they agree.";
        STORE_UNREADABLE_ROWS_TOTAL = Counter, Count, "porchlight_store_unreadable_rows_total"
            [], "Damaged rows that the service found and skipped.";
        STORE_LAST_BACKUP_TIMESTAMP_SECONDS = Gauge, Seconds, "porchlight_store_last_backup_timestamp_seconds"
            [], "Time of the last successful backup of the embedded store, in Unix seconds; 0 without a backup.";
        STORE_DISK_FREE_BYTES = Gauge, Bytes, "porchlight_store_disk_free_bytes"
            [], "Free bytes on the disk of the embedded store; NaN if unknown.";
    }
    "Street map" {
        MAP_TILES_READ_TOTAL = Counter, Count, "porchlight_map_tiles_read_total"
            [], "Tiles of the street map that were read from the file, because the cache did not have them.";
        MAP_TILES_SKIPPED_TOTAL = Counter, Count, "porchlight_map_tiles_skipped_total"
            [], "Tiles of the street map that were damaged or exceeded a limit. They are drawn empty.";
    }
    "Privacy requests" {
        PRIVACY_REQUESTS_OPEN = Gauge, Count, "porchlight_privacy_requests_open"
            ["type": PrivacyType::VALUES], "Privacy requests that are pending or in progress, of the organizations that this node acts for.";
        PRIVACY_OLDEST_OPEN_TIMESTAMP_SECONDS = Gauge, Seconds, "porchlight_privacy_oldest_open_timestamp_seconds"
            ["type": PrivacyType::VALUES], "Time at which the oldest open privacy request was received, in Unix seconds; 0 without such a request.";
        PRIVACY_REQUESTS_TOTAL = Counter, Count, "porchlight_privacy_requests_total"
            ["type": PrivacyType::VALUES, "outcome": PrivacyOutcome::VALUES], "Privacy requests that ended, by outcome.";
    }
    "Nodes" {
        CLUSTER_SHARDS_OWNED = Gauge, Count, "porchlight_cluster_shards_owned"
            [], "Shards for which this process acts, as one of several nodes.";
        CLUSTER_MEMBERS = Gauge, Count, "porchlight_cluster_members"
            [], "Members of the cluster in this node's view, including itself.";
        CLUSTER_HEARTBEAT_AGE_SECONDS = Gauge, Seconds, "porchlight_cluster_heartbeat_age_seconds"
            [], "Time since the start of this node's last successful heartbeat; it stops acting at 5.3 s.";
        CLUSTER_CLOCK_DIFFERENCE_SECONDS = Gauge, Seconds, "porchlight_cluster_clock_difference_seconds"
            ["direction": ClockDirection::VALUES], "Lower bound of the time by which this node's clock is ahead of, or behind, another node's clock.";
        CLUSTER_CLOCK_REFUSED = Gauge, Count, "porchlight_cluster_clock_refused"
            [], "1 while this node does not join because its clock differs from the other nodes' by more than 10 s.";
        CLUSTER_SHARD_MOVES_TOTAL = Counter, Count, "porchlight_cluster_shard_moves_total"
            ["move": ShardMove::VALUES], "Shards that this node gained or lost.";
        CLUSTER_TAKE_OVER_SECONDS = Histogram, Seconds, "porchlight_cluster_take_over_seconds"
            [], "Time from the claim of shards until their sessions run.";
        CLUSTER_SESSIONS_TAKEN_TOTAL = Counter, Count, "porchlight_cluster_sessions_taken_total"
            [], "Sessions that started here because their shard moved.";
        CLUSTER_CHANGES_TOTAL = Counter, Count, "porchlight_cluster_changes_total"
            ["change": NodesChange::VALUES, "outcome": ChangeOutcome::VALUES], "Lightweight transactions of membership and ownership, by kind and outcome.";
        CLUSTER_STALE_REFUSED_TOTAL = Counter, Count, "porchlight_cluster_stale_refused_total"
            ["what": Stale::VALUES], "Writes and actions that this node skipped because it no longer owns the shard.";
        CLUSTER_FOUND_IN_STORE_TOTAL = Counter, Count, "porchlight_cluster_found_in_store_total"
            ["what": Found::VALUES], "Changes that an owner found in the store by reconciling.";
    }
    "Peers" {
        PEER_FORWARDED_BATCHES_TOTAL = Counter, Count, "porchlight_peer_hand_overs_total"
            ["outcome": Forwarded::VALUES], "Batches for sessions of another node, by the outcome of forwarding; the owner finds batches that did not reach it in the journal.";
        PEER_FORWARDED_BATCHES_REPAIRED_TOTAL = Counter, Count, "porchlight_peer_hand_overs_repaired_total"
            [], "Batches that a live session found in the journal and that no node had forwarded.";
        PEER_NUDGES_TOTAL = Counter, Count, "porchlight_peer_nudges_total"
            ["outcome": Nudged::VALUES], "Nudges sent to other nodes.";
        PEER_LOOKS_LOST_TOTAL = Counter, Count, "porchlight_peer_looks_lost_total"
            [], "Nudges dropped because the queue was full; the next scan finds the session.";
        PEER_LIVE_READS_TOTAL = Counter, Count, "porchlight_peer_live_reads_total"
            ["outcome": LiveOutcome::VALUES], "Reads of live sessions from the nodes that own them.";
        PEER_WAITING_BATCHES = Gauge, Count, "porchlight_peer_waiting_batches"
            [], "Batches queued for forwarding.";
        PEER_REQUEST_SECONDS = Histogram, Seconds, "porchlight_peer_request_seconds"
            ["route": PeerRoute::VALUES], "Duration of a request to another node, for every outcome.";
        PEER_ANSWERS_TOTAL = Counter, Count, "porchlight_peer_answers_total"
            ["answer": PeerAnswer::VALUES], "Requests of other nodes, by outcome.";
    }
    "Runtime" {
        BUILD_INFO = Gauge, Count, "porchlight_build_info"
            ["version": &[env!("CARGO_PKG_VERSION")]], "1, with the running version.";
        UNCLEAN_START = Gauge, Count, "porchlight_unclean_start"
            [], "1 if the process before this one ended without draining: it was killed, or its store failed.";
        RUNTIME_LAG_SECONDS = Histogram, Seconds, "porchlight_runtime_lag_seconds"
            ["runtime": RuntimeKind::VALUES], "Delay of a thread's regular tick: the time for which the thread was busy or blocked.";
    }
}

/// Describes every metric to the recorder.
pub fn describe() {
    for definition in CATALOGUE {
        let (name, unit, help) = (definition.name, definition.unit, definition.help);
        match definition.instrument {
            Instrument::Counter => metrics::describe_counter!(name, unit, help),
            Instrument::Gauge => metrics::describe_gauge!(name, unit, help),
            Instrument::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
}
