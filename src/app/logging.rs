//! Whether the process writes a log.

use std::path::PathBuf;

use crate::config::Config;
use crate::telemetry;

/// Whether and where the process writes a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Logging {
    /// Writes no log, because standard output is for a person.
    Off,
    /// Writes a JSON log to standard output; its first line names this configuration file, if any.
    On(Option<PathBuf>),
}

impl Logging {
    /// Starts the log, if there is one.
    pub(super) fn start(self, config: &Config) -> anyhow::Result<()> {
        let Self::On(file) = self else {
            return Ok(());
        };
        telemetry::install_logs(config.log.parsed_filter()?)?;
        let configuration =
            file.map_or_else(|| "defaults".into(), |file| file.display().to_string());
        let (version, store) = (env!("CARGO_PKG_VERSION"), config.store.kind.as_str());
        tracing::info!(version, configuration, store, "starting");
        Ok(())
    }
}
