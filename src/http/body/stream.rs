//! Reads and unpacks a body piece by piece, for bodies that are too large to hold.

use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::Stream;

use super::coding::ZSTD_WINDOW_LOG_MAX;
use super::inflate::{Inflate, check_overhead};
use super::{Announced, Chunks, Deadlines, Limits, too_large};
use crate::problem::Problem;

/// A streaming body.
pub struct BodyStream<S> {
    chunks: Chunks<S>,
    inflate: Inflate,
    limits: Limits,
    /// Arrived and not yet unpacked bytes.
    pending: Bytes,
    sent: usize,
    unpacked: usize,
    has_ended: bool,
}

impl Announced {
    /// Starts reading a body piece by piece.
    ///
    /// # Errors
    ///
    /// Returns 500 if the decompressor cannot be created.
    pub fn stream<S>(self, payload: S, deadlines: Deadlines) -> Result<BodyStream<S>, Problem>
    where
        S: Stream<Item = Result<Bytes, PayloadError>> + Unpin,
    {
        Ok(BodyStream {
            chunks: Chunks::new(payload, deadlines),
            inflate: Inflate::new(self.coding)?,
            limits: self.limits,
            pending: Bytes::new(),
            sent: 0,
            unpacked: 0,
            has_ended: false,
        })
    }

    /// Returns whether the body has no content coding.
    pub fn is_plain(&self) -> bool {
        self.coding == super::coding::Coding::Identity
    }
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> BodyStream<S> {
    /// Returns the maximum number of bytes that the decompressor holds: the bytes that zstd has
    /// unpacked, up to the largest window.
    pub fn held_bytes(&self) -> usize {
        match self.inflate {
            Inflate::Zstd { .. } => self.unpacked.min(1 << ZSTD_WINDOW_LOG_MAX),
            Inflate::Identity | Inflate::Gzip { .. } => 0,
        }
    }

    /// Appends the next piece, at most some ten kilobytes; false at the end. The call is
    /// cancellation-safe.
    ///
    /// # Errors
    ///
    /// Returns 408, 413, 400: nothing can be read afterwards.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Problem> {
        let before = out.len();
        while out.len() == before && !self.has_ended {
            if self.pending.is_empty() && !self.inflate.has_more() {
                match self.chunks.next().await? {
                    Some(chunk) => {
                        self.sent += chunk.len();
                        if self.sent > self.limits.sent_bytes {
                            return Err(too_large(self.limits.sent_bytes, "as sent"));
                        }
                        self.pending = chunk;
                    }
                    None => {
                        self.has_ended = true;
                        self.inflate.finish(out)?;
                    }
                }
            }
            self.inflate.step(&mut self.pending, out)?;
            let unpacked = self.unpacked + out.len() - before;
            check_overhead(self.sent - self.pending.len(), unpacked)?;
            if out.len() == before {
                // A body whose parts unpack to nothing must not delay other requests.
                tokio::task::yield_now().await;
            }
        }
        self.unpacked += out.len() - before;
        if self.unpacked > self.limits.unpacked_bytes {
            return Err(too_large(self.limits.unpacked_bytes, "unpacked"));
        }
        Ok(out.len() > before)
    }
}
