//! Reads the paths that a file imports or names.

/// Returns the path of a file's module within its crate.
pub(crate) fn module_path(file: &str) -> Vec<String> {
    let names = file.trim_end_matches(".rs").split('/');
    names.map(str::to_owned).collect()
}

/// Returns the paths, from the root of the crate, that the code of the module `own` names with
/// `crate::` or `super::`. A group in braces gives a path for each of its names.
pub(crate) fn imports(code: &str, own: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for word in ["crate::", "super::"] {
        for (place, _) in code.match_indices(word) {
            let before = code[..place].chars().next_back();
            if before.is_some_and(|b| b.is_alphanumeric() || b == '_' || b == ':') {
                continue;
            }
            let (mut at, mut ups) = (place + word.len(), 1);
            while word == "super::" && code[at..].starts_with(word) {
                at += word.len();
                ups += 1;
            }
            let kept = if word == "crate::" {
                Some(0)
            } else {
                own.len().checked_sub(ups)
            };
            if let Some(kept) = kept {
                add_paths(&code[at..], own[..kept].to_vec(), &mut found);
            }
        }
    }
    found
}

/// Adds the paths that begin with `base` and go on with the names at the start of `code`.
fn add_paths(code: &str, mut base: Vec<String>, found: &mut Vec<Vec<String>>) {
    let code = code.trim_start();
    if code.starts_with('{') {
        for part in group(code) {
            add_paths(part, base.clone(), found);
        }
        return;
    }
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let end = code.find(|c| !is_letter(c)).unwrap_or(code.len());
    let (name, rest) = code.split_at(end);
    if !name.is_empty() && name != "self" {
        base.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) if !name.is_empty() => add_paths(rest, base, found),
        _ => found.push(base),
    }
}

/// Returns the parts of the group in braces at the start of `code`.
fn group(code: &str) -> Vec<&str> {
    let (mut depth, mut parts, mut begins) = (0, Vec::new(), 1);
    for (at, letter) in code.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && letter == ',' {
            parts.push(code[begins..at].trim());
            begins = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
