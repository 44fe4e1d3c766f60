//! Lets other work of a thread run during a long computation.

use porchlight_schema::limits::SAMPLES_UNTIL_YIELD;

/// The count of samples after which a computation yields, so that a session with many samples does
/// not delay small ones.
#[derive(Debug, Default)]
pub(crate) struct Yielding {
    samples: u32,
}

impl Yielding {
    /// Counts the samples of a batch that was processed, and yields if it is time.
    pub(crate) async fn after(&mut self, samples: u32) {
        self.samples = self.samples.saturating_add(samples);
        if self.samples >= SAMPLES_UNTIL_YIELD {
            self.samples = 0;
            tokio::task::yield_now().await;
        }
    }
}
