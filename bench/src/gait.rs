//! Training of the gait models: labelled feature rows in, weights out.
//!
//! Everything here is deterministic: the rows are rounded to thousandths before fitting,
//! transcendental functions come from `libm`, and random numbers come from a seed. So the weights
//! follow bit for bit from the file of rows, which is kept in `bench/data` because the recordings
//! themselves may not be stored there.

mod evidence;
mod fit;
mod judge;
mod rows;
mod table;

pub use evidence::evidence;
pub use fit::{Fold, fit_all, folds};
pub use judge::{Judgement, judge, report};
pub use rows::{Label, Row, Rows, RowsError};
pub use table::{Fitted, render};
