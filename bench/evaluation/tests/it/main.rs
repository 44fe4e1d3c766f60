//! Runs detectors and scoring on real labelled recordings.

mod events;
mod load;
mod scores;
