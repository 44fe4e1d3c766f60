//! Configuration from environment variables: `PORCHLIGHT__SECTION__KEY`.

use std::ffi::OsString;

use config::builder::DefaultState;
use config::{ConfigBuilder, ConfigError};

/// The prefix of every variable.
const PREFIX: &str = "PORCHLIGHT";

/// The keys that hold lists.
const LISTS: [&str; 7] = [
    "server.trusted_proxies",
    "server.cors_origins",
    "server.ops_hosts",
    "webhook.allow_addresses",
    "store.cql.nodes",
    "secrets.key_files",
    "cluster.accepted_secret_files",
];

/// Overrides settings by variables. A list has commas between its items, or is written as in TOML
/// (`["a", "b"]`), because people copy from the file. Variables that are not Unicode are ignored.
pub(super) fn override_settings(
    builder: ConfigBuilder<DefaultState>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<ConfigBuilder<DefaultState>, ConfigError> {
    let (lists, single_values): (Vec<_>, Vec<_>) = variables
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .partition(|(variable, _)| list_key(variable).is_some());
    let environment = config::Environment::with_prefix(PREFIX)
        .prefix_separator("__")
        .separator("__")
        .source(Some(single_values.into_iter().collect()));
    lists
        .iter()
        .filter_map(|(variable, value)| Some((list_key(variable)?, items(value))))
        .try_fold(builder.add_source(environment), |builder, (key, items)| {
            builder.set_override(key, items)
        })
}

/// Returns the key that a variable names, or `None` if it is not a setting's.
pub(super) fn key_of(variable: &str) -> Option<String> {
    let (prefix, key) = variable.split_once("__")?;
    let is_ours = prefix.eq_ignore_ascii_case(PREFIX);
    is_ours.then(|| key.replace("__", ".").to_lowercase())
}

/// Returns the list key that a variable names.
fn list_key(variable: &str) -> Option<&'static str> {
    let key = key_of(variable)?;
    LISTS.into_iter().find(|list| *list == key)
}

/// Parses a list in either notation.
fn items(value: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct TomlList {
        list: Vec<String>,
    }
    if let Ok(TomlList { list }) = toml::from_str(&format!("list = {value}")) {
        return list;
    }
    let items = value.split(',').map(str::trim);
    items
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}
