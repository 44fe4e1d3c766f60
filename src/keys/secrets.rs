//! Seals endpoints' secrets with XChaCha20-Poly1305 and a random 192-bit nonce. A sealed secret is
//! bound to organization, environment, endpoint and number, so that a misplaced row does not open.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use porchlight_ports::{Endpoint, KeyCheckValue, Outbox, SealedSecret, SecretSeal, StoreError};
use porchlight_schema::ids::EndpointId;
use porchlight_schema::session::Tenant;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::keyring::{SecretKey, SecretKeys};

/// Purpose of the derived key.
const PURPOSE: &str = "webhook secrets at rest";
/// The size of a nonce in bytes.
const NONCE_BYTES: usize = 24;

/// Returns the check value of a key.
#[must_use]
pub fn check_value(key: &SecretKey) -> KeyCheckValue {
    KeyCheckValue(*key.derive(PURPOSE).derive("fingerprint").bytes())
}

/// Seals with the first key and opens with all of them.
pub struct SecretVault {
    fingerprint: String,
    writing: SecretKey,
    reading: Vec<SecretKey>,
}

impl std::fmt::Debug for SecretVault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretVault")
    }
}

impl SecretVault {
    /// Creates a vault with these keys.
    #[must_use]
    pub fn new(keys: &SecretKeys) -> Self {
        Self {
            fingerprint: check_value(keys.writing()).fingerprint(),
            writing: keys.writing().derive(PURPOSE),
            reading: keys.reading().map(|key| key.derive(PURPOSE)).collect(),
        }
    }

    /// Returns whether a secret is sealed with the present writing key.
    fn is_current(&self, tenant: Tenant, endpoint_id: EndpointId, sealed: &SealedSecret) -> bool {
        let bound = bound(tenant, endpoint_id, sealed.number);
        open_with(&self.writing, &bound, &sealed.sealed).is_some()
    }
}

fn bound(tenant: Tenant, endpoint_id: EndpointId, number: u32) -> Vec<u8> {
    let mut bound = Vec::with_capacity(64);
    bound.extend(tenant.organization_id.to_bytes());
    bound.extend(endpoint_id.to_bytes());
    bound.extend(number.to_be_bytes());
    bound.extend(tenant.env.as_str().as_bytes());
    bound
}

fn cipher(key: &SecretKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key.bytes()))
}

fn open_with(key: &SecretKey, bound: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, msg) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload { msg, aad: bound };
    let opened = cipher(key).decrypt(&XNonce::from(*nonce), payload).ok()?;
    Some(Zeroizing::new(opened))
}

/// The result of [`SecretVault::rewrap`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewrapped {
    /// Fingerprint of the writing key; see [`SecretVault::fingerprint`].
    pub key: String,
    /// The number of secrets that the call has sealed again.
    pub rewrapped: u64,
    /// The number of secrets that were already sealed with that key.
    pub current: u64,
    /// Endpoints with a secret that no key opens, because a key file is missing.
    pub unopened: Vec<String>,
}

/// The state of one endpoint.
enum SealState {
    /// All its secrets are sealed with the writing key.
    Current,
    /// The number of the endpoint's secrets that were sealed again.
    Resealed(u64),
    /// No key opens one of the endpoint's secrets.
    Unopened,
}

impl SecretVault {
    /// Returns eight digits by which people recognise the writing key. They reveal nothing about
    /// it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Seals every secret that another key has sealed again with the writing key. Afterwards the
    /// files of the other keys can be removed, unless a secret could not be opened. The call can be
    /// interrupted and repeated; an endpoint that changes meanwhile is processed again.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn rewrap(&self, outbox: &dyn Outbox) -> Result<Rewrapped, StoreError> {
        let mut report = Rewrapped {
            key: self.fingerprint(),
            ..Rewrapped::default()
        };
        for listed in outbox.endpoints().await? {
            let (id, tenant) = (listed.id, listed.tenant);
            let mut next = Some(listed);
            while let Some(mut endpoint) = next.take() {
                let others = endpoint.remembered.len() + usize::from(endpoint.previous.is_some());
                let secrets = 1 + others as u64;
                match self.reseal(&mut endpoint) {
                    SealState::Current => report.current += secrets,
                    SealState::Unopened => report.unopened.push(id.to_string()),
                    SealState::Resealed(count) => {
                        endpoint.version += 1;
                        if outbox.replace_endpoint(endpoint).await? {
                            report.rewrapped += count;
                            report.current += secrets - count;
                        } else {
                            // The endpoint has changed or was deleted. A new one is sealed with the
                            // writing key.
                            let stored = outbox.endpoint(tenant).await?;
                            next = stored.filter(|stored| stored.id == id);
                        }
                    }
                }
            }
        }
        Ok(report)
    }

    fn reseal(&self, endpoint: &mut Endpoint) -> SealState {
        let (tenant, id, mut count) = (endpoint.tenant, endpoint.id, 0);
        let previous = endpoint
            .previous
            .as_mut()
            .map(|previous| &mut previous.secret);
        let remembered = endpoint
            .remembered
            .iter_mut()
            .map(|answer| &mut answer.secret);
        let present = std::iter::once(&mut endpoint.secret).chain(previous);
        for secret in present.chain(remembered) {
            if self.is_current(tenant, id, secret) {
                continue;
            }
            let text = self.open(tenant, id, secret);
            let Some(sealed) = text.and_then(|text| self.seal(tenant, id, secret.number, &text))
            else {
                return SealState::Unopened;
            };
            *secret = sealed;
            count += 1;
        }
        if count == 0 {
            SealState::Current
        } else {
            SealState::Resealed(count)
        }
    }
}

impl SecretSeal for SecretVault {
    fn seal(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        number: u32,
        secret: &str,
    ) -> Option<SealedSecret> {
        let mut nonce = [0; NONCE_BYTES];
        porchlight_world::fill_random(&mut nonce);
        let aad = bound(tenant, endpoint_id, number);
        let payload = Payload {
            msg: secret.as_bytes(),
            aad: &aad,
        };
        let encrypted = cipher(&self.writing).encrypt(&XNonce::from(nonce), payload);
        let mut sealed = nonce.to_vec();
        sealed.extend(encrypted.ok()?);
        Some(SealedSecret { number, sealed })
    }

    fn open(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        sealed: &SealedSecret,
    ) -> Option<Zeroizing<String>> {
        let bound = bound(tenant, endpoint_id, sealed.number);
        let mut keys = self.reading.iter();
        let opened = keys.find_map(|key| open_with(key, &bound, &sealed.sealed))?;
        let text = std::str::from_utf8(&opened).ok()?;
        Some(Zeroizing::new(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use porchlight_ports::PreviousSecret;
    use porchlight_schema::hex;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;
    use porchlight_store::MemoryStore;

    use super::*;

    /// Keys of repeated bytes; the first writes.
    fn keys_of(bytes: &[u8]) -> SecretKeys {
        let keys: Vec<_> = bytes.iter().map(|&byte| [byte; 32]).collect();
        SecretKeys::of_bytes(keys[0], &keys[1..])
    }

    #[test]
    fn a_secret_opens_only_in_its_place() {
        let (now, vault) = (TimestampMs(1), SecretVault::new(&keys_of(&[0xab])));
        let tenant = Tenant {
            organization_id: OrganizationId::new(now, 1),
            env: Env::Sandbox,
        };
        let id = EndpointId::new(now, 2);
        let sealed = vault.seal(tenant, id, 3, "whsec_text").unwrap();
        assert_eq!(*vault.open(tenant, id, &sealed).unwrap(), "whsec_text");
        assert_ne!(vault.seal(tenant, id, 3, "whsec_text").unwrap(), sealed);
        let live = Tenant {
            env: Env::Production,
            ..tenant
        };
        assert_eq!(vault.open(live, id, &sealed), None);
        assert_eq!(vault.open(tenant, EndpointId::new(now, 3), &sealed), None);
        let mut other = sealed.clone();
        other.number = 4;
        assert_eq!(vault.open(tenant, id, &other), None);
        for place in 0..sealed.sealed.len() {
            let mut broken = sealed.clone();
            broken.sealed[place] ^= 1;
            assert_eq!(vault.open(tenant, id, &broken), None);
        }
        let short = SealedSecret {
            number: 3,
            sealed: vec![0; 5],
        };
        assert_eq!(vault.open(tenant, id, &short), None);
    }

    #[test]
    fn a_new_key_seals_and_the_old_key_still_opens() {
        let tenant = Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), 1),
            env: Env::Sandbox,
        };
        let id = EndpointId::new(TimestampMs(1), 2);
        let old = SecretVault::new(&keys_of(&[0xcd]));
        let sealed = old.seal(tenant, id, 1, "whsec_text").unwrap();
        let both = SecretVault::new(&keys_of(&[0xef, 0xcd]));
        assert!(both.open(tenant, id, &sealed).is_some());
        assert!(!both.is_current(tenant, id, &sealed) && old.is_current(tenant, id, &sealed));
        assert_eq!(
            SecretVault::new(&keys_of(&[0xef])).open(tenant, id, &sealed),
            None
        );
    }

    async fn endpoint(store: &dyn Outbox, vault: &SecretVault, number: u128) -> Endpoint {
        let now = TimestampMs(1);
        let tenant = Tenant {
            organization_id: OrganizationId::new(now, number),
            env: Env::Sandbox,
        };
        let id = EndpointId::new(now, number);
        let endpoint = Endpoint {
            enabled: true,
            id,
            tenant,
            url: "https://a.example/".into(),
            created_at: now,
            version: 1,
            secret: vault.seal(tenant, id, 2, "whsec_new").unwrap(),
            secret_made_at: now,
            previous: Some(PreviousSecret {
                secret: vault.seal(tenant, id, 1, "whsec_old").unwrap(),
                expires_at: TimestampMs(9),
            }),
            paused_at: None,
            remembered: Vec::new(),
        };
        assert!(store.create_endpoint(endpoint.clone()).await.unwrap());
        endpoint
    }

    #[tokio::test]
    async fn resealed_secrets_open_without_the_old_key() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (old, both, new) = ([0xcd].as_slice(), [0xef, 0xcd].as_slice(), [0xef]);
        let old = SecretVault::new(&keys_of(old));
        let made = endpoint(store.as_ref(), &old, 1).await;
        endpoint(store.as_ref(), &SecretVault::new(&keys_of(&[0x01])), 2).await;
        let both = SecretVault::new(&keys_of(both));
        endpoint(store.as_ref(), &both, 3).await;
        let lost = EndpointId::new(TimestampMs(1), 2).to_string();
        let mut report = both.rewrap(store.as_ref()).await.unwrap();
        assert_eq!((report.rewrapped, report.current), (2, 2));
        assert_eq!(report.unopened, [lost]);
        let new = SecretVault::new(&keys_of(&new));
        assert_eq!(report.key, new.fingerprint());
        assert_ne!(report.key, old.fingerprint());
        report = new.rewrap(store.as_ref()).await.unwrap();
        assert_eq!(
            (report.rewrapped, report.current),
            (0, 4),
            "a second call seals nothing again"
        );
        let stored = store.endpoint(made.tenant).await.unwrap().unwrap();
        assert_eq!(stored.version, made.version + 1);
        let opened = |sealed| new.open(made.tenant, made.id, sealed).unwrap();
        assert_eq!(*opened(&stored.secret), "whsec_new");
        let previous = stored.previous.unwrap();
        assert_eq!(*opened(&previous.secret), "whsec_old");
        assert_eq!(previous.expires_at, TimestampMs(9));
    }
    /// A store refuses to open without the key of its stored check value.
    #[test]
    fn the_check_value_of_a_key_never_changes() {
        let value = check_value(keys_of(&[7]).writing());
        assert_eq!(
            hex::encode(&value.0),
            "64cec390b84c399655aecef7c2a8dc4efb15cce652598437a5e0430cb5692b94"
        );
    }
}
