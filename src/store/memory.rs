//! The store in memory, for tests.

use std::sync::Arc;

use super::committer::{Committer, Disk, OnDurable, OnFatal};
use super::continuity::{self, MissingGroups};
use super::engine::memory::MemoryEngine;
use super::local::LocalStore;

/// The store in memory.
pub type MemoryStore = LocalStore<MemoryEngine>;

/// The reason why a store on an in-memory engine did not open.
#[derive(Debug, thiserror::Error)]
pub enum MemoryOpenError {
    /// The engine lost acknowledged data.
    #[error("the store is incomplete")]
    MissingGroups(#[from] MissingGroups),
    /// No thread could be started.
    #[error("the writer's thread cannot be started")]
    Thread(#[from] std::io::Error),
}

impl MemoryStore {
    /// Creates a store on an empty engine.
    pub fn new(on_durable: OnDurable) -> Result<Arc<Self>, MemoryOpenError> {
        Self::on(MemoryEngine::new(), on_durable, Arc::new(|_| {}))
    }

    /// Creates a store on an engine that may hold data.
    pub fn on(
        engine: MemoryEngine,
        on_durable: OnDurable,
        on_fatal: OnFatal,
    ) -> Result<Arc<Self>, MemoryOpenError> {
        let group_number = continuity::check(&engine, engine.acknowledged())?;
        let engine = Arc::new(engine);
        Ok(Arc::new(Self {
            committer: Committer::start(
                Arc::clone(&engine) as _,
                group_number,
                Disk::unlimited(),
                on_durable,
                on_fatal,
            )?,
            engine,
            _syncing: None,
            folder: None,
        }))
    }
}
