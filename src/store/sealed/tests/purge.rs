//! Tests that a purge destroys the keys of all rows that were removed before.

use super::*;

#[test]
fn a_purge_destroys_the_keys_of_removals_that_were_not_durable() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    apply(&engine, vec![put(start_row(1), b"start", 1)]);
    let copy = rows(&inner);
    engine
        .apply(vec![delete(start_row(1))], Durability::Buffered)
        .unwrap();
    engine.purge().unwrap();
    let old = MemoryEngine::new();
    apply(&old, copy);
    assert_eq!(payload(&folder.open(&old), &start_row(1)), None);
    // A removal that a purge reported as final survives a power loss.
    let after = folder.open(&inner.after_power_loss());
    assert_eq!(payload(&after, &start_row(1)), None);
}

#[test]
fn a_purge_that_failed_is_repeated_with_the_same_keys() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    let sessions = [1, 2];
    for number in sessions {
        apply(&engine, vec![put(start_row(number), b"start", 1)]);
    }
    let copy = rows(&inner);
    for number in sessions {
        let removal = vec![delete(start_row(number))];
        engine.apply(removal, Durability::Buffered).unwrap();
    }
    // A folder in the place of the file cannot be written.
    let aside = folder.0.join("aside");
    std::fs::rename(folder.keys(), &aside).unwrap();
    std::fs::create_dir(folder.keys()).unwrap();
    assert!(engine.purge().is_err());
    std::fs::remove_dir(folder.keys()).unwrap();
    std::fs::rename(&aside, folder.keys()).unwrap();
    engine.purge().unwrap();
    let old = MemoryEngine::new();
    apply(&old, copy);
    let old = folder.open(&old);
    for number in sessions {
        assert_eq!(payload(&old, &start_row(number)), None, "session {number}");
    }
}

#[test]
fn rows_that_the_first_release_wrote_after_sealed_ones_are_found() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let sealed = folder.open(&inner);
    apply(&sealed, vec![put(start_row(1), b"sealed", 1)]);
    assert!(!sealed.rewrites_in_purge());
    // The first release opens the store and starts a session.
    apply(&inner, vec![put(start_row(2), b"plain", 2)]);
    assert!(
        !folder.open(&inner).rewrites_in_purge(),
        "the first release refuses a store of the newest format, so nothing is read"
    );
    let open = |format| {
        let engine = SealedEngine::new(inner.clone());
        engine.unlock(&folder.0, &secrets(), format).unwrap();
        engine
    };
    assert!(open(StoreFormat::First).rewrites_in_purge());
    // The stored note survives a crash between the note and the change of the format.
    let later = open(StoreFormat::Sealed);
    assert!(later.rewrites_in_purge());
    apply(&later, vec![delete(start_row(2))]);
    later.purge().unwrap();
    assert!(!later.rewrites_in_purge());
    assert_eq!(payload(&later, &start_row(1)).unwrap(), b"sealed");
}
