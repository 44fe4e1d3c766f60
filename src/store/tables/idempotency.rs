//! Idempotency keys: the session that a start created, remembered for 24 hours.

use porchlight_ports::{Idempotency, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::IDEMPOTENCY_MS;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::{Key, time_from};
use crate::damage::skipped;
use crate::engine::{KeyRange, Space};
use crate::txn::{Read, Scan, Txn};

/// The name of a damaged row in the log.
pub(super) const IDEMPOTENCY_KEY: &str = "an idempotency key";

/// The stored result of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdempotencyRecord {
    pub(crate) body_hash: [u8; 32],
    pub(crate) session_id: SessionId,
    pub(super) created_at: TimestampMs,
}

impl IdempotencyRecord {
    /// Returns the key of the row that lists `key`, the key of this row, by age.
    pub(super) fn age_key(&self, key: &[u8]) -> Vec<u8> {
        age_key(self.created_at, key)
    }
}

fn key(tenant: Tenant, idempotency: &Idempotency) -> Vec<u8> {
    Key::of(b'i').tenant(tenant).text(&idempotency.key).build()
}

fn age_key(created_at: TimestampMs, key: &[u8]) -> Vec<u8> {
    Key::of(b'I').time(created_at).bytes(key).build()
}

/// Returns the result stored under a key, if it has not expired at `now`.
pub(crate) fn find(
    read: &dyn Read,
    tenant: Tenant,
    idempotency: &Idempotency,
    now: TimestampMs,
) -> StoreResult<Option<IdempotencyRecord>> {
    let found: Option<IdempotencyRecord> = read.state(&key(tenant, idempotency))?;
    Ok(found.filter(|found| now < found.created_at.plus_ms(IDEMPOTENCY_MS)))
}

/// Stores a result under a key from `now` on.
pub(crate) fn put(
    txn: &mut Txn<'_>,
    tenant: Tenant,
    idempotency: &Idempotency,
    session_id: SessionId,
    now: TimestampMs,
) -> StoreResult<()> {
    let key = key(tenant, idempotency);
    txn.put(Space::State, age_key(now, &key), Vec::new());
    txn.put_state(
        key,
        &IdempotencyRecord {
            body_hash: idempotency.body_hash,
            session_id,
            created_at: now,
        },
    )
}

/// Removes up to `limit` keys that have expired at `now`; returns their number.
pub(crate) fn sweep(txn: &mut Txn<'_>, now: TimestampMs, limit: usize) -> StoreResult<usize> {
    let end = Key::of(b'I').time(now.plus_ms(1 - IDEMPOTENCY_MS)).build();
    let old = txn.rows(&Scan::keys(KeyRange::prefix([b'I']).before(&end), limit))?;
    let swept = old.len();
    for row in old {
        if let Some((head, key)) = row.key.split_first_chunk::<9>() {
            let made = head.last_chunk::<8>().copied().map(time_from);
            // The key may have been used again; then it has a newer row.
            let stored = skipped(txn.as_read().state(key), IDEMPOTENCY_KEY)?;
            let stored: Option<IdempotencyRecord> = stored;
            if stored.map(|stored| stored.created_at) == made {
                txn.delete(Space::State, key.to_vec());
            }
        }
        txn.delete(Space::State, row.key);
    }
    Ok(swept)
}
