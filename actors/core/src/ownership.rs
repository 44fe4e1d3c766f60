//! Which node acts for which shard: membership, claims with a rising generation, and moves. Pure: the shell tells what
//! the store answered and what time it is by the process's own clock, and does what the machine says.
//!
//! Three rules make it safe, each alone enough against a different fault:
//!
//! - **Clock rule.** No two clocks are compared. An owner acts until [`FENCE_MS`] after the *start* of its last good
//!   heartbeat; an observer calls a member gone when its own clock has seen no new beat for [`GONE_MS`]. Between the two
//!   lie 8 s, and the difference of the clocks' rates that they allow is far beyond any real one.
//! - **One row decides.** Calling a member gone is a conditional write on the row that its heartbeats condition on: one
//!   of the two fails.
//! - **Generations.** A claim raises the shard's generation by a conditional write. What an owner of an older generation
//!   still writes sorts below and is never read.
//!
//! A node that restarts under its name takes its shards back at once: whoever could bind the name's address is the only
//! process behind it.

mod machine;
mod membership;
mod placement;
mod slot;

pub use machine::OwnershipMachine;
pub use placement::best;

use porchlight_schema::ids::Shard;

/// Time between two heartbeats (design, "Several nodes").
pub const HEARTBEAT_MS: u64 = 3_000;
/// An owner acts no longer than this after the start of its last good heartbeat (design).
pub const FENCE_MS: u64 = 12_000;
/// A member is gone when no new beat was seen for so long (design).
pub const GONE_MS: u64 = 20_000;
/// A member that has joined is given shards after so long: nodes that start together see each other first, so that
/// nothing is claimed by one only to be moved to the next. More than one heartbeat.
pub const SETTLE_MS: u64 = 4_000;
/// Time between two reads of all owners when nothing has changed: what finds a release whose hint was lost.
pub const OWNERS_READ_MS: u64 = 10_000;
/// Observers call a member gone one after the other, so that a dead node costs one conditional write and not one of
/// each. In the order of their names, so far apart.
pub const GONE_STAGGER_MS: u64 = 1_000;
/// Claims under way at a time.
pub const CLAIMS_IN_FLIGHT_MAX: usize = 32;
/// Shards that a node drains at a time in a planned move.
pub const DRAINS_IN_FLIGHT_MAX: usize = 16;

const _: () = assert!(HEARTBEAT_MS * 3 < FENCE_MS && FENCE_MS + 5_000 < GONE_MS);
const _: () = assert!(SETTLE_MS > HEARTBEAT_MS);

/// Milliseconds of this process's own clock, which never goes back and counts while the process is stopped. Means
/// nothing to any other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MonotonicMs(pub u64);

impl MonotonicMs {
    /// This time and `duration_ms` later.
    #[must_use]
    pub fn plus_ms(self, duration_ms: u64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }

    /// Milliseconds since `earlier`; 0 where that is later.
    #[must_use]
    pub fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A node's name: `host:port`, where the others reach it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub String);

/// One life of a node. Rises with each start of the process, and each time that it comes back after it was called gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(pub u64);

/// One life of a named node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its name.
    pub node: NodeName,
    /// Which of its lives.
    pub incarnation: Incarnation,
}

/// What a member's row says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It takes shards.
    Up,
    /// It gives its shards away and takes no new ones.
    Leaving,
    /// It left, or was called gone; it may come back with a new incarnation.
    Gone,
}

/// A row of the table of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// Who.
    pub member: Member,
    /// Number of its last heartbeat.
    pub beat: u64,
    /// How it stands.
    pub standing: Standing,
}

/// A row of the table of owners. A shard without a row was never claimed: generation 0, no holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// Which shard.
    pub shard: Shard,
    /// Of the last claim.
    pub generation: u64,
    /// Who claimed it; none once released.
    pub holder: Option<Member>,
}

/// A conditional write (LWT). Each names all that it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Row of `member`, up, beat 0. If there is no row of its node, or its incarnation is `after`.
    Join {
        /// Who comes.
        member: Member,
        /// The incarnation that the node's row has now; none where it has no row.
        after: Option<Incarnation>,
    },
    /// The beat and the standing. If the row's incarnation is the member's and it is not gone.
    Beat {
        /// Whose.
        member: Member,
        /// The number.
        beat: u64,
        /// Up or leaving.
        standing: Standing,
    },
    /// Gone. If the row's incarnation is the member's and its beat is `beat`.
    MarkGone {
        /// Whose time is over.
        member: Member,
        /// The last beat that was seen.
        beat: u64,
    },
    /// Gone, of one's own will. If the row's incarnation is the member's.
    Leave {
        /// Who leaves.
        member: Member,
    },
    /// Holder and generation `from + 1`. If the generation is `from` (0: there is no row).
    Claim {
        /// Which shard.
        shard: Shard,
        /// For whom.
        member: Member,
        /// The generation that it has now.
        from: u64,
    },
    /// No holder, generation as it is. If generation and holder are these.
    Release {
        /// Which shard.
        shard: Shard,
        /// By whom.
        member: Member,
        /// The generation that was held.
        generation: u64,
    },
}

/// What came of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Applied,
    /// Its condition did not hold.
    Refused,
    /// Nobody can tell: timed out. A serial read settles it.
    Unknown,
}

/// What the machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A conditional write that was asked for at `started` has this outcome.
    Changed {
        /// When it was asked for.
        started: MonotonicMs,
        /// Which.
        change: Change,
        /// What came of it.
        outcome: Outcome,
    },
    /// All rows of members, read (serially, where the machine asked for that).
    Members(Vec<MemberRow>),
    /// Rows of owners, read; those that are missing were never claimed.
    Owners(Vec<OwnerRow>),
    /// One owner's row, read serially; none where it was never claimed.
    Owner(Shard, Option<OwnerRow>),
    /// Actors of this shard, of this generation, are drained.
    Drained(Shard, u64),
    /// A peer says that shards were released.
    Hint,
    /// The process is to end: give all away.
    Leave,
}

/// What the shell is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Write this, and report [`Input::Changed`].
    Change(Change),
    /// Read all members, serially where an outcome is to be settled by it, and report [`Input::Members`].
    ReadMembers {
        /// At LOCAL_SERIAL.
        serial: bool,
    },
    /// Read all owners and report [`Input::Owners`].
    ReadOwners,
    /// Read this owner serially and report [`Input::Owner`].
    ReadOwner(Shard),
    /// Act for this shard in this generation: start what lives in it.
    Start(Shard, u64),
    /// Write snapshots, stop the shard's actors, report [`Input::Drained`].
    Drain(Shard, u64),
    /// Stop the shard's actors at once and write nothing more: it is, or soon may be, another's.
    Drop(Shard, u64),
    /// Another process has this node's name: end.
    Replaced,
    /// All is given away: the process may end.
    Left,
}
