//! Shards that this process is releasing: it still acts for them to write its state, but accepts no
//! new work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use porchlight_schema::ids::{SessionId, Shard, ShardSet};
use porchlight_schema::limits::SHARDS;

use porchlight_ports::Ownership;

/// One mark for each shard.
#[derive(Debug)]
pub(crate) struct LettingGo([AtomicBool; SHARDS]);

impl Default for LettingGo {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; SHARDS])
    }
}

impl LettingGo {
    /// Marks these, or takes their marks away.
    pub(crate) fn set(&self, shards: ShardSet, letting_go: bool) {
        for shard in shards.iter() {
            if let Some(mark) = self.0.get(usize::from(shard.0)) {
                mark.store(letting_go, Ordering::SeqCst);
            }
        }
    }

    /// Whether `shard` is marked.
    pub(crate) fn contains(&self, shard: Shard) -> bool {
        let mark = self.0.get(usize::from(shard.0));
        mark.is_some_and(|mark| mark.load(Ordering::SeqCst))
    }
}

/// The shards of the sessions of this process.
pub(crate) struct OwnShards {
    ownership: Arc<dyn Ownership>,
    letting_go: LettingGo,
}

impl OwnShards {
    /// Creates the view of `ownership` in which no shard is being released.
    pub(crate) fn new(ownership: Arc<dyn Ownership>) -> Self {
        Self {
            ownership,
            letting_go: LettingGo::default(),
        }
    }

    /// Returns the generation in which this process acts for a session now. Returns `None` if this process does not
    /// act for it. A shard that is being released still has its generation.
    pub(crate) fn generation(&self, session_id: SessionId) -> Option<u64> {
        self.ownership.generation(session_id.shard())
    }

    /// Returns whether this process acts for a session now and accepts its new batches.
    pub(crate) fn acts_for(&self, session_id: SessionId) -> bool {
        self.generation(session_id).is_some() && !self.letting_go.contains(session_id.shard())
    }

    /// Returns whether other nodes may act for, and write to, the sessions of this node.
    pub(crate) fn is_shared(&self) -> bool {
        self.ownership.is_shared()
    }

    /// Marks these shards as being released, or removes their marks.
    pub(crate) fn set_letting_go(&self, shards: ShardSet, letting_go: bool) {
        self.letting_go.set(shards, letting_go);
    }
}

/// The shards for which this process acts now and which it does not let go.
pub(crate) fn own(ownership: &dyn Ownership, letting_go: &LettingGo) -> ShardSet {
    ShardSet::ALL
        .iter()
        .filter(|&shard| ownership.generation(shard).is_some() && !letting_go.contains(shard))
        .collect()
}
