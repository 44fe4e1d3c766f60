//! `porchlight check-config`: checks beyond parsing, for referenced files.

use std::path::Path;

use anyhow::{Context, bail};
use porchlight_keys::keyring::SecretKeys;
use porchlight_store::EmbeddedStore;

use crate::cluster::PeerSecrets;
use crate::config::{Config, StoreKind};
use crate::ops::client::OpsClient;
use crate::transport;

/// Checks that all referenced files exist and are readable, as `serve` would.
pub(super) fn check_files(config: &Config) -> anyhow::Result<()> {
    if !config.secrets.key_files.is_empty() {
        SecretKeys::load(&config.secrets.key_files).context("secrets.key_files")?;
    }
    if !config.cluster.secret_file.as_os_str().is_empty() {
        PeerSecrets::of(&config.cluster)?;
    }
    if let Some(file) = config.webhook.extra_ca_file() {
        transport::check_trusted(&file).context("webhook.extra_ca_file")?;
    }
    config.map.open()?;
    if config.store.kind == StoreKind::Cql {
        let cql = &config.store.cql;
        for (key, file) in [
            ("store.cql.password_file", &cql.password_file),
            ("store.cql.ca_file", &cql.ca_file),
            ("store.cql.certificate_file", &cql.certificate_file),
            ("store.cql.key_file", &cql.key_file),
        ] {
            if !file.as_os_str().is_empty() {
                std::fs::read(file)
                    .with_context(|| format!("{key}: {} cannot be read", file.display()))?;
            }
        }
    }
    Ok(())
}

/// Returns an error if a server runs with this configuration.
pub(super) fn require_no_server(config: &Config) -> anyhow::Result<()> {
    if OpsClient::of(config)?.is_some() {
        bail!("a server runs with this configuration: stop it first");
    }
    Ok(())
}

/// Returns an error unless the configured store exists. Commands that only read a store call this
/// first, because opening a missing embedded store would create an empty one.
pub(super) fn require_configured_store(config: &Config) -> anyhow::Result<()> {
    match config.store.kind {
        StoreKind::Embedded => require_store(&config.store.path),
        StoreKind::Cql => Ok(()),
    }
}

/// Returns an error unless the folder contains an embedded store.
pub(super) fn require_store(folder: &Path) -> anyhow::Result<()> {
    if EmbeddedStore::exists_at(folder) {
        return Ok(());
    }
    bail!("{} contains no store", folder.display())
}
