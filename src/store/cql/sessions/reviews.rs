//! Reviews of decisions. The last write counts, even if the process that wrote the one before had a
//! clock that is ahead.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::review::Review;

use crate::cql::Inner;
use crate::cql::statements::db::{decode, encode};

impl Inner {
    /// Replaces the review of a session. Returns `false` if there is no such session.
    pub(super) async fn put_review(
        &self,
        session_id: SessionId,
        review: &Review,
    ) -> StoreResult<bool> {
        if self.record(session_id).await?.is_none() {
            return Ok(false);
        }
        let (key, data) = (session_id.to_bytes(), encode(review)?);
        let statements = &self.db.statements;
        let stored: Option<(Option<i64>,)> = self
            .db
            .row(&statements.review_time, (key.as_slice(),))
            .await?;
        let written_at_us = stored.and_then(|(at_us,)| at_us).unwrap_or(0);
        let values = (key.as_slice(), data.as_slice(), self.row_ttls.retained);
        let put = &statements.review_put;
        self.db.write_after(put, values, written_at_us).await?;
        Ok(true)
    }

    /// Returns the review of a session.
    pub(super) async fn review(&self, session_id: SessionId) -> StoreResult<Option<Review>> {
        let key = session_id.to_bytes();
        let statement = &self.db.statements.review_get;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (key.as_slice(),)).await?;
        row.map(|(data,)| decode("reviews", &data)).transpose()
    }
}
