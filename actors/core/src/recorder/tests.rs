//! Tests the formats of the recording apps and the planning of their readings.

mod formats;
mod planning;
mod scanned;
mod sensor_logger;
