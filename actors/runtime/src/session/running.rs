//! A session's machine while its actor is running, and while it is passivated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use porchlight_core::context::SessionContext;
use porchlight_core::session::SessionMachine;
use porchlight_core::session::replay::FinalEvents;
use porchlight_schema::limits::SNAPSHOT_MS;
use porchlight_schema::time::TimestampMs;

/// The time after the first batch that is not in a snapshot at which the next snapshot is due.
const SNAPSHOT_AFTER: Duration = Duration::from_millis(SNAPSHOT_MS);

/// The state of an actor that was passivated.
#[derive(Debug)]
pub(crate) struct PassivatedState {
    state: Box<[u8]>,
    unsnapshotted_since: Option<Instant>,
}

/// The machine and the context that it needs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) context: SessionContext,
    pub(super) machine: SessionMachine,
    pub(super) unsnapshotted_since: Option<Instant>,
    /// Whether the journal was read to its end once.
    pub(super) is_caught_up: bool,
}

impl Running {
    pub(super) fn passivate(&self) -> Box<PassivatedState> {
        Box::new(PassivatedState {
            state: self.machine.passivate(&self.context),
            unsnapshotted_since: self.unsnapshotted_since,
        })
    }

    /// Restores a passivated machine. Returns `None` if its state cannot be read; the store has all
    /// of it.
    pub(crate) fn activate(passivated: &PassivatedState) -> Option<Box<Self>> {
        let (context, machine) = SessionMachine::activate(&passivated.state).ok()?;
        Some(Box::new(Self {
            context,
            machine,
            unsnapshotted_since: passivated.unsnapshotted_since,
            is_caught_up: true,
        }))
    }

    /// Returns the events as they are after the last batch. Returns `None` if a detector panics.
    pub(crate) fn final_events(&self) -> Option<FinalEvents> {
        let events = || self.machine.final_events(&self.context);
        catch_unwind(AssertUnwindSafe(events)).ok()
    }

    /// Records the changes of a batch that was received at `received_at`. Returns whether any event
    /// opened or closed.
    pub(super) fn record_change(&mut self, received_at: TimestampMs) -> bool {
        let has_changed = self.machine.record_changes(received_at);
        if self.machine.has_unsnapshotted() {
            self.unsnapshotted_since.get_or_insert_with(Instant::now);
        }
        has_changed
    }

    pub(super) fn is_snapshot_due(&self) -> bool {
        self.machine.is_snapshot_due()
            || self
                .unsnapshotted_since
                .is_some_and(|since| since.elapsed() >= SNAPSHOT_AFTER)
    }
}
