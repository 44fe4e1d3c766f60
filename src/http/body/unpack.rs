//! Unpacks bodies in steps. Each step is counted before the next, and other requests run in
//! between: a megabyte that unpacks to a gigabyte costs one step more than the limit. A large body
//! is unpacked outside of the worker, in longer steps.

use std::io::{Cursor, Read};

use actix_web::web::Bytes;
use flate2::bufread::MultiGzDecoder;
use porchlight_schema::limits::LARGE_BODY_BYTES;

use super::coding::{Coding, malformed};
use super::inflate::Inflate;
use super::{Account, Body, too_large};
use crate::background::Steps;
use crate::problem::Problem;

/// Bytes to unpack before they are counted and other requests run.
const STEP_BYTES: usize = 64 * 1024;
/// Steps of a large body that are unpacked and then counted together. They take about a
/// millisecond.
const STEPS_OUTSIDE: usize = 4;
/// Usual ratio of a JSON batch to its compressed form, for the initial buffer.
const USUAL_FACTOR: usize = 8;

/// Unpacks `sent` to at most `bytes_max` bytes.
///
/// # Errors
///
/// Returns 413; 400 if it does not match the coding; or the error of the account.
pub(super) async fn unpack(
    coding: Coding,
    sent: Bytes,
    bytes_max: usize,
    account: impl Account,
) -> Result<Body, Problem> {
    let unpacked = Pieces::with_capacity((sent.len() * USUAL_FACTOR).min(STEP_BYTES));
    match coding {
        Coding::Identity => Ok(sent.into()),
        Coding::Gzip => {
            let unpacker = MultiGzDecoder::new(Cursor::new(sent));
            complete(unpacker, unpacked, bytes_max, account).await
        }
        Coding::Zstd => {
            let inflate = Inflate::new(coding)?;
            complete(Zstd { sent, inflate }, unpacked, bytes_max, account).await
        }
    }
}

/// The pieces that are unpacked so far. A large body in one buffer would be copied, and its memory
/// mapped, again and again as the buffer grows, which takes milliseconds at a time.
struct Pieces {
    full: Vec<Vec<u8>>,
    full_bytes: usize,
    current: Vec<u8>,
}

impl Pieces {
    fn with_capacity(bytes: usize) -> Self {
        Self {
            full: Vec::new(),
            full_bytes: 0,
            current: Vec::with_capacity(bytes),
        }
    }

    fn len(&self) -> usize {
        self.full_bytes + self.current.len()
    }

    /// Begins the next piece if the current one is full.
    fn divide(&mut self) {
        if self.current.len() >= STEP_BYTES {
            self.full_bytes += self.current.len();
            let next = Vec::with_capacity(STEP_BYTES);
            self.full.push(std::mem::replace(&mut self.current, next));
        }
    }

    fn into_body(mut self) -> Body {
        if self.full.is_empty() {
            return Body::from(Bytes::from(self.current));
        }
        self.full.push(self.current);
        Body::of_pieces(self.full)
    }
}

/// A coding that is unpacked in steps.
trait Unpacker: Send + 'static {
    /// Appends about [`STEP_BYTES`] more, and not more than one byte beyond `bytes_max` if the
    /// coding can stop there. Returns whether the body is complete.
    ///
    /// # Errors
    ///
    /// Returns 400 if the body does not match its coding.
    fn step(&mut self, unpacked: &mut Pieces, bytes_max: usize) -> Result<bool, Problem>;
}

struct Zstd {
    sent: Bytes,
    inflate: Inflate,
}

impl Unpacker for Zstd {
    fn step(&mut self, unpacked: &mut Pieces, _bytes_max: usize) -> Result<bool, Problem> {
        let is_complete = self.sent.is_empty() && !self.inflate.has_more();
        if is_complete {
            self.inflate.finish(&mut unpacked.current)?;
        } else {
            self.inflate.step(&mut self.sent, &mut unpacked.current)?;
        }
        Ok(is_complete)
    }
}

impl Unpacker for MultiGzDecoder<Cursor<Bytes>> {
    fn step(&mut self, unpacked: &mut Pieces, bytes_max: usize) -> Result<bool, Problem> {
        // One byte beyond the limit shows that there is more.
        let step = STEP_BYTES.min(bytes_max + 1 - unpacked.len());
        let read = self
            .by_ref()
            .take(step as u64)
            .read_to_end(&mut unpacked.current)
            .map_err(malformed)?;
        Ok(read < step)
    }
}

/// A body that is being unpacked.
struct Unpacking<U> {
    unpacker: U,
    unpacked: Pieces,
    bytes_max: usize,
}

impl<U: Unpacker> Unpacking<U> {
    /// Unpacks up to `steps` steps. Returns whether the body is complete.
    fn run(&mut self, steps: usize) -> Result<bool, Problem> {
        for _ in 0..steps {
            self.unpacked.divide();
            let is_complete = self.unpacker.step(&mut self.unpacked, self.bytes_max)?;
            if self.unpacked.len() > self.bytes_max {
                return Err(too_large(self.bytes_max, "unpacked"));
            }
            if is_complete {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Unpacks the whole body: the first steps on this thread, and the rest of a large body on a thread
/// of low priority when the body has its permit.
async fn complete(
    unpacker: impl Unpacker,
    unpacked: Pieces,
    bytes_max: usize,
    mut account: impl Account,
) -> Result<Body, Problem> {
    let mut unpacking = Unpacking {
        unpacker,
        unpacked,
        bytes_max,
    };
    let mut large = None;
    loop {
        let before = unpacking.unpacked.len();
        let is_complete = if before > LARGE_BODY_BYTES {
            account.begin_large().await?;
            let steps = large.get_or_insert_with(Steps::begin);
            let work = move || {
                let is_complete = unpacking.run(STEPS_OUTSIDE);
                (unpacking, is_complete)
            };
            let done = steps.run(work).await.map_err(Problem::internal)?;
            unpacking = done.0;
            done.1?
        } else {
            if before > 0 {
                tokio::task::yield_now().await;
            }
            unpacking.run(1)?
        };
        account.grow(unpacking.unpacked.len() - before)?;
        if is_complete {
            return Ok(unpacking.unpacked.into_body());
        }
    }
}
