//! Checks that each module has documentation, and that the first sentence of each doc comment can
//! be read alone.

use crate::{SOURCES, files, none};

/// Files whose doc comments are the help texts of commands, which end without a period by
/// convention.
fn is_help(path: &str) -> bool {
    path == "src/cli.rs" || path.starts_with("src/cli/") || path.starts_with("bench/src/bin/")
}

/// Returns the text of a line of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or(line.strip_prefix("//!"))?;
    // Four slashes begin a separator. An escaped line feed at the end belongs to a string of a
    // generator of code.
    (!text.starts_with('/') && !text.ends_with("\\n\\")).then(|| text.trim())
}

/// Returns the first paragraph of each doc comment, with the number of its first line.
fn first_paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let Some(first) = doc(line) else { continue };
        let mut paragraph = first.to_owned();
        let mut is_first = !first.is_empty();
        while let Some(next) = lines.peek().and_then(|(_, line)| doc(line)) {
            is_first &= !next.is_empty();
            if is_first {
                paragraph.push(' ');
                paragraph.push_str(next);
            }
            lines.next();
        }
        found.push((number + 1, paragraph));
    }
    found
}

/// Returns the reason for which a first paragraph cannot be read alone.
fn fault(paragraph: &str, is_help: bool) -> Option<&'static str> {
    let first = paragraph.chars().next()?;
    if first.is_lowercase() {
        Some("starts with a lower-case letter; start a sentence")
    } else if paragraph.starts_with("The same ") || paragraph.starts_with("The same,") {
        Some("starts with \"The same\"; name the thing that is meant")
    } else if !paragraph.contains(' ') && !is_help {
        Some("is one word; write a sentence")
    } else if !is_help && !paragraph.ends_with(['.', ':', '!', '?', '`', '|']) {
        Some("does not end with punctuation")
    } else {
        None
    }
}

#[test]
fn the_first_sentence_of_a_doc_comment_stands_alone() {
    let mut found = Vec::new();
    for (path, text) in files(&SOURCES, ".rs") {
        for (number, paragraph) in first_paragraphs(&text) {
            if let Some(fault) = fault(&paragraph, is_help(&path)) {
                found.push(format!("{path}:{number}: {fault}: {paragraph}"));
            }
        }
    }
    none(
        "a doc comment is understood without the code below it",
        &found,
    );
}

/// The root of a program or of a library may begin with attributes, or include a README.
#[test]
fn each_file_begins_with_its_documentation() {
    let lacking = files(&SOURCES, ".rs").into_iter().filter(|(path, text)| {
        let is_root = path.ends_with("main.rs") || path.ends_with("lib.rs");
        !is_root && !text.starts_with("//!")
    });
    none(
        "a module begins with a line about its content",
        &lacking.map(|(path, _)| path).collect::<Vec<_>>(),
    );
}

#[test]
fn a_fragment_is_refused_and_a_sentence_is_not() {
    let faulty = [
        "Which.",
        "The same, for a lane.",
        "the number of lanes.",
        "The number of lanes",
        "`arrived`.",
    ];
    for paragraph in faulty {
        assert!(fault(paragraph, false).is_some(), "{paragraph}");
    }
    assert_eq!(fault("The number of lanes.", false), None);
    assert_eq!(fault("List keys (secrets are hidden)", true), None);
    let text =
        "/// Returns the lanes\n/// of a webhook.\n///\n/// Not all of them.\nfn lanes() {}\n";
    let read = [(1, "Returns the lanes of a webhook.".to_owned())];
    assert_eq!(first_paragraphs(text), read);
}
