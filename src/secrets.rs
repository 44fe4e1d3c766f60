//! Endpoints' secrets at rest: XChaCha20-Poly1305 under a key of a file, with a random nonce of 192 bits, bound to
//! organization, environment, endpoint and number, so that a row put in another's place does not open.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use porchlight_actors::ports::{Outbox, SealedSecret, SecretSeal, StoreError};
use porchlight_schema::ids::EndpointId;
use porchlight_schema::session::Tenant;
use zeroize::Zeroizing;

use crate::store::secrets::{SecretKey, SecretKeys};

/// What a key of a file is used for here, and nowhere else.
const PURPOSE: &str = "webhook secrets at rest";
/// Bytes of a nonce.
const NONCE_BYTES: usize = 24;

/// Seals with the first key, opens with all of them.
pub struct SecretVault {
    writing: SecretKey,
    reading: Vec<SecretKey>,
}

impl std::fmt::Debug for SecretVault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretVault")
    }
}

impl SecretVault {
    /// A vault on these keys.
    #[must_use]
    pub fn new(keys: &SecretKeys) -> Self {
        Self {
            writing: keys.writing().derive(PURPOSE),
            reading: keys.reading().map(|key| key.derive(PURPOSE)).collect(),
        }
    }

    /// Whether a secret is sealed with the key that writes now; when not, `secrets rewrap` has to seal it anew.
    #[must_use]
    pub fn is_current(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        sealed: &SealedSecret,
    ) -> bool {
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

/// A secret could not be sealed anew.
#[derive(Debug, thiserror::Error)]
pub enum RewrapError {
    /// The store can't.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No key opens it: the file of the key that sealed it must stay configured until this is done.
    #[error("a secret of {0} cannot be opened with the keys that are configured")]
    Unopened(EndpointId),
}

impl SecretVault {
    /// Seals every secret that another key has sealed with the key that writes now; afterwards the files of the
    /// other keys can go. Gives how many endpoints were changed. One that is changed by somebody else meanwhile is
    /// left as they made it, and is counted by the next run.
    ///
    /// # Errors
    ///
    /// See [`RewrapError`]; what was done until then stays.
    pub async fn rewrap(&self, outbox: &dyn Outbox) -> Result<u64, RewrapError> {
        let mut changed = 0;
        for mut endpoint in outbox.endpoints().await? {
            let (tenant, id) = (endpoint.tenant, endpoint.id);
            let previous = endpoint
                .previous
                .as_mut()
                .map(|previous| &mut previous.secret);
            let mut anew = false;
            for secret in std::iter::once(&mut endpoint.secret).chain(previous) {
                if !self.is_current(tenant, id, secret) {
                    let text = self.open(tenant, id, secret);
                    let sealed = text.and_then(|text| self.seal(tenant, id, secret.number, &text));
                    *secret = sealed.ok_or(RewrapError::Unopened(id))?;
                    anew = true;
                }
            }
            endpoint.version += 1;
            if anew && outbox.replace_endpoint(endpoint).await? {
                changed += 1;
            }
        }
        Ok(changed)
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
        crate::world::fill(&mut nonce);
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
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    fn keys(digits: &[&str]) -> SecretKeys {
        let folder = std::env::temp_dir();
        let files: Vec<_> = digits
            .iter()
            .map(|digits| {
                // A file of its own: another test's would be half written now and then.
                static NUMBER: AtomicU32 = AtomicU32::new(0);
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let name = format!("porchlight-vault-{}-{number}", std::process::id());
                let file = folder.join(name);
                std::fs::write(&file, digits.repeat(32)).unwrap();
                file
            })
            .collect();
        SecretKeys::load(&files).unwrap()
    }

    #[test]
    fn a_secret_opens_in_its_place_and_in_no_other() {
        let (now, vault) = (TimestampMs(1), SecretVault::new(&keys(&["ab"])));
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
    fn another_key_writes_and_the_old_one_still_reads() {
        let tenant = Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), 1),
            env: Env::Sandbox,
        };
        let id = EndpointId::new(TimestampMs(1), 2);
        let old = SecretVault::new(&keys(&["cd"]));
        let sealed = old.seal(tenant, id, 1, "whsec_text").unwrap();
        let both = SecretVault::new(&keys(&["ef", "cd"]));
        assert!(both.open(tenant, id, &sealed).is_some());
        assert!(!both.is_current(tenant, id, &sealed) && old.is_current(tenant, id, &sealed));
        assert_eq!(
            SecretVault::new(&keys(&["ef"])).open(tenant, id, &sealed),
            None
        );
    }
}
