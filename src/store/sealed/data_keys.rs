//! The data keys, in small files next to the engine. A key is destroyed by overwriting it in place,
//! which makes everything that it sealed unreadable in every file of the store.
//!
//! ```text
//! keys/root             the root key, sealed with the secret key of the service
//! keys/00000000.keys    the data keys 0 to 4,095, 32 bytes each
//! ```
//!
//! A file is written whole, with random bytes, and synced before its first key is used, so that a
//! new session needs no further sync. The key that seals a row is derived from the stored 32 bytes
//! and the root key: the files are useless without the secret key.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit as _, Mac};
use porchlight_schema::limits::{DATA_KEYS_CACHED_MAX, DATA_KEYS_PER_FILE};
use porchlight_world::fill_random;
use porchlight_world::private_file::write_private;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::key_folder::{DataKeysError, KEY_BYTES, Secret, StoreSecrets, create_folder, replace};
use super::root_key::{self, ROOT_FILE};
use crate::recent::Recent;

/// The name of the folder within the store's folder.
pub(crate) const KEYS_FOLDER: &str = "keys";
/// The content of a file whose keys are all destroyed. It is shorter than a key.
const ALL_DESTROYED: &[u8] = b"all destroyed\n";

/// A data key in the files.
pub(super) enum FoundKey {
    /// The key.
    Key(Secret),
    /// The key was destroyed.
    Destroyed,
    /// The file is damaged.
    Damaged,
}

/// The open data keys.
pub(super) struct DataKeys {
    folder: PathBuf,
    root: Secret,
    recent: Mutex<Recent<u64, Secret>>,
}

/// Returns the bytes that replace a destroyed key. They differ from zeros, which a damaged file may
/// hold.
fn destroyed_mark(number: u64) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new_with_prefix(b"destroyed data key");
    hash.update(number.to_be_bytes());
    hash.finalize().into()
}

fn file_number(number: u64) -> u64 {
    number / DATA_KEYS_PER_FILE
}

/// Returns the number of the first key in the file after the file that contains this key.
pub(super) fn next_file(number: u64) -> u64 {
    (file_number(number) + 1) * DATA_KEYS_PER_FILE
}

/// Replaces a missing file, whose keys are lost, by `None`.
fn existing(opened: io::Result<File>) -> io::Result<Option<File>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn offset(number: u64) -> u64 {
    number % DATA_KEYS_PER_FILE * KEY_BYTES as u64
}

impl DataKeys {
    /// Opens the keys in the store's folder `path`, and creates the root key for a store in which
    /// nothing `is_sealed` yet. Removes the leftovers of interrupted writes.
    pub(super) fn open(
        path: &Path,
        secrets: &StoreSecrets,
        is_sealed: bool,
    ) -> Result<Self, DataKeysError> {
        let folder = path.join(KEYS_FOLDER);
        let io = |error| DataKeysError::Io(folder.clone(), error);
        let root = match root_key::open(&folder, secrets)? {
            Some(root) => root,
            None if is_sealed || end_number(&folder).map_err(io)? > 0 => {
                return Err(DataKeysError::Missing(folder.join(ROOT_FILE)));
            }
            None => root_key::create(path, &folder, secrets).map_err(io)?,
        };
        remove_leftovers(&folder).map_err(io)?;
        Ok(Self {
            folder,
            root,
            recent: Mutex::new(Recent::new(DATA_KEYS_CACHED_MAX)),
        })
    }

    /// Seals the root key with the first secret, unless that one has sealed it.
    pub(super) fn reseal(&self, secrets: &StoreSecrets) -> Result<(), DataKeysError> {
        let sealed = root_key::reseal(&self.folder, secrets, &self.root);
        sealed.map_err(|error| DataKeysError::Io(self.folder.join(ROOT_FILE), error))
    }

    fn path(&self, file: u64) -> PathBuf {
        self.folder.join(file_name(file))
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent<u64, Secret>> {
        // The map is consistent between any two statements that hold the lock.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the file of this key if it does not exist. The file is durable afterwards.
    pub(super) fn create_file(&self, number: u64) -> io::Result<()> {
        let file = file_number(number);
        if self.path(file).try_exists()? {
            return Ok(());
        }
        let mut keys = Zeroizing::new(vec![0; DATA_KEYS_PER_FILE as usize * KEY_BYTES]);
        fill_random(&mut keys);
        write_private(&self.folder, &file_name(file), &keys)
    }

    /// Returns the number after all keys of the existing files.
    pub(super) fn end_number(&self) -> io::Result<u64> {
        end_number(&self.folder)
    }

    /// Returns the key that seals the rows with this number.
    pub(super) fn find(&self, number: u64) -> io::Result<FoundKey> {
        // The lock is held until the key is in the map, so that a key that is destroyed meanwhile
        // does not stay in memory.
        let mut recent = self.recent();
        if let Some(key) = recent.get(&number) {
            return Ok(FoundKey::Key(key));
        }
        let mut stored = Secret::default();
        let read = File::open(self.path(file_number(number)))
            .and_then(|file| file.read_exact_at(stored.as_mut_slice(), offset(number)));
        match read {
            Ok(()) if *stored == destroyed_mark(number) => return Ok(FoundKey::Destroyed),
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return self.find_in_short_file(number);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundKey::Damaged),
            Err(error) => return Err(error),
        }
        let key = self.derive(number, &stored);
        recent.set(number, key.clone());
        Ok(FoundKey::Key(key))
    }

    fn find_in_short_file(&self, number: u64) -> io::Result<FoundKey> {
        let content = std::fs::read(self.path(file_number(number)))?;
        Ok(if content == ALL_DESTROYED {
            FoundKey::Destroyed
        } else {
            FoundKey::Damaged
        })
    }

    fn derive(&self, number: u64, stored: &Secret) -> Secret {
        // HMAC accepts keys of any length (RFC 2104), so this cannot fail.
        let derived = Hmac::<Sha256>::new_from_slice(self.root.as_slice())
            .map(|mac| {
                mac.chain_update(number.to_be_bytes())
                    .chain_update(stored.as_slice())
            })
            .map(|mac| mac.finalize().into_bytes())
            .unwrap_or_default();
        Zeroizing::new(derived.into())
    }

    /// Overwrites a key. It is destroyed for good after [`Self::sync`].
    pub(super) fn destroy(&self, number: u64) -> io::Result<()> {
        let mut recent = self.recent();
        recent.remove(&number);
        let path = self.path(file_number(number));
        let Some(file) = existing(OpenOptions::new().write(true).open(path))? else {
            return Ok(());
        };
        // A shorter file either says that all its keys are destroyed, or has lost its last keys.
        if file.metadata()?.len() >= offset(number) + KEY_BYTES as u64 {
            file.write_all_at(&destroyed_mark(number), offset(number))?;
        }
        Ok(())
    }

    /// Syncs the files of destroyed keys. A file below the one of `next`, the next key to be used,
    /// shrinks to a mark when all of its keys are destroyed.
    pub(super) fn sync(&self, destroyed: &[u64], next: u64) -> io::Result<()> {
        let files: BTreeSet<u64> = destroyed.iter().copied().map(file_number).collect();
        for file in files {
            let Some(opened) = existing(File::open(self.path(file)))? else {
                continue;
            };
            opened.sync_all()?;
            if file < file_number(next) && is_all_destroyed(&opened, file)? {
                replace(&self.folder, &file_name(file), ALL_DESTROYED)?;
            }
        }
        Ok(())
    }
}

/// Returns the number after all keys of the files in a folder, which may not exist.
fn end_number(folder: &Path) -> io::Result<u64> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut after = 0;
    for entry in entries {
        let name = entry?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(".keys"));
        if let Some(file) = digits.and_then(|digits| digits.parse::<u64>().ok()) {
            after = after.max((file + 1) * DATA_KEYS_PER_FILE);
        }
    }
    Ok(after)
}

fn file_name(file: u64) -> String {
    format!("{file:08}.keys")
}

fn is_all_destroyed(mut file: &File, number: u64) -> io::Result<bool> {
    let mut keys = Zeroizing::new(Vec::new());
    file.read_to_end(&mut keys)?;
    // A shorter file has lost keys, which are not destroyed.
    let is_whole = keys.len() as u64 == DATA_KEYS_PER_FILE * KEY_BYTES as u64;
    let mut numbers = (number * DATA_KEYS_PER_FILE..).zip(keys.chunks(KEY_BYTES));
    Ok(is_whole && numbers.all(|(number, key)| key == destroyed_mark(number)))
}

/// Returns whether a file in the folder of the keys holds keys. Other files are leftovers of
/// interrupted writes.
fn has_keys(name: &str) -> bool {
    name == ROOT_FILE || name.ends_with(".keys")
}

fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(has_keys) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The content of the files of the keys, by name.
#[derive(Default)]
pub(crate) struct KeyFiles(Vec<(String, Zeroizing<Vec<u8>>)>);

impl KeyFiles {
    /// Reads the files in the store's folder. There are none before the first key.
    pub(super) fn read(store: &Path) -> io::Result<Self> {
        let entries = match std::fs::read_dir(store.join(KEYS_FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && has_keys(&name)
            {
                files.push((name, Zeroizing::new(std::fs::read(entry.path())?)));
            }
        }
        Ok(Self(files))
    }

    /// Writes the files into the folder of another store, without a sync.
    pub(crate) fn write(&self, store: &Path) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let folder = store.join(KEYS_FOLDER);
        create_folder(&folder)?;
        for (name, bytes) in &self.0 {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(folder.join(name))?;
            file.write_all(bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
