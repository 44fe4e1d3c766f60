//! The invariants of ownership.
//!
//! 1. A generation of a shard belongs to one member.
//! 2. Generations of a shard rise from start to start.
//! 3. At no moment do two running nodes act for one shard.
//! 4. A write that was decided on before a stop and arrives after it never has the highest
//!    generation once another node has started: it sorts below and does not count.
//! 5. Once faults have ended, each shard is held by the node that placement names, and nothing
//!    moves.

use std::collections::BTreeMap;

use porchlight_core::ownership::{Member, NodeName, best};
use porchlight_schema::ids::Shard;

use super::cluster::Cluster;

#[derive(Debug, Default)]
pub(super) struct Judge {
    started: BTreeMap<u8, BTreeMap<u64, Member>>,
    moves: u64,
}

impl Judge {
    /// Checks the start of a node for a shard.
    pub(super) fn on_start(&mut self, shard: Shard, generation: u64, member: &Member) {
        self.moves += 1;
        let of_shard = self.started.entry(shard.0).or_default();
        if let Some((last, holder)) = of_shard.last_key_value() {
            assert!(
                generation > *last,
                "1, 2: {shard:?} started in {generation} by {member:?}, after {last} by {holder:?}"
            );
        }
        of_shard.insert(generation, member.clone());
    }

    /// Checks the arrival of a write that was decided on in this generation.
    pub(super) fn on_write(&self, shard: Shard, generation: u64, member: &Member) {
        let of_shard = self
            .started
            .get(&shard.0)
            .expect("written before it was started");
        assert_eq!(
            of_shard.get(&generation),
            Some(member),
            "4: {shard:?} written in a generation that is another's"
        );
    }

    /// Asserts that no other node acts for the shard of this node.
    pub(super) fn assert_alone(&self, cluster: &Cluster, node: usize, shard: Shard) {
        for other in (0..cluster.len()).filter(|&other| other != node) {
            assert_eq!(
                cluster.acting_generation(other, shard),
                None,
                "3: nodes {node} and {other} both act for {shard:?}"
            );
        }
    }

    /// Asserts that every shard is held by its proper node.
    pub(super) fn assert_at_rest(&self, cluster: &Cluster, when: &str) {
        let names: Vec<NodeName> = (0..cluster.len()).map(|node| cluster.name(node)).collect();
        for shard in (0..=255).map(Shard) {
            let should = best(shard, &names).unwrap();
            for node in 0..cluster.len() {
                let is_acting = cluster.acting_generation(node, shard).is_some();
                assert_eq!(
                    is_acting,
                    *should == cluster.name(node),
                    "5: {when}: {shard:?} at node {node}; should be {should:?}"
                );
            }
        }
    }

    /// Returns the number of starts so far.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }
}
