//! `porchlight migrate`: copies the embedded store to the CQL cluster of the same configuration.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use porchlight_actors::service::{apply_erasures, logged_erasures};
use porchlight_keys::check;
use porchlight_keys::secrets::SecretVault;
use porchlight_ports::{KeyCheck, Outbox, SecretSeal};
use porchlight_store::EmbeddedStore;
use porchlight_store::cql::{CqlStore, Role};
use porchlight_store::migrate::{Migrated, migrate};
use porchlight_world::SystemClock;
use serde_json::{Value, json};

use super::check::{require_no_server, require_store};
use super::{ConfigArguments, counted, with_embedded};
use crate::config::{Config, StoreKind};
use crate::key_guard::store_secrets;
use crate::open_store::OpenStore;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the embedded store. No server may use it, and no server may serve from the
    /// cluster yet.
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
    /// Print `{customers, sessions, wereThere, batches, messages, erased}` instead of a sentence.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Checks that the configured keys open the embedded store and its webhook secrets, opens the
/// cluster, and imports everything.
async fn migrate_from(
    config: &Config,
    from: &Arc<EmbeddedStore>,
) -> anyhow::Result<(Migrated, u64)> {
    let keys = config.secret_keys()?;
    check::verify(&keys, from.key_check().await?, from.as_ref()).await?;
    from.unlock(&store_secrets(&keys))?;
    let vault = SecretVault::new(&keys);
    for endpoint in from.endpoints().await? {
        let (tenant, id) = (endpoint.tenant, endpoint.id);
        if vault.open(tenant, id, &endpoint.secret).is_none() {
            bail!(
                "secrets.key_files lacks the key that sealed the secret of webhook {id}. Add the embedded store's \
                 secret.key after the first entry"
            );
        }
    }
    let to = CqlStore::open(
        config.cql_options()?,
        Role::LoneCommand,
        Arc::new(SystemClock),
    )
    .await
    .context("the cluster cannot be used")?;
    let import = async {
        check::verify_and_remember(&keys, to.as_ref(), to.as_ref()).await?;
        migrate_and_erase(from, &to).await
    };
    OpenStore::Cql(Arc::clone(&to)).close_after(import).await
}

/// Imports everything, and applies the logged erasures of both stores to the cluster. The cluster
/// may have erased sessions since an earlier run imported them, and then this run imports them
/// again. Also returns the number of erased sessions.
async fn migrate_and_erase(
    from: &Arc<EmbeddedStore>,
    to: &Arc<CqlStore>,
) -> anyhow::Result<(Migrated, u64)> {
    let done = migrate(from, to, |done| {
        tracing::info!(
            sessions = done.sessions + done.were_there,
            "sessions are being migrated"
        );
    });
    let done = done.await?;
    // The import has added the entries of the embedded store.
    let erasures = logged_erasures(to.as_ref()).await?;
    let erased = apply_erasures(to.as_ref(), &erasures).await?;
    Ok((done, erased))
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = arguments.config.load()?;
    if config.store.kind != StoreKind::Cql {
        bail!("use the configuration of the target store, with store.kind = \"cql\"");
    }
    require_store(&arguments.from)?;
    require_no_server(&config)?;
    let from =
        EmbeddedStore::open_for_command(&arguments.from).context("the store cannot be opened")?;
    let (done, erased) = with_embedded(&from, migrate_from(&config, &from))?;
    if arguments.json {
        return say!("{}", json_of(&done, erased));
    }
    let Migrated {
        customers,
        sessions,
        were_there,
        batches,
        messages,
    } = done;
    say!(
        "organizations, keys and webhooks: {customers}; {} copied now, {were_there} in earlier runs; \
         batches compared: {batches}, messages: {messages}, all identical; {} erased again",
        counted(sessions, "session"),
        counted(erased, "session")
    )
}

/// Returns the output of `--json`.
fn json_of(done: &Migrated, erased: u64) -> Value {
    json!({
        "customers": done.customers,
        "sessions": done.sessions,
        "wereThere": done.were_there,
        "batches": done.batches,
        "messages": done.messages,
        "erased": erased,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_has_all_counts_of_the_sentence() {
        let done = Migrated {
            customers: 1,
            sessions: 2,
            were_there: 3,
            batches: 4,
            messages: 5,
        };
        let shape = json!({
            "customers": 1, "sessions": 2, "wereThere": 3, "batches": 4, "messages": 5, "erased": 6,
        });
        assert_eq!(json_of(&done, 6), shape);
    }
}
