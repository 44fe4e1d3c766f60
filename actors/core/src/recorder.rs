//! Turns the data that recording apps on stock phones push into batches of sessions.
//!
//! Each app has a module that reads its payload into a [`Message`]: readings with the phone's
//! wall-clock time, in the units of the contract. [`RecorderState`] then assigns each reading to a
//! session and a `seq`. A message that arrives twice gets the same session and the same `seq`, so
//! every write is idempotent.

pub mod gpslogger;
mod json;
mod message;
mod motion;
pub mod overland;
pub mod owntracks;
mod rates;
pub mod sensor_logger;
mod state;
mod time;
pub mod traccar;

pub use message::{ImuArrays, Measurement, Message, MessageNumber, PayloadError, Reading};
pub use state::{Append, EndOfSession, Opening, Plan, RecordedSession, RecorderState, Stop};

#[cfg(test)]
mod tests;
