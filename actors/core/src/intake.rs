//! Placeholder until the detectors land.
use porchlight_schema::sample::Sample;

use crate::context::SessionContext;
use crate::window::Window;

/// The intake.
#[derive(Debug, Clone, Default)]
pub struct Intake {}

impl Intake {
    /// Push.
    pub fn push(
        &mut self,
        _context: &SessionContext,
        _sample: Sample<'_>,
        _sink: &mut impl FnMut(&Window),
    ) {
    }
    /// Finish.
    pub fn finish(&mut self, _context: &SessionContext, _sink: &mut impl FnMut(&Window)) {}
}
