//! Whether the process writes a log.

use std::path::PathBuf;

use crate::config::Config;
use crate::telemetry;

/// Whether and where the process writes a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logging {
    /// Writes no log, because standard output is for a person.
    Off,
    /// Writes a JSON log to standard output; the line "ready" names this configuration file, if
    /// any.
    On(Option<PathBuf>),
}

impl Logging {
    /// Starts the log, if there is one.
    pub(super) fn start(&self, config: &Config) -> anyhow::Result<()> {
        match self {
            Self::Off => Ok(()),
            Self::On(_) => telemetry::install_logs(config.log.parsed_filter()?),
        }
    }

    /// Returns the configuration's name for the log.
    pub(super) fn configuration(&self) -> String {
        match self {
            Self::On(Some(file)) => file.display().to_string(),
            Self::On(None) | Self::Off => "defaults".to_owned(),
        }
    }
}
