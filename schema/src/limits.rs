//! The limits that clients, operators or several crates depend on, with the unit in the name, and
//! the relations between them. A limit that only one module uses is defined in that module.
//!
//! A full resource is answered with 413, 429 or 503; nothing grows without bound. Limits of the
//! contract name its section; the others are design choices.

mod keys;
mod path_images;
mod personal_data;
mod relations;
mod retention;
mod shares;
mod street_map;
mod webhooks;

pub use keys::*;
pub use path_images::*;
pub use personal_data::*;
pub use retention::*;
pub use shares::*;
pub use street_map::*;
pub use webhooks::*;

// --- A batch on its way in (contract 3, 9) ------------------------------------------------------

/// Maximum body of one batch as sent, compressed or not (contract 3).
pub const BATCH_SENT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum body of one batch after decompression (contract 3).
pub const BATCH_UNPACKED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of samples in one batch (contract 3).
pub const BATCH_SAMPLES_MAX: usize = 20_000;
/// Largest `seq` of a batch (contract 9).
pub const BATCH_SEQ_MAX: u32 = 1_000_000;
/// Largest `t` of a sample, 48 hours (contract 9).
pub const SAMPLE_T_MS_MAX: u32 = 172_800_000;
/// Maximum number of values in each array of an `imu` sample (contract 9).
pub const IMU_VALUES_MAX: usize = 4_000;
/// Maximum duration of one `imu` sample (contract 3).
pub const IMU_DURATION_MS_MAX: u32 = 10_000;
/// Maximum length of a `mark`'s name in characters (contract 3).
pub const MARK_NAME_CHARS_MAX: usize = 64;
/// Maximum body of a request other than telemetry.
pub const REQUEST_BODY_BYTES_MAX: usize = 64 * 1024;
/// The number of bytes by which a compressed body may be longer than twice the bytes to which it
/// unpacks. Empty frames of zstd and empty members of gzip cost time, and no limit on unpacked
/// bytes ends them. A decompressor may hold a block of 128 KiB before it unpacks anything.
pub const BODY_OVERHEAD_BYTES_MAX: usize = 256 * 1024;
/// Maximum body of one NDJSON request as sent (contract 9).
pub const NDJSON_SENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum body of one NDJSON request after decompression (contract 9).
pub const NDJSON_UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum time that lines of an NDJSON request wait for capacity before one is refused.
pub const NDJSON_ROOM_MS_MAX: u64 = 250;
/// Maximum number of lines of one NDJSON request that are refused for their content. Each costs
/// about a microsecond and is answered with about 75 bytes, and a small body may unpack to millions
/// of them.
pub const NDJSON_FAULTY_LINES_MAX: usize = 10_000;
/// Maximum number of lines of one NDJSON request that were read and not answered yet.
pub const NDJSON_LINES_IN_FLIGHT_MAX: usize = 64;
/// Time after which a client that does not read its answer is disconnected.
pub const ANSWER_WRITTEN_MS_MAX: u64 = 10_000;
/// Time after which a connection whose peer has read nothing is closed. It equals the silence that
/// a phone is allowed on a WebSocket ([`SOCKET_SILENCE_MS_MAX`]), because both may be in an
/// elevator. The kernel checks at growing intervals, so the close was measured after 110 s.
pub const UNREAD_MS_MAX: u32 = 75_000;
/// Time without progress after which a body is answered with 408 (contract 9).
pub const BODY_SILENCE_MS_MAX: u64 = 10_000;
/// Time after which an incomplete body is answered with 408 (contract 9).
pub const BODY_WHOLE_MS_MAX: u64 = 30_000;

// --- Admission ----------------------------------------------------------------------------------

/// Maximum number of a session's batches between admission and acknowledgement.
pub const SESSION_IN_FLIGHT_MAX: u32 = 8;
/// Maximum number of body bytes that a node has received and not yet acknowledged.
pub const NODE_IN_FLIGHT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Target for the average time from a batch's last byte to its acknowledgement on a fast disk;
/// above it the node refuses batches. It is several group commits of about a millisecond, and below
/// the p99 of a node that keeps up.
pub const INGEST_DELAY_US_TARGET: u32 = 5_000;
/// Number of batches between last byte and acknowledgement that a node always admits: with fewer, a
/// group commit shares its sync among too few.
pub const INGEST_BATCHES_MIN: u32 = 64;
/// Number of batches between last byte and acknowledgement that a node admits before it has
/// measured its speed.
pub const INGEST_BATCHES_START: u32 = 256;
/// Maximum of the adaptive limit on batches between last byte and acknowledgement. Together with
/// the room for light tenants ([`LIGHT_TENANT_ROOM_PARTS`]), it stays below [`COMMIT_QUEUE_MAX`].
pub const INGEST_BATCHES_MAX: u32 = 2_048;
/// Maximum number of acknowledged batches, about 1 KB each, that wait for their sessions' actors on
/// a node. The batches of light tenants may exceed it by one part in [`LIGHT_TENANT_ROOM_PARTS`].
pub const NODE_MAILBOX_MAX: u32 = 16_384;
/// Maximum number of batches in one session's mailbox; beyond it the session reads them from the
/// journal.
pub const SESSION_MAILBOX_MAX: u32 = 64;
/// Maximum number of operations queued for the committer of the embedded store.
pub const COMMIT_QUEUE_MAX: usize = 4_096;
/// Maximum number of operations in one group of the committer.
pub const COMMIT_GROUP_MAX: usize = 512;
/// Maximum bytes in one group of the committer, after its first operation.
pub const COMMIT_GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Number of journal heads that the committer caches, so that a batch with a higher `seq` needs no
/// lookup.
pub const JOURNAL_HEADS_MAX: usize = 262_144;
/// Maximum bytes of batches in one read of the journal, after the first batch.
pub const JOURNAL_READ_BYTES_MAX: usize = 1024 * 1024;
/// Maximum length of a key's name in characters.
pub const KEY_NAME_CHARS_MAX: usize = 64;
/// Maximum number of keys whose last use is written in one step.
pub const KEY_USES_WRITTEN_MAX: usize = 1_024;
/// Maximum number of batches in one partition of a session's journal on a CQL cluster: 64 KB of
/// batches of 1 KB, or 20 MB of batches of 300 KB.
pub const JOURNAL_PARTITION_BATCHES_MAX: u32 = 64;
/// Maximum number of snapshots of a session that a process leaves on a CQL cluster, the newest one
/// included.
pub const SNAPSHOT_ROWS_MAX: u8 = 16;
/// Maximum number of rows that one process writes into a shared partition on a CQL cluster: an
/// organization's sessions of an hour, or its deliveries or outbox entries of ten minutes. It
/// writes further rows into its own partitions.
pub const LIST_SHARED_ROWS_MAX: u16 = 2_048;
/// Maximum number of rows that one process writes each day into the shared partition of a courier's
/// or a delivery's sessions on a CQL cluster. It writes further rows into partitions of its own.
pub const LIST_SHARED_ROWS_PER_DAY_MAX: u16 = 32;
/// Maximum number of rows in a partition that one process writes alone: about 8 MB of sessions, or
/// 33 MB of deliveries.
pub const LIST_OWN_ROWS_MAX: u64 = 131_072;
/// Time for which all members of a CQL cluster must read bounded partitions before the nodes agree
/// to use them.
pub const AGREED_AFTER_MS: u64 = 10 * 60 * 1000;
/// Time from the agreement on bounded partitions to their first use.
pub const AGREED_AHEAD_MS: u64 = 10 * 60 * 1000;
/// Interval at which a process reads the agreement on bounded partitions until it finds one.
pub const AGREEMENT_READ_INTERVAL_MS: u64 = 60 * 1000;
/// Maximum number of index rows that one page of a list may skip.
pub const LIST_SCANNED_ROWS_MAX: usize = 10_000;
/// Maximum number of insights that one page of a list of sessions reads to select by outcome.
pub const LIST_INSIGHTS_READ_MAX: usize = 1_000;
/// Maximum number of lists whose insights, or audit lines, a node decodes at the same time; one of
/// each organization.
pub const LISTS_DECODED_AT_ONCE_MAX: usize = 4;
/// Maximum number of rows that one step of the retention sweep removes.
pub const SWEEP_STEP_ROWS_MAX: usize = 1_000;
/// Maximum number of damaged rows that one check of a store lists. The check counts all of them.
pub const CHECK_DAMAGED_ROWS_MAX: usize = 10_000;
/// Divisor of the completed sessions of a store: an hourly sweep deletes at most one part in this
/// many.
pub const SWEEP_SESSIONS_PARTS: u64 = 20;
/// Maximum number of completed sessions that a sweep counts. If there are more, the sweep deletes
/// at most a part of this number.
pub const SWEEP_COUNTED_SESSIONS_MAX: u64 = 1_000_000;
/// Maximum difference between the wall clock and the newest stored time, extrapolated to now, at
/// which old sessions are deleted.
pub const RETENTION_CLOCK_DIFFERENCE_MS_MAX: i64 = 24 * 3600 * 1000;
/// Time for which a wall clock that differed at the start must run evenly to be trusted again.
pub const RETENTION_CLOCK_TRUSTED_AFTER_MS: i64 = 7 * 24 * 3600 * 1000;
/// Shortest configurable retention: webhooks are retried for 27 hours, and their sessions must be
/// kept for longer.
pub const RETENTION_MS_MIN: i64 = 3 * 24 * 3600 * 1000;
/// Largest configurable deadline of a write to the journal of a CQL cluster. A write that began
/// before a session's end, on a node that does not know of the end yet, must be finished when the
/// insight is checked again ([`END_SETTLES_MS`]).
pub const INGEST_TIMEOUT_MS_MAX: i64 = 2_000;
/// Maximum number of open event streams of one node.
pub const NODE_EVENT_STREAMS_MAX: usize = 8_192;
/// Maximum number of open streams of one node to the console's live pages. Each holds a connection
/// and polls at least every two seconds.
pub const NODE_CONSOLE_STREAMS_MAX: usize = 512;
/// Maximum number of open streams of one tenant, on one node, to the console's live pages.
pub const TENANT_CONSOLE_STREAMS_MAX: usize = 64;
/// Maximum number of messages in one chunk of an event stream; the next chunk is built after this
/// one was written.
pub const EVENTS_PIECE_MESSAGES_MAX: usize = 64;
/// Interval of comments in an event stream (contract 9).
pub const EVENTS_COMMENT_MS: u64 = 15_000;
/// Maximum number of event streams of completed sessions whose past is computed at the same time;
/// organizations take turns.
pub const FEEDS_COMPUTED_MAX: usize = 2;
/// Maximum number of journals that a node reads at the same time for the end of sessions that apps
/// stop after a timeout without `endedAt`; one of each organization.
pub const LATE_STOPS_READ_MAX: usize = 4;
/// Maximum number of open WebSockets of one node.
pub const NODE_SOCKETS_MAX: usize = 16_384;
/// Maximum number of open WebSockets of one session: a phone that reconnects leaves some behind.
pub const SESSION_SOCKETS_MAX: usize = 8;
/// Interval at which a WebSocket is pinged and its credential checked again.
pub const SOCKET_PING_MS: u64 = 20_000;
/// Time without traffic after which a WebSocket is closed.
pub const SOCKET_SILENCE_MS_MAX: u64 = 75_000;
/// Maximum time for the peer of a WebSocket to answer a close.
pub const SOCKET_CLOSING_MS_MAX: u64 = 2_000;
/// `Retry-After` of 429 for a session's in-flight limit, and of 503.
pub const RETRY_AFTER_SEC: u64 = 1;

// --- A session (contract 2, 3, 9) ---------------------------------------------------------------

/// Time of telemetry beyond a gap in `seq` after which the gap is skipped (contract 3).
pub const GAP_SKIPPED_AFTER_T_MS: u32 = 60_000;
/// Number of batches beyond a gap in `seq` after which the gap is skipped (contract 3).
pub const GAP_SKIPPED_AFTER_BATCHES: u32 = 64;
/// Maximum lag of a kind of sample behind the session's newest sample (contract 3).
pub const KIND_LAG_MS_MAX: u32 = 12_000;
/// Time without a sample after which open events end at the last sample (contract 4).
pub const GAP_MS: u32 = 30_000;
/// Maximum number of a session's events. Further events are not kept.
pub const SESSION_EVENTS_MAX: usize = 2_000;
/// Number of a session's events from which on only events of movement are kept, so that the
/// reception in a street canyon does not displace the visit at the door.
pub const SESSION_EVENTS_MIXED_MAX: usize = 1_500;
/// Maximum number of a session's marks, and of its incidents, of one name that scoring uses: the
/// first half and the most recent half.
pub const SESSION_MARKS_MAX: usize = 256;
/// Time after the app's stop of a session within which telemetry is accepted (contract 3).
pub const LATE_WINDOW_MS: i64 = 10 * 60 * 1000;
/// Time within which telemetry and the app's own stop are accepted after the service ended a
/// session that was silent or too old (contract 2): the phone may only have been offline.
pub const TIMEOUT_LATE_WINDOW_MS: i64 = 24 * 3600 * 1000;
/// Maximum number of ranges of missing batches in one answer about acknowledged batches. The last
/// range covers all further ones, so that an app sends too much rather than too little.
pub const ACKNOWLEDGED_RANGES_MAX: usize = 10_000;
/// The time for which a session's token remains valid after the session's end (contract 1).
pub const TOKEN_GRACE_MS: i64 = 24 * 3600 * 1000;
/// Maximum age of `startedAt` (contract 9).
pub const STARTED_AT_BACK_MS_MAX: i64 = 24 * 3600 * 1000;
/// Maximum time by which `startedAt` and `endedAt` may lie in the future (contract 9).
pub const CLOCK_AHEAD_MS_MAX: i64 = 5 * 60 * 1000;
/// The time for which an `Idempotency-Key` is remembered (contract 2).
pub const IDEMPOTENCY_MS: i64 = 24 * 3600 * 1000;
/// Maximum length of an `Idempotency-Key` in characters (contract 9).
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;
/// Maximum length of `deliveryId`, `externalRiderId` and each line of an address in characters.
pub const TEXT_CHARS_MAX: usize = 256;
/// Maximum length of a URL in characters.
pub const URL_CHARS_MAX: usize = 2_048;
/// Lowest floor of an address; ground is 0.
pub const ADDRESS_FLOOR_MIN: i16 = -20;
/// Highest floor of an address, above the tallest existing building.
pub const ADDRESS_FLOOR_MAX: i16 = 200;
/// Largest `accuracyM` of an address.
pub const ADDRESS_ACCURACY_M_MAX: f64 = 100_000.0;
/// Smallest `storeyHeightM` of an address.
pub const STOREY_HEIGHT_M_MIN: f64 = 1.5;
/// Largest `storeyHeightM` of an address.
pub const STOREY_HEIGHT_M_MAX: f64 = 20.0;
/// Maximum number of gates of one address.
pub const ADDRESS_GATES_MAX: usize = 16;
/// Maximum number of names in `device.sensors`.
pub const DEVICE_SENSORS_MAX: usize = 32;
/// Maximum length of a name in `device.sensors` in characters.
pub const DEVICE_SENSOR_CHARS_MAX: usize = 64;
/// Maximum number of errors listed for one request.
pub const FAULTS_MAX: usize = 20;

/// The time for which a browser may remember the answer to a preflight request, in seconds.
pub const CORS_PREFLIGHT_SEC: u32 = 600;

// --- Recorders (contract 12) --------------------------------------------------------------------

/// Minimum lifetime of a recorder's link, in seconds (contract 12).
pub const RECORDER_EXPIRES_SEC_MIN: u32 = 60;
/// Maximum lifetime of a recorder's link, in seconds: 30 days (contract 12).
pub const RECORDER_EXPIRES_SEC_MAX: u32 = 2_592_000;
/// Default lifetime of a recorder's link, in seconds (contract 12).
pub const RECORDER_EXPIRES_SEC_DEFAULT: u32 = 86_400;
/// The time for which an expired recorder is kept, so that it can still be shown, in milliseconds.
pub const RECORDER_KEPT_BEYOND_MS: i64 = 24 * 3_600 * 1_000;
/// Maximum age of the start of a recorder's session: a phone may have kept its recordings for as
/// long as a link works.
pub const RECORDER_STARTED_AT_BACK_MS_MAX: i64 = RECORDER_EXPIRES_SEC_MAX as i64 * 1_000;
/// Maximum number of sessions of one recorder whose push numbers are kept. A further session
/// replaces the oldest. One push opens at most as many.
pub const RECORDER_SESSIONS_KNOWN_MAX: usize = 4;
/// Maximum number of the app's recordings within one session whose push numbers are kept.
pub const RECORDER_RUNS_MAX: usize = 64;
/// Maximum number of pushes without a number, within one session, whose repetition is recognised.
pub const RECORDER_PUSHES_KNOWN_MAX: usize = 256;
/// Time without data after which a recorder no longer counts as receiving.
pub const RECORDER_RECEIVING_MS: i64 = 60_000;
/// Maximum length of the query and the form of a push: the app sends one position in it.
pub const PUSH_FORM_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of objects, of up to 640 bytes, in a push that is read as a tree: 20,000
/// positions have about 80,000.
pub const RECORDER_TREE_OBJECTS_MAX: usize = 131_072;
/// Maximum number of values, of 32 bytes, in a push that is read as a tree.
pub const RECORDER_TREE_VALUES_MAX: usize = 1_048_576;

// --- Snapshots and supervision (design) ---------------------------------------------------------

/// Number of batches after which a snapshot is due.
pub const SNAPSHOT_BATCHES: u32 = 12;
/// Time after which a snapshot is due.
pub const SNAPSHOT_MS: u64 = 60_000;
/// Shortest silence after which the owner of a session in a cluster first reconciles it, in case a
/// notification of another node was lost. The owner waits [`RECONCILE_USUAL_FACTOR`] times as long
/// as the session is usually silent, if that is more.
pub const RECONCILE_SILENT_MS: i64 = 120_000;
/// Longest silence after which the owner first reconciles a session; see [`RECONCILE_SILENT_MS`].
pub const RECONCILE_SILENT_MS_MAX: i64 = 1_200_000;
/// The owner first reconciles a session that is silent for this many times as long as usual, so
/// that a phone that sends rarely causes no reads.
pub const RECONCILE_USUAL_FACTOR: i64 = 2;
/// The owner reconciles a session again when its silence has grown to this many times its length at
/// the previous reconciliation.
pub const RECONCILE_SILENT_FACTOR: i64 = 4;
/// Maximum number of scores per second and tenant for batches that arrive after the end of their
/// session.
pub const LATE_SCORES_PER_TENANT_PER_SEC: u32 = 100;
/// Time between the first two scores of a session that receives batches after its end. Each further
/// time is twice as long, up to [`LATE_SCORES_APART_MAX_MS`].
pub const LATE_SCORES_APART_MS: u64 = 500;
/// Longest time between two scores of a session that receives batches after its end; see
/// [`LATE_SCORES_APART_MS`].
pub const LATE_SCORES_APART_MAX_MS: u64 = 4_000;
/// Time since its last score after which the times between two scores of a session are short again;
/// see [`LATE_SCORES_APART_MS`].
pub const LATE_SCORES_REMEMBERED_MS: u64 = 60_000;
/// The time after a session's end at which it is reconciled again if several nodes write:
/// longer than a node caches the session as live (3 s) plus the time of a write.
pub const END_SETTLES_MS: u64 = 10_000;
/// Number of restarts of a session's actor within [`RESTART_WINDOW_MS`] after which a batch is
/// quarantined.
pub const RESTARTS_MAX: u32 = 3;
/// The time window of [`RESTARTS_MAX`].
pub const RESTART_WINDOW_MS: u64 = 60_000;
/// Maximum number of batches that one scoring quarantines; a detector that panics at more has
/// another fault.
pub const SCORING_QUARANTINES_MAX: usize = 8;
/// Number of samples after which a computation over a session's samples lets other work of its
/// thread run: about 6 ms, and as many as one batch may have.
pub const SAMPLES_UNTIL_YIELD: u32 = BATCH_SAMPLES_MAX as u32;
/// Number of actors, each with a thread, that score the ended sessions of a node.
pub const SCORING_ACTORS: usize = 2;
/// Maximum number of sessions that a node scores at the same time. A score waits for about sixteen
/// answers from the store, one after the other. A node whose database answers within 5 ms therefore
/// scores 200 sessions per second of several tenants.
pub const SCORES_AT_ONCE_MAX: usize = 16;
/// Maximum number of sessions of one tenant that a node scores at the same time.
pub const TENANT_SCORES_AT_ONCE_MAX: usize = 8;
/// Deadline for a stopping node to refuse, drain and save snapshots.
pub const DRAIN_MS_MAX: u64 = 20_000;
/// Deadline for a stopping node to write the last uses of its keys, while it flushes the audit log.
pub const DRAIN_KEY_USES_MS_MAX: u64 = 2_000;
/// The time for which a stopping node still answers connected clients: reads as usual, and
/// everything else with 503. It closes each connection with its answer.
///
/// Measured (bench/results/2026-11-21-cluster.md): three nodes were restarted one after the other
/// while clients sent 2,182 batches, and one request was lost. Its connection was idle during the
/// whole drain, and was closed just as the client used it. A client that sends once a second, or a
/// load balancer, notices the stop within this time.
pub const DRAIN_GRACE_MS: u64 = 2_000;
/// Largest configurable value of [`DRAIN_GRACE_MS`].
pub const DRAIN_GRACE_MS_MAX: u64 = 20_000;
/// Number of fixed slices of sessions and endpoints.
pub const SHARDS: usize = 256;

// --- Several nodes (design) ---------------------------------------------------------------------

/// The time for which a node caches that another node's session is live.
pub const REMOTE_SESSION_TTL_MS: u64 = 3_000;
/// Maximum number of other nodes' sessions that a node caches.
pub const REMOTE_SESSIONS_MAX: usize = 65_536;
/// The interval at which a watcher of another node's session polls.
pub const REMOTE_POLL_MS: u64 = 1_000;
/// Maximum number of sessions queued for reconciliation on one node.
pub const RECONCILES_WAITING_MAX: usize = 65_536;
/// Maximum number of sessions that a node reconciles at the same time.
pub const RECONCILES_AT_ONCE_MAX: usize = 64;
/// Maximum number of sessions that a node restores at the same time after it has claimed their
/// shards.
pub const RESTORES_AT_ONCE_MAX: usize = 64;
/// Maximum number of sessions whose end or insight is stored and whose copies a member of a cluster
/// still tries to write. The copies of further sessions are left to the scan for marks. A process
/// that serves alone retries all of them, because it scans for marks only when it starts.
pub const STORE_ACTIONS_RETRIED_MAX: usize = 4_096;
/// Maximum number of sessions in progress that one statement looks up when a node claims shards.
/// The database refuses statements that name far more rows, or warns of them.
pub const LIVE_LOOKED_UP_TOGETHER_MAX: usize = 32;
/// Maximum number of lookups of sessions in progress that are in flight for one group of claimed
/// shards.
pub const LIVE_LOOK_UPS_AT_ONCE_MAX: usize = 4;
/// Deadline of a request between nodes, from sending to the last byte of the answer.
pub const PEER_REQUEST_MS_MAX: u64 = 2_000;
/// Maximum size of a request or an answer between nodes.
pub const PEER_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of batches queued for forwarding to one node. Further batches are dropped; the
/// node reads them from the journal.
pub const PEER_QUEUE_BATCHES_MAX: usize = 8_192;
/// Maximum bytes of batches queued for forwarding to one node.
pub const PEER_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of nudges queued for one node.
pub const PEER_QUEUE_NUDGES_MAX: usize = 65_536;
/// Maximum number of batches or nudges in one request between nodes.
pub const PEER_REQUEST_ITEMS_MAX: usize = 512;
/// Maximum bytes of batches in one request between nodes, after the first batch. A larger batch is
/// not forwarded; the node reads it from the journal.
pub const PEER_REQUEST_BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of unanswered queries about live sessions to one node.
pub const PEER_QUERIES_MAX: usize = 256;

// --- Lists (contract 2, 6) ----------------------------------------------------------------------

/// Default number of rows per page.
pub const PAGE_ROWS_DEFAULT: u32 = 50;
/// Maximum number of rows per page.
pub const PAGE_ROWS_MAX: u32 = 200;
/// Maximum length of a cursor in characters.
pub const CURSOR_CHARS_MAX: usize = 256;

// --- Defaults of the configuration that customers meet (contract 8) -----------------------------

/// Minutes without data after which a session is completed (`session.idle_timeout`).
pub const SESSION_IDLE_MINUTES_DEFAULT: u64 = 30;
/// The shortest configurable silence after which the service completes a session, in milliseconds:
/// one second.
pub const SESSION_IDLE_MS_MIN: i64 = 1_000;
/// Age in minutes at which a session is completed (`session.max_duration`).
pub const SESSION_DURATION_MINUTES_DEFAULT: u64 = 12 * 60;
/// Largest configurable `session.max_duration`, so that data is deleted at most four days after its
/// retention.
pub const SESSION_DURATION_MS_MAX: i64 = 72 * 3600 * 1000;
/// Largest configurable number of HTTP threads (`server.workers`).
pub const SERVER_WORKERS_MAX: usize = 256;
/// Default of `store.reserve_bytes`, the free bytes on the disk of the embedded store below which
/// clients' writes are refused.
pub const STORE_RESERVE_BYTES_DEFAULT: u64 = 1 << 30;
/// Divisor of the disk: the reserve is at most one part in this many.
pub const STORE_RESERVE_PARTS_MIN: u64 = 4;
/// The minimum of free space is one part in this many of the reserve. Below it the embedded store
/// writes nothing.
pub const STORE_MINIMUM_PARTS: u64 = 4;
/// Divisor of a threshold of free space: writes are accepted again once one part in this many is
/// free beyond the threshold.
pub const STORE_RESERVE_MARGIN_PARTS: u64 = 8;
/// Number of days for which a session is kept after its end (`store.retention`).
pub const RETENTION_DAYS_DEFAULT: u64 = 90;
/// Maximum number of requests per second of one key (`server.rate_limit_per_second`).
pub const KEY_REQUESTS_PER_SECOND_DEFAULT: u32 = 2_000;
