//! Queries of the state of a simulated cluster.

use porchlight_core::ownership::OwnershipMachine;
use porchlight_schema::ids::Shard;

use super::Cluster;

impl Cluster {
    /// Returns the number of conditional writes requested so far.
    pub(in crate::ownership) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the generation in which a running node would act for the shard now.
    pub(in crate::ownership) fn acting_generation(&self, node: usize, shard: Shard) -> Option<u64> {
        let one = &self.nodes[node];
        if one.paused_until_ms > self.now_ms {
            return None;
        }
        one.machine.as_ref()?.holds(shard, self.clock(node))
    }

    pub(in crate::ownership) fn held_count(&self, node: usize) -> usize {
        (0..=255)
            .filter(|&shard| self.acting_generation(node, Shard(shard)).is_some())
            .count()
    }

    pub(in crate::ownership) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(in crate::ownership) fn is_running(&self, node: usize) -> bool {
        self.nodes[node].machine.is_some()
    }

    /// Returns whether a node runs and has received its shards.
    pub(in crate::ownership) fn is_ready(&self, node: usize) -> bool {
        let machine = self.nodes[node].machine.as_ref();
        machine.is_some_and(OwnershipMachine::has_received_shards)
    }

    /// Returns the number of claims of each shard.
    pub(in crate::ownership) fn generations(&self) -> Vec<u64> {
        let owners = self.tables.owners.values();
        owners.map(|(generation, _)| *generation).collect()
    }
}
