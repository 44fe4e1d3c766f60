//! Keys (contract 1).

/// Deadline for a revocation to take effect on every node, including on open connections (contract
/// 1).
pub const REVOKED_MS_MAX: u64 = 30_000;
/// Maximum age of a cached key lookup, so that a stream that checks its credential periodically
/// against the cache still ends within [`REVOKED_MS_MAX`].
pub const KEY_REMEMBERED_MS_MAX: u64 = 4_000;
/// Number of successful key lookups that a node caches.
pub const KEYS_REMEMBERED_MAX: usize = 16_384;
/// Maximum number of lookups per second, on one node, of keys that were never found there, so that
/// guesses of keys do not overload the store.
pub const UNKNOWN_KEY_LOOKUPS_PER_SEC: u32 = 200;
/// Burst of lookups of keys that were never found, on one node.
pub const UNKNOWN_KEY_LOOKUPS_BURST: u32 = 1_000;
/// Maximum number of found keys that a node remembers and looks up again without
/// [`UNKNOWN_KEY_LOOKUPS_PER_SEC`].
pub const FOUND_KEYS_REMEMBERED_MAX: usize = 65_536;
/// Number of failed key lookups that a node caches.
pub const UNKNOWN_KEYS_REMEMBERED_MAX: usize = 4_096;
/// Maximum number of keys of an organization in one environment that are neither revoked nor
/// expired.
pub const TENANT_LIVE_KEYS_MAX: usize = 1_000;
