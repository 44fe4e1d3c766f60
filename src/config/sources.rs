//! The sources of the settings: the file and the environment. Errors and the log name them.

use std::ffi::OsString;
use std::path::Path;

use toml::Table;

use super::environment::key_of;
use super::file::ConfigFile;
use super::{Config, ConfigError};

/// The sources of a configuration.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    /// The file, if one is named.
    pub(super) file: Option<&'a ConfigFile>,
    /// The names of the variables that set something.
    pub(super) variables: Vec<String>,
}

impl Sources<'_> {
    /// Adds the place of the setting to an error about it.
    pub(super) fn locate(&self, error: ConfigError) -> ConfigError {
        let place = error.key().and_then(|key| self.place_of(key));
        match place {
            Some(place) => ConfigError::Placed {
                error: Box::new(error),
                place,
            },
            None => error,
        }
    }

    /// Returns the variable or the line that sets a key. Variables override the file.
    fn place_of(&self, key: &str) -> Option<String> {
        let inner = format!("{key}.");
        let sets = |variable: &&String| {
            key_of(variable).is_some_and(|set| set == key || set.starts_with(&inner))
        };
        match self.variables.iter().find(sets) {
            Some(variable) => Some(format!("variable {variable}")),
            None => self.file?.place_of(key),
        }
    }
}

/// Returns the names of the variables that set something, sorted.
pub(super) fn names(variables: &[(OsString, OsString)]) -> Vec<String> {
    let names = variables.iter().filter_map(|(name, _)| name.to_str());
    let mut names: Vec<_> = names
        .filter(|name| key_of(name).is_some())
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names
}

/// Describes the sources of the configuration for the log: the file, the names of the variables and
/// the flags, or `defaults` if there are none.
#[must_use]
pub fn describe(file: Option<&Path>, flags: &[&str]) -> String {
    let variables: Vec<_> = std::env::vars_os().collect();
    described(file, &variables, flags)
}

fn described(file: Option<&Path>, variables: &[(OsString, OsString)], flags: &[&str]) -> String {
    let file = file.map(|file| file.display().to_string());
    let flags = flags.iter().map(|&flag| flag.to_owned());
    let all: Vec<_> = file
        .into_iter()
        .chain(names(variables))
        .chain(flags)
        .collect();
    if all.is_empty() {
        "defaults".to_owned()
    } else {
        all.join(", ")
    }
}

/// Checks that each given key is a setting, and that sections and single values are not exchanged.
pub(super) fn check_keys(given: &config::Map<String, config::Value>) -> Result<(), ConfigError> {
    // The defaults always serialize.
    let known = Table::try_from(Config::default()).unwrap_or_default();
    check_section(&known, given, "")
}

fn check_section(
    known: &Table,
    given: &config::Map<String, config::Value>,
    section: &str,
) -> Result<(), ConfigError> {
    // Sorted, so that the same error is reported each time.
    let mut keys: Vec<_> = given.keys().collect();
    keys.sort_unstable();
    for key in keys {
        let path = format!("{section}{key}");
        let given = given.get(key).map(|value| &value.kind);
        let wrong = |detail| Err(ConfigError::structure(path.clone(), detail));
        match (known.get(key), given) {
            (Some(toml::Value::Table(known)), Some(config::ValueKind::Table(given))) => {
                check_section(known, given, &format!("{path}."))?;
            }
            (Some(toml::Value::Table(known)), _) => {
                return wrong(format!(
                    "is a section, not a value; its keys are {}",
                    list(known)
                ));
            }
            (Some(_), Some(config::ValueKind::Table(_))) => {
                return wrong("is a single setting, not a section".to_owned());
            }
            (Some(_), _) => {}
            (None, _) => {
                return wrong(format!("is unknown; the keys here are {}", list(known)));
            }
        }
    }
    Ok(())
}

fn list(known: &Table) -> String {
    let keys: Vec<_> = known.keys().map(String::as_str).collect();
    keys.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_sources_without_their_values() {
        let variables = [
            ("PORCHLIGHT__STORE__PATH", "/secret/place"),
            ("PORCHLIGHT__SERVER__LISTEN", "127.0.0.1:1"),
            ("PORCHLIGHT_SERVER__LISTEN", "127.0.0.1:2"),
            ("HOME", "/root"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let file = Some(Path::new("/etc/porchlight.toml"));
        assert_eq!(
            described(file, &variables, &["--data"]),
            "/etc/porchlight.toml, PORCHLIGHT__SERVER__LISTEN, PORCHLIGHT__STORE__PATH, --data"
        );
        assert_eq!(described(None, &variables[2..], &[]), "defaults");
    }
}
