//! The state of one shard at one node: owner, lease and claim.

use super::{Member, MonotonicMs, OwnerRow};

/// The node's progress in acquiring or releasing the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Hold {
    /// The node does not hold the shard.
    #[default]
    None,
    /// A claim based on this generation is in flight.
    Claiming(u64),
    /// A claim based on this generation timed out; a serial read will resolve it.
    InDoubt(u64),
    /// The node holds the shard in this generation.
    Held(u64),
    /// The node holds it in this generation and drains its actors.
    Draining(u64),
    /// The shard is drained and being released.
    Releasing(u64),
}

impl Hold {
    /// Returns the generation in which the node acts.
    pub(super) fn acting(self) -> Option<u64> {
        match self {
            Self::Held(generation) | Self::Draining(generation) => Some(generation),
            _ => None,
        }
    }

    /// Returns the generation that the store holds under this node's name, as far as the node
    /// knows.
    pub(super) fn stored(self) -> Option<u64> {
        match self {
            Self::Releasing(generation) => Some(generation),
            other => other.acting(),
        }
    }
}

/// The known content of the shard's row: generation and holder.
pub(super) type Known = (u64, Option<Member>);

/// The state of one shard at one node.
#[derive(Debug, Clone, Default)]
pub(super) struct ShardView {
    /// This node's state of the shard.
    pub(super) hold: Hold,
    /// The row as last read; `None` before the first read.
    pub(super) known: Option<Known>,
    /// The time at which a serial read of the row was last requested, while its answer is
    /// outstanding.
    pub(super) read_requested_at: Option<MonotonicMs>,
}

impl ShardView {
    /// Processes a read of the row. Generations only rise, and a release is the last write of a
    /// generation, so any other content is an older read.
    pub(super) fn read(&mut self, row: Option<OwnerRow>) {
        let (generation, holder) = row.map_or((0, None), |row| (row.generation, row.holder));
        let is_newer = match &self.known {
            None => true,
            Some((known, _)) if generation != *known => generation > *known,
            Some((_, known_holder)) => known_holder.is_some() && holder.is_none(),
        };
        if is_newer {
            self.known = Some((generation, holder));
        }
    }

    /// Returns the generation of the row as last read.
    pub(super) fn generation(&self) -> u64 {
        self.known.as_ref().map_or(0, |(generation, _)| *generation)
    }

    /// Returns the holder as last read.
    pub(super) fn holder(&self) -> Option<&Member> {
        self.known.as_ref()?.1.as_ref()
    }
}
