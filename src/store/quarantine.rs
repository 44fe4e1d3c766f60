//! The file next to the store to which damaged rows are moved.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use porchlight_schema::ids::SessionId;
use porchlight_world::private_file::sync_folder;

/// The name of the file.
pub(crate) const QUARANTINE_FILE: &str = "quarantined.tsv";
/// Held while the file is written.
static WRITING: Mutex<()> = Mutex::new(());

/// Appends a line durably to the file. It begins a new line if an interrupted append has left a part
/// of one.
pub(crate) fn append(file: &Path, line: &str) -> io::Result<()> {
    let _only = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut open = private(OpenOptions::new().read(true).append(true)).open(file)?;
    let mut last = *b"\n";
    if let Some(end) = open.metadata()?.len().checked_sub(1) {
        open.read_exact_at(&mut last, end)?;
    }
    let separator = if last == *b"\n" { "" } else { "\n" };
    open.write_all(format!("{separator}{line}").as_bytes())?;
    open.sync_all()?;
    file.parent().map_or(Ok(()), sync_folder)
}

/// Removes the rows of an erased session from the file in the store's folder: all lines that contain
/// its id, because damage or an interrupted append may have moved the columns.
pub(crate) fn remove(folder: &Path, session_id: SessionId) -> io::Result<()> {
    let file = folder.join(QUARANTINE_FILE);
    let _only = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let content = match std::fs::read(&file) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let id = session_id.to_string();
    let is_about = |line: &[u8]| line.windows(id.len()).any(|part| part == id.as_bytes());
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    let kept: Vec<_> = lines.filter(|line| !is_about(line)).collect();
    let kept = kept.concat();
    if kept.len() == content.len() {
        return Ok(());
    }
    let staged = folder.join(format!("{QUARANTINE_FILE}.new"));
    let mut written = private(OpenOptions::new().write(true).truncate(true)).open(&staged)?;
    written.write_all(&kept)?;
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
    use std::path::PathBuf;

    use porchlight_schema::time::TimestampMs;

    use super::*;

    /// Creates an empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let name = format!("porchlight-quarantine-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn id(number: u128) -> SessionId {
        SessionId::new(TimestampMs(5), number)
    }

    fn line(number: u128) -> String {
        format!("session\t{}\tstate\t00\t01\tdamaged\n", id(number))
    }

    #[test]
    fn only_the_rows_of_the_session_are_removed() {
        let folder = folder("rows");
        let file = folder.join(QUARANTINE_FILE);
        let (erased, kept) = (1, 2);
        remove(&folder, id(erased)).unwrap();
        for number in [erased, kept, erased] {
            append(&file, &line(number)).unwrap();
        }
        remove(&folder, id(erased)).unwrap();
        let left = std::fs::read_to_string(&file).unwrap();
        assert_eq!(left.lines().count(), 1);
        assert!(left.contains(&id(kept).to_string()), "{left}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn damage_in_the_file_prevents_no_removal() {
        let folder = folder("damage");
        let file = folder.join(QUARANTINE_FILE);
        let damaged = [line(1).as_bytes(), b"session\t\xff\n"].concat();
        std::fs::write(&file, damaged).unwrap();
        remove(&folder, id(1)).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"session\t\xff\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_row_after_an_interrupted_append_is_a_line_of_its_own() {
        let folder = folder("interrupted");
        let file = folder.join(QUARANTINE_FILE);
        let part = format!("session\t{}\tsta", id(1));
        std::fs::write(&file, &part).unwrap();
        append(&file, &line(2)).unwrap();
        append(&file, &line(3)).unwrap();
        let content = std::fs::read_to_string(&file).unwrap();
        assert_eq!(content, format!("{part}\n{}{}", line(2), line(3)));
        // An earlier release did not begin a new line.
        std::fs::write(&file, format!("{part}{}{}", line(2), line(3))).unwrap();
        remove(&folder, id(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), line(3));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
