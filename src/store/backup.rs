//! Copies the embedded store at one point in time, while it runs. The copy can be opened like the
//! store itself.

use std::io;
use std::path::{Path, PathBuf};

use porchlight_world::private_file::{sync_folder, sync_tree, write_private};

use super::continuity::{self, MissingGroups};
use super::embedded::{EmbeddedStore, OpenError, open_engine};
use super::engine::fjall::Background;
use super::engine::fjall::acknowledged::{self, Acknowledged};
use super::engine::{Durability, Engine, EngineError, Space, Write};
use super::record;

/// The maximum size of one write to the copy, in bytes.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The error of a backup. The partial copy is removed; the store is untouched.
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
    /// A row of the store is damaged.
    #[error("the store holds a damaged row")]
    Damaged(#[source] porchlight_ports::StoreError),
    /// The copy does not open or is incomplete.
    #[error("the copy is incomplete or does not open")]
    Unusable(#[source] Box<OpenError>),
}

/// The size of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// The number of the last group in the copy.
    pub group_number: u64,
}

impl EmbeddedStore {
    /// Copies the store to `folder`, which must be empty or absent, together with its data keys and
    /// the `private_files` next to the store. Only the owner may read the copied files. The call
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
        let copied = self.copy_to(folder, private_files, &mut |_| Ok(()));
        let report = copied.and_then(|report| {
            verify(folder, report.group_number)?;
            Ok(report)
        });
        if report.is_err() {
            // The first failure is the one to report.
            drop(std::fs::remove_dir_all(folder));
        }
        report
    }

    /// Writes the copy. Calls `before` before each step; an error ends the copy there, as a kill of
    /// the process would.
    fn copy_to(
        &self,
        folder: &Path,
        private_files: &[&str],
        before: &mut dyn FnMut(Step) -> io::Result<()>,
    ) -> Result<BackupReport, BackupError> {
        let io = |error| BackupError::Io(folder.to_path_buf(), error);
        let unusable = |error| BackupError::Unusable(Box::new(error));
        // Until the copy is complete it claims to lack groups, so that an interrupted copy never
        // opens.
        before(Step::MarkUnfinished).map_err(io)?;
        // The copy has the rows as they are stored, sealed or not.
        let format = self.engine.inner().acknowledged().format();
        Acknowledged::create(folder, u64::MAX, format).map_err(io)?;
        before(Step::CreateEngine).map_err(io)?;
        let mut copy = CopyWriter {
            to: open_engine(folder, Background::Working)
                .map_err(unusable)?
                .0,
            chunk: Vec::new(),
            chunk_bytes: 0,
            report: BackupReport {
                rows: 0,
                bytes: 0,
                group_number: 0,
            },
        };
        let from = self.folder.as_deref();
        let keys = self.engine.visit_all(from, |space, key, value| {
            before(Step::CopyRow).map_err(io)?;
            copy.row(space, key, value)
        })?;
        let keys = keys.map_err(io)?;
        before(Step::FlushRows).map_err(io)?;
        copy.flush()?;
        before(Step::CloseEngine).map_err(io)?;
        copy.to.close()?;
        let report = copy.report;
        drop(copy);
        before(Step::CopyKeys).map_err(io)?;
        keys.write(folder).map_err(io)?;
        for (name, file) in self.existing_files(private_files) {
            before(Step::CopyFile).map_err(io)?;
            let bytes = zeroize::Zeroizing::new(std::fs::read(file).map_err(io)?);
            write_private(folder, name, &bytes).map_err(io)?;
        }
        before(Step::Sync).map_err(io)?;
        sync_tree(folder).map_err(io)?;
        // This file makes the copy openable, so it is replaced last, in one step: a copy that opens
        // has everything, also after a power cut.
        before(Step::MarkComplete).map_err(io)?;
        Acknowledged::create(folder, report.group_number, format).map_err(io)?;
        if let Some(parent) = folder.parent() {
            sync_folder(parent).map_err(io)?;
        }
        Ok(report)
    }

    /// Returns the named files that exist next to the store, with their paths.
    fn existing_files<'n>(&self, names: &[&'n str]) -> Vec<(&'n str, PathBuf)> {
        let Some(folder) = &self.folder else {
            return Vec::new();
        };
        let files = names.iter().map(|&name| (name, folder.join(name)));
        files.filter(|(_, file)| file.is_file()).collect()
    }
}

/// The steps of a backup, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Write the file that keeps an unfinished copy from opening.
    MarkUnfinished,
    /// Create the copy's engine.
    CreateEngine,
    /// Copy one row.
    CopyRow,
    /// Write the last rows to the copy.
    FlushRows,
    /// Close the copy's engine.
    CloseEngine,
    /// Copy the data keys.
    CopyKeys,
    /// Copy a file next to the store.
    CopyFile,
    /// Sync all files and folders of the copy.
    Sync,
    /// Replace the file that keeps the copy from opening.
    MarkComplete,
}

/// Writes rows to the engine of a copy, in chunks.
struct CopyWriter<E> {
    to: E,
    chunk: Vec<Write>,
    chunk_bytes: usize,
    report: BackupReport,
}

impl<E: Engine> CopyWriter<E> {
    fn row(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), BackupError> {
        let (_, group_number) =
            record::verified(space, key, value.to_vec()).map_err(BackupError::Damaged)?;
        self.report.group_number = self.report.group_number.max(group_number);
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
fn verify(folder: &Path, group_number: u64) -> Result<(), BackupError> {
    let unusable = |error| BackupError::Unusable(Box::new(error));
    let incomplete =
        |error: MissingGroups| unusable(OpenError::MissingGroups(folder.to_path_buf(), error));
    let (engine, acknowledged) = open_engine(folder, Background::Working).map_err(unusable)?;
    let last =
        continuity::check(&engine, acknowledged.number().max(group_number)).map_err(incomplete)?;
    if last > group_number {
        return Err(unusable(OpenError::Unknown(
            folder.join(acknowledged::NAME),
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use porchlight_ports::{Erasure, Recorders};
    use porchlight_schema::ids::RecorderId;
    use porchlight_schema::time::TimestampMs;
    use zeroize::Zeroizing;

    use super::*;
    use crate::sealed::StoreSecrets;

    fn folder(name: &str) -> PathBuf {
        let name = format!("porchlight-backup-{name}-{}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_copy_that_was_cut_off_at_any_step_does_not_open() {
        let (from, to) = (folder("from"), folder("to"));
        let store = EmbeddedStore::open_for_command(&from).unwrap();
        std::fs::write(from.join("secret.key"), "ab").unwrap();
        let mut steps = Vec::new();
        let copied = store.copy_to_new(&to, &mut |step| {
            steps.push(step);
            Ok(())
        });
        copied.unwrap();
        drop(EmbeddedStore::open_for_command(&to).unwrap());
        assert!(steps.is_sorted() && steps.len() >= 8, "{steps:?}");
        for (cut, &at) in steps.iter().enumerate() {
            let mut done = 0;
            let cut_off = store.copy_to_new(&to, &mut |_| {
                done += 1;
                if done > cut {
                    return Err(io::Error::other("killed"));
                }
                Ok(())
            });
            assert!(matches!(cut_off, Err(BackupError::Io(..))), "{at:?}");
            if at == Step::MarkUnfinished {
                // The first step writes the first file, so the folder is empty before it.
                assert!(std::fs::read_dir(&to).unwrap().next().is_none());
                continue;
            }
            let opened = EmbeddedStore::open_for_command(&to);
            assert!(
                matches!(
                    opened,
                    Err(OpenError::MissingGroups(..)
                        | OpenError::Unknown(_)
                        | OpenError::Unfinished(_))
                ),
                "cut off before {at:?}: {:?}",
                opened.map(drop)
            );
        }
        drop(store);
        std::fs::remove_dir_all(&from).unwrap();
        std::fs::remove_dir_all(&to).unwrap();
    }

    #[test]
    fn a_backup_shows_one_point_in_time_although_rows_are_removed_while_it_runs() {
        let (from, to) = (folder("running"), folder("running-copy"));
        let store = EmbeddedStore::open_for_command(&from).unwrap();
        let secrets = StoreSecrets {
            first: Zeroizing::new([5; 32]),
            others: Vec::new(),
        };
        store.unlock(&secrets).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let [kept, removed] = [1, 2].map(|number| RecorderId::from_bytes([number; 16]));
        for id in [kept, removed] {
            runtime
                .block_on(store.create_recorder(id, b"courier".to_vec(), TimestampMs(0)))
                .unwrap();
        }
        let mut is_removed = false;
        let copied = store.copy_to_new(&to, &mut |step| {
            if step == Step::CopyRow && !is_removed {
                is_removed = true;
                assert!(runtime.block_on(store.remove_recorder(removed)).unwrap());
                runtime.block_on(store.purge()).unwrap();
            }
            Ok(())
        });
        copied.unwrap();
        let copy = EmbeddedStore::open_for_command(&to).unwrap();
        copy.unlock(&secrets).unwrap();
        for id in [kept, removed] {
            assert!(runtime.block_on(copy.recorder(id)).unwrap().is_some());
        }
        assert!(runtime.block_on(store.recorder(removed)).unwrap().is_none());
        drop((store, copy));
        std::fs::remove_dir_all(&from).unwrap();
        std::fs::remove_dir_all(&to).unwrap();
    }

    impl EmbeddedStore {
        /// Copies into a folder that is emptied first.
        fn copy_to_new(
            &self,
            to: &Path,
            before: &mut dyn FnMut(Step) -> io::Result<()>,
        ) -> Result<BackupReport, BackupError> {
            drop(std::fs::remove_dir_all(to));
            std::fs::create_dir_all(to).unwrap();
            self.copy_to(to, &["secret.key"], before)
        }
    }
}
