//! Tests how the configuration is checked and printed, and that the sample shows all of it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::server::{Folder, porchlight, successful};

#[test]
fn a_configuration_is_checked_and_printed() {
    let folder = Folder::new();
    let file = folder.path().join("porchlight.toml");
    std::fs::write(&file, "[session]\nidle_timeout = \"45m\"\n").unwrap();
    let printed = porchlight()
        .args(["print-config", "--config"])
        .arg(&file)
        .env("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "77")
        .output()
        .unwrap();
    let printed = successful(printed);
    for line in [
        "idle_timeout = \"45m\"",
        "rate_limit_per_second = 77",
        "max_duration = \"12h\"",
    ] {
        assert!(printed.contains(line), "{line} in:\n{printed}");
    }
    std::fs::write(&file, &printed).unwrap();
    let checked = porchlight()
        .args(["check-config", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    successful(checked);

    std::fs::write(&file, "[session]\nidle_timeuot = \"45m\"\n").unwrap();
    let refused = porchlight()
        .args(["check-config", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("idle_timeuot"));
}

/// Returns the keys of a configuration with their values, each as `section.key = value`.
fn keys(table: &toml::Table) -> BTreeSet<String> {
    let entries = table.iter().flat_map(|(name, value)| match value {
        toml::Value::Table(section) => keys(section)
            .into_iter()
            .map(|key| format!("{name}.{key}"))
            .collect(),
        value => vec![format!("{name} = {value}")],
    });
    entries.collect()
}

#[test]
fn the_sample_configuration_names_every_key_with_its_default() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/porchlight.toml");
    let text = std::fs::read_to_string(&sample).unwrap();
    let folder = Folder::new();
    let file = folder.path().join("porchlight.toml");
    let printed = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let printed = porchlight()
            .args(["print-config", "--config"])
            .arg(&file)
            .output()
            .unwrap();
        successful(printed).parse::<toml::Table>().unwrap()
    };
    let defaults = printed("");
    assert_eq!(
        printed(&text),
        defaults,
        "the sample configuration changes no default"
    );
    let is_key = |line: &str| {
        let key = line.split(" = ").next().unwrap_or_default();
        line.contains(" = ")
            && key
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let bare: Vec<_> = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_key(rest) => rest,
            _ => line,
        })
        .collect();
    assert_eq!(
        printed(&bare.join("\n")),
        defaults,
        "the sample shows the defaults"
    );
    let shown: toml::Table = bare.join("\n").parse().unwrap();
    let [shown, defaults] = [shown, defaults].map(|table| keys(&table));
    let missing: Vec<_> = defaults.difference(&shown).collect();
    let unknown: Vec<_> = shown.difference(&defaults).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "deploy/porchlight.toml lacks {missing:?} and has {unknown:?} in addition"
    );
}
