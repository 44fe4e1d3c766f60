//! Unpacks bodies in steps. Each step is counted before the next, and other requests run in
//! between: a megabyte that unpacks to a gigabyte costs one step more than the limit.

use std::io::Read;

use actix_web::web::Bytes;
use flate2::bufread::MultiGzDecoder;
use porchlight_schema::limits::LARGE_BODY_BYTES;

use super::coding::{Coding, malformed};
use super::inflate::Inflate;
use super::{Account, Body, too_large};
use crate::problem::Problem;

/// Bytes to unpack before they are counted and other requests run.
const STEP_BYTES: usize = 64 * 1024;
/// Usual ratio of a JSON batch to its compressed form, for the initial buffer.
const USUAL_FACTOR: usize = 8;

/// Unpacks `sent` to at most `bytes_max` bytes.
///
/// # Errors
///
/// 413; 400 if it does not match the coding; or the error of the account.
pub(super) async fn unpack(
    coding: Coding,
    sent: Bytes,
    bytes_max: usize,
    account: impl Account,
) -> Result<Body, Problem> {
    let room = (sent.len() * USUAL_FACTOR).min(STEP_BYTES);
    match coding {
        Coding::Identity => Ok(sent.into()),
        Coding::Gzip => drain(MultiGzDecoder::new(&sent[..]), room, bytes_max, account).await,
        Coding::Zstd => step_by_step(coding, sent, room, bytes_max, account).await,
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
    fn with_room(bytes: usize) -> Self {
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

/// Lets other requests run before the next step, and waits for a turn if the body is large.
async fn go_on(unpacked_bytes: usize, account: &mut impl Account) -> Result<(), Problem> {
    if unpacked_bytes > LARGE_BODY_BYTES {
        account.begin_large().await?;
    }
    if unpacked_bytes > 0 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn step_by_step(
    coding: Coding,
    mut sent: Bytes,
    room: usize,
    bytes_max: usize,
    mut account: impl Account,
) -> Result<Body, Problem> {
    let mut inflate = Inflate::new(coding)?;
    let mut unpacked = Pieces::with_room(room);
    while !sent.is_empty() || inflate.has_more() {
        go_on(unpacked.len(), &mut account).await?;
        let before = unpacked.len();
        unpacked.divide();
        inflate.step(&mut sent, &mut unpacked.current)?;
        if unpacked.len() > bytes_max {
            return Err(too_large(bytes_max, "unpacked"));
        }
        account.grow(unpacked.len() - before)?;
    }
    inflate.finish(&mut unpacked.current)?;
    Ok(unpacked.into_body())
}

async fn drain(
    mut decoder: impl Read,
    room: usize,
    bytes_max: usize,
    mut account: impl Account,
) -> Result<Body, Problem> {
    let mut unpacked = Pieces::with_room(room);
    loop {
        // One byte beyond the limit shows that there is more.
        let step = STEP_BYTES.min(bytes_max + 1 - unpacked.len());
        unpacked.divide();
        let before = unpacked.len();
        decoder
            .by_ref()
            .take(step as u64)
            .read_to_end(&mut unpacked.current)
            .map_err(malformed)?;
        let read = unpacked.len() - before;
        if unpacked.len() > bytes_max {
            return Err(too_large(bytes_max, "unpacked"));
        }
        account.grow(read)?;
        if read < step {
            return Ok(unpacked.into_body());
        }
        go_on(unpacked.len(), &mut account).await?;
    }
}
