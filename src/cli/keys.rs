//! `porchlight keys`: by the server that has the store, or, when none runs, on the store itself.

use anyhow::Context;
use clap::{Subcommand, ValueEnum};

use super::ConfigArguments;
use crate::config::{Config, HumanDuration};
use crate::keys::{CreatedKey, KeyDesk, ListedKey};
use crate::ops::client::OpsClient;
use crate::store::EmbeddedStore;

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
        Action::Create { org, env, kind, expires, json, config } => {
            let expires_ms = expires.map(HumanDuration::as_millis);
            let made = create(&config.load()?, org, env.as_str(), kind.as_str(), expires_ms)?;
            if *json {
                println!("{}", serde_json::to_string(&made)?);
            } else {
                println!("{}", made.key);
            }
            Ok(())
        }
        Action::List { json, config } => {
            for key in list(&config.load()?)? {
                if *json {
                    println!("{}", serde_json::to_string(&key)?);
                } else {
                    println!("{key}");
                }
            }
            Ok(())
        }
        Action::Revoke { id, config } => {
            let key = revoke(&config.load()?, id)?;
            println!("{key}");
            Ok(())
        }
    }
}
