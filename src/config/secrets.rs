//! The secret keys that the configuration names.

use std::path::Path;

use porchlight_keys::keyring::{KEY_FILE, SecretKeys, SecretsError};

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

    /// Returns the files next to the embedded store that a backup copies. The store's own key file
    /// is one of them, unless `secrets.key_files` names only other files: it is then not in use and
    /// may be left from before a change of the key.
    #[must_use]
    pub fn backup_files(&self) -> &'static [&'static str] {
        let own = self.store.path.join(KEY_FILE);
        let files = &self.secrets.key_files;
        if files.is_empty() || files.iter().any(|file| is_same_file(file, &own)) {
            &[KEY_FILE]
        } else {
            &[]
        }
    }
}

/// Returns whether two paths name the same file. Files that do not exist are compared by path.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_has_the_key_next_to_the_store_only_while_it_is_in_use() {
        let folder = std::env::temp_dir().join(format!("porchlight-keys-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("data")).unwrap();
        let own = folder.join("data").join(KEY_FILE);
        std::fs::write(&own, "ab".repeat(32)).unwrap();
        let other = folder.join("other.key");
        std::fs::write(&other, "cd".repeat(32)).unwrap();
        let indirect = folder.join("data/../data").join(KEY_FILE);
        let mut config = Config::default();
        config.store.path = folder.join("data");
        for (files, copied) in [
            (vec![], true),
            (vec![other.clone()], false),
            (vec![other.clone(), own], true),
            (vec![indirect, other], true),
        ] {
            config.secrets.key_files = files;
            let is_copied = config.backup_files() == [KEY_FILE];
            assert_eq!(is_copied, copied, "{:?}", config.secrets.key_files);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
