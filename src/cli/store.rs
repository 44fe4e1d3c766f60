//! `porchlight store check`: checks the rows of a store through the server that uses it or, if none
//! runs, directly.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use porchlight_store::{CheckReport, EmbeddedStore, KindReport};

use super::{ConfigArguments, check, counted, with_embedded};
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
    /// Read every row of the embedded store or of a backup, and report the damaged ones; exit code
    /// 1 if there are any.
    Check {
        /// The folder of the store or backup. Overrides `store.path`.
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
        /// Move damaged rows to the file `quarantined.tsv` in the store's folder.
        #[arg(long)]
        quarantine: bool,
        /// Print `{kinds, damaged, unreadable, quarantined}` instead of text.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Action::Check {
        data,
        quarantine,
        json,
        config,
    } = &arguments.action;
    let mut config = config.load()?;
    if let Some(data) = data {
        config.store.path.clone_from(data);
    }
    let report = check_store(&config, *quarantine)?;
    if *json {
        say!("{}", serde_json::to_string(&report)?)?;
    } else {
        print(&report)?;
    }
    if !report.is_good() {
        bail!("the store is damaged");
    }
    Ok(())
}

fn check_store(config: &Config, quarantine: bool) -> anyhow::Result<CheckReport> {
    if config.store.kind == StoreKind::Cql {
        bail!(
            "check a CQL cluster with its own tools, such as nodetool verify; see docs/cluster.md"
        );
    }
    if let Some(server) = OpsClient::of(config)? {
        return super::block_on(async move { server.check_store(quarantine).await });
    }
    check::require_store(&config.store.path)?;
    let store = EmbeddedStore::open_for_command(&config.store.path)
        .context("the store cannot be opened")?;
    with_embedded(&store, async {
        unlock(config, &config.store.path, &store)?;
        let mut report = store.check();
        if quarantine {
            store.quarantine(&mut report).await?;
        }
        Ok(report)
    })
}

/// Prints a table of the kinds, and a line for each damaged row.
pub(super) fn print(report: &CheckReport) -> anyhow::Result<()> {
    say!(
        "{:<28} {:>8} {:>8} {:>8}",
        "kind",
        "rows",
        "damaged",
        "newer"
    )?;
    for (kind, counts) in &report.kinds {
        let KindReport {
            rows,
            damaged,
            newer,
        } = counts;
        say!("{kind:<28} {rows:>8} {damaged:>8} {newer:>8}")?;
    }
    let newer: u64 = report.kinds.values().map(|kind| kind.newer).sum();
    if newer > 0 {
        let rows = counted(newer, "row");
        say!("a later release wrote {rows}, which stay: only that release can read them")?;
    }
    for row in &report.damaged {
        say!("damaged: {} {}: {}", row.kind, row.id, row.reason)?;
    }
    for range in &report.unreadable {
        let (after, before) = (range.after.as_deref(), range.before.as_deref());
        say!(
            "unreadable: {} rows after {} and before {}: {}",
            range.space.as_str(),
            after.unwrap_or("the first"),
            before.unwrap_or("the last"),
            range.reason
        )?;
    }
    if report.quarantined > 0 {
        let rows = counted(report.quarantined, "row");
        say!("{rows} moved to quarantined.tsv")?;
        for mark in report.damaged.iter().filter(|row| row.is_privacy_mark()) {
            say!(
                "warning: a privacy mark of {} was moved, so a restriction, suppression or hold of its subject no longer \
                 applies: place it again",
                mark.id
            )?;
        }
    }
    Ok(())
}
