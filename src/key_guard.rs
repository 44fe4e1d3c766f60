//! Loads the secret keys for an open store, and refuses keys that the store does not depend on.

use std::path::{Path, PathBuf};

use porchlight_keys::check::{KeyCheckError, verify_and_remember};
use porchlight_keys::keyring::{KEY_FILE, SecretKey, SecretKeys, SecretsError};
use porchlight_ports::{KeyCheck, StoreError};
use porchlight_store::{DataKeysError, EmbeddedStore, StoreSecrets};
use zeroize::Zeroizing;

use crate::config::Config;
use crate::open_store::OpenStore;

/// The reason why the secret keys cannot be used with the store.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeysError {
    /// The key file next to a store that depends on it is missing.
    #[error(
        "{0} is missing, and the store beside it depends on that key: sessions, webhook secrets, session tokens and \
         recorder links work only with it. Put the file back from a backup (a backup contains it unless secrets.key_files \
         named only other files); if the key is kept elsewhere, name its file in secrets.key_files"
    )]
    Missing(PathBuf),
    /// A key file cannot be loaded.
    #[error(transparent)]
    Load(#[from] SecretsError),
    /// The configured keys are not those of the store.
    #[error(transparent)]
    Check(#[from] KeyCheckError),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// The data keys of the embedded store cannot be opened with these keys.
    #[error("the data keys of the store cannot be opened")]
    DataKeys(#[from] DataKeysError),
}

/// The purpose of the keys that seal the data keys of the embedded store.
const DATA_KEYS_PURPOSE: &str = "data keys of the store";

/// Derives the secrets that seal the data keys of the embedded store.
#[must_use]
pub fn store_secrets(keys: &SecretKeys) -> StoreSecrets {
    let derived = |key: &SecretKey| Zeroizing::new(*key.derive(DATA_KEYS_PURPOSE).bytes());
    StoreSecrets {
        first: derived(keys.writing()),
        others: keys.reading().skip(1).map(derived).collect(),
    }
}

/// Loads the secret keys of the configuration, verifies that the store depends on one of them,
/// remembers the writing one, and unlocks the embedded store. Creates a key only for a store in
/// which nothing depends on a key yet.
///
/// # Errors
///
/// Returns a [`SecretKeysError`] if the keys cannot be used; then nothing was created or written.
pub async fn secret_keys(
    config: &Config,
    store: &OpenStore,
) -> Result<SecretKeys, SecretKeysError> {
    let checks = store.key_check();
    if config.secrets.key_files.is_empty() {
        let file = config.store.path.join(KEY_FILE);
        let exists = file
            .try_exists()
            .map_err(|error| SecretsError::Io(file.clone(), error))?;
        if !exists && depends_on_lost_key(store, checks.as_ref()).await? {
            return Err(SecretKeysError::Missing(file));
        }
    }
    let keys = config.secret_keys()?;
    verify_and_remember(&keys, checks.as_ref(), store.outbox().as_ref()).await?;
    if let OpenStore::Embedded(store) = store {
        let secrets = store_secrets(&keys);
        store.unlock(&secrets)?;
        // Commands that only read a store do not reseal, so that its own key still opens it.
        store.reseal(&secrets)?;
    }
    Ok(keys)
}

/// Unlocks the embedded store in `folder` for a command, with the configured keys and the key next
/// to the store. Creates no key: a store without data keys stays locked if there is no secret key
/// either.
///
/// # Errors
///
/// Returns a [`SecretKeysError`] if a secret key is missing or does not open the data keys.
pub fn unlock(
    config: &Config,
    folder: &Path,
    store: &EmbeddedStore,
) -> Result<(), SecretKeysError> {
    let key_file = folder.join(KEY_FILE);
    let mut files = config.secrets.key_files.clone();
    if key_file.is_file() {
        files.push(key_file);
    } else if files.is_empty() {
        return match EmbeddedStore::has_data_keys(folder) {
            true => Err(SecretKeysError::Missing(key_file)),
            false => Ok(()),
        };
    }
    Ok(store.unlock(&store_secrets(&SecretKeys::load(&files)?))?)
}

/// Returns whether anything in the store depends on a key that was used before.
async fn depends_on_lost_key(store: &OpenStore, checks: &dyn KeyCheck) -> Result<bool, StoreError> {
    let has_dependents = match store {
        OpenStore::Embedded(store) => store.depends_on_a_key().await?,
        // The configuration always names the keys of a CQL store.
        OpenStore::Cql(_) => false,
    };
    Ok(has_dependents || checks.key_check().await?.is_some())
}

#[cfg(test)]
mod tests {
    use porchlight_schema::hex;

    use super::*;

    /// Without its secret, the data keys of an embedded store cannot be opened.
    #[test]
    fn the_secret_of_the_data_keys_never_changes() {
        let secrets = store_secrets(&SecretKeys::of_bytes([7; 32], &[[8; 32]]));
        let [first, other] = [&secrets.first, &secrets.others[0]].map(|key| hex::encode(&**key));
        assert_eq!(
            [first, other],
            [
                "bfe7da8c2140d7a79fd946253f285f165284494e89cc10d31a56056e1f8ed364",
                "dd58a85ad2a05d587a5f769e782f4858867af9cec6b4953a803c719ab59ed087"
            ]
        );
    }
}
