//! Configuration of the CQL store.

use std::path::{Path, PathBuf};

use porchlight_schema::limits::{END_SETTLES_MS, INGEST_TIMEOUT_MS_MAX};
use porchlight_store::cql::{CqlOptions, CqlTls, is_keyspace};
use secrecy::SecretString;

use super::cluster::is_address;
use super::{Config, ConfigError, HumanDuration};

/// The maximum length of a password in bytes.
const PASSWORD_BYTES_MAX: u64 = 4_096;

/// Returns the file that a setting names, or `None` if the setting is empty.
fn named(file: &Path) -> Option<PathBuf> {
    Some(file.to_path_buf()).filter(|file| !file.as_os_str().is_empty())
}

/// Validates the settings of the CQL store.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let cql = &config.store.cql;
    if cql.nodes.is_empty() {
        return Err(ConfigError::invalid("store.cql.nodes", "must name a node"));
    }
    if let Some(node) = cql.nodes.iter().find(|node| !is_contact_point(node)) {
        let detail = format!("`{node}` is not HOST:PORT, or HOST for port 9042");
        return Err(ConfigError::invalid("store.cql.nodes", detail));
    }
    if !is_keyspace(&cql.keyspace) {
        let detail = "must be at most 48 lower-case letters, digits and underscores, and begin with a letter";
        return Err(ConfigError::invalid("store.cql.keyspace", detail));
    }
    if cql.replication_factor == 0 {
        return Err(ConfigError::invalid(
            "store.cql.replication_factor",
            "must be 1 or more",
        ));
    }
    if cql.user.is_empty() != named(&cql.password_file).is_none() {
        let detail = "is needed with store.cql.user, and only then";
        return Err(ConfigError::invalid("store.cql.password_file", detail));
    }
    if named(&cql.certificate_file).is_some() != named(&cql.key_file).is_some() {
        let detail = "is needed with store.cql.certificate_file, and only then";
        return Err(ConfigError::invalid("store.cql.key_file", detail));
    }
    let has_files = [&cql.ca_file, &cql.certificate_file]
        .into_iter()
        .any(|file| named(file).is_some());
    if has_files && !cql.tls {
        let detail = "must be true if certificates are named";
        return Err(ConfigError::invalid("store.cql.tls", detail));
    }
    if !(1..=INGEST_TIMEOUT_MS_MAX).contains(&cql.ingest_timeout.as_millis()) {
        let most = HumanDuration::from_millis(INGEST_TIMEOUT_MS_MAX);
        let settles_sec = END_SETTLES_MS / 1_000;
        let detail = format!(
            "must be longer than 0 and at most {most}: a write that arrives later than {settles_sec} s \
             after a session's end would be missing from its insight"
        );
        return Err(ConfigError::invalid("store.cql.ingest_timeout", detail));
    }
    if config.secrets.key_files.is_empty() {
        let detail =
            "is required with store.kind = \"cql\", because the key is not stored in the database";
        return Err(ConfigError::invalid("secrets.key_files", detail));
    }
    Ok(())
}

/// Returns whether the driver can use a text as a contact point. Port 9042 may be left out.
fn is_contact_point(node: &str) -> bool {
    // Several colons belong to an IPv6 address.
    let has_port = node.matches(':').count() == 1;
    !node.is_empty() && (!has_port || is_address(node))
}

impl Config {
    /// Returns the connection options, with the password from its file.
    ///
    /// # Errors
    ///
    /// Returns an error if the password file cannot be read.
    pub fn cql_options(&self) -> Result<CqlOptions, ConfigError> {
        let cql = &self.store.cql;
        let user = match named(&cql.password_file) {
            Some(file) => Some((cql.user.clone(), password(&file)?)),
            None => None,
        };
        let identity = named(&cql.certificate_file).zip(named(&cql.key_file));
        let tls = cql.tls.then(|| CqlTls {
            ca_file: named(&cql.ca_file),
            identity,
        });
        Ok(CqlOptions {
            nodes: cql.nodes.clone(),
            keyspace: cql.keyspace.clone(),
            replication_factor: cql.replication_factor,
            datacenter: Some(cql.datacenter.clone()).filter(|name| !name.is_empty()),
            user,
            tls,
            ingest_within: cql.ingest_timeout.as_duration(),
            retention: self.store.retention.as_duration(),
            session_max: self.session.max_duration.as_duration(),
            agreement: porchlight_store::cql::Agreement::default(),
        })
    }
}

/// Returns the first line of the password file.
fn password(file: &Path) -> Result<SecretString, ConfigError> {
    use std::io::Read;
    let failed = |error: std::io::Error| {
        let detail = format!("{} cannot be read: {error}", file.display());
        ConfigError::invalid("store.cql.password_file", detail)
    };
    let mut text = zeroize::Zeroizing::new(String::new());
    std::fs::File::open(file)
        .map_err(failed)?
        .take(PASSWORD_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text.lines().next().unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use crate::config::StoreKind;

    use super::*;

    fn good() -> Config {
        let mut config = Config::default();
        config.store.kind = StoreKind::Cql;
        config.secrets.key_files = vec!["key".into()];
        config
    }

    #[test]
    fn invalid_or_incomplete_cql_settings_are_refused() {
        check(&good()).unwrap();
        type Break = fn(&mut Config);
        let broken: [(&str, Break); 8] = [
            ("store.cql.ingest_timeout", |config| {
                config.store.cql.ingest_timeout = HumanDuration::from_seconds(3);
            }),
            ("store.cql.nodes", |config| config.store.cql.nodes.clear()),
            ("store.cql.keyspace", |config| {
                config.store.cql.keyspace = "a;b".into();
            }),
            ("store.cql.replication_factor", |config| {
                config.store.cql.replication_factor = 0;
            }),
            ("store.cql.password_file", |config| {
                config.store.cql.user = "me".into();
            }),
            ("store.cql.key_file", |config| {
                config.store.cql.certificate_file = "me.pem".into();
            }),
            ("store.cql.tls", |config| {
                config.store.cql.ca_file = "ca.pem".into();
            }),
            ("secrets.key_files", |config| {
                config.secrets.key_files.clear();
            }),
        ];
        for (key, break_it) in broken {
            let mut config = good();
            break_it(&mut config);
            let error = check(&config).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn each_node_is_a_contact_point() {
        for (node, is_valid) in [
            ("db-1:9042", true),
            ("db-1", true),
            ("127.0.0.1:9042", true),
            ("::1", true),
            ("[::1]:9042", true),
            ("", false),
            (":9042", false),
            ("db-1:", false),
            ("db-1:x", false),
        ] {
            let mut config = good();
            config.store.cql.nodes.push(node.to_owned());
            let checked = check(&config).map_err(|error| error.to_string());
            assert_eq!(checked.is_ok(), is_valid, "{node}: {checked:?}");
        }
    }

    #[test]
    fn the_password_is_the_first_line_and_never_shown() {
        let file = std::env::temp_dir().join(format!("porchlight-password-{}", std::process::id()));
        std::fs::write(&file, "opensesame\nmore\n").unwrap();
        let mut config = good();
        config.store.cql.user = "me".into();
        config.store.cql.password_file.clone_from(&file);
        let options = config.cql_options().unwrap();
        assert!(!format!("{options:?}").contains("opensesame"));
        let (_, password) = options.user.unwrap();
        assert_eq!(
            secrecy::ExposeSecret::expose_secret(&password),
            "opensesame"
        );
        std::fs::remove_file(&file).unwrap();
        assert!(config.cql_options().is_err());
    }
}
