//! Tests that damaged rows, blocks and files of keys cost no other rows.

use super::*;

#[test]
fn damage_is_an_error_and_never_an_absence() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    apply(
        &engine,
        vec![
            put(start_row(1), b"start", 1),
            put(start_row(2), b"start", 1),
        ],
    );
    apply(&engine, vec![delete(start_row(2))]);
    let (space, key) = start_row(1);
    let good = inner.get(space, &key).unwrap().unwrap();
    for bit in 0..8 * good.len() {
        inner.tamper(space, &key, |value| value[bit / 8] ^= 1 << (bit % 8));
        let value = engine.get(space, &key).unwrap().unwrap();
        assert!(record::verified(space, &key, value).is_err(), "bit {bit}");
        inner.tamper(space, &key, |value| value.clone_from(&good));
    }
    assert!(payload(&engine, &start_row(1)).is_some());
    // Another row that is removed while the start is damaged takes no other session's key with it.
    inner.tamper(space, &key, |value| value[8] ^= 1);
    apply(&engine, vec![delete(start_row(1))]);
    std::fs::write(folder.keys(), vec![0; 128 * 1024]).unwrap();
    apply(&inner, vec![put(key_row(), b"", 2)]);
    let engine = folder.open(&inner);
    inner.tamper(space, &key, |value| value.clone_from(&good));
    apply(
        &inner,
        vec![Write {
            space,
            key: key.clone(),
            value: Some(good),
        }],
    );
    let value = engine.get(space, &key).unwrap().unwrap();
    assert!(
        record::verified(space, &key, value).is_err(),
        "zeros are not destroyed keys"
    );
}

#[test]
fn no_key_is_used_twice_when_the_count_is_damaged_or_lost() {
    for is_lost in [false, true] {
        let (folder, inner) = (Folder::new(), MemoryEngine::new());
        apply(&folder.open(&inner), vec![put(start_row(1), b"start", 1)]);
        if is_lost {
            apply(&inner, vec![delete((Space::State, NEXT.to_vec()))]);
        } else {
            inner.tamper(Space::State, NEXT, |value| value[1] ^= 1);
        }
        let engine = folder.open(&inner);
        apply(&engine, vec![put(start_row(2), b"start", 2)]);
        apply(&engine, vec![delete(start_row(2))]);
        assert!(payload(&engine, &start_row(1)).is_some());
    }
}

#[test]
fn lost_key_files_do_not_stop_the_store() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    apply(&engine, vec![put(start_row(1), b"start", 1)]);
    std::fs::write(folder.keys(), b"cut").unwrap();
    let engine = folder.open(&inner);
    // A batch of the session whose key is damaged, and a new session.
    apply(&engine, vec![put(batch_row(1, 1), b"batch", 2)]);
    apply(&engine, vec![put(start_row(2), b"start", 3)]);
    assert!(payload(&engine, &batch_row(1, 1)).is_some());
    assert!(payload(&engine, &start_row(2)).is_some());
    std::fs::remove_file(folder.keys()).unwrap();
    apply(&engine, vec![delete(start_row(1))]);
    engine.purge().unwrap();
    assert!(payload(&engine, &start_row(2)).is_some());
}

/// An engine with a damaged block, in which no row of one table can be read.
struct Damaged(MemoryEngine, u8);

impl Engine for Damaged {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        if key.first() == Some(&self.1) {
            return Err(EngineError::Damaged("a test damaged it".to_owned()));
        }
        self.0.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        self.0.scan(space, range, order, visit)
    }

    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError> {
        self.0.apply(writes, durability)
    }

    fn acknowledge(&self, group_number: u64) -> Result<(), EngineError> {
        self.0.acknowledge(group_number)
    }

    fn rotate(&self) -> Result<(), EngineError> {
        self.0.rotate()
    }

    fn purge(&self) -> Result<(), EngineError> {
        self.0.purge()
    }

    fn close(&self) -> Result<(), EngineError> {
        self.0.close()
    }
}

#[test]
fn a_damaged_block_refuses_no_batch() {
    for table in [b's', b'w'] {
        let (folder, inner) = (Folder::new(), MemoryEngine::new());
        let written = [
            put(start_row(1), b"start", 1),
            put(place_row(), b"place", 1),
        ];
        apply(&folder.open(&inner), written.to_vec());
        let engine = SealedEngine::new(Damaged(inner.clone(), table));
        engine
            .unlock(&folder.0, &secrets(), StoreFormat::NEWEST)
            .unwrap();
        // Retention removes the rows of an unreadable session; a new insight replaces those of a
        // place.
        apply(&engine, vec![delete(batch_row(1, 0)), delete(start_row(1))]);
        apply(&engine, vec![put(place_row(), b"place", 2)]);
        apply(&engine, vec![put(start_row(2), b"start", 3)]);
    }
}
