//! The share of one node that one tenant may use.
//!
//! A tenant is an organization in one environment. These are the defaults of the configuration's
//! section `[limits]`. A request beyond a share is refused with 429.

use super::{
    INGEST_BATCHES_MIN, NODE_EVENT_STREAMS_MAX, NODE_IN_FLIGHT_BYTES_MAX, NODE_SOCKETS_MAX,
};

/// Maximum number of bytes of request bodies that have arrived and are not answered: a quarter of
/// the node's.
pub const TENANT_IN_FLIGHT_BYTES_MAX: u64 = NODE_IN_FLIGHT_BYTES_MAX as u64 / 4;
/// Maximum number of requests in flight.
pub const TENANT_REQUESTS_MAX: u64 = 4_096;
/// Maximum number of open WebSockets: a quarter of the node's.
pub const TENANT_SOCKETS_MAX: u64 = NODE_SOCKETS_MAX as u64 / 4;
/// Maximum number of open event streams: a quarter of the node's.
pub const TENANT_EVENT_STREAMS_MAX: u64 = NODE_EVENT_STREAMS_MAX as u64 / 4;
/// Maximum number of sessions in progress: a quarter of the million that fit into one node.
pub const TENANT_LIVE_SESSIONS_MAX: u64 = 250_000;
/// Maximum number of lists that are read at the same time. Each skips at most
/// [`LIST_SCANNED_ROWS_MAX`](super::LIST_SCANNED_ROWS_MAX) rows.
pub const TENANT_LISTS_AT_ONCE_MAX: u64 = 8;
/// Maximum number of bodies of more than [`LARGE_BODY_BYTES`] that are unpacked and decoded at the
/// same time.
pub const TENANT_LARGE_BODIES_AT_ONCE_MAX: usize = 1;
/// Number of processors of a node per large body that it unpacks and decodes at the same time.
pub const LARGE_BODY_PROCESSORS: usize = 2;
/// Minimum number of large bodies that a node unpacks and decodes at the same time: more than a
/// tenant's, so that one tenant alone cannot occupy a node.
pub const NODE_LARGE_BODIES_AT_ONCE_MIN: usize = 2;
/// Number of unpacked bytes above which a body or line waits for a permit and is decoded outside of
/// the workers. Decoding this many bytes takes about half a millisecond; a minute of motion at 50
/// Hz has about as many.
pub const LARGE_BODY_BYTES: usize = 128 * 1024;
/// Maximum time for which a large body waits for its permit.
pub const LARGE_BODY_PERMIT_MS_MAX: u64 = 5_000;
/// Time after which a thread of usual priority decodes a large body, if no thread of low priority
/// has begun to.
pub const LARGE_BODY_STARVED_MS: u64 = 250;
/// Time after which a thread of usual priority repeats the decoding of a large body that is not
/// completed.
pub const LARGE_BODY_REPEATED_MS: u64 = 500;
/// Maximum number of sessions started per second; the burst is [`SESSION_STARTS_BURST_FACTOR`]
/// times as many.
pub const TENANT_SESSION_STARTS_PER_SEC: u32 = 1_000;
/// The burst factor of [`TENANT_SESSION_STARTS_PER_SEC`].
pub const SESSION_STARTS_BURST_FACTOR: u32 = 2;
/// Maximum number of PoDs of completed sessions that are replaced per second, each of which causes
/// a new insight; the burst is [`POD_CHANGES_BURST_FACTOR`] times as many.
pub const TENANT_POD_CHANGES_PER_SEC: u32 = 10;
/// The burst factor of [`TENANT_POD_CHANGES_PER_SEC`].
pub const POD_CHANGES_BURST_FACTOR: u32 = 10;
/// Maximum number of bytes of telemetry stored per second, in the packed form. A node stores about
/// 7 MB per second of 100,000 phones without `imu`, and a session with 50 Hz of `imu` about 1 KB
/// per second.
pub const TENANT_STORED_BYTES_PER_SEC: u64 = 16 * 1024 * 1024;
/// Number of seconds for which a tenant that was quiet may store telemetry without waiting:
/// backlogs of phones that were offline.
pub const STORED_BYTES_BURST_SEC: u64 = 30;
/// Divisor of the node's limit: a light tenant has fewer batches in flight than one part in this
/// many.
pub const LIGHT_TENANT_PARTS: u32 = 4;
/// Divisor of the node's limit: the room beyond the limit is one part in this many. Only light
/// tenants may use that room, so that a tenant that fills a node leaves it to the others.
pub const LIGHT_TENANT_ROOM_PARTS: u32 = 8;
/// Minimum number of batches in the room for light tenants: two light tenants may use all of their
/// part at the lowest limit of a node, at which a share of that limit would be small.
pub const LIGHT_TENANT_ROOM_MIN: u32 = 2 * INGEST_BATCHES_MIN / LIGHT_TENANT_PARTS;
