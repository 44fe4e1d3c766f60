//! Reproducible randomness: the same seed gives the same numbers, in any order of events. Each
//! decision draws from its own stream, named by its subject.

/// A stream of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

fn mixed(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

impl Chance {
    /// Creates the stream of this name.
    pub(crate) fn of(name: &[u64]) -> Self {
        Self(name.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
            mixed(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mixed(part.wrapping_add(1)))
        }))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = (high - low) as u64 + 1;
        low + (self.draw() % span) as i64
    }

    /// Returns `true` with a probability of `share` in a thousand.
    pub(crate) fn permille(&mut self, share: u64) -> bool {
        self.draw() % 1000 < share
    }

    pub(crate) fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.draw() % of.len() as u64) as usize]
    }
}
