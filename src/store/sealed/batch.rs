//! The sealing of a batch of writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use porchlight_observe::error_text;

use super::bookkeeping::{HAS_UNSEALED, NEXT, to_destroy_key};
use super::data_keys::{DataKeys, FoundKey, next_file};
use super::key_folder::Secret;
use super::owner::{KeyOwner, RowKeyLifetime, is_start, key_owner, start_key};
use super::value::{self, Nonces};
use super::{failed, key_number};
use crate::engine::{Engine, EngineError, Space, Write};
use crate::recent::Recent;
use crate::record;

/// The error of a row that cannot be sealed because it is too long.
#[derive(Debug, thiserror::Error)]
#[error("a row is too long to be sealed with data key {0}")]
struct TooLong(u64);

/// The open keys, and the state of the only writer.
pub(super) struct Sealing {
    pub(super) keys: DataKeys,
    pub(super) nonces: Nonces,
    /// Held while files of overwritten keys are synced. It is locked before the writer.
    pub(super) syncing: Mutex<()>,
    pub(super) writer: Mutex<Writer>,
}

/// The state of the writer between two batches.
pub(super) struct Writer {
    /// The number of the next unused key.
    pub(super) next: u64,
    /// The number of the key of recently used sessions; `None` for a session whose rows are not
    /// sealed.
    pub(super) sessions: Recent<[u8; 16], Option<u64>>,
    /// Keys whose rows were removed by a batch that may not be durable yet.
    pub(super) to_destroy: Vec<u64>,
    /// Overwritten keys whose files are not synced yet.
    pub(super) unsynced: Vec<u64>,
    /// Keys that are permanently destroyed. The next batch removes their rows.
    pub(super) destroyed: Vec<u64>,
    /// Whether a thread syncs overwritten keys although no erasure waits for it.
    pub(super) is_syncing: bool,
    pub(super) unsealed: UnsealedRows,
}

impl Writer {
    /// Returns a batch that changes nothing: it writes the number of the next unused key again.
    pub(super) fn unchanged(&self) -> Result<Vec<Write>, EngineError> {
        let mut change = Change::default();
        change.put_next(self.next)?;
        Ok(change.writes)
    }
}

/// Returns the write of the row that says that the engine may have rows that are not sealed.
pub(super) fn note_unsealed() -> Vec<Write> {
    let mut change = Change::default();
    change.put(HAS_UNSEALED.to_vec(), Vec::new());
    change.writes
}

/// The state of rows with personal data that are not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsealedRows {
    /// The engine has no such rows.
    None,
    /// The engine may have such rows, and no stored row says so yet.
    Found,
    /// The engine may have such rows, and a stored row says so.
    Noted,
    /// The engine no longer has such rows, and the next batch removes the row that says so.
    Gone,
}

/// The key of a session's rows.
enum SessionKey {
    Sealed(u64),
    /// An earlier version wrote the session's start.
    Unsealed,
    /// The session has no start, or a damaged one.
    NoSession,
}

/// The writes of a batch, and the changes that it makes to the state of the writer once it is
/// applied.
#[derive(Default)]
pub(super) struct Change {
    pub(super) writes: Vec<Write>,
    pub(super) started: HashMap<[u8; 16], u64>,
    pub(super) removed: Vec<[u8; 16]>,
    pub(super) to_destroy: Vec<u64>,
    /// The number of the batch's group.
    pub(super) group_number: u64,
}

impl Change {
    fn put(&mut self, key: Vec<u8>, payload: Vec<u8>) {
        self.writes.push(Write {
            space: Space::State,
            value: Some(record::with_checksum(
                Space::State,
                &key,
                payload,
                self.group_number,
            )),
            key,
        });
    }

    /// Writes the number of the next unused key.
    fn put_next(&mut self, next: u64) -> Result<(), EngineError> {
        let next = record::encode(&next).map_err(failed)?;
        self.put(NEXT.to_vec(), next);
        Ok(())
    }

    fn delete(&mut self, key: Vec<u8>) {
        self.writes.push(Write {
            space: Space::State,
            key,
            value: None,
        });
    }
}

/// Replaces a row in a damaged block by `None`: a batch that depends on it must not end the store.
pub(super) fn readable(
    read: Result<Option<Vec<u8>>, EngineError>,
) -> Result<Option<Vec<u8>>, EngineError> {
    match read {
        Err(EngineError::Damaged(cause)) => {
            tracing::error!(%cause, "a row cannot be read; the write treats it as missing");
            Ok(None)
        }
        read => read,
    }
}

/// Returns the number of the key that sealed a row, or `None` if it is not sealed or damaged.
fn sound_key_number(space: Space, key: &[u8], value: Vec<u8>) -> Option<u64> {
    let (payload, _) = record::verified(space, key, value).ok()?;
    value::number(&payload)
}

impl Sealing {
    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        // After a panic of the writer's thread the store accepts nothing more.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an unused key.
    fn new_key(&self, writer: &mut Writer) -> Result<(u64, Secret), EngineError> {
        loop {
            let number = writer.next;
            self.keys.create_file(number).map_err(failed)?;
            writer.next += 1;
            match self.keys.find(number).map_err(failed)? {
                FoundKey::Key(secret) => return Ok((number, secret)),
                // A restored store may have older rows than keys. The rest of a damaged file stays
                // unused.
                FoundKey::Destroyed => {}
                FoundKey::Damaged => writer.next = next_file(number),
            }
        }
    }

    fn session_key(
        &self,
        inner: &dyn Engine,
        writer: &mut Writer,
        change: &Change,
        session: [u8; 16],
    ) -> Result<SessionKey, EngineError> {
        if let Some(&number) = change.started.get(&session) {
            return Ok(SessionKey::Sealed(number));
        }
        let number = match writer.sessions.get(&session) {
            Some(number) => number,
            None => {
                let key = start_key(session);
                let start = readable(inner.get(Space::State, &key))?;
                let Some(start) = start.filter(|start| record::is_sound(Space::State, &key, start))
                else {
                    return Ok(SessionKey::NoSession);
                };
                let number = key_number(&start);
                writer.sessions.set(session, number);
                number
            }
        };
        Ok(number.map_or(SessionKey::Unsealed, SessionKey::Sealed))
    }

    fn sealed(&self, write: Write, number: u64, secret: &Secret) -> Result<Write, EngineError> {
        let Write { space, key, value } = write;
        let sealed =
            value
                .as_deref()
                .and_then(record::parts)
                .and_then(|(payload, group_number)| {
                    let payload =
                        value::seal((space, &key), (number, secret), &self.nonces, payload)?;
                    Some(record::with_checksum(space, &key, payload, group_number))
                });
        let value = Some(sealed.ok_or_else(|| failed(TooLong(number)))?);
        Ok(Write { space, key, value })
    }

    /// Seals a row with a key of its own. The key of the replaced version is destroyed unless the
    /// new version has it too.
    fn row(
        &self,
        inner: &dyn Engine,
        writer: &mut Writer,
        change: &mut Change,
        write: Write,
        lifetime: RowKeyLifetime,
    ) -> Result<(), EngineError> {
        let replaced = readable(inner.get(write.space, &write.key))?;
        let number = replaced.and_then(|value| sound_key_number(write.space, &write.key, value));
        if let Some(number) =
            number.filter(|_| lifetime == RowKeyLifetime::UntilRemoval && write.value.is_some())
            && let FoundKey::Key(secret) = self.keys.find(number).map_err(failed)?
        {
            change.writes.push(self.sealed(write, number, &secret)?);
            return Ok(());
        }
        change.to_destroy.extend(number);
        let write = match write.value {
            Some(_) => {
                let (number, secret) = self.new_key(writer)?;
                self.sealed(write, number, &secret)?
            }
            None => write,
        };
        change.writes.push(write);
        Ok(())
    }

    fn session_row(
        &self,
        inner: &dyn Engine,
        writer: &mut Writer,
        change: &mut Change,
        write: Write,
        session: [u8; 16],
    ) -> Result<(), EngineError> {
        match self.session_key(inner, writer, change, session)? {
            SessionKey::NoSession => {
                return self.row(inner, writer, change, write, RowKeyLifetime::OneVersion);
            }
            SessionKey::Unsealed => change.writes.push(write),
            SessionKey::Sealed(number) if write.value.is_some() => {
                let FoundKey::Key(secret) = self.keys.find(number).map_err(failed)? else {
                    // The session's key is damaged, so its earlier rows are unreadable. The store
                    // continues to accept batches.
                    return self.row(inner, writer, change, write, RowKeyLifetime::OneVersion);
                };
                change.writes.push(self.sealed(write, number, &secret)?);
            }
            SessionKey::Sealed(number) => {
                if is_start(write.space, &write.key) {
                    change.to_destroy.push(number);
                    change.removed.push(session);
                }
                change.writes.push(write);
            }
        }
        Ok(())
    }

    /// Seals the rows of a batch and adds the bookkeeping rows.
    pub(super) fn change(
        &self,
        inner: &dyn Engine,
        writer: &mut Writer,
        writes: Vec<Write>,
    ) -> Result<Change, EngineError> {
        let first = writes.iter().find_map(|write| write.value.as_deref());
        let mut change = Change {
            group_number: first
                .and_then(record::parts)
                .map_or(0, |(_, group_number)| group_number),
            writes: Vec::with_capacity(writes.len() + 2),
            ..Change::default()
        };
        let next_before = writer.next;
        // The keys of new sessions are created first, because the writes of a session's batches
        // precede the write of its start.
        for write in writes
            .iter()
            .filter(|write| is_start(write.space, &write.key))
        {
            if let (Some(_), KeyOwner::Session(session)) =
                (&write.value, key_owner(write.space, &write.key))
                && let SessionKey::NoSession = self.session_key(inner, writer, &change, session)?
            {
                let (number, _) = self.new_key(writer)?;
                change.started.insert(session, number);
            }
        }
        for write in writes {
            match key_owner(write.space, &write.key) {
                KeyOwner::None => change.writes.push(write),
                KeyOwner::Row => self.row(
                    inner,
                    writer,
                    &mut change,
                    write,
                    RowKeyLifetime::OneVersion,
                )?,
                KeyOwner::LastingRow => self.row(
                    inner,
                    writer,
                    &mut change,
                    write,
                    RowKeyLifetime::UntilRemoval,
                )?,
                KeyOwner::Session(session) => {
                    self.session_row(inner, writer, &mut change, write, session)?;
                }
            }
        }
        if writer.next != next_before {
            change.put_next(writer.next)?;
            if writer.unsealed == UnsealedRows::Found {
                change.put(HAS_UNSEALED.to_vec(), Vec::new());
                writer.unsealed = UnsealedRows::Noted;
            }
        }
        if writer.unsealed == UnsealedRows::Gone {
            change.delete(HAS_UNSEALED.to_vec());
            writer.unsealed = UnsealedRows::None;
        }
        for number in change.to_destroy.clone() {
            change.put(to_destroy_key(number), Vec::new());
        }
        for number in std::mem::take(&mut writer.destroyed) {
            change.delete(to_destroy_key(number));
        }
        Ok(change)
    }

    /// Overwrites the keys whose rows are durably removed. After an error, the next call continues
    /// with the keys that are left.
    pub(super) fn destroy(&self, writer: &mut Writer) -> Result<(), EngineError> {
        while let Some(&number) = writer.to_destroy.last() {
            self.keys.destroy(number).map_err(failed)?;
            writer.to_destroy.pop();
            writer.unsynced.push(number);
        }
        Ok(())
    }

    /// Syncs the files of all keys that are overwritten. Batches are applied meanwhile.
    pub(super) fn sync(&self) -> Result<(), EngineError> {
        // A second caller waits here for the keys that the first one syncs.
        let _guard = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let (unsynced, next) = {
            let mut writer = self.writer();
            (std::mem::take(&mut writer.unsynced), writer.next)
        };
        let synced = self.keys.sync(&unsynced, next);
        let mut writer = self.writer();
        match synced {
            Ok(()) => writer.destroyed.extend(unsynced),
            Err(_) => writer.unsynced.extend(unsynced),
        }
        synced.map_err(failed)
    }

    /// Syncs on a thread of its own, because a batch must not wait for it. Returns whether there is
    /// a thread.
    pub(super) fn spawn_sync(sealing: &Arc<Self>) -> bool {
        let syncing = Arc::clone(sealing);
        let sync = move || {
            if let Err(error) = syncing.sync() {
                tracing::error!(
                    error = error_text(&error),
                    "files of destroyed data keys cannot be synced"
                );
            }
            syncing.writer().is_syncing = false;
        };
        let thread = std::thread::Builder::new().name("data-keys".to_owned());
        match thread.spawn(sync) {
            Ok(_) => true,
            Err(error) => {
                tracing::error!(
                    error = error_text(&error),
                    "the thread that syncs destroyed data keys cannot start"
                );
                false
            }
        }
    }
}
