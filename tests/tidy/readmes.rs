//! Checks that each crate is documented by its README.

use std::collections::BTreeSet;
use std::fs;

use crate::{crate_folders, files, none, root};

/// A README with fewer lines says too little.
const LINES_MIN: usize = 20;

/// Returns the reason for which a README does not document its crate. `library` is the code of
/// `lib.rs`, and `path` the path from there to the README.
fn fault(readme: &str, library: &str, path: &str) -> Option<&'static str> {
    let last = readme.lines().rev().find(|line| line.starts_with("## "));
    if readme.lines().count() < LINES_MIN {
        Some("says too little")
    } else if last != Some("## Decisions") {
        Some("does not end with the section Decisions")
    } else if !library.starts_with(&format!("#![doc = include_str!(\"{path}\")]\n")) {
        Some("is not included at the beginning of lib.rs")
    } else {
        None
    }
}

#[test]
fn every_crate_is_documented_by_its_readme() {
    let mut found = Vec::new();
    for folder in crate_folders() {
        let read = |file: &str| fs::read_to_string(root().join(&folder).join(file));
        let readme = read("README.md").unwrap_or_default();
        let fault = match read("lib.rs") {
            Ok(library) => fault(&readme, &library, "README.md"),
            Err(_) => fault(&readme, &read("src/lib.rs").unwrap(), "../README.md"),
        };
        found.extend(fault.map(|fault| format!("{folder}/README.md {fault}")));
    }
    none("a crate's README is its documentation", &found);
}

/// Returns the modules of a library that its README does not name. A README names a module as
/// `name`, or by its path, such as `src/name.rs` or `src/name/`.
fn unnamed(readme: &str, library: &str) -> Vec<String> {
    let quotes: Vec<&str> = readme.split('`').skip(1).step_by(2).collect();
    let is_named = |module: &str| {
        quotes.iter().any(|quote| {
            let path = quote.trim_start_matches("src/").trim_end_matches('/');
            path.trim_end_matches(".rs") == module
        })
    };
    let declared = library.lines().filter_map(|line| {
        let (before, module) = line.strip_suffix(';')?.split_once("mod ")?;
        let is_module = before.is_empty() || before.starts_with("pub");
        is_module.then(|| module.to_owned())
    });
    let modules = declared.filter(|module| module != "tests" && !is_named(module));
    modules.collect()
}

#[test]
fn every_module_is_named_by_the_readme_of_its_crate() {
    let mut found = Vec::new();
    for folder in crate_folders() {
        let read = |file: &str| fs::read_to_string(root().join(&folder).join(file));
        let library = read("lib.rs").or_else(|_| read("src/lib.rs")).unwrap();
        let unnamed = unnamed(&read("README.md").unwrap_or_default(), &library).into_iter();
        found.extend(unnamed.map(|module| format!("{folder}/README.md does not name `{module}`")));
    }
    none("a README describes every module of its crate", &found);
}

#[test]
fn a_module_that_a_readme_lacks_is_found() {
    let library =
        "//! Text.\n\npub mod one;\nmod two;\npub(crate) mod three;\n#[cfg(test)]\nmod tests;\n";
    let readme = "| `one` | text |\n| `src/two.rs`, `src/four/` | two |\n";
    assert_eq!(unnamed(readme, library), ["three"]);
}

/// Returns the modules of a file that its head does not name, and the files that it names without
/// having such a module.
fn differences(text: &str) -> Vec<String> {
    let is_separator = |letter: char| letter == ' ' || letter == ',';
    let head = text.lines().filter_map(|line| line.strip_prefix("//! "));
    let words = head.flat_map(|line| line.split(is_separator));
    let named: BTreeSet<&str> = words.filter_map(|word| word.strip_suffix(".rs")).collect();
    let declared = text.lines().filter_map(|line| line.strip_suffix(';'));
    let declared = declared.map(|line| line.strip_prefix("pub(super) ").unwrap_or(line));
    let declared = declared.filter_map(|line| line.strip_prefix("mod "));
    let declared: BTreeSet<&str> = declared.collect();
    let differing = named.symmetric_difference(&declared);
    differing.map(|module| format!("{module}.rs")).collect()
}

#[test]
fn the_heads_of_the_cql_store_name_its_files() {
    let text = fs::read_to_string(root().join("src/store/cql.rs")).unwrap();
    none("src/store/cql.rs lists its modules", &differences(&text));
    let is_folder =
        |path: &str, text: &str| path.matches('/').count() == 3 && text.contains("pub(super) mod ");
    let folders = files(&["src/store/cql"], ".rs").into_iter();
    let folders: Vec<_> = folders
        .filter(|(path, text)| is_folder(path, text))
        .collect();
    assert!(
        folders.len() >= 9,
        "the store has fewer folders than expected"
    );
    for (path, text) in folders {
        none(&format!("{path} lists its modules"), &differences(&text));
    }
    let text = "//! one.rs, two.rs    text\n//! four.rs   text\n\nmod one;\nmod three;\npub(super) mod two;\n";
    assert_eq!(differences(text), ["four.rs", "three.rs"]);
}

#[test]
fn the_repository_has_a_readme() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() >= LINES_MIN);
}

#[test]
fn a_readme_that_lacks_a_part_is_refused() {
    let library = "#![doc = include_str!(\"README.md\")]\n\nmod a;\n";
    let readme = format!("# a\n{}\n## Rules\n\n## Decisions\n", "\n".repeat(20));
    assert_eq!(fault(&readme, library, "README.md"), None);
    let after = format!("{readme}\n## Notes\n");
    let faulty = [
        ("", library),
        ("# a\n## Decisions\n", library),
        (&readme[..30], library),
        (after.as_str(), library),
        (readme.as_str(), "//! The crate.\n\nmod a;\n"),
        (
            readme.as_str(),
            "#![doc = include_str!(\"../README.md\")]\n",
        ),
    ];
    for (readme, library) in faulty {
        let found = fault(readme, library, "README.md");
        assert!(found.is_some(), "{readme:?} {library:?}");
    }
}
