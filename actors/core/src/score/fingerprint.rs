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

use serde::{Deserialize, Serialize};

use crate::score::parameters::door::fingerprint::{
    CHANNEL_KEYS, CHANNELS_LEAST, COPY_SHARE, DIFFERENT_LEAST, GRID_M, PIECE, PIECE_LEAST_M,
    PIECES_LEAST, POSITION_KEYS, RUN, SLOTS, STEP_MOST_M,
};
use crate::window::{Fix, Window};

/// The fingerprint of a trace (see the module documentation).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    slots: Vec<u64>,
    pieces: u32,
    /// The hashes of each channel; empty if it has too few runs, and in data stored by earlier
    /// versions.
    #[serde(default)]
    channels: Vec<Vec<u64>>,
}

impl Fingerprint {
    /// Returns the share of equal pieces of the positions, 0 to 1.
    #[must_use]
    pub fn similarity(&self, other: &Self) -> f32 {
        share(&self.slots, &other.slots)
    }

    /// Returns the similarity if it is high enough that one trace is a copy of the other: the
    /// similarity of the positions, or else the second-highest similarity of the channels.
    #[must_use]
    pub fn copy_of(&self, other: &Self) -> Option<f32> {
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
        let channels = self.channels.iter().enumerate();
        let channels = channels.flat_map(|(channel, slots)| {
            let own = slots.iter().take(CHANNEL_KEYS);
            own.map(move |&slot| mixed(slot ^ mixed(channel as u64 + 1)))
        });
        self.slots
            .iter()
            .take(POSITION_KEYS)
            .copied()
            .chain(channels)
            .collect()
    }
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

/// The smallest hashes of the pieces, one for each hash function.
struct MinHashes {
    slots: [u64; SLOTS],
    pieces: u32,
}

impl MinHashes {
    fn new() -> Self {
        Self {
            slots: [u64::MAX; SLOTS],
            pieces: 0,
        }
    }

    fn add(&mut self, piece: u64) {
        self.pieces = self.pieces.saturating_add(1);
        for (slot, salt) in self.slots.iter_mut().zip(SALTS) {
            let hash = mixed(piece ^ salt);
            // A condition, because the loop is slower in vectors: they lack this multiplication.
            if hash < *slot {
                *slot = hash;
            }
        }
    }

    fn is_enough(&self) -> bool {
        self.pieces >= PIECES_LEAST
    }
}

/// Returns the fingerprint of a session, or `None` if too few of its positions move. Simulated
/// fixes count too: a replay may be marked as such.
#[must_use]
pub fn trace_fingerprint(windows: &[Window]) -> Option<Fingerprint> {
    let positions = positions(windows);
    if !positions.is_enough() {
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
        slots: positions.slots.to_vec(),
        pieces: positions.pieces,
        channels: channels
            .into_iter()
            .map(|channel| {
                if channel.is_enough() {
                    channel.slots.to_vec()
                } else {
                    Vec::new()
                }
            })
            .collect(),
    })
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

/// Hashes the runs of a channel. A repeated value counts once.
fn channel(values: impl Iterator<Item = u64>) -> MinHashes {
    let mut hashes = MinHashes::new();
    let mut run: Vec<u64> = Vec::with_capacity(RUN + 1);
    for value in values {
        if run.last() == Some(&value) {
            continue;
        }
        if run.len() == RUN {
            run.remove(0);
        }
        run.push(value);
        if run.len() == RUN && is_varied(&run) {
            hashes.add(run.iter().fold(0x9e37_79b9_7f4a_7c15, |hash, &value| {
                mixed(hash ^ value.wrapping_mul(0xff51_afd7_ed55_8ccd))
            }));
        }
    }
    hashes
}

fn is_varied(run: &[u64]) -> bool {
    let is_first =
        |(place, value): &(usize, &u64)| !run.iter().take(*place).any(|one| one == *value);
    run.iter().enumerate().filter(is_first).count() >= DIFFERENT_LEAST
}

fn positions(windows: &[Window]) -> MinHashes {
    let mut hashes = MinHashes::new();
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
            hashes.add(piece);
        }
    }
    hashes
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
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
