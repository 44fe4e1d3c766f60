//! `porchlight keys`: by the server that has the store, or, when none runs, on the store itself.

use anyhow::bail;
use clap::{Subcommand, ValueEnum};
use porchlight_keys::{CreatedKey, KeyDesk, KeyOrder, ListedKey};
use porchlight_ports::Clock;
use porchlight_world::SystemClock;

use super::{ConfigArguments, check};
use crate::config::{Config, HumanDuration, StoreKind};
use crate::opened::OpenStore;
use crate::ops::client::OpsClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a key and prints it, this once; the organization is made when new.
    Create {
        /// The organization's name.
        #[arg(long)]
        org: String,
        /// The environment.
        #[arg(long)]
        env: EnvWord,
        /// What the key may do.
        #[arg(long)]
        kind: KindWord,
        /// From when on it is refused, such as 90d.
        #[arg(long)]
        expires: Option<HumanDuration>,
        /// `{id, key, organizationId, env, kind}` instead of the key alone.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
    /// Lists keys, by what may be shown of them.
    List {
        /// JSON, one a line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
    /// Revokes a key.
    Revoke {
        /// As `list` shows it.
        id: String,
        #[command(flatten)]
        config: ConfigArguments,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EnvWord {
    Sandbox,
    Live,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    Secret,
    Client,
}

impl EnvWord {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Live => "live",
        }
    }
}

impl KindWord {
    fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Client => "client",
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Create {
            org,
            env,
            kind,
            expires,
            json,
            config,
        } => {
            let made = create(&config.load()?, org, *env, *kind, *expires)?;
            if *json {
                say!("{}", serde_json::to_string(&made)?)?;
            } else {
                say!("{}", made.key)?;
            }
            Ok(())
        }
        Action::List { json, config } => {
            for key in list(&config.load()?)? {
                if *json {
                    say!("{}", serde_json::to_string(&key)?)?;
                } else {
                    say!("{key}")?;
                }
            }
            Ok(())
        }
        Action::Revoke { id, config } => {
            let key = revoke(&config.load()?, id)?;
            say!("{key}")?;
            Ok(())
        }
    }
}

fn create(
    config: &Config,
    organization: &str,
    env: EnvWord,
    kind: KindWord,
    expires: Option<HumanDuration>,
) -> anyhow::Result<CreatedKey> {
    let expires_ms = expires.map(HumanDuration::as_millis);
    if expires_ms == Some(0) {
        bail!("--expires must be longer than 0");
    }
    let (env, kind) = (env.as_str(), kind.as_str());
    match OpsClient::of(config)? {
        Some(server) => {
            super::block_on(
                async move { server.create_key(organization, env, kind, expires_ms).await },
            )
        }
        None => with_store(config, async |desk| {
            let order = KeyOrder {
                organization: organization.to_owned(),
                env: env.to_owned(),
                kind: kind.to_owned(),
                expires_ms,
            };
            Ok(desk.create(&order, SystemClock.now()).await?)
        }),
    }
}

fn list(config: &Config) -> anyhow::Result<Vec<ListedKey>> {
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.list_keys().await }),
        None => {
            has_store(config)?;
            with_store(config, async |desk| Ok(desk.list().await?))
        }
    }
}

fn revoke(config: &Config, id: &str) -> anyhow::Result<ListedKey> {
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.revoke_key(id).await }),
        None => {
            has_store(config)?;
            with_store(config, async |desk| {
                Ok(desk.revoke(id, SystemClock.now()).await?)
            })
        }
    }
}

/// Keys that are looked for must be somewhere; the first key may be made before the server is started for the first
/// time.
fn has_store(config: &Config) -> anyhow::Result<()> {
    match config.store.kind {
        StoreKind::Embedded => check::is_store(&config.store.path),
        StoreKind::Cql => Ok(()),
    }
}

/// Works on the store itself, which no server of this machine has.
fn with_store<T>(
    config: &Config,
    work: impl AsyncFnOnce(KeyDesk) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    super::block_on(async move {
        let store = OpenStore::beside(config).await?;
        let worked = work(KeyDesk::new(store.keys())).await;
        store.close().await;
        worked
    })
}
