//! Turns the data that recording apps on stock phones push into batches of sessions.
//!
//! Each app has a module that reads its payload into a [`Push`]: readings with the phone's
//! wall-clock time, in the units of the contract. [`RecorderState`] then assigns each reading to a
//! session and a `seq`. A push that arrives twice gets the same session and the same `seq`, so
//! every write is idempotent.

mod activity;
pub mod gpslogger;
mod json;
mod motion;
pub mod overland;
pub mod owntracks;
mod plan;
mod push;
mod rates;
pub mod sensor_logger;
mod state;
mod time;
pub mod traccar;

pub use activity::Activity;
pub use plan::{Append, Opening, Plan, Stop};
pub use push::{ImuArrays, Measurement, PayloadError, Push, PushNumber, Reading};
pub use state::{EndOfSession, RecordedSession, RecorderState};

#[cfg(test)]
mod tests;
