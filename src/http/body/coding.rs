//! Supported content codings.

use std::io;

use crate::problem::{Code, Problem};

/// Logarithm of the largest window of a zstd frame: the limit of an unpacked batch.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// A supported content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    /// The body is not compressed.
    Identity,
    /// The gzip coding (RFC 1952).
    Gzip,
    /// The Zstandard coding (RFC 8878).
    Zstd,
}

impl Coding {
    /// Returns the coding with this name; case does not matter (RFC 9110, section 8.4.1).
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

/// Returns the problem for a body that does not unpack as Zstandard. The library reports both causes
/// alike.
pub(super) fn malformed_zstd(_: io::Error) -> Problem {
    Problem::new(
        Code::MalformedBody,
        format!(
            "The body is not Zstandard, or needs a window of more than {} MiB.",
            (1_u32 << ZSTD_WINDOW_LOG_MAX) / (1_024 * 1_024)
        ),
    )
}

/// Returns the problem for a body that does not match its coding.
pub(super) fn malformed(_: io::Error) -> Problem {
    Problem::new(
        Code::MalformedBody,
        "The body does not have the encoding that Content-Encoding names.",
    )
}
