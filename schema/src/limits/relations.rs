//! Relations between limits, checked by the compiler.

use super::*;

const _: () = assert!(
    LOOK_UP_PERMIT_MS_MAX + LOOK_UP_MS_MAX + LOOK_UP_CANARY_MS_MAX < ATTEMPT_MS_MAX,
    "an attempt has time to check whether the node's own resolver failed"
);
const _: () =
    assert!(LOOK_UP_PERMIT_MS_MAX + LOOK_UP_MS_MAX + LOOK_UP_CANARY_MS_MAX < PROBE_MS_MAX);
const _: () = assert!(TENANT_ATTEMPTS_IN_FLIGHT_MAX <= NODE_ATTEMPTS_IN_FLIGHT_MAX);
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
const _: () = assert!(
    LIGHT_TENANT_ROOM_MIN <= INGEST_BATCHES_MAX / LIGHT_TENANT_ROOM_PARTS,
    "the room at the highest limit is a part of that limit"
);
const _: () = assert!(NODE_LARGE_BODIES_AT_ONCE_MIN > TENANT_LARGE_BODIES_AT_ONCE_MAX);
const _: () = assert!(2 * SOCKET_PING_MS < SOCKET_SILENCE_MS_MAX);
const _: () = assert!(ANSWER_WRITTEN_MS_MAX < UNREAD_MS_MAX as u64);
const _: () = assert!(KEY_REMEMBERED_MS_MAX + SOCKET_PING_MS < REVOKED_MS_MAX);
const _: () = assert!(KEY_REMEMBERED_MS_MAX + EVENTS_COMMENT_MS < REVOKED_MS_MAX);
const _: () = assert!(SESSION_IN_FLIGHT_MAX <= SESSION_MAILBOX_MAX);
const _: () = assert!(
    DRAIN_KEY_USES_MS_MAX <= AUDIT_ROOM_MS_MAX,
    "it takes no longer than the flush of the audit log at the same time"
);
const _: () = assert!(DRAIN_GRACE_MS <= DRAIN_GRACE_MS_MAX && DRAIN_GRACE_MS_MAX <= DRAIN_MS_MAX);
const _: () = assert!(COMMIT_GROUP_MAX <= COMMIT_QUEUE_MAX);
const _: () = assert!(INGEST_BATCHES_MIN <= INGEST_BATCHES_START);
const _: () = assert!(INGEST_BATCHES_START <= INGEST_BATCHES_MAX);
const _: () = assert!(
    (INGEST_BATCHES_MAX + INGEST_BATCHES_MAX / LIGHT_TENANT_ROOM_PARTS) < COMMIT_QUEUE_MAX as u32,
    "the writer has room for all admitted batches"
);
const _: () = assert!(SESSION_MAILBOX_MAX < NODE_MAILBOX_MAX);
const _: () = assert!(
    KIND_LAG_MS_MAX < GAP_MS,
    "a kind that lags must not be mistaken for a gap"
);
const _: () = assert!(GAP_MS < GAP_SKIPPED_AFTER_T_MS);
const _: () = assert!(
    REMOTE_SESSION_TTL_MS as i64 + 3 * INGEST_TIMEOUT_MS_MAX < END_SETTLES_MS as i64,
    "a node that caches the session as live may still begin and repeat a write"
);
const _: () = assert!(
    GAP_SKIPPED_AFTER_BATCHES == 64,
    "the machine marks batches beyond a gap in a u64"
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
const _: () = assert!(
    PATH_IMAGES_DRAWN_AT_ONCE_MAX > 1,
    "one organization alone cannot occupy a node"
);
const _: () = assert!(LINK_REQUESTS_PER_SEC <= LINK_REQUESTS_BURST);
const _: () = assert!(TENANT_CONSOLE_STREAMS_MAX < NODE_CONSOLE_STREAMS_MAX);
const _: () = assert!(PAGE_ROWS_DEFAULT <= PAGE_ROWS_MAX);
const _: () = assert!(
    ATTEMPTS_MAX == 6,
    "X-Service-Attempt runs from 1 to 6 by contract"
);
const _: () = assert!(2 * PEER_REQUEST_BATCH_BYTES_MAX < PEER_BODY_BYTES_MAX);
const _: () = assert!(PEER_REQUEST_ITEMS_MAX <= PEER_QUEUE_BATCHES_MAX);
const _: () = assert!(SHARDS == 256, "a shard is a byte");
