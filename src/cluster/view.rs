//! This node's view of ownership. The driver writes it; many readers check it before every action.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use porchlight_core::ownership::{MonotonicMs, NodeName};
use porchlight_ports::Ownership;
use porchlight_schema::ids::Shard;
use porchlight_schema::limits::SHARDS;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// The owners and members as last read from the store.
#[derive(Debug, Default)]
struct LastRead {
    /// The last read owner of each shard, indexed by shard.
    owners: Vec<Option<NodeName>>,
    /// The last read members that are not dead, including this node.
    members: Vec<NodeName>,
}

/// Returns the milliseconds since the machine started. Unlike [`std::time::Instant`], this clock
/// also advances while the machine is suspended, during which other nodes may take over its shards.
fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (sec, ms) = (
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() / 1_000_000,
    );
    sec.saturating_mul(1_000).saturating_add(ms)
}

/// This node's view of ownership.
///
/// Actors check it before every action. Each check compares the lease's end with the clock, so a
/// process that was suspended, alone or with its machine, does not act after it resumes.
#[derive(Debug)]
pub struct OwnershipView {
    me: NodeName,
    /// The origin of [`Self::now`], in milliseconds since the computer started.
    origin_ms: u64,
    /// The generation in which this node acts, indexed by shard; 0 if it does not act.
    acting: [AtomicU64; SHARDS],
    /// The end of the lease, in milliseconds of [`Self::now`].
    lease_end_ms: AtomicU64,
    has_received_shards: AtomicBool,
    last_read: RwLock<Arc<LastRead>>,
    owner_read_requested: Notify,
}

impl OwnershipView {
    /// Creates the view of the node with this name. It owns nothing and knows no members.
    #[must_use]
    pub fn new(me: NodeName) -> Self {
        Self {
            me,
            origin_ms: boot_ms(),
            acting: [const { AtomicU64::new(0) }; SHARDS],
            lease_end_ms: AtomicU64::new(0),
            has_received_shards: AtomicBool::new(false),
            last_read: RwLock::default(),
            owner_read_requested: Notify::new(),
        }
    }

    /// Returns this node's name.
    #[must_use]
    pub fn me(&self) -> &NodeName {
        &self.me
    }

    /// Returns the time of this process's monotonic clock, which includes the time for which the
    /// computer was suspended.
    #[must_use]
    pub fn now(&self) -> MonotonicMs {
        MonotonicMs(boot_ms().saturating_sub(self.origin_ms))
    }

    /// Returns the owner of a shard as far as this node knows, which may be this node. Returns
    /// `None` if the shard has no owner or nothing was read yet.
    #[must_use]
    pub fn owner_of(&self, shard: Shard) -> Option<NodeName> {
        if self.generation(shard).is_some() {
            return Some(self.me.clone());
        }
        let holder = self.last_read().owners.get(usize::from(shard.0))?.clone();
        // The store may still name this node after its lease has ended.
        holder.filter(|holder| *holder != self.me)
    }

    /// Returns the last read members that are not dead, including this node once it has joined.
    #[must_use]
    pub fn members(&self) -> Vec<NodeName> {
        self.last_read().members.clone()
    }

    /// Returns whether this node owns the shard now.
    #[must_use]
    pub fn owns(&self, shard: Shard) -> bool {
        self.generation(shard).is_some()
    }

    /// Returns the number of shards that this node owns now.
    #[must_use]
    pub fn owned(&self) -> usize {
        (0..=u8::MAX)
            .filter(|&shard| self.generation(Shard(shard)).is_some())
            .count()
    }

    /// Returns whether this node's lease is valid. Without a lease the node must not act and is not
    /// ready.
    #[must_use]
    pub fn has_valid_lease(&self) -> bool {
        self.now().0 < self.lease_end_ms.load(Ordering::Acquire)
    }

    /// Returns whether this node has received its shards since it started. A node that has not is
    /// not ready.
    #[must_use]
    pub fn has_received_shards(&self) -> bool {
        self.has_received_shards.load(Ordering::Acquire)
    }

    /// Requests an early ownership read because another node released shards. Such requests may be
    /// lost or superfluous.
    pub fn request_owner_read(&self) {
        self.owner_read_requested.notify_one();
    }

    /// Waits for the next request for an early ownership read.
    pub(super) async fn wait_for_owner_read_request(&self) {
        self.owner_read_requested.notified().await;
    }

    /// Sets the generation in which this node acts for a shard. `None` stops it.
    pub fn set_generation(&self, shard: Shard, generation: Option<u64>) {
        if let Some(slot) = self.acting.get(usize::from(shard.0)) {
            slot.store(generation.unwrap_or(0), Ordering::Release);
        }
    }

    /// Sets the end of the lease.
    pub fn set_lease_end(&self, at: MonotonicMs) {
        self.lease_end_ms.store(at.0, Ordering::Release);
    }

    /// Sets whether this node has received its shards since it started.
    pub fn set_received_shards(&self, has_received: bool) {
        self.has_received_shards
            .store(has_received, Ordering::Release);
    }

    /// Stores the owners and members that were last read.
    pub fn set_owners(&self, owners: Vec<Option<NodeName>>, members: Vec<NodeName>) {
        let last_read = Arc::new(LastRead { owners, members });
        *self
            .last_read
            .write()
            .unwrap_or_else(PoisonError::into_inner) = last_read;
    }

    fn last_read(&self) -> Arc<LastRead> {
        Arc::clone(
            &self
                .last_read
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl Ownership for OwnershipView {
    fn generation(&self, shard: Shard) -> Option<u64> {
        let slot = self.acting.get(usize::from(shard.0))?;
        let generation = slot.load(Ordering::Acquire);
        (generation > 0 && self.has_valid_lease()).then_some(generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_is_measured_by_the_clock_that_includes_suspensions() {
        let monotonic_sec = clock_gettime(ClockId::Monotonic).tv_sec.unsigned_abs();
        assert!(boot_ms() / 1_000 >= monotonic_sec);
        let view = OwnershipView::new(NodeName("a:1".to_owned()));
        let first = view.now();
        assert!(first.0 < 60_000 && view.now() >= first);
    }

    #[test]
    fn a_node_acts_during_its_lease_and_knows_all_members() {
        let name = |text: &str| NodeName(text.to_owned());
        let view = OwnershipView::new(name("a:1"));
        let shard = Shard(7);
        view.set_generation(shard, Some(5));
        assert_eq!(view.generation(shard), None, "no lease");
        view.set_lease_end(view.now().plus_ms(60_000));
        assert_eq!(view.generation(shard), Some(5));
        assert_eq!(view.owner_of(shard), Some(name("a:1")));
        assert_eq!(view.owned(), 1);
        let mut holders = vec![None; SHARDS];
        holders[7] = Some(name("a:1"));
        holders[8] = Some(name("b:1"));
        view.set_owners(holders, vec![name("a:1"), name("b:1")]);
        assert_eq!(view.owner_of(Shard(8)), Some(name("b:1")));
        assert_eq!(view.owner_of(Shard(9)), None);
        view.set_lease_end(MonotonicMs(0));
        assert_eq!(view.generation(shard), None, "the lease has ended");
        assert_eq!(view.owner_of(shard), None, "the stored lease has expired");
    }
}
