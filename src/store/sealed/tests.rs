//! Tests the engine that seals the rows of sessions.

mod damage;
mod fixture;
mod purge;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;
use proptest::prelude::*;
use zeroize::Zeroizing;

use super::owner::is_start;
use super::*;
use crate::continuity;
use crate::engine::memory::MemoryEngine;
use crate::tables::{Key, journal, sessions};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("porchlight-sealed-{number}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self, inner: &MemoryEngine) -> SealedEngine<MemoryEngine> {
        let engine = SealedEngine::new(inner.clone());
        engine
            .unlock(&self.0, &secrets(), StoreFormat::NEWEST)
            .unwrap();
        engine
    }

    fn keys(&self) -> PathBuf {
        self.0.join(KEYS_FOLDER).join("00000000.keys")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn secrets() -> StoreSecrets {
    StoreSecrets {
        first: Zeroizing::new([5; 32]),
        others: Vec::new(),
    }
}

fn session(number: u128) -> SessionId {
    SessionId::new(TimestampMs(1_763_636_100_000), number)
}

fn start_row(number: u128) -> (Space, Vec<u8>) {
    (Space::State, sessions::start_key(session(number)))
}

fn batch_row(number: u128, seq: u32) -> (Space, Vec<u8>) {
    (Space::Journal, journal::key(session(number), seq))
}

fn place_row() -> (Space, Vec<u8>) {
    (Space::State, Key::of(b'w').bytes(&[7; 32]).build())
}

fn key_row() -> (Space, Vec<u8>) {
    (Space::State, Key::of(b'k').bytes(&[9; 32]).build())
}

fn put((space, key): (Space, Vec<u8>), payload: &[u8], group_number: u64) -> Write {
    let value = Some(record::with_checksum(
        space,
        &key,
        payload.to_vec(),
        group_number,
    ));
    Write { space, key, value }
}

fn delete((space, key): (Space, Vec<u8>)) -> Write {
    Write {
        space,
        key,
        value: None,
    }
}

fn apply(engine: &impl Engine, writes: Vec<Write>) {
    engine.apply(writes, Durability::Synced).unwrap();
}

/// Returns the payload of a row, or `None` if it does not exist. Panics if it is damaged.
fn payload(engine: &impl Engine, (space, key): &(Space, Vec<u8>)) -> Option<Vec<u8>> {
    let value = engine.get(*space, key).unwrap()?;
    Some(record::verified(*space, key, value).unwrap().0)
}

/// Returns every row of an engine, as stored.
fn rows(inner: &MemoryEngine) -> Vec<Write> {
    let mut rows = Vec::new();
    let everything = KeyRange {
        from: Vec::new(),
        to: Vec::new(),
    };
    for space in Space::ALL {
        let scanned = inner.scan(space, &everything, Order::Ascending, &mut |key, value| {
            rows.push(Write {
                space,
                key: key.to_vec(),
                value: Some(value.to_vec()),
            });
            ControlFlow::Continue(())
        });
        scanned.unwrap();
    }
    rows
}

#[test]
fn rows_with_personal_data_are_sealed_and_read_back() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let sealed = [start_row(1), batch_row(1, 0), place_row(), batch_row(2, 0)];
    let plain = key_row();
    let street = b"Knochenhauergasse";
    let mut writes: Vec<_> = sealed
        .iter()
        .map(|row| put(row.clone(), street, 1))
        .collect();
    writes.push(put(plain.clone(), street, 1));
    apply(&folder.open(&inner), writes);
    for engine in [folder.open(&inner), folder.open(&inner)] {
        for row in sealed.iter().chain([&plain]) {
            assert_eq!(payload(&engine, row).as_deref(), Some(street.as_slice()));
        }
    }
    for (space, key) in sealed {
        let stored = inner.get(space, &key).unwrap().unwrap();
        // The checksum holds without the keys.
        assert!(record::is_sound(space, &key, &stored));
        assert!(!stored.windows(8).any(|bytes| bytes == &street[..8]));
    }
    assert_eq!(payload(&inner, &plain).as_deref(), Some(street.as_slice()));
    let mut seen = 0;
    let range = KeyRange::prefix([b'j']);
    let opened = folder.open(&inner);
    let scanned = opened.scan(
        Space::Journal,
        &range,
        Order::Descending,
        &mut |key, value| {
            let (payload, group_number) =
                record::verified(Space::Journal, key, value.to_vec()).unwrap();
            assert_eq!((payload.as_slice(), group_number), (street.as_slice(), 1));
            seen += 1;
            ControlFlow::Continue(())
        },
    );
    scanned.unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn a_removed_session_is_unreadable_in_every_copy_of_its_rows() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    for number in [1, 2] {
        apply(&engine, vec![put(start_row(number), b"start", 1)]);
        apply(&engine, vec![put(batch_row(number, 0), b"batch", 2)]);
    }
    apply(&engine, vec![put(place_row(), b"both couriers", 3)]);
    let copy = rows(&inner);
    apply(&engine, vec![delete(batch_row(1, 0))]);
    apply(&engine, vec![delete(start_row(1))]);
    apply(&engine, vec![put(place_row(), b"one courier", 4)]);
    engine.purge().unwrap();
    // The files of the engine from before the removal, with the keys from after it.
    let old = MemoryEngine::new();
    apply(&old, copy);
    let old = folder.open(&old);
    for row in [start_row(1), batch_row(1, 0), place_row()] {
        assert_eq!(payload(&old, &row), None);
    }
    assert_eq!(
        payload(&old, &start_row(2)).as_deref(),
        Some(b"start".as_slice())
    );
    assert_eq!(
        payload(&old, &batch_row(2, 0)).as_deref(),
        Some(b"batch".as_slice())
    );
    assert_eq!(
        payload(&engine, &place_row()).as_deref(),
        Some(b"one courier".as_slice())
    );
}

#[test]
fn a_key_that_a_crash_left_is_destroyed_at_the_next_start() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    apply(&engine, vec![put(start_row(1), b"start", 1)]);
    let (copy, keys) = (rows(&inner), std::fs::read(folder.keys()).unwrap());
    apply(&engine, vec![delete(start_row(1))]);
    drop(engine);
    // The removal was durable, and the process was killed before it destroyed the key.
    std::fs::write(folder.keys(), keys).unwrap();
    let engine = folder.open(&inner);
    apply(&engine, continuity::markers(3).into());
    let old = MemoryEngine::new();
    apply(&old, copy);
    assert_eq!(payload(&folder.open(&old), &start_row(1)), None);
    // Its bookkeeping row goes with the next batch after the key's file is synced.
    let count = || {
        let rows = rows(&inner);
        let left = rows.iter().filter(|row| row.key.starts_with(TO_DESTROY));
        left.count()
    };
    assert_eq!(count(), 1);
    engine.purge().unwrap();
    apply(&engine, continuity::markers(4).into());
    assert_eq!(count(), 0);
}

#[test]
fn a_removal_that_may_be_lost_destroys_no_key() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    apply(&engine, vec![put(start_row(1), b"start", 1)]);
    engine
        .apply(vec![delete(start_row(1))], Durability::Buffered)
        .unwrap();
    let after = inner.after_power_loss();
    assert!(payload(&folder.open(&after), &start_row(1)).is_some());
    // A later synced batch makes the removal durable.
    apply(&engine, continuity::markers(3).into());
    assert_eq!(payload(&folder.open(&after), &start_row(1)), None);
}

#[test]
fn rows_of_an_earlier_version_stay_as_they_are_until_they_are_gone() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    apply(
        &inner,
        vec![put(start_row(1), b"old", 1), put(place_row(), b"old", 1)],
    );
    let engine = folder.open(&inner);
    assert_eq!(
        payload(&engine, &start_row(1)).as_deref(),
        Some(b"old".as_slice())
    );
    apply(
        &engine,
        vec![
            put(batch_row(1, 5), b"batch", 2),
            put(start_row(2), b"new", 2),
        ],
    );
    assert_eq!(
        payload(&inner, &batch_row(1, 5)).as_deref(),
        Some(b"batch".as_slice())
    );
    let has_note = || inner.get(Space::State, HAS_UNSEALED).unwrap().is_some();
    assert!(has_note());
    engine.purge().unwrap();
    apply(&engine, continuity::markers(3).into());
    assert!(has_note(), "rows of an earlier version are left");
    apply(
        &engine,
        vec![
            delete(batch_row(1, 5)),
            delete(start_row(1)),
            put(place_row(), b"new", 4),
        ],
    );
    let engine = folder.open(&inner);
    engine.purge().unwrap();
    apply(&engine, continuity::markers(5).into());
    assert!(!has_note());
    assert_eq!(
        payload(&engine, &place_row()).as_deref(),
        Some(b"new".as_slice())
    );
}

#[test]
fn a_locked_engine_serves_other_rows_only() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    apply(&folder.open(&inner), vec![put(start_row(1), b"start", 1)]);
    let locked = SealedEngine::new(inner.clone());
    assert!(locked.get(Space::State, &start_row(1).1).is_err());
    assert!(
        locked
            .apply(vec![put(start_row(2), b"", 2)], Durability::Synced)
            .is_err()
    );
    assert!(
        locked
            .apply(vec![delete(start_row(1))], Durability::Synced)
            .is_err()
    );
    apply(
        &locked,
        vec![put(key_row(), b"key", 2), delete(start_row(3))],
    );
    assert_eq!(
        payload(&locked, &key_row()).as_deref(),
        Some(b"key".as_slice())
    );
    let other = StoreSecrets {
        first: Zeroizing::new([6; 32]),
        others: Vec::new(),
    };
    let refused = locked.unlock(&folder.0, &other, StoreFormat::NEWEST);
    assert!(matches!(refused, Err(DataKeysError::OtherSecret(_))));
}

#[test]
fn a_row_that_is_replaced_while_it_is_read_never_seems_absent() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    let (space, key) = place_row();
    apply(&engine, vec![put(place_row(), b"first", 1)]);
    let scanned = |order| {
        let mut seen = 0;
        let range = KeyRange::prefix([b'w']);
        let scanned = engine.scan(space, &range, order, &mut |_, _| {
            seen += 1;
            ControlFlow::Continue(())
        });
        scanned.unwrap();
        seen
    };
    std::thread::scope(|threads| {
        let writing = threads.spawn(|| {
            for group_number in 2..2_000 {
                apply(&engine, vec![put(place_row(), b"next", group_number)]);
            }
        });
        while !writing.is_finished() {
            assert!(engine.get(space, &key).unwrap().is_some());
            assert_eq!(scanned(Order::Ascending), 1);
            assert_eq!(scanned(Order::Descending), 1);
        }
    });
}

#[test]
fn a_scan_continues_after_a_row_whose_key_was_destroyed() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    for number in 1..=4 {
        apply(&engine, vec![put(start_row(number), b"start", 1)]);
    }
    let copy = rows(&inner);
    for number in [2, 3] {
        apply(&engine, vec![delete(start_row(number))]);
    }
    // A backup from before the removal, with the keys from after it.
    let old = MemoryEngine::new();
    apply(&old, copy);
    let old = folder.open(&old);
    for (order, expected) in [(Order::Ascending, [1, 4]), (Order::Descending, [4, 1])] {
        let mut found = Vec::new();
        let range = KeyRange::prefix([b's']);
        let scanned = old.scan(Space::State, &range, order, &mut |key, _| {
            found.push(key.to_vec());
            ControlFlow::Continue(())
        });
        scanned.unwrap();
        assert_eq!(found, expected.map(|number| start_row(number).1));
    }
}

#[test]
fn a_recorder_keeps_its_key_until_it_is_removed() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    let recorder = (Space::State, Key::of(b'R').bytes(&[3; 16]).build());
    let number = || key_number(&inner.get(recorder.0, &recorder.1).unwrap().unwrap()).unwrap();
    apply(&engine, vec![put(recorder.clone(), b"first", 1)]);
    let first = number();
    for group_number in 2..100 {
        apply(&engine, vec![put(recorder.clone(), b"next", group_number)]);
        assert_eq!(number(), first);
    }
    assert_eq!(
        payload(&engine, &recorder).as_deref(),
        Some(b"next".as_slice())
    );
    let copy = rows(&inner);
    apply(&engine, vec![delete(recorder.clone())]);
    let old = MemoryEngine::new();
    apply(&old, copy);
    assert_eq!(payload(&folder.open(&old), &recorder), None);
}

#[derive(Debug, Clone)]
enum Act {
    Put(usize, u8),
    Delete(usize),
    Reopen,
    PowerLoss,
}

fn act() -> impl Strategy<Value = (Act, bool)> {
    let act = prop_oneof![
        5 => (0..8_usize, any::<u8>()).prop_map(|(row, byte)| Act::Put(row, byte)),
        3 => (0..8_usize).prop_map(Act::Delete),
        1 => Just(Act::Reopen),
        1 => Just(Act::PowerLoss),
    ];
    (act, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any writes, restarts and power losses, a sealed engine reads like an engine that seals
    /// nothing.
    #[test]
    fn reads_like_an_engine_that_seals_nothing(acts in prop::collection::vec(act(), 1..40)) {
        let table = [
            start_row(1), batch_row(1, 0), batch_row(1, 1), start_row(2), batch_row(2, 0), place_row(), key_row(),
            batch_row(3, 0),
        ];
        let folder = Folder::new();
        let (mut inner, mut model) = (MemoryEngine::new(), MemoryEngine::new());
        let mut engine = folder.open(&inner);
        for (group_number, (act, is_synced)) in (1..).zip(acts) {
            let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
            let write = match act {
                Act::Put(row, byte) => put(table[row].clone(), &[byte; 20], group_number),
                Act::Delete(row) => delete(table[row].clone()),
                Act::Reopen => {
                    engine = folder.open(&inner);
                    continue;
                }
                Act::PowerLoss => {
                    (inner, model) = (inner.after_power_loss(), model.after_power_loss());
                    engine = folder.open(&inner);
                    continue;
                }
            };
            // A session's rows are removed before its start, as the tables do.
            let (space, key) = (write.space, write.key.clone());
            let mut writes = vec![write];
            if is_start(space, &key) && writes[0].value.is_none() {
                let rest = table.iter().filter(|row| row.0 == Space::Journal && row.1[1..17] == key[1..17]);
                writes.extend(rest.cloned().map(delete));
            }
            engine.apply(writes.clone(), durability).unwrap();
            model.apply(writes, durability).unwrap();
            for row in &table {
                prop_assert_eq!(payload(&engine, row), payload(&model, row), "{:?}", row);
            }
        }
    }
}
