//! A body in memory that is sent in slices.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;

/// The maximum size of one slice in bytes. It is below the framework's write buffer of 32 KiB.
const SLICE_BYTES: usize = 16 * 1_024;

/// A body whose bytes all connections share.
///
/// The framework copies a whole body to the write buffer of its connection, so a client that never
/// reads would hold a copy. It asks for the next slice only when the buffer has room.
#[derive(Debug, Clone)]
pub struct Sliced(Bytes);

impl Sliced {
    /// Creates a body of these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }
}

impl MessageBody for Sliced {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0.len() as u64)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.0.len().min(SLICE_BYTES);
        Poll::Ready(Some(Ok(self.0.split_to(length))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slices_are_the_whole_body() {
        let text: Vec<u8> = (0..SLICE_BYTES * 2 + 1).map(|place| place as u8).collect();
        let mut body = Sliced::new(text.clone());
        assert_eq!(body.size(), BodySize::Sized(text.len() as u64));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut slices = Vec::new();
        while let Poll::Ready(Some(slice)) = Pin::new(&mut body).poll_next(&mut context) {
            slices.push(slice.unwrap());
        }
        let lengths: Vec<usize> = slices.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [SLICE_BYTES, SLICE_BYTES, 1]);
        assert_eq!(slices.concat(), text);
    }
}
