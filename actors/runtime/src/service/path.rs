//! The track of a scored session, computed from its journal.

use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_core::context::SessionContext;
use porchlight_core::path::{PathInput, Track};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::insight::Score;

use super::Service;
use crate::scoring::replay;

impl Service {
    /// Computes the track of a scored session. This replays the whole session, which takes tens of
    /// milliseconds for a long one: do not call it on a thread that serves requests. Returns `None`
    /// if the session has fewer than two fixes or cannot be computed.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn path_track(&self, row: &SessionRow, score: &Score) -> StoreResult<Option<Track>> {
        let context = SessionContext::new(&row.start);
        let session_id = row.start.session_id;
        let Some(replayed) = replay(self.store().as_ref(), &context, session_id).await? else {
            return Ok(None);
        };
        let input = PathInput {
            context: &context,
            windows: &replayed.windows,
            clock_steps: &replayed.clock_steps,
            score,
            duration_ms: (score.summary.total_duration_sec * 1_000.0) as u32,
        };
        Ok(catch_unwind(AssertUnwindSafe(|| Track::of(&input)))
            .ok()
            .flatten())
    }
}
