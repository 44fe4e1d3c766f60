//! Searches files for bytes.

use std::path::Path;

use memchr::memmem;

/// Adds the names of the needles that occur in `bytes` to `names`.
pub fn find_needles(bytes: &[u8], needles: &[(String, Vec<u8>)], names: &mut Vec<String>) {
    for (name, needle) in needles {
        if memmem::find(bytes, needle).is_some() && !names.contains(name) {
            names.push(name.clone());
        }
    }
}

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
            find_needles(&bytes, needles, &mut names);
        }
    }
    names
}
