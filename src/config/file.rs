//! The configuration file. Its errors name the file and, where possible, the key.

use std::io::{self, Read};
use std::path::Path;

use config::{FileFormat, Format, Map, Source, Value};
use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// The maximum size of a configuration file in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A configuration file that was read. `config::File` would refuse files that are not regular, such
/// as a pipe.
#[derive(Debug, Clone)]
pub(super) struct ConfigFile {
    name: String,
    text: String,
}

impl ConfigFile {
    /// Reads a file of any kind but a folder.
    pub(super) fn read(file: &Path) -> Result<Self, ConfigError> {
        if file.is_dir() {
            return Err(ConfigError::Folder(file.to_path_buf()));
        }
        let text = text_of(file).map_err(|error| ConfigError::File(file.to_path_buf(), error))?;
        Ok(Self {
            name: file.display().to_string(),
            text,
        })
    }

    /// Returns the file and the line that set a key.
    pub(super) fn place_of(&self, key: &str) -> Option<String> {
        // A list's item has an index: `server.ops_hosts[0]`.
        let key = key.split('[').next().unwrap_or(key);
        let root = DeTable::parse(&self.text).ok()?;
        let mut table = Some(root.get_ref());
        let mut at = 0;
        for part in key.split('.') {
            let found = table?.iter().find(|(name, _)| name.get_ref() == part);
            let (name, value) = found?;
            at = name.span().start;
            table = value.get_ref().as_table();
        }
        let line = self.text.get(..at)?.matches('\n').count() + 1;
        Some(format!("{}, line {line}", self.name))
    }
}

fn text_of(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(file)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let mib = FILE_BYTES_MAX / (1024 * 1024);
        return Err(io::Error::other(format!("it is larger than {mib} MiB")));
    }
    Ok(text)
}

impl Source for ConfigFile {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        let parsed = FileFormat::Toml.parse(Some(&self.name), &self.text);
        parsed.map_err(|cause| config::ConfigError::FileParse {
            uri: Some(self.name.clone()),
            cause: match unusable_number(&self.text) {
                Some(explained) => explained.into(),
                None => cause,
            },
        })
    }
}

/// Returns the first number that no setting can hold, with its key. The parser's error has no key.
fn unusable_number(text: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let (key, number) = unusable_in(table.get_ref(), "")?;
    Some(format!("{number} is too large for key `{key}`"))
}

fn unusable_in(table: &DeTable<'_>, folder: &str) -> Option<(String, String)> {
    table.iter().find_map(|(key, value)| {
        let key = format!("{folder}{}", key.get_ref());
        let items = match value.get_ref() {
            DeValue::Table(inner) => return unusable_in(inner, &format!("{key}.")),
            DeValue::Array(items) => items.iter().map(|item| item.get_ref()).collect(),
            single => vec![single],
        };
        let number = items.into_iter().find_map(unusable)?;
        Some((key, number))
    })
}

/// Returns the digits of a number that exceeds 64 bits.
fn unusable(value: &DeValue<'_>) -> Option<String> {
    let (text, fits) = match value {
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            (number.as_str(), parsed.is_ok())
        }
        DeValue::Float(number) => {
            let is_finite = number.as_str().parse().is_ok_and(f64::is_finite);
            (
                number.as_str(),
                is_finite || number.as_str().contains("inf"),
            )
        }
        _ => return None,
    };
    (!fits).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_too_large_is_named_with_its_key() {
        for (text, key) in [
            (
                "[server]\nworkers = 99999999999999999999",
                "`server.workers`",
            ),
            (
                "[store.cql]\nreplication_factor = 1e999",
                "`store.cql.replication_factor`",
            ),
            (
                "[server]\nops_hosts = [1, 0xffffffffffffffffff]",
                "`server.ops_hosts`",
            ),
        ] {
            let file = ConfigFile {
                name: "c.toml".to_owned(),
                text: text.to_owned(),
            };
            let error = file.collect().unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("c.toml"), "{error}");
        }
    }

    #[test]
    fn an_unreadable_file_is_named_and_an_empty_device_is_read() {
        let missing = ConfigFile::read(Path::new("/nowhere/c.toml")).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/c.toml"), "{missing}");
        assert!(ConfigFile::read(Path::new("/dev/null")).is_ok());
        let endless = ConfigFile::read(Path::new("/dev/zero")).unwrap_err();
        assert!(endless.to_string().contains("/dev/zero"), "{endless}");
    }
}
