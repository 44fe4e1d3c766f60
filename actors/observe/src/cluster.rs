//! Metrics of the cluster: owned shards, their moves, and refused actions.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// The reason why a node gained or lost a shard.
    ShardMove {
        /// Claimed: this node now owns the shard.
        Taken = "taken",
        /// Drained and released, by plan.
        Given = "given",
        /// Dropped: the lease expired, or another node claimed the shard.
        Lost = "lost",
    }
}

label! {
    /// A conditional write to the tables of members and owners.
    NodesChange {
        /// A node joins.
        Join = "join",
        /// A heartbeat write.
        Heartbeat = "beat",
        /// A member is declared dead.
        Gone = "gone",
        /// A node leaves.
        Leave = "leave",
        /// A shard is claimed.
        Claim = "claim",
        /// A shard is released.
        Release = "release",
    }
}

label! {
    /// The outcome of a conditional write.
    ChangeOutcome {
        /// The transaction was applied.
        Applied = "applied",
        /// The condition of the transaction did not hold.
        Refused = "refused",
        /// In doubt: a serial read resolves it.
        Unknown = "unknown",
    }
}

label! {
    /// An action that a node skipped because it no longer owns the shard.
    Stale {
        /// Writing a snapshot.
        Snapshot = "snapshot",
        /// Writing the cursor of a webhook's lane.
        Cursor = "cursor",
        /// An attempt to send a webhook.
        Send = "send",
        /// A session's deadline.
        Deadline = "deadline",
        /// Scoring a session.
        Scoring = "scoring",
    }
}

label! {
    /// Data that an owner found in the store without being notified.
    Found {
        /// Batches of which the owner was not notified.
        Batches = "batches",
        /// The end of a session.
        End = "end",
        /// A live session.
        Session = "session",
    }
}

label! {
    /// The direction in which this node's wall clock differs from another node's.
    ClockDirection {
        /// This node's clock is ahead.
        Ahead = "ahead",
        /// This node's clock is behind.
        Behind = "behind",
    }
}

/// The metric handles of the cluster.
#[derive(Debug)]
pub struct ClusterMetrics {
    /// Shards that this node owns.
    pub shards_owned: Gauge,
    /// Members that are not dead, as this node sees them.
    pub members: Gauge,
    /// Seconds since the start of the last successful heartbeat.
    pub heartbeat_age: Gauge,
    /// Time from the claim of shards until their work runs.
    pub failover: Histogram,
    /// Sessions that were started with claimed shards.
    pub sessions_taken: Counter,
    /// Whether this node does not join because its clock is wrong: 1 or 0.
    join_refused: Gauge,
    clock_differences: Vec<Gauge>,
    moves: Vec<Counter>,
    changes: Vec<Vec<Counter>>,
    stale: Vec<Counter>,
    found: Vec<Counter>,
}

impl ClusterMetrics {
    /// Returns the handles, created at the first call.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<ClusterMetrics> = LazyLock::new(ClusterMetrics::new);
        &METRICS
    }

    fn new() -> Self {
        let moves = |kind: &ShardMove| metrics::counter!(name::CLUSTER_SHARD_MOVES_TOTAL, "move" => kind.as_str());
        let changes = |change: &NodesChange| {
            let change = change.as_str();
            let outcomes = ChangeOutcome::ALL.iter();
            outcomes
                .map(|outcome| metrics::counter!(name::CLUSTER_CHANGES_TOTAL, "change" => change, "outcome" => outcome.as_str()))
                .collect()
        };
        let stale = |stale: &Stale| metrics::counter!(name::CLUSTER_STALE_REFUSED_TOTAL, "what" => stale.as_str());
        let clock = |direction: &ClockDirection| metrics::gauge!(name::CLUSTER_CLOCK_DIFFERENCE_SECONDS, "direction" => direction.as_str());
        let found = |found: &Found| metrics::counter!(name::CLUSTER_FOUND_IN_STORE_TOTAL, "what" => found.as_str());
        Self {
            shards_owned: metrics::gauge!(name::CLUSTER_SHARDS_OWNED),
            members: metrics::gauge!(name::CLUSTER_MEMBERS),
            heartbeat_age: metrics::gauge!(name::CLUSTER_HEARTBEAT_AGE_SECONDS),
            failover: metrics::histogram!(name::CLUSTER_TAKE_OVER_SECONDS),
            sessions_taken: metrics::counter!(name::CLUSTER_SESSIONS_TAKEN_TOTAL),
            join_refused: metrics::gauge!(name::CLUSTER_CLOCK_REFUSED),
            clock_differences: ClockDirection::ALL.iter().map(clock).collect(),
            moves: ShardMove::ALL.iter().map(moves).collect(),
            changes: NodesChange::ALL.iter().map(changes).collect(),
            stale: Stale::ALL.iter().map(stale).collect(),
            found: Found::ALL.iter().map(found).collect(),
        }
    }

    /// Sets the gauges of a single process.
    pub(super) fn reset(&self) {
        self.shards_owned.set(0.0);
        self.members.set(0.0);
        self.heartbeat_age.set(0.0);
        self.on_clock(0, 0, false);
    }

    /// Sets the certain differences between this node's wall clock and those of the other nodes, in
    /// milliseconds, and whether the node does not join because of them.
    pub fn on_clock(&self, ahead_ms: i64, behind_ms: i64, is_refused: bool) {
        for (direction, ms) in [
            (ClockDirection::Ahead, ahead_ms),
            (ClockDirection::Behind, behind_ms),
        ] {
            self.clock_differences[direction as usize].set(ms as f64 / 1_000.0);
        }
        self.join_refused.set(f64::from(u8::from(is_refused)));
    }

    /// Counts shards that the node gained or lost.
    pub fn on_moved(&self, kind: ShardMove, shards: u64) {
        self.moves[kind as usize].increment(shards);
    }

    /// Counts a conditional write.
    pub fn on_changed(&self, change: NodesChange, outcome: ChangeOutcome) {
        self.changes[change as usize][outcome as usize].increment(1);
    }

    /// Counts an action that was skipped for lack of ownership.
    pub fn on_stale(&self, what: Stale) {
        self.stale[what as usize].increment(1);
    }

    /// Counts data that was found without a notification.
    pub fn on_found(&self, what: Found) {
        self.found[what as usize].increment(1);
    }
}
