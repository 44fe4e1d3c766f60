//! Placeholder until the detectors land.
use porchlight_schema::event::Event;
use porchlight_schema::sample::packed::{PackedBatch, PackedError};
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;

/// The timeline.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Timeline {
    events: Vec<Event>,
}

impl Timeline {
    /// New.
    #[must_use]
    pub fn new(_context: &SessionContext) -> Self {
        Self::default()
    }
    /// Push.
    pub fn push_batch(
        &mut self,
        _context: &SessionContext,
        _batch: &PackedBatch,
    ) -> Result<(), PackedError> {
        Ok(())
    }
    /// Finish.
    pub fn finish(&mut self, _context: &SessionContext) {}
    /// Events.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}
