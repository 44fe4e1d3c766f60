//! The file next to the store to which damaged rows are moved.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;
use porchlight_world::private_file::sync_folder;

/// The name of the file.
pub(crate) const QUARANTINE_FILE: &str = "quarantined.tsv";
/// Held while the file is written.
static WRITING: Mutex<()> = Mutex::new(());

/// Appends a line durably to the file.
pub(crate) fn append(file: &Path, line: &str) -> io::Result<()> {
    let _only = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut open = private(OpenOptions::new().append(true)).open(file)?;
    open.write_all(line.as_bytes())?;
    open.sync_all()?;
    file.parent().map_or(Ok(()), sync_folder)
}

/// Removes the rows of an erased session from the file in the store's folder.
pub(crate) fn remove(folder: &Path, session_id: SessionId) -> io::Result<()> {
    let file = folder.join(QUARANTINE_FILE);
    let _only = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let id = session_id.to_string();
    // The second column has the ids of the row's object.
    let is_about = |line: &str| {
        let ids = line.split('\t').nth(1);
        ids.is_some_and(|ids| ids.contains(&id))
    };
    let kept: String = text
        .split_inclusive('\n')
        .filter(|line| !is_about(line))
        .collect();
    if kept.len() == text.len() {
        return Ok(());
    }
    let staged = folder.join(format!("{QUARANTINE_FILE}.new"));
    let mut written = private(OpenOptions::new().write(true).truncate(true)).open(&staged)?;
    written.write_all(kept.as_bytes())?;
    written.sync_all()?;
    std::fs::rename(&staged, &file)?;
    sync_folder(folder)
}

/// Makes the file private to its owner when it is created.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.create(true).mode(0o600)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn only_the_rows_of_the_session_are_removed() {
        let folder =
            std::env::temp_dir().join(format!("porchlight-quarantine-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(QUARANTINE_FILE);
        let (erased, kept) = (1, 2);
        let id = |number: u128| SessionId::new(TimestampMs(5), number);
        remove(&folder, id(erased)).unwrap();
        for number in [erased, kept, erased] {
            append(
                &file,
                &format!("session\t{}\tstate\t00\t01\tdamaged\n", id(number)),
            )
            .unwrap();
        }
        remove(&folder, id(erased)).unwrap();
        let left = std::fs::read_to_string(&file).unwrap();
        assert_eq!(left.lines().count(), 1);
        assert!(left.contains(&id(kept).to_string()), "{left}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
