//! The choice between the shipped models and the models that leave a source out.

use super::model::GaitModels;
use super::weights;
use crate::source::by_source;

/// The models that a session uses. Live sessions use the shipped models; an evaluation uses models
/// fitted without the source that it judges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Models(&'static GaitModels);

impl Default for Models {
    fn default() -> Self {
        Self(&weights::SHIPPED)
    }
}

impl Models {
    /// Returns the models that were fitted without the source of a recording, by the recording's
    /// name (see [`crate::source`]). Returns `None` for a source that the training does not
    /// use: the shipped models were fitted without it.
    #[must_use]
    pub fn without_source_of(recording: &str) -> Option<Self> {
        by_source(weights::LEFT_OUT, recording).map(Self)
    }

    pub(crate) fn get(self) -> &'static GaitModels {
        self.0
    }
}
