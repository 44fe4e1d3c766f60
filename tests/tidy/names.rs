//! Checks that the names, paths and anchors in the documents exist.

use std::collections::BTreeMap;
use std::fs;

use crate::{SOURCES, files, none, root};

/// The folders with which a path in a document begins.
const FOLDERS: [&str; 9] = [
    "actors/", "bench/", "deploy/", "docs/", "grafana/", "schema/", "src/", "tests/", ".ci/",
];

/// Returns the texts in backticks outside code blocks, each with its line.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let parts = line.split('`').enumerate();
            let inner = parts.filter(|(place, _)| place % 2 == 1);
            found.extend(inner.map(|(_, quote)| (number + 1, quote)));
        }
    }
    found
}

/// Returns whether a text is the name of a type: at least two words in camel case.
fn is_type(quote: &str) -> bool {
    let is_plain = quote.chars().all(|letter| letter.is_ascii_alphanumeric());
    let capitals = quote.chars().filter(char::is_ascii_uppercase).count();
    let lower = quote.chars().any(|letter| letter.is_ascii_lowercase());
    is_plain && lower && capitals >= 2 && quote.starts_with(|letter: char| letter.is_uppercase())
}

/// Returns whether any code contains the name.
fn is_in_code(name: &str, code: &BTreeMap<String, String>) -> bool {
    code.values().any(|text| text.contains(name))
}

#[test]
fn paths_and_types_in_the_documents_exist() {
    let code = files(&SOURCES, ".rs");
    let mut found = Vec::new();
    for (path, text) in files(&["."], ".md") {
        // The changelog and the results name things of their time.
        if path == "CHANGELOG.md" || path.starts_with("bench/results") {
            continue;
        }
        let folder = root().join(&path).parent().unwrap().to_path_buf();
        for (line, quote) in quoted(&text) {
            let is_path = FOLDERS.iter().any(|folder| quote.starts_with(folder));
            let is_one = !quote.contains(['*', '{', '<', ' ', '…', '$']);
            if is_path && is_one {
                let file = quote.split(':').next().unwrap_or_default();
                if !root().join(file).exists() && !folder.join(file).exists() {
                    found.push(format!("{path}:{line}: no file {quote}"));
                }
            } else if path == "docs/architecture.md" && is_type(quote) && !is_in_code(quote, &code)
            {
                found.push(format!("{path}:{line}: no type {quote}"));
            }
        }
    }
    none("documents name existing things", &found);
}

/// Returns the anchor that GitHub derives from a heading.
fn anchor(heading: &str) -> String {
    let letters = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = letters.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    kept.collect()
}

#[test]
fn anchors_between_documents_resolve() {
    let mut found = Vec::new();
    for (path, text) in files(&["."], ".md") {
        let folder = root().join(&path).parent().unwrap().to_path_buf();
        for (place, _) in text.match_indices("](") {
            let rest = &text[place + 2..];
            let target = rest.split(')').next().unwrap_or_default();
            let Some((file, wanted)) = target.split_once('#') else {
                continue;
            };
            if file.contains("://") {
                continue;
            }
            let page = if file.is_empty() {
                text.clone()
            } else {
                fs::read_to_string(folder.join(file)).unwrap_or_default()
            };
            let headings = page.lines().filter(|line| line.starts_with('#'));
            if !headings.map(anchor).any(|known| known == wanted) {
                found.push(format!("{path}: {target}"));
            }
        }
    }
    none("an anchor is a heading", &found);
}

#[test]
fn the_architecture_explains_the_three_flows() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    for question in [
        "where it is acknowledged",
        "why a webhook cannot overtake another",
        "how the cluster handles a dead node",
    ] {
        let mut headings = page.lines().filter(|line| line.starts_with("## "));
        assert!(headings.any(|line| line.ends_with(question)), "{question}");
    }
}
