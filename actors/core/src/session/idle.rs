//! Decides about sessions in progress that are silent or that nobody watches: passivation,
//! eviction, reconciliation with the store, and batches that wait in the journal.

/// An actor that received nothing for this long is passivated. Its state stays in memory as bytes.
pub const PASSIVATE_AFTER_MS: i64 = 15_000;
/// The passivated state of a session that received nothing for this long is evicted: only the store
/// has it.
pub const EVICT_AFTER_MS: i64 = 15 * 60_000;
/// The shortest time between two checks of a session.
const CHECK_INTERVAL_MS_MIN: i64 = 1_000;
/// The number of deferred batches of a session at which its actor reads them, so that a later
/// request finds at most this many. A phone that sends every 15 s sends about as many in an hour;
/// reading them takes two milliseconds.
const DEFERRED_BATCHES_MAX: u32 = 256;
/// The events of a session are needed for this long after they were last requested, in
/// milliseconds: a page or a program that shows a session asks again.
const NEEDED_AFTER_REQUEST_MS: i64 = 15_000;

/// The place of a session's state in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residence {
    /// An actor has the state.
    Actor,
    /// The state is in memory as bytes.
    Passivated,
    /// Only the store has the state.
    Store,
}

/// The silence of a session in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// The time until the session ends if nothing more arrives.
    pub left_ms: i64,
    /// The time since its last batch.
    pub silent_ms: i64,
    /// The silence after which it is reconciled, if other nodes may have received its batches.
    pub reconcile_after_ms: Option<i64>,
}

/// The reaction to the silence of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// The session is over.
    End,
    /// The session continues.
    Continue {
        /// The change of the place of its state.
        state_move: StateMove,
        /// Whether it is reconciled with the store.
        reconciles: bool,
    },
}

/// The change of the place of a silent session's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateMove {
    /// The state stays where it is.
    Stay,
    /// The actor is passivated, if there is one.
    Passivate,
    /// The state is written to the store and dropped from memory.
    Evict,
}

impl Silence {
    /// Returns the time until the next check of the session: its end, or an earlier reaction.
    #[must_use]
    pub fn next_check_ms(&self, residence: Residence) -> i64 {
        let move_ms = match residence {
            // An actor that is still busy is checked again a little later.
            Residence::Actor => {
                Some((PASSIVATE_AFTER_MS - self.silent_ms).max(CHECK_INTERVAL_MS_MIN))
            }
            Residence::Passivated => Some(EVICT_AFTER_MS - self.silent_ms),
            Residence::Store => None,
        };
        let reconcile_ms = self
            .reconcile_after_ms
            .map(|after_ms| (after_ms - self.silent_ms).max(CHECK_INTERVAL_MS_MIN));
        let earlier = move_ms.into_iter().chain(reconcile_ms);
        earlier.fold(self.left_ms, i64::min)
    }

    /// Returns the reaction to the silence.
    #[must_use]
    pub fn reaction(&self) -> Reaction {
        if self.left_ms <= 0 {
            return Reaction::End;
        }
        let state_move = match self.silent_ms {
            EVICT_AFTER_MS.. => StateMove::Evict,
            PASSIVATE_AFTER_MS.. => StateMove::Passivate,
            _ => StateMove::Stay,
        };
        let reconcile_after_ms = self.reconcile_after_ms;
        Reaction::Continue {
            state_move,
            reconciles: reconcile_after_ms.is_some_and(|after_ms| self.silent_ms >= after_ms),
        }
    }
}

/// Returns whether a node is so busy that batches may wait in the journal, and a session is not
/// needed: its events were last requested `since_request_ms` ago. `from_per_sec` is the number of
/// batches per second from which on a node defers.
#[must_use]
pub fn may_defer(batches_per_sec: u32, from_per_sec: u32, since_request_ms: i64) -> bool {
    batches_per_sec >= from_per_sec && since_request_ms >= NEEDED_AFTER_REQUEST_MS
}

/// Returns whether the actor of a session reads its deferred batches, of which there are `batches`.
#[must_use]
pub fn must_read_deferred(batches: u32) -> bool {
    batches >= DEFERRED_BATCHES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn silent(silent_ms: i64) -> Silence {
        Silence {
            left_ms: HOUR_MS - silent_ms,
            silent_ms,
            reconcile_after_ms: None,
        }
    }

    fn state_move(silence: Silence) -> StateMove {
        match silence.reaction() {
            Reaction::Continue { state_move, .. } => state_move,
            Reaction::End => panic!("{silence:?} ends"),
        }
    }

    #[test]
    fn a_silent_session_is_passivated_then_evicted_and_then_ends() {
        assert_eq!(state_move(silent(14_999)), StateMove::Stay);
        assert_eq!(state_move(silent(15_000)), StateMove::Passivate);
        assert_eq!(state_move(silent(899_999)), StateMove::Passivate);
        assert_eq!(state_move(silent(900_000)), StateMove::Evict);
        assert_eq!(silent(HOUR_MS).reaction(), Reaction::End);
    }

    #[test]
    fn each_check_comes_when_its_reaction_is_due() {
        assert_eq!(silent(0).next_check_ms(Residence::Actor), 15_000);
        assert_eq!(
            silent(20_000).next_check_ms(Residence::Actor),
            1_000,
            "a busy actor"
        );
        assert_eq!(silent(20_000).next_check_ms(Residence::Passivated), 880_000);
        assert_eq!(
            silent(900_000).next_check_ms(Residence::Store),
            HOUR_MS - 900_000
        );
        let ends = Silence {
            left_ms: 5,
            ..silent(0)
        };
        assert_eq!(ends.next_check_ms(Residence::Actor), 5);
    }

    #[test]
    fn a_session_of_several_nodes_is_also_reconciled() {
        let shared = |silent_ms| Silence {
            reconcile_after_ms: Some(120_000),
            ..silent(silent_ms)
        };
        let reconciles = |silent_ms| {
            let reaction = shared(silent_ms).reaction();
            matches!(
                reaction,
                Reaction::Continue {
                    reconciles: true,
                    ..
                }
            )
        };
        assert!(!reconciles(119_999) && reconciles(120_000));
        assert_eq!(shared(100_000).next_check_ms(Residence::Store), 20_000);
        assert_eq!(shared(200_000).next_check_ms(Residence::Store), 1_000);
    }

    #[test]
    fn batches_wait_on_a_busy_node_while_nobody_needs_the_events() {
        assert!(may_defer(250, 250, 15_000));
        assert!(!may_defer(249, 250, 15_000));
        assert!(!may_defer(250, 250, 14_999));
        assert!(!must_read_deferred(255) && must_read_deferred(256));
    }
}
