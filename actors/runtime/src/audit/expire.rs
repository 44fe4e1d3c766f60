//! Removes the groups of a chain that are older than its retention.

use std::sync::Arc;

use porchlight_core::audit::{encode, expires_until};
use porchlight_ports::{Document, Store, StoreError, StoreResult};
use porchlight_schema::limits::{AUDIT_KEPT_MS, AUDIT_PART_GROUPS};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::chain::{documents, group_of, heads, part, recorded, recorded_extent};
use crate::rounds::Rounds;

/// The key of the document with the time up to which groups were removed.
const EXPIRED_KEY: &[u8] = b"expired";

/// Removes groups whose lines are all older than `kept_ms`, at most a part of them in one call.
/// Returns the number of removed groups. May be repeated after a crash.
///
/// # Errors
///
/// Returns an error if the store fails or a group cannot be decoded.
pub(crate) async fn expire(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    kept_ms: i64,
    now: TimestampMs,
) -> StoreResult<u64> {
    let extent = recorded_extent(store, tenant).await?;
    let (mut removed, mut until) = (0, None);
    for number in extent.first_part..=extent.head.next / AUDIT_PART_GROUPS {
        for document in documents(store, tenant, number, None).await? {
            let group = group_of(&document)?;
            let until = match until {
                Some(until) => until,
                None => {
                    let Some(expired) = expires_until(group.head().at, kept_ms, now) else {
                        return Ok(removed);
                    };
                    // From here on, a check accepts that older groups are missing.
                    record_expired(store, tenant, expired).await?;
                    *until.insert(expired)
                }
            };
            // A group after the recorded end is the only record of its number, so it stays.
            if group.head().at > until || group.number >= extent.head.next {
                return Ok(removed);
            }
            let Document { key, data } = document;
            let collection = part(tenant, number);
            let gone = store.replace_document(collection, key, Some(data), None);
            removed += u64::from(gone.await?);
        }
    }
    Ok(removed)
}

/// Returns the time up to which groups may be missing at `now`.
pub(super) async fn expired_until(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    now: TimestampMs,
) -> StoreResult<TimestampMs> {
    let (until, _) = recorded(store, tenant, EXPIRED_KEY, TimestampMs(0)).await?;
    Ok(until.max(now.plus_ms(-AUDIT_KEPT_MS)))
}

/// Records that groups up to a time are removed.
async fn record_expired(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    until: TimestampMs,
) -> StoreResult<()> {
    let mut rounds = Rounds::new();
    loop {
        let (recorded, stored) = recorded(store, tenant, EXPIRED_KEY, TimestampMs(0)).await?;
        if recorded >= until {
            return Ok(());
        }
        let data = encode(&until).map_err(StoreError::unavailable)?;
        let key = EXPIRED_KEY.to_vec();
        if store
            .replace_document(heads(tenant), key, stored, Some(data))
            .await?
        {
            return Ok(());
        }
        rounds.on_lost().await?;
    }
}
