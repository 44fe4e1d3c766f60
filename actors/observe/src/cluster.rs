//! Several nodes: which shards this one acts for, how they move, and what keeps two from acting at once.

use std::sync::LazyLock;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// How a shard came or went.
    ShardMove {
        /// Claimed: this node acts for it.
        Taken = "taken",
        /// Written down and released, by plan.
        Given = "given",
        /// Dropped: the lease ended, or another claimed it.
        Lost = "lost",
    }
}

label! {
    /// A conditional write to the tables of nodes and owners.
    NodesChange {
        /// A node comes.
        Join = "join",
        /// A heartbeat.
        Beat = "beat",
        /// A node is called gone.
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
    /// How a conditional write went.
    ChangeOutcome {
        /// It was done.
        Applied = "applied",
        /// Its condition did not hold.
        Refused = "refused",
        /// In doubt: a serial read settles it.
        Unknown = "unknown",
    }
}

label! {
    /// What a node that does not act for a shard any more did not write, or does not do.
    Stale {
        /// A snapshot.
        Snapshot = "snapshot",
        /// A cursor of a webhook's lane.
        Cursor = "cursor",
        /// A try of a webhook.
        Send = "send",
        /// A session's deadline.
        Deadline = "deadline",
        /// A session's scoring.
        Scoring = "scoring",
    }
}

label! {
    /// What an owner found in the store that nobody had told it.
    Found {
        /// Batches.
        Batches = "batches",
        /// The end of a session.
        End = "end",
        /// A session that records.
        Session = "session",
    }
}

/// The handles of ownership.
#[derive(Debug)]
pub struct ClusterMetrics {
    /// Shards for which this node acts.
    pub shards_owned: Gauge,
    /// Members that are not gone, as this node sees it.
    pub members: Gauge,
    /// Seconds since the start of the last good heartbeat.
    pub heartbeat_age: Gauge,
    /// From the claim of shards until what lives in them runs.
    pub take_over: Histogram,
    /// Sessions that were taken up with their shards.
    pub sessions_taken: Counter,
    moves: Vec<Counter>,
    changes: Vec<Vec<Counter>>,
    stale: Vec<Counter>,
    found: Vec<Counter>,
}

impl ClusterMetrics {
    /// The handles, resolved at the first call.
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
        let found = |found: &Found| metrics::counter!(name::CLUSTER_FOUND_IN_STORE_TOTAL, "what" => found.as_str());
        Self {
            shards_owned: metrics::gauge!(name::CLUSTER_SHARDS_OWNED),
            members: metrics::gauge!(name::CLUSTER_MEMBERS),
            heartbeat_age: metrics::gauge!(name::CLUSTER_HEARTBEAT_AGE_SECONDS),
            take_over: metrics::histogram!(name::CLUSTER_TAKE_OVER_SECONDS),
            sessions_taken: metrics::counter!(name::CLUSTER_SESSIONS_TAKEN_TOTAL),
            moves: ShardMove::ALL.iter().map(moves).collect(),
            changes: NodesChange::ALL.iter().map(changes).collect(),
            stale: Stale::ALL.iter().map(stale).collect(),
            found: Found::ALL.iter().map(found).collect(),
        }
    }

    /// What a gauge says while there are no nodes.
    pub(super) fn reset(&self) {
        self.shards_owned.set(0.0);
        self.members.set(0.0);
        self.heartbeat_age.set(0.0);
    }

    /// So many shards came or went so.
    pub fn on_moved(&self, kind: ShardMove, shards: u64) {
        self.moves[kind as usize].increment(shards);
    }

    /// A conditional write went so.
    pub fn on_changed(&self, change: NodesChange, outcome: ChangeOutcome) {
        self.changes[change as usize][outcome as usize].increment(1);
    }

    /// Something was not done, for want of ownership.
    pub fn on_stale(&self, what: Stale) {
        self.stale[what as usize].increment(1);
    }

    /// Something was found in the store that should have been told.
    pub fn on_found(&self, what: Found) {
        self.found[what as usize].increment(1);
    }
}
