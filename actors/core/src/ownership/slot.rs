//! One shard as one node sees it.

use super::{Member, MonotonicMs, OwnerRow};

/// How far the node has this shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Hold {
    /// It has not.
    #[default]
    None,
    /// A claim from this generation is under way.
    Claiming(u64),
    /// A claim from this generation timed out; a serial read will tell.
    Doubted(u64),
    /// Held in this generation.
    Held(u64),
    /// Held in this generation, its actors being drained.
    Draining(u64),
    /// Drained, being released.
    Releasing(u64),
}

impl Hold {
    /// The generation in which the node acts.
    pub(super) fn acting(self) -> Option<u64> {
        match self {
            Self::Held(generation) | Self::Draining(generation) => Some(generation),
            _ => None,
        }
    }

    /// The generation that the store has under this node's name, as far as the node knows.
    pub(super) fn stored(self) -> Option<u64> {
        match self {
            Self::Releasing(generation) => Some(generation),
            other => other.acting(),
        }
    }
}

/// What is known of the shard's row: generation and holder.
pub(super) type Known = (u64, Option<Member>);

/// One shard as one node sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    /// How far this node has it.
    pub(super) hold: Hold,
    /// Its row, as last read; none before the first read.
    pub(super) known: Option<Known>,
    /// When a serial read of its row was last asked for, while one is owed.
    pub(super) asked: Option<MonotonicMs>,
}

impl Slot {
    /// Takes a reading of the row in. Generations only rise, and a release is the last thing in one: what does not fit
    /// is an older reading.
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

    /// The generation of the row as last read.
    pub(super) fn generation(&self) -> u64 {
        self.known.as_ref().map_or(0, |(generation, _)| *generation)
    }

    /// Who holds it, as last read.
    pub(super) fn holder(&self) -> Option<&Member> {
        self.known.as_ref()?.1.as_ref()
    }
}
