//! Records the hour in which each key was last used: noted in memory, and written periodically.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use porchlight_schema::key::KeyRecord;
use porchlight_schema::limits::KEY_USES_WRITTEN_MAX;
use porchlight_schema::time::{HOUR_MS, TimestampMs};

/// Uses that are not written yet, by the key's SHA-256.
#[derive(Default)]
pub(super) struct KeyUses(Mutex<HashMap<[u8; 32], TimestampMs>>);

impl KeyUses {
    /// Records that a key is used at `now`. If its record already has this hour, this costs only a
    /// comparison. Beyond [`KEY_USES_WRITTEN_MAX`] keys, the others wait for their next use.
    pub(super) fn record(&self, hash: [u8; 32], record: &KeyRecord, now: TimestampMs) {
        let hour = TimestampMs(now.0 - now.0.rem_euclid(HOUR_MS));
        if record.last_used_at >= Some(hour) {
            return;
        }
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.len() < KEY_USES_WRITTEN_MAX || uses.contains_key(&hash) {
            uses.insert(hash, hour);
        }
    }

    /// Takes the uses that must be written.
    pub(super) fn take(&self) -> HashMap<[u8; 32], TimestampMs> {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut uses)
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::{KeyId, OrganizationId};
    use porchlight_schema::key::{KeyKind, Role};
    use porchlight_schema::session::{Env, Tenant};

    use super::*;

    #[test]
    fn a_key_use_is_recorded_once_per_hour() {
        let now = TimestampMs(1_763_636_100_000);
        let mut record = KeyRecord {
            id: KeyId::new(now, 1),
            tenant: Tenant {
                organization_id: OrganizationId::new(now, 1),
                env: Env::Sandbox,
            },
            kind: KeyKind::Secret,
            last4: "abcd".to_owned(),
            created_at: now,
            expires_at: None,
            revoked_at: None,
            name: None,
            last_used_at: None,
            role: Role::Admin,
        };
        let uses = KeyUses::default();
        uses.record([1; 32], &record, now);
        let hour = TimestampMs(now.0 / HOUR_MS * HOUR_MS);
        assert_eq!(uses.take().get(&[1; 32]), Some(&hour));
        record.last_used_at = Some(hour);
        uses.record([1; 32], &record, hour.plus_ms(HOUR_MS - 1));
        assert!(uses.take().is_empty());
        uses.record([1; 32], &record, hour.plus_ms(HOUR_MS));
        assert_eq!(uses.take().len(), 1);
        for number in 0..2 * KEY_USES_WRITTEN_MAX as u64 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_be_bytes());
            uses.record(hash, &record, hour.plus_ms(HOUR_MS));
        }
        assert_eq!(uses.take().len(), KEY_USES_WRITTEN_MAX);
    }
}
