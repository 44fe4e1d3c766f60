//! Tests the files of data keys: destruction, damage and the root key.

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("porchlight-data-keys-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn secrets(first: u8, others: &[u8]) -> StoreSecrets {
    let secret = |byte: u8| Zeroizing::new([byte; KEY_BYTES]);
    StoreSecrets {
        first: secret(first),
        others: others.iter().copied().map(secret).collect(),
    }
}

fn key(keys: &DataKeys, number: u64) -> Option<Secret> {
    match keys.find(number).unwrap() {
        FoundKey::Key(key) => Some(key),
        FoundKey::Destroyed => None,
        FoundKey::Damaged => panic!("key {number} is damaged"),
    }
}

#[test]
fn a_destroyed_key_is_gone_for_good_and_its_neighbours_stay() {
    let folder = Folder::new("destroyed");
    let open = || DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
    let keys = open();
    keys.create_file(7).unwrap();
    let before = [6, 7, 8].map(|number| key(&keys, number).unwrap());
    assert_ne!(before[0], before[1]);
    keys.destroy(7).unwrap();
    keys.sync(&[7], 9).unwrap();
    for keys in [keys, open()] {
        assert_eq!(key(&keys, 6).as_ref(), Some(&before[0]));
        assert_eq!(key(&keys, 7), None);
        assert_eq!(key(&keys, 8).as_ref(), Some(&before[2]));
    }
}

#[test]
fn a_file_shrinks_when_all_of_its_keys_are_destroyed() {
    let folder = Folder::new("shrinks");
    let keys = DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
    keys.create_file(0).unwrap();
    let all: Vec<u64> = (0..DATA_KEYS_PER_FILE).collect();
    for &number in &all {
        keys.destroy(number).unwrap();
    }
    keys.sync(&all, DATA_KEYS_PER_FILE - 1).unwrap();
    let bytes = || std::fs::metadata(keys.path(0)).unwrap().len();
    assert!(bytes() > 1_000, "the file still has unused keys");
    keys.sync(&all, DATA_KEYS_PER_FILE).unwrap();
    assert_eq!(bytes(), ALL_DESTROYED.len() as u64);
    assert_eq!(key(&keys, 5), None);
    keys.destroy(5).unwrap();
}

#[test]
fn lost_and_damaged_files_do_not_count_as_destroyed_keys() {
    let folder = Folder::new("damaged");
    let keys = DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
    keys.create_file(0).unwrap();
    assert!(matches!(
        keys.find(DATA_KEYS_PER_FILE).unwrap(),
        FoundKey::Damaged
    ));
    std::fs::write(keys.path(0), b"").unwrap();
    assert!(matches!(keys.find(3).unwrap(), FoundKey::Damaged));
}

#[test]
fn the_root_key_follows_the_writing_secret_and_needs_a_known_one() {
    let folder = Folder::new("root");
    let open = |secrets: StoreSecrets, is_sealed| DataKeys::open(&folder.0, &secrets, is_sealed);
    let missing = open(secrets(1, &[]), true);
    assert!(matches!(missing, Err(DataKeysError::Missing(_))));
    let keys = open(secrets(1, &[]), false).unwrap();
    keys.create_file(0).unwrap();
    let before = key(&keys, 0);
    let other = open(secrets(2, &[3]), true);
    assert!(matches!(other, Err(DataKeysError::OtherSecret(_))));
    // A new secret writes, and the old one still opens the root key. Opening alone changes nothing.
    let both = secrets(2, &[1]);
    assert_eq!(key(&open(both.clone(), true).unwrap(), 0), before);
    let opened = open(secrets(1, &[]), true).unwrap();
    opened.reseal(&both).unwrap();
    // The store no longer needs the old secret.
    assert_eq!(key(&open(secrets(2, &[]), true).unwrap(), 0), before);
    assert!(open(secrets(1, &[]), true).is_err());
}

#[test]
fn a_cut_file_loses_only_the_keys_behind_the_cut() {
    let folder = Folder::new("cut");
    let keys = DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
    keys.create_file(0).unwrap();
    let file = File::options().write(true).open(keys.path(0)).unwrap();
    file.set_len(100 * KEY_BYTES as u64).unwrap();
    assert!(matches!(keys.find(100).unwrap(), FoundKey::Damaged));
    // The keys before the cut can still be used, so they must be destroyed.
    keys.destroy(5).unwrap();
    assert_eq!(key(&keys, 5), None);
    assert!(key(&keys, 6).is_some());
    // The lost keys are not destroyed, although the file now has no other ones.
    let all: Vec<u64> = (0..DATA_KEYS_PER_FILE).collect();
    for &number in &all {
        keys.destroy(number).unwrap();
    }
    keys.sync(&all, 2 * DATA_KEYS_PER_FILE).unwrap();
    assert!(matches!(keys.find(100).unwrap(), FoundKey::Damaged));
    file.set_len(0).unwrap();
    keys.sync(&[1], 2 * DATA_KEYS_PER_FILE).unwrap();
    assert!(matches!(keys.find(1).unwrap(), FoundKey::Damaged));
}

#[test]
fn remains_of_interrupted_writes_are_removed() {
    let folder = Folder::new("leftovers");
    let open = || DataKeys::open(&folder.0, &secrets(1, &[]), false).unwrap();
    let before = {
        let keys = open();
        keys.create_file(0).unwrap();
        key(&keys, 0)
    };
    let leftovers = ["root.next", "00000001.keys.1", "root.next.1"];
    for name in leftovers {
        std::fs::write(folder.0.join(KEYS_FOLDER).join(name), b"half").unwrap();
    }
    let keys = open();
    assert_eq!(key(&keys, 0), before);
    for name in leftovers {
        assert!(!folder.0.join(KEYS_FOLDER).join(name).exists(), "{name}");
    }
}
