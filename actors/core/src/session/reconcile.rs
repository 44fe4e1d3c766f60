//! Decides about a session that is compared with the store: another node requested it, or forwarded
//! a batch of a session that this node does not know.

use porchlight_schema::limits::END_SETTLES_MS;

/// The interval, in reconciliations of a node's shards, at which all live sessions are read instead
/// of only the marked ones.
const FULL_RECONCILE_ROUNDS: u64 = 5;

/// Returns whether a node reads all live sessions in this round of reconciling its shards, from 1
/// on.
#[must_use]
pub fn reconciles_all(round: u64) -> bool {
    round.is_multiple_of(FULL_RECONCILE_ROUNDS)
}

/// The session as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The session is in progress.
    InProgress,
    /// The session was completed this long ago, by the wall clock.
    Ended {
        /// Milliseconds since the end was stored.
        age_ms: i64,
    },
}

/// The action on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconcile {
    /// Stop the session's actor, and compute its insight.
    End,
    /// Compute the insight again, because telemetry may have come late.
    ScoreLate,
    /// Take the session on.
    Adopt,
    /// Leave the session as it is.
    Keep,
}

/// Decides the action on a session. `is_here` says whether this process has the session in
/// progress, and `is_shared` whether other nodes may write to it.
#[must_use]
pub fn reconcile(stored: Stored, is_here: bool, is_shared: bool) -> Reconcile {
    match stored {
        // Another node may have ended the session a moment ago.
        Stored::Ended { age_ms } if is_here || (is_shared && age_ms < END_SETTLES_MS as i64) => {
            Reconcile::End
        }
        Stored::Ended { .. } => Reconcile::ScoreLate,
        Stored::InProgress if is_here => Reconcile::Keep,
        Stored::InProgress => Reconcile::Adopt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_state_decides_about_a_session() {
        let settles_ms = END_SETTLES_MS as i64;
        let ended = |age_ms| Stored::Ended { age_ms };
        for (stored, is_here, is_shared, expected) in [
            (Stored::InProgress, true, true, Reconcile::Keep),
            (Stored::InProgress, false, true, Reconcile::Adopt),
            (ended(settles_ms), true, true, Reconcile::End),
            (ended(settles_ms - 1), false, true, Reconcile::End),
            (ended(settles_ms), false, true, Reconcile::ScoreLate),
            (ended(0), false, false, Reconcile::ScoreLate),
        ] {
            assert_eq!(
                reconcile(stored, is_here, is_shared),
                expected,
                "{stored:?}"
            );
        }
    }
}
