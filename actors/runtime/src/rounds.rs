//! The rounds of a change that reads a document and replaces it, and that another writer's change
//! may defeat.

use std::hash::{BuildHasher, RandomState};

use porchlight_core::backoff::Backoff;
use porchlight_ports::{StoreError, StoreResult};

/// Maximum number of rounds of one change. They take at most seven seconds and the time of the
/// store.
pub(crate) const ROUNDS_MAX: u32 = 20;
/// The pauses after lost rounds, of which each writer takes a random part.
const PAUSES: Backoff = Backoff::new(10, 500);

/// The lost rounds of one change.
#[derive(Debug)]
pub(crate) struct Rounds {
    pauses: Backoff,
}

impl Rounds {
    /// Returns the rounds of a change that begins.
    pub(crate) fn new() -> Self {
        Self { pauses: PAUSES }
    }

    /// Waits before the next round. Call this after each round that another writer has defeated.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Overloaded`] at once if the change has lost [`ROUNDS_MAX`] rounds.
    pub(crate) async fn on_lost(&mut self) -> StoreResult<()> {
        // Each hasher has keys of its own.
        let random = RandomState::new().hash_one(self.pauses.failures());
        let pause = self.pauses.next_round(ROUNDS_MAX, random);
        tokio::time::sleep(pause.ok_or(StoreError::Overloaded)?).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_ends_after_its_last_round_and_waits_a_few_seconds_at_most() {
        let (mut rounds, began) = (Rounds::new(), Instant::now());
        for _ in 1..ROUNDS_MAX {
            rounds.on_lost().await.unwrap();
        }
        let waited = began.elapsed();
        assert!((3..8).contains(&waited.as_secs()), "{waited:?}");
        assert!(matches!(
            rounds.on_lost().await,
            Err(StoreError::Overloaded)
        ));
        assert_eq!(began.elapsed(), waited, "the last round has no pause");
    }

    #[tokio::test(start_paused = true)]
    async fn writers_that_collide_wait_for_different_times() {
        let mut waits = BTreeSet::new();
        for _ in 0..20 {
            let (mut rounds, began) = (Rounds::new(), Instant::now());
            for _ in 1..ROUNDS_MAX {
                rounds.on_lost().await.unwrap();
            }
            waits.insert(began.elapsed());
        }
        assert!(waits.len() > 10, "{waits:?}");
    }
}
