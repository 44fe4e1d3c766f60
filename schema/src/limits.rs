//! Every maximum of the service, each with its unit in its name, and how they relate.
//!
//! What is full answers (413, 429, 503); nothing grows without a bound. Where a number is the contract's, its
//! section is named; the others are ours.

// --- A batch on its way in (contract 3, 9) ---------------------------------------------------------------------

/// Body of one batch as sent, compressed or not (contract 3).
pub const BATCH_SENT_BYTES_MAX: usize = 1024 * 1024;
/// Body of one batch after decompression (contract 3).
pub const BATCH_UNPACKED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Samples in one batch (contract 3).
pub const BATCH_SAMPLES_MAX: usize = 20_000;
/// Largest `seq` of a batch (contract 9).
pub const BATCH_SEQ_MAX: u32 = 1_000_000;
/// Largest `t` of a sample, 48 hours (contract 9).
pub const SAMPLE_T_MS_MAX: u32 = 172_800_000;
/// Values in each array of an `imu` sample (contract 9).
pub const IMU_VALUES_MAX: usize = 4_000;
/// Duration of one `imu` sample (contract 3).
pub const IMU_DURATION_MS_MAX: u32 = 10_000;
/// Characters in the name of a `mark` (contract 3).
pub const MARK_NAME_CHARS_MAX: usize = 64;
/// Body of any request that is not telemetry.
pub const REQUEST_BODY_BYTES_MAX: usize = 64 * 1024;
/// Body of one NDJSON request as sent (contract 9).
pub const NDJSON_SENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Body of one NDJSON request after decompression (contract 9).
pub const NDJSON_UNPACKED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long lines of an NDJSON request wait for room in the node before one is refused, milliseconds.
pub const NDJSON_ROOM_MS_MAX: u64 = 250;
/// Lines of one NDJSON request between their reading and their answer.
pub const NDJSON_LINES_IN_FLIGHT_MAX: usize = 64;
/// A client that has not read what waits for it after this long is given up.
pub const ANSWER_WRITTEN_MS_MAX: u64 = 10_000;
/// A connection is closed when its other side has taken nothing of what waits for it for this long: as long as a phone may
/// be silent on a WebSocket ([`SOCKET_SILENCE_MS_MAX`]), for both may be in a lift. The system looks when it asks the other
/// side for room, at longer and longer intervals: measured 110 s.
pub const UNREAD_MS_MAX: u32 = 75_000;
/// A body in which nothing moves for this long is given up with 408 (contract 9).
pub const BODY_SILENCE_MS_MAX: u64 = 10_000;
/// A body that is not whole after this long is given up with 408 (contract 9).
pub const BODY_WHOLE_MS_MAX: u64 = 30_000;

// --- Admission -------------------------------------------------------------------------------------------------

/// Batches of one session between admission and acknowledgement (design).
pub const SESSION_IN_FLIGHT_MAX: u32 = 8;
/// Bytes of bodies that one node has admitted and not yet acknowledged.
pub const NODE_IN_FLIGHT_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a batch may take on average from its last byte to its acknowledgement before others are refused, where the
/// disk is fast: several group commits of about a millisecond, and below the p99 of a node that keeps up.
pub const INGEST_DELAY_US_TARGET: u32 = 5_000;
/// Batches of one node between their last byte and their acknowledgement that are always admitted: with fewer, a group
/// commit has too few to share its sync.
pub const INGEST_BATCHES_MIN: u32 = 64;
/// The same before anything is known of the machine.
pub const INGEST_BATCHES_START: u32 = 256;
/// The same at most: the store's writer takes no more.
pub const INGEST_BATCHES_MAX: u32 = 2_048;
/// Batches of one node that are acknowledged and wait for their sessions' actors, about 1 KB each, before others are
/// refused.
pub const NODE_MAILBOX_MAX: u32 = 16_384;
/// Batches waiting in one session's mailbox; beyond it the session reads them from the journal instead.
pub const SESSION_MAILBOX_MAX: u32 = 64;
/// Writes waiting for the committer of the embedded store.
pub const COMMIT_QUEUE_MAX: usize = 4_096;
/// Writes in one group of the committer.
pub const COMMIT_GROUP_MAX: usize = 512;
/// Bytes in one group of the committer, beyond the first write.
pub const COMMIT_GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Sessions whose highest `seq` the committer remembers, so that a rising one needs no look-up.
pub const JOURNAL_TIPS_MAX: usize = 262_144;
/// Bytes of batches in one read of the journal, beyond the first batch.
pub const JOURNAL_READ_BYTES_MAX: usize = 1024 * 1024;
/// Characters of a key's name.
pub const KEY_NAME_CHARS_MAX: usize = 64;
/// Keys whose last use is written at once.
pub const KEY_USES_WRITTEN_MAX: usize = 1_024;
/// Index rows that one page of a list may pass over.
pub const LIST_SCANNED_ROWS_MAX: usize = 10_000;
/// Insights that one page of a list of sessions reads to select by outcome.
pub const LIST_INSIGHTS_READ_MAX: usize = 1_000;
/// Rows that one step of the retention sweep removes.
pub const SWEEP_STEP_ROWS_MAX: usize = 1_000;
/// Parts of a store's completed sessions of which one sweep, each hour, deletes at most one.
pub const SWEEP_SESSIONS_PARTS: u64 = 20;
/// Completed sessions that a sweep counts at most; where there are more it deletes a part of this many.
pub const SWEEP_COUNTED_SESSIONS_MAX: u64 = 1_000_000;
/// How far the wall clock may differ from the newest stored time, carried on, for old sessions to be deleted.
pub const RETENTION_CLOCK_DIFFERENCE_MS_MAX: i64 = 24 * 3600 * 1000;
/// A wall clock that differed at the start is believed when it has run evenly for this long.
pub const RETENTION_CLOCK_TRUSTED_AFTER_MS: i64 = 7 * 24 * 3600 * 1000;
/// Shortest retention that may be configured: webhooks are retried for 27 hours, and sessions are kept beyond that.
pub const RETENTION_MS_MIN: i64 = 3 * 24 * 3600 * 1000;
/// Longest time that a write to the journal of a CQL cluster may take. A write that began before a session's end, on a
/// node that does not know of it yet, must be over when the insight is looked at once more ([`END_SETTLES_MS`]).
pub const INGEST_TIMEOUT_MS_MAX: i64 = 2_000;
/// Open event streams of one node.
pub const NODE_EVENT_STREAMS_MAX: usize = 8_192;
/// Messages in one piece of an event stream; the next piece is made when this one is written.
pub const EVENTS_PIECE_MESSAGES_MAX: usize = 64;
/// An event stream has a comment after this long (contract 9).
pub const EVENTS_COMMENT_MS: u64 = 15_000;
/// Event streams whose past is computed at once, when their session has ended.
pub const FEEDS_COMPUTED_MAX: usize = 2;
/// Open WebSockets of one node.
pub const NODE_SOCKETS_MAX: usize = 16_384;
/// Open WebSockets of one session: a phone that reconnects leaves some behind that do not know it yet.
pub const SESSION_SOCKETS_MAX: usize = 8;
/// A WebSocket is asked whether it is there after this long, and its credential looked at again.
pub const SOCKET_PING_MS: u64 = 20_000;
/// A WebSocket of which nothing came for this long is closed.
pub const SOCKET_SILENCE_MS_MAX: u64 = 75_000;
/// How long the other side of a WebSocket has to answer its closing.
pub const SOCKET_CLOSING_MS_MAX: u64 = 2_000;
/// What a client is asked to wait after 429 for a session's in-flight cap, and after 503.
pub const RETRY_AFTER_SEC: u64 = 1;

// --- Shares of one node that one tenant may use; a tenant is an organization in one environment ------------------
// The defaults of the configuration's section `[limits]`. A request beyond a share is refused with 429.

/// Bytes of request bodies that have arrived and are not answered: a quarter of the node's.
pub const TENANT_IN_FLIGHT_BYTES_MAX: u64 = NODE_IN_FLIGHT_BYTES_MAX as u64 / 4;
/// Requests that are being answered.
pub const TENANT_REQUESTS_MAX: u64 = 4_096;
/// Open WebSockets: a quarter of the node's.
pub const TENANT_SOCKETS_MAX: u64 = NODE_SOCKETS_MAX as u64 / 4;
/// Open event streams: a quarter of the node's.
pub const TENANT_EVENT_STREAMS_MAX: u64 = NODE_EVENT_STREAMS_MAX as u64 / 4;
/// Sessions that record: a quarter of the million that fit into one node.
pub const TENANT_LIVE_SESSIONS_MAX: u64 = 250_000;
/// Lists that are being read. Each passes over at most [`LIST_SCANNED_ROWS_MAX`] rows.
pub const TENANT_LISTS_AT_ONCE_MAX: u64 = 8;
/// Sessions started per second; the burst is [`SESSION_STARTS_BURST_FACTOR`] times as many.
pub const TENANT_SESSION_STARTS_PER_SEC: u32 = 1_000;
/// See [`TENANT_SESSION_STARTS_PER_SEC`].
pub const SESSION_STARTS_BURST_FACTOR: u32 = 2;
/// PoDs of completed sessions that are replaced per second, each of which causes a new insight; the burst is
/// [`POD_CHANGES_BURST_FACTOR`] times as many.
pub const TENANT_POD_CHANGES_PER_SEC: u32 = 10;
/// See [`TENANT_POD_CHANGES_PER_SEC`].
pub const POD_CHANGES_BURST_FACTOR: u32 = 10;
/// A tenant whose batches under way are fewer than one part in this many of the node's limit is a light tenant.
pub const LIGHT_TENANT_PARTS: u32 = 4;
/// Room beyond the node's limit that only light tenants may use, as one part in this many of that limit: a tenant that
/// fills a node leaves this much to the others.
pub const LIGHT_TENANT_ROOM_PARTS: u32 = 8;

// --- A session (contract 2, 3, 9) ------------------------------------------------------------------------------

/// A hole in `seq` is given up when telemetry this far beyond it has come (contract 3).
pub const HOLE_SKIPPED_AFTER_T_MS: u32 = 60_000;
/// A hole in `seq` is given up when this many batches beyond it have come (contract 3).
pub const HOLE_SKIPPED_AFTER_BATCHES: u32 = 64;
/// A kind of sample may lag the newest sample of the session by this much (contract 3).
pub const KIND_LAG_MS_MAX: u32 = 12_000;
/// After this long without a sample, events end at the last one (contract 4).
pub const GAP_MS: u32 = 30_000;
/// Events of one session; what is detected beyond is counted, not kept.
pub const SESSION_EVENTS_MAX: usize = 2_000;
/// Marks of one session that scoring looks at.
pub const SESSION_MARKS_MAX: usize = 256;
/// Time within which telemetry is taken for a session that the app stopped (contract 3).
pub const LATE_WINDOW_MS: i64 = 10 * 60 * 1000;
/// Time within which telemetry, and the app's own stop, are taken for a session that the service ended because it heard
/// nothing or because the session was too old (contract 2): the phone may only have been offline.
pub const TIMEOUT_LATE_WINDOW_MS: i64 = 24 * 3600 * 1000;
/// Ranges of missing batches in one answer about what was acknowledged. Beyond it the last range covers all the rest, so
/// that an app sends too much rather than too little.
pub const ACKNOWLEDGED_RANGES_MAX: usize = 10_000;
/// How long after a session's end its token is good (contract 1).
pub const TOKEN_GRACE_MS: i64 = 24 * 3600 * 1000;
/// How far back `startedAt` may lie (contract 9).
pub const STARTED_AT_BACK_MS_MAX: i64 = 24 * 3600 * 1000;
/// How far ahead `startedAt` and `endedAt` may lie (contract 9).
pub const CLOCK_AHEAD_MS_MAX: i64 = 5 * 60 * 1000;
/// How long an `Idempotency-Key` is remembered (contract 2).
pub const IDEMPOTENCY_MS: i64 = 24 * 3600 * 1000;
/// Characters of an `Idempotency-Key` (contract 9).
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;
/// Characters of `deliveryId`, `externalRiderId` and of each line of an address.
pub const TEXT_CHARS_MAX: usize = 256;
/// Characters of a URL.
pub const URL_CHARS_MAX: usize = 2_048;
/// Floor of an address; ground is 0.
pub const ADDRESS_FLOOR_MIN: i16 = -20;
/// See [`ADDRESS_FLOOR_MIN`]: above the tallest building there is.
pub const ADDRESS_FLOOR_MAX: i16 = 200;
/// `accuracyM` of an address.
pub const ADDRESS_ACCURACY_M_MAX: f64 = 100_000.0;
/// `storeyHeightM` of an address.
pub const STOREY_HEIGHT_M_MIN: f64 = 1.5;
/// See [`STOREY_HEIGHT_M_MIN`].
pub const STOREY_HEIGHT_M_MAX: f64 = 20.0;
/// Gates of one address.
pub const ADDRESS_GATES_MAX: usize = 16;
/// Names in `device.sensors`.
pub const DEVICE_SENSORS_MAX: usize = 32;
/// Characters of one of them.
pub const DEVICE_SENSOR_CHARS_MAX: usize = 64;
/// Faults that are listed for one request.
pub const FAULTS_MAX: usize = 20;

// --- Recorders (contract 12) -----------------------------------------------------------------------------------

/// How long a recorder's link works, in seconds, at least (contract 12).
pub const RECORDER_EXPIRES_SEC_MIN: u32 = 60;
/// The same at most: 30 days (contract 12).
pub const RECORDER_EXPIRES_SEC_MAX: u32 = 2_592_000;
/// The same where the request does not say (contract 12).
pub const RECORDER_EXPIRES_SEC_DEFAULT: u32 = 86_400;
/// How far back a session of a recorder may begin: a phone may have kept what it recorded as long as a link works.
pub const RECORDER_STARTED_AT_BACK_MS_MAX: i64 = RECORDER_EXPIRES_SEC_MAX as i64 * 1_000;
/// Sessions of one recorder of which it is known where their messages belong; the oldest make room.
pub const RECORDER_SESSIONS_KNOWN_MAX: usize = 4;
/// Recordings of the app within one session whose message numbers are known.
pub const RECORDER_RUNS_MAX: usize = 64;
/// Messages without a number of their own, within one session, that are known when they come again.
pub const RECORDER_MESSAGES_KNOWN_MAX: usize = 256;
/// A recorder that heard nothing for this long receives nothing.
pub const RECORDER_HEARD_LATELY_MS: i64 = 60_000;

// --- Snapshots and supervision (design) ------------------------------------------------------------------------

/// A snapshot is due after this many batches.
pub const SNAPSHOT_BATCHES: u32 = 12;
/// A snapshot is due after this long.
pub const SNAPSHOT_MS: u64 = 60_000;
/// So long after its end a session's insight is looked at once more where several nodes write: longer than a node may
/// believe that a session still records (3 s), and one of its writes may then take.
pub const END_SETTLES_MS: u64 = 10_000;
/// State of one session's machine, as a snapshot.
pub const SNAPSHOT_BYTES_MAX: usize = 256 * 1024;
/// Restarts of one session's actor within [`RESTART_WINDOW_MS`] after which a batch is quarantined.
pub const RESTARTS_MAX: u32 = 3;
/// See [`RESTARTS_MAX`].
pub const RESTART_WINDOW_MS: u64 = 60_000;
/// Batches that one scoring puts aside; a detector that panics at more has a fault that leaving out does not mend.
pub const SCORING_QUARANTINES_MAX: usize = 8;
/// Sessions being scored at once on one node.
pub const SCORING_ACTORS_MAX: usize = 2;
/// Time within which a stopping node refuses, drains and snapshots.
pub const DRAIN_MS_MAX: u64 = 20_000;
/// So long after it began to stop a node still answers whoever is connected, reads as ever and all else with 503, each
/// answer being its connection's last. Measured (bench/results/2026-11-21-cluster.md): of the requests with 2,182 batches to
/// three nodes that were restarted one after the other, one was lost, over a connection that was kept idle through the whole
/// drain and closed just as it was used. Who sends once a second, or asks whether the node is ready, is told in this time.
pub const DRAIN_GRACE_MS: u64 = 2_000;
/// The same at most, where the configuration wants another one.
pub const DRAIN_GRACE_MS_MAX: u64 = 20_000;
/// Fixed slices of sessions and of endpoints (design).
pub const SHARDS: usize = 256;

// --- Several nodes (design) --------------------------------------------------------------------------------------

/// A session that another node acts for is believed to record for this long after it was looked up.
pub const EDGE_BELIEF_MS: u64 = 3_000;
/// Sessions of other nodes of which one node believes so.
pub const EDGE_SESSIONS_MAX: usize = 65_536;
/// Whoever watches a session that another node acts for looks this often.
pub const EDGE_POLL_MS: u64 = 1_000;
/// Sessions that one node was told to look at and has not looked at yet.
pub const LOOKS_WAITING_MAX: usize = 65_536;
/// Sessions that one node looks at at once.
pub const LOOKS_AT_ONCE_MAX: usize = 64;
/// One request from node to node, from its sending to the last byte of its answer.
pub const PEER_REQUEST_MS_MAX: u64 = 2_000;
/// Bytes of one request, or of one answer, from node to node.
pub const PEER_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Batches that wait to be handed over to one node; what is more is lost, and found in the journal.
pub const PEER_QUEUE_BATCHES_MAX: usize = 8_192;
/// Bytes of batches that wait to be handed over to one node.
pub const PEER_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Nudges that wait for one node.
pub const PEER_QUEUE_NUDGES_MAX: usize = 65_536;
/// Batches, or nudges, in one request from node to node.
pub const PEER_REQUEST_ITEMS_MAX: usize = 512;
/// Bytes of batches in one request, beyond the first batch; a batch that is larger is left to the journal.
pub const PEER_REQUEST_BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Questions about live sessions to one node that wait for their answers.
pub const PEER_ASKED_MAX: usize = 256;

// --- Path images ------------------------------------------------------------------------------------------------

/// Path images that one node keeps, each some 150 KB; the one drawn first makes room.
pub const PICTURES_KEPT_MAX: usize = 64;
/// Path images that one node draws at once.
pub const PICTURES_DRAWN_AT_ONCE_MAX: usize = 2;
/// Requests for path images that draw or wait for it on one node; more are refused with 503.
pub const PICTURES_WAITING_MAX: usize = 32;

// --- Lists (contract 2, 6) -------------------------------------------------------------------------------------

/// Rows of one page where the request does not say.
pub const PAGE_ROWS_DEFAULT: u32 = 50;
/// Rows of one page at most.
pub const PAGE_ROWS_MAX: u32 = 200;
/// Characters of a cursor.
pub const CURSOR_CHARS_MAX: usize = 256;

// --- Keys (contract 1) ------------------------------------------------------------------------------------------

/// A revocation holds on every node after this long, on connections that stay, too (contract 1).
pub const REVOKED_MS_MAX: u64 = 30_000;
/// How old a remembered look-up of a key may be: so that a stream that looks at its credential again from time to time,
/// and finds what was remembered, still ends within [`REVOKED_MS_MAX`].
pub const KEY_REMEMBERED_MS_MAX: u64 = 4_000;
/// Look-ups that found a key and are remembered on one node.
pub const KEYS_REMEMBERED_MAX: usize = 16_384;
/// Look-ups per second, on one node, of keys that were never found there: whoever guesses keys must not use up the store.
pub const UNKNOWN_KEY_LOOKUPS_PER_SEC: u32 = 200;
/// The same at once.
pub const UNKNOWN_KEY_LOOKUPS_BURST: u32 = 1_000;
/// Keys that were found once on one node, which are looked up again without that limit.
pub const FOUND_KEYS_REMEMBERED_MAX: usize = 65_536;
/// Look-ups that found none and are remembered on one node.
pub const UNKNOWN_KEYS_REMEMBERED_MAX: usize = 4_096;

// --- Webhooks (contract 6, 9) ----------------------------------------------------------------------------------

/// One attempt, from name look-up to the last byte read (contract 6).
pub const ATTEMPT_MS_MAX: u64 = 5_000;
/// Bytes read of a receiver's answer (contract 6).
pub const ANSWER_READ_BYTES_MAX: usize = 16 * 1024;
/// Bytes kept of a receiver's answer (contract 6).
pub const ANSWER_KEPT_BYTES_MAX: usize = 1024;
/// The probe of a URL at registration (contract 9).
pub const PROBE_MS_MAX: u64 = 5_000;
/// Delays before the retries, each counted from the failure before (contract 6).
pub const RETRY_DELAYS_MS: [u64; 5] = [60_000, 300_000, 1_800_000, 7_200_000, 86_400_000];
/// Attempts of one message by schedule: the first and its retries.
pub const ATTEMPTS_MAX: u32 = RETRY_DELAYS_MS.len() as u32 + 1;
/// Jitter adds at most one part in this many of the delay (contract 6).
pub const RETRY_JITTER_PARTS: u64 = 10;
/// Overlap of two secrets (contract 6).
pub const SECRET_OVERLAP_SEC_MAX: u32 = 604_800;
/// Overlap of two secrets where the request does not say (contract 6).
pub const SECRET_OVERLAP_SEC_DEFAULT: u32 = 86_400;
/// Quick attempts of one endpoint in flight at once.
pub const ENDPOINT_IN_FLIGHT_MAX: usize = 32;
/// Slow attempts of one endpoint in flight at once, beside the quick ones.
pub const ENDPOINT_SLOW_IN_FLIGHT_MAX: usize = 256;
/// An attempt that has been in flight for this long is slow.
pub const ATTEMPT_SLOW_MS: u64 = 500;
/// Attempts of one node in flight at once.
pub const NODE_ATTEMPTS_IN_FLIGHT_MAX: usize = 4_096;
/// How long a paused endpoint holds a message (contract 9): seven days.
pub const HELD_MS_MAX: i64 = 7 * 24 * 3_600_000;
/// Answers with a secret that are remembered for one endpoint by their `Idempotency-Key`.
pub const SECRETS_REMEMBERED_MAX: usize = 32;
/// Headers of an answer that are kept in the log of attempts.
pub const ANSWER_HEADERS_KEPT_MAX: usize = 32;
/// Bytes of these headers, names and values together.
pub const ANSWER_HEADERS_KEPT_BYTES_MAX: usize = 4 * 1024;
/// Lanes of one endpoint held in memory; the rest of the outbox waits in the store.
pub const ENDPOINT_LANES_MAX: usize = 1_024;
/// Messages that one retry by filter may touch (contract 9).
pub const RETRY_BY_FILTER_MAX: usize = 10_000;
/// Messages of one kind that are counted for the metrics; more than this shows as this.
pub const DEPTH_COUNTED_MAX: u64 = 200_000;
/// Deadlines further ahead than this are left to the store's scan (design).
pub const WHEEL_AHEAD_MS: u64 = 15 * 60 * 1000;

// --- Defaults of the configuration that customers meet (contract 8) ------------------------------------------------------

/// A session that sends nothing for this many minutes is completed (`session.idle_timeout`).
pub const SESSION_IDLE_MINUTES_DEFAULT: u64 = 30;
/// A session that is older than this many minutes is completed (`session.max_duration`).
pub const SESSION_DURATION_MINUTES_DEFAULT: u64 = 12 * 60;
/// Days for which a session is kept after its end (`store.retention`).
pub const RETENTION_DAYS_DEFAULT: u64 = 90;
/// Requests of one key in a second (`server.rate_limit_per_second`).
pub const KEY_REQUESTS_PER_SECOND_DEFAULT: u32 = 2_000;

// --- Relations -------------------------------------------------------------------------------------------------

const _: () = assert!(BATCH_SENT_BYTES_MAX <= BATCH_UNPACKED_BYTES_MAX);
const _: () = assert!(BATCH_UNPACKED_BYTES_MAX <= NDJSON_UNPACKED_BYTES_MAX);
const _: () = assert!(BATCH_UNPACKED_BYTES_MAX <= NODE_IN_FLIGHT_BYTES_MAX);
const _: () = assert!(BODY_SILENCE_MS_MAX <= BODY_WHOLE_MS_MAX);
const _: () = assert!(TENANT_EVENT_STREAMS_MAX <= NODE_EVENT_STREAMS_MAX as u64);
const _: () = assert!(TENANT_SOCKETS_MAX <= NODE_SOCKETS_MAX as u64);
const _: () = assert!(
    2 * BATCH_UNPACKED_BYTES_MAX as u64 <= TENANT_IN_FLIGHT_BYTES_MAX,
    "the largest batch fits into a tenant's share, packed and unpacked"
);
const _: () = assert!(LIGHT_TENANT_ROOM_PARTS > 1 && LIGHT_TENANT_PARTS > 1);
const _: () = assert!(2 * SOCKET_PING_MS < SOCKET_SILENCE_MS_MAX);
const _: () = assert!(ANSWER_WRITTEN_MS_MAX < UNREAD_MS_MAX as u64);
const _: () = assert!(KEY_REMEMBERED_MS_MAX + SOCKET_PING_MS < REVOKED_MS_MAX);
const _: () = assert!(KEY_REMEMBERED_MS_MAX + EVENTS_COMMENT_MS < REVOKED_MS_MAX);
const _: () = assert!(SESSION_IN_FLIGHT_MAX <= SESSION_MAILBOX_MAX);
const _: () = assert!(DRAIN_GRACE_MS <= DRAIN_GRACE_MS_MAX && DRAIN_GRACE_MS_MAX <= DRAIN_MS_MAX);
const _: () = assert!(COMMIT_GROUP_MAX <= COMMIT_QUEUE_MAX);
const _: () = assert!(INGEST_BATCHES_MIN <= INGEST_BATCHES_START);
const _: () = assert!(INGEST_BATCHES_START <= INGEST_BATCHES_MAX);
const _: () = assert!(
    (INGEST_BATCHES_MAX + INGEST_BATCHES_MAX / LIGHT_TENANT_ROOM_PARTS) < COMMIT_QUEUE_MAX as u32,
    "what is admitted finds room with the writer"
);
const _: () = assert!(SESSION_MAILBOX_MAX < NODE_MAILBOX_MAX);
const _: () = assert!(
    KIND_LAG_MS_MAX < GAP_MS,
    "a kind that lags must not be taken for a gap"
);
const _: () = assert!(GAP_MS < HOLE_SKIPPED_AFTER_T_MS);
const _: () = assert!(
    EDGE_BELIEF_MS as i64 + 3 * INGEST_TIMEOUT_MS_MAX < END_SETTLES_MS as i64,
    "a node may believe that a session records for so long, and a write and its repeats take so long"
);
const _: () = assert!(
    HOLE_SKIPPED_AFTER_BATCHES == 64,
    "the machine marks what came beyond a hole in a u64"
);
const _: () = assert!(IMU_DURATION_MS_MAX <= KIND_LAG_MS_MAX);
const _: () = assert!(LATE_WINDOW_MS <= TIMEOUT_LATE_WINDOW_MS);
const _: () = assert!(RECORDER_EXPIRES_SEC_MIN <= RECORDER_EXPIRES_SEC_DEFAULT);
const _: () = assert!(RECORDER_EXPIRES_SEC_DEFAULT <= RECORDER_EXPIRES_SEC_MAX);
const _: () = assert!(
    TIMEOUT_LATE_WINDOW_MS <= TOKEN_GRACE_MS,
    "a phone that was offline needs its token"
);
const _: () = assert!(ANSWER_KEPT_BYTES_MAX <= ANSWER_READ_BYTES_MAX);
const _: () = assert!(ENDPOINT_IN_FLIGHT_MAX <= NODE_ATTEMPTS_IN_FLIGHT_MAX);
const _: () = assert!(ENDPOINT_IN_FLIGHT_MAX <= ENDPOINT_LANES_MAX);
const _: () = assert!(PICTURES_DRAWN_AT_ONCE_MAX <= PICTURES_WAITING_MAX);
const _: () = assert!(PAGE_ROWS_DEFAULT <= PAGE_ROWS_MAX);
const _: () = assert!(
    ATTEMPTS_MAX == 6,
    "X-Service-Attempt runs from 1 to 6 by contract"
);
const _: () = assert!(2 * PEER_REQUEST_BATCH_BYTES_MAX < PEER_BODY_BYTES_MAX);
const _: () = assert!(PEER_REQUEST_ITEMS_MAX <= PEER_QUEUE_BATCHES_MAX);
const _: () = assert!(SHARDS == 256, "a shard is a byte");
