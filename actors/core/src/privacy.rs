//! The steps of a privacy request, decided without performing them.
//!
//! A request is stored after each step with the step that follows. A process that was killed repeats the step that it was
//! in: every step may be repeated. The sessions of a page and their counts are stored before the page is erased, so that
//! the counts are right however often the page is repeated.

mod mark;
mod request;

pub use mark::{Mark, Standing};
pub use request::{Begin, NotPending, Outcome, PrivacyRequest, RecordedSubject, Stage, Step};
