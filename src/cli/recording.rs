//! Recordings: files with one sample per line (NDJSON), optionally compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// Opens a recording, and decompresses a file whose name ends in `.gz`.
pub(super) fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    let opened = File::open(file)?;
    Ok(
        if file.extension().is_some_and(|extension| extension == "gz") {
            Box::new(BufReader::new(MultiGzDecoder::new(opened)))
        } else {
            Box::new(BufReader::new(opened))
        },
    )
}

/// Calls `add` with each sample of a recording, in the order of the lines. It skips empty lines.
///
/// # Errors
///
/// Returns an error that names the first line that is not JSON.
pub(super) fn read_samples(file: &Path, mut add: impl FnMut(Value)) -> anyhow::Result<()> {
    for (index, line) in open(file)?.lines().enumerate() {
        let line = line?;
        if !line.trim().is_empty() {
            let sample = serde_json::from_str(&line);
            add(sample.with_context(|| format!("line {}", index + 1))?);
        }
    }
    Ok(())
}
