//! The content codings that are taken.

use std::io;

use crate::problem::{Code, Problem};

/// Logarithm of the largest window that a zstd frame may ask for: the limit of an unpacked batch.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// A content coding that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// As it is.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// The coding of this name; letters may be of either case (RFC 9110, section 8.4.1).
    pub(super) fn named(name: &str) -> Option<Self> {
        let names = [
            ("", Self::Identity),
            ("identity", Self::Identity),
            ("gzip", Self::Gzip),
            ("x-gzip", Self::Gzip),
            ("zstd", Self::Zstd),
        ];
        names
            .into_iter()
            .find(|(known, _)| name.trim().eq_ignore_ascii_case(known))
            .map(|(_, coding)| coding)
    }
}

/// The problem of a body that is not in its coding.
pub(super) fn malformed(_: io::Error) -> Problem {
    Problem::new(
        Code::MalformedBody,
        "The body is not in the coding that Content-Encoding says.",
    )
}
