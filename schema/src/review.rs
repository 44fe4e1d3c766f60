//! Human reviews of decisions (contract section 11).

use serde::{Deserialize, Serialize};

use crate::ids::KeyId;
use crate::time::TimestampMs;

/// The result of a review. Stores hold the number of a variant, and JSON its name: append a new
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReviewState {
    /// A person has examined the decision and confirmed it.
    Reviewed,
    /// A person has examined the decision and overturned it.
    Overturned,
}

impl ReviewState {
    /// All review states.
    pub const ALL: [Self; 2] = [Self::Reviewed, Self::Overturned];

    /// Returns the name in requests and answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reviewed => "reviewed",
            Self::Overturned => "overturned",
        }
    }
}

/// The review of a session's decision. It is stored separately from the insight and survives
/// rescoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The result of the review.
    pub state: ReviewState,
    /// The reason, in the reviewer's words.
    pub note: Option<String>,
    /// The reviewer, as the caller names it.
    pub by: Option<String>,
    /// The time at which the review was written.
    pub reviewed_at: TimestampMs,
    /// The key with which the review was written.
    pub key_id: KeyId,
}

/// A review, for JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewView<'a> {
    state: &'static str,
    note: Option<&'a str>,
    by: Option<&'a str>,
    reviewed_at: TimestampMs,
}

impl<'a> From<&'a Review> for ReviewView<'a> {
    fn from(review: &'a Review) -> Self {
        Self {
            state: review.state.as_str(),
            note: review.note.as_deref(),
            by: review.by.as_deref(),
            reviewed_at: review.reviewed_at,
        }
    }
}
