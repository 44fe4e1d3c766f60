//! Opens the store that a configuration selects.

use std::sync::Arc;

use porchlight_ports::{KeyCheck, Keys, NodesTable, Outbox, Ownership, SingleNode, Store};
use porchlight_schema::time::TimestampMs;
use tokio::time::{Duration, Instant};

use porchlight_store::cql::{CqlOpenError, CqlStore, Role};
use porchlight_store::{EmbeddedStore, OnDurable, OnFatal, OpenError, OpenOptions};
use porchlight_world::SystemClock;

use crate::config::{Config, StoreKind};

/// The reason why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// An error of the embedded store.
    #[error("the embedded store cannot be opened")]
    Embedded(#[from] OpenError),
    /// An error of the CQL store.
    #[error("the CQL store cannot be opened")]
    Cql(#[from] CqlOpenError),
    /// A file that the configuration names cannot be read.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// The folder for the operators' token cannot be created.
    #[error("store.path: {0} cannot be created")]
    Folder(std::path::PathBuf, #[source] std::io::Error),
}

/// The time for which the server waits for a command that has the store open, in milliseconds.
const LOCK_WAIT_MS: u64 = 3_000;
/// The interval between two attempts to open the store, in milliseconds.
const LOCK_RETRY_MS: u64 = 50;

/// Opens the embedded store for serving. A command such as `keys create` may have it open for a
/// moment, so the server waits for it before it fails.
async fn open_when_free(
    options: impl Fn() -> OpenOptions,
) -> Result<Arc<EmbeddedStore>, OpenError> {
    let deadline = Instant::now() + Duration::from_millis(LOCK_WAIT_MS);
    loop {
        match EmbeddedStore::open(options()) {
            Err(OpenError::Locked(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(LOCK_RETRY_MS)).await;
            }
            opened => return opened,
        }
    }
}

/// An open store.
#[derive(Clone)]
pub enum OpenStore {
    /// A store on this machine.
    Embedded(Arc<EmbeddedStore>),
    /// A store on a CQL cluster.
    Cql(Arc<CqlStore>),
}

impl std::fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Embedded(_) => "Embedded",
            Self::Cql(_) => "Cql",
        })
    }
}

impl OpenStore {
    /// Opens the store for serving. The store passes durable batches to `on_durable`, and calls
    /// `on_fatal` when it cannot continue. `node` has the owned shards of a cluster node.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub async fn open_for_serving(
        config: &Config,
        on_durable: OnDurable,
        on_fatal: OnFatal,
        node: Option<Arc<dyn Ownership>>,
    ) -> Result<Self, StoreOpenError> {
        Ok(match config.store.kind {
            StoreKind::Embedded => Self::Embedded(
                open_when_free(|| OpenOptions {
                    path: config.store.path.clone(),
                    reserve_bytes: config.store.reserve_bytes,
                    on_durable: Arc::clone(&on_durable),
                    on_fatal: Arc::clone(&on_fatal),
                })
                .await?,
            ),
            StoreKind::Cql => {
                let folder = &config.store.path;
                std::fs::create_dir_all(folder)
                    .map_err(|error| StoreOpenError::Folder(folder.clone(), error))?;
                let role = match node {
                    Some(ownership) => Role::Node {
                        on_durable,
                        on_fatal,
                        ownership,
                    },
                    None => Role::Serving {
                        on_durable,
                        on_fatal,
                    },
                };
                Self::Cql(CqlStore::open(config.cql_options()?, role, Arc::new(SystemClock)).await?)
            }
        })
    }

    /// Opens the store for a command, without sessions. An embedded store must not be in use; a CQL
    /// cluster may be, and the command does not bring its tables up to date.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub async fn open_for_command(config: &Config) -> Result<Self, StoreOpenError> {
        Self::open_as(config, Role::Command).await
    }

    /// Opens the store like [`Self::open_for_command`], but brings the tables of a CQL cluster up to
    /// date. For work that precedes the start of a server.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub async fn open_before_server(config: &Config) -> Result<Self, StoreOpenError> {
        Self::open_as(config, Role::LoneCommand).await
    }

    async fn open_as(config: &Config, role: Role) -> Result<Self, StoreOpenError> {
        Ok(match config.store.kind {
            StoreKind::Embedded => {
                Self::Embedded(EmbeddedStore::open_for_command(&config.store.path)?)
            }
            StoreKind::Cql => Self::Cql({
                CqlStore::open(config.cql_options()?, role, Arc::new(SystemClock)).await?
            }),
        })
    }

    /// Returns the store as the actors use it.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// Returns the store as webhooks use it.
    #[must_use]
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// Returns the store as the key administration uses it.
    #[must_use]
    pub fn keys(&self) -> Arc<dyn Keys> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// Returns the store as the check of the secret key uses it.
    #[must_use]
    pub fn key_check(&self) -> Arc<dyn KeyCheck> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// Returns the embedded store, which can be backed up; a CQL cluster has its own means.
    #[must_use]
    pub fn embedded(&self) -> Option<&Arc<EmbeddedStore>> {
        match self {
            Self::Embedded(store) => Some(store),
            Self::Cql(_) => None,
        }
    }

    /// Returns the owned shards and the generation for writes, which exceeds all earlier ones.
    /// `started_at` is that generation for a single machine.
    #[must_use]
    pub fn ownership(&self, started_at: TimestampMs) -> Arc<dyn Ownership> {
        match self {
            Self::Embedded(_) => Arc::new(SingleNode {
                generation: started_at.0.unsigned_abs(),
            }),
            Self::Cql(store) => store.ownership(),
        }
    }

    /// Returns the table of members and owners, if several nodes may share the store.
    #[must_use]
    pub fn nodes(&self) -> Option<Arc<dyn NodesTable>> {
        match self {
            Self::Embedded(_) => None,
            Self::Cql(store) => Some(Arc::clone(store) as _),
        }
    }

    /// Waits for `work` on this store, and then closes the store, also if `work` failed.
    pub async fn close_after<T>(&self, work: impl Future<Output = T>) -> T {
        let outcome = work.await;
        self.close().await;
        outcome
    }

    /// Stops accepting operations and waits until accepted ones are written.
    pub async fn close(&self) {
        match self {
            Self::Embedded(store) => store.close().await,
            Self::Cql(store) => store.close().await,
        }
    }
}
