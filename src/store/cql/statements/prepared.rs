//! All statements, prepared once. A statement for one row is token-aware: the driver sends it to a
//! replica of the row.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;

use crate::cql::connection::connect::{Kind, Profiles};
use crate::cql::connection::open_error::CqlOpenError;

macro_rules! statements {
    ($($name:ident: $kind:ident = $text:expr;)*) => {
        /// The prepared statements.
        pub(in crate::cql) struct Statements {
            $(pub(in crate::cql) $name: PreparedStatement,)*
        }

        impl Statements {
            /// Prepares all statements.
            pub(in crate::cql) async fn prepare(session: &Session, profiles: &Profiles) -> Result<Self, CqlOpenError> {
                Ok(Self {
                    $($name: profiles.prepare(session, Kind::$kind, $text).await?,)*
                })
            }
        }
    };
}

statements! {
    // Sessions and their state.
    session_put: Write = "INSERT INTO sessions (session, data) VALUES (?, ?) USING TTL ?";
    sessions_all: Scan = "SELECT session FROM sessions";
    session_get: Read = "SELECT data FROM sessions WHERE session = ?";
    state_get: Read = "SELECT version, data FROM session_state WHERE session = ?";
    // Few sessions at a time; the coordinator asks the replicas of each.
    sessions_get: Read = "SELECT session, data FROM sessions WHERE session IN ?";
    states_get: Read = "SELECT session, data FROM session_state WHERE session IN ?";
    state_serial: Serial = "SELECT version, data FROM session_state WHERE session = ?";
    state_make: Lwt = "INSERT INTO session_state (session, version, data) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?";
    state_change: Lwt = "UPDATE session_state USING TTL ? SET version = ?, data = ? WHERE session = ? IF version = ?";
    live_put: Write = "INSERT INTO live_sessions (shard, day, session) VALUES (?, ?, ?) USING TTL ?";
    live_delete: Write = "DELETE FROM live_sessions WHERE shard = ? AND day = ? AND session = ?";
    live_delete_at: Write = "DELETE FROM live_sessions USING TIMESTAMP ? WHERE shard = ? AND day = ? AND session = ?";
    live_after: Scan = "SELECT session FROM live_sessions WHERE shard = ? AND day = ? AND session > ? LIMIT ?";
    behind_put: Write = "INSERT INTO behind_sessions (shard, day, session, tag) VALUES (?, ?, ?, ?) USING TTL ?";
    behind_tags: Read = "SELECT tag FROM behind_sessions WHERE shard = ? AND day = ? AND session = ?";
    behind_delete_at: Write = "DELETE FROM behind_sessions USING TIMESTAMP ? WHERE shard = ? AND day = ? AND session = ? AND tag = ?";
    behind_after: Scan = "SELECT session FROM behind_sessions WHERE shard = ? AND day = ? AND session > ? GROUP BY shard, day, session LIMIT ?";
    idempotency_make: Lwt = "INSERT INTO idempotency (tenant, key, data) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?";
    idempotency_get: Read = "SELECT data FROM idempotency WHERE tenant = ? AND key = ?";
    idempotency_serial: Serial = "SELECT data FROM idempotency WHERE tenant = ? AND key = ?";
    idempotency_change: Lwt = "UPDATE idempotency USING TTL ? SET data = ? WHERE tenant = ? AND key = ? IF data = ?";
    idempotency_after: Scan = "SELECT token(tenant, key), tenant, key, data FROM idempotency WHERE token(tenant, key) > ? LIMIT ?";
    idempotency_delete: Lwt = "DELETE FROM idempotency WHERE tenant = ? AND key = ? IF data = ?";
    review_put: Write = "INSERT INTO reviews (session, data) VALUES (?, ?) USING TTL ?";
    review_time: Read = "SELECT WRITETIME(data) FROM reviews WHERE session = ?";
    review_get: Read = "SELECT data FROM reviews WHERE session = ?";
    pod_put: Write = "INSERT INTO pods (session, received_at, hash, data) VALUES (?, ?, ?, ?) USING TTL ?";
    pod_get: Read = "SELECT data FROM pods WHERE session = ? LIMIT 1";

    // Recorders.
    recorder_make: Lwt = "INSERT INTO recorders (recorder, version, data) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?";
    recorder_get: Read = "SELECT version, data FROM recorders WHERE recorder = ?";
    recorder_serial: Serial = "SELECT version, data FROM recorders WHERE recorder = ?";
    recorder_change: Lwt = "UPDATE recorders USING TTL ? SET version = ?, data = ? WHERE recorder = ? IF version = ?";
    recorder_remove: Lwt = "DELETE FROM recorders WHERE recorder = ? IF EXISTS";

    // The check value of the secret key.
    key_check_make: Lwt = "INSERT INTO key_check (name, data) VALUES (?, ?) IF NOT EXISTS";
    key_check_serial: Serial = "SELECT data FROM key_check WHERE name = ?";
    key_check_change: Lwt = "UPDATE key_check SET data = ? WHERE name = ? IF data = ?";

    // The journal.
    batch_put: Ingest = "INSERT INTO telemetry (session, bucket, seq, hash, data) VALUES (?, ?, ?, ?, ?) USING TTL ?";
    batch_hashes: Read = "SELECT hash FROM telemetry WHERE session = ? AND bucket = ? AND seq = ?";
    batch_delete: Write = "DELETE FROM telemetry WHERE session = ? AND bucket = ? AND seq = ? AND hash = ?";
    batches_from: Journal = "SELECT seq, data FROM telemetry WHERE session = ? AND bucket = ? AND seq >= ?";
    batch_last: Read = "SELECT seq FROM telemetry WHERE session = ? AND bucket = ? ORDER BY seq DESC, hash DESC LIMIT 1";
    batch_first_of: Read = "SELECT data FROM telemetry WHERE session = ? AND bucket = ? AND seq = ? LIMIT 1";
    batch_numbers: Scan = "SELECT seq FROM telemetry WHERE session = ? AND bucket = ?";
    note_put: Write = "INSERT INTO notes (session, note) VALUES (?, ?) USING TTL ?";
    notes_get: Scan = "SELECT note FROM notes WHERE session = ?";
    snapshot_put: Write = "INSERT INTO snapshots (session, generation, next_seq, data) VALUES (?, ?, ?, ?) USING TTL ?";
    snapshots_trim: Write = "DELETE FROM snapshots WHERE session = ? AND generation = ? AND next_seq < ?";
    snapshot_get: Read = "SELECT generation, next_seq, data FROM snapshots WHERE session = ? LIMIT 1";

    // Insights.
    insight_put: Write = "INSERT INTO insights (session, revision, tag, data) VALUES (?, ?, ?, ?) USING TTL ?";
    insight_get: Read = "SELECT data FROM insights WHERE session = ? AND revision = ? AND tag = ?";
    learned_put: Write = "INSERT INTO learned (key, data) VALUES (?, ?)";
    learned_put_at: Write = "INSERT INTO learned (key, data) VALUES (?, ?) USING TIMESTAMP ?";
    trace_put: Write = "INSERT INTO learned (key, data) VALUES (?, ?) USING TTL ?";
    learned_get: Read = "SELECT data FROM learned WHERE key = ?";
    learned_get_time: Read = "SELECT data, WRITETIME(data) FROM learned WHERE key = ?";
    learned_get_all: Read = "SELECT key, data FROM learned WHERE key IN ?";

    // Lists.
    slot_put: Write = "INSERT INTO slots (owner, slot) VALUES (?, ?) USING TTL ?";
    slots_up: Scan = "SELECT slot FROM slots WHERE owner = ? AND slot >= ? AND slot <= ?";
    slots_down: Scan = "SELECT slot FROM slots WHERE owner = ? AND slot >= ? AND slot <= ? ORDER BY slot DESC";
    organization_list_put: Write = "INSERT INTO sessions_by_organization (tenant, hour, created_at, session) VALUES (?, ?, ?, ?) USING TTL ?";
    organization_list: Scan = "SELECT created_at, session FROM sessions_by_organization WHERE tenant = ? AND hour = ? AND (created_at, session) < (?, ?)";
    delivery_list_put: Write = "INSERT INTO sessions_by_delivery (tenant, hash, created_at, session) VALUES (?, ?, ?, ?) USING TTL ?";
    delivery_list: Scan = "SELECT created_at, session FROM sessions_by_delivery WHERE tenant = ? AND hash = ? AND (created_at, session) < (?, ?)";
    rider_list_put: Write = "INSERT INTO sessions_by_rider (tenant, hash, created_at, session) VALUES (?, ?, ?, ?) USING TTL ?";
    rider_list: Scan = "SELECT created_at, session FROM sessions_by_rider WHERE tenant = ? AND hash = ? AND (created_at, session) < (?, ?)";

    // Messages and their states.
    message_put: Write = "INSERT INTO messages (session, number, head, body) VALUES (?, ?, ?, ?) USING TTL ?";
    message_heads: Scan = "SELECT head FROM messages WHERE session = ?";
    messages_get: Scan = "SELECT head, body FROM messages WHERE session = ?";
    message_get: Read = "SELECT head, body FROM messages WHERE session = ? AND number = ?";
    message_id_put: Write = "INSERT INTO message_ids (id, data) VALUES (?, ?) USING TTL ?";
    message_id_get: Read = "SELECT data FROM message_ids WHERE id = ?";
    cursor_put: Write = "INSERT INTO lane_cursor (session, generation, data) VALUES (?, ?, ?) USING TTL ?";
    cursor_get: Read = "SELECT data FROM lane_cursor WHERE session = ? LIMIT 1";
    outbox_put: Write = "INSERT INTO outbox (endpoint, slot, kind, at, id, data) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?";
    outbox_get: Scan = "SELECT at, id, data FROM outbox WHERE endpoint = ? AND slot = ? AND kind = ? AND at >= ? AND at < ?";
    outbox_mark_put: Write = "INSERT INTO outbox_marks (endpoint, slot) VALUES (?, ?)";
    outbox_mark_get: Read = "SELECT slot FROM outbox_marks WHERE endpoint = ?";
    attempt_put: Write = "INSERT INTO attempts (id, attempt, data) VALUES (?, ?, ?) USING TTL ?";
    attempts_get: Scan = "SELECT attempt, data FROM attempts WHERE id = ?";
    delivery_put: Write = "INSERT INTO deliveries (tenant, slot, id, data) VALUES (?, ?, ?, ?) USING TTL ?";
    deliveries_down: Scan = "SELECT id, data FROM deliveries WHERE tenant = ? AND slot = ? AND id >= ? AND id < ?";
    deliveries_up: Scan = "SELECT id, data FROM deliveries WHERE tenant = ? AND slot = ? AND id >= ? AND id < ? ORDER BY id ASC";
    failed_put: Write = "INSERT INTO failed_deliveries (tenant, slot, id, data) VALUES (?, ?, ?, ?) USING TTL ?";
    failed_delete: Write = "DELETE FROM failed_deliveries WHERE tenant = ? AND slot = ? AND id = ?";
    failed_down: Scan = "SELECT id, data FROM failed_deliveries WHERE tenant = ? AND slot = ? AND id >= ? AND id < ?";
    failed_up: Scan = "SELECT id, data FROM failed_deliveries WHERE tenant = ? AND slot = ? AND id >= ? AND id < ? ORDER BY id ASC";

    // Customers.
    endpoint_get: Read = "SELECT data FROM endpoints WHERE tenant = ?";
    endpoint_serial: Serial = "SELECT data FROM endpoints WHERE tenant = ?";
    endpoints_get: Scan = "SELECT data FROM endpoints";
    endpoint_make: Lwt = "INSERT INTO endpoints (tenant, id, version, data) VALUES (?, ?, ?, ?) IF NOT EXISTS";
    endpoint_change: Lwt = "UPDATE endpoints SET version = ?, data = ? WHERE tenant = ? IF id = ? AND version = ?";
    endpoint_delete: Lwt = "DELETE FROM endpoints WHERE tenant = ? IF id = ?";
    organization_make: Lwt = "INSERT INTO organizations (name, data) VALUES (?, ?) IF NOT EXISTS";
    organization_get: Read = "SELECT data FROM organizations WHERE name = ?";
    organization_serial: Serial = "SELECT data FROM organizations WHERE name = ?";
    organizations_get: Scan = "SELECT data FROM organizations";
    key_make: Lwt = "INSERT INTO api_keys (hash, data) VALUES (?, ?) IF NOT EXISTS";
    key_get: Read = "SELECT data FROM api_keys WHERE hash = ?";
    key_serial: Serial = "SELECT data FROM api_keys WHERE hash = ?";
    key_change: Lwt = "UPDATE api_keys SET data = ? WHERE hash = ? IF data = ?";
    keys_get: Scan = "SELECT data FROM api_keys";
    key_id_put: Write = "INSERT INTO api_key_ids (id, hash) VALUES (?, ?)";
    key_id_get: Read = "SELECT hash FROM api_key_ids WHERE id = ?";
    // The coordinator's clock, in milliseconds of the Unix epoch. The function's name is valid in
    // all supported versions.
    clock_get: Read = "SELECT toUnixTimestamp(now()) FROM system.local";
    generation_make: Lwt = "INSERT INTO generations (name, generation) VALUES (?, 1) IF NOT EXISTS";
    bounded_since_make: Lwt = "INSERT INTO generations (name, generation) VALUES (?, ?) IF NOT EXISTS";
    generation_raise: Lwt = "UPDATE generations SET generation = ? WHERE name = ? IF generation = ?";
    generation_get: Read = "SELECT generation FROM generations WHERE name = ?";
    generation_serial: Serial = "SELECT generation FROM generations WHERE name = ?";

    // Erasure.
    batches_delete: Write = "DELETE FROM telemetry WHERE session = ? AND bucket = ?";
    notes_delete: Write = "DELETE FROM notes WHERE session = ?";
    snapshots_delete: Write = "DELETE FROM snapshots WHERE session = ?";
    insights_delete: Write = "DELETE FROM insights WHERE session = ?";
    pods_delete: Write = "DELETE FROM pods WHERE session = ?";
    messages_delete: Write = "DELETE FROM messages WHERE session = ?";
    cursor_delete: Write = "DELETE FROM lane_cursor WHERE session = ?";
    message_id_delete: Write = "DELETE FROM message_ids WHERE id = ?";
    attempts_delete: Write = "DELETE FROM attempts WHERE id = ?";
    delivery_delete: Write = "DELETE FROM deliveries WHERE tenant = ? AND slot = ? AND id = ?";
    organization_list_delete: Write = "DELETE FROM sessions_by_organization WHERE tenant = ? AND hour = ? AND created_at = ? AND session = ?";
    delivery_list_delete: Write = "DELETE FROM sessions_by_delivery WHERE tenant = ? AND hash = ? AND created_at = ? AND session = ?";
    rider_list_delete: Write = "DELETE FROM sessions_by_rider WHERE tenant = ? AND hash = ? AND created_at = ? AND session = ?";
    behind_delete_all: Write = "DELETE FROM behind_sessions WHERE shard = ? AND day = ? AND session = ?";
    state_delete: Lwt = "DELETE FROM session_state WHERE session = ? IF EXISTS";
    session_delete: Write = "DELETE FROM sessions WHERE session = ?";
    learned_delete: Write = "DELETE FROM learned WHERE key = ?";
    learned_by_put: Write = "INSERT INTO learned_by_session (session, key) VALUES (?, ?) USING TTL ?";
    learned_by_get: Scan = "SELECT key FROM learned_by_session WHERE session = ?";
    learned_by_delete: Write = "DELETE FROM learned_by_session WHERE session = ?";
    reviews_delete: Write = "DELETE FROM reviews WHERE session = ?";
    recorders_first: Scan = "SELECT recorder, version, data FROM recorders LIMIT ?";
    recorders_after: Scan = "SELECT recorder, version, data FROM recorders WHERE token(recorder) > token(?) LIMIT ?";

    // Renewal. A copy has the columns of the row's insert in their order; a copy of a row that may
    // change has the time of its write after them.
    session_ttl: Read = "SELECT TTL(data) FROM sessions WHERE session = ?";
    session_copy: Scan = "SELECT session, data FROM sessions WHERE session = ?";
    batches_copy: Journal = "SELECT session, bucket, seq, hash, data FROM telemetry WHERE session = ? AND bucket = ?";
    notes_copy: Scan = "SELECT session, note FROM notes WHERE session = ?";
    insights_copy: Scan = "SELECT session, revision, tag, data FROM insights WHERE session = ?";
    pods_copy: Scan = "SELECT session, received_at, hash, data FROM pods WHERE session = ?";
    messages_copy: Scan = "SELECT session, number, head, body FROM messages WHERE session = ?";
    message_id_copy: Scan = "SELECT id, data FROM message_ids WHERE id = ?";
    attempts_copy: Scan = "SELECT id, attempt, data FROM attempts WHERE id = ?";
    delivery_copy: Scan = "SELECT tenant, slot, id, data FROM deliveries WHERE tenant = ? AND slot = ? AND id = ?";
    learned_by_copy: Scan = "SELECT session, key FROM learned_by_session WHERE session = ?";
    failed_copy: Scan = "SELECT tenant, slot, id, data, WRITETIME(data) FROM failed_deliveries WHERE tenant = ? AND slot = ? AND id = ?";
    cursors_copy: Scan = "SELECT session, generation, data, WRITETIME(data) FROM lane_cursor WHERE session = ?";
    review_copy: Scan = "SELECT session, data, WRITETIME(data) FROM reviews WHERE session = ?";

    // Management data.
    document_get: Read = "SELECT data FROM documents WHERE collection = ? AND key = ?";
    document_serial: Serial = "SELECT data FROM documents WHERE collection = ? AND key = ?";
    document_make: Lwt = "INSERT INTO documents (collection, key, data) VALUES (?, ?, ?) IF NOT EXISTS";
    document_change: Lwt = "UPDATE documents SET data = ? WHERE collection = ? AND key = ? IF data = ?";
    document_delete: Lwt = "DELETE FROM documents WHERE collection = ? AND key = ? IF data = ?";
    documents_all: Scan = "SELECT collection, key, data FROM documents";
    documents_after: Scan = "SELECT key, data FROM documents WHERE collection = ? AND key > ?";

    // Members and owners.
    member_make: Lwt = "INSERT INTO members (cluster, node, incarnation, beat, standing) VALUES (?, ?, ?, 0, 0) IF NOT EXISTS";
    member_rejoin: Lwt = "UPDATE members SET incarnation = ?, beat = 0, standing = 0 WHERE cluster = ? AND node = ? IF incarnation = ?";
    member_beat: Lwt = "UPDATE members SET beat = ?, standing = ?, clock = ?, layout = ? WHERE cluster = ? AND node = ? IF incarnation = ? AND standing != 2";
    member_gone: Lwt = "UPDATE members SET standing = 2 WHERE cluster = ? AND node = ? IF incarnation = ? AND beat = ?";
    member_leave: Lwt = "UPDATE members SET standing = 2 WHERE cluster = ? AND node = ? IF incarnation = ?";
    members_get: Read = "SELECT node, incarnation, beat, standing, clock FROM members WHERE cluster = ?";
    members_layouts: Serial = "SELECT standing, layout FROM members WHERE cluster = ?";
    members_serial: Serial = "SELECT node, incarnation, beat, standing, clock FROM members WHERE cluster = ?";
    owner_make: Lwt = "INSERT INTO shard_owner (shard, generation, node, incarnation) VALUES (?, 1, ?, ?) IF NOT EXISTS";
    owner_claim: Lwt = "UPDATE shard_owner SET generation = ?, node = ?, incarnation = ? WHERE shard = ? IF generation = ?";
    owner_release: Lwt = "UPDATE shard_owner SET node = '' WHERE shard = ? IF generation = ? AND node = ? AND incarnation = ?";
    owners_get: Read = "SELECT shard, generation, node, incarnation FROM shard_owner";
    owner_serial: Serial = "SELECT shard, generation, node, incarnation FROM shard_owner WHERE shard = ?";
}
