//! `porchlight serve`, and what speaks to it from beside it: `backup`, `healthcheck`.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};

use super::ConfigArguments;
use crate::app;
use crate::config::{Config, StoreKind};
use crate::ops::client::OpsClient;
use crate::store::EmbeddedStore;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Overrides `server.listen`.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<SocketAddr>,
    /// Overrides `server.ops_listen`.
    #[arg(long, value_name = "HOST:PORT")]
    ops_listen: Option<SocketAddr>,
    /// Overrides `store.path`.
    #[arg(long, value_name = "FOLDER")]
    data: Option<std::path::PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut config = arguments.config.load()?;
    if let Some(listen) = arguments.listen {
        config.server.listen = listen;
    }
    if let Some(ops_listen) = arguments.ops_listen {
        config.server.ops_listen = ops_listen;
    }
    if let Some(data) = &arguments.data {
        config.store.path.clone_from(data);
    }
    app::run(config, app::Quiet::No, app::Shutdown::Signal, |_bound| {})
}

/// Copies the store: by the server that has it, or, when none runs, by opening it.
pub(super) fn backup(config: &Config, to: &Path) -> anyhow::Result<()> {
    if config.store.kind == StoreKind::Cql {
        bail!(
            "a CQL cluster is copied by its own means (nodetool snapshot, or Scylla Manager): see docs/cluster.md"
        );
    }
    let to = std::path::absolute(to)?;
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.backup(&to).await }),
        None => {
            let store = EmbeddedStore::open_alone(&config.store.path)
                .context("the store can't be opened")?;
            let copied = store.backup(&to).context("the store can't be copied");
            store.committer().close();
            copied.map(drop)
        }
    }
}

/// Asks a running service whether it is ready.
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
            .with_context(|| format!("nothing answers at {url}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("not ready: {text}");
        }
        say!("{text}")?;
        Ok(())
    })
}
