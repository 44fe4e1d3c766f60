//! The shards that this process acts for. While it releases a shard, it still acts for it to write
//! its state, but accepts no new work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use porchlight_ports::Ownership;
use porchlight_schema::ids::{Shard, ShardSet};
use porchlight_schema::limits::SHARDS;

/// The shards of this process, as sessions or webhooks see them. Sessions and webhooks mark the
/// shards that they release separately.
pub(crate) struct OwnShards {
    ownership: Arc<dyn Ownership>,
    /// One mark for each shard that is being released.
    releasing: [AtomicBool; SHARDS],
}

impl OwnShards {
    /// Creates the view of `ownership` in which no shard is being released.
    pub(crate) fn new(ownership: Arc<dyn Ownership>) -> Self {
        Self {
            ownership,
            releasing: [const { AtomicBool::new(false) }; SHARDS],
        }
    }

    /// Returns the generation in which this process acts for a shard now. Returns `None` if this
    /// process does not act for it. A shard that is being released still has its generation.
    pub(crate) fn generation(&self, shard: Shard) -> Option<u64> {
        self.ownership.generation(shard)
    }

    /// Returns whether this process acts for a shard now and accepts new work for it.
    pub(crate) fn acts_for(&self, shard: Shard) -> bool {
        let mark = self.releasing.get(usize::from(shard.0));
        let is_let_go = mark.is_some_and(|mark| mark.load(Ordering::SeqCst));
        self.generation(shard).is_some() && !is_let_go
    }

    /// Returns the shards for which this process acts now and accepts new work.
    pub(crate) fn acting(&self) -> ShardSet {
        ShardSet::ALL
            .iter()
            .filter(|&shard| self.acts_for(shard))
            .collect()
    }

    /// Returns whether other nodes may act for, and write to, shards of the same store.
    pub(crate) fn is_shared(&self) -> bool {
        self.ownership.is_shared()
    }

    /// Marks these shards as being released.
    pub(crate) fn begin_release(&self, shards: ShardSet) {
        self.set_releasing(shards, true);
    }

    /// Removes the marks of shards that this process keeps or has got again.
    pub(crate) fn end_release(&self, shards: ShardSet) {
        self.set_releasing(shards, false);
    }

    fn set_releasing(&self, shards: ShardSet, releasing: bool) {
        for shard in shards.iter() {
            if let Some(mark) = self.releasing.get(usize::from(shard.0)) {
                mark.store(releasing, Ordering::SeqCst);
            }
        }
    }
}
