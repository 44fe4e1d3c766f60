//! The tables: the key of each row, and the decisions of one write. The logic is the same on every
//! engine.
//!
//! A key is one byte that names the table, then fixed-width parts in big-endian, so that keys sort
//! as the parts do.
//!
//! | byte | table | key | value |
//! |---|---|---|---|
//! | `j` (journal space) | batches | session, seq | time received, packed batch |
//! | `J` | missing numbers of a journal | session | the count of missing numbers below the highest |
//! | `n` | notes | session, kind, numbers | the note |
//! | `s` | sessions | session | `SessionStart` |
//! | `e` | ends | session | `SessionEnd` |
//! | `p` | PoDs | session | `PodRow` |
//! | `l` | live sessions | session | |
//! | `c` | completed sessions | time of completion, session | |
//! | `y` | ended sessions to score | session | |
//! | `t` | sessions of a tenant | tenant, time of creation, session | |
//! | `d` | … of a delivery | tenant, hash of the delivery's id, time, session | |
//! | `r` | … of a courier | tenant, hash of the courier's id, time, session | |
//! | `i` | idempotency keys | tenant, hash of the key | `IdempotencyRecord` |
//! | `I` | … by age | time of creation, the key of `i` | |
//! | `a` | snapshots | session | the newest |
//! | `v` | insights | session | the newest |
//! | `V` | reviews | session | `Review` |
//! | `w` | learned | 32 bytes | as the scorer wrote it |
//! | `m` | messages | session, number | `Message` |
//! | `M` | messages by id | id | session, number |
//! | `h` | endpoints | tenant | `Endpoint` |
//! | `o` | lanes | endpoint, session, number | `Queued`, of a message that waits |
//! | `q` | messages to be examined | endpoint, id | session |
//! | `u` | retries | endpoint, due time, session | session |
//! | `z` | held messages | endpoint, end of the maximum holding time, id | session |
//! | `b` | requests for manual attempts | endpoint, time, id | `ManualRetry` |
//! | `D` | deliveries | tenant, id | `DeliveryRow` |
//! | `F` | failed deliveries | tenant, id | |
//! | `A` | attempts | id, number | `AttemptResult` |
//! | `x` | deleted endpoints whose outbox must be swept | endpoint | |
//! | `W` | learned rows of a session | session, key of `w` | |
//! | `g` | organizations | name | `Organization` |
//! | `k` | keys | SHA-256 | `KeyRecord` |
//! | `K` | keys by id | id | SHA-256 |
//! | `R` | recorders | id | version, the data that the service wrote |
//! | `Z` | check value of the secret key | | 32 bytes |
//! | `X` | data keys: the next unused one, those to be destroyed, a mark | see `sealed.rs` | |
//! | `#` | documents | collection, key | as the service wrote it |
//! | `B` | last successful backup | | time |
//! | 0 (both spaces) | group markers | slot | (see `continuity.rs`) |

pub(crate) mod damaged;
pub mod deliveries;
pub(crate) mod documents;
pub mod endpoints;
pub(crate) mod erasure;
pub mod idempotency;
pub mod insights;
pub mod journal;
pub mod key_check;
pub mod keys;
pub mod kinds;
pub(crate) mod last_backup;
pub mod lists;
pub mod messages;
pub mod notes;
pub mod outbox;
pub mod recorders;
pub(crate) mod restrictions;
pub mod retention;
pub(crate) mod reviews;
pub mod session_index;
pub mod sessions;
pub mod snapshots;
pub(crate) mod to_score;

use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use sha2::{Digest, Sha256};

/// Builds a key, part by part.
pub struct Key(Vec<u8>);

impl Key {
    /// Starts a key of the table that this byte names.
    #[must_use]
    pub fn of(table: u8) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(table);
        Self(bytes)
    }

    /// Appends raw bytes; of variable length only at the end of a key.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a session.
    #[must_use]
    pub fn session(self, session_id: SessionId) -> Self {
        self.bytes(&session_id.to_bytes())
    }

    /// Appends a number that sorts numerically.
    #[must_use]
    pub fn number(self, number: u32) -> Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Appends a time; times before 1970 sort first.
    #[must_use]
    pub fn time(self, at: TimestampMs) -> Self {
        self.bytes(&((at.0 as u64) ^ (1 << 63)).to_be_bytes())
    }

    /// Appends a tenant.
    #[must_use]
    pub fn tenant(self, tenant: Tenant) -> Self {
        self.bytes(&tenant.to_bytes())
    }

    /// Appends the first half of a text's SHA-256. The row itself contains the text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let hash = Sha256::digest(text.as_bytes());
        self.bytes(hash.get(..16).unwrap_or_default())
    }

    /// Returns the key.
    #[must_use]
    pub fn build(self) -> Vec<u8> {
        self.0
    }
}

/// Returns the session at the end of a key.
pub(crate) fn session_at_end(key: &[u8]) -> Option<SessionId> {
    key.last_chunk::<16>()
        .map(|bytes| SessionId::from_bytes(*bytes))
}

/// Returns the tenant after the first byte of a key.
pub fn tenant_in(key: &[u8]) -> Option<Tenant> {
    let (tenant, _) = Tenant::split_from(key.get(1..)?)?;
    Some(tenant)
}

/// Returns the time that [`Key::time`] wrote.
pub(crate) fn time_from(bytes: [u8; 8]) -> TimestampMs {
    TimestampMs((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;

    use super::*;

    #[test]
    fn times_and_tenants_round_trip_and_sort() {
        let times = [i64::MIN, -1, 0, 1, i64::MAX].map(TimestampMs);
        let keys = times.map(|at| Key::of(b'c').time(at).build());
        assert!(keys.is_sorted());
        for (at, key) in times.into_iter().zip(keys) {
            assert_eq!(time_from(*key.last_chunk().unwrap()), at);
        }
        for env in Env::ALL {
            let tenant = Tenant {
                organization_id: OrganizationId::new(TimestampMs(5), 9),
                env,
            };
            assert_eq!(
                tenant_in(&Key::of(b'h').tenant(tenant).build()),
                Some(tenant)
            );
        }
    }
}
