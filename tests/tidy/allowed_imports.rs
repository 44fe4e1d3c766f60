//! Checks the imports between crates and modules against the tables of allowed imports in
//! `docs/architecture.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::imports::{imports, module_path};
use crate::{crate_folders, files, none, root};

type Names = BTreeSet<String>;
/// The imports of each module, each with the file that contains it.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// A crate, as described by its row.
struct Crate {
    /// The name of the crate without `porchlight-`.
    name: String,
    folder: String,
    may_import: Names,
    holds: String,
}

impl Crate {
    /// Returns the folder of the library's files.
    fn sources(&self) -> String {
        let manifest = root().join(&self.folder).join("Cargo.toml");
        let text = fs::read_to_string(manifest).unwrap_or_default();
        if self.name == "porchlight" || text.contains("path = \"lib.rs\"") {
            self.folder.clone()
        } else {
            format!("{}/src", self.folder)
        }
    }
}

/// Returns the cells of the table under the heading, without its head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, below) = text.split_once(heading).unwrap();
    let lines = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

fn names(cell: &str) -> Names {
    let words = cell.split_whitespace();
    words
        .map(|word| word.trim_matches('`').to_owned())
        .collect()
}

fn crates() -> Vec<Crate> {
    let rows = table("### Crates").into_iter();
    rows.map(|row| Crate {
        name: row[0].trim_matches('`').to_owned(),
        folder: row[1].trim_matches('`').to_owned(),
        may_import: names(&row[2]),
        holds: row[3].clone(),
    })
    .collect()
}

/// Returns the modules of each crate, and the imports that each may have.
fn modules() -> BTreeMap<String, BTreeMap<String, Names>> {
    let mut modules: BTreeMap<String, BTreeMap<String, Names>> = BTreeMap::new();
    for row in table("### Modules") {
        let of_crate = modules.entry(row[0].trim_matches('`').to_owned());
        let module = row[1].trim_matches('`').to_owned();
        of_crate.or_default().insert(module, names(&row[2]));
    }
    modules
}

/// Returns the code of a file without comments, and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = text.lines().map(|line| {
        let is_comment = line.trim_start().starts_with("//");
        if is_comment { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the code of each file of a crate's library, by its path below the crate's sources.
fn library(of: &Crate, all: &[Crate]) -> BTreeMap<String, String> {
    let sources = of.sources();
    let others = all.iter().map(Crate::sources);
    let inner: Vec<_> = others
        .filter(|other| other.starts_with(&format!("{sources}/")))
        .collect();
    let own = |path: &str| {
        let is_inner = inner
            .iter()
            .any(|inner| path.starts_with(&format!("{inner}/")));
        let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
        !is_inner && !is_test && !path.contains("/bin/")
    };
    let files = files(&[&sources], ".rs").into_iter();
    files
        .filter(|(path, _)| own(path))
        .map(|(path, text)| (path[sources.len() + 1..].to_owned(), code(&text)))
        .collect()
}

/// Returns the imports between the files of a crate. A module and the modules below it are one
/// unit, so an import between them does not count.
fn file_arrows(library: &BTreeMap<String, String>) -> BTreeMap<String, Names> {
    let modules: BTreeMap<Vec<String>, &String> = library
        .keys()
        .map(|file| (module_path(file), file))
        .collect();
    let mut arrows = BTreeMap::new();
    for (own, &file) in &modules {
        let to = imports(&library[file], own).into_iter();
        // The file of a path is that of its longest beginning that is a module.
        let to = to.filter_map(|path| {
            (1..=path.len())
                .rev()
                .find_map(|length| modules.get_key_value(&path[..length]))
        });
        let to = to.filter(|(path, _)| !path.starts_with(own) && !own.starts_with(path));
        let to: Names = to.map(|(_, &file)| file.clone()).collect();
        arrows.insert(file.clone(), to);
    }
    arrows
}

/// Returns the imports between the top modules of a crate, without the crate's root.
fn arrows(of: &Crate, all: &[Crate]) -> Arrows {
    let library = library(of, all);
    let is_root = |name: &str| name == "lib" || name == "main";
    let mut arrows = Arrows::new();
    for file in library.keys() {
        let module = module_path(file)[0].clone();
        if !is_root(&module) {
            arrows.entry(module).or_default();
        }
    }
    let modules: Names = arrows.keys().cloned().collect();
    for (file, code) in &library {
        let path = module_path(file);
        let Some(own) = arrows.get_mut(&path[0]) else {
            continue;
        };
        let paths = imports(code, &path).into_iter();
        let names = paths.filter_map(|path| path.into_iter().next());
        for name in names.filter(|name| modules.contains(name) && *name != path[0]) {
            let file = format!("{}/{file}", of.sources());
            own.entry(name).or_insert(file);
        }
    }
    arrows
}

/// Returns the fault of an import between crates, and where the code belongs instead, or `None` if
/// it is allowed.
fn refusal(from: &Crate, to: &str, crates: &[Crate]) -> Option<String> {
    if from.name == to || from.may_import.contains(to) {
        return None;
    }
    let Some(other) = crates.iter().find(|one| one.name == to) else {
        return Some(format!(
            "porchlight-{to} has no row in docs/architecture.md"
        ));
    };
    let mut both = crates.iter().rev();
    let home = both
        .find(|one| from.may_import.contains(&one.name) && other.may_import.contains(&one.name));
    let home = home.map_or_else(String::new, |home| {
        format!(
            ". Code that both need belongs in porchlight-{} ({}) or in a crate that it may import",
            home.name, home.holds
        )
    });
    Some(format!(
        "porchlight-{} ({}) may not import porchlight-{to} ({}){home}",
        from.name, from.holds, other.holds
    ))
}

/// Returns the names of the modules of each import cycle.
fn cycles(arrows: &BTreeMap<String, Names>) -> Vec<Names> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (Names::new(), vec![from]);
        while let Some(name) = next.pop() {
            for to in arrows.get(name).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = arrows.keys().map(|name| (name, reached(name))).collect();
    let mut cycles: Vec<Names> = Vec::new();
    for (name, to) in reached.iter().filter(|(name, to)| to.contains(**name)) {
        let back = to
            .iter()
            .filter(|to| reached.get(to).is_some_and(|of| of.contains(*name)));
        let cycle: Names = back.cloned().collect();
        if !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}

#[test]
fn crates_import_only_the_crates_of_their_row() {
    let crates = crates();
    let mut found = Vec::new();
    for one in &crates {
        let folder = if one.name == "porchlight" {
            "."
        } else {
            &one.folder
        };
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let dependencies = manifest
            .split("\n[dependencies]")
            .nth(1)
            .unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let declared = dependencies
            .lines()
            .filter_map(|line| line.strip_prefix("porchlight-")?.split([' ', '.']).next());
        found.extend(declared.filter_map(|to| {
            let refusal = refusal(one, to, &crates)?;
            Some(format!("{folder}/Cargo.toml: {refusal}"))
        }));
        for (file, code) in library(one, &crates) {
            for (offset, _) in code.match_indices("porchlight_") {
                let name = code[offset + "porchlight_".len()..].split("::").next();
                let is_path = name.filter(|name| name.chars().all(|c| c.is_ascii_lowercase()));
                let refusal = is_path.and_then(|to| refusal(one, to, &crates));
                let line = code[..offset].matches('\n').count() + 1;
                found
                    .extend(refusal.map(|text| format!("{}/{file}:{line}: {text}", one.sources())));
            }
        }
    }
    none("a crate imports only the crates of its row", &found);
}

#[test]
fn every_crate_has_a_row() {
    let members: Names = crate_folders().into_iter().collect();
    let rows: Names = crates().into_iter().map(|one| one.folder).collect();
    assert_eq!(
        rows, members,
        "docs/architecture.md lists the members of the workspace"
    );
}

#[test]
fn modules_import_only_the_modules_of_their_row() {
    let (crates, modules) = (crates(), modules());
    let mut found = Vec::new();
    for one in &crates {
        let nothing = BTreeMap::new();
        let rows = modules.get(&one.name).unwrap_or(&nothing);
        for (module, imports) in arrows(one, &crates) {
            let allowed = rows.get(&module);
            for (to, file) in &imports {
                if !allowed.is_some_and(|allowed| allowed.contains(to)) {
                    found.push(format!(
                        "{file}: in porchlight-{}, `{module}` may not import `{to}`. Code that both need belongs in a module \
                         that both may import; if `{module}` stands above `{to}`, add it to its row in \
                         docs/architecture.md",
                        one.name
                    ));
                }
            }
            let unused = allowed.into_iter().flatten();
            let unused = unused.filter(|to| !imports.contains_key(*to));
            found.extend(unused.map(|to| {
                let name = &one.name;
                format!(
                    "docs/architecture.md: in porchlight-{name}, `{module}` does not import `{to}`"
                )
            }));
        }
    }
    none("an import is not in the table of modules", &found);
}

#[test]
fn there_are_no_import_cycles() {
    let crates = crates();
    let table: BTreeMap<_, _> = crates
        .iter()
        .map(|one| (one.name.clone(), one.may_import.clone()))
        .collect();
    assert!(cycles(&table).is_empty(), "the table of crates has a cycle");
    let mut found = Vec::new();
    for one in &crates {
        let arrows = arrows(one, &crates).into_iter();
        let arrows: BTreeMap<_, Names> = arrows
            .map(|(module, imports)| (module, imports.into_keys().collect()))
            .collect();
        for cycle in cycles(&arrows) {
            let names: Vec<_> = cycle.iter().map(String::as_str).collect();
            found.push(format!("porchlight-{}: {}", one.name, names.join(", ")));
        }
    }
    none("modules import each other in a cycle", &found);
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let crates = crates();
    let mut found = Vec::new();
    for one in &crates {
        for cycle in cycles(&file_arrows(&library(one, &crates))) {
            let names: Vec<_> = cycle.iter().map(String::as_str).collect();
            found.push(format!(
                "{}: {}. Move the code that both need to a file of its own",
                one.sources(),
                names.join(", ")
            ));
        }
    }
    none("files import each other in a cycle", &found);
}

#[test]
fn a_wrong_import_is_refused_and_its_home_is_named() {
    let crates = crates();
    let one = |name: &str| crates.iter().find(|one| one.name == name).unwrap();
    let refused = refusal(one("console"), "api", &crates).unwrap();
    assert!(refused.contains("porchlight-http ("), "{refused}");
    assert!(refusal(one("console"), "http", &crates).is_none());
    let code =
        "use super::super::{a::B, c, d::{E, F}};\nuse crate::g::H;\nlet x = super::super::i::j();";
    let named = |path: &[&str]| {
        let path: Vec<_> = path.iter().map(|&name| name.to_owned()).collect();
        let found = imports(code, &path).into_iter();
        found.map(|path| path.join("::")).collect::<Vec<_>>()
    };
    let all = ["g::H", "a::B", "c", "d::E", "d::F", "i::j"];
    assert_eq!(named(&["x", "y"]), all);
    let below = ["g::H", "x::a::B", "x::c", "x::d::E", "x::d::F", "x::i::j"];
    assert_eq!(named(&["x", "y", "z"]), below);
    let files = [
        ("a.rs", "use crate::b::c::D;"),
        ("b.rs", "mod c; use crate::a::A;"),
        ("b/c.rs", "use super::d::X; use super::E;"),
        ("b/d.rs", "use super::c::{D, self};"),
    ];
    let files = files.map(|(file, code)| (file.to_owned(), code.to_owned()));
    assert_eq!(
        cycles(&file_arrows(&files.into())),
        [names("b/c.rs b/d.rs")]
    );
    let cycle = [("a", "b"), ("b", "c"), ("c", "b")];
    let cycle = cycle.map(|(from, to)| (from.to_owned(), names(to)));
    assert_eq!(cycles(&cycle.into()), [names("b c")]);
}

#[test]
fn the_clock_is_injected() {
    let mut found = Vec::new();
    for one in crates()
        .iter()
        .filter(|one| one.name != "porchlight" && one.name != "world")
    {
        for (file, code) in library(one, &crates()) {
            if code.contains("SystemClock") || code.contains("SystemTime::now") {
                found.push(format!("{}/{file}", one.sources()));
            }
        }
    }
    none(
        "only the binary reads the wall clock: others are given a `Clock`",
        &found,
    );
}
