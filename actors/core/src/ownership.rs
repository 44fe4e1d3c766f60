//! Decides which node owns which shard: membership, claims with rising generations, and planned
//! moves.
//!
//! The machine is pure. The shell passes in the store's answers and the time of the process's
//! monotonic clock, and performs the effects.
//!
//! Three rules make ownership safe. Each one alone protects against a different fault:
//!
//! - **Clock rule.** No decision about a shard compares the clocks of two nodes. An owner acts
//!   until [`LEASE_MS`] after the *start* of its last successful heartbeat. An observer declares a
//!   member dead when it has seen no new heartbeat for [`DEAD_AFTER_MS`] of its own clock. The
//!   difference of 1.2 s allows clock rates that differ by a fifth: one clock may be slewed by a
//!   tenth to one side, and the other to the other side.
//! - **One row decides.** Marking a member dead is a conditional write on the same row as the
//!   member's conditional heartbeats, so one of the two fails.
//! - **Generations.** A claim raises the shard's generation with a conditional write. Later writes
//!   of an owner with an older generation sort below and are never read.
//!
//! Nodes compare their wall clocks for another reason: times in answers come from them. A
//! difference is reported, and a node whose clock is far off does not join.
//!
//! A node that restarts under its name gets its shards back immediately: only the process that
//! could bind the name's address has that name.

mod clocks;
mod machine;
mod membership;
mod placement;
mod shard_view;

pub use clocks::{CLOCK_REFUSE_MS, CLOCK_WARN_MS, CLOCKS_COMPARED_WITHIN_MS, ClockState};
pub use machine::OwnershipMachine;
pub use placement::best;

use porchlight_schema::ids::Shard;
use porchlight_schema::time::TimestampMs;

/// The time between two heartbeats, milliseconds. A longer interval delays a failover twice: the
/// lease must outlast a stall that begins just before a heartbeat, and observers wait for longer
/// than the lease.
pub const HEARTBEAT_MS: u64 = 500;
/// The time between two reads of all members, milliseconds. A plain read costs far less than a
/// heartbeat, and a shorter interval finds a dead member sooner.
pub const MEMBERS_READ_MS: u64 = 250;
/// The length of a lease: the time for which an owner may act after the start of its last
/// successful heartbeat, milliseconds. A node or a database that stalls for less than
/// [`STALL_MS_MAX`] loses no shard.
pub const LEASE_MS: u64 = 5_300;
/// The time without a new heartbeat after which observers declare a member dead, milliseconds.
pub const DEAD_AFTER_MS: u64 = 6_500;
/// The time, in milliseconds, below which a stall of a node or of the database moves no shard.
pub const STALL_MS_MAX: u64 = 4_000;
/// The time, in milliseconds, that remains after the longest stall until the overdue heartbeat must
/// be answered: that of several lightweight transactions.
pub const RENEWED_WITHIN_MS: u64 = 500;
/// The maximum time between two ticks of the machine, in milliseconds.
pub const TICK_MS_MAX: u64 = 150;
/// The time after which an unanswered join is requested again, milliseconds. It exceeds the
/// database's deadline for a conditional write.
pub const JOIN_RETRY_MS: u64 = 6_000;
/// The time after which an unanswered serial read, which resolves a write in doubt, is requested
/// again, milliseconds.
pub const DOUBT_RETRY_MS: u64 = 3_000;
/// The time that a joined member waits before it claims shards, milliseconds. Nodes that start
/// together see each other first, so that no shard is claimed and moved right away. It exceeds one
/// heartbeat.
pub const NEWCOMER_WAIT_MS: u64 = 4_000;
/// The maximum time after a node's join for which it counts as waiting for its shards,
/// milliseconds. It exceeds [`NEWCOMER_WAIT_MS`] plus the time in which another node drains its
/// shards. A node whose shards another node does not release becomes ready after it.
pub const SHARDS_WAIT_MS_MAX: u64 = 30_000;
/// The time between two reads of all owners without a change, milliseconds. These reads find
/// releases whose notification was lost.
pub const OWNERS_READ_MS: u64 = 10_000;
/// The time between two observers' attempts to mark a dead member, milliseconds. Observers act one
/// after the other, in the order of their names, so that a dead node costs one conditional write in
/// total.
pub const DEAD_STAGGER_MS: u64 = 1_000;
/// The maximum number of claims in flight.
pub const CLAIMS_IN_FLIGHT_MAX: usize = 32;
/// The maximum number of shards that a node drains concurrently in planned moves.
pub const DRAINS_IN_FLIGHT_MAX: usize = 16;

const _: () = assert!(
    HEARTBEAT_MS + TICK_MS_MAX + STALL_MS_MAX + RENEWED_WITHIN_MS < LEASE_MS,
    "an owner still acts after a stall, until its next heartbeat is answered"
);
const _: () = assert!(
    LEASE_MS * 11 < DEAD_AFTER_MS * 9,
    "an owner stops before it is declared dead, even if its clock runs a tenth slow and the observer's a tenth fast"
);
const _: () = assert!(NEWCOMER_WAIT_MS > HEARTBEAT_MS);

/// Milliseconds of this process's monotonic clock, which also counts while the process is
/// suspended. The value has no meaning for other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MonotonicMs(pub u64);

impl MonotonicMs {
    /// Returns the time `duration_ms` later.
    #[must_use]
    pub fn plus_ms(self, duration_ms: u64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }

    /// Returns the milliseconds since `earlier`; 0 if that is later.
    #[must_use]
    pub fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A node's name: the `host:port` at which the other nodes reach it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub String);

/// The number of a node's run. It rises with each start of the process, and each time the process
/// rejoins after it was declared dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(pub u64);

/// One incarnation of a named node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The node's name.
    pub node: NodeName,
    /// The incarnation of the node.
    pub incarnation: Incarnation,
}

/// A member's status in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberStatus {
    /// The member accepts shards.
    Up,
    /// The member releases its shards and accepts no new ones.
    Leaving,
    /// The member left or was declared dead; it may rejoin with a new incarnation.
    Gone,
}

/// A row of the table of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// The member itself.
    pub member: Member,
    /// The number of its last heartbeat.
    pub heartbeat: u64,
    /// The status of the member.
    pub status: MemberStatus,
    /// The member's wall clock when it sent the heartbeat; `None` before its first heartbeat, and
    /// if it is of a release that sends none.
    pub clock: Option<TimestampMs>,
}

/// A read of all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembersRead {
    /// All rows.
    pub rows: Vec<MemberRow>,
    /// The time at which the read was started.
    pub started: MonotonicMs,
    /// This node's wall clock when the read ended.
    pub wall: TimestampMs,
}

/// A row of the table of owners. A shard without a row was never claimed: generation 0, no holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// The shard concerned.
    pub shard: Shard,
    /// The generation of the last claim.
    pub generation: u64,
    /// The member that claimed the shard; `None` after a release.
    pub holder: Option<Member>,
}

/// A conditional write (lightweight transaction). Each variant names everything that its condition
/// needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Inserts or replaces the row of `member` with status up and heartbeat 0, if the node has no
    /// row or its row's incarnation is `after`.
    Join {
        /// The joining member.
        member: Member,
        /// The incarnation that the node's row has now; `None` if it has no row.
        after: Option<Incarnation>,
    },
    /// Writes the number of the heartbeat and the status, if the row's incarnation is the member's
    /// and the row is not marked as gone.
    Heartbeat {
        /// The member concerned.
        member: Member,
        /// The number of the heartbeat.
        heartbeat: u64,
        /// The status to write: up or leaving.
        status: MemberStatus,
    },
    /// Marks the member dead, if the row's incarnation is the member's and its heartbeat is
    /// `heartbeat`.
    MarkDead {
        /// The member to mark.
        member: Member,
        /// The last heartbeat that was seen.
        heartbeat: u64,
    },
    /// Marks the member as gone at its own request, if the row's incarnation is the member's.
    Leave {
        /// The leaving member.
        member: Member,
    },
    /// Writes the holder and generation `from + 1` if the current generation is `from` (0 if the
    /// row does not exist).
    Claim {
        /// The shard concerned.
        shard: Shard,
        /// The claiming member.
        member: Member,
        /// The shard's present generation.
        from: u64,
    },
    /// Removes the holder and keeps the generation, if generation and holder match.
    Release {
        /// The shard concerned.
        shard: Shard,
        /// The releasing member.
        member: Member,
        /// The generation that was held.
        generation: u64,
    },
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The write was applied.
    Applied,
    /// The condition did not hold.
    Refused,
    /// The write timed out; a serial read resolves it.
    Unknown,
}

/// An input of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A conditional write that was requested at `started` has this outcome.
    Changed {
        /// The time at which the operation was requested.
        started: MonotonicMs,
        /// The conditional write.
        change: Change,
        /// The outcome of the write.
        outcome: Outcome,
    },
    /// All rows of members, read serially if the machine asked for that.
    Members(MembersRead),
    /// Rows of owners; shards that are missing were never claimed.
    Owners(Vec<OwnerRow>),
    /// One owner's row, read serially; `None` if the shard was never claimed.
    Owner(Shard, Option<OwnerRow>),
    /// The actors of this shard, of this generation, are drained.
    Drained(Shard, u64),
    /// The owners in memory may be out of date: another node has released shards, or a notification
    /// was sent to no owner or to the wrong one.
    OwnersOutdated,
    /// The process is about to end: release everything.
    Leave,
}

/// The way to read rows that conditional writes change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Leaves writes in flight alone. The rows may lack a write whose outcome is unknown.
    Plain,
    /// Completes writes in flight first, so that the rows show each outcome.
    Serial,
}

/// An effect that the shell performs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Performs this write and reports [`Input::Changed`].
    Change(Change),
    /// Reads all members, serially if an outcome depends on it, and reports [`Input::Members`].
    ReadMembers(ReadMode),
    /// Reads all owners and reports [`Input::Owners`].
    ReadOwners,
    /// Reads this owner serially and reports [`Input::Owner`].
    ReadOwner(Shard),
    /// Starts the work of this shard in this generation.
    Start(Shard, u64),
    /// Writes snapshots, stops the shard's actors and reports [`Input::Drained`].
    Drain(Shard, u64),
    /// Stops the shard's actors immediately and writes nothing: another node owns the shard or soon
    /// may.
    Drop(Shard, u64),
    /// Notifies the other nodes that a shard was released.
    NotifyOfRelease,
    /// Ends the process, because another one has this node's name.
    Replaced,
    /// Everything is released: the process may end.
    Left,
}
