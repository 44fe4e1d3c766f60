//! Computes the fingerprint of a trace. The fingerprint is small, equal for a copy, and different
//! for a genuine second trip on the same path.
//!
//! Noise does not repeat itself, so the fingerprint compares the noise of the positions and of the
//! phone's other measurements. Each is divided into overlapping pieces, and the smallest hashes of
//! all pieces are kept (Broder 1997, min-wise hashing): the share of equal hashes estimates the
//! share of equal pieces. Two genuine trips share hardly any piece. A copy shares all of them,
//! wherever it is cut and however its times are shifted.
//!
//! - **Positions**: four successive displacements, each rounded to a quarter of a metre.
//! - **Channels**: values to the last bit, in runs of eight: accuracy; speed, course and altitude;
//!   air pressure; acceleration. A copy with slightly moved positions still repeats the bytes of
//!   all of these, which no second measurement does. Runs of nearly constant values are ignored,
//!   because a barometer at rest, or a phone that always claims 5 m, sends the same values
//!   everywhere. One equal channel is not proof, because a poor sensor may repeat a pattern; two
//!   are.
//! - **Course**: the places and their times, for copies whose channels are all dithered. See
//!   [`course`].

mod course;

use serde::{Deserialize, Serialize};

use crate::score::parameters::door::fingerprint::{
    CHANNEL_KEYS, CHANNEL_KEYS_STORED, CHANNELS_MIN, COPY_SHARE, DIFFERENT_MIN, GRID_M, PIECE,
    PIECE_M_MIN, PIECES_MIN, POSITION_KEYS, POSITION_KEYS_STORED, RUN, SLOTS, STEP_M_MAX,
};
use crate::score::scoring_context::recorded_fixes;
use crate::window::{Fix, Window};
use course::Course;

/// The fingerprint of a trace (see the module documentation).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    slots: Vec<u64>,
    /// The number of pieces of the positions. Nothing reads it, but earlier versions cannot read a
    /// stored fingerprint without it.
    pieces: u32,
    /// The hashes of each channel; empty if it has too few runs, and in data stored by earlier
    /// versions.
    #[serde(default)]
    channels: Vec<Vec<u64>>,
    /// The course of the trace; empty in data stored by earlier versions.
    #[serde(default)]
    course: Course,
}

impl Fingerprint {
    /// Returns the share of equal pieces of the positions, 0 to 1.
    #[must_use]
    pub fn similarity(&self, other: &Self) -> f32 {
        share(&self.slots, &other.slots)
    }

    /// Returns the similarity of this trace and the other, 0 to 1, if one is a copy of the other.
    /// It is that of the positions or the second-highest of the channels, or else that of the
    /// courses. The other fingerprint may come from the store, but this one must be computed from
    /// its windows (see [`course`]).
    #[must_use]
    pub fn copy_of(&self, other: &Self) -> Option<f32> {
        self.repeated_share(other)
            .or_else(|| self.course.copy_of(&other.course))
    }

    /// Returns the share of equal measurements, 0 to 1, if it is high enough for a copy.
    fn repeated_share(&self, other: &Self) -> Option<f32> {
        let positions = self.similarity(other);
        let mut channels: Vec<f32> = self
            .channels
            .iter()
            .zip(&other.channels)
            .filter(|(own, others)| !own.is_empty() && !others.is_empty())
            .map(|(own, others)| share(own, others))
            .collect();
        channels.sort_by(|a, b| b.total_cmp(a));
        let measured = channels.get(CHANNELS_MIN - 1).copied().unwrap_or(0.0);
        Some(positions.max(measured)).filter(|&similarity| similarity >= COPY_SHARE)
    }

    /// Returns the keys by which a store finds possible copies: two copies share most keys, and two
    /// genuine traces share none.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        self.chosen_keys(POSITION_KEYS, CHANNEL_KEYS)
    }

    /// Returns the keys under which a store keeps the fingerprint. They are fewer than
    /// [`Fingerprint::keys`], which also find the rows that earlier versions stored.
    #[must_use]
    pub fn stored_keys(&self) -> Vec<u64> {
        self.chosen_keys(POSITION_KEYS_STORED, CHANNEL_KEYS_STORED)
    }

    fn chosen_keys(&self, position_keys: usize, channel_keys: usize) -> Vec<u64> {
        let channels = self.channels.iter().map(|slots| (slots, channel_keys));
        let course = self.course.keys();
        let from_channels = channels.enumerate().flat_map(|(channel, (slots, count))| {
            let own = slots.iter().take(count);
            own.map(move |&slot| hash_of(slot ^ hash_of(channel as u64 + 1)))
        });
        let positions = self.slots.iter().take(position_keys).copied();
        positions
            .chain(from_channels)
            .chain(
                course
                    .iter()
                    .map(|&slot| hash_of(slot ^ hash_of(course_number()))),
            )
            .collect()
    }
}

/// Returns the number that distinguishes the keys of the course from those of the channels.
fn course_number() -> u64 {
    u64::from_be_bytes(*b"a course")
}

/// Returns the share of equal hashes, 0 to 1.
fn share(own: &[u64], others: &[u64]) -> f32 {
    let equal = own.iter().zip(others).filter(|(a, b)| a == b).count();
    equal as f32 / SLOTS as f32
}

/// The salt of each hash function, which makes the functions independent.
const SALTS: [u64; SLOTS] = {
    let mut salts = [0; SLOTS];
    let mut index = 0;
    while index < SLOTS {
        salts[index] = hash_of(index as u64 + 1);
        index += 1;
    }
    salts
};

/// Returns the smallest hash of all pieces for each of the first `count` hash functions.
///
/// All pieces are hashed by one function before the next one, so that the smallest hash stays in a
/// register.
fn smallest_hashes(pieces: &[u64], count: usize) -> Vec<u64> {
    let smallest = |salt: u64| {
        let mut least = u64::MAX;
        for piece in pieces {
            let hash = before_last_step(piece ^ salt);
            // The upper bits of the hash are known, and nearly always greater than those of the
            // smallest hash so far.
            if hash <= least | bits_of_last_step() {
                least = last_step(hash).min(least);
            }
        }
        least
    };
    SALTS.into_iter().take(count).map(smallest).collect()
}

/// Returns whether there are enough pieces to compare traces.
fn are_enough(pieces: &[u64]) -> bool {
    pieces.len() >= PIECES_MIN as usize
}

/// Returns the fingerprint of a session, or `None` if too few of its positions move. Fixes that are
/// marked as simulated count too, because a copy may consist of them.
#[must_use]
pub fn trace_fingerprint(windows: &[Window]) -> Option<Fingerprint> {
    let positions = position_pieces(windows);
    let course = Course::of(recorded_fixes(windows));
    if !are_enough(&positions) && !course.is_comparable() {
        return None;
    }
    let channels = [
        channel_pieces(recorded_fixes(windows).map(|fix| u64::from(fix.accuracy_m.to_bits()))),
        channel_pieces(recorded_fixes(windows).filter_map(receiver_hash)),
        channel_pieces(
            windows
                .iter()
                .filter_map(|window| Some(u64::from(window.pressure_hpa?.to_bits()))),
        ),
        channel_pieces(windows.iter().filter_map(|window| {
            let motion = window.motion?;
            Some(pair_bits(motion.accel_mean, motion.accel_std))
        })),
    ];
    Some(Fingerprint {
        slots: hashes_of_enough(&positions),
        pieces: u32::try_from(positions.len()).unwrap_or(u32::MAX),
        channels: channels
            .iter()
            .map(|channel| hashes_of_enough(channel))
            .collect(),
        course,
    })
}

fn hashes_of_enough(pieces: &[u64]) -> Vec<u64> {
    if are_enough(pieces) {
        smallest_hashes(pieces, SLOTS)
    } else {
        Vec::new()
    }
}

/// Returns the hash of a fix's speed, course and altitude, if at least two of them are present.
fn receiver_hash(fix: &Fix) -> Option<u64> {
    let values = [fix.speed_mps, fix.bearing_deg, fix.altitude_m];
    let present = values.iter().flatten().count();
    let bits = values.map(|value| value.map_or(u64::MAX, |value| u64::from(value.to_bits())));
    (present >= 2).then(|| {
        bits.into_iter()
            .fold(0, |hash, value| hash_of(hash ^ value))
    })
}

/// Returns the bits of two values as one number.
fn pair_bits(one: f32, other: f32) -> u64 {
    u64::from(one.to_bits()) << 32 | u64::from(other.to_bits())
}

/// Returns the pieces of a channel: the hashes of its runs. A repeated value counts once.
fn channel_pieces(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut pieces = Vec::new();
    let mut run = [0_u64; RUN];
    let mut length = 0;
    for value in values {
        if length > 0 && run[RUN - 1] == value {
            continue;
        }
        run.copy_within(1.., 0);
        run[RUN - 1] = value;
        length = RUN.min(length + 1);
        if length == RUN && is_varied(&run) {
            pieces.push(folded(GOLDEN_GAMMA, run));
        }
    }
    pieces
}

/// Returns whether a run has enough different values. Compares all pairs without a condition, which
/// takes less time than to stop at the first equal pair.
fn is_varied(run: &[u64; RUN]) -> bool {
    let mut different = 0;
    for (place, value) in run.iter().enumerate() {
        let before = run.iter().take(place);
        let is_repeated = before.fold(false, |is_repeated, one| is_repeated | (one == value));
        different += usize::from(!is_repeated);
    }
    different >= DIFFERENT_MIN
}

/// Returns the pieces of the positions: the hashes of successive displacements.
fn position_pieces(windows: &[Window]) -> Vec<u64> {
    let mut pieces = Vec::new();
    let mut recent: Vec<(f32, f32)> = Vec::with_capacity(PIECE + 1);
    let mut last: Option<&Fix> = None;
    for fix in recorded_fixes(windows) {
        let Some(before) = last else {
            last = Some(fix);
            continue;
        };
        let step = (
            fix.place.east_m - before.place.east_m,
            fix.place.north_m - before.place.north_m,
        );
        if step == (0.0, 0.0) {
            continue;
        }
        last = Some(fix);
        if step.0.abs().max(step.1.abs()) > STEP_M_MAX {
            recent.clear();
            continue;
        }
        if recent.len() == PIECE {
            recent.remove(0);
        }
        recent.push(step);
        if let Some(piece) = piece_hash(&recent) {
            pieces.push(piece);
        }
    }
    pieces
}

/// Returns the hash of a piece's displacements, or `None` if they are too few or too short.
fn piece_hash(steps: &[(f32, f32)]) -> Option<u64> {
    if steps.len() < PIECE {
        return None;
    }
    let (east, north) = steps
        .iter()
        .fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
    if (east * east + north * north).sqrt() < PIECE_M_MIN {
        return None;
    }
    let quantised = steps
        .iter()
        .flat_map(|step| [step.0, step.1])
        .map(|metres| (metres / GRID_M).round() as i64 as u64);
    Some(folded(GOLDEN_GAMMA, quantised))
}

/// The increment of SplitMix64: 2⁶⁴ divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
/// The first multiplier of the 64-bit finaliser of MurmurHash3 (Appleby 2011), which spreads the
/// low bits of a value.
const SPREADING: u64 = 0xff51_afd7_ed55_8ccd;

/// Returns one hash of a sequence of values, which begins with the hash `start`.
fn folded(start: u64, values: impl IntoIterator<Item = u64>) -> u64 {
    let values = values.into_iter();
    values.fold(start, |hash, value| {
        hash_of(hash ^ value.wrapping_mul(SPREADING))
    })
}

/// Returns the hash of a number by the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
const fn hash_of(value: u64) -> u64 {
    last_step(before_last_step(value))
}

/// Returns the hash without the last step of the finaliser. See [`bits_of_last_step`].
const fn before_last_step(value: u64) -> u64 {
    let value = value.wrapping_add(GOLDEN_GAMMA);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Applies the last step of the finaliser to a hash.
const fn last_step(value: u64) -> u64 {
    value ^ last_shifted(value)
}

/// Returns the bits that the last step of the finaliser combines with the value.
const fn last_shifted(value: u64) -> u64 {
    value >> 31
}

/// Returns the bits that the last step of the finaliser changes. The bits above them are final
/// before it.
const fn bits_of_last_step() -> u64 {
    last_shifted(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hashes_are_those_of_all_pieces() {
        let pieces: Vec<u64> = (0..3_000).map(|number| hash_of(number * 7 + 1)).collect();
        for (least, salt) in smallest_hashes(&pieces, SLOTS).into_iter().zip(SALTS) {
            let expected = pieces.iter().map(|&piece| hash_of(piece ^ salt)).min();
            assert_eq!(Some(least), expected);
        }
    }

    #[test]
    fn a_run_is_varied_by_the_number_of_its_different_values() {
        for different in 1..=RUN {
            let mut run = [0_u64; RUN];
            let values = (0..different as u64).cycle();
            run.iter_mut()
                .zip(values)
                .for_each(|(to, value)| *to = value);
            assert_eq!(is_varied(&run), different >= DIFFERENT_MIN, "{run:?}");
        }
    }
}
