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
        if let Some(tls) = config.cql_options()?.tls {
            tls.check().context("store.cql.tls")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The server refuses such files only when it connects.
    #[test]
    fn certificates_are_parsed() {
        let name = format!("porchlight-check-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str, content: &str| {
            let file = folder.join(name);
            std::fs::write(&file, content).unwrap();
            file
        };
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["db-1".to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let mut config = Config::default();
        config.store.kind = StoreKind::Cql;
        config.store.cql.tls = true;
        config.store.cql.ca_file = file("ca.pem", &pem);
        check_files(&config).unwrap();
        let mut with_key = config.clone();
        with_key.store.cql.certificate_file = file("certificate.pem", &pem);
        with_key.store.cql.key_file = file("key.pem", &key.serialize_pem());
        check_files(&with_key).unwrap();
        std::fs::write(&with_key.store.cql.key_file, "no key").unwrap();
        let error = format!("{:#}", check_files(&with_key).unwrap_err());
        assert!(error.contains("key.pem cannot be used"), "{error}");
        std::fs::write(&config.store.cql.ca_file, "").unwrap();
        let error = format!("{:#}", check_files(&config).unwrap_err());
        assert!(
            error.starts_with("store.cql.tls: no trusted certificate"),
            "{error}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
