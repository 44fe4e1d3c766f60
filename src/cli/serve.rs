//! `porchlight serve`, and commands that communicate with a running server: `backup`,
//! `healthcheck`.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use porchlight_observe::error_text;
use porchlight_ports::Clock;
use porchlight_store::{EmbeddedStore, OpenError};
use porchlight_world::SystemClock;

use super::{ConfigArguments, check, with_embedded};
use crate::app;
use crate::app::Logging;
use crate::config::{Config, StoreKind, describe_sources};
use crate::ops::client::OpsClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Overrides `server.listen`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Overrides `server.ops_listen`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    ops_listen: Option<SocketAddr>,
    /// Overrides `store.path`.
    #[arg(long, value_name = "FOLDER")]
    data: Option<std::path::PathBuf>,
}

impl Arguments {
    /// Describes the sources of the configuration for the log.
    fn sources(&self) -> String {
        let flags = [
            ("--listen", self.listen.is_some()),
            ("--ops-listen", self.ops_listen.is_some()),
            ("--data", self.data.is_some()),
        ];
        let given = flags.into_iter().filter(|(_, is_given)| *is_given);
        let given: Vec<_> = given.map(|(flag, _)| flag).collect();
        describe_sources(self.config.config.as_deref(), &given)
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut config = arguments.config.load()?;
    if let Some(listen) = arguments.listen {
        config.server.listen = listen;
    }
    if let Some(ops_listen) = arguments.ops_listen {
        config.server.ops_listen = ops_listen;
    }
    config.server.check_listeners()?;
    if let Some(data) = &arguments.data {
        config.store.path.clone_from(data);
    }
    let logging = Logging::On(arguments.sources());
    let served = app::run(config, logging, app::Shutdown::Signal, |_bound| {});
    if let Err(error) = &served
        && error
            .downcast_ref()
            .is_some_and(OpenError::may_succeed_after_restart)
    {
        restart_process(error);
    }
    served
}

/// The environment variable with the number of the start, if an earlier start found a store that
/// accepted no writes.
const STARTS_VARIABLE: &str = "_PORCHLIGHT_STARTS";
/// The maximum number of starts, including the first.
const STARTS_MAX: u32 = 4;
/// The pause before the second start; it doubles for each further one.
const PAUSE_FIRST: Duration = Duration::from_secs(1);

/// Returns the next start's number and pause, or `None` after the last start.
fn next_start(starts_before: Option<&str>) -> Option<(u32, Duration)> {
    let starts = starts_before.map_or(Some(1), |text| text.parse().ok())?;
    (1..STARTS_MAX)
        .contains(&starts)
        .then(|| (starts + 1, PAUSE_FIRST * (1 << (starts - 1))))
}

/// Replaces this process by a new one with the same arguments and process id. The writing thread
/// hangs inside the engine and holds its lock, so this process cannot open the store again. Returns
/// if the maximum number of starts was reached, or if the replacement fails.
#[expect(
    clippy::disallowed_methods,
    reason = "the runtime has ended, and nothing else is to be done"
)]
fn restart_process(error: &anyhow::Error) {
    let starts_before = std::env::var(STARTS_VARIABLE).ok();
    let Some((start, pause)) = next_start(starts_before.as_deref()) else {
        return;
    };
    tracing::error!(
        error = format!("{error:#}"),
        start,
        "the first write to the store hangs: the process restarts itself"
    );
    std::thread::sleep(pause);
    if let Ok(binary) = std::env::current_exe() {
        let failed = std::process::Command::new(binary)
            .args(std::env::args_os().skip(1))
            .env(STARTS_VARIABLE, start.to_string())
            .exec();
        tracing::error!(
            error = error_text(&failed),
            "the process cannot be restarted"
        );
    }
}

/// Backs up the store: through the server that uses it or, if no server runs, by opening it.
pub(super) fn backup(config: &Config, to: &Path) -> anyhow::Result<()> {
    if config.store.kind == StoreKind::Cql {
        bail!(
            "back up a CQL cluster with its own tools, such as nodetool snapshot or Scylla Manager; see docs/cluster.md"
        );
    }
    let to = std::path::absolute(to)?;
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.backup(&to).await }),
        None => {
            check::require_store(&config.store.path)?;
            let store = EmbeddedStore::open_for_command(&config.store.path)
                .context("the store cannot be opened")?;
            with_embedded(&store, async {
                store
                    .backup(&to, config.backup_files())
                    .context("the store cannot be copied")?;
                Ok(store.record_backup(SystemClock.now()).await?)
            })
        }
    }
}

/// Checks whether a running service is ready.
pub(super) fn healthcheck(config: &Config) -> anyhow::Result<()> {
    let url = format!("http://{}/readyz", config.server.ops_listen);
    super::block_on(async move {
        let http = reqwest::Client::builder()
            .timeout(std::time::Duration::from_secs(5))
            .no_proxy()
            .build()?;
        let answer = http
            .get(&url)
            .send()
            .await
            .map_err(reqwest::Error::without_url)
            .with_context(|| format!("no answer from {url}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("not ready: {text}");
        }
        say!("{text}")?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_makes_four_attempts_with_growing_pauses() {
        let sec = Duration::from_secs;
        assert_eq!(next_start(None), Some((2, sec(1))));
        assert_eq!(next_start(Some("2")), Some((3, sec(2))));
        assert_eq!(next_start(Some("3")), Some((4, sec(4))));
        for enough in ["4", "5", "0", "", "x"] {
            assert_eq!(next_start(Some(enough)), None, "{enough}");
        }
    }
}
