//! Whether the process writes a log.

use crate::config::Config;
use crate::telemetry;

/// Whether and where the process writes a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logging {
    /// Writes no log, because standard output is for a person.
    Off,
    /// Writes a JSON log to standard output; the line "ready" names these sources of the
    /// configuration.
    On(String),
}

impl Logging {
    /// Starts the log, if there is one.
    pub(super) fn start(&self, config: &Config) -> anyhow::Result<()> {
        match self {
            Self::Off => Ok(()),
            Self::On(_) => telemetry::install_logs(config.log.parsed_filter()?),
        }
    }

    /// Returns the sources of the configuration for the log.
    pub(super) fn configuration(&self) -> &str {
        match self {
            Self::On(sources) => sources,
            Self::Off => "",
        }
    }
}
