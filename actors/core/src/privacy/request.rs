//! Defines a privacy request and determines its next step.

#[cfg(test)]
mod tests;

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::ACCESS_DOWNLOAD_MS;
use porchlight_schema::privacy::{Counts, HashedSubject, RequestStatus, RequestType, Subject};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::{DestroyedKeys, Outcome, Step, StoreStep};

/// The maximum difference between the clocks of two nodes, milliseconds, with a margin: nodes whose
/// clocks differ by more than ten seconds do not join.
const CLOCKS_APART_MS_MAX: i64 = 60_000;

/// The subject as it is stored. A completed erasure keeps only a salted hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RecordedSubject {
    /// The customer's id in plain text.
    Clear(Subject),
    /// A salted hash of the customer's id.
    Hashed(HashedSubject),
}

/// The work that remains. It is stored with the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The request waits for its due time and can be cancelled.
    Waiting,
    /// The marks of the subject have yet to be written.
    Marking,
    /// The request waits until this time, so that the other nodes learn of the marks.
    Settling(TimestampMs),
    /// The machine is erasing these sessions. The page has been counted and may be partly erased.
    Erasing(Vec<SessionId>),
    /// The recorders of the subject are being removed, and its name from earlier requests.
    Recorders,
    /// The idempotency keys of erased sessions are being removed.
    IdempotencyKeys,
    /// Sessions are being counted, starting after this session.
    Counting(Option<SessionId>),
    /// The mark of a running erasure has yet to be removed.
    Finishing,
    /// Held sessions are left. The mark has yet to be removed, and the erasure fails.
    Withdrawing,
    /// Files have yet to be rewritten so that they no longer contain the removed data. The request
    /// no longer names the subject.
    Purging,
    /// No work remains.
    Done,
}

/// A privacy request as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivacyRequest {
    /// The caller's id for the request.
    pub request_id: String,
    /// The type of the request.
    pub request_type: RequestType,
    /// The subject of the request.
    pub subject: RecordedSubject,
    /// Whether the subject is prevented from starting sessions from now on.
    pub suppress: bool,
    /// The caller's reason. It is removed when the request has ended, because it may name a person.
    pub reason: Option<String>,
    /// The SHA-256 of salt and body in hex, which distinguishes a repetition from another request
    /// with the same id.
    pub body_hash: String,
    /// The salt of both hashes.
    pub salt: [u8; 16],
    /// The time at which the request was received.
    pub received_at: TimestampMs,
    /// The time at which the service begins to process the request.
    pub due_at: TimestampMs,
    /// The time at which the service began to process the request.
    pub began_at: Option<TimestampMs>,
    /// The creation time of the tenant's newest session at that time, if a clock was ahead.
    #[serde(default)]
    pub newest_at: Option<TimestampMs>,
    /// The time at which the request was completed.
    pub completed_at: Option<TimestampMs>,
    /// The status of the request.
    pub status: RequestStatus,
    /// The work that remains.
    pub stage: Stage,
    /// The number of affected objects so far.
    pub counts: Counts,
    /// The data keys of the sessions erased so far.
    #[serde(default)]
    pub data_keys: DestroyedKeys,
    /// The signed receipt of a completed erasure.
    #[serde(default)]
    pub receipt: Option<String>,
}

/// The content of a new request.
#[derive(Debug, Clone)]
pub struct Begin {
    /// The caller's id for the request.
    pub request_id: String,
    /// The type of the request.
    pub request_type: RequestType,
    /// The subject of the request.
    pub subject: Subject,
    /// Whether the subject is prevented from starting sessions from now on.
    pub suppress: bool,
    /// The caller's reason.
    pub reason: Option<String>,
    /// The SHA-256 of salt and body in hex.
    pub body_hash: String,
    /// The salt of the hashes.
    pub salt: [u8; 16],
    /// The delay before an erasure or an access export begins, milliseconds.
    pub delay_ms: i64,
}

/// The error of cancelling a request that the service has already begun to process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is no longer pending")]
pub struct NotPending;

impl PrivacyRequest {
    /// Creates a request that was received at `now`.
    #[must_use]
    pub fn new(begin: Begin, now: TimestampMs) -> Self {
        let delay_ms = match begin.request_type {
            RequestType::Erasure | RequestType::Access => begin.delay_ms,
            RequestType::Restriction | RequestType::Release => 0,
        };
        Self {
            request_id: begin.request_id,
            request_type: begin.request_type,
            subject: RecordedSubject::Clear(begin.subject),
            suppress: begin.suppress,
            reason: begin.reason,
            body_hash: begin.body_hash,
            salt: begin.salt,
            received_at: now,
            due_at: now.plus_ms(delay_ms),
            began_at: None,
            newest_at: None,
            completed_at: None,
            status: RequestStatus::Pending,
            stage: Stage::Waiting,
            counts: Counts::default(),
            data_keys: DestroyedKeys::default(),
            receipt: None,
        }
    }

    /// Returns a number that distinguishes the request from others of the same subject.
    #[must_use]
    pub fn number(&self) -> u64 {
        let random = self.salt.last_chunk::<8>();
        random.map_or(1, |bytes| u64::from_be_bytes(*bytes).max(1))
    }

    /// Returns the key of the subject if the request has yet to change its restriction or
    /// suppression, where the order of requests counts.
    #[must_use]
    pub fn subject_to_mark(&self) -> Option<[u8; 32]> {
        let is_ordered = match self.request_type {
            RequestType::Restriction | RequestType::Release => true,
            RequestType::Erasure => self.suppress,
            RequestType::Access => false,
        };
        match (&self.subject, &self.stage) {
            (RecordedSubject::Clear(subject), Stage::Waiting | Stage::Marking)
                if is_ordered && !self.is_over() =>
            {
                Some(subject.key())
            }
            _ => None,
        }
    }

    /// Returns the time until which the request waits, if it waits for one.
    #[must_use]
    pub fn waits_until(&self) -> Option<TimestampMs> {
        match self.stage {
            Stage::Waiting if !self.is_over() => Some(self.due_at),
            Stage::Settling(settled_at) => Some(settled_at),
            _ => None,
        }
    }

    /// Returns whether no work remains.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(
            self.status,
            RequestStatus::Completed | RequestStatus::Cancelled | RequestStatus::Failed
        )
    }

    /// Cancels the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the service has started to process the request or the request has ended.
    pub fn cancel(&mut self, now: TimestampMs) -> Result<(), NotPending> {
        if self.status != RequestStatus::Pending {
            return Err(NotPending);
        }
        self.end(RequestStatus::Cancelled, now);
        Ok(())
    }

    /// Returns whether the request is due and has not begun.
    #[must_use]
    pub fn may_begin(&self, now: TimestampMs) -> bool {
        self.stage == Stage::Waiting && self.status == RequestStatus::Pending && self.due_at <= now
    }

    /// Begins the request if it is due. `newest` is the creation time of the tenant's newest
    /// session, which the request covers too: the clock of its node may be ahead, or the clock may
    /// have been set back. The shell stores the request before it performs a step.
    pub fn begin(&mut self, now: TimestampMs, newest: Option<TimestampMs>) {
        if !self.may_begin(now) {
            return;
        }
        self.status = RequestStatus::InProgress;
        self.began_at = Some(now);
        self.newest_at = newest.filter(|&newest| newest > now);
        self.stage = match self.request_type {
            RequestType::Access => Stage::Counting(None),
            _ => Stage::Marking,
        };
    }

    /// Returns the time up to which sessions and other data must have been created to be covered by
    /// the request: the time at which it began, or the creation time of the newest session then.
    #[must_use]
    pub fn covers_until(&self) -> TimestampMs {
        let began_at = self.began_at.unwrap_or(self.received_at);
        self.newest_at
            .map_or(began_at, |newest| began_at.max(newest))
    }

    /// Returns the time up to which the erasure log covers sessions. It is hardly later than the
    /// beginning of the erasure, because a restored backup may have sessions that were created
    /// after the erasure.
    #[must_use]
    pub fn logged_until(&self) -> TimestampMs {
        let began_at = self.began_at.unwrap_or(self.received_at);
        self.covers_until()
            .min(began_at.plus_ms(CLOCKS_APART_MS_MAX))
    }

    /// Returns the next step.
    #[must_use]
    pub fn step(&self, now: TimestampMs) -> Step {
        if self.stage == Stage::Purging {
            return Step::Perform(StoreStep::Purge);
        }
        let RecordedSubject::Clear(subject) = &self.subject else {
            return Step::Over;
        };
        let subject = subject.clone();
        let until = self.covers_until();
        Step::Perform(match &self.stage {
            Stage::Waiting => return Step::WaitUntil(self.due_at),
            Stage::Marking => StoreStep::Mark(subject, until),
            Stage::Settling(settled_at) if now < *settled_at => {
                return Step::WaitUntil(*settled_at);
            }
            Stage::Settling(_) => StoreStep::Plan(subject, until),
            Stage::Erasing(page) if page.is_empty() => StoreStep::Plan(subject, until),
            Stage::Erasing(page) => StoreStep::Erase(page.clone()),
            Stage::Recorders => StoreStep::Recorders(subject, until),
            Stage::IdempotencyKeys => StoreStep::IdempotencyKeys,
            Stage::Counting(after) => StoreStep::Count(subject, *after),
            Stage::Finishing => StoreStep::Unmark(subject, until),
            Stage::Withdrawing => StoreStep::Withdraw(subject, until),
            Stage::Purging | Stage::Done => return Step::Over,
        })
    }

    /// Returns whether an outcome of the current step ends a page of sessions, so that the request
    /// gives way to those of other tenants.
    #[must_use]
    pub fn ends_page(&self, outcome: &Outcome) -> bool {
        matches!(self.stage, Stage::Erasing(_) | Stage::Counting(_))
            && !matches!(outcome, Outcome::Planned(..))
    }

    /// Records the outcome of the step that [`Self::step`] returned.
    pub fn record(&mut self, outcome: Outcome, now: TimestampMs) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        self.stage = match (stage, outcome) {
            (Stage::Marking, Outcome::Marked(settled_at)) => match self.request_type {
                RequestType::Erasure => Stage::Settling(settled_at),
                _ => Stage::Counting(None),
            },
            (Stage::Marking, Outcome::Held) => {
                self.end(RequestStatus::Failed, now);
                Stage::Done
            }
            (Stage::Settling(_) | Stage::Erasing(_), Outcome::Planned(page, counts, keys)) => {
                self.counts.add(counts);
                for key in keys {
                    self.data_keys.add(key);
                }
                if page.is_empty() {
                    Stage::Recorders
                } else {
                    Stage::Erasing(page)
                }
            }
            (Stage::Settling(_) | Stage::Erasing(_), Outcome::Held) => Stage::Withdrawing,
            (Stage::Withdrawing, Outcome::Done) => {
                self.end(RequestStatus::Failed, now);
                Stage::Done
            }
            (Stage::Erasing(_), Outcome::Done) => Stage::Erasing(Vec::new()),
            (Stage::Recorders, Outcome::Removed(counts)) => {
                self.counts.add(counts);
                Stage::IdempotencyKeys
            }
            (Stage::IdempotencyKeys, Outcome::Removed(counts)) => {
                self.counts.add(counts);
                Stage::Finishing
            }
            // The request itself must no longer name the subject when the files are rewritten.
            (Stage::Finishing, Outcome::Done) if self.request_type == RequestType::Erasure => {
                self.hash_subject();
                Stage::Purging
            }
            (Stage::Counting(_), Outcome::Counted(counts, next)) => {
                self.counts.add(counts);
                match next {
                    Some(next) => Stage::Counting(Some(next)),
                    None => Stage::Finishing,
                }
            }
            (Stage::Finishing | Stage::Purging, Outcome::Done) => {
                self.end(RequestStatus::Completed, now);
                Stage::Done
            }
            // The outcome of another step changes nothing.
            (stage, _) => stage,
        };
    }

    fn end(&mut self, status: RequestStatus, now: TimestampMs) {
        self.status = status;
        self.stage = Stage::Done;
        self.reason = None;
        if status == RequestStatus::Completed {
            self.completed_at = Some(now);
        }
    }

    /// Returns the time at which the archive of an access request expires, or `None` if the request
    /// offers no archive.
    #[must_use]
    pub fn archive_expires_at(&self) -> Option<TimestampMs> {
        let has_archive = self.request_type == RequestType::Access
            && self.status == RequestStatus::Completed
            && matches!(self.subject, RecordedSubject::Clear(_));
        let completed_at = self.completed_at.filter(|_| has_archive)?;
        Some(completed_at.plus_ms(ACCESS_DOWNLOAD_MS))
    }

    /// Replaces the subject with its salted hash and removes the reason, which may name a person.
    pub fn hash_subject(&mut self) {
        self.reason = None;
        if let RecordedSubject::Clear(subject) = &self.subject {
            self.subject = RecordedSubject::Hashed(subject.hashed(self.salt));
        }
    }
}
