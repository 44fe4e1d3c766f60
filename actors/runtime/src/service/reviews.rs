//! Reads and writes the reviews of decisions.

use porchlight_core::privacy::SessionAccess;
use porchlight_ports::{SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::KeyId;
use porchlight_schema::limits::{REVIEW_NOTE_CHARS_MAX, TEXT_CHARS_MAX};
use porchlight_schema::review::{Review, ReviewState};

use super::TenantSessions;

/// A review as a person writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReview {
    /// The result of the review.
    pub state: ReviewState,
    /// The reason, in the reviewer's words.
    pub note: Option<String>,
    /// The reviewer, as the caller names it.
    pub by: Option<String>,
}

/// The reason why a review was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReviewRefused {
    /// The note has more than [`REVIEW_NOTE_CHARS_MAX`] characters.
    #[error("the note has more than {REVIEW_NOTE_CHARS_MAX} characters")]
    LongNote,
    /// The name of the reviewer has more than [`TEXT_CHARS_MAX`] characters.
    #[error("the name of the reviewer has more than {TEXT_CHARS_MAX} characters")]
    LongName,
    /// A privacy request restricts the session.
    #[error("the session is restricted")]
    Restricted,
    /// The tenant has no such session.
    #[error("the session does not exist")]
    NoSession,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TenantSessions<'_> {
    /// Returns the review of a session's decision, or `None` if it has none or belongs to another
    /// tenant.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn review(&self, row: &SessionRow) -> StoreResult<Option<Review>> {
        if !self.owns(row) {
            return Ok(None);
        }
        self.service.store().review(row.start.session_id).await
    }

    /// Replaces the review of a session's decision, on behalf of a key. Returns the stored review.
    ///
    /// # Errors
    ///
    /// Returns the reason why nothing was written.
    pub async fn put_review(
        &self,
        row: &SessionRow,
        new: NewReview,
        key_id: KeyId,
    ) -> Result<Review, ReviewRefused> {
        let exceeds = |text: &Option<String>, chars_max: usize| {
            text.as_ref()
                .is_some_and(|text| text.chars().count() > chars_max)
        };
        if exceeds(&new.note, REVIEW_NOTE_CHARS_MAX) {
            return Err(ReviewRefused::LongNote);
        }
        if exceeds(&new.by, TEXT_CHARS_MAX) {
            return Err(ReviewRefused::LongName);
        }
        match self.service.access(&row.start) {
            SessionAccess::Open => {}
            SessionAccess::Restricted => return Err(ReviewRefused::Restricted),
            SessionAccess::Erased => return Err(ReviewRefused::NoSession),
        }
        let review = Review {
            state: new.state,
            note: new.note,
            by: new.by,
            reviewed_at: self.service.now(),
            key_id,
        };
        let (session_id, store) = (row.start.session_id, self.service.store());
        if self.owns(row) && store.put_review(session_id, review.clone()).await? {
            Ok(review)
        } else {
            Err(ReviewRefused::NoSession)
        }
    }
}
