//! `porchlight secrets`: seals stored secrets again with the first configured key, through the
//! server that uses the store or, if no server runs, directly on the store.

use anyhow::bail;
use clap::Subcommand;
use porchlight_keys::secrets::{Rewrapped, SecretVault};

use super::{ConfigArguments, check, with_store};
use crate::config::Config;
use crate::key_guard::secret_keys;
use crate::ops::client::OpsClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Re-encrypt stored webhook secrets with the first of `secrets.key_files`. Keep the other
    /// files configured until `store.retention` and the longest recorder link have passed: session
    /// tokens, recorder links and links to path images of that time need them.
    Rewrap {
        /// Print `{key, rewrapped, current, unopened}` instead of a sentence.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Action::Rewrap { json, config } = &arguments.action;
    let report = rewrap(&config.load()?)?;
    if *json {
        say!("{}", serde_json::to_string(&report)?)?;
    } else {
        say!(
            "rewrapped {}; {} already sealed with key {}",
            report.rewrapped,
            report.current,
            report.key
        )?;
    }
    if !report.unopened.is_empty() {
        bail!(
            "no configured key opens the secrets of {}: name the file of the key that sealed them",
            report.unopened.join(", ")
        );
    }
    Ok(())
}

fn rewrap(config: &Config) -> anyhow::Result<Rewrapped> {
    let server = OpsClient::of(config)?;
    let Some(server) = server else {
        check::require_configured_store(config)?;
        return with_store(config, async |store| {
            let vault = SecretVault::new(&secret_keys(config, store).await?);
            Ok(vault.rewrap(store.outbox().as_ref()).await?)
        });
    };
    let vault = SecretVault::new(&config.secret_keys()?);
    let report = super::block_on(async move { server.rewrap().await })?;
    if report.key != vault.fingerprint() {
        // The server loaded its key files when it started.
        bail!(
            "the running server writes with key {}, and this configuration with key {}: restart the server first",
            report.key,
            vault.fingerprint()
        );
    }
    Ok(report)
}
