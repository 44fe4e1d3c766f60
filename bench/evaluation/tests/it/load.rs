//! Loads labelled recordings from the folder next to the project.

#![expect(
    clippy::unwrap_used,
    reason = "a test reads files, and stops where it cannot"
)]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use porchlight_evaluation::{Detected, Recording};
use porchlight_schema::sample::Kind;

/// Returns the folder of the recordings, or `None` if this machine does not have them.
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/recordings");
    let folder = std::env::var_os("PORCHLIGHT_RECORDINGS").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// Returns the names of the recordings that begin with `prefix`, in order.
pub(crate) fn names(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".ndjson.gz").map(str::to_owned))
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Reads a recording.
pub(crate) fn load(folder: &Path, name: &str) -> Recording {
    let labels = std::fs::read(folder.join(format!("{name}.labels.json"))).unwrap();
    let packed = std::fs::read(folder.join(format!("{name}.ndjson.gz"))).unwrap();
    let mut lines = Vec::new();
    GzDecoder::new(packed.as_slice())
        .read_to_end(&mut lines)
        .unwrap();
    Recording::read(name, &labels, lines.split(|&byte| byte == b'\n')).unwrap()
}

/// Runs a recording without the kinds in `without`.
pub(crate) fn run(recording: &Recording, without: &[Kind]) -> Vec<Detected> {
    recording.detect(without).unwrap()
}
