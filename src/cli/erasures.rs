//! `porchlight erasures`: prints the erasure log of a store, and applies a saved log to a store
//! that was restored, such as a CQL cluster from snapshots.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use porchlight_actors::service::{LoggedErasure, apply_erasures, logged_erasures};

use super::{ConfigArguments, before_server, check, counted, with_store};
use crate::config::{Config, StoreKind};
use crate::key_guard::unlock;
use crate::ops::client::OpsClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the erasure log as JSON, one erasure per line, oldest first.
    List {
        #[command(flatten)]
        config: ConfigArguments,
    },
    /// Erase the subjects of a printed log from a restored store, before a server uses it.
    Apply {
        /// The file with the output of `porchlight erasures list`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print `{erasures, sessions}` instead of a sentence.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::List { config } => list(&config.load()?),
        Action::Apply { file, json, config } => apply(&config.load()?, file, *json),
    }
}

fn list(config: &Config) -> anyhow::Result<()> {
    if config.store.kind == StoreKind::Embedded {
        check::require_store(&config.store.path)?;
        if OpsClient::of(config)?.is_some() {
            bail!(
                "a server uses the store: take a backup instead, which contains the erasure log that \
                 `porchlight restore --erasures` reads"
            );
        }
    }
    let entries = with_store(config, async |store| {
        Ok(logged_erasures(store.store().as_ref()).await?)
    })?;
    for entry in entries {
        say!("{}", serde_json::to_string(&entry)?)?;
    }
    Ok(())
}

fn apply(config: &Config, file: &Path, json: bool) -> anyhow::Result<()> {
    let entries = read(file)?;
    check::require_configured_store(config)?;
    check::require_no_server(config)?;
    let sessions = before_server(config, async |store| {
        if let Some(embedded) = store.embedded() {
            unlock(config, &config.store.path, embedded)?;
        }
        Ok(apply_erasures(store.store().as_ref(), &entries).await?)
    })?;
    let erasures = entries.len();
    if json {
        let report = serde_json::json!({ "erasures": erasures, "sessions": sessions });
        return say!("{report}");
    }
    say!(
        "{} applied, {} erased",
        counted(erasures as u64, "erasure"),
        counted(sessions, "session")
    )
}

/// Reads the output of `porchlight erasures list` from a file.
///
/// # Errors
///
/// Returns an error that names the first line that is not an erasure.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<LoggedErasure>> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let entries = lines.map(|(index, line)| {
        serde_json::from_str(line)
            .with_context(|| format!("line {} of {} is not an erasure", index + 1, file.display()))
    });
    entries.collect()
}
