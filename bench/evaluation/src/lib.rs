//! Measures the detectors by matching events and labels one to one.
//!
//! A detection matches a label of its type at a temporal intersection over union of at least 0.5,
//! or 0.3 if the label is shorter than 10 s; instants and gates match within 5 s (Ward, Lukowicz &
//! Gellersen, TIST 2011). Recall counts all labels that the recording's streams can show. Precision
//! counts only types that are labelled exhaustively, inside the labelled spans. Labels that no
//! stream can show are counted separately, as not decidable.

mod evaluation;
mod fields;
mod interval;
mod labels;
mod matching;
mod quantile;
mod recording;
mod seconds;
mod table;
mod tally;

pub use evaluation::Evaluation;
pub use fields::{Claim, Facts, Field, Fields, Floors, Time};
pub use labels::{Detected, Labels, Segment, SegmentMetadata};
pub use matching::{Judged, Verdict, judged};
pub use quantile::quantile;
pub use recording::{Recording, RecordingError};
pub use seconds::{SecondCounts, Seconds, Share};
pub use table::{fields_text, text};
pub use tally::Tally;
