//! Decides how the scoring of a session continues after a failed attempt.
//!
//! An unavailable store is available again at some time, so such an attempt is repeated without a
//! limit. A damaged row and a panic are lasting failures: another attempt most likely fails in the
//! same way. After a few of them the session gets a `failed` insight, so that its customer need not
//! wait without end.

/// The number of lasting failures after which a session with damaged rows is committed as failed.
const DAMAGES_MAX: u32 = 5;
/// The number of lasting failures after which a session whose score panics is committed as failed:
/// with the pauses, about 20 minutes. A panic outside the computation may be a fault of the store
/// that passes.
const PANICS_MAX: u32 = 50;

/// The reason for which an attempt to score a session failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The store failed, the session is being erased, or another insight was committed.
    Passing,
    /// Stored rows are damaged.
    Damage,
    /// The code panicked.
    Panic,
}

/// The next step of a session whose score has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Attempt the score again.
    Again,
    /// Count a lasting failure, then attempt the score again.
    AgainCounted,
    /// Commit a `failed` insight.
    GiveUp,
}

/// Returns the next step of a session after `lasting_failures` earlier lasting failures.
#[must_use]
pub fn next(failure: Failure, lasting_failures: u32) -> Retry {
    let most = match failure {
        Failure::Passing => return Retry::Again,
        Failure::Damage => DAMAGES_MAX,
        Failure::Panic => PANICS_MAX,
    };
    if lasting_failures.saturating_add(1) >= most {
        Retry::GiveUp
    } else {
        Retry::AgainCounted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lasting_failures_are_counted_and_end_the_attempts() {
        for (failure, lasting_failures, step) in [
            (Failure::Passing, 0, Retry::Again),
            (Failure::Passing, 4, Retry::Again),
            (Failure::Passing, u32::MAX, Retry::Again),
            (Failure::Damage, 0, Retry::AgainCounted),
            (Failure::Damage, 3, Retry::AgainCounted),
            (Failure::Damage, 4, Retry::GiveUp),
            (Failure::Panic, 48, Retry::AgainCounted),
            (Failure::Panic, 49, Retry::GiveUp),
            (Failure::Panic, u32::MAX, Retry::GiveUp),
        ] {
            assert_eq!(
                next(failure, lasting_failures),
                step,
                "{failure:?} {lasting_failures}"
            );
        }
    }
}
