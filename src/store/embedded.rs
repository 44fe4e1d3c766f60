//! Opens and closes the store on disk, with all checks.
//!
//! ```text
//! porchlight-data/
//!   engine/        fjall's files
//!   keys/          data keys, which seal rows with personal data
//!   acknowledged   number of the highest acknowledged group
//!   secret.key     key that seals secrets, unless the configuration names others
//! ```

use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use porchlight_core::disk_space::SpaceLevel;
use porchlight_ports::StoreResult;
use porchlight_schema::limits::STORE_RESERVE_BYTES_DEFAULT;
use porchlight_world::private_file::{sync_folder, sync_folders};

use super::committer::{Committer, Disk, OnDurable, OnFatal};
use super::continuity::{self, MissingGroups};
use super::engine::fjall::acknowledged::{self, Acknowledged, StoreFormat};
use super::engine::fjall::{Background, FjallEngine};
use super::engine::{Durability, Engine, EngineError};
use super::local::LocalStore;
use super::sealed::{DataKeysError, KEYS_FOLDER, SealedEngine, StoreSecrets};

/// The store on disk.
pub type EmbeddedStore = LocalStore<SealedEngine<FjallEngine>>;

/// Name of the engine's folder within the store's folder.
pub(crate) const ENGINE_FOLDER: &str = "engine";

/// The file in that folder with which the engine completes a new database.
const ENGINE_VERSION: &str = "version";

/// The unit of [`MetadataExt::blocks`].
const BLOCK_BYTES: u64 = 512;

/// Deadline for the first write after a start, which may hang forever (fjall-rs/fjall#257).
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The options for opening a store.
pub struct OpenOptions {
    /// The folder, which is created if absent.
    pub path: PathBuf,
    /// Free bytes on the disk below which clients' writes are refused; 0: no reserve.
    pub reserve_bytes: u64,
    /// Called with each batch as soon as it is durable.
    pub on_durable: OnDurable,
    /// Called once when the store cannot continue.
    pub on_fatal: OnFatal,
}

/// The reason why a store did not open. This crate changed nothing; the engine may have truncated
/// a damaged part of its journal.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has opened the store.
    #[error("the store in {0} is in use by another process")]
    Locked(PathBuf),
    /// The folder, or a file next to the engine, cannot be used.
    #[error("{0} cannot be used")]
    Io(PathBuf, #[source] io::Error),
    /// The file with the highest acknowledged group is missing or damaged, so completeness cannot
    /// be verified.
    #[error(
        "{0} is missing or damaged: the integrity of the store cannot be verified. Restore it from a backup"
    )]
    Unknown(PathBuf),
    /// A later release has written the store.
    #[error(
        "a later release has written the store in {0}: install that release, or restore a backup of this one"
    )]
    Newer(PathBuf),
    /// The store is a copy whose writing was interrupted.
    #[error("{0} is an incomplete backup, because its writing was interrupted. Use another backup")]
    Unfinished(PathBuf),
    /// Acknowledged data is missing.
    #[error("the store in {0} is incomplete")]
    MissingGroups(PathBuf, #[source] MissingGroups),
    /// The engine refuses its files.
    #[error(
        "the storage engine cannot open the files in {0}; if they are damaged, restore a backup"
    )]
    Engine(PathBuf, #[source] EngineError),
    /// The first write did not finish. A restart of the process may help.
    #[error("the store in {0} did not complete its first write within {seconds} s", seconds = PROBE_TIMEOUT.as_secs())]
    WritesHalt(PathBuf),
}

impl OpenError {
    /// Returns whether a restart of the process may solve the problem.
    #[must_use]
    pub fn may_succeed_after_restart(&self) -> bool {
        matches!(self, Self::WritesHalt(_))
    }
}

impl EmbeddedStore {
    /// Opens or creates the store. Blocks for up to a second, longer if tables need repair.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. The store refuses to open rather than to continue with less than was
    /// acknowledged.
    pub fn open(options: OpenOptions) -> Result<Arc<Self>, OpenError> {
        let io = |error| OpenError::Io(options.path.clone(), error);
        std::fs::create_dir_all(&options.path).map_err(io)?;
        let disk = Disk::of(&options.path, options.reserve_bytes);
        Self::open_on_disk(options, disk)
    }

    /// Opens the store on a disk that may be full.
    fn open_on_disk(options: OpenOptions, mut disk: Disk) -> Result<Arc<Self>, OpenError> {
        let OpenOptions {
            path,
            reserve_bytes: _,
            on_durable,
            on_fatal,
        } = options;
        if is_unfinished_copy(&path)? {
            return Err(OpenError::Unfinished(path));
        }
        let io = |error| OpenError::Io(path.clone(), error);
        // The engine will write the content of the journals to tables again.
        let is_full = disk.measure(journals_bytes(&path)) == SpaceLevel::Exhausted;
        disk.publish();
        let background = if is_full && Self::exists_at(&path) {
            Background::Dormant
        } else {
            Background::Working
        };
        let (engine, acknowledged) = open_engine(&path, background)?;
        // The engine syncs the content of new folders, but not their names.
        sync_folders(&path).map_err(io)?;
        let mut group_number = continuity::check(&engine, acknowledged.number())
            .map_err(|error| OpenError::MissingGroups(path.clone(), error))?;
        let engine = Arc::new(SealedEngine::new(engine));
        if background == Background::Working {
            group_number = probe(&path, &engine, group_number + 1)?;
        }
        let report = Arc::clone(&on_fatal);
        let syncing = acknowledged
            .keep_synced(move |error| {
                report(&format!("the acknowledged group cannot be synced: {error}"));
            })
            .map_err(io)?;
        let committer = Committer::start(
            Arc::clone(&engine) as _,
            group_number,
            disk,
            on_durable,
            on_fatal,
        )
        .map_err(io)?;
        Ok(Arc::new(Self {
            engine,
            committer,
            _syncing: Some(syncing),
            folder: Some(path),
        }))
    }
}

impl EmbeddedStore {
    /// Returns whether the folder contains a store.
    #[must_use]
    pub fn exists_at(path: &Path) -> bool {
        path.join(ENGINE_FOLDER).is_dir()
    }

    /// Opens the store without running sessions, for commands that run while the server is down.
    /// The store is locked until [`Self::unlock`]. Errors of the writer are returned to the
    /// callers.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_for_command(path: &Path) -> Result<Arc<Self>, OpenError> {
        Self::open(OpenOptions {
            path: path.to_path_buf(),
            reserve_bytes: STORE_RESERVE_BYTES_DEFAULT,
            on_durable: Arc::new(|_, _| {}),
            on_fatal: Arc::new(|_| {}),
        })
    }

    /// Returns whether the store in the folder has data keys: it needs the secret key to be read.
    #[must_use]
    pub fn has_data_keys(path: &Path) -> bool {
        path.join(KEYS_FOLDER).is_dir()
    }

    /// Opens the data keys of the store, without which sessions can be neither read nor written.
    /// Other rows, such as API keys and webhooks, need no data key. From then on, the first release
    /// refuses the store, because it cannot read sealed rows. Blocks.
    ///
    /// # Errors
    ///
    /// See [`DataKeysError`]. After an error of a data key, the store stays locked.
    pub fn unlock(&self, secrets: &StoreSecrets) -> Result<(), DataKeysError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let acknowledged = self.engine.inner().acknowledged();
        self.engine.unlock(folder, secrets, acknowledged.format())?;
        let changed = acknowledged.change_format(StoreFormat::Sealed);
        changed.map_err(|error| DataKeysError::Io(folder.join(acknowledged::NAME), error))
    }

    /// Seals the data keys with the first of these secrets if another one has sealed them. Earlier
    /// secrets are not needed afterwards. Does nothing while the store is locked. Blocks.
    ///
    /// # Errors
    ///
    /// See [`DataKeysError`]; then the earlier secret still opens them.
    pub fn reseal(&self, secrets: &StoreSecrets) -> Result<(), DataKeysError> {
        self.engine.reseal(secrets)
    }

    /// Returns the approximate number of bytes in memtables.
    #[must_use]
    pub fn memtables_bytes(&self) -> u64 {
        self.engine.inner().memtables_bytes()
    }

    /// Flushes the memtables to tables and waits for it. Blocks. For tests.
    ///
    /// # Errors
    ///
    /// Returns [`porchlight_ports::StoreError::Unavailable`] if the engine fails.
    #[doc(hidden)]
    pub fn flush_tables(&self) -> StoreResult<()> {
        Ok(self.engine.inner().flush()?)
    }
}

/// Returns whether the folder holds a backup that was interrupted: its file of the highest
/// acknowledged group then names a group that no store reaches.
fn is_unfinished_copy(path: &Path) -> Result<bool, OpenError> {
    let io = |error| OpenError::Io(path.to_path_buf(), error);
    if !path.join(acknowledged::NAME).try_exists().map_err(io)? {
        return Ok(false);
    }
    let acknowledged = Acknowledged::open(path).map_err(io)?;
    Ok(acknowledged.is_some_and(|file| file.number() == u64::MAX))
}

/// Opens the engine and the file next to it.
pub(crate) fn open_engine(
    path: &Path,
    background: Background,
) -> Result<(FjallEngine, Arc<Acknowledged>), OpenError> {
    let folder = path.join(ENGINE_FOLDER);
    let file = path.join(acknowledged::NAME);
    let io = |error| OpenError::Io(path.to_path_buf(), error);
    std::fs::create_dir_all(path).map_err(io)?;
    // Only one process opens the folder at a time. Otherwise another one could take a first start
    // in progress for an interrupted one, and remove it.
    let opening = std::fs::File::open(path).map_err(io)?;
    opening.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => OpenError::Locked(path.to_path_buf()),
        TryLockError::Error(error) => io(error),
    })?;
    if file.try_exists().map_err(io)? && Acknowledged::is_newer(path).map_err(io)? {
        return Err(OpenError::Newer(path.to_path_buf()));
    }
    remove_cut_off_start(path).map_err(io)?;
    let has_engine = folder.try_exists().map_err(io)?;
    let has_file = file.try_exists().map_err(io)?;
    let acknowledged = match (has_engine, has_file) {
        // The file is created before the engine, so an engine without it has lost it.
        (false, false) => Acknowledged::create(path, 0, StoreFormat::NEWEST).map_err(io)?,
        (true, false) => return Err(OpenError::Unknown(file)),
        (_, true) => Acknowledged::open(path)
            .map_err(io)?
            .ok_or(OpenError::Unknown(file))?,
    };
    let acknowledged = Arc::new(acknowledged);
    // Some damage makes fjall panic instead of returning an error.
    let opened = catch_unwind(AssertUnwindSafe(|| {
        FjallEngine::open(&folder, Arc::clone(&acknowledged), background)
    }));
    match opened {
        Ok(Ok(engine)) => Ok((engine, acknowledged)),
        Ok(Err(fjall::Error::Locked)) => Err(OpenError::Locked(path.to_path_buf())),
        Ok(Err(error)) => Err(OpenError::Engine(path.to_path_buf(), error.into())),
        Err(_) => Err(OpenError::Engine(
            path.to_path_buf(),
            EngineError::Damaged("fjall panicked when it read its files".to_owned()),
        )),
    }
}

/// Returns the bytes that the engine's journals occupy on the disk; 0 if there are none.
fn journals_bytes(path: &Path) -> u64 {
    let files = std::fs::read_dir(path.join(ENGINE_FOLDER));
    let is_journal = |file: &std::fs::DirEntry| {
        let name = file.file_name();
        Path::new(&name).extension().is_some_and(|end| end == "jnl")
    };
    let journals = files.into_iter().flatten().flatten().filter(is_journal);
    let blocks = journals.filter_map(|file| Some(file.metadata().ok()?.blocks()));
    blocks.sum::<u64>().saturating_mul(BLOCK_BYTES)
}

/// Removes the remains of a first start that was interrupted before its engine was complete:
/// nothing was acknowledged at that point. The engine writes its version file last, and refuses a
/// folder with a journal and without that file.
fn remove_cut_off_start(path: &Path) -> io::Result<()> {
    let (folder, file) = (path.join(ENGINE_FOLDER), path.join(acknowledged::NAME));
    if folder.join(ENGINE_VERSION).try_exists()? || !file.try_exists()? {
        return Ok(());
    }
    let has_engine = folder.try_exists()?;
    match Acknowledged::open(path)? {
        // The store has had an engine, which is lost.
        Some(acknowledged) if acknowledged.number() > 0 => return Ok(()),
        // If the file is damaged but an engine exists, it is unknown whether anything was
        // acknowledged.
        None if has_engine => return Ok(()),
        _ => {}
    }
    if has_engine {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::remove_file(&file)?;
    sync_folder(path)
}

/// Writes and syncs a group of markers only and returns its number. It runs on its own thread,
/// because a hanging write cannot be cancelled.
fn probe(
    path: &Path,
    engine: &Arc<SealedEngine<FjallEngine>>,
    group_number: u64,
) -> Result<u64, OpenError> {
    let (done, wait) = mpsc::sync_channel(1);
    let writer = Arc::clone(engine);
    std::thread::Builder::new()
        .name("store-probe".to_owned())
        .spawn(move || {
            let written = writer
                .apply(continuity::markers(group_number).into(), Durability::Synced)
                .and_then(|()| writer.acknowledge(group_number));
            drop(writer);
            drop(done.send(written));
        })
        .map_err(|error| OpenError::Io(path.to_path_buf(), error))?;
    match wait.recv_timeout(PROBE_TIMEOUT) {
        Ok(Ok(())) => Ok(group_number),
        Ok(Err(error)) => Err(OpenError::Engine(path.to_path_buf(), error)),
        Err(_) => Err(OpenError::WritesHalt(path.to_path_buf())),
    }
}

#[cfg(test)]
mod tests;
