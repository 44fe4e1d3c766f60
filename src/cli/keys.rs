//! `porchlight keys`: creates, lists and revokes keys through the server that uses the store or, if
//! no server runs, directly on the store.

use anyhow::bail;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use porchlight_actors::audit::append;
use porchlight_core::audit;
use porchlight_keys::{CreateKeyRequest, CreatedKey, KeyAdmin, ListedKey};
use porchlight_ports::Clock;
use porchlight_schema::key::{KeyKind, Role};
use porchlight_schema::session::Env;
use porchlight_world::SystemClock;

use super::{ConfigArguments, check, with_store};
use crate::audit::{key_line, tenant_of};
use crate::config::{Config, HumanDuration};
use crate::open_store::OpenStore;
use crate::ops::client::OpsClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key, printed once, and its organization if needed.
    Create {
        /// The organization's name.
        #[arg(long)]
        org: String,
        /// The environment.
        #[arg(long, value_parser = one_of(Env::ALL.map(Env::key_word)))]
        env: String,
        /// The kind of key.
        #[arg(long, value_parser = one_of(KeyKind::ALL.map(KeyKind::as_str)))]
        kind: String,
        /// The role of a secret key (admin: everything; support: read, and retry deliveries;
        /// viewer: read only) [default: admin]
        #[arg(long, value_parser = one_of(Role::ALL.map(Role::as_str)))]
        role: Option<String>,
        /// A name by which people recognise the key.
        #[arg(long)]
        name: Option<String>,
        /// The validity of the key, such as 90d.
        #[arg(long)]
        expires: Option<HumanDuration>,
        /// Create the store in the default folder if it does not exist. By default a missing store
        /// is an error, since the server may be using another folder. A store in a configured
        /// folder is created without this option.
        #[arg(long)]
        init: bool,
        /// Print `{id, key, organizationId, env, kind}` instead of the key alone.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
    /// List keys without their secrets.
    List {
        /// Print JSON, one key per line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        config: ConfigArguments,
    },
    /// Revoke a key.
    Revoke {
        /// The key's id, as printed by `list`.
        id: String,
        #[command(flatten)]
        config: ConfigArguments,
    },
}

/// Returns the parser of an argument that has one of these values.
fn one_of<const N: usize>(names: [&'static str; N]) -> PossibleValuesParser {
    PossibleValuesParser::new(names)
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.action {
        Action::Create {
            org,
            env,
            kind,
            role,
            name,
            expires,
            init,
            json,
            config,
        } => {
            let request = CreateKeyRequest {
                role: role.clone(),
                ..new_request(org, env, kind, name.as_deref(), *expires)?
            };
            let loaded = config.load()?;
            let may_init = *init || config.config.is_some() || has_configured_folder(&loaded);
            let created = create(&loaded, request, may_init)?;
            if *json {
                say!("{}", serde_json::to_string(&created)?)?;
            } else {
                say!("{}", created.key)?;
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

fn new_request(
    organization: &str,
    env: &str,
    kind: &str,
    name: Option<&str>,
    expires: Option<HumanDuration>,
) -> anyhow::Result<CreateKeyRequest> {
    let expires_ms = expires.map(HumanDuration::as_millis);
    if expires_ms == Some(0) {
        bail!("--expires must be longer than 0");
    }
    Ok(CreateKeyRequest {
        name: name.map(str::to_owned),
        expires_ms,
        ..CreateKeyRequest::new(organization, env, kind)
    })
}

/// Returns whether the configuration names the folder of the store instead of relying on the
/// default, which depends on the working directory.
fn has_configured_folder(config: &Config) -> bool {
    config.store.path != Config::default().store.path
}

/// Creates a key. Without a running server, `may_init` decides whether a missing store is created.
fn create(
    config: &Config,
    request: CreateKeyRequest,
    may_init: bool,
) -> anyhow::Result<CreatedKey> {
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.create_key(&request).await }),
        None => {
            if !may_init && let Err(missing) = check::require_configured_store(config) {
                bail!(
                    "{missing}, and no server is running with this configuration. Use --init to create the store"
                );
            }
            with_store(config, async |store| {
                let now = SystemClock.now();
                let created = KeyAdmin::new(store.keys()).create(&request, now).await?;
                let line = key_line(audit::Action::CreateKey, &created.id, now);
                record(store, &created.organization_id, &created.env, line).await?;
                Ok(created)
            })
        }
    }
}

fn list(config: &Config) -> anyhow::Result<Vec<ListedKey>> {
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.list_keys().await }),
        None => {
            check::require_configured_store(config)?;
            with_store(config, async |store| {
                Ok(KeyAdmin::new(store.keys()).list().await?)
            })
        }
    }
}

fn revoke(config: &Config, id: &str) -> anyhow::Result<ListedKey> {
    match OpsClient::of(config)? {
        Some(server) => super::block_on(async move { server.revoke_key(id).await }),
        None => {
            check::require_configured_store(config)?;
            with_store(config, async |store| {
                let now = SystemClock.now();
                let key = KeyAdmin::new(store.keys()).revoke(id, now).await?;
                let line = key_line(audit::Action::RevokeKey, &key.id, now);
                record(store, &key.organization_id, &key.env, line).await?;
                Ok(key)
            })
        }
    }
}

/// Appends a line to the audit log of the key's organization.
async fn record(
    store: &OpenStore,
    organization_id: &str,
    env: &str,
    line: audit::Line,
) -> anyhow::Result<()> {
    if let Some(tenant) = tenant_of(organization_id, env) {
        append(&store.store(), tenant, &[line]).await?;
    }
    Ok(())
}
