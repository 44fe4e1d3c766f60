//! The nodes' wall clocks.

use porchlight_core::ownership::ClockState;
use porchlight_schema::time::TimestampMs;

use super::Cluster;

/// The time after which only heartbeats from after a change of a wall clock are compared.
const CLOCKS_KNOWN_MS: u64 = 15_000;

impl Cluster {
    pub(super) fn wall(&self, node: usize) -> TimestampMs {
        TimestampMs(1_795_305_600_000 + self.now_ms as i64 + self.nodes[node].wall_ahead_ms)
    }

    /// Sets the rate of a node's monotonic clock, before anything runs.
    pub(in crate::ownership) fn set_clock_permille(&mut self, node: usize, permille: u64) {
        assert_eq!(self.now_ms, 0, "a clock never goes back");
        self.nodes[node].clock_permille = permille;
    }

    /// Sets a node's wall clock, as an administrator does.
    pub(in crate::ownership) fn set_wall_ahead_ms(&mut self, node: usize, ahead_ms: i64) {
        self.nodes[node].wall_ahead_ms = ahead_ms;
        self.clocks_set_at_ms = self.now_ms;
    }

    /// Returns the milliseconds by which the wall clock of a running node is ahead of, and behind,
    /// another's, as far as the node knows.
    pub(in crate::ownership) fn clock_differences_ms(&self, node: usize) -> Option<(i64, i64)> {
        let machine = self.nodes[node].machine.as_ref()?;
        Some((machine.clock_ahead_ms(), machine.clock_behind_ms()))
    }

    /// Returns whether a running node does not join because of its wall clock.
    pub(in crate::ownership) fn is_refused(&self, node: usize) -> bool {
        let machine = self.nodes[node].machine.as_ref();
        machine.is_some_and(|machine| machine.clock_state(self.clock(node)) == ClockState::Refused)
    }

    /// Asserts that no node reports a greater difference of clocks than there is.
    pub(super) fn check_clocks(&self, node: usize) {
        // Heartbeats from before a clock was set are compared for some time.
        if self.clocks_set_at_ms > 0 && self.now_ms < self.clocks_set_at_ms + CLOCKS_KNOWN_MS {
            return;
        }
        let Some((ahead_ms, behind_ms)) = self.clock_differences_ms(node) else {
            return;
        };
        let mine_ms = self.nodes[node].wall_ahead_ms;
        let differences_ms = self.nodes.iter().map(|other| mine_ms - other.wall_ahead_ms);
        let most_ms = differences_ms.clone().max().unwrap_or(0);
        let least_ms = differences_ms.min().unwrap_or(0);
        assert!(
            ahead_ms <= most_ms,
            "node {node}: {ahead_ms} ahead, not {most_ms}"
        );
        assert!(
            behind_ms <= -least_ms,
            "node {node}: {behind_ms} behind, not {least_ms}"
        );
    }
}
