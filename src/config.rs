//! Configuration: defaults, then a TOML file, then the environment (`PORCHLIGHT__SECTION__KEY`),
//! then flags. Unknown keys are errors. `porchlight print-config` shows the effective
//! configuration.

mod cluster;
mod cql;
mod deserialize;
mod duration;
mod environment;
mod file;
mod limits;
mod log;
mod map;
mod privacy;
mod retention;
mod secrets;
mod server;
mod sources;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use config::Source;
use porchlight_schema::limits::{
    DRAIN_GRACE_MS, DRAIN_GRACE_MS_MAX, KEY_REQUESTS_PER_SECOND_DEFAULT, RETENTION_DAYS_DEFAULT,
    RETENTION_MS_MIN, SESSION_DURATION_MINUTES_DEFAULT, SESSION_DURATION_MS_MAX,
    SESSION_IDLE_MINUTES_DEFAULT, SESSION_IDLE_MS_MIN, STORE_RESERVE_BYTES_DEFAULT,
};
use porchlight_schema::time::HOUR_MS;
use serde::{Deserialize, Serialize};

use crate::transport::address::Cidr;
use file::ConfigFile;
use sources::Sources;

pub use duration::HumanDuration;
pub use limits::Limits;
pub use log::Log;
pub use map::Map;
pub use privacy::Privacy;
pub use retention::Retention;
pub use sources::describe as describe_sources;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The two listeners.
    pub server: Server,
    /// The settings of the store.
    pub store: Store,
    /// Limits on the length of sessions.
    pub session: Session,
    /// The settings of webhooks.
    pub webhook: Webhook,
    /// The keys that seal stored secrets.
    pub secrets: Secrets,
    /// The settings of the cluster.
    pub cluster: Cluster,
    /// The limits of one tenant on this node.
    pub limits: Limits,
    /// The settings of privacy requests.
    pub privacy: Privacy,
    /// The bounds of the retention that organizations choose.
    pub retention: Retention,
    /// The street map.
    pub map: Map,
    /// The settings of the log.
    pub log: Log,
}

/// The two listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address of the public API and the console.
    #[serde(deserialize_with = "deserialize::address")]
    pub listen: SocketAddr,
    /// Requests per second of one key; 0: no limit.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub rate_limit_per_second: u32,
    /// Address for metrics, health and the operators' API; never public.
    #[serde(deserialize_with = "deserialize::address")]
    pub ops_listen: SocketAddr,
    /// Number of HTTP threads, at most 256; 0: one per core.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub workers: usize,
    /// The public base URL of the API, for links in answers (`https://api.example.com`); empty: the
    /// address on which the service listens. Required if `cluster.advertise` is set.
    #[serde(deserialize_with = "deserialize::text")]
    pub public_url: String,
    /// Addresses of proxies, as CIDRs, whose `Forwarded` and `X-Forwarded-For` name the client.
    #[serde(deserialize_with = "deserialize::texts")]
    pub trusted_proxies: Vec<String>,
    /// The origins of other web pages that may call the paths for phones, such as
    /// `https://app.example.com`; empty: none.
    #[serde(deserialize_with = "deserialize::texts")]
    pub cors_origins: Vec<String>,
    /// The host names under which the operators' listener answers, in addition to `localhost` and
    /// addresses.
    #[serde(deserialize_with = "deserialize::texts")]
    pub ops_hosts: Vec<String>,
    /// The time for which a stopping service still answers connected clients: reads as usual,
    /// everything else with 503.
    pub drain_grace: HumanDuration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            rate_limit_per_second: KEY_REQUESTS_PER_SECOND_DEFAULT,
            ops_listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            workers: 0,
            public_url: String::new(),
            trusted_proxies: Vec::new(),
            cors_origins: Vec::new(),
            ops_hosts: Vec::new(),
            drain_grace: HumanDuration::from_seconds(DRAIN_GRACE_MS / 1_000),
        }
    }
}

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum StoreKind {
    /// A folder on this machine.
    #[default]
    Embedded,
    /// ScyllaDB or Apache Cassandra.
    Cql,
}

impl StoreKind {
    /// Returns the word of the configuration for this kind.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cql => "cql",
        }
    }
}

/// The settings of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// The kind of store.
    pub kind: StoreKind,
    /// The folder of the embedded store.
    #[serde(deserialize_with = "deserialize::text")]
    pub path: PathBuf,
    /// The time for which a session is kept after its end.
    pub retention: HumanDuration,
    /// Free bytes on the embedded store's disk below which new data is refused with 503, at most a
    /// quarter of the disk; 0: no reserve.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub reserve_bytes: u64,
    /// The cluster for `kind = "cql"`.
    pub cql: Cql,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            kind: StoreKind::default(),
            path: PathBuf::from("porchlight-data"),
            retention: HumanDuration::from_days(RETENTION_DAYS_DEFAULT),
            reserve_bytes: STORE_RESERVE_BYTES_DEFAULT,
            cql: Cql::default(),
        }
    }
}

/// The CQL cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cql {
    /// Contact points: `host:port`.
    #[serde(deserialize_with = "deserialize::texts")]
    pub nodes: Vec<String>,
    /// The keyspace, which is created if absent.
    #[serde(deserialize_with = "deserialize::text")]
    pub keyspace: String,
    /// Replication factor of a created keyspace.
    #[serde(deserialize_with = "deserialize::whole_number")]
    pub replication_factor: u32,
    /// The data centre to use; empty: any node.
    #[serde(deserialize_with = "deserialize::text")]
    pub datacenter: String,
    /// User name; empty: no authentication.
    #[serde(deserialize_with = "deserialize::text")]
    pub user: String,
    /// File with the user's password.
    #[serde(deserialize_with = "deserialize::text")]
    pub password_file: PathBuf,
    /// Whether connections are encrypted and certificates verified.
    #[serde(deserialize_with = "deserialize::boolean")]
    pub tls: bool,
    /// PEM file of certificate authorities; empty: the system's.
    #[serde(deserialize_with = "deserialize::text")]
    pub ca_file: PathBuf,
    /// PEM file of the client certificate, if the cluster requires one.
    #[serde(deserialize_with = "deserialize::text")]
    pub certificate_file: PathBuf,
    /// PEM file of the client certificate's key.
    #[serde(deserialize_with = "deserialize::text")]
    pub key_file: PathBuf,
    /// Deadline of a journal write; a slower one is answered with 503.
    pub ingest_timeout: HumanDuration,
}

impl Default for Cql {
    fn default() -> Self {
        Self {
            nodes: vec!["127.0.0.1:9042".into()],
            keyspace: "porchlight".into(),
            replication_factor: 3,
            datacenter: String::new(),
            user: String::new(),
            password_file: PathBuf::new(),
            tls: false,
            ca_file: PathBuf::new(),
            certificate_file: PathBuf::new(),
            key_file: PathBuf::new(),
            ingest_timeout: HumanDuration::from_seconds(1),
        }
    }
}

/// Limits on the length of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Session {
    /// The service completes a session that receives no data for this long; at least one second.
    pub idle_timeout: HumanDuration,
    /// The service completes a session that is older than this; at most
    /// [`SESSION_DURATION_MS_MAX`].
    pub max_duration: HumanDuration,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            idle_timeout: HumanDuration::from_minutes(SESSION_IDLE_MINUTES_DEFAULT),
            max_duration: HumanDuration::from_minutes(SESSION_DURATION_MINUTES_DEFAULT),
        }
    }
}

/// The settings of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// The private networks to which webhooks may connect, as CIDRs.
    #[serde(deserialize_with = "deserialize::texts")]
    pub allow_addresses: Vec<String>,
    /// PEM file of further certificate authorities; empty: none.
    #[serde(deserialize_with = "deserialize::text")]
    pub extra_ca_file: PathBuf,
}

impl Webhook {
    /// Returns the parsed allowed CIDRs.
    pub fn allowed(&self) -> Result<Vec<Cidr>, ConfigError> {
        parse_cidrs("webhook.allow_addresses", &self.allow_addresses)
    }

    /// Returns the file of further certificate authorities, if one is named.
    #[must_use]
    pub fn extra_ca_file(&self) -> Option<PathBuf> {
        Some(self.extra_ca_file.clone()).filter(|file| !file.as_os_str().is_empty())
    }
}

/// Parses the CIDRs of the setting `key`.
fn parse_cidrs(key: &'static str, texts: &[String]) -> Result<Vec<Cidr>, ConfigError> {
    let parse = |text: &String| {
        text.parse().map_err(|_| {
            let detail = format!("{text} is not a CIDR such as 10.0.0.0/8");
            ConfigError::invalid(key, detail)
        })
    };
    texts.iter().map(parse).collect()
}

/// The keys that seal stored secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// Files with 32 bytes in hex each. The first key seals, the others only open. Empty: a key is
    /// created next to the embedded store.
    #[serde(deserialize_with = "deserialize::texts")]
    pub key_files: Vec<PathBuf>,
}

/// The settings of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// `host:port` at which the other nodes reach this one; empty: a single process.
    #[serde(deserialize_with = "deserialize::text")]
    pub advertise: String,
    /// Address on which this node listens for the other nodes; empty: the same as `advertise`.
    #[serde(deserialize_with = "deserialize::text")]
    pub listen: String,
    /// File with the secret that all nodes share; required if `advertise` is set. The node sends
    /// requests with it.
    #[serde(deserialize_with = "deserialize::text")]
    pub secret_file: PathBuf,
    /// Files with further accepted secrets, for changing the secret.
    #[serde(deserialize_with = "deserialize::texts")]
    pub accepted_secret_files: Vec<PathBuf>,
}

/// The reason why the configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file or a variable cannot be read or parsed.
    #[error("configuration: {0}")]
    Read(#[from] config::ConfigError),
    /// The file cannot be read.
    #[error("configuration: {0} cannot be read")]
    File(PathBuf, #[source] std::io::Error),
    /// A folder was named instead of a file.
    #[error("configuration: {0} is a folder, not a file")]
    Folder(PathBuf),
    /// A setting is invalid.
    #[error("configuration: {key}: {detail}")]
    Invalid {
        /// The key of the setting.
        key: &'static str,
        /// The expected value.
        detail: String,
    },
    /// A key is not a setting, or names a section instead of one.
    #[error("configuration: {key}: {detail}")]
    Structure {
        /// The key.
        key: String,
        /// The fault, and the keys that exist.
        detail: String,
    },
    /// An error about a setting, with the place that sets it.
    #[error("{error} ({place})")]
    Placed {
        /// The error.
        error: Box<ConfigError>,
        /// The file and the line, or the variable.
        place: String,
    },
}

impl ConfigError {
    /// Returns the key that the error is about.
    fn key(&self) -> Option<&str> {
        match self {
            Self::Invalid { key, .. } => Some(key),
            Self::Structure { key, .. } => Some(key),
            Self::Placed { error, .. } => error.key(),
            Self::Read(
                config::ConfigError::At { key, .. } | config::ConfigError::Type { key, .. },
            ) => key.as_deref(),
            Self::Read(_) | Self::File(..) | Self::Folder(_) => None,
        }
    }

    /// Creates the error about a key that is not a setting.
    fn structure(key: String, detail: String) -> Self {
        Self::Structure { key, detail }
    }

    /// Creates the error about the setting `key`; `detail` states the valid values.
    fn invalid(key: &'static str, detail: impl Into<String>) -> Self {
        Self::Invalid {
            key,
            detail: detail.into(),
        }
    }
}

impl Config {
    /// Loads and validates the file, if one is named, and the environment.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load_from(file, std::env::vars_os())
    }

    fn load_from(
        file: Option<&Path>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let variables: Vec<_> = variables.collect();
        let file = file.map(ConfigFile::read).transpose()?;
        let sources = Sources {
            file: file.as_ref(),
            variables: sources::names(&variables),
        };
        let loaded = Self::build(file.clone(), variables);
        loaded.map_err(|error| sources.locate(error))
    }

    fn build(
        file: Option<ConfigFile>,
        variables: Vec<(OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut builder = config::Config::builder();
        if let Some(file) = file {
            builder = builder.add_source(file);
        }
        let read = environment::override_settings(builder, variables.into_iter())?.build()?;
        sources::check_keys(&read.collect()?)?;
        let config: Self = read.try_deserialize()?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let invalid = |key, detail: &str| Err(ConfigError::invalid(key, detail));
        if self.store.kind == StoreKind::Cql {
            cql::check(self)?;
        }
        cluster::check(self)?;
        if self.session.idle_timeout.as_millis() < SESSION_IDLE_MS_MIN {
            let least = HumanDuration::from_millis(SESSION_IDLE_MS_MIN);
            let detail = format!("must be {least} or more");
            return invalid("session.idle_timeout", &detail);
        }
        self.privacy.check()?;
        // Either limit may be the shorter one.
        if !(1..=SESSION_DURATION_MS_MAX).contains(&self.session.max_duration.as_millis()) {
            let most_h = SESSION_DURATION_MS_MAX / HOUR_MS;
            let detail = format!("must be longer than 0 and at most {most_h}h");
            return invalid("session.max_duration", &detail);
        }
        if self.store.retention.as_millis() < RETENTION_MS_MIN {
            let least = HumanDuration::from_millis(RETENTION_MS_MIN);
            let detail =
                format!("must be {least} or more: webhooks are retried for more than a day");
            return invalid("store.retention", &detail);
        }
        if let Err((key, detail)) = self.retention.check(self.store.retention) {
            return invalid(key, &detail);
        }
        if self.store.path.as_os_str().is_empty() {
            return invalid("store.path", "must name a folder");
        }
        self.webhook.allowed()?;
        self.log.parsed_filter()?;
        self.server.proxies()?;
        self.server.origins()?;
        self.server.check_listeners()?;
        self.server.check_public_url()?;
        self.server.check_workers()?;
        self.server.check_ops_hosts()?;
        let most = HumanDuration::from_seconds(DRAIN_GRACE_MS_MAX / 1_000);
        if self.server.drain_grace > most {
            let detail = format!("must not be longer than {most}");
            return invalid("server.drain_grace", &detail);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
