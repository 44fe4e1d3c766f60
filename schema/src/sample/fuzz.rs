//! Fuzzes the decoders: no decoder panics, output is bounded by input, and decoders of the same
//! data agree.
//!
//! Inputs are mutations of a corpus by a generator with a fixed seed, so failures can be
//! reproduced. `PORCHLIGHT_FUZZ_INPUTS` sets their number (default 20,000) and
//! `PORCHLIGHT_FUZZ_SEED` the seed. For millions of inputs build with optimisation and limit the
//! memory:
//!
//! ```sh
//! ulimit -v 400000; PORCHLIGHT_FUZZ_INPUTS=10000000 cargo test --release -p porchlight-schema
//! --lib fuzz
//! ```

mod corpus;

use std::sync::Arc;

use super::json::{self, DecodedBatch};
use super::packed::PackedBatch;
use super::{Sample, proto};
use crate::limits::{BATCH_SAMPLES_MAX, BATCH_SEQ_MAX};

/// Maximum size of an input: longer inputs only repeat the patterns of shorter ones.
const INPUT_BYTES_MAX: usize = 4_096;
/// Maximum number of inputs kept besides the corpus as starting points.
const GROWN_MAX: usize = 512;
/// Maximum size of a packed sample beyond its bytes on the wire.
const PACKED_BYTES_MAX: usize = 64;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `end`; 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Bytes with a meaning for the decoders.
const TELLING: [u8; 24] = [
    0, 1, 2, 0x7f, 0x80, 0xff, b'"', b'\\', b'{', b'}', b'[', b']', b',', b':', b'-', b'.', b'e',
    b'0', b'9', b' ', b'\n', b'n', b't', 0xc3,
];

fn mutated(chance: &mut Chance, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[chance.below(corpus.len())].clone();
    // Most inputs are changed in one step, because heavily broken inputs fail at the first check.
    for _ in 0..=chance.next().trailing_zeros().min(8) {
        let at = chance.below(input.len() + 1);
        let to = (at + 1 + chance.below(32)).min(input.len());
        let from = at.min(input.len());
        match chance.below(10) {
            8 | 9 if input.get(from).is_some_and(u8::is_ascii_digit) => {
                input[from] = b'0' + chance.below(10) as u8;
            }
            0 if from < input.len() => input[from] ^= 1 << chance.below(8),
            1 if from < input.len() => input[from] = TELLING[chance.below(TELLING.len())],
            2 if from < input.len() => input[from] = chance.next() as u8,
            3 => input.insert(from, TELLING[chance.below(TELLING.len())]),
            4 => drop(input.drain(from..to)),
            5 => {
                let piece = input[from..to].to_vec();
                let place = chance.below(input.len() + 1);
                input.splice(place..place, piece);
            }
            6 => {
                let other = &corpus[chance.below(corpus.len())];
                let begin = chance.below(other.len() + 1);
                let end = (begin + chance.below(256)).min(other.len());
                input.splice(from..to, other[begin..end].iter().copied());
            }
            7 => input.truncate(from),
            _ => {
                let number = chance.next().to_string();
                input.splice(from..to, number.into_bytes());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
    input
}

/// Checks that a decoder's output is consistent and bounded by its input.
fn check_output(decoded: &DecodedBatch, input: &[u8]) {
    assert!(decoded.seq <= BATCH_SEQ_MAX);
    assert!(decoded.batch.samples() as usize <= BATCH_SAMPLES_MAX.min(input.len()));
    let bytes = decoded.batch.as_bytes();
    assert!(bytes.len() <= PACKED_BYTES_MAX + 12 * input.len());
    let again = PackedBatch::from_bytes(Arc::from(bytes)).unwrap();
    assert_eq!(read(&again), Ok(decoded.batch.samples()));
}

/// Counts the samples of a packed batch if all can be read. Asserts that reading in runs gives the
/// same samples up to the damage.
fn read(packed: &PackedBatch) -> Result<u32, ()> {
    let mut reader = packed.reader().map_err(drop)?;
    let mut samples = Vec::new();
    let ended = loop {
        match reader.next_sample() {
            Ok(Some(sample)) => samples.push(format!("{sample:?}")),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let mut in_runs = samples.iter();
    let mut reader = packed.reader().map_err(drop)?;
    let same = |in_runs: &mut std::slice::Iter<'_, String>, sample: Sample<'_>| {
        assert_eq!(in_runs.next(), Some(&format!("{sample:?}")));
    };
    let each = reader.each(
        &mut in_runs,
        |in_runs, fix| same(in_runs, Sample::Location(fix)),
        same,
    );
    assert_eq!((each, in_runs.next()), (ended, None));
    ended.map_err(drop)?;
    Ok(samples.len() as u32)
}

/// Feeds one input to every decoder and returns the number of decoders that could read it.
fn feed(input: &[u8]) -> usize {
    let of_json = json::decode_batch(input);
    let of_line = json::decode_line(input);
    let of_proto = proto::decode_batch(input);
    for decoded in [&of_json, &of_proto].into_iter().flatten() {
        check_output(decoded, input);
    }
    if let Ok(line) = &of_line {
        // A line is a batch with a session id.
        let batch = line.batch.as_ref().map(|decoded| &decoded.batch);
        assert_eq!(batch, of_json.as_ref().map(|decoded| &decoded.batch));
        assert!(batch.is_err() || line.seq == of_json.as_ref().ok().map(|decoded| decoded.seq));
    }
    let of_packed = PackedBatch::from_bytes(Arc::from(input));
    let is_packed = of_packed.is_ok_and(|packed| read(&packed).is_ok());
    usize::from(of_json.is_ok()) + usize::from(of_proto.is_ok()) + usize::from(is_packed)
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().unwrap())
}

#[test]
fn any_input_is_read_or_refused() {
    let inputs = number("PORCHLIGHT_FUZZ_INPUTS", 20_000);
    let mut chance = Chance(number("PORCHLIGHT_FUZZ_SEED", 0));
    let mut corpus = corpus::all();
    let own = corpus.len();
    assert!(corpus.iter().map(|input| feed(input)).sum::<usize>() > 3 * corpus.len() / 4);
    let (mut readable, mut bytes) = (0, 0);
    for _ in 0..inputs {
        let input = mutated(&mut chance, &corpus);
        bytes += input.len();
        if feed(&input) > 0 {
            readable += 1;
            // A readable input is a new starting point.
            if corpus.len() < own + GROWN_MAX {
                corpus.push(input);
            } else {
                corpus[own + chance.below(GROWN_MAX)] = input;
            }
        }
    }
    eprintln!("{inputs} inputs, {bytes} bytes, {readable} of them readable");
    // If every input were malformed, the run would test only the first check.
    assert!(readable as u64 > inputs / 20, "{readable}");
}
