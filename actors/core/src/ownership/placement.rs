//! Assigns shards to nodes by rendezvous hashing (Thaler and Ravishankar, 1998). When a node joins
//! or leaves, only its own share moves.

use porchlight_schema::fnv;
use porchlight_schema::ids::{Shard, ShardSet};

use super::NodeName;

/// Returns the node with the highest weight for the shard; `None` if there are no nodes. All nodes
/// must compute the same result, so the hash never changes.
pub fn best<'a>(
    shard: Shard,
    nodes: impl IntoIterator<Item = &'a NodeName>,
) -> Option<&'a NodeName> {
    nodes
        .into_iter()
        .max_by_key(|node| (weight(shard, node), *node))
}

/// The node to which a shard belongs, as one node sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Target {
    /// The shard belongs at this node.
    ThisNode,
    /// The shard belongs at another, established node.
    OtherNode,
    /// The shard belongs at a node that has just joined: it stays with its owner until that node
    /// is established.
    #[default]
    Undecided,
}

/// The assignment of all shards, recomputed when the members change.
#[derive(Debug, Clone, Default)]
pub(super) struct Placement {
    up: Vec<NodeName>,
    established: Vec<NodeName>,
    /// The target of each shard, indexed by shard.
    targets: Vec<Target>,
}

impl Placement {
    /// Recomputes the assignment from the members that are up and those of them that are
    /// established.
    pub(super) fn update<'a>(
        &mut self,
        me: &NodeName,
        up: impl Iterator<Item = &'a NodeName> + Clone,
        established: impl Iterator<Item = &'a NodeName> + Clone,
    ) {
        if self.up.iter().eq(up.clone()) && self.established.iter().eq(established.clone()) {
            return;
        }
        self.up = up.cloned().collect();
        self.established = established.cloned().collect();
        let is_established = self.established.contains(me);
        let target_of = |shard| {
            // A shard waits for a joining node, so that it moves once, to its final place, instead
            // of being claimed now and moved again.
            let target = best(shard, &self.up);
            if target == Some(me) && is_established {
                Target::ThisNode
            } else if target.is_some_and(|node| node != me)
                && target == best(shard, &self.established)
            {
                Target::OtherNode
            } else {
                Target::Undecided
            }
        };
        self.targets = ShardSet::ALL.iter().map(target_of).collect();
    }

    /// Returns the node to which the shard belongs.
    pub(super) fn of(&self, shard: Shard) -> Target {
        let target = self.targets.get(usize::from(shard.0));
        target.copied().unwrap_or_default()
    }
}

/// Returns the weight of a node for a shard.
fn weight(shard: Shard, node: &NodeName) -> u64 {
    // FNV-1a over the name, then the finaliser of SplitMix64 over name and shard, which spreads the
    // shards of a node.
    let name = fnv::hash(node.0.bytes());
    mixed(name ^ mixed(u64::from(shard.0).wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

fn mixed(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names(count: usize) -> Vec<NodeName> {
        (0..count)
            .map(|n| NodeName(format!("10.0.0.{n}:7000")))
            .collect()
    }

    #[test]
    fn shards_are_spread_evenly_and_move_minimally() {
        for count in 2..12 {
            let nodes = names(count);
            let mut of: BTreeMap<&NodeName, usize> = BTreeMap::new();
            for shard in 0..=255 {
                let before = best(Shard(shard), &nodes).unwrap();
                *of.entry(before).or_default() += 1;
                let without_last = best(Shard(shard), nodes.split_last().unwrap().1).unwrap();
                assert!(before == without_last || Some(before) == nodes.last());
            }
            let fair = 256 / count;
            assert_eq!(of.len(), count);
            assert!(of.values().all(|&n| n * 2 > fair && n < fair * 2), "{of:?}");
        }
    }

    #[test]
    fn the_hash_never_changes() {
        let nodes = names(3);
        let owners: Vec<usize> = (0..16)
            .map(|shard| {
                let best = best(Shard(shard), &nodes).unwrap();
                nodes.iter().position(|node| node == best).unwrap()
            })
            .collect();
        assert_eq!(owners, [2, 2, 2, 0, 0, 0, 1, 2, 2, 2, 2, 1, 0, 0, 1, 2]);
        assert_eq!(best(Shard(0), []), None);
    }
}
