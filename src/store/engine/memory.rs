//! An in-memory engine for tests, which can fail, wait, and lose unsynced data.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Durability, Engine, EngineError, KeyRange, Order, Space, Visit, Write};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Inner {
    journal: Rows,
    state: Rows,
    /// The values replaced by each write since the last sync.
    unsynced: Vec<Write>,
    acknowledged: u64,
    fail_after: Option<u64>,
    /// Locked while a test holds the engine.
    gate: Arc<Mutex<()>>,
    applied: u64,
    synced: u64,
}

impl Inner {
    fn rows(&mut self, space: Space) -> &mut Rows {
        match space {
            Space::Journal => &mut self.journal,
            Space::State => &mut self.state,
        }
    }

    fn write(&mut self, write: Write) -> Write {
        let Write { space, key, value } = write;
        let before = match value {
            Some(value) => self.rows(space).insert(key.clone(), value),
            None => self.rows(space).remove(&key),
        };
        Write {
            space,
            key,
            value: before,
        }
    }
}

/// An in-memory engine. Clones share their rows, so that a test can keep a clone in addition to the
/// store's.
#[derive(Clone, Default)]
pub struct MemoryEngine(Arc<Mutex<Inner>>);

/// A failure that a test requested.
#[derive(Debug, thiserror::Error)]
#[error("an injected failure")]
pub struct InjectedFailure;

impl MemoryEngine {
    /// Creates an empty engine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts `batches` more batches and fails all later ones.
    pub fn fail_after(&self, batches: u64) {
        self.lock().fail_after = Some(batches);
    }

    /// Runs `work` while the engine applies no batch: the next batch waits for the end of `work`.
    pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        let gate = Arc::clone(&self.lock().gate);
        let _held = gate.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Returns another engine with the content after a power loss: without unsynced data. The two
    /// are independent, so a store that still runs on this one cannot change the other.
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        let inner = self.lock();
        let mut left = Inner {
            journal: inner.journal.clone(),
            state: inner.state.clone(),
            acknowledged: inner.acknowledged,
            ..Inner::default()
        };
        for before in inner.unsynced.iter().rev() {
            left.write(before.clone());
        }
        Self(Arc::new(Mutex::new(left)))
    }

    /// Overwrites a stored value, including its checksum.
    pub fn tamper(&self, space: Space, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> bool {
        match self.lock().rows(space).get_mut(key) {
            Some(value) => {
                change(value);
                true
            }
            None => false,
        }
    }

    /// Returns the number of applied batches, and of synced ones.
    #[must_use]
    pub fn applied_and_synced(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.applied, inner.synced)
    }

    /// Returns the highest acknowledged group.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.lock().acknowledged
    }
}

impl Engine for MemoryEngine {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.lock().rows(space).get(key).cloned())
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        if range.is_empty() {
            return Ok(());
        }
        let mut inner = self.lock();
        let mut rows = inner.rows(space).range::<[u8], _>(range.bounds());
        while let Some((key, value)) = match order {
            Order::Ascending => rows.next(),
            Order::Descending => rows.next_back(),
        } {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError> {
        let gate = Arc::clone(&self.lock().gate);
        drop(gate.lock());
        let mut inner = self.lock();
        match inner.fail_after.as_mut() {
            Some(0) => return Err(EngineError::Failed(Box::new(InjectedFailure))),
            Some(left) => *left -= 1,
            None => {}
        }
        inner.applied += 1;
        for write in writes {
            let before = inner.write(write);
            inner.unsynced.push(before);
        }
        if durability == Durability::Synced {
            inner.synced += 1;
            inner.unsynced.clear();
        }
        Ok(())
    }

    fn acknowledge(&self, group_number: u64) -> Result<(), EngineError> {
        self.lock().acknowledged = group_number;
        Ok(())
    }

    fn purge(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn rotate(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn close(&self) -> Result<(), EngineError> {
        self.lock().unsynced.clear();
        Ok(())
    }
}
