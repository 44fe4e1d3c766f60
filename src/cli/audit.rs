//! `porchlight audit`: checks the audit logs through the server that uses the store, or directly on
//! the store if no server is running.

use anyhow::bail;
use clap::Subcommand;
use porchlight_actors::audit::{ChainReport, Outcome, verify_all};
use porchlight_ports::Clock;
use porchlight_world::SystemClock;

use super::{ConfigArguments, check, counted, with_store};
use crate::config::Config;
use crate::ops::client::OpsClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check the chains of all organizations for lines that were removed, changed or inserted.
    Verify {
        /// Print JSON, one chain per line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Action::Verify { json, config } = &arguments.action;
    let reports = verify(&config.load()?)?;
    let mut broken = 0;
    for report in &reports {
        if *json {
            say!("{}", serde_json::to_string(report)?)?;
        }
        let name = &report.name;
        let (id, env) = (name.organization_id, name.env.as_str());
        match &report.outcome {
            Outcome::Broken { fault } => {
                broken += 1;
                if !json {
                    say!("{id}  {env}  BROKEN: {fault}")?;
                }
            }
            Outcome::Whole(whole) if !json => {
                let lines = counted(whole.lines, "line");
                say!("{id}  {env}  {lines}, newest {}", whole.hash)?;
            }
            Outcome::Whole(_) => {}
        }
    }
    if broken > 0 {
        bail!("{broken} of {} audit logs are broken", reports.len());
    }
    Ok(())
}

fn verify(config: &Config) -> anyhow::Result<Vec<ChainReport>> {
    if let Some(server) = OpsClient::of(config)? {
        return super::block_on(async move { server.verify_audit().await });
    }
    check::require_configured_store(config)?;
    with_store(config, async |store| {
        Ok(verify_all(&store.store(), SystemClock.now()).await?)
    })
}
