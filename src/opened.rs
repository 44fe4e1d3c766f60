//! The store that a configuration names, whichever it is.

use std::sync::Arc;

use porchlight_ports::{Alone, Keys, NodesTable, Outbox, Ownership, Store};
use porchlight_schema::time::TimestampMs;

use porchlight_store::cql::{CqlOpenError, CqlStore, Role};
use porchlight_store::{EmbeddedStore, HandOver, OnFatal, OpenError, OpenOptions};
use porchlight_world::SystemClock;

use crate::config::{Config, StoreKind};

/// Why the store can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The embedded one.
    #[error("the store can't be opened")]
    Embedded(#[from] OpenError),
    /// The one on CQL.
    #[error("the store can't be opened")]
    Cql(#[from] CqlOpenError),
    /// A file that the configuration names can't be read.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// The folder beside it, where the operators' token lies, can't be made.
    #[error("store.path: {0} can't be made")]
    Folder(std::path::PathBuf, #[source] std::io::Error),
}

/// An open store.
#[derive(Clone)]
pub enum OpenStore {
    /// On this machine.
    Embedded(Arc<EmbeddedStore>),
    /// On a cluster.
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
    /// Opens the store to serve from it. What becomes durable is handed over; `on_fatal` is told when the store can't
    /// go on. `node` says which shards this process acts for, where it is one of several.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub async fn serving(
        config: &Config,
        hand_over: HandOver,
        on_fatal: OnFatal,
        node: Option<Arc<dyn Ownership>>,
    ) -> Result<Self, StoreOpenError> {
        Ok(match config.store.kind {
            StoreKind::Embedded => Self::Embedded(EmbeddedStore::open(OpenOptions {
                path: config.store.path.clone(),
                hand_over,
                on_fatal,
            })?),
            StoreKind::Cql => {
                let folder = &config.store.path;
                std::fs::create_dir_all(folder)
                    .map_err(|error| StoreOpenError::Folder(folder.clone(), error))?;
                let role = match node {
                    Some(ownership) => Role::Node {
                        hand_over,
                        on_fatal,
                        ownership,
                    },
                    None => Role::Serving {
                        hand_over,
                        on_fatal,
                    },
                };
                Self::Cql(CqlStore::open(config.cql_options()?, role, Arc::new(SystemClock)).await?)
            }
        })
    }

    /// Opens the store for a command: no session runs here. The embedded one must not be in use; of the other any
    /// number may be beside a server.
    ///
    /// # Errors
    ///
    /// See [`StoreOpenError`].
    pub async fn beside(config: &Config) -> Result<Self, StoreOpenError> {
        Ok(match config.store.kind {
            StoreKind::Embedded => Self::Embedded(EmbeddedStore::open_alone(&config.store.path)?),
            StoreKind::Cql => Self::Cql({
                CqlStore::open(config.cql_options()?, Role::Beside, Arc::new(SystemClock)).await?
            }),
        })
    }

    /// As the actors see it.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// As webhooks see it.
    #[must_use]
    pub fn outbox(&self) -> Arc<dyn Outbox> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// As the keys' desk sees it.
    #[must_use]
    pub fn keys(&self) -> Arc<dyn Keys> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as _,
            Self::Cql(store) => Arc::clone(store) as _,
        }
    }

    /// The embedded one, which can be copied; a cluster is copied by its own means.
    #[must_use]
    pub fn embedded(&self) -> Option<&Arc<EmbeddedStore>> {
        match self {
            Self::Embedded(store) => Some(store),
            Self::Cql(_) => None,
        }
    }

    /// Which shards this process acts for, and in which generation it writes: higher than every earlier one's.
    /// `started_at` is that number where one machine's clock is all there is.
    #[must_use]
    pub fn ownership(&self, started_at: TimestampMs) -> Arc<dyn Ownership> {
        match self {
            Self::Embedded(_) => Arc::new(Alone {
                generation: started_at.0.unsigned_abs(),
            }),
            Self::Cql(store) => store.ownership(),
        }
    }

    /// The table of the nodes, where several may share the store.
    #[must_use]
    pub fn nodes(&self) -> Option<Arc<dyn NodesTable>> {
        match self {
            Self::Embedded(_) => None,
            Self::Cql(store) => Some(Arc::clone(store) as _),
        }
    }

    /// Takes nothing more, and waits until what was taken is written.
    pub async fn close(&self) {
        match self {
            Self::Embedded(store) => store.close().await,
            Self::Cql(store) => store.close().await,
        }
    }
}
