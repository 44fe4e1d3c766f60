//! Unpacks bodies in steps. Each step is counted before the next, and other requests run in
//! between: a megabyte that unpacks to a gigabyte costs one step more than the limit.

use std::io::Read;

use actix_web::web::Bytes;
use flate2::bufread::MultiGzDecoder;

use super::coding::{Coding, malformed};
use super::inflate::Inflate;
use super::too_large;
use crate::problem::Problem;

/// Bytes to unpack before they are counted and other requests run.
const STEP_BYTES: usize = 64 * 1024;
/// Usual ratio of a JSON batch to its compressed form, for the initial buffer.
const USUAL_FACTOR: usize = 8;

/// Unpacks `sent` to at most `bytes_max` bytes.
///
/// # Errors
///
/// 413; 400 if it does not match the coding; or the error of `grow`.
pub(super) async fn unpack(
    coding: Coding,
    sent: Bytes,
    bytes_max: usize,
    grow: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let room = (sent.len() * USUAL_FACTOR).min(STEP_BYTES);
    match coding {
        Coding::Identity => Ok(sent),
        Coding::Gzip => drain(MultiGzDecoder::new(&sent[..]), room, bytes_max, grow).await,
        Coding::Zstd => step_by_step(coding, sent, room, bytes_max, grow).await,
    }
}

async fn step_by_step(
    coding: Coding,
    mut sent: Bytes,
    room: usize,
    bytes_max: usize,
    mut grow: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let mut inflate = Inflate::new(coding)?;
    let mut unpacked = Vec::with_capacity(room);
    while !sent.is_empty() || inflate.has_more() {
        if !unpacked.is_empty() {
            tokio::task::yield_now().await;
        }
        let before = unpacked.len();
        inflate.step(&mut sent, &mut unpacked)?;
        if unpacked.len() > bytes_max {
            return Err(too_large(bytes_max, "unpacked"));
        }
        grow(unpacked.len() - before)?;
    }
    inflate.finish(&mut unpacked)?;
    Ok(unpacked.into())
}

async fn drain(
    mut decoder: impl Read,
    room: usize,
    bytes_max: usize,
    mut grow: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let mut unpacked = Vec::with_capacity(room);
    loop {
        // One byte beyond the limit shows that there is more.
        let step = STEP_BYTES.min(bytes_max + 1 - unpacked.len());
        let before = unpacked.len();
        decoder
            .by_ref()
            .take(step as u64)
            .read_to_end(&mut unpacked)
            .map_err(malformed)?;
        let read = unpacked.len() - before;
        if unpacked.len() > bytes_max {
            return Err(too_large(bytes_max, "unpacked"));
        }
        grow(read)?;
        if read < step {
            return Ok(unpacked.into());
        }
        tokio::task::yield_now().await;
    }
}
