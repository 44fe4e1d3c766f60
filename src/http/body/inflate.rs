//! Incremental decompression: input and output of one step are bounded.

use std::cell::Cell;
use std::io::{self, Write};

use actix_web::web::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use porchlight_schema::limits::BODY_OVERHEAD_BYTES_MAX;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::coding::{Coding, ZSTD_WINDOW_LOG_MAX, malformed, malformed_zstd};
use crate::problem::{Code, Problem};

/// The maximum output of one zstd step in bytes. The gzip library has a similar bound of its own.
const STEP_BYTES: usize = 32 * 1024;
/// The maximum input of one step of a compressed body in bytes: many empty blocks give no output.
const STEP_INPUT_BYTES: usize = 16 * 1024;

/// A streaming decompressor.
pub(super) enum Inflate {
    /// The body is not compressed.
    Identity,
    /// The gzip coding (RFC 1952).
    Gzip {
        /// Writes into a buffer that is emptied after every step.
        decoder: Box<MultiGzDecoder<Vec<u8>>>,
        /// Whether any input was consumed.
        is_begun: bool,
    },
    /// The Zstandard coding (RFC 8878).
    Zstd {
        decoder: PooledDecoder,
        /// Whether a frame is incomplete.
        is_open: bool,
        /// Whether the last step filled its output, so that there may be more without input.
        is_full: bool,
    },
}

/// A thread-local decompressor, returned when dropped: creating one costs more than unpacking a
/// batch. The library itself releases a window that is larger than needed.
pub(super) struct PooledDecoder(Option<Box<Decoder<'static>>>);

thread_local! {
    static IDLE: Cell<Option<Box<Decoder<'static>>>> = const { Cell::new(None) };
}

impl PooledDecoder {
    fn new() -> io::Result<Self> {
        if let Some(decoder) = IDLE.take() {
            return Ok(Self(Some(decoder)));
        }
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
        Ok(Self(Some(Box::new(decoder))))
    }

    fn run(
        &mut self,
        input: &mut InBuffer<'_>,
        output: &mut OutBuffer<'_, [u8]>,
    ) -> io::Result<usize> {
        match &mut self.0 {
            Some(decoder) => decoder.run(input, output),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for PooledDecoder {
    fn drop(&mut self) {
        if let Some(mut decoder) = self.0.take()
            && decoder.reinit().is_ok()
        {
            // While the thread ends, the slot is gone and the decompressor is dropped.
            let _kept = IDLE.try_with(|idle| idle.set(Some(decoder)));
        }
    }
}

impl Inflate {
    pub(super) fn new(coding: Coding) -> Result<Self, Problem> {
        Ok(match coding {
            Coding::Identity => Self::Identity,
            Coding::Gzip => Self::Gzip {
                decoder: Box::new(MultiGzDecoder::new(Vec::new())),
                is_begun: false,
            },
            Coding::Zstd => Self::Zstd {
                decoder: PooledDecoder::new().map_err(Problem::internal)?,
                is_open: false,
                is_full: false,
            },
        })
    }

    /// Returns whether the next step produces output without more input.
    pub(super) fn has_more(&self) -> bool {
        matches!(self, Self::Zstd { is_full: true, .. })
    }

    /// Unpacks some of `input` and appends the output.
    ///
    /// # Errors
    ///
    /// Returns 400 if the input does not match the coding.
    pub(super) fn step(&mut self, input: &mut Bytes, out: &mut Vec<u8>) -> Result<(), Problem> {
        match self {
            Self::Identity => {
                out.extend_from_slice(input);
                input.clear();
            }
            Self::Gzip { decoder, is_begun } => {
                if input.is_empty() {
                    return Ok(());
                }
                *is_begun = true;
                let read = decoder.write(step_input(input)).map_err(malformed)?;
                // Bytes after a member that do not begin another one are not gzip.
                if read == 0 && decoder.get_ref().is_empty() {
                    return Err(malformed(std::io::ErrorKind::InvalidData.into()));
                }
                input.advance(read);
                if input.is_empty() {
                    decoder.flush().map_err(malformed)?;
                }
                out.append(decoder.get_mut());
            }
            Self::Zstd {
                decoder,
                is_open,
                is_full,
            } => {
                if input.is_empty() && !*is_full {
                    return Ok(());
                }
                let from = out.len();
                out.resize(from + STEP_BYTES, 0);
                let mut source = InBuffer::around(step_input(input));
                let mut room = OutBuffer::around(out.get_mut(from..).unwrap_or_default());
                let hint = decoder
                    .run(&mut source, &mut room)
                    .map_err(malformed_zstd)?;
                let (read, written) = (source.pos, room.pos());
                out.truncate(from + written);
                input.advance(read);
                *is_open = hint != 0;
                // A complete frame has no pending output; another step would begin a new frame.
                *is_full = *is_open && written == STEP_BYTES;
            }
        }
        Ok(())
    }

    /// Ends the input and appends the remaining output.
    ///
    /// # Errors
    ///
    /// Returns 400 if the input ends too early.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Problem> {
        match self {
            Self::Gzip { decoder, is_begun } if *is_begun => {
                decoder.try_finish().map_err(malformed)?;
                out.append(decoder.get_mut());
            }
            Self::Zstd { is_open: true, .. } => {
                return Err(malformed(std::io::ErrorKind::UnexpectedEof.into()));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the part of `input` that one step may unpack.
fn step_input(input: &[u8]) -> &[u8] {
    input.get(..STEP_INPUT_BYTES).unwrap_or(input)
}

/// Checks the overhead of a compressed body that has unpacked `read` bytes to `unpacked` bytes so
/// far.
///
/// # Errors
///
/// Returns 400 if the body is much longer than it unpacks to.
pub(super) fn check_overhead(read: usize, unpacked: usize) -> Result<(), Problem> {
    if read > 2 * unpacked + BODY_OVERHEAD_BYTES_MAX {
        let detail = "The compressed body is much longer than the data in it.";
        return Err(Problem::new(Code::MalformedBody, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn packed(coding: Coding, plain: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Identity => plain.to_vec(),
            Coding::Gzip => {
                let mut packed = Vec::new();
                flate2::read::GzEncoder::new(plain, flate2::Compression::fast())
                    .read_to_end(&mut packed)
                    .unwrap();
                packed
            }
            Coding::Zstd => zstd::encode_all(plain, 3).unwrap(),
        }
    }

    /// Returns the output for pieces of this length, and the largest step.
    fn unpacked(coding: Coding, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize), Problem> {
        let (mut inflate, mut out, mut longest) = (Inflate::new(coding)?, Vec::new(), 0);
        for chunk in bytes.chunks(piece) {
            let mut input = Bytes::copy_from_slice(chunk);
            loop {
                let before = out.len();
                inflate.step(&mut input, &mut out)?;
                longest = longest.max(out.len() - before);
                if input.is_empty() && !inflate.has_more() {
                    break;
                }
            }
        }
        inflate.finish(&mut out)?;
        Ok((out, longest))
    }

    const CODINGS: [Coding; 3] = [Coding::Identity, Coding::Gzip, Coding::Zstd];

    #[test]
    fn a_decompression_bomb_is_inflated_in_small_steps() {
        let plain = vec![b' '; 20_000_000];
        for coding in [Coding::Gzip, Coding::Zstd] {
            let (out, longest) = unpacked(coding, &packed(coding, &plain), 32_768).unwrap();
            assert!(
                out == plain && longest <= 2 * STEP_BYTES,
                "{coding:?}: {longest}"
            );
        }
    }

    #[test]
    fn truncated_and_foreign_data_is_reported() {
        let plain = b"{\"seq\":1}\n".repeat(100);
        for coding in [Coding::Gzip, Coding::Zstd] {
            let whole = packed(coding, &plain);
            for cut in 1..whole.len() {
                assert!(
                    unpacked(coding, &whole[..cut], 7).is_err(),
                    "{coding:?} {cut}"
                );
            }
            assert!(unpacked(coding, &plain, 100).is_err(), "{coding:?}");
            let trailing = [&whole[..], &plain].concat();
            assert!(unpacked(coding, &trailing, 4_096).is_err(), "{coding:?}");
            assert_eq!(unpacked(coding, &[], 1).unwrap().0, b"", "{coding:?}");
        }
    }

    #[test]
    fn a_body_that_fills_its_last_step_is_complete() {
        for steps in 1..=3 {
            let plain = vec![b' '; steps * STEP_BYTES];
            for coding in CODINGS {
                let (out, _) = unpacked(coding, &packed(coding, &plain), 32_768).unwrap();
                assert!(out == plain, "{coding:?} {steps}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_division_gives_the_whole_body(plain in proptest::collection::vec(0_u8..4, 0..5_000), piece in 1_usize..3_000, twice in any::<bool>()) {
            for coding in CODINGS {
                let mut bytes = packed(coding, &plain);
                let mut expected = plain.clone();
                if twice {
                    bytes.extend_from_within(..);
                    expected.extend_from_within(..);
                }
                prop_assert_eq!(unpacked(coding, &bytes, piece).unwrap().0, expected);
            }
        }
    }
}
