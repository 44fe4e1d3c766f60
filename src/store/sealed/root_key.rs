//! The root key, with which the data keys are derived. Its file is sealed with the secret key of
//! the service.

use std::io;
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use porchlight_world::fill_random;
use porchlight_world::private_file::{sync_folder, write_private};
use zeroize::Zeroizing;

use super::key_folder::{DataKeysError, Secret, StoreSecrets, create_folder, replace};

/// The name of the file with the sealed root key.
pub(super) const ROOT_FILE: &str = "root";
/// The size of the nonce before the sealed root key, in bytes.
const NONCE_BYTES: usize = 24;
/// The data that the sealed root key is bound to.
const ROOT_PURPOSE: &[u8] = b"root of the data keys";

fn cipher(secret: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(**secret))
}

fn seal(secret: &Secret, root: &Secret) -> io::Result<Vec<u8>> {
    let mut nonce = [0; NONCE_BYTES];
    fill_random(&mut nonce);
    let payload = Payload {
        msg: root.as_slice(),
        aad: ROOT_PURPOSE,
    };
    let sealed = cipher(secret).encrypt(&XNonce::from(nonce), payload);
    let sealed = sealed.map_err(|_| io::Error::other("the root key cannot be sealed"))?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn open_with(secret: &Secret, sealed: &[u8]) -> Option<Secret> {
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

/// Opens the root key in the folder of the keys with one of the secrets. `None`: there is no file.
pub(super) fn open(folder: &Path, secrets: &StoreSecrets) -> Result<Option<Secret>, DataKeysError> {
    let file = folder.join(ROOT_FILE);
    let sealed = match std::fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| DataKeysError::Io(file.clone(), error))?,
    };
    let mut all = std::iter::once(&secrets.first).chain(&secrets.others);
    let root = all.find_map(|secret| open_with(secret, &sealed));
    root.map(Some).ok_or(DataKeysError::OtherSecret(file))
}

/// Creates a root key in the folder of the keys, which is below the store's folder.
pub(super) fn create(store: &Path, folder: &Path, secrets: &StoreSecrets) -> io::Result<Secret> {
    let mut root = Secret::default();
    fill_random(root.as_mut_slice());
    create_folder(folder)?;
    write_private(folder, ROOT_FILE, &seal(&secrets.first, &root)?)?;
    sync_folder(store)?;
    Ok(root)
}

/// Seals the root key with the first secret, unless that one has sealed it.
pub(super) fn reseal(folder: &Path, secrets: &StoreSecrets, root: &Secret) -> io::Result<()> {
    let sealed = std::fs::read(folder.join(ROOT_FILE))?;
    if open_with(&secrets.first, &sealed).is_some() {
        return Ok(());
    }
    replace(folder, ROOT_FILE, &seal(&secrets.first, root)?)
}
