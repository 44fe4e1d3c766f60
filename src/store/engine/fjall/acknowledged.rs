//! The file with the number of the highest acknowledged group.
//!
//! It is written without a sync for each group, before any caller is answered, so it is exact after
//! the process was killed. It is synced once a second if it has changed, and at shutdown. After a
//! power loss it is therefore at most a second old, and never ahead of the engine, which synced the
//! group before. Two slots are written alternately, each with a checksum, so that an interrupted
//! write leaves the other slot intact.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use porchlight_world::private_file::sync_folder;

/// The file's name, next to the engine's folder.
pub(crate) const NAME: &str = "acknowledged";

/// The size of a slot in bytes: [`MAGIC`], the number, and the CRC-32 of both.
const SLOT_BYTES: usize = 16;
/// The distance between the starts of the two slots in bytes: they are in different sectors.
const SLOT_DISTANCE: u64 = 4096;
/// The first bytes of a slot.
const MAGIC: [u8; 4] = *b"PLAK";

/// The interval at which a changed file is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

fn slot(group_number: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let (head, checksum) = slot.split_at_mut(12);
    head[..4].copy_from_slice(&MAGIC);
    head[4..].copy_from_slice(&group_number.to_be_bytes());
    checksum.copy_from_slice(&crc32fast::hash(head).to_be_bytes());
    slot
}

fn read_slot(file: &File, place: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; SLOT_BYTES];
    match file.read_exact_at(&mut bytes, place * SLOT_DISTANCE) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[4..12]);
    let group_number = u64::from_be_bytes(number);
    Ok((slot(group_number) == bytes).then_some(group_number))
}

/// The open file.
pub(crate) struct Acknowledged {
    file: File,
    /// The number in the file.
    number: AtomicU64,
    /// A count of writes, whose parity selects the next slot.
    writes: AtomicU64,
    /// The number at the last sync.
    synced: Mutex<u64>,
}

impl Acknowledged {
    /// Creates the file durably with this number, or replaces it. The file appears under its name
    /// together with its content, so a process that is killed meanwhile leaves the previous file,
    /// or no file.
    pub(crate) fn create(folder: &Path, group_number: u64) -> io::Result<Self> {
        let unfinished = folder.join(format!("{NAME}.new"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)?;
        for place in 0..2 {
            file.write_all_at(&slot(group_number), place * SLOT_DISTANCE)?;
        }
        file.sync_all()?;
        std::fs::rename(&unfinished, folder.join(NAME))?;
        sync_folder(folder)?;
        Ok(Self::of(file, group_number, 0))
    }

    /// Opens the file of a store. `None`: it exists, but neither slot can be read.
    pub(crate) fn open(folder: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder.join(NAME))?;
        let slots = [read_slot(&file, 0)?, read_slot(&file, 1)?];
        let writes = u64::from(slots[0] >= slots[1]);
        let newest = slots.into_iter().max().flatten();
        Ok(newest.map(|group_number| Self::of(file, group_number, writes)))
    }

    /// Creates the state of an opened file. The next slot to write is `writes` modulo two.
    fn of(file: File, group_number: u64, writes: u64) -> Self {
        Self {
            file,
            number: AtomicU64::new(group_number),
            writes: AtomicU64::new(writes),
            synced: Mutex::new(group_number),
        }
    }

    /// Returns the number in the file.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Writes a higher number. Only one thread may call it at a time.
    pub(crate) fn write(&self, group_number: u64) -> io::Result<()> {
        let slot_index = self.writes.fetch_add(1, Ordering::Relaxed) % 2;
        self.file
            .write_all_at(&slot(group_number), slot_index * SLOT_DISTANCE)?;
        self.number.store(group_number, Ordering::Release);
        Ok(())
    }

    /// Syncs the file if it has changed.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.number();
        if *synced != number {
            self.file.sync_data()?;
            *synced = number;
        }
        Ok(())
    }

    /// Syncs the file once a second from now on; reports the first failed sync to `on_failure` and
    /// stops.
    pub(crate) fn keep_synced(
        self: &Arc<Self>,
        on_failure: impl Fn(&io::Error) + Send + 'static,
    ) -> io::Result<Syncing> {
        let (stop, stopped) = sync_channel(1);
        let acknowledged = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("store-acknowledged".to_owned())
            .spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SYNC_INTERVAL) {
                    if let Err(error) = acknowledged.sync() {
                        on_failure(&error);
                        return;
                    }
                }
            })?;
        Ok(Syncing {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// Keeps the file synced until it is dropped.
pub(crate) struct Syncing {
    stop: Option<SyncSender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_write_leaves_the_previous_number() {
        let folder = std::env::temp_dir().join(format!("acknowledged-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = Acknowledged::create(&folder, 0).unwrap();
        for group_number in [1, 3, 5, 7] {
            file.write(group_number).unwrap();
        }
        file.sync().unwrap();
        let open = || Acknowledged::open(&folder).unwrap();
        assert_eq!(open().map(|file| file.number()), Some(7));
        let reopened = open().unwrap();
        reopened.write(9).unwrap();
        assert_eq!(open().map(|file| file.number()), Some(9));
        let mut bytes = std::fs::read(folder.join(NAME)).unwrap();
        let nine = bytes
            .windows(8)
            .position(|w| w == 9_u64.to_be_bytes())
            .unwrap();
        bytes[nine + 7] = 200;
        std::fs::write(folder.join(NAME), &bytes).unwrap();
        assert_eq!(open().map(|file| file.number()), Some(7));
        std::fs::write(folder.join(NAME), b"").unwrap();
        assert!(open().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
