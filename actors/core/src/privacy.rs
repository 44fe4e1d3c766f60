//! Decides the steps of privacy requests, and which request begins, without performing them.
//!
//! After each step the request is stored with the step that follows. If a process is killed, the
//! request repeats its current step: every step may be repeated. The sessions of a page and their
//! counts are stored before the page is erased, so that the counts are correct regardless of how
//! often the page is repeated.

mod destroyed_keys;
mod mark;
mod purges;
mod recent_changes;
mod request;
mod room;
mod schedule;
mod step;

pub use destroyed_keys::DestroyedKeys;
pub use mark::{Mark, RunningErasure, SessionAccess};
pub use purges::Purges;
pub use recent_changes::{Change, RecentChanges, Seen};
pub use request::{Begin, NotPending, PrivacyRequest, RecordedSubject, Stage};
pub use room::Room;
pub use schedule::{OpenKey, Schedule};
pub use step::{Outcome, Step, StoreStep};
