//! The path image: a scored session's track, drawn from its journal.

use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_core::context::SessionContext;
use porchlight_core::picture::{Picture, PictureInput, draw};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::insight::Score;

use super::Service;
use crate::scoring::replay;

impl Service {
    /// Draws the path of a session that was scored so. It reads and computes the whole session, which takes tens of
    /// milliseconds for a long one: not for a thread that others wait for. None: there are fewer than two fixes, or the
    /// session can't be computed.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn path_picture(
        &self,
        row: &SessionRow,
        score: &Score,
    ) -> StoreResult<Option<Picture>> {
        let context = SessionContext::new(&row.start);
        let session_id = row.start.session_id;
        let Some(replayed) = replay(self.store().as_ref(), &context, session_id).await? else {
            return Ok(None);
        };
        let input = PictureInput {
            context: &context,
            windows: &replayed.windows,
            score,
            duration_ms: (score.summary.total_duration_sec * 1_000.0) as u32,
        };
        Ok(catch_unwind(AssertUnwindSafe(|| draw(&input)))
            .ok()
            .flatten())
    }
}
