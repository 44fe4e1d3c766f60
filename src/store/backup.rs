//! Copies the embedded store at one point in time, while it runs. The copy can be opened like the
//! store itself.

use std::io;
use std::path::{Path, PathBuf};

use porchlight_world::private_file::{sync_folder, write_private};

use super::continuity::{self, MissingGroups};
use super::embedded::{EmbeddedStore, OpenError, open_engine};
use super::engine::fjall::acknowledged::{self, Acknowledged};
use super::engine::{Durability, Engine, EngineError, Space, Write};
use super::record;

/// Maximum size of one write to the copy, in bytes.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Why a backup failed. The partial copy is removed; the store is untouched.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target folder is not empty.
    #[error("{0} is not empty")]
    NotEmpty(PathBuf),
    /// A file operation failed.
    #[error("{0} cannot be written")]
    Io(PathBuf, #[source] io::Error),
    /// A row of the store cannot be read, or a row of the copy cannot be written.
    #[error("the copy failed")]
    Engine(#[from] EngineError),
    /// A row of the store is corrupt.
    #[error("the store holds a corrupt row")]
    Corrupt(#[source] porchlight_ports::StoreError),
    /// The copy does not open or is incomplete.
    #[error("the copy is not whole")]
    Unusable(#[source] Box<OpenError>),
}

/// The size of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Number of the last group in the copy.
    pub log: u64,
}

impl EmbeddedStore {
    /// Copies the store to `folder`, which must be empty or absent, together with the
    /// `private_files` next to the store. Only the owner may read the copied files. The call
    /// verifies every row and opens the copy once. It blocks until the copy is complete, while the
    /// store continues to serve.
    ///
    /// # Errors
    ///
    /// Returns a [`BackupError`] if the copy fails.
    pub fn backup(
        &self,
        folder: &Path,
        private_files: &[&str],
    ) -> Result<BackupReport, BackupError> {
        let io = |error| BackupError::Io(folder.to_path_buf(), error);
        std::fs::create_dir_all(folder).map_err(io)?;
        if std::fs::read_dir(folder).map_err(io)?.next().is_some() {
            return Err(BackupError::NotEmpty(folder.to_path_buf()));
        }
        let report = self.copy_to(folder, private_files).and_then(|report| {
            verify(folder, report.log)?;
            Ok(report)
        });
        if report.is_err() {
            // The first failure is the one to report.
            drop(std::fs::remove_dir_all(folder));
        }
        report
    }

    fn copy_to(&self, folder: &Path, private_files: &[&str]) -> Result<BackupReport, BackupError> {
        let io = |error| BackupError::Io(folder.to_path_buf(), error);
        let unusable = |error| BackupError::Unusable(Box::new(error));
        // Until the copy is complete it claims to lack groups, so that an interrupted copy never
        // opens.
        Acknowledged::create(folder, u64::MAX).map_err(io)?;
        let mut copy = Copy {
            to: open_engine(folder).map_err(unusable)?.0,
            chunk: Vec::new(),
            chunk_bytes: 0,
            report: BackupReport {
                rows: 0,
                bytes: 0,
                log: 0,
            },
        };
        self.engine
            .visit_all(|space, key, value| copy.row(space, key, value))?;
        copy.flush()?;
        copy.to.close()?;
        for (name, file) in self.beside(private_files) {
            let bytes = zeroize::Zeroizing::new(std::fs::read(file).map_err(io)?);
            write_private(folder, name, &bytes).map_err(io)?;
        }
        sync_folder(folder).map_err(io)?;
        // Last of all, for this file makes the copy openable: a copy that opens has its key file.
        std::fs::remove_file(folder.join(acknowledged::NAME)).map_err(io)?;
        Acknowledged::create(folder, copy.report.log).map_err(io)?;
        Ok(copy.report)
    }

    /// Returns the named files that exist next to the store, with their paths.
    fn beside<'n>(&self, names: &[&'n str]) -> Vec<(&'n str, PathBuf)> {
        let Some(folder) = &self.folder else {
            return Vec::new();
        };
        let files = names.iter().map(|&name| (name, folder.join(name)));
        files.filter(|(_, file)| file.is_file()).collect()
    }
}

struct Copy<E> {
    to: E,
    chunk: Vec<Write>,
    chunk_bytes: usize,
    report: BackupReport,
}

impl<E: Engine> Copy<E> {
    fn row(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), BackupError> {
        let (_, log) = record::unseal(space, key, value.to_vec()).map_err(BackupError::Corrupt)?;
        self.report.log = self.report.log.max(log);
        self.report.rows += 1;
        self.report.bytes += (key.len() + value.len()) as u64;
        self.chunk_bytes += key.len() + value.len();
        self.chunk.push(Write {
            space,
            key: key.to_vec(),
            value: Some(value.to_vec()),
        });
        if self.chunk_bytes >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), BackupError> {
        self.chunk_bytes = 0;
        let chunk = std::mem::take(&mut self.chunk);
        Ok(self.to.apply(chunk, Durability::Buffered)?)
    }
}

/// Opens the copy as a server would, and closes it.
fn verify(folder: &Path, log: u64) -> Result<(), BackupError> {
    let unusable = |error| BackupError::Unusable(Box::new(error));
    let not_whole =
        |error: MissingGroups| unusable(OpenError::MissingGroups(folder.to_path_buf(), error));
    let (engine, acknowledged) = open_engine(folder).map_err(unusable)?;
    let last = continuity::check(&engine, acknowledged.number().max(log)).map_err(not_whole)?;
    if last > log {
        return Err(unusable(OpenError::Unknown(
            folder.join(acknowledged::NAME),
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let name = format!("porchlight-backup-{name}-{}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_copy_without_its_key_file_does_not_open() {
        let (from, to) = (folder("from"), folder("to"));
        let store = EmbeddedStore::open_alone(&from).unwrap();
        std::fs::create_dir_all(from.join("keys")).unwrap();
        std::fs::write(from.join("keys/secret.key"), "ab").unwrap();
        std::fs::create_dir_all(&to).unwrap();
        // The copy has no folder of this name, so that it is cut off at the key file.
        let cut_off = store.copy_to(&to, &["keys/secret.key"]);
        assert!(matches!(cut_off, Err(BackupError::Io(..))));
        assert!(matches!(
            EmbeddedStore::open_alone(&to),
            Err(OpenError::MissingGroups(..))
        ));
        std::fs::remove_dir_all(&to).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        store.copy_to(&to, &[]).unwrap();
        drop(EmbeddedStore::open_alone(&to).unwrap());
        drop(store);
        std::fs::remove_dir_all(&from).unwrap();
        std::fs::remove_dir_all(&to).unwrap();
    }
}
