//! The length of an arriving frame.
//!
//! The codec compares a frame with its limit only when the frame is complete; until then it would
//! buffer a message that is too large.

/// Returns the payload size in the head of the frame at the start of `received` (RFC 6455, section
/// 5.2), or `None` if the head is incomplete.
pub(super) fn payload_bytes(received: &[u8]) -> Option<u64> {
    let (&[_, second], rest) = received.split_first_chunk()?;
    match second & 0x7f {
        126 => rest
            .first_chunk()
            .map(|&length| u64::from(u16::from_be_bytes(length))),
        127 => rest.first_chunk().map(|&length| u64::from_be_bytes(length)),
        length => Some(u64::from(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_length_is_read_when_complete() {
        let forms: [(&[u8], u64); 4] = [
            (&[0x82, 0x80], 0),
            (&[0x81, 0x80 | 125], 125),
            (&[0x81, 0x80 | 126, 0x01, 0x02], 0x0102),
            (
                &[0x82, 0x80 | 127, 0, 0, 1, 2, 3, 4, 5, 6],
                0x0102_0304_0506,
            ),
        ];
        for (head, length) in forms {
            assert_eq!(payload_bytes(head), Some(length), "{head:?}");
            assert_eq!(payload_bytes(&[head, b"more"].concat()), Some(length));
            for cut in 0..head.len() {
                assert_eq!(payload_bytes(&head[..cut]), None, "{head:?} to {cut}");
            }
        }
    }
}
