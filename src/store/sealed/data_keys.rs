//! The data keys, in small files beside the engine. A key is destroyed by overwriting it in place,
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
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chacha20poly1305::aead::{Aead, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use porchlight_ports::StoreError;
use porchlight_schema::limits::{DATA_KEYS_CACHED_MAX, DATA_KEYS_PER_FILE};
use porchlight_world::fill;
use porchlight_world::private_file::{sync_folder, write_private};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::recent::Recent;

/// The name of the folder within the store's folder.
pub(crate) const KEYS_FOLDER: &str = "keys";
/// The name of the file with the sealed root key.
const ROOT_FILE: &str = "root";
/// Size of a key in bytes.
const KEY_BYTES: usize = 32;
/// Size of the nonce before the sealed root key, in bytes.
const NONCE_BYTES: usize = 24;
/// The data that the sealed root key is bound to.
const ROOT_PURPOSE: &[u8] = b"root of the data keys";
/// The content of a file whose keys are all destroyed. It is shorter than a key.
const ALL_DESTROYED: &[u8] = b"all destroyed\n";

/// A key of 32 bytes, wiped from memory when dropped.
pub(crate) type Secret = Zeroizing<[u8; KEY_BYTES]>;

/// The secrets that seal the root key. The first one seals; all of them open.
#[derive(Clone)]
pub struct StoreSecrets {
    /// The secret that seals.
    pub first: Secret,
    /// Earlier secrets, which still open.
    pub others: Vec<Secret>,
}

/// Why the data keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataKeysError {
    /// A file cannot be read or written.
    #[error("{0} cannot be used")]
    Io(PathBuf, #[source] io::Error),
    /// The store has sealed rows, and the root key is missing.
    #[error("{0} is missing, and the store's sessions cannot be read without it. Restore a backup")]
    Missing(PathBuf),
    /// No secret key opens the root key.
    #[error(
        "{0} was sealed with another secret key: name the file of that key in secrets.key_files, behind the one that \
         writes"
    )]
    OtherSecret(PathBuf),
    /// The engine cannot read the rows about the keys.
    #[error("the rows about the data keys cannot be read")]
    Rows(#[source] StoreError),
}

/// A data key in the files.
pub(super) enum Found {
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

fn cipher(secret: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(**secret))
}

/// The bytes that replace a destroyed key. They differ from zeros, which a damaged file may hold.
fn destroyed_mark(number: u64) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new_with_prefix(b"destroyed data key");
    hash.update(number.to_be_bytes());
    hash.finalize().into()
}

fn file_number(number: u64) -> u64 {
    number / DATA_KEYS_PER_FILE
}

/// Returns the first key of the file after the one of this key.
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
    /// nothing `is_sealed` yet. Seals the root key again if not the first secret has sealed it.
    pub(super) fn open(
        path: &Path,
        secrets: &StoreSecrets,
        is_sealed: bool,
    ) -> Result<Self, DataKeysError> {
        let folder = path.join(KEYS_FOLDER);
        let file = folder.join(ROOT_FILE);
        let io = |error| DataKeysError::Io(file.clone(), error);
        let root = match std::fs::read(&file) {
            Ok(sealed) => {
                let opened = |secret: &Secret| open_root(secret, &sealed);
                match opened(&secrets.first) {
                    Some(root) => root,
                    None => {
                        let root = secrets.others.iter().find_map(opened);
                        let root = root.ok_or_else(|| DataKeysError::OtherSecret(file.clone()))?;
                        replace(
                            &folder,
                            ROOT_FILE,
                            &seal_root(&secrets.first, &root).map_err(io)?,
                        )
                        .map_err(io)?;
                        root
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_sealed || after_all(&folder).map_err(io)? > 0 {
                    return Err(DataKeysError::Missing(file));
                }
                let mut root = Secret::default();
                fill(root.as_mut_slice());
                make_folder(&folder).map_err(io)?;
                let sealed = seal_root(&secrets.first, &root).map_err(io)?;
                write_private(&folder, ROOT_FILE, &sealed).map_err(io)?;
                sync_folder(path).map_err(io)?;
                root
            }
            Err(error) => return Err(io(error)),
        };
        Ok(Self {
            folder,
            root,
            recent: Mutex::new(Recent::new(DATA_KEYS_CACHED_MAX)),
        })
    }

    fn path(&self, file: u64) -> PathBuf {
        self.folder.join(file_name(file))
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent<u64, Secret>> {
        // The map is consistent between any two statements that hold the lock.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the file of this key if it does not exist. The file is durable afterwards.
    pub(super) fn provide(&self, number: u64) -> io::Result<()> {
        let file = file_number(number);
        if self.path(file).try_exists()? {
            return Ok(());
        }
        let mut keys = Zeroizing::new(vec![0; DATA_KEYS_PER_FILE as usize * KEY_BYTES]);
        fill(&mut keys);
        write_private(&self.folder, &file_name(file), &keys)
    }

    /// Returns the number after all keys of the existing files.
    pub(super) fn after_all(&self) -> io::Result<u64> {
        after_all(&self.folder)
    }

    /// Returns the key that seals the rows with this number.
    pub(super) fn find(&self, number: u64) -> io::Result<Found> {
        // The lock is held until the key is in the map, so that a key that is destroyed meanwhile does not stay in memory.
        let mut recent = self.recent();
        if let Some(key) = recent.get(&number) {
            return Ok(Found::Key(key));
        }
        let mut stored = Secret::default();
        let read = File::open(self.path(file_number(number)))
            .and_then(|file| file.read_exact_at(stored.as_mut_slice(), offset(number)));
        match read {
            Ok(()) if *stored == destroyed_mark(number) => return Ok(Found::Destroyed),
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return self.find_in_short_file(number);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Damaged),
            Err(error) => return Err(error),
        }
        let key = self.derive(number, &stored);
        recent.set(number, key.clone());
        Ok(Found::Key(key))
    }

    fn find_in_short_file(&self, number: u64) -> io::Result<Found> {
        let content = std::fs::read(self.path(file_number(number)))?;
        Ok(if content == ALL_DESTROYED {
            Found::Destroyed
        } else {
            Found::Damaged
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
        // A shorter file says that all its keys are destroyed.
        if file.metadata()?.len() >= DATA_KEYS_PER_FILE * KEY_BYTES as u64 {
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
fn after_all(folder: &Path) -> io::Result<u64> {
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
    let mut numbers = number * DATA_KEYS_PER_FILE..;
    let mut keys = keys.chunks(KEY_BYTES);
    Ok(keys.all(|key| {
        numbers
            .next()
            .is_some_and(|number| key == destroyed_mark(number))
    }))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Replaces a file atomically and durably.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let next = format!("{name}.next");
    // It is left from a replacement that was interrupted.
    match std::fs::remove_file(folder.join(&next)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_private(folder, &next, bytes)?;
    std::fs::rename(folder.join(&next), folder.join(name))?;
    sync_folder(folder)
}

fn seal_root(secret: &Secret, root: &Secret) -> io::Result<Vec<u8>> {
    let mut nonce = [0; NONCE_BYTES];
    fill(&mut nonce);
    let payload = Payload {
        msg: root.as_slice(),
        aad: ROOT_PURPOSE,
    };
    let sealed = cipher(secret).encrypt(&XNonce::from(nonce), payload);
    let sealed = sealed.map_err(|_| io::Error::other("the root key cannot be sealed"))?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn open_root(secret: &Secret, sealed: &[u8]) -> Option<Secret> {
    let (nonce, msg) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let payload = Payload {
        msg,
        aad: ROOT_PURPOSE,
    };
    let opened = cipher(secret)
        .decrypt(&XNonce::from(*nonce), payload)
        .ok()?;
    let opened = Zeroizing::new(opened);
    Some(Zeroizing::new(opened.as_slice().try_into().ok()?))
}

/// Copies the files of the keys from one store's folder to another one, if there are any.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (from.join(KEYS_FOLDER), to.join(KEYS_FOLDER));
    let entries = match std::fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    make_folder(&to)?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        // Other files are remains of an interrupted replacement.
        if let Some(name) = name.to_str()
            && (name == ROOT_FILE || name.ends_with(".keys"))
        {
            let bytes = Zeroizing::new(std::fs::read(entry.path())?);
            write_private(&to, name, &bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("porchlight-data-keys-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    fn secrets(first: u8, others: &[u8]) -> StoreSecrets {
        let secret = |byte: u8| Zeroizing::new([byte; KEY_BYTES]);
        StoreSecrets {
            first: secret(first),
            others: others.iter().copied().map(secret).collect(),
        }
    }

    fn key(keys: &DataKeys, number: u64) -> Option<Secret> {
        match keys.find(number).unwrap() {
            Found::Key(key) => Some(key),
            Found::Destroyed => None,
            Found::Damaged => panic!("key {number} is damaged"),
        }
    }

    #[test]
    fn a_destroyed_key_is_gone_for_good_and_its_neighbours_stay() {
        let folder = Folder::new("destroyed");
        let open = || DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
        let keys = open();
        keys.provide(7).unwrap();
        let before = [6, 7, 8].map(|number| key(&keys, number).unwrap());
        assert_ne!(before[0], before[1]);
        keys.destroy(7).unwrap();
        keys.sync(&[7], 9).unwrap();
        for keys in [keys, open()] {
            assert_eq!(key(&keys, 6).as_ref(), Some(&before[0]));
            assert_eq!(key(&keys, 7), None);
            assert_eq!(key(&keys, 8).as_ref(), Some(&before[2]));
        }
    }

    #[test]
    fn a_file_shrinks_when_all_of_its_keys_are_destroyed() {
        let folder = Folder::new("shrinks");
        let keys = DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
        keys.provide(0).unwrap();
        let all: Vec<u64> = (0..DATA_KEYS_PER_FILE).collect();
        for &number in &all {
            keys.destroy(number).unwrap();
        }
        keys.sync(&all, DATA_KEYS_PER_FILE - 1).unwrap();
        let bytes = || std::fs::metadata(keys.path(0)).unwrap().len();
        assert!(bytes() > 1_000, "the file still has unused keys");
        keys.sync(&all, DATA_KEYS_PER_FILE).unwrap();
        assert_eq!(bytes(), ALL_DESTROYED.len() as u64);
        assert_eq!(key(&keys, 5), None);
        keys.destroy(5).unwrap();
    }

    #[test]
    fn lost_and_damaged_files_are_no_destroyed_keys() {
        let folder = Folder::new("damaged");
        let keys = DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
        keys.provide(0).unwrap();
        assert!(matches!(
            keys.find(DATA_KEYS_PER_FILE).unwrap(),
            Found::Damaged
        ));
        std::fs::write(keys.path(0), b"").unwrap();
        assert!(matches!(keys.find(3).unwrap(), Found::Damaged));
    }

    #[test]
    fn the_root_key_follows_the_writing_secret_and_needs_a_known_one() {
        let folder = Folder::new("root");
        let open =
            |secrets: StoreSecrets, is_sealed| DataKeys::open(&folder.0, &secrets, is_sealed);
        let missing = open(secrets(1, &[]), true);
        assert!(matches!(missing, Err(DataKeysError::Missing(_))));
        let keys = open(secrets(1, &[]), false).unwrap();
        keys.provide(0).unwrap();
        let before = key(&keys, 0);
        let other = open(secrets(2, &[3]), true);
        assert!(matches!(other, Err(DataKeysError::OtherSecret(_))));
        // A new secret writes, and the old one still reads.
        assert_eq!(key(&open(secrets(2, &[1]), true).unwrap(), 0), before);
        // The old one is not needed any more.
        assert_eq!(key(&open(secrets(2, &[]), true).unwrap(), 0), before);
        assert!(open(secrets(1, &[]), true).is_err());
    }
}
