//! The file with the number of the highest acknowledged group, and with the format of the store.
//!
//! It is written without a sync for each group, before any caller is answered, so it is exact after
//! the process was killed. It is synced once a second if it has changed, and at shutdown. After a
//! power loss it is therefore at most a second old, and never ahead of the engine, which synced the
//! group before. Two slots are written alternately, each with a checksum, so that an interrupted
//! write leaves the other slot intact.
//!
//! A release that does not know the format in a slot does not read the slot, and refuses the store.
//! The first release reads [`StoreFormat::First`] alone.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use porchlight_world::private_file::sync_folder;

/// The file's name, next to the engine's folder.
pub(crate) const NAME: &str = "acknowledged";

/// The size of a slot in bytes: [`MAGIC`], the format, the number, and the CRC-32 of them.
const SLOT_BYTES: usize = 16;
/// The distance between the starts of the two slots in bytes: they are in different sectors.
const SLOT_DISTANCE_BYTES: u64 = 4096;
/// The first bytes of a slot, which the format follows.
const MAGIC: [u8; 3] = *b"PLA";

/// The format of a store. Raise it with each change of stored rows that the previous release cannot
/// read, so that the previous release refuses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StoreFormat {
    /// The first release, which does not seal rows, may have written the store.
    First = b'K',
    /// Each row with personal data is sealed, or a stored row says that some are not.
    Sealed = b'2',
}

impl StoreFormat {
    /// All formats, in the order of their releases.
    const ALL: [Self; 2] = [Self::First, Self::Sealed];
    /// The format of new stores.
    pub(crate) const NEWEST: Self = Self::Sealed;

    /// Returns the place of the format in the order of the releases.
    fn age(self) -> usize {
        Self::ALL.iter().position(|one| *one == self).unwrap_or(0)
    }
}

/// The interval at which a changed file is synced.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

fn slot(format: StoreFormat, group_number: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    let (head, checksum) = slot.split_at_mut(12);
    head[..3].copy_from_slice(&MAGIC);
    head[3] = format as u8;
    head[4..].copy_from_slice(&group_number.to_be_bytes());
    checksum.copy_from_slice(&crc32fast::hash(head).to_be_bytes());
    slot
}

/// The content of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The slot was not written, its writing was interrupted, or it is damaged.
    Unreadable,
    /// A group in a store of a known format.
    Group(u64, StoreFormat),
    /// A later release wrote the slot.
    Newer,
}

impl Slot {
    fn group_number(self) -> Option<u64> {
        match self {
            Self::Group(number, _) => Some(number),
            Self::Unreadable | Self::Newer => None,
        }
    }

    fn format(self) -> Option<StoreFormat> {
        match self {
            Self::Group(_, format) => Some(format),
            Self::Unreadable | Self::Newer => None,
        }
    }
}

fn read_slot(file: &File, place: u64) -> io::Result<Slot> {
    let mut bytes = [0; SLOT_BYTES];
    match file.read_exact_at(&mut bytes, place * SLOT_DISTANCE_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(Slot::Unreadable);
        }
        other => other?,
    }
    let (head, checksum) = bytes.split_at(12);
    if checksum != crc32fast::hash(head).to_be_bytes() || !head.starts_with(&MAGIC) {
        return Ok(Slot::Unreadable);
    }
    let mut number = [0; 8];
    number.copy_from_slice(&head[4..]);
    let mut known = StoreFormat::ALL.into_iter();
    let format = known.find(|format| *format as u8 == head[3]);
    Ok(format.map_or(Slot::Newer, |format| {
        Slot::Group(u64::from_be_bytes(number), format)
    }))
}

fn read_slots(file: &File) -> io::Result<[Slot; 2]> {
    Ok([read_slot(file, 0)?, read_slot(file, 1)?])
}

/// The format in which the next slot is written, and its place.
struct Next {
    format: StoreFormat,
    /// A count of writes, whose parity selects the slot.
    writes: u64,
}

/// The open file.
pub(crate) struct Acknowledged {
    file: File,
    /// The number in the file.
    number: AtomicU64,
    next: Mutex<Next>,
    /// The number at the last sync.
    synced: Mutex<u64>,
}

impl Acknowledged {
    /// Creates the file durably with this number and format, or replaces it. The file appears under
    /// its name together with its content, so a process that is killed meanwhile leaves the previous
    /// file, or no file.
    pub(crate) fn create(
        folder: &Path,
        group_number: u64,
        format: StoreFormat,
    ) -> io::Result<Self> {
        let unfinished = folder.join(format!("{NAME}.new"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)?;
        for place in 0..2 {
            file.write_all_at(&slot(format, group_number), place * SLOT_DISTANCE_BYTES)?;
        }
        file.sync_all()?;
        std::fs::rename(&unfinished, folder.join(NAME))?;
        sync_folder(folder)?;
        Ok(Self::of(file, group_number, Next { format, writes: 0 }))
    }

    /// Opens the file of a store. `None`: it exists, but neither slot can be read.
    pub(crate) fn open(folder: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder.join(NAME))?;
        let slots = read_slots(&file)?;
        let numbers = slots.map(Slot::group_number);
        let writes = u64::from(numbers[0] >= numbers[1]);
        // Two formats remain after a change that was interrupted, which is then made again.
        let formats = slots.into_iter().filter_map(Slot::format);
        let (Some(format), Some(group_number)) = (
            formats.min_by_key(|format| format.age()),
            numbers.into_iter().max().flatten(),
        ) else {
            return Ok(None);
        };
        Ok(Some(Self::of(file, group_number, Next { format, writes })))
    }

    /// Returns whether a later release has written the store of this file.
    pub(crate) fn is_newer(folder: &Path) -> io::Result<bool> {
        let slots = read_slots(&File::open(folder.join(NAME))?)?;
        Ok(slots.contains(&Slot::Newer))
    }

    /// Creates the state of an opened file.
    fn of(file: File, group_number: u64, next: Next) -> Self {
        Self {
            file,
            number: AtomicU64::new(group_number),
            next: Mutex::new(next),
            synced: Mutex::new(group_number),
        }
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the format of the store.
    pub(crate) fn format(&self) -> StoreFormat {
        self.next().format
    }

    /// Changes the format durably. The slots are written and synced one after the other, so that
    /// one of them is always intact.
    pub(crate) fn change_format(&self, format: StoreFormat) -> io::Result<()> {
        let mut next = self.next();
        if next.format == format {
            return Ok(());
        }
        for _ in 0..2 {
            let bytes = slot(format, self.number());
            let place = next.writes % 2;
            self.file
                .write_all_at(&bytes, place * SLOT_DISTANCE_BYTES)?;
            self.file.sync_data()?;
            next.writes += 1;
        }
        next.format = format;
        Ok(())
    }

    /// Returns the number in the file.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Writes a higher number. Only one thread may call it at a time.
    pub(crate) fn write(&self, group_number: u64) -> io::Result<()> {
        let mut next = self.next();
        let (bytes, place) = (slot(next.format, group_number), next.writes % 2);
        next.writes += 1;
        self.file
            .write_all_at(&bytes, place * SLOT_DISTANCE_BYTES)?;
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
        let file = Acknowledged::create(&folder, 0, StoreFormat::First).unwrap();
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

    #[test]
    fn the_format_changes_durably_and_a_later_one_is_recognized() {
        let folder = std::env::temp_dir().join(format!("store-format-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = Acknowledged::create(&folder, 0, StoreFormat::First).unwrap();
        file.write(3).unwrap();
        let path = folder.join(NAME);
        let before = std::fs::read(&path).unwrap();
        assert_eq!(
            &before[..4],
            b"PLAK",
            "the first release writes these bytes"
        );
        file.change_format(StoreFormat::Sealed).unwrap();
        let after = std::fs::read(&path).unwrap();
        let open = || Acknowledged::open(&folder).unwrap().unwrap();
        assert_eq!((open().number(), open().format()), (3, StoreFormat::Sealed));
        assert!(!after.windows(4).any(|bytes| bytes == b"PLAK"));
        open().write(4).unwrap();
        assert_eq!((open().number(), open().format()), (4, StoreFormat::Sealed));

        // The change was interrupted between the two slots: it is made again.
        let distance = usize::try_from(SLOT_DISTANCE_BYTES).unwrap();
        let mixed = [&before[..distance], &after[distance..]].concat();
        std::fs::write(&path, &mixed).unwrap();
        assert_eq!((open().number(), open().format()), (3, StoreFormat::First));
        open().change_format(StoreFormat::Sealed).unwrap();
        assert_eq!((open().number(), open().format()), (3, StoreFormat::Sealed));

        assert!(!Acknowledged::is_newer(&folder).unwrap());
        let mut later = slot(StoreFormat::Sealed, 5);
        later[3] = b'9';
        std::fs::write(&path, later).unwrap();
        assert!(
            !Acknowledged::is_newer(&folder).unwrap(),
            "a damaged file is not newer"
        );
        let checksum = crc32fast::hash(&later[..12]).to_be_bytes();
        later[12..].copy_from_slice(&checksum);
        std::fs::write(&path, later).unwrap();
        assert!(Acknowledged::is_newer(&folder).unwrap());
        assert!(Acknowledged::open(&folder).unwrap().is_none());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
