//! The key ring: keys that seal stored secrets, and from which tokens and signatures are derived.
//! Without key files, one key is created next to the embedded store.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use porchlight_world::private_file::write_private;

/// The name of the key file next to the embedded store.
pub const KEY_FILE: &str = "secret.key";

/// The size of a key in bytes.
pub const KEY_BYTES: usize = 32;

/// The maximum size of a key file: the digits and surrounding white space.
const FILE_BYTES_MAX: u64 = 256;

/// The reason why keys cannot be loaded. No error reveals the content of a file.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// A file cannot be read or created.
    #[error("key file {0} cannot be used")]
    Io(PathBuf, #[source] io::Error),
    /// The store's folder does not exist and cannot be created.
    #[error("store.path: the folder {0} cannot be created")]
    Folder(PathBuf, #[source] io::Error),
    /// A file does not contain a key.
    #[error(
        "key file {0} must contain {digits} hexadecimal digits (`openssl rand -hex 32`)",
        digits = 2 * KEY_BYTES
    )]
    Malformed(PathBuf),
    /// No file was configured, and there is no folder in which to create a key file.
    #[error("no key file is named in secrets.key_files")]
    None,
}

/// A key. It is wiped from memory when dropped and never printed.
#[derive(Clone)]
pub struct SecretKey(Zeroizing<[u8; KEY_BYTES]>);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// Derives a key for one purpose: HMAC-SHA256 of the purpose's name.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> SecretKey {
        // HMAC accepts keys of any length (RFC 2104), so this cannot fail.
        let derived = Hmac::<Sha256>::new_from_slice(self.0.as_slice())
            .map(|mac| mac.chain_update(purpose.as_bytes()).finalize().into_bytes())
            .unwrap_or_default();
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        key.copy_from_slice(&derived);
        SecretKey(key)
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// The key ring: the first key seals and signs, all keys open and verify.
#[derive(Debug, Clone)]
pub struct SecretKeys {
    first: SecretKey,
    others: Vec<SecretKey>,
}

impl SecretKeys {
    /// Loads the keys of these files, in this order.
    ///
    /// # Errors
    ///
    /// Returns [`SecretsError`]; [`SecretsError::None`] without files.
    pub fn load(files: &[PathBuf]) -> Result<Self, SecretsError> {
        let mut keys = files.iter().map(|file| load(file));
        let first = keys.next().ok_or(SecretsError::None)??;
        Ok(Self {
            first,
            others: keys.collect::<Result<_, _>>()?,
        })
    }

    /// Loads the key next to the embedded store in `folder`, or creates it from the system's
    /// randomness, readable by its owner only.
    pub fn load_or_create(folder: &Path) -> Result<Self, SecretsError> {
        let file = folder.join(KEY_FILE);
        let io = |error| SecretsError::Io(file.clone(), error);
        std::fs::create_dir_all(folder)
            .map_err(|error| SecretsError::Folder(folder.to_path_buf(), error))?;
        if !file.try_exists().map_err(io)? {
            make(folder).map_err(io)?;
        }
        Self::load(&[file])
    }

    /// Returns a key ring of these keys; the first writes, all read. For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn of_bytes(first: [u8; KEY_BYTES], others: &[[u8; KEY_BYTES]]) -> Self {
        let key = |bytes: [u8; KEY_BYTES]| SecretKey(Zeroizing::new(bytes));
        Self {
            first: key(first),
            others: others.iter().copied().map(key).collect(),
        }
    }

    /// Returns the key that writes.
    #[must_use]
    pub fn writing(&self) -> &SecretKey {
        &self.first
    }

    /// Returns the keys that read, the writing one first.
    pub fn reading(&self) -> impl Iterator<Item = &SecretKey> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

fn make(folder: &Path) -> io::Result<()> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    porchlight_world::fill_random(key.as_mut_slice());
    let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES + 1));
    for byte in key.iter() {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text.push('\n');
    write_private(folder, KEY_FILE, text.as_bytes())
}

fn load(file: &Path) -> Result<SecretKey, SecretsError> {
    let io = |error| SecretsError::Io(file.to_path_buf(), error);
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(file)
        .map_err(io)?
        .take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(io)?;
    parse(text.trim()).ok_or_else(|| SecretsError::Malformed(file.to_path_buf()))
}

fn parse(text: &str) -> Option<SecretKey> {
    let digits = text.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            *byte = (*byte << 4) | u8::try_from(char::from(*digit).to_digit(16)?).ok()?;
        }
    }
    Some(SecretKey(key))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("secrets-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_key_is_created_once_and_private() {
        let folder = folder("made");
        let made = SecretKeys::load_or_create(&folder).unwrap();
        let again = SecretKeys::load_or_create(&folder).unwrap();
        assert_eq!(made.writing().bytes(), again.writing().bytes());
        assert_ne!(made.writing().bytes(), &[0; KEY_BYTES]);
        let mode = std::fs::metadata(folder.join(KEY_FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_first_key_file_seals_and_invalid_keys_are_refused() {
        let folder = folder("files");
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (a, b) = (
            file("a", "AB".repeat(32)),
            file("b", format!(" {}\n", "01".repeat(32))),
        );
        let keys = SecretKeys::load(&[a.clone(), b]).unwrap();
        assert_eq!(keys.writing().bytes(), &[0xab; KEY_BYTES]);
        let reading: Vec<_> = keys.reading().map(|key| key.bytes()[0]).collect();
        assert_eq!(reading, [0xab, 0x01]);
        assert_ne!(
            keys.writing().derive("a").bytes(),
            keys.writing().derive("b").bytes()
        );
        assert!(matches!(SecretKeys::load(&[]), Err(SecretsError::None)));
        for text in [
            String::new(),
            "ab".repeat(31),
            "ab".repeat(33),
            "xy".repeat(32),
        ] {
            let broken = file("broken", text);
            let loaded = SecretKeys::load(&[a.clone(), broken]);
            assert!(matches!(loaded, Err(SecretsError::Malformed(_))));
        }
        let gone = SecretKeys::load(&[folder.join("gone")]);
        assert!(matches!(gone, Err(SecretsError::Io(..))));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
