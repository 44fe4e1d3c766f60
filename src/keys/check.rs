//! Checks whether the configured secret keys match the keys that a store depends on.
//!
//! A store remembers the check value of the key that wrote at its last start. A later start needs
//! that key among the configured keys, in any position. A store of the first release has no check
//! value: one of the keys must then open a stored secret, unless no secret is stored.

use porchlight_ports::{
    Endpoint, KeyCheck, KeyCheckValue, Outbox, SealedSecret, SecretSeal, StoreError,
};

use crate::keyring::SecretKeys;
use crate::secrets::{SecretVault, check_value};

/// Attempts to store the check value while other nodes start at the same time.
const ATTEMPTS_MAX: u32 = 8;

/// The reason why keys are not accepted.
#[derive(Debug, thiserror::Error)]
pub enum KeyCheckError {
    /// The store was last used with a key that is not configured.
    #[error(
        "the store depends on secret key {expected}, but the configured keys are {}. Webhook secrets, session tokens \
         and recorder links of this store work only with that key. Name its file in secrets.key_files after the first entry (the key that \
         seals new secrets). A backup contains the store's own secret.key, but no other key file",
        configured.join(", ")
    )]
    Other {
        /// Fingerprint of the key that is needed.
        expected: String,
        /// Fingerprints of the configured keys.
        configured: Vec<String>,
    },
    /// No configured key opens any stored webhook secret.
    #[error(
        "none of the configured secret keys ({}) opens a webhook secret of the store. Name the file of the key that \
         sealed them in secrets.key_files after the first entry (the key that seals new secrets). A backup contains the \
         store's own secret.key, but no other key file",
        configured.join(", ")
    )]
    OpensNothing {
        /// Fingerprints of the configured keys.
        configured: Vec<String>,
    },
    /// The store cannot be read or written.
    #[error("the check value of the secret key cannot be read or written")]
    Store(#[from] StoreError),
}

/// Verifies that the store depends on one of `keys`, and records the key that seals new secrets.
///
/// # Errors
///
/// Returns [`KeyCheckError`]; then nothing was written.
pub async fn verify_and_remember(
    keys: &SecretKeys,
    checks: &dyn KeyCheck,
    outbox: &dyn Outbox,
) -> Result<(), KeyCheckError> {
    let writing = check_value(keys.writing());
    let mut last = StoreError::Overloaded;
    for _ in 0..ATTEMPTS_MAX {
        let stored = checks.key_check().await?;
        verify(keys, stored, outbox).await?;
        if stored == Some(writing) {
            return Ok(());
        }
        match checks.replace_key_check(stored, writing).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // A database may refuse to decide while several nodes write.
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Verifies that the store depends on one of `keys`. Writes nothing.
///
/// # Errors
///
/// Returns [`KeyCheckError`].
pub async fn verify(
    keys: &SecretKeys,
    stored: Option<KeyCheckValue>,
    outbox: &dyn Outbox,
) -> Result<(), KeyCheckError> {
    let configured = || {
        let values = keys.reading().map(check_value);
        values.map(|value| value.fingerprint()).collect()
    };
    match stored {
        Some(stored) if keys.reading().any(|key| check_value(key) == stored) => Ok(()),
        Some(stored) => Err(KeyCheckError::Other {
            expected: stored.fingerprint(),
            configured: configured(),
        }),
        None => {
            let endpoints = outbox.endpoints().await?;
            let vault = SecretVault::new(keys);
            let opens = |endpoint: &Endpoint| {
                sealed(endpoint).any(|secret| {
                    let opened = vault.open(endpoint.tenant, endpoint.id, secret);
                    opened.is_some()
                })
            };
            if endpoints.is_empty() || endpoints.iter().any(opens) {
                Ok(())
            } else {
                Err(KeyCheckError::OpensNothing {
                    configured: configured(),
                })
            }
        }
    }
}

/// Returns all sealed secrets of an endpoint.
fn sealed(endpoint: &Endpoint) -> impl Iterator<Item = &SealedSecret> {
    let previous = endpoint.previous.iter().map(|previous| &previous.secret);
    let remembered = endpoint.remembered.iter().map(|answer| &answer.secret);
    std::iter::once(&endpoint.secret)
        .chain(previous)
        .chain(remembered)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use porchlight_schema::ids::{EndpointId, OrganizationId};
    use porchlight_schema::session::{Env, Tenant};
    use porchlight_schema::time::TimestampMs;
    use porchlight_store::MemoryStore;

    use super::*;

    fn keys(bytes: &[u8]) -> SecretKeys {
        let keys: Vec<_> = bytes.iter().map(|&byte| [byte; 32]).collect();
        SecretKeys::of_bytes(keys[0], &keys[1..])
    }

    fn store() -> Arc<MemoryStore> {
        MemoryStore::new(Arc::new(|_, _| {})).unwrap()
    }

    async fn start(store: &MemoryStore, bytes: &[u8]) -> Result<(), KeyCheckError> {
        verify_and_remember(&keys(bytes), store, store).await
    }

    async fn seal_with(store: &MemoryStore, byte: u8) {
        let now = TimestampMs(1);
        let tenant = Tenant {
            organization_id: OrganizationId::new(now, u128::from(byte)),
            env: Env::Sandbox,
        };
        let id = EndpointId::new(now, u128::from(byte));
        let vault = SecretVault::new(&keys(&[byte]));
        let endpoint = Endpoint {
            enabled: true,
            id,
            tenant,
            url: "https://a.example/".into(),
            created_at: now,
            version: 1,
            secret: vault.seal(tenant, id, 1, "whsec_text").unwrap(),
            secret_made_at: now,
            previous: None,
            paused_at: None,
            remembered: Vec::new(),
        };
        assert!(store.create_endpoint(endpoint).await.unwrap());
    }

    #[tokio::test]
    async fn keys_rotate_and_another_key_is_refused() {
        let store = store();
        start(&store, &[1]).await.unwrap();
        for (configured, is_good) in [
            (&[2][..], false),
            (&[1], true),
            (&[2, 1], true),
            // The new key has written since: the old one alone is not enough.
            (&[1], false),
            (&[1, 2], true),
            (&[2, 1], true),
            (&[2], true),
            (&[1, 3], false),
        ] {
            let started = start(&store, configured).await;
            assert_eq!(started.is_ok(), is_good, "{configured:?}: {started:?}");
        }
        let Err(refused) = start(&store, &[3]).await else {
            panic!("another key is accepted");
        };
        let message = refused.to_string();
        for number in [2, 3] {
            let fingerprint = SecretVault::new(&keys(&[number])).fingerprint();
            assert!(message.contains(&fingerprint), "{message}");
        }
    }

    #[tokio::test]
    async fn a_store_without_a_check_value_takes_a_key_that_opens_something() {
        let store = store();
        seal_with(&store, 1).await;
        seal_with(&store, 9).await;
        let refused = start(&store, &[2]).await;
        assert!(matches!(refused, Err(KeyCheckError::OpensNothing { .. })));
        assert_eq!(
            store.key_check().await.unwrap(),
            None,
            "the check has written nothing"
        );
        start(&store, &[2, 1]).await.unwrap();
        let expected = check_value(keys(&[2]).writing());
        assert_eq!(store.key_check().await.unwrap(), Some(expected));
    }
}
