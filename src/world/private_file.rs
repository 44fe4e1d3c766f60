//! Files that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a folder's entries durable.
///
/// # Errors
///
/// Returns an error if the folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a folder durable: its files and folders, and itself last.
///
/// # Errors
///
/// Returns an error if a file or folder cannot be opened or synced.
pub fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(folder)
}

/// Makes the entries of a folder and of all folders below it durable, but not the content of files.
///
/// # Errors
///
/// Returns an error if a folder cannot be read or synced.
pub fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Writes the file `name` in `folder` atomically, readable by its owner only. An existing file
/// stays.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn write_private(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let half = folder.join(format!("{name}.{}", std::process::id()));
    // An earlier process with the same number may have been killed here: in a container all have
    // the number 1.
    match std::fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&half)
        .and_then(|mut open| {
            open.write_all(bytes)?;
            open.sync_all()
        })
        // Unlike a rename, a link does not replace a file that another process created meanwhile.
        .and_then(|()| match std::fs::hard_link(&half, folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
    std::fs::remove_file(&half)?;
    written?;
    sync_folder(folder)
}
