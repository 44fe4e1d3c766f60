//! Checks the repository's own rules: a rule that a test can check is not left to review.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod allowed_imports;
mod comments;
mod imports;
mod names;
mod numbers;
mod readmes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of lines of a file.
const FILE_LINES_MAX: usize = 500;
/// The folders of Rust files.
const SOURCES: [&str; 5] = ["schema/src", "actors", "src", "bench", "tests"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every file below these folders with this ending, by its path from the root.
fn files(folders: &[&str], ending: &str) -> BTreeMap<String, String> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != "node_modules" && !name.starts_with('.')
            {
                walk(&path, ending, found);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for folder in folders {
        walk(&root().join(folder), ending, &mut found);
    }
    let relative = |path: &Path| {
        path.strip_prefix(root())
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    found
        .iter()
        .map(|path| (relative(path), fs::read_to_string(path).unwrap()))
        .collect()
}

/// Returns the folder of each crate: the members of the workspace, and `src` for the binary.
fn crate_folders() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let members = members
        .split(',')
        .map(|member| member.trim().trim_matches('"'));
    let members = members.filter(|member| !member.is_empty());
    members.chain(["src"]).map(str::to_owned).collect()
}

/// Asserts that nothing was found, and prints the findings otherwise.
fn none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn no_file_exceeds_the_length_limit() {
    let long = files(&SOURCES, ".rs")
        .into_iter()
        .filter(|(_, text)| text.lines().count() > FILE_LINES_MAX);
    let long: Vec<_> = long
        .map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
        .collect();
    none("files have at most 500 lines", &long);
}

#[test]
fn dependencies_point_one_way() {
    let may_not = [
        (
            "schema/Cargo.toml",
            vec![
                "porchlight-core",
                "porchlight-actors",
                "actix",
                "tokio",
                "fjall",
            ],
        ),
        (
            "actors/core/Cargo.toml",
            vec![
                "porchlight-actors",
                "actix",
                "tokio",
                "async",
                "fjall",
                "rand",
                "uuid",
            ],
        ),
        (
            "actors/runtime/Cargo.toml",
            vec!["porchlight = ", "actix-web", "fjall", "reqwest", "scylla"],
        ),
        ("bench/Cargo.toml", vec!["porchlight = "]),
    ];
    let mut found = Vec::new();
    for (manifest, names) in may_not {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        let lines = text
            .lines()
            .filter(|line| names.iter().any(|name| line.starts_with(name)));
        found.extend(lines.map(|line| format!("{manifest}: {line}")));
    }
    none("schema ← core ← runtime ← root", &found);
}

#[test]
fn no_actor_names_an_adapter() {
    let adapters = ["fjall", "reqwest", "scylla::", "actix_web"];
    let mut found = Vec::new();
    for (path, text) in files(&["actors"], ".rs") {
        let lines = text.lines().enumerate();
        let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
        let naming = code.filter(|(_, line)| adapters.iter().any(|adapter| line.contains(adapter)));
        found
            .extend(naming.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    none("actors depend on ports, not on adapters", &found);
}

#[test]
fn there_are_no_catch_all_modules() {
    let names = [
        "utils.rs",
        "util.rs",
        "helpers.rs",
        "common.rs",
        "misc.rs",
        "mod.rs",
    ];
    let found = files(&SOURCES, ".rs")
        .into_keys()
        .filter(|path| names.iter().any(|name| path.ends_with(&format!("/{name}"))));
    none(
        "a file's name describes its content",
        &found.collect::<Vec<_>>(),
    );
}

#[test]
fn no_open_tasks_are_left() {
    let marks = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("dbg", "!("),
    ];
    let mut found = Vec::new();
    for (path, text) in files(&SOURCES, ".rs") {
        let lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)));
        found.extend(lines.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    none("no open task is left", &found);
}

/// An error that is printed alone lacks its causes: `chain` of `actors/observe` adds them, and so
/// does `{error:#}` for an `anyhow::Error`.
#[test]
fn log_lines_print_the_causes_of_errors() {
    let (short, long) = (concat!("%", "error"), concat!("error = ", "%"));
    let mut found = Vec::new();
    for (path, text) in files(&["actors", "src"], ".rs") {
        let lines = text.lines().enumerate();
        let bare = lines.filter(|(_, line)| line.contains(short) || line.contains(long));
        found.extend(bare.map(|(number, line)| format!("{path}:{}: {}", number + 1, line.trim())));
    }
    none("a log line prints an error with its causes", &found);
}

#[test]
fn every_lint_exception_has_a_reason() {
    let (allow, expect) = (concat!("#[", "allow("), concat!("#[", "expect("));
    let mut found = Vec::new();
    for (path, text) in files(&SOURCES, ".rs") {
        for (place, _) in text.match_indices(allow).chain(text.match_indices(expect)) {
            let exception: String = text[place..]
                .chars()
                .take_while(|&letter| letter != ']')
                .collect();
            if !exception.contains("reason") {
                found.push(format!("{path}: {exception}"));
            }
        }
    }
    none("an exception has its reason", &found);
}

#[test]
fn no_key_is_in_the_repository() {
    let mut found = Vec::new();
    for ending in [".rs", ".md", ".toml", ".json", ".yaml", ".sh"] {
        for (path, text) in files(&["."], ending) {
            for prefix in [
                "sk_live_",
                "sk_sandbox_",
                "pk_live_",
                "pk_sandbox_",
                "whsec_",
            ] {
                for (place, _) in text.match_indices(prefix) {
                    let tail = text[place + prefix.len()..].chars();
                    if tail.take_while(char::is_ascii_alphanumeric).count() >= 24 {
                        found.push(format!("{path}: {prefix}…"));
                    }
                }
            }
        }
    }
    none("keys are made at run time", &found);
}

/// Returns the figures of `docs/figures.md`, by name.
fn figures() -> BTreeMap<String, String> {
    let page = fs::read_to_string(root().join("docs/figures.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    });
    rows.filter(|(name, _)| name != "name").collect()
}

#[test]
fn quoted_figures_match_their_source() {
    let figures = figures();
    assert!(figures.len() > 10, "{figures:?}");
    let (mut quoted, mut wrong) = (0, Vec::new());
    for (path, text) in files(&["."], ".md") {
        for (place, mark) in text.match_indices("<!--figure") {
            let Some(rest) = text[place + mark.len()..].strip_prefix(' ') else {
                wrong.push(format!("{path}: a marker has no space after \"figure\""));
                continue;
            };
            let Some((name, rest)) = rest.split_once("-->") else {
                continue;
            };
            let Some((value, _)) = rest.split_once("<!--/-->") else {
                continue;
            };
            quoted += 1;
            if figures.get(name).map(String::as_str) != Some(value) {
                wrong.push(format!(
                    "{path}: {name} is {value}, not {:?}",
                    figures.get(name)
                ));
            }
        }
    }
    none("docs/figures.md has the figures", &wrong);
    assert!(quoted > 10, "{quoted} quotes");
}

/// The figures for a source are those of models without it, except for a part that the output of
/// `porchlight evaluate` and the documents must name as long as the generated weights share it.
#[test]
fn the_shared_evidence_is_named_beside_the_figures() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let weights = read("actors/core/src/gait/weights.rs");
    assert_eq!(weights.matches("const IMU_EVIDENCE").count(), 1);
    for path in [
        "src/cli/evaluate.rs",
        "docs/detection.md",
        "docs/detectors.md",
        "docs/figures.md",
    ] {
        let words: Vec<String> = read(path).split_whitespace().map(str::to_owned).collect();
        let sentence =
            "two sets of four numbers that weigh a second of gait are fitted on all sources";
        assert!(words.join(" ").contains(sentence), "{path}");
    }
}

#[test]
fn links_between_documents_resolve() {
    let mut found = Vec::new();
    for (path, text) in files(&["."], ".md") {
        let folder = root().join(&path).parent().unwrap().to_path_buf();
        for (place, _) in text.match_indices("](") {
            let target: String = text[place + 2..]
                .chars()
                .take_while(|&letter| letter != ')')
                .collect();
            let file = target.split('#').next().unwrap_or_default();
            let is_local =
                !file.is_empty() && !file.contains("://") && !file.starts_with("mailto:");
            if is_local && !folder.join(file).exists() {
                found.push(format!("{path}: {target}"));
            }
        }
    }
    none("a link names an existing file", &found);
}
