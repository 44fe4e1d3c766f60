//! Configuration from environment variables: `PORCHLIGHT__SECTION__KEY`.

use std::ffi::OsString;

use config::builder::DefaultState;
use config::{ConfigBuilder, ConfigError};
use toml::Table;

use super::Config;

/// The prefix of every variable.
const PREFIX: &str = "PORCHLIGHT";

/// Overrides settings by variables. A list has commas between its items, or is written as in TOML
/// (`["a", "b"]`), because people copy from the file. A setting that is not Unicode is an error: the
/// default must not stand in for it.
pub(super) fn override_settings(
    builder: ConfigBuilder<DefaultState>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<ConfigBuilder<DefaultState>, ConfigError> {
    // The defaults always serialize.
    let settings = Table::try_from(Config::default()).unwrap_or_default();
    let mut texts = Vec::new();
    for (variable, value) in variables {
        let name = variable.to_string_lossy().into_owned();
        match (variable.into_string(), value.into_string()) {
            (Ok(variable), Ok(value)) => texts.push((variable, value)),
            _ if key_of(&name).is_some() => {
                let detail = format!("the variable {name} is not Unicode");
                return Err(ConfigError::Message(detail));
            }
            // The variable belongs to another program.
            _ => {}
        }
    }
    let (lists, single_values): (Vec<_>, Vec<_>) = texts
        .into_iter()
        .partition(|(variable, _)| list_key(&settings, variable).is_some());
    let environment = config::Environment::with_prefix(PREFIX)
        .prefix_separator("__")
        .separator("__")
        .source(Some(single_values.into_iter().collect()));
    lists
        .iter()
        .filter_map(|(variable, value)| Some((list_key(&settings, variable)?, items(value))))
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

/// Returns the key that a variable names, or `None` if it does not hold a list.
fn list_key(settings: &Table, variable: &str) -> Option<String> {
    let key = key_of(variable)?;
    let mut sections = key.split('.');
    let first = settings.get(sections.next()?)?;
    let value = sections.try_fold(first, |section, name| section.get(name))?;
    value.is_array().then_some(key)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_unicode_is_an_error() {
        use std::os::unix::ffi::OsStringExt;
        let load = |name: &[u8], value: &[u8]| {
            let [name, value] = [name, value].map(|bytes| OsString::from_vec(bytes.to_vec()));
            Config::load_from(None, std::iter::once((name, value)))
        };
        let refused = load(b"PORCHLIGHT__STORE__PATH", b"/data/\xff").unwrap_err();
        let error = refused.to_string();
        assert_eq!(
            error,
            "configuration: the variable PORCHLIGHT__STORE__PATH is not Unicode"
        );
        let refused = load(b"PORCHLIGHT__STORE__PA\xff", b"/data");
        assert!(refused.unwrap_err().to_string().contains("is not Unicode"));
        assert!(load(b"PATH", b"/data/\xff").is_ok());
        assert!(load(b"PORCHLIGHT_KEY", b"\xff").is_ok());
    }

    #[test]
    fn every_list_of_the_settings_is_recognised() {
        let settings = Table::try_from(Config::default()).unwrap();
        for (variable, key) in [
            ("PORCHLIGHT__SERVER__OPS_HOSTS", Some("server.ops_hosts")),
            ("PORCHLIGHT__STORE__CQL__NODES", Some("store.cql.nodes")),
            (
                "PORCHLIGHT__CLUSTER__ACCEPTED_SECRET_FILES",
                Some("cluster.accepted_secret_files"),
            ),
            ("PORCHLIGHT__STORE__PATH", None),
            ("PORCHLIGHT__STORE__CQL", None),
            ("PORCHLIGHT__STORE__PATH__NODES", None),
            ("PORCHLIGHT__NOTHING", None),
        ] {
            assert_eq!(list_key(&settings, variable).as_deref(), key, "{variable}");
        }
    }
}
