//! Reviews of decisions. The last write counts.

use porchlight_ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::review::Review;

use super::Inner;
use super::db::{decode, encode};

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
        let values = (key.as_slice(), data.as_slice(), self.row_ttls.retained);
        self.db
            .write(&self.db.statements.review_put, values)
            .await?;
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
