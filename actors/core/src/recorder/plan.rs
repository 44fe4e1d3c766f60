//! Defines the steps for one push.

use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;

use super::push::{self, Reading};

/// A session to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The session's position among the recorder's sessions; creating it again under the same
    /// ordinal gives the same session.
    pub ordinal: u32,
    /// The start of the session by the phone's wall clock.
    pub started_at_ms: i64,
    /// The start of the session by the service's clock.
    pub begins_at: TimestampMs,
}

/// Readings to store as one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Append<'m> {
    /// The ordinal of the session.
    pub ordinal: u32,
    /// The `seq` of the batch.
    pub seq: u32,
    pub(super) readings: &'m [Reading],
    pub(super) skipped: u32,
}

impl Append<'_> {
    /// Returns the batch of a session that began at `started_at_ms` of the phone's clock.
    #[must_use]
    pub fn pack(&self, started_at_ms: i64) -> PackedBatch {
        push::pack(self.readings, started_at_ms, self.skipped)
    }
}

/// A session to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The ordinal of the session.
    pub ordinal: u32,
    /// The end of the session by the phone's wall clock.
    pub ended_at_ms: i64,
}

/// The steps for one push: open, then append, then stop. Repeating them changes nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan<'m> {
    /// The sessions to create, in order.
    pub openings: Vec<Opening>,
    /// The batches to append, in order.
    pub appends: Vec<Append<'m>>,
    /// The sessions to stop, in order.
    pub stops: Vec<Stop>,
}

impl Plan<'_> {
    /// Returns whether the push has no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.openings.is_empty() && self.appends.is_empty() && self.stops.is_empty()
    }
}
