//! The steps of a privacy request and their outcomes.

use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::{Counts, Subject};
use porchlight_schema::time::TimestampMs;

/// The next action of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Waits until this time.
    WaitUntil(TimestampMs),
    /// Performs a step on the store, and records its outcome.
    Perform(StoreStep),
    /// Does nothing: the request has ended.
    Over,
}

/// A step that the shell performs on the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreStep {
    /// Begins at this time: the shell logs the erasure and changes the subject's mark.
    Mark(Subject, TimestampMs),
    /// Lists the next sessions of the subject that were created up to this time and are not under a
    /// legal hold, and counts their rows.
    Plan(Subject, TimestampMs),
    /// Erases the given sessions.
    Erase(Vec<SessionId>),
    /// Removes the recorders of the subject that were created up to this time, and the subject from
    /// earlier requests.
    Recorders(Subject, TimestampMs),
    /// Removes the idempotency keys of sessions that no longer exist.
    IdempotencyKeys,
    /// Rewrites the files of the store.
    Purge,
    /// Counts the sessions of the subject after this one.
    Count(Subject, Option<SessionId>),
    /// Removes the mark of the running erasure, which removed the sessions created up to this time.
    Unmark(Subject, TimestampMs),
    /// Abandons the running erasure: removes its mark and rewrites the files of the store.
    Withdraw(Subject, TimestampMs),
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The step was performed.
    Done,
    /// The marks were written, and the other nodes will know of them by this time.
    Marked(TimestampMs),
    /// A legal hold protects a session of the subject. The shell that returns it for [`StoreStep::Mark`]
    /// has left no mark and nothing was erased; for [`StoreStep::Plan`] only held sessions are left.
    Held,
    /// The next page of sessions, their counts, and the numbers of their data keys. An empty page
    /// means that no sessions are left.
    Planned(Vec<SessionId>, Counts, Vec<u64>),
    /// The number of objects removed.
    Removed(Counts),
    /// The number of objects counted, and the session after which the next page begins, if there is
    /// one.
    Counted(Counts, Option<SessionId>),
}
