//! A trace's fingerprint: small, the same for a replay, and different for a genuine second trip on
//! the same path.
//!
//! Noise does not repeat itself, so the fingerprint compares noise: that of the positions, and of
//! the phone's other measurements. Each is cut into overlapping pieces, and the smallest hashes of
//! all pieces are kept (Broder 1997, min-wise hashing): the share of equal hashes is the share of
//! equal pieces. Two genuine trips share hardly a piece; a copy shares all of them, wherever it is
//! cut and however its times are shifted.
//!
//! - **Positions**: four successive displacements, each rounded to a quarter of a metre.
//! - **Channels**: values to the last bit, in runs of eight: accuracy; speed, course and altitude;
//!   air pressure; acceleration. A replay with slightly moved positions still has the bytes of all
//!   of these, since no measurement repeats exactly. Runs of nearly constant values are ignored: a
//!   barometer at rest, or a phone that always claims 5 m, looks alike everywhere. One equal
//!   channel is no proof, because a poor sensor may repeat a pattern; two are.
//! - **Course**: the places and their times, for copies whose channels are all dithered. See
//!   [`course`].

mod course;

use serde::{Deserialize, Serialize};

use crate::score::parameters::door::fingerprint::{
    CHANNEL_KEYS, CHANNEL_KEYS_STORED, CHANNELS_LEAST, COPY_SHARE, DIFFERENT_LEAST, GRID_M, PIECE,
    PIECE_LEAST_M, PIECES_LEAST, POSITION_KEYS, POSITION_KEYS_STORED, RUN, SLOTS, STEP_MOST_M,
};
use crate::window::{Fix, Window};
use course::Course;

/// The fingerprint of a trace (see the module documentation).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    slots: Vec<u64>,
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

    /// Returns the similarity if it is high enough that this trace is a copy of the other, which
    /// may have been stored: the similarity of the positions or the second-highest similarity of
    /// the channels, or else that of the courses.
    #[must_use]
    pub fn copy_of(&self, other: &Self) -> Option<f32> {
        self.repeats(other)
            .or_else(|| self.course.copy_of(&other.course))
    }

    /// Returns the share of measurements that are repeated, if it is that of a copy.
    fn repeats(&self, other: &Self) -> Option<f32> {
        let positions = self.similarity(other);
        let mut channels: Vec<f32> = self
            .channels
            .iter()
            .zip(&other.channels)
            .filter(|(own, others)| !own.is_empty() && !others.is_empty())
            .map(|(own, others)| share(own, others))
            .collect();
        channels.sort_by(|a, b| b.total_cmp(a));
        let measured = channels.get(CHANNELS_LEAST - 1).copied().unwrap_or(0.0);
        Some(positions.max(measured)).filter(|&similarity| similarity >= COPY_SHARE)
    }

    /// Returns the keys under which a store may find candidates: two copies share most keys, two
    /// genuine traces none.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        self.chosen_keys(POSITION_KEYS, CHANNEL_KEYS)
    }

    /// Returns the keys under which a store keeps the fingerprint. They are fewer than
    /// [`Fingerprint::keys`], which also find what earlier versions stored.
    #[must_use]
    pub fn stored_keys(&self) -> Vec<u64> {
        self.chosen_keys(POSITION_KEYS_STORED, CHANNEL_KEYS_STORED)
    }

    fn chosen_keys(&self, position_keys: usize, channel_keys: usize) -> Vec<u64> {
        let channels = self.channels.iter().map(|slots| (slots, channel_keys));
        let course = self.course.keys();
        let apart = channels.enumerate().flat_map(|(channel, (slots, count))| {
            let own = slots.iter().take(count);
            own.map(move |&slot| mixed(slot ^ mixed(channel as u64 + 1)))
        });
        let positions = self.slots.iter().take(position_keys).copied();
        positions
            .chain(apart)
            .chain(
                course
                    .iter()
                    .map(|&slot| mixed(slot ^ mixed(course_number()))),
            )
            .collect()
    }
}

/// Returns the number that distinguishes the keys of the course from those of the channels.
fn course_number() -> u64 {
    u64::from_be_bytes(*b"a course")
}

fn share(own: &[u64], others: &[u64]) -> f32 {
    let equal = own.iter().zip(others).filter(|(a, b)| a == b).count();
    equal as f32 / SLOTS as f32
}

/// The number that makes each hash function different.
const SALTS: [u64; SLOTS] = {
    let mut salts = [0; SLOTS];
    let mut index = 0;
    while index < SLOTS {
        salts[index] = mixed(index as u64 + 1);
        index += 1;
    }
    salts
};

/// Returns the smallest hashes of the pieces, one for each hash function.
///
/// All pieces are hashed by one function before the next one, so that the smallest hash stays in a
/// register.
fn smallest_hashes(pieces: &[u64], count: usize) -> Vec<u64> {
    let smallest = |salt: u64| {
        let mut least = u64::MAX;
        for piece in pieces {
            let unfinished = unfinished(piece ^ salt);
            // The upper bits of the hash are known, and nearly always greater than those of the
            // smallest hash so far.
            if unfinished <= least | changed_last() {
                least = finished(unfinished).min(least);
            }
        }
        least
    };
    SALTS.into_iter().take(count).map(smallest).collect()
}

fn is_enough(pieces: &[u64]) -> bool {
    pieces.len() >= PIECES_LEAST as usize
}

/// Returns the fingerprint of a session, or `None` if too few of its positions move. Simulated
/// fixes count too: a replay may be marked as such.
#[must_use]
pub fn trace_fingerprint(windows: &[Window]) -> Option<Fingerprint> {
    let positions = positions(windows);
    let course = Course::of(fixes(windows));
    if !is_enough(&positions) && !course.is_comparable() {
        return None;
    }
    let channels = [
        channel(fixes(windows).map(|fix| u64::from(fix.accuracy_m.to_bits()))),
        channel(fixes(windows).filter_map(receiver)),
        channel(
            windows
                .iter()
                .filter_map(|window| Some(u64::from(window.pressure_hpa?.to_bits()))),
        ),
        channel(windows.iter().filter_map(|window| {
            let motion = window.motion?;
            Some(both(motion.accel_mean, motion.accel_std))
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
    if is_enough(pieces) {
        smallest_hashes(pieces, SLOTS)
    } else {
        Vec::new()
    }
}

fn fixes(windows: &[Window]) -> impl Iterator<Item = &Fix> {
    windows
        .iter()
        .flat_map(|window| window.fixes.iter().flatten())
}

/// Hashes the receiver's values other than the position, if at least two of them are present.
fn receiver(fix: &Fix) -> Option<u64> {
    let values = [fix.speed_mps, fix.bearing_deg, fix.altitude_m];
    let told = values.iter().flatten().count();
    let bits = values.map(|value| value.map_or(u64::MAX, |value| u64::from(value.to_bits())));
    (told >= 2).then(|| bits.into_iter().fold(0, |hash, value| mixed(hash ^ value)))
}

fn both(one: f32, other: f32) -> u64 {
    u64::from(one.to_bits()) << 32 | u64::from(other.to_bits())
}

/// Returns the pieces of a channel: the hashes of its runs. A repeated value counts once.
fn channel(values: impl Iterator<Item = u64>) -> Vec<u64> {
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
            pieces.push(run.iter().fold(0x9e37_79b9_7f4a_7c15, |hash, &value| {
                mixed(hash ^ value.wrapping_mul(0xff51_afd7_ed55_8ccd))
            }));
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
    different >= DIFFERENT_LEAST
}

/// Returns the pieces of the positions: the hashes of successive displacements.
fn positions(windows: &[Window]) -> Vec<u64> {
    let mut pieces = Vec::new();
    let mut recent: Vec<(f32, f32)> = Vec::with_capacity(PIECE + 1);
    let mut last: Option<&Fix> = None;
    for fix in fixes(windows) {
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
        if step.0.abs().max(step.1.abs()) > STEP_MOST_M {
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

fn piece_hash(steps: &[(f32, f32)]) -> Option<u64> {
    if steps.len() < PIECE {
        return None;
    }
    let (east, north) = steps
        .iter()
        .fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
    if (east * east + north * north).sqrt() < PIECE_LEAST_M {
        return None;
    }
    let quantised = steps
        .iter()
        .flat_map(|step| [step.0, step.1])
        .map(|metres| (metres / GRID_M).round() as i64 as u64);
    Some(quantised.fold(0x9e37_79b9_7f4a_7c15, |hash, value| {
        mixed(hash ^ value.wrapping_mul(0xff51_afd7_ed55_8ccd))
    }))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
const fn mixed(value: u64) -> u64 {
    finished(unfinished(value))
}

/// The finaliser without its last step. See [`changed_last`].
const fn unfinished(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The last step of the finaliser.
const fn finished(value: u64) -> u64 {
    value ^ last_shifted(value)
}

/// Returns the bits that the last step of the finaliser combines with the value.
const fn last_shifted(value: u64) -> u64 {
    value >> 31
}

/// Returns the bits that the last step of the finaliser changes. The bits above them are final
/// before it.
const fn changed_last() -> u64 {
    last_shifted(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hashes_are_those_of_all_pieces() {
        let pieces: Vec<u64> = (0..3_000).map(|number| mixed(number * 7 + 1)).collect();
        for (least, salt) in smallest_hashes(&pieces, SLOTS).into_iter().zip(SALTS) {
            let expected = pieces.iter().map(|&piece| mixed(piece ^ salt)).min();
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
            assert_eq!(is_varied(&run), different >= DIFFERENT_LEAST, "{run:?}");
        }
    }
}
