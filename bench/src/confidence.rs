//! Training of the confidence tables: detected events with their verdicts in, monotone tables out.
//!
//! A table gives, for one set of sensors, the share of correct events by strength. It is fitted by
//! isotonic regression (pool adjacent violators; Ayer et al. 1955) and has few knots. Everything
//! here is deterministic, so the tables follow bit for bit from the file of events, which is kept
//! in `bench/data` because the recordings themselves may not be stored there.

mod fit;
mod rows;
mod table;

pub use fit::{Fold, KNOTS_MAX, Knot, STRIDE, folds};
pub use rows::{Group, Rows, RowsError, SETS, SIMULATED};
pub use table::render;
