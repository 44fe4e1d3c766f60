//! Locates cargo's build folder.

use std::path::PathBuf;

/// Returns the folder of the binaries that were built with this test program.
pub(crate) fn profile_folder() -> PathBuf {
    // A test program is `target/PROFILE/deps/NAME`.
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().to_owned()
}

/// Returns the build folder, `target`.
pub(crate) fn folder() -> PathBuf {
    profile_folder().parent().unwrap().to_owned()
}
