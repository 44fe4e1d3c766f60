//! Limits of webhooks: attempts, lookups of receivers, and their answers (contract 6, 9).

/// Deadline of one attempt, from DNS lookup to the last byte read (contract 6).
pub const ATTEMPT_MS_MAX: u64 = 5_000;
/// Maximum bytes read of a receiver's answer (contract 6).
pub const ANSWER_READ_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes stored of a receiver's answer (contract 6).
pub const ANSWER_KEPT_BYTES_MAX: usize = 1024;
/// Deadline of the probe of a URL at registration (contract 9).
pub const PROBE_MS_MAX: u64 = 5_000;
/// Delays before the retries, each counted from the previous failure (contract 6).
pub const RETRY_DELAYS_MS: [u64; 5] = [60_000, 300_000, 1_800_000, 7_200_000, 86_400_000];
/// Number of scheduled attempts of a message: the first and its retries.
pub const ATTEMPTS_MAX: u32 = RETRY_DELAYS_MS.len() as u32 + 1;
/// Jitter adds at most one part in this many to a delay (contract 6).
pub const RETRY_JITTER_PARTS: u64 = 10;
/// Maximum overlap of two secrets (contract 6).
pub const SECRET_OVERLAP_SEC_MAX: u32 = 604_800;
/// Default overlap of two secrets (contract 6).
pub const SECRET_OVERLAP_SEC_DEFAULT: u32 = 86_400;
/// Maximum number of quick attempts of one endpoint in flight.
pub const ENDPOINT_IN_FLIGHT_MAX: usize = 32;
/// Maximum number of slow attempts of one endpoint in flight, in addition to the quick ones.
pub const ENDPOINT_SLOW_IN_FLIGHT_MAX: usize = 384;
/// Longest time after which an attempt in flight counts as slow; a shorter one applies while other
/// messages wait.
pub const ATTEMPT_SLOW_MS: u64 = 500;
/// Maximum number of a node's attempts in flight.
pub const NODE_ATTEMPTS_IN_FLIGHT_MAX: usize = 4_096;
/// Maximum number of one tenant's test events and probes of URLs in flight. They wait for the
/// customer's receiver only.
pub const TENANT_PROBES_MAX: usize = 4;
/// Maximum number of one tenant's attempts in flight, test events included. A tenant gets fewer
/// while the node is nearly full.
pub const TENANT_ATTEMPTS_IN_FLIGHT_MAX: usize =
    ENDPOINT_IN_FLIGHT_MAX + ENDPOINT_SLOW_IN_FLIGHT_MAX + TENANT_PROBES_MAX;
/// Deadline of one DNS lookup.
pub const LOOK_UP_MS_MAX: u64 = 3_000;
/// Deadline of the lookup that shows whether the node's own DNS resolver answers.
pub const LOOK_UP_CANARY_MS_MAX: u64 = 1_000;
/// Maximum time that a lookup waits for a permit.
pub const LOOK_UP_PERMIT_MS_MAX: u64 = 500;
/// Maximum number of a node's DNS lookups in flight.
pub const NODE_LOOK_UPS_MAX: usize = 1_024;
/// Maximum number of one tenant's DNS lookups in flight. An endpoint has only one name at a time.
pub const TENANT_LOOK_UPS_MAX: usize = 16;
/// Maximum number of names whose addresses a node caches.
pub const NAMES_CACHED_MAX: usize = 4_096;
/// The maximum time for which a paused endpoint holds a message (contract 9): seven days.
pub const HELD_MS_MAX: i64 = 7 * 24 * 3_600_000;
/// Maximum number of answers with a secret that are remembered for one endpoint by their
/// `Idempotency-Key`.
pub const SECRETS_REMEMBERED_MAX: usize = 32;
/// Maximum number of headers of an answer over HTTP/1; an answer with more of them counts as a
/// protocol fault.
pub const ANSWER_HEADERS_MAX: usize = 1_000;
/// Maximum number of headers of an answer that are kept in the log of attempts.
pub const ANSWER_HEADERS_KEPT_MAX: usize = 32;
/// Maximum number of bytes of the kept headers, names and values together.
pub const ANSWER_HEADERS_KEPT_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of an endpoint's lanes in memory; the rest of the outbox waits in the store.
pub const ENDPOINT_LANES_MAX: usize = 1_024;
/// Maximum number of attempts after which a person may request one more attempt of a message. The
/// log of attempts has at most one entry more than this: up to 6 KB each.
pub const DELIVERY_ATTEMPTS_MAX: u32 = 100;
/// Maximum number of attempts of a message that are read. Versions without
/// [`DELIVERY_ATTEMPTS_MAX`] have stored more.
pub const DELIVERY_ATTEMPTS_READ_MAX: usize = 1_000;
/// Maximum number of messages that one bulk retry selects (contract 9).
pub const RETRY_BY_FILTER_MAX: usize = 10_000;
/// Maximum value of the metrics that count waiting messages.
pub const DEPTH_COUNTED_MAX: u64 = 200_000;
/// Deadlines further ahead than this are left to the periodic scan of the store.
pub const WHEEL_AHEAD_MS: u64 = 15 * 60 * 1000;
