//! The secret keys that the configuration names.

use porchlight_keys::keyring::{SecretKeys, SecretsError};

use super::Config;

impl Config {
    /// Loads the keys of the key files or, without key files, the key next to the embedded store.
    ///
    /// # Errors
    ///
    /// Returns a [`SecretsError`] if the keys cannot be loaded.
    pub fn secret_keys(&self) -> Result<SecretKeys, SecretsError> {
        if self.secrets.key_files.is_empty() {
            SecretKeys::load_or_create(&self.store.path)
        } else {
            SecretKeys::load(&self.secrets.key_files)
        }
    }
}
