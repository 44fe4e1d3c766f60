//! Tests of opening the embedded store.

use std::sync::atomic::{AtomicU64, Ordering};

use porchlight_core::disk_space::DiskUsage;
use porchlight_ports::StoreError;

use super::*;
use crate::engine::Space;

fn folder(name: &str) -> PathBuf {
    let name = format!("porchlight-embedded-{name}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

fn secrets() -> StoreSecrets {
    StoreSecrets {
        first: zeroize::Zeroizing::new([5; 32]),
        others: Vec::new(),
    }
}

fn wait_for_level(store: &EmbeddedStore, level: SpaceLevel) {
    for _ in 0..600 {
        if store.committer().space() == level {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    panic!("{:?} instead of {level:?}", store.committer().space());
}

#[test]
fn a_store_opened_on_a_full_disk_reads_and_accepts_writes_once_there_is_space() {
    let path = folder("full");
    let row = || vec![0xfd, 1];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let put = |store: &EmbeddedStore, n: u8| {
        let write = store.committer().write_for_client(move |txn| {
            txn.put(Space::State, row(), vec![n]);
            Ok(())
        });
        runtime.block_on(write)
    };
    let read = |store: &EmbeddedStore| {
        let found = store.read_inline(|read| read.get(Space::State, &row()));
        found.unwrap().unwrap()
    };
    {
        let store = EmbeddedStore::open_for_command(&path).unwrap();
        // All rows of this store are sealed, so a purge rewrites no files.
        store.unlock(&secrets()).unwrap();
        put(&store, 1).unwrap();
    }
    let free_bytes = Arc::new(AtomicU64::new(0));
    let measured = Arc::clone(&free_bytes);
    let measure = move || {
        Some(DiskUsage {
            free_bytes: measured.load(Ordering::Relaxed),
            total_bytes: 1 << 40,
        })
    };
    let disk = Disk::measured_by(Box::new(measure), 1 << 30);
    let options = OpenOptions {
        path: path.clone(),
        reserve_bytes: 1 << 30,
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|reason| panic!("{reason}")),
    };
    let store = EmbeddedStore::open_on_disk(options, disk).unwrap();
    store.unlock(&secrets()).unwrap();
    let purge = || runtime.block_on(porchlight_ports::Erasure::purge(store.as_ref()));
    let group = || Acknowledged::open(&path).unwrap().unwrap().number();
    let before = group();
    assert_eq!(read(&store), [1]);
    assert!(matches!(put(&store, 2), Err(StoreError::Full)));
    let service = store.committer().write(|_| Ok(()));
    assert!(matches!(runtime.block_on(service), Err(StoreError::Full)));
    assert!(matches!(purge(), Err(StoreError::Full)));
    assert_eq!(group(), before, "the store has written nothing");

    free_bytes.store(1 << 29, Ordering::Relaxed);
    wait_for_level(&store, SpaceLevel::Low);
    assert!(matches!(put(&store, 2), Err(StoreError::Full)));
    let service = store.committer().write(|txn| {
        txn.put(Space::State, vec![0xfd, 2], vec![2]);
        Ok(())
    });
    runtime.block_on(service).unwrap();
    purge().unwrap();

    free_bytes.store(1 << 31, Ordering::Relaxed);
    wait_for_level(&store, SpaceLevel::Plenty);
    put(&store, 3).unwrap();
    assert_eq!(read(&store), [3]);
    store.flush_tables().unwrap();
    drop(store);
    assert_eq!(read(&EmbeddedStore::open_for_command(&path).unwrap()), [3]);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn an_interrupted_first_start_starts_again() {
    let path = folder("cut-off");
    let (engine, file) = (path.join(ENGINE_FOLDER), path.join(acknowledged::NAME));
    // Three states of an interrupted first start: a journal without the version file, no
    // engine, and an empty file of the acknowledged group.
    let journal = || {
        drop(Acknowledged::create(&path, 0, StoreFormat::First).unwrap());
        std::fs::create_dir_all(&engine).unwrap();
        std::fs::write(engine.join("0.jnl"), [0; 64]).unwrap();
    };
    let number = || drop(Acknowledged::create(&path, 0, StoreFormat::First).unwrap());
    let empty = || std::fs::write(&file, "").unwrap();
    let cuts: [&dyn Fn(); 3] = [&journal, &number, &empty];
    for cut in cuts {
        std::fs::create_dir_all(&path).unwrap();
        cut();
        drop(EmbeddedStore::open_for_command(&path).unwrap());
        // A store that has acknowledged something is refused when it has lost that file.
        std::fs::remove_file(engine.join(ENGINE_VERSION)).unwrap();
        assert!(EmbeddedStore::open_for_command(&path).is_err());
        assert!(
            engine.join("0.jnl").exists(),
            "the start removes no journal"
        );
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_store_of_a_later_release_is_refused_and_stays_as_it_is() {
    let path = folder("later");
    drop(EmbeddedStore::open_for_command(&path).unwrap());
    let file = path.join(acknowledged::NAME);
    let mut bytes = std::fs::read(&file).unwrap();
    for slot in [0, bytes.len() - 16] {
        bytes[slot + 3] = b'9';
        let checksum = crc32fast::hash(&bytes[slot..slot + 12]).to_be_bytes();
        bytes[slot + 12..slot + 16].copy_from_slice(&checksum);
    }
    std::fs::write(&file, &bytes).unwrap();
    let opened = EmbeddedStore::open_for_command(&path);
    assert!(matches!(opened, Err(OpenError::Newer(_))));
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_store_of_the_first_release_takes_the_newest_format_with_its_data_keys() {
    let path = folder("first");
    drop(EmbeddedStore::open_for_command(&path).unwrap());
    drop(Acknowledged::create(&path, 1, StoreFormat::First).unwrap());
    let format = || Acknowledged::open(&path).unwrap().unwrap().format();
    let store = EmbeddedStore::open_for_command(&path).unwrap();
    assert_eq!(
        format(),
        StoreFormat::First,
        "the store seals nothing before its keys are open"
    );
    store.unlock(&secrets()).unwrap();
    assert_eq!(format(), StoreFormat::Sealed);
    drop(store);
    let store = EmbeddedStore::open_for_command(&path).unwrap();
    assert_eq!(format(), StoreFormat::Sealed);
    drop(store);
    std::fs::remove_dir_all(&path).unwrap();
}
