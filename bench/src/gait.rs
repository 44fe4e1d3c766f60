//! Training of the gait models: rows of features with labels in, weights out.
//!
//! Everything here is deterministic: the rows are rounded to thousandths before anything is fitted, what is
//! transcendental is of `libm`, and chance comes from a seed. So the weights follow bit for bit from the file of rows,
//! which stands in `bench/data` because the recordings themselves may not.

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
