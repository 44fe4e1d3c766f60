//! Shards that this process is releasing: it still acts for them to write its state, but accepts no
//! new work.

use std::sync::atomic::{AtomicBool, Ordering};

use porchlight_schema::ids::{Shard, ShardSet};
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

/// The shards for which this process acts now and which it does not let go.
pub(crate) fn own(ownership: &dyn Ownership, letting_go: &LettingGo) -> ShardSet {
    ShardSet::ALL
        .iter()
        .filter(|&shard| ownership.generation(shard).is_some() && !letting_go.contains(shard))
        .collect()
}
