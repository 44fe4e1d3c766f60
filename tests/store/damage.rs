//! Tests damaged files: the store refuses them, or has all acknowledged data. It never loses data
//! silently.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use porchlight_ports::{Journal, Note, Sessions, StoreError};
use porchlight_schema::ids::SessionId;
use porchlight_store::EmbeddedStore;
use porchlight_store::engine::Space;
use porchlight_store::tables::messages;

use crate::fixtures::{
    Folder, T0, batch, new_session, open, put_endpoint, session_id, start, tenant,
};
use crate::guards::copy;

/// The outcome of opening a damaged store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Refused,
    /// The store opened; reads of damaged data return an error.
    ReadFails,
    Whole,
}

/// Opens a store and compares it with its acknowledged data.
async fn fate(path: &Path, sessions: &[SessionId], batches: u32) -> Fate {
    let Ok(store) = open(path) else {
        return Fate::Refused;
    };
    for id in sessions {
        let mut seen = 0;
        while seen < batches {
            match store.read(*id, seen, 1_000).await {
                // The service would retry after any other error forever, and never score the
                // session.
                Err(StoreError::Damaged(_)) => return Fate::ReadFails,
                Err(error) => panic!("{error:?}"),
                Ok(entries) => {
                    assert!(
                        !entries.is_empty(),
                        "silently shortened to {seen} of {batches}"
                    );
                    for entry in entries {
                        assert_eq!((entry.seq, &entry.batch), (seen, &batch(seen)));
                        seen += 1;
                    }
                }
            }
        }
        match store.count(*id).await {
            Ok(count) => assert_eq!(count, batches),
            Err(StoreError::Damaged(_)) => return Fate::ReadFails,
            Err(error) => panic!("{error:?}"),
        }
    }
    Fate::Whole
}

async fn append_all(store: &EmbeddedStore, sessions: &[SessionId], seqs: std::ops::Range<u32>) {
    for seq in seqs {
        let appends = sessions
            .iter()
            .map(|id| store.append(*id, seq, batch(seq), T0));
        for appended in futures_util::future::join_all(appends).await {
            appended.unwrap();
        }
    }
}

fn journals(store: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(store.join("engine"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    found.sort();
    found
}

/// Returns places spread over `0..len`, on no regular grid.
fn places(len: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |n| (n * len / count + n * 7919 % (len / count).max(1)).min(len - 1))
}

const SESSIONS: usize = 3;
const BATCHES: u32 = 60;

/// Creates a store whose journal file ends with its last entry. It is reopened first: a new file of
/// fjall has zeros up to 64 MiB behind the entries.
async fn small_store() -> (Folder, Vec<SessionId>, PathBuf) {
    let folder = Folder::new();
    let sessions: Vec<_> = (0..SESSIONS).map(|_| session_id(T0)).collect();
    for part in 0..2 {
        let store = open(folder.path()).unwrap();
        append_all(
            &store,
            &sessions,
            part * BATCHES / 2..(part + 1) * BATCHES / 2,
        )
        .await;
        drop(store);
    }
    let journal = journals(folder.path()).pop().unwrap();
    (folder, sessions, journal)
}

async fn damaged(
    folder: &Folder,
    sessions: &[SessionId],
    journal: &Path,
    change: impl FnOnce(&mut Vec<u8>),
) -> Fate {
    let copied = Folder::new();
    copy(folder.path(), copied.path());
    let file = copied
        .path()
        .join("engine")
        .join(journal.file_name().unwrap());
    let mut bytes = fs::read(&file).unwrap();
    change(&mut bytes);
    fs::write(&file, bytes).unwrap();
    fate(copied.path(), sessions, BATCHES).await
}

#[tokio::test]
async fn a_journal_torn_anywhere_is_refused() {
    let (folder, sessions, journal) = small_store().await;
    let len = fs::metadata(&journal).unwrap().len() as usize;
    assert_eq!(
        damaged(&folder, &sessions, &journal, |_| {}).await,
        Fate::Whole
    );
    for place in places(len, 60).chain(len - 40..len) {
        let torn = damaged(&folder, &sessions, &journal, |bytes| bytes.truncate(place)).await;
        assert_eq!(torn, Fate::Refused, "torn at {place} of {len}");
        let zeroed = |bytes: &mut Vec<u8>| bytes[place..].fill(0);
        let fate = damaged(&folder, &sessions, &journal, zeroed).await;
        assert_ne!(fate, Fate::ReadFails, "zeros from {place} of {len}");
    }
}

#[tokio::test]
async fn a_group_torn_before_its_acknowledgement_is_dropped() {
    let (folder, sessions, journal) = small_store().await;
    let len = fs::metadata(&journal).unwrap().len() as usize;
    for cut in [1, 7, 20, 60, 150] {
        // The head of a group being written at the power loss: a copy of the first group's head.
        let half = |bytes: &mut Vec<u8>| bytes.extend_from_within(..cut);
        let fate = damaged(&folder, &sessions, &journal, half).await;
        assert_eq!(fate, Fate::Whole, "{cut} bytes behind {len}");
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_the_journal_is_refused() {
    let (folder, sessions, journal) = small_store().await;
    let len = fs::metadata(&journal).unwrap().len() as usize;
    let mut refused = 0;
    let mut tried = 0;
    for place in places(len, 150).chain(len - 60..len) {
        let flip = |bytes: &mut Vec<u8>| bytes[place] ^= 1 << (place % 8);
        let fate = damaged(&folder, &sessions, &journal, flip).await;
        assert_ne!(fate, Fate::ReadFails, "bit of byte {place} of {len}");
        tried += 1;
        refused += usize::from(fate == Fate::Refused);
    }
    assert!(refused * 10 >= tried * 9, "{refused} of {tried}");
}

/// Fills journals until one is sealed, while rows of the state space wait in memory.
async fn store_with_sealed_journal() -> (Folder, Vec<SessionId>) {
    let folder = Folder::new();
    let sessions: Vec<_> = (0..SESSIONS).map(|_| session_id(T0)).collect();
    let store = open(folder.path()).unwrap();
    let filler = vec![0xa5; 512 * 1024];
    for part in 0..BATCHES {
        append_all(&store, &sessions, part..part + 1).await;
        let note = Note::Quarantined { seq: part };
        store.note(sessions[0], note).await.unwrap();
        for n in 0..4_u32 {
            let (key, filler) = (
                [&[0xfd][..], &(part * 4 + n).to_be_bytes()].concat(),
                filler.clone(),
            );
            let write = store.committer().write(move |txn| {
                txn.put(Space::Journal, key, filler);
                Ok(())
            });
            write.await.unwrap();
        }
    }
    drop(store);
    (folder, sessions)
}

/// Depending on timing, the contents of a sealed journal are in tables already: then the store is
/// complete without it. Otherwise it is refused, although the journal behind it is intact.
#[tokio::test]
async fn damage_in_a_sealed_journal_is_not_hidden_by_a_later_one() {
    let (folder, sessions) = store_with_sealed_journal().await;
    let oldest = journals(folder.path()).swap_remove(0);
    let len = fs::metadata(&oldest).unwrap().len().min(60_000_000) as usize;
    for place in places(len, 6) {
        let copied = Folder::new();
        copy(folder.path(), copied.path());
        let file = copied
            .path()
            .join("engine")
            .join(oldest.file_name().unwrap());
        let mut bytes = fs::read(&file).unwrap();
        // This looks like the end of the journal: fjall stops here, and continues with the next
        // file.
        let end = bytes.len().min(place + 2_000_000);
        bytes[place..end].fill(0);
        fs::write(&file, bytes).unwrap();
        if fate(copied.path(), &sessions, BATCHES).await == Fate::Whole {
            let store = open(copied.path()).unwrap();
            let notes = store.notes(sessions[0]).await.unwrap();
            assert_eq!(notes.len(), BATCHES as usize, "notes are gone");
        }
    }
}

#[tokio::test]
async fn a_damaged_table_is_refused_or_fails_to_read() {
    let folder = Folder::new();
    let sessions: Vec<_> = (0..SESSIONS).map(|_| session_id(T0)).collect();
    let store = open(folder.path()).unwrap();
    append_all(&store, &sessions, 0..BATCHES).await;
    store.flush_tables().unwrap();
    drop(store);
    let mut tables = Vec::new();
    let keyspaces = folder.path().join("engine/keyspaces");
    for keyspace in fs::read_dir(keyspaces).unwrap() {
        let folder = keyspace.unwrap().path().join("tables");
        tables.extend(
            fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path()),
        );
    }
    assert!(tables.len() >= 2, "{tables:?}");
    let mut noticed = 0;
    for table in &tables {
        let len = fs::metadata(table).unwrap().len() as usize;
        for place in places(len, 25) {
            let copied = Folder::new();
            copy(folder.path(), copied.path());
            let file = copied
                .path()
                .join(table.strip_prefix(folder.path()).unwrap());
            let mut bytes = fs::read(&file).unwrap();
            bytes[place] ^= 1 << (place % 8);
            fs::write(&file, bytes).unwrap();
            noticed += usize::from(fate(copied.path(), &sessions, BATCHES).await != Fate::Whole);
        }
    }
    assert!(noticed > 10, "{noticed}");
}

/// The log of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_message_that_a_quarantine_ends_is_logged_as_failed() {
    let folder = Folder::new();
    let store = open(folder.path()).unwrap();
    let start = start(tenant(), T0);
    put_endpoint(&*store, start.tenant, true).await;
    store.start(new_session(&start)).await.unwrap();
    let key = messages::key(start.session_id, 0);
    let damaged = store.committer().write(move |txn| {
        txn.put(Space::State, key, vec![0; 8]);
        Ok(())
    });
    damaged.await.unwrap();
    let mut report = store.check();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
    let guard = tracing::subscriber::set_default(subscriber.finish());
    store.quarantine(&mut report).await.unwrap();
    drop(guard);
    assert_eq!(report.quarantined, 1);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let failed = "webhook delivery failed permanently";
    let mut lines = text.lines().filter(|line| line.contains(failed));
    let id = start.session_id.to_string();
    assert!(
        lines.next().is_some_and(|line| line.contains(&id)),
        "{text}"
    );
    assert_eq!(lines.next(), None);
}
