//! Tests the refusals and guarantees of the embedded store: reopening, locks, acknowledged groups,
//! backups.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use porchlight_keys::keyring::{KEY_FILE, SecretKeys};
use porchlight_ports::{
    Appended, Collection, DocumentKind, Documents, Erasure, Journal, Sessions, Snapshot, Snapshots,
};
use porchlight_schema::ids::SessionId;
use porchlight_store::engine::{Durability, Engine, Space};
use porchlight_store::{
    BackupError, EmbeddedStore, MemoryStore, MissingGroups, OpenError, OpenOptions,
};
use porchlight_support::files::found;

use crate::fixtures::{Folder, T0, batch, new_session, open, secrets, session_id, start, tenant};

fn refused(path: &Path) -> OpenError {
    match open(path) {
        Ok(_) => panic!("the store opened"),
        Err(error) => error,
    }
}

async fn append(store: &EmbeddedStore, id: SessionId, seqs: std::ops::Range<u32>) {
    for seq in seqs {
        assert_eq!(
            store.append(id, seq, batch(seq), T0).await.unwrap(),
            Appended::New
        );
    }
}

#[tokio::test]
async fn written_data_survives_reopening() {
    let folder = Folder::new();
    let (id, start) = (session_id(T0), start(tenant(), T0));
    let snapshot = Snapshot {
        generation: 1,
        next_seq: 3,
        state: vec![7; 100],
    };
    let store = open(folder.path()).unwrap();
    append(&store, id, 0..50).await;
    store.start(new_session(&start)).await.unwrap();
    store.put_snapshot(id, snapshot.clone()).await.unwrap();
    store.close().await;
    assert!(
        store.find(start.session_id).await.is_err(),
        "a closed store accepts no write"
    );
    assert!(store.append(id, 50, batch(50), T0).await.is_err());
    drop(store);

    let store = open(folder.path()).unwrap();
    assert_eq!(store.count(id).await.unwrap(), 50);
    assert_eq!(store.newest_snapshot(id).await.unwrap(), Some(snapshot));
    let row = store.find(start.session_id).await.unwrap();
    assert_eq!(row.map(|row| row.start), Some(start));
    assert_eq!(
        store.append(id, 7, batch(7), T0).await.unwrap(),
        Appended::Repeated
    );
    assert_eq!(
        store.append(id, 7, batch(8), T0).await.unwrap(),
        Appended::Conflict
    );
    append(&store, id, 50..60).await;
}

#[tokio::test]
async fn dropping_without_closing_loses_nothing() {
    let folder = Folder::new();
    let id = session_id(T0);
    for round in 0..4 {
        let store = open(folder.path()).unwrap();
        assert_eq!(store.count(id).await.unwrap(), round * 5);
        append(&store, id, round * 5..round * 5 + 5).await;
    }
}

#[tokio::test]
async fn a_purge_leaves_no_file_with_a_removed_row() {
    let folder = Folder::new();
    // A locked store rewrites its files, like a store with rows from before it sealed rows.
    let store = EmbeddedStore::open_for_command(folder.path()).unwrap();
    let collection = Collection::of_tenant(DocumentKind::AuditHead, tenant());
    let (key, street) = (b"key".to_vec(), b"Knochenhauergasse".to_vec());
    let created = store.replace_document(collection, key.clone(), None, Some(street.clone()));
    assert!(created.await.unwrap());
    // The first purge moves the row from memory to a table.
    store.purge().await.unwrap();
    let needles = [("street".to_owned(), street.clone())];
    assert_eq!(found(folder.path(), &needles).len(), 1);
    let removed = store.replace_document(collection, key, Some(street.clone()), None);
    assert!(removed.await.unwrap());
    store.purge().await.unwrap();
    assert_eq!(found(folder.path(), &needles), Vec::<String>::new());
}

#[tokio::test]
async fn a_second_opening_is_refused() {
    let folder = Folder::new();
    let store = open(folder.path()).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Locked(_)), "{error:?}");
    assert!(error.to_string().contains("in use by another process"));
    drop(store);
    open(folder.path()).unwrap();
}

#[tokio::test]
async fn a_store_older_than_its_acknowledgements_is_refused() {
    let folder = Folder::new();
    let old = Folder::new();
    let id = session_id(T0);
    let store = open(folder.path()).unwrap();
    append(&store, id, 0..5).await;
    drop(store);
    copy(&folder.path().join("engine"), &old.path().join("engine"));
    let store = open(folder.path()).unwrap();
    append(&store, id, 5..9).await;
    drop(store);
    fs::remove_dir_all(folder.path().join("engine")).unwrap();
    copy(&old.path().join("engine"), &folder.path().join("engine"));

    let error = refused(folder.path());
    let OpenError::MissingGroups(
        _,
        MissingGroups::Missing {
            first,
            last,
            acknowledged,
            ..
        },
    ) = error
    else {
        panic!("{error:?}");
    };
    // Each opening writes one group, and so does each append.
    assert_eq!((first, last, acknowledged), (7, 11, 11));
    assert!(error_text(&refused(folder.path())).contains("groups 7 to 11"));
}

fn error_text(error: &dyn std::error::Error) -> String {
    let source = error.source().map(error_text).unwrap_or_default();
    format!("{error}: {source}")
}

#[tokio::test]
async fn a_store_with_a_missing_engine_or_file_is_refused() {
    for gone in ["engine", "acknowledged"] {
        let folder = Folder::new();
        let store = open(folder.path()).unwrap();
        append(&store, session_id(T0), 0..3).await;
        drop(store);
        let path = folder.path().join(gone);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        for _ in 0..2 {
            let error = refused(folder.path());
            let is_named = match gone {
                "engine" => matches!(error, OpenError::MissingGroups(..)),
                _ => matches!(error, OpenError::Unknown(_)),
            };
            assert!(is_named, "{gone}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_backup_contains_all_data_and_opens() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let copy = elsewhere.path().join("copy");
    let store = open(folder.path()).unwrap();
    let key = SecretKeys::load_or_create(folder.path()).unwrap();
    let (id, start) = (session_id(T0), start(tenant(), T0));
    append(&store, id, 0..500).await;
    store.start(new_session(&start)).await.unwrap();

    let writing = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { append(&store, id, 500..700).await })
    };
    let report = {
        let (store, copy) = (Arc::clone(&store), copy.clone());
        tokio::task::spawn_blocking(move || store.backup(&copy, &[KEY_FILE]))
            .await
            .unwrap()
            .unwrap()
    };
    writing.await.unwrap();
    assert!(
        report.rows > 1_000 && report.group_number >= 502,
        "{report:?}"
    );
    assert!(matches!(
        store.backup(&copy, &[KEY_FILE]),
        Err(BackupError::NotEmpty(_))
    ));
    assert_eq!(store.count(id).await.unwrap(), 700);

    let restored = open(&copy).unwrap();
    let count = restored.count(id).await.unwrap();
    assert!((500..=700).contains(&count), "{count}");
    for entry in restored.read(id, 0, 1_000).await.unwrap() {
        assert_eq!(entry.batch, batch(entry.seq));
    }
    assert!(restored.find(start.session_id).await.unwrap().is_some());
    append(&restored, id, count..count + 3).await;
    let restored_key = SecretKeys::load_or_create(&copy).unwrap();
    assert_eq!(restored_key.writing().bytes(), key.writing().bytes());
}

#[tokio::test]
async fn durable_batches_are_passed_to_the_hook_in_order() {
    let folder = Folder::new();
    let handed = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&handed);
    let store = EmbeddedStore::open(OpenOptions {
        reserve_bytes: porchlight_schema::limits::STORE_RESERVE_BYTES_DEFAULT,
        path: folder.path().to_path_buf(),
        on_durable: Arc::new(move |id, entry| hook.lock().unwrap().push((id, entry))),
        on_fatal: Arc::new(|_| {}),
    })
    .unwrap();
    store.unlock(&secrets()).unwrap();
    let id = session_id(T0);
    for seq in [0, 1, 1, 3, 2, 0] {
        store.append(id, seq, batch(seq), T0).await.unwrap();
        let seqs: Vec<u32> = handed
            .lock()
            .unwrap()
            .iter()
            .map(|(_, entry)| entry.seq)
            .collect();
        assert!(seqs.contains(&seq), "forwarded before it is acknowledged");
    }
    let handed = handed.lock().unwrap();
    let taken: Vec<_> = handed
        .iter()
        .map(|(_, entry)| (entry.seq, entry.batch == batch(entry.seq)))
        .collect();
    assert_eq!(taken, [(0, true), (1, true), (3, true), (2, true)]);
}

/// Many small groups arrive faster than fjall writes tables; without the store's own flushes, fjall
/// stops writing them.
#[tokio::test]
async fn memory_stays_bounded_under_a_flood_of_groups() {
    const ROW_BYTES: u32 = 4 * 1024;
    const ROWS: u32 = 40_000;
    let folder = Folder::new();
    let store = open(folder.path()).unwrap();
    let row = vec![0x5a; ROW_BYTES as usize];
    for n in 0..ROWS {
        let (key, row) = ([&[0xfd][..], &n.to_be_bytes()].concat(), row.clone());
        let write = store.committer().run(1, Durability::Buffered, move |txn| {
            txn.put(Space::Journal, key, row);
            Ok(())
        });
        write.await.unwrap();
    }
    let bound = 120_000_000;
    assert!(u64::from(ROW_BYTES * ROWS) > bound);
    let held = store.memtables_bytes();
    assert!(held < bound, "{held} bytes in memory");
}

/// Both stores implement the port, and the engine in memory its trait.
const _: () = {
    const fn is_store<S: porchlight_ports::Store>() {}
    const fn is_engine<E: Engine>() {}
    is_store::<EmbeddedStore>();
    is_store::<MemoryStore>();
    is_engine::<porchlight_store::engine::memory::MemoryEngine>();
};

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
