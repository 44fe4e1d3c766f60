//! The folder of the keys: its errors, the form of a key, and durable changes of its files.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use porchlight_ports::StoreError;
use porchlight_world::private_file::{sync_folder, write_private};
use zeroize::Zeroizing;

/// The size of a key in bytes.
pub(super) const KEY_BYTES: usize = 32;

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

/// The reason why the data keys cannot be used.
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
        "{0} was sealed with another secret key: name the file of that key in secrets.key_files, after the first entry"
    )]
    OtherSecret(PathBuf),
    /// The engine cannot read the rows about the keys.
    #[error("the rows about the data keys cannot be read")]
    Rows(#[source] StoreError),
}

pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Replaces a file atomically and durably.
pub(super) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let next = format!("{name}.next");
    // The file is left from a replacement that was interrupted.
    match std::fs::remove_file(folder.join(&next)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_private(folder, &next, bytes)?;
    std::fs::rename(folder.join(&next), folder.join(name))?;
    sync_folder(folder)
}
