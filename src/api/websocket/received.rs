//! Holds the bytes that a socket has received and not yet processed.

use actix_http::ws::{Codec, Frame, ProtocolError};
use actix_web::web::BytesMut;
use tokio_util::codec::Decoder;

use super::announced;

/// The received bytes of a socket.
#[derive(Debug, Default)]
pub(super) struct Received {
    bytes: BytesMut,
    /// Whether a frame was taken since the bytes have a buffer of their own.
    has_taken: bool,
}

impl Received {
    /// Appends bytes.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the first frame; `None` if none is complete.
    ///
    /// A frame shares the buffer, which may be that of a long message. Once no complete frame is
    /// left, the beginning of the next one therefore moves into a buffer of its own size.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a frame.
    pub(super) fn take_frame(&mut self, codec: &mut Codec) -> Result<Option<Frame>, ProtocolError> {
        let frame = codec.decode(&mut self.bytes)?;
        if frame.is_some() {
            self.has_taken = true;
        } else if std::mem::take(&mut self.has_taken) {
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Ok(frame)
    }

    /// Returns the payload size in the head of the arriving frame, or `None` if the head is
    /// incomplete.
    pub(super) fn announced_bytes(&self) -> Option<u64> {
        announced::payload_bytes(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use actix_http::ws::Message;
    use actix_web::web::Bytes;
    use tokio_util::codec::Encoder;

    use super::*;

    fn frame(bytes: usize) -> BytesMut {
        let mut frame = BytesMut::new();
        let message = Message::Binary(Bytes::from(vec![7; bytes]));
        let mut client = Codec::new().client_mode();
        client.encode(message, &mut frame).unwrap();
        frame
    }

    #[test]
    fn the_beginning_of_a_frame_does_not_keep_the_buffer_of_a_long_one() {
        let long = 1_000_000;
        for rest in [0, 1, 17_000] {
            let (mut received, mut codec) = (Received::default(), Codec::new().max_size(long));
            let next = frame(20_000);
            received.push(&frame(long));
            received.push(&next[..rest]);
            let taken = received.take_frame(&mut codec).unwrap();
            assert!(matches!(taken, Some(Frame::Binary(bytes)) if bytes.len() == long));
            assert_eq!(received.take_frame(&mut codec).unwrap(), None);
            assert_eq!(received.len(), rest);
            assert!(!received.bytes.try_reclaim(long / 2), "{rest}");
            received.push(&next[rest..]);
            let taken = received.take_frame(&mut codec).unwrap();
            assert!(matches!(taken, Some(Frame::Binary(bytes)) if bytes.len() == 20_000));
        }
    }
}
