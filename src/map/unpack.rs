//! Decompression with a limit.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::wire::Damaged;

/// The compression of directories and tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
}

impl Compression {
    /// Returns the compression with this number in the header; `None` for one that this crate does
    /// not read.
    pub(super) fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::None),
            2 => Some(Self::Gzip),
            _ => None,
        }
    }

    /// Decompresses `bytes`, which must not become longer than `limit`.
    pub(super) fn unpack(self, bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, Damaged> {
        if self == Self::None {
            return if bytes.len() <= limit {
                Ok(bytes)
            } else {
                Err(Damaged)
            };
        }
        let mut unpacked = Vec::new();
        let read = MultiGzDecoder::new(bytes.as_slice())
            .take(limit as u64 + 1)
            .read_to_end(&mut unpacked);
        match read {
            Ok(length) if length <= limit => Ok(unpacked),
            _ => Err(Damaged),
        }
    }
}
