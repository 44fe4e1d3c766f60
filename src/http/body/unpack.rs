//! Unpacks bodies in steps. A few steps are counted before the next ones, and other requests run in
//! between: a megabyte that unpacks to a gigabyte costs a few steps more than the limit, and one
//! that unpacks to nothing delays nobody. A large body is unpacked outside of the worker, more steps
//! at a time.

use actix_web::web::Bytes;
use porchlight_schema::limits::LARGE_BODY_BYTES;

use super::coding::Coding;
use super::inflate::{Inflate, check_overhead};
use super::{Account, Body, too_large};
use crate::background::Steps;
use crate::problem::Problem;

/// Size of a piece of a body that is unpacked.
const PIECE_BYTES: usize = 64 * 1024;
/// Steps on the worker before they are counted and other requests run. The head of a gzip member is
/// one step, and the rest of a usual body another one.
const STEPS_INSIDE: usize = 2;
/// Steps of a large body that are unpacked and then counted together. They take about a
/// millisecond.
const STEPS_OUTSIDE: usize = 8;
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
    if coding == Coding::Identity {
        return Ok(sent.into());
    }
    let unpacking = Unpacking {
        inflate: Inflate::new(coding)?,
        unpacked: Pieces::with_capacity((sent.len() * USUAL_FACTOR).min(PIECE_BYTES)),
        sent_bytes: sent.len(),
        sent,
        bytes_max,
    };
    complete(unpacking, account).await
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
        if self.current.len() >= PIECE_BYTES {
            self.full_bytes += self.current.len();
            let next = Vec::with_capacity(PIECE_BYTES);
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

/// A body that is being unpacked.
struct Unpacking {
    inflate: Inflate,
    /// The bytes that are still packed.
    sent: Bytes,
    /// The number of bytes as sent.
    sent_bytes: usize,
    unpacked: Pieces,
    bytes_max: usize,
}

impl Unpacking {
    /// Unpacks up to `steps` steps. Returns whether the body is complete.
    ///
    /// # Errors
    ///
    /// Returns 400 if the body does not match its coding, and 413.
    fn run(&mut self, steps: usize) -> Result<bool, Problem> {
        for _ in 0..steps {
            self.unpacked.divide();
            let out = &mut self.unpacked.current;
            self.inflate.step(&mut self.sent, out)?;
            let is_complete = self.sent.is_empty() && !self.inflate.has_more();
            if is_complete {
                self.inflate.finish(out)?;
            }
            let unpacked = self.unpacked.len();
            if unpacked > self.bytes_max {
                return Err(too_large(self.bytes_max, "unpacked"));
            }
            check_overhead(self.sent_bytes - self.sent.len(), unpacked)?;
            if is_complete {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Unpacks the whole body: the first steps on this thread, and the rest of a large body on a thread
/// of low priority when the body has its permit.
async fn complete(mut unpacking: Unpacking, mut account: impl Account) -> Result<Body, Problem> {
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
            unpacking.run(STEPS_INSIDE)?
        };
        account.grow(unpacking.unpacked.len() - before)?;
        if is_complete {
            return Ok(unpacking.unpacked.into_body());
        }
        tokio::task::yield_now().await;
    }
}
