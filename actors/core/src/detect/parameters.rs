//! All parameters of the detectors, in tables by subject.

mod decoding;
mod events;
mod paths;
mod signals;

pub(super) use decoding::{changes, evidence, runs};
pub(super) use events::{gate, gps, soft, start};
pub(super) use paths::{backtracking, confidence};
pub(super) use signals::{gait, gps_quality, height, position};

/// The tables in the order in which the version of scoring covers them.
pub(crate) const TABLES: [&[(&str, &str, &str)]; 4] =
    [events::TABLE, signals::TABLE, decoding::TABLE, paths::TABLE];
