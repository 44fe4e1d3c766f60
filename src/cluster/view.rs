//! What this node knows of ownership, shared: one writer (the driver), many readers that ask before each act.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use porchlight_core::ownership::{MonotonicMs, NodeName};
use porchlight_ports::Ownership;
use porchlight_schema::ids::Shard;
use porchlight_schema::limits::SHARDS;
use tokio::sync::Notify;

/// What is known of the others.
#[derive(Debug, Default)]
struct Known {
    /// Indexed by shard: who acts for it, as last read.
    holders: Vec<Option<NodeName>>,
    /// Members that are not gone, as last read; this node among them.
    living: Vec<NodeName>,
}

/// What this node knows of ownership. Asked before each act: a process that was stopped does not act for a moment after
/// it goes on, because the end of its lease is compared with the clock at every question.
#[derive(Debug)]
pub struct View {
    me: NodeName,
    /// What this process's own clock counts from.
    origin: Instant,
    /// Indexed by shard: the generation in which this node acts; 0: it does not.
    acting: [AtomicU64; SHARDS],
    /// When the lease ends, in milliseconds of [`Self::now`].
    fence_ms: AtomicU64,
    known: RwLock<Arc<Known>>,
    hinted: Notify,
}

impl View {
    /// The view of the node of this name: it acts for nothing and knows nobody.
    #[must_use]
    pub fn new(me: NodeName) -> Self {
        Self {
            me,
            origin: Instant::now(),
            acting: [const { AtomicU64::new(0) }; SHARDS],
            fence_ms: AtomicU64::new(0),
            known: RwLock::default(),
            hinted: Notify::new(),
        }
    }

    /// This node's name.
    #[must_use]
    pub fn me(&self) -> &NodeName {
        &self.me
    }

    /// The time by this process's own clock.
    #[must_use]
    pub fn now(&self) -> MonotonicMs {
        let ms = self.origin.elapsed().as_millis();
        MonotonicMs(u64::try_from(ms).unwrap_or(u64::MAX))
    }

    /// Who acts for a shard, as far as is known here; this node itself where it does. None where nobody does, or nothing
    /// was read yet.
    #[must_use]
    pub fn owner_of(&self, shard: Shard) -> Option<NodeName> {
        if self.generation(shard).is_some() {
            return Some(self.me.clone());
        }
        let holder = self.known().holders.get(usize::from(shard.0))?.clone();
        // The store may still say so of a node whose lease has ended.
        holder.filter(|holder| *holder != self.me)
    }

    /// Members that are not gone, as last read; this node among them once it has joined.
    #[must_use]
    pub fn living(&self) -> Vec<NodeName> {
        self.known().living.clone()
    }

    /// Whether this node acts for a shard now.
    #[must_use]
    pub fn owns(&self, shard: Shard) -> bool {
        self.generation(shard).is_some()
    }

    /// How many shards this node acts for now.
    #[must_use]
    pub fn owned(&self) -> usize {
        (0..=u8::MAX)
            .filter(|&shard| self.generation(Shard(shard)).is_some())
            .count()
    }

    /// Whether this node's lease runs: one whose lease has ended must not act, and is not ready.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.now().0 < self.fence_ms.load(Ordering::Acquire)
    }

    /// A peer says that it released shards: the driver reads the owners at once. May be lost, and may come for nothing.
    pub fn hint(&self) {
        self.hinted.notify_one();
    }

    /// Waits for the next hint.
    pub(super) async fn hinted(&self) {
        self.hinted.notified().await;
    }

    /// This node acts for the shard in this generation from now on, or no more.
    pub fn act(&self, shard: Shard, generation: Option<u64>) {
        if let Some(slot) = self.acting.get(usize::from(shard.0)) {
            slot.store(generation.unwrap_or(0), Ordering::Release);
        }
    }

    /// The lease ends then.
    pub fn fence_at(&self, at: MonotonicMs) {
        self.fence_ms.store(at.0, Ordering::Release);
    }

    /// What was read of the others.
    pub fn learn(&self, holders: Vec<Option<NodeName>>, living: Vec<NodeName>) {
        let known = Arc::new(Known { holders, living });
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Ownership for View {
    fn generation(&self, shard: Shard) -> Option<u64> {
        let slot = self.acting.get(usize::from(shard.0))?;
        let generation = slot.load(Ordering::Acquire);
        (generation > 0 && self.may_act()).then_some(generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_acts_while_its_lease_runs_and_knows_itself_and_the_others() {
        let name = |text: &str| NodeName(text.to_owned());
        let view = View::new(name("a:1"));
        let shard = Shard(7);
        view.act(shard, Some(5));
        assert_eq!(view.generation(shard), None, "no lease");
        view.fence_at(view.now().plus_ms(60_000));
        assert_eq!(view.generation(shard), Some(5));
        assert_eq!(view.owner_of(shard), Some(name("a:1")));
        assert_eq!(view.owned(), 1);
        let mut holders = vec![None; SHARDS];
        holders[7] = Some(name("a:1"));
        holders[8] = Some(name("b:1"));
        view.learn(holders, vec![name("a:1"), name("b:1")]);
        assert_eq!(view.owner_of(Shard(8)), Some(name("b:1")));
        assert_eq!(view.owner_of(Shard(9)), None);
        view.fence_at(MonotonicMs(0));
        assert_eq!(view.generation(shard), None, "the lease has ended");
        assert_eq!(view.owner_of(shard), None, "what the store says is over");
    }
}
