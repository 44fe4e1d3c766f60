//! An engine that seals the rows which hold personal data, so that an erasure destroys a key
//! instead of rewriting every file that ever held the data.
//!
//! Each session has a data key, which seals its rows. When the row of its start is removed, the
//! session's key is destroyed, and its rows are unreadable in memtables, tables and journals of the
//! engine below. Rows that belong to no session have a key each ([`owner`]). The keys are in files
//! of their own ([`data_keys`]), because the engine never overwrites anything in place.
//!
//! A sealed row contains the number of its key ([`value`]). Bookkeeping rows are written in the
//! batch that causes them: the next unused key, and the keys to be destroyed once that batch is
//! durable. If the process crashes before it destroys these keys, the first synced batch of the
//! next process does. Rows that an earlier version wrote are not sealed; while there may be any, an
//! erasure rewrites the files of the engine.

mod batch;
mod bookkeeping;
mod data_keys;
mod key_folder;
mod owner;
mod root_key;
mod value;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use porchlight_ports::StoreError;
use porchlight_schema::limits::{DATA_KEY_SESSIONS_MAX, DATA_KEYS_UNSYNCED_MAX};

use self::batch::{Sealing, UnsealedRows, Writer};
use self::bookkeeping::{HAS_UNSEALED, NEXT, TO_DESTROY};
use self::data_keys::{DataKeys, FoundKey};
use self::owner::{KeyOwner, key_owner};
use self::value::Nonces;
use super::damage::skipped;
use super::engine::fjall::FjallEngine;
use super::engine::fjall::acknowledged::StoreFormat;
use super::engine::{Durability, Engine, EngineError, KeyRange, Order, Space, Visit, Write};
use super::recent::Recent;
use super::record;

pub(crate) use self::data_keys::{KEYS_FOLDER, KeyFiles};
pub use self::key_folder::{DataKeysError, StoreSecrets};

/// The tables with sealed rows.
const SEALED_TABLES: [(Space, &[u8]); 2] = [(Space::Journal, b"j"), (Space::State, b"spavVmAwR#")];

/// The error of an access to a sealed row before the keys are open.
#[derive(Debug, thiserror::Error)]
#[error("the store is locked: its data keys are not open")]
struct Locked;

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> EngineError {
    EngineError::Failed(Box::new(error))
}

/// An engine whose rows with personal data are sealed. It is locked until [`Self::unlock`].
pub struct SealedEngine<E> {
    inner: E,
    sealing: OnceLock<Arc<Sealing>>,
}

/// A stored value after an attempt to open it.
enum Opened {
    /// The value as the caller reads it.
    Value(Vec<u8>),
    /// The key of this stored value was destroyed: the row was removed, or replaced since it was
    /// read.
    Destroyed(Vec<u8>),
}

/// Returns the number of the key that sealed a stored value, or `None` if it is not sealed. The
/// number of a damaged value may be wrong.
fn key_number(value: &[u8]) -> Option<u64> {
    value::number(record::parts(value)?.0)
}

/// Replaces bookkeeping rows in a damaged block by `None`, so that the block costs no other rows.
fn readable<T>(read: Option<Result<T, EngineError>>) -> Result<Option<T>, DataKeysError> {
    let read = read.transpose().map_err(StoreError::from);
    skipped(read, "a row about data keys").map_err(DataKeysError::Rows)
}

/// Decodes the row with the number of the next unused key. `None`: it is damaged.
fn decoded_next(value: Vec<u8>) -> Option<u64> {
    let (payload, _) = record::verified(Space::State, NEXT, value).ok()?;
    record::decode(Space::State, NEXT, &payload).ok()
}

impl<E: Engine> SealedEngine<E> {
    /// Creates a locked engine over `inner`.
    pub(crate) fn new(inner: E) -> Self {
        Self {
            inner,
            sealing: OnceLock::new(),
        }
    }

    /// Returns the engine with the sealed rows.
    pub(crate) fn inner(&self) -> &E {
        &self.inner
    }

    /// Opens the data keys in the store's folder. The next synced batch destroys the keys that a
    /// crash has left. Later calls do nothing. In a store of the first format, the first release may
    /// have written rows after this one has sealed others; afterwards a stored row says so.
    ///
    /// # Errors
    ///
    /// See [`DataKeysError`]; the engine stays locked.
    pub(crate) fn unlock(
        &self,
        path: &Path,
        secrets: &StoreSecrets,
        format: StoreFormat,
    ) -> Result<(), DataKeysError> {
        if self.sealing.get().is_some() {
            return Ok(());
        }
        let next = readable(self.inner.get(Space::State, NEXT).transpose())?;
        let has_note = readable(self.inner.get(Space::State, HAS_UNSEALED).transpose())?;
        let has_unsealed = || readable(Some(self.has_unsealed_rows()));
        let may_have_unsealed = next.is_none() || format == StoreFormat::First;
        let unsealed = if has_note.is_some() {
            UnsealedRows::Noted
        } else if may_have_unsealed && has_unsealed()?.unwrap_or(true) {
            // A damaged block may hold such a row.
            UnsealedRows::Found
        } else {
            UnsealedRows::None
        };
        let keys = DataKeys::open(path, secrets, next.is_some())?;
        // Without the first row about data keys, the batch that writes it also writes the note.
        let must_note = unsealed == UnsealedRows::Found && next.is_some();
        let left = readable(Some(self.interrupted_erasures()))?.unwrap_or_default();
        let io = |error| DataKeysError::Io(path.join(data_keys::KEYS_FOLDER), error);
        // No key of the existing files is used again if the row is damaged or lost.
        let next = match next.and_then(decoded_next) {
            Some(next) => next,
            None => keys.end_number().map_err(io)?,
        };
        let unsealed = if must_note {
            let noted = self.inner.apply(batch::note_unsealed(), Durability::Synced);
            noted.map_err(|error| DataKeysError::Rows(error.into()))?;
            UnsealedRows::Noted
        } else {
            unsealed
        };
        let sealing = Sealing {
            keys,
            nonces: Nonces::new(),
            syncing: Mutex::new(()),
            writer: Mutex::new(Writer {
                next,
                sessions: Recent::new(DATA_KEY_SESSIONS_MAX),
                to_destroy: left,
                unsynced: Vec::new(),
                destroyed: Vec::new(),
                is_syncing: false,
                unsealed,
            }),
        };
        // If another thread has unlocked the engine meanwhile, it has opened the same keys.
        drop(self.sealing.set(Arc::new(sealing)));
        Ok(())
    }

    /// Seals the root key with the first secret, unless that one has sealed it. Does nothing while
    /// the engine is locked.
    ///
    /// # Errors
    ///
    /// See [`DataKeysError`].
    pub(crate) fn reseal(&self, secrets: &StoreSecrets) -> Result<(), DataKeysError> {
        let sealing = self.sealing.get();
        sealing.map_or(Ok(()), |sealing| sealing.keys.reseal(secrets))
    }

    fn interrupted_erasures(&self) -> Result<Vec<u64>, EngineError> {
        let mut left = Vec::new();
        let range = KeyRange::prefix(TO_DESTROY);
        self.inner
            .scan(Space::State, &range, Order::Ascending, &mut |key, _| {
                left.extend(
                    key.last_chunk::<8>()
                        .map(|number| u64::from_be_bytes(*number)),
                );
                ControlFlow::Continue(())
            })?;
        Ok(left)
    }

    fn has_unsealed_rows(&self) -> Result<bool, EngineError> {
        let mut found = false;
        for (space, tables) in SEALED_TABLES {
            for &table in tables {
                let range = KeyRange::prefix([table]);
                self.inner
                    .scan(space, &range, Order::Ascending, &mut |key, value| {
                        found =
                            key_owner(space, key) != KeyOwner::None && key_number(value).is_none();
                        match found {
                            true => ControlFlow::Break(()),
                            false => ControlFlow::Continue(()),
                        }
                    })?;
                if found {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a write of a row with personal data needs the keys: it seals the row, or
    /// removes a sealed one.
    fn needs_key(&self, write: &Write) -> Result<bool, EngineError> {
        if write.value.is_some() {
            return Ok(true);
        }
        let stored = self.inner.get(write.space, &write.key)?;
        Ok(stored.as_deref().and_then(key_number).is_some())
    }

    /// Opens a stored value. A value whose key is damaged comes back without its last byte, so that
    /// its checksum fails.
    fn open(&self, space: Space, key: &[u8], mut value: Vec<u8>) -> Result<Opened, EngineError> {
        if key_owner(space, key) == KeyOwner::None {
            return Ok(Opened::Value(value));
        }
        // A damaged value is returned unopened: the caller finds that its checksum is wrong.
        let Some(number) = key_number(&value).filter(|_| record::is_sound(space, key, &value))
        else {
            return Ok(Opened::Value(value));
        };
        let sealing = self.sealing.get().ok_or_else(|| failed(Locked))?;
        let secret = match sealing.keys.find(number).map_err(failed)? {
            FoundKey::Key(secret) => Some(secret),
            FoundKey::Destroyed => return Ok(Opened::Destroyed(value)),
            FoundKey::Damaged => None,
        };
        let opened = secret.and_then(|secret| {
            let (payload, group_number) = record::parts(&value)?;
            let payload = value::open((space, key), &secret, payload)?;
            Some(record::with_checksum(space, key, payload, group_number))
        });
        Ok(Opened::Value(opened.unwrap_or_else(|| {
            value.pop();
            value
        })))
    }

    /// Reads a row, of which this value with a destroyed key was `seen`. The row does not exist if
    /// it still has that value.
    fn read(
        &self,
        space: Space,
        key: &[u8],
        mut seen: Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        loop {
            let value = self.inner.get(space, key)?;
            let Some(value) = value.filter(|value| seen.as_ref() != Some(value)) else {
                return Ok(None);
            };
            match self.open(space, key, value)? {
                Opened::Value(value) => return Ok(Some(value)),
                // The writer may have replaced the row, and destroyed its key, after this read it.
                Opened::Destroyed(value) => seen = Some(value),
            }
        }
    }
}

impl SealedEngine<FjallEngine> {
    /// Visits all rows as they are stored at one time, and returns the files of the keys in the
    /// store's folder of the same time. Later commits change neither.
    pub(crate) fn visit_all<E: From<EngineError>>(
        &self,
        folder: Option<&Path>,
        visit: impl FnMut(Space, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<std::io::Result<KeyFiles>, E> {
        let mut files = Ok(KeyFiles::default());
        // No key is destroyed while the writer is locked. Only its owner writes a locked store.
        let writer = self.sealing.get().map(|sealing| sealing.writer());
        let read_keys = || {
            files = folder.map_or(Ok(KeyFiles::default()), KeyFiles::read);
            drop(writer);
        };
        self.inner.visit_all(read_keys, visit)?;
        Ok(files)
    }
}

impl<E: Engine> Engine for SealedEngine<E> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.read(space, key, None)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let mut range = range.clone();
        loop {
            let mut stopped_at = Ok(None);
            self.inner.scan(space, &range, order, &mut |key, value| {
                if key_owner(space, key) == KeyOwner::None {
                    return visit(key, value);
                }
                match self.open(space, key, value.to_vec()) {
                    Ok(Opened::Value(value)) => return visit(key, &value),
                    Ok(Opened::Destroyed(value)) => stopped_at = Ok(Some((key.to_vec(), value))),
                    Err(error) => stopped_at = Err(error),
                }
                ControlFlow::Break(())
            })?;
            let Some((key, seen)) = stopped_at? else {
                return Ok(());
            };
            // The scan may have seen a row as it was before the writer replaced it.
            if let Some(value) = self.read(space, &key, Some(seen))?
                && visit(&key, &value).is_break()
            {
                return Ok(());
            }
            range = match order {
                Order::Ascending => range.after(&key),
                Order::Descending => range.before(&key),
            };
        }
    }

    fn scan_keys(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        self.inner.scan_keys(space, range, order, visit)
    }

    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError> {
        let Some(sealing) = self.sealing.get() else {
            for write in &writes {
                if key_owner(write.space, &write.key) != KeyOwner::None && self.needs_key(write)? {
                    return Err(failed(Locked));
                }
            }
            return self.inner.apply(writes, durability);
        };
        let mut writer = sealing.writer();
        let change = sealing.change(&self.inner, &mut writer, writes)?;
        self.inner.apply(change.writes, durability)?;
        for (session, number) in change.started {
            writer.sessions.set(session, Some(number));
        }
        for session in &change.removed {
            writer.sessions.remove(session);
        }
        writer.to_destroy.extend(change.to_destroy);
        // A synced batch makes all earlier ones durable too.
        if durability == Durability::Synced {
            sealing.destroy(&mut writer)?;
        }
        if writer.unsynced.len() >= DATA_KEYS_UNSYNCED_MAX && !writer.is_syncing {
            writer.is_syncing = Sealing::spawn_sync(sealing);
        }
        Ok(())
    }

    fn acknowledge(&self, group_number: u64) -> Result<(), EngineError> {
        self.inner.acknowledge(group_number)
    }

    fn rotate(&self) -> Result<(), EngineError> {
        self.inner.rotate()
    }

    fn unflushed_bytes(&self) -> u64 {
        self.inner.unflushed_bytes()
    }

    fn resume(&self) -> Result<(), EngineError> {
        self.inner.resume()
    }

    /// Destroys and syncs the keys of removed rows. Rewrites the files only if they may hold rows
    /// that are not sealed.
    fn purge(&self) -> Result<(), EngineError> {
        let Some(sealing) = self.sealing.get() else {
            return self.inner.purge();
        };
        let unsealed = {
            let mut writer = sealing.writer();
            if !writer.to_destroy.is_empty() {
                // The removals of their rows may not be durable yet.
                self.inner.apply(writer.unchanged()?, Durability::Synced)?;
                sealing.destroy(&mut writer)?;
            }
            writer.unsealed
        };
        sealing.sync()?;
        if matches!(unsealed, UnsealedRows::None | UnsealedRows::Gone) {
            return Ok(());
        }
        // Rows that are removed while the files are rewritten may be in the new files.
        let are_gone = unsealed == UnsealedRows::Noted && !self.has_unsealed_rows()?;
        self.inner.purge()?;
        if are_gone {
            sealing.writer().unsealed = UnsealedRows::Gone;
        }
        Ok(())
    }

    fn rewrites_in_purge(&self) -> bool {
        let unsealed = self.sealing.get().map(|sealing| sealing.writer().unsealed);
        !matches!(unsealed, Some(UnsealedRows::None | UnsealedRows::Gone))
    }

    fn data_key(&self, session: [u8; 16]) -> Result<Option<u64>, EngineError> {
        let key = owner::start_key(session);
        let start = batch::readable(self.inner.get(Space::State, &key))?;
        let sound = start.filter(|start| record::is_sound(Space::State, &key, start));
        Ok(sound.as_deref().and_then(key_number))
    }

    fn close(&self) -> Result<(), EngineError> {
        if let Some(sealing) = self.sealing.get() {
            sealing.sync()?;
        }
        self.inner.close()
    }
}

#[cfg(test)]
mod tests;
