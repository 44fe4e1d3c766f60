//! The operators' token, created at each start and written next to the store together with the
//! listener's address. Only users who can read the store can read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use porchlight_observe::error_text;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The file's name next to the store.
const FILE_NAME: &str = "operators.json";

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    /// The address of the operators' listener.
    pub(super) address: SocketAddr,
    /// The operators' token.
    pub(super) token: String,
}

/// The token of a running server. Dropping it removes the file.
pub struct TokenFile {
    path: PathBuf,
    hash: [u8; 32],
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl TokenFile {
    /// Creates a token for the listener at `address` and writes it into `folder`, replacing an
    /// earlier one. On a full disk the server starts without the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written for another reason.
    pub fn write(folder: &Path, address: SocketAddr) -> anyhow::Result<Self> {
        let path = folder.join(FILE_NAME);
        let mut bytes = [0_u8; 32];
        porchlight_world::fill_random(&mut bytes);
        let token = porchlight_schema::hex::encode(&bytes);
        let hash = hash(&token);
        let text = serde_json::to_string(&Entry { address, token })?;
        let mut written = replace(&path, text.as_bytes());
        if is_full(&written) {
            // The space of the earlier file suffices, and its token is no longer valid.
            written = fs::remove_file(&path).and_then(|()| replace(&path, text.as_bytes()));
        }
        match written {
            full if is_full(&full) => {
                tracing::error!(path = %path.display(), "the disk is full and operators.json cannot be written: local commands will not work");
            }
            written => {
                written.with_context(|| format!("{} cannot be written", path.display()))?;
            }
        }
        Ok(Self { path, hash })
    }

    /// Returns whether `folder` has the file of an earlier server: a server that drains removes its
    /// file.
    #[must_use]
    pub fn is_left_over(folder: &Path) -> bool {
        folder.join(FILE_NAME).is_file()
    }

    /// Returns whether the token is valid. Digests are compared in constant time.
    #[must_use]
    pub fn matches(&self, given: &str) -> bool {
        hash(given).ct_eq(&self.hash).into()
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Another server may have started on the same store; its file stays.
        let is_ours = read(self.path.parent().unwrap_or(Path::new(".")))
            .is_ok_and(|entry| entry.is_some_and(|entry| self.matches(&entry.token)));
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), error = error_text(&error), "the operators' token cannot be removed");
        }
    }
}

/// Reads the entry next to the store in `folder`. Returns `None` if there is no file, or if its
/// content is no entry, for example after a power cut: then the lock of the store decides whether a
/// command may open it.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub(super) fn read(folder: &Path) -> anyhow::Result<Option<Entry>> {
    let path = folder.join(FILE_NAME);
    match fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Returns whether writing failed because the disk is full.
fn is_full(written: &io::Result<()>) -> bool {
    matches!(written, Err(error) if error.kind() == io::ErrorKind::StorageFull)
}

/// Writes a temporary file and renames it, so that readers never see a partial file. Only the owner
/// can read it from the start.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_token_file_is_private_and_removed_with_the_server() {
        let folder = std::env::temp_dir().join(format!("porchlight-token-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 9464));
        let former = TokenFile::write(&folder, address).unwrap();
        let token = TokenFile::write(&folder, address).unwrap();
        let entry = read(&folder).unwrap().unwrap();
        assert!(
            token.matches(&entry.token)
                && !former.matches(&entry.token)
                && entry.address == address
        );
        assert_eq!(
            fs::metadata(&token.path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(former);
        assert!(
            read(&folder).unwrap().is_some(),
            "a former server takes the later one's file away"
        );
        drop(token);
        assert!(read(&folder).unwrap().is_none());
        for damaged in ["", "{"] {
            fs::write(folder.join(FILE_NAME), damaged).unwrap();
            assert!(read(&folder).unwrap().is_none(), "after a power cut");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
