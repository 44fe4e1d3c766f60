//! Reads the sealed rows of an earlier build: a change of the keys, or of the form of a sealed row,
//! would make the sessions of every store unreadable.
//!
//! `tests/fixtures/sealed`, written on 28 November 2026, holds the files of the keys and the rows as
//! the engine stores them. It is never changed. This command wrote it:
//!
//! ```sh
//! PORCHLIGHT_FIXTURES=$PWD/tests/fixtures/sealed cargo test -p porchlight-store writes_the_fixture -- --ignored
//! ```

use std::fmt::Write as _;
use std::path::Path;

use porchlight_schema::hex;

use super::*;
use crate::sealed::key_folder::KEY_BYTES;

/// The number of keys that the fixture keeps of the first file.
const KEYS: usize = 8;
const PAYLOAD: &[u8] = b"12 High St";

fn kept() -> [(Space, Vec<u8>); 3] {
    [start_row(1), batch_row(1, 0), place_row()]
}

/// The rows of a session that was erased.
fn erased() -> [(Space, Vec<u8>); 2] {
    [start_row(2), batch_row(2, 0)]
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Parses a row: the space, the key and the stored value, both in hexadecimal digits.
fn row(line: &str) -> Write {
    let mut fields = line.split(' ');
    let name = fields.next().unwrap();
    let space = Space::ALL.into_iter().find(|space| space.as_str() == name);
    Write {
        space: space.unwrap(),
        key: bytes(fields.next().unwrap()),
        value: Some(bytes(fields.next().unwrap())),
    }
}

#[test]
fn the_rows_that_an_earlier_build_sealed_are_read() {
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/sealed");
    std::fs::create_dir(folder.0.join(KEYS_FOLDER)).unwrap();
    for file in ["root", "00000000.keys"] {
        let file = Path::new(KEYS_FOLDER).join(file);
        std::fs::copy(fixture.join(&file), folder.0.join(&file)).unwrap();
    }
    let rows = std::fs::read_to_string(fixture.join("rows.txt")).unwrap();
    apply(&inner, rows.lines().map(row).collect());
    let engine = folder.open(&inner);
    for row in &kept() {
        let value = inner.get(row.0, &row.1).unwrap().unwrap();
        assert!(key_number(&value).is_some(), "the row is sealed");
        assert_eq!(payload(&engine, row).as_deref(), Some(PAYLOAD));
    }
    for row in &erased() {
        assert!(inner.get(row.0, &row.1).unwrap().is_some());
        assert_eq!(payload(&engine, row), None);
    }
}

#[test]
#[ignore = "writes the fixture into the folder that PORCHLIGHT_FIXTURES names"]
fn writes_the_fixture() {
    let into = PathBuf::from(std::env::var_os("PORCHLIGHT_FIXTURES").unwrap());
    let (folder, inner) = (Folder::new(), MemoryEngine::new());
    let engine = folder.open(&inner);
    let all = kept().into_iter().chain(erased());
    apply(&engine, all.map(|row| put(row, PAYLOAD, 1)).collect());
    let before = rows(&inner);
    apply(&engine, erased().map(delete).into());
    let is_erased = |row: &Write| {
        let row = (row.space, row.key.clone());
        erased().contains(&row)
    };
    let after = rows(&inner).into_iter();
    // A file that was written before the erasure still has the erased rows.
    let all = after.chain(before.into_iter().filter(is_erased));
    let mut text = String::new();
    for Write { space, key, value } in all {
        let (key, value) = (hex::encode(&key), hex::encode(&value.unwrap()));
        writeln!(text, "{} {key} {value}", space.as_str()).unwrap();
    }
    let keys = into.join(KEYS_FOLDER);
    std::fs::create_dir_all(&keys).unwrap();
    std::fs::write(into.join("rows.txt"), text).unwrap();
    let root = folder.0.join(KEYS_FOLDER).join("root");
    std::fs::copy(root, keys.join("root")).unwrap();
    let file = std::fs::read(folder.keys()).unwrap();
    std::fs::write(keys.join("00000000.keys"), &file[..KEYS * KEY_BYTES]).unwrap();
}
