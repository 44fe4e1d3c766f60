#![doc = include_str!("../README.md")]

mod evaluation;
mod fields;
mod interval;
mod judged;
mod labels;
mod matching;
mod phase;
mod quantile;
mod recording;
mod seconds;
mod span;
mod table;
mod tally;

pub use evaluation::Evaluation;
pub use fields::{Claim, Facts, Field, Fields, Floors, Time};
pub use judged::{Judged, Verdict, judged};
pub use labels::{Detected, Labels, Segment, SegmentMetadata};
pub use phase::PHASES_MS;
pub use quantile::quantile;
pub use recording::{Recording, RecordingError};
pub use seconds::{SecondCounts, Seconds, Share};
pub use table::{fields_text, text};
pub use tally::Tally;
