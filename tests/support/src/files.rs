//! Searches files for bytes.

use std::path::Path;

use memchr::memmem;

/// Returns the names of the needles that occur in any file of a folder or of its subfolders.
pub fn found(folder: &Path, needles: &[(String, Vec<u8>)]) -> Vec<String> {
    let (mut names, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // A file may be removed between the two calls.
            let bytes = std::fs::read(&path).unwrap_or_default();
            for (name, needle) in needles {
                let holds = memmem::find(&bytes, needle).is_some();
                if holds && !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
    }
    names
}
