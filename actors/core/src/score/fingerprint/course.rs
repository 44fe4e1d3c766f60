//! The course of a trace: its places and their times, compared with those of another trace.
//!
//! A copy whose measurements were all dithered repeats no bytes, but it still goes through the same
//! places at the same intervals. An honest second trip does not: its speed differs by some per
//! cent, which adds up to many metres within a minute, and the error of its positions has wandered.
//!
//! - **Shape**: four successive displacements between the mean places of 16 s each, rounded to a
//!   grid far above a dither, and hashed. The smallest hashes find candidates.
//! - **Knots**: some fixes of the whole path. A candidate's places at the times of the knots, after
//!   the best shift in time and space, show whether it is the same trace. The mean square
//!   of the differences must be at most half of that of each trace's deviations from an even pace
//!   along straight lines: walks along straight streets at one pace have one shape everywhere. See [`pieces`].

mod pieces;

use serde::{Deserialize, Serialize};

use super::{folded, hash_of, smallest_hashes};
use crate::score::parameters::door::course::{
    BLOCK_MS, BLOCKS, COARSE_M_MAX, COPY_RESIDUAL_M, DEVIATION_SHARE, FITS, FIX_GAP_MS, GRID_M,
    JUMP_M, KNOT_APART_M, KNOT_APART_MS, KNOTS_MAX, KNOTS_MIN, LINE_KNOTS, OVERLAP_SEC_MIN,
    OVERLAP_SHARE, PIECE_M_MIN, PIECES_MIN, PROBES, PROBES_MIN, SHAPE_KEYS,
};
use crate::window::Fix;
use pieces::{TimedPlace, deviation_m2};

/// The course of a trace (see the module documentation).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Course {
    /// The smallest hashes of the shape.
    shape: Vec<u64>,
    /// The knots: time in milliseconds, east and north in decimetres, each as the difference from
    /// the knot before.
    knots: Vec<[i32; 3]>,
    /// All fixes. They are not stored: only the newer of two traces needs them.
    #[serde(skip)]
    way: TimedPath,
}

/// The fixes of a trace, found by time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct TimedPath {
    /// The time in milliseconds, and the place in centimetres.
    fixes: Vec<(u32, [i32; 2])>,
    /// The number of fixes before each second.
    before: Vec<u32>,
}

impl TimedPath {
    fn of(fixes: &[&Fix]) -> Self {
        // `as` saturates: no trace is 20,000 km long.
        let centimetres = |metres: f32| (metres * 100.0).round() as i32;
        let mut way = Self::default();
        for fix in fixes {
            while way.before.len() <= (fix.t_ms / 1_000) as usize {
                way.before.push(way.fixes.len() as u32);
            }
            let place = [
                centimetres(fix.place.east_m),
                centimetres(fix.place.north_m),
            ];
            way.fixes.push((fix.t_ms, place));
        }
        way
    }

    /// Returns the length in seconds.
    fn length_sec(&self) -> f64 {
        self.before.len() as f64
    }

    /// Returns the time between the first and the last fix, seconds.
    fn span_sec(&self) -> f64 {
        match (self.fixes.first(), self.fixes.last()) {
            (Some(first), Some(last)) => f64::from(last.0.saturating_sub(first.0)) / 1_000.0,
            _ => 0.0,
        }
    }

    /// Returns the place in metres and the speed in m/s at a time, on the line between two fixes
    /// that are near enough in time.
    fn place_and_speed_at(&self, sec: f64) -> Option<([f64; 2], [f64; 2])> {
        if sec < 0.0 {
            return None;
        }
        let from = *self.before.get(sec as usize)? as usize;
        let ms = sec * 1_000.0;
        let later = self.fixes.get(from..)?;
        let place = from + later.iter().position(|fix| f64::from(fix.0) >= ms)?;
        let (before, after) = (
            self.fixes.get(place.saturating_sub(1))?,
            self.fixes.get(place)?,
        );
        let apart_ms = after.0.saturating_sub(before.0);
        if apart_ms == 0 || apart_ms > FIX_GAP_MS {
            return None;
        }
        let share = (ms - f64::from(before.0)) / f64::from(apart_ms);
        let metres = |axis: usize| {
            let [before_m, after_m] = [before, after].map(|fix| f64::from(fix.1[axis]) / 100.0);
            (before_m, after_m - before_m)
        };
        let here = [0, 1].map(|axis| metres(axis).0 + share * metres(axis).1);
        let speed = [0, 1].map(|axis| metres(axis).1 * 1_000.0 / f64::from(apart_ms));
        Some((here, speed))
    }
}

/// A place in metres at a time in seconds.
#[derive(Debug, Clone, Copy)]
struct Knot {
    sec: f64,
    east_m: f64,
    north_m: f64,
}

impl Course {
    /// Returns the course of the fixes, which are in order of time.
    pub(super) fn of<'f>(fixes: impl Iterator<Item = &'f Fix>) -> Self {
        let fixes: Vec<&Fix> = fixes.collect();
        let pieces = pieces(&fixes);
        let shape = if pieces.iter().all(|grid| grid.len() >= PIECES_MIN) {
            let hashes = pieces.iter().map(|grid| smallest_hashes(grid, SHAPE_KEYS));
            hashes.collect::<Vec<_>>().concat()
        } else {
            Vec::new()
        };
        Self {
            shape,
            knots: knots(&fixes),
            way: TimedPath::of(&fixes),
        }
    }

    /// Returns whether a later trace can be compared with this course.
    pub(super) fn is_comparable(&self) -> bool {
        !self.shape.is_empty() && self.knots.len() >= KNOTS_MIN
    }

    /// Returns the keys under which a store may find candidates.
    pub(super) fn keys(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the share of the other's knots that this trace shares, if it goes through the places
    /// of the other at the same intervals, as only a copy does.
    pub(super) fn copy_of(&self, other: &Self) -> Option<f32> {
        let knots = other.absolute_knots();
        let fit = self.best_fit(&knots)?;
        let share = fit.count as f32 / knots.len() as f32;
        let is_copy = fit.residual_m <= COPY_RESIDUAL_M
            && fit.difference_m2() <= DEVIATION_SHARE * self.deviation_m2(&knots, fit.shift_sec);
        is_copy.then_some(share)
    }

    /// Returns the smaller one of the two traces' deviations from an even pace along straight lines
    /// at the compared knots, in square metres.
    fn deviation_m2(&self, knots: &[Knot], shift_sec: f64) -> f64 {
        let pairs = knots.iter().filter_map(|knot| {
            let (here, _) = self.way.place_and_speed_at(knot.sec - shift_sec)?;
            let there = [knot.east_m, knot.north_m];
            Some(((knot.sec, here), (knot.sec, there)))
        });
        let (own, others): (Vec<TimedPlace>, Vec<TimedPlace>) = pairs.unzip();
        let lines = own.len().div_ceil(LINE_KNOTS);
        deviation_m2(&own, lines).min(deviation_m2(&others, lines))
    }

    /// Returns the comparison with another trace's knots after the best shift in time and space.
    fn best_fit(&self, knots: &[Knot]) -> Option<Fit> {
        let (first, last) = (knots.first()?.sec, knots.last()?.sec);
        let shorter_sec = self.way.span_sec().min(last - first);
        let others = OtherKnots {
            knots,
            overlap_sec: OVERLAP_SEC_MIN.max(OVERLAP_SHARE * shorter_sec),
        };
        let to = self.way.length_sec();
        let shifts = (first - to).floor() as i64..=last.ceil() as i64;
        let mut least_m = COARSE_M_MAX;
        let mut best_sec = None;
        for shift_sec in shifts.map(|shift| shift as f64) {
            if let Some(mean_m) = self.coarse_difference_m(others, shift_sec, least_m) {
                (least_m, best_sec) = (mean_m, Some(shift_sec));
            }
        }
        let mut shift_sec = best_sec?;
        let mut fit = self.fit(others, shift_sec)?;
        let mut best = fit;
        for _ in 1..FITS {
            shift_sec += fit.later_sec.clamp(-1.0, 1.0);
            let Some(next) = self.fit(others, shift_sec) else {
                break;
            };
            fit = next;
            if fit.residual_m < best.residual_m {
                best = fit;
            }
        }
        Some(best)
    }

    /// Returns the knots with their times and places, which are stored as differences.
    fn absolute_knots(&self) -> Vec<Knot> {
        let mut sum = [0_i64; 3];
        let placed = self.knots.iter().map(|knot| {
            for (sum, &part) in sum.iter_mut().zip(knot) {
                *sum += i64::from(part);
            }
            let [ms, east_dm, north_dm] = sum.map(|sum| sum as f64);
            Knot {
                sec: ms / 1_000.0,
                east_m: east_dm / 10.0,
                north_m: north_dm / 10.0,
            }
        });
        placed.collect()
    }

    /// Returns the knots whose times lie within this trace after a shift by `shift_sec`, or `None`
    /// if they are too few or span too little time.
    fn knots_within<'k>(&self, others: OtherKnots<'k>, shift_sec: f64) -> Option<&'k [Knot]> {
        let to = self.way.length_sec();
        let knots = others.knots;
        let first = knots.partition_point(|knot| knot.sec - shift_sec < 0.0);
        let last = knots.partition_point(|knot| knot.sec - shift_sec < to);
        let within = knots.get(first..last)?;
        let overlap_sec = within.last()?.sec - within.first()?.sec;
        (within.len() >= KNOTS_MIN && overlap_sec >= others.overlap_sec).then_some(within)
    }

    /// Compares some knots with this trace after a shift by `shift_sec`. Returns the mean
    /// difference of the displacements between them in metres, if it is less than `least_m`.
    fn coarse_difference_m(
        &self,
        others: OtherKnots<'_>,
        shift_sec: f64,
        least_m: f64,
    ) -> Option<f64> {
        let within = self.knots_within(others, shift_sec)?;
        let step = (within.len() / PROBES).max(1);
        // Once the sum of the differences exceeds this, their mean cannot be below `least_m`.
        let most_m = least_m * within.len().div_ceil(step).saturating_sub(1) as f64;
        let mut before: Option<[f64; 2]> = None;
        let (mut sum_m, mut count) = (0.0, 0_usize);
        for knot in within.iter().step_by(step) {
            let Some((here, _)) = self.way.place_and_speed_at(knot.sec - shift_sec) else {
                before = None;
                continue;
            };
            let apart = [here[0] - knot.east_m, here[1] - knot.north_m];
            if let Some(before) = before.replace(apart) {
                let (east, north) = (apart[0] - before[0], apart[1] - before[1]);
                sum_m += (east * east + north * north).sqrt();
                count += 1;
                if sum_m > most_m {
                    return None;
                }
            }
        }
        let mean_m = sum_m / count.max(1) as f64;
        (count >= PROBES_MIN && mean_m < least_m).then_some(mean_m)
    }

    /// Fits a shift in space, and a further shift in time, by least squares.
    fn fit(&self, others: OtherKnots<'_>, shift_sec: f64) -> Option<Fit> {
        let within = self.knots_within(others, shift_sec)?;
        let pairs: Vec<Pair> = within
            .iter()
            .filter_map(|knot| {
                let (here, speed) = self.way.place_and_speed_at(knot.sec - shift_sec)?;
                Some(([here[0] - knot.east_m, here[1] - knot.north_m], speed))
            })
            .collect();
        if pairs.len() < KNOTS_MIN {
            return None;
        }
        let count = pairs.len() as f64;
        let mean = |of: &dyn Fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / count;
        let (mut apart, mut square, mut along) = (0.0, 0.0, 0.0);
        for axis in [0, 1] {
            let (apart_mean, speed_mean) = (mean(&|pair| pair.0[axis]), mean(&|pair| pair.1[axis]));
            for pair in &pairs {
                let (off, speed) = (pair.0[axis] - apart_mean, pair.1[axis] - speed_mean);
                apart += off * off;
                square += speed * speed;
                along += off * speed;
            }
        }
        Some(Fit {
            count: pairs.len(),
            shift_sec,
            residual_m: (apart / count).sqrt(),
            later_sec: if square > 0.0 { along / square } else { 0.0 },
        })
    }
}

/// The knots of another trace.
#[derive(Debug, Clone, Copy)]
struct OtherKnots<'k> {
    knots: &'k [Knot],
    /// The least time between the first and the last knot that are compared, seconds.
    overlap_sec: f64,
}

/// The offset of a place from its knot in metres, and the speed of the trace there in m/s, both
/// east and north.
type Pair = ([f64; 2], [f64; 2]);

/// The comparison of a trace with knots after a shift in time.
#[derive(Debug, Clone, Copy)]
struct Fit {
    /// The number of knots that were compared.
    count: usize,
    /// The shift in time, seconds.
    shift_sec: f64,
    /// The root mean square distance after the best shift in space, metres.
    residual_m: f64,
    /// The further shift in time, seconds, that would make the distance least.
    later_sec: f64,
}

impl Fit {
    /// Returns the mean square distance per degree of freedom, in square metres.
    fn difference_m2(self) -> f64 {
        // The shift in space on two axes and the shift in time are fitted.
        let free = (2 * self.count).saturating_sub(2 + 1).max(1);
        self.residual_m * self.residual_m * self.count as f64 / free as f64
    }
}

/// Returns the knots: fixes that are spaced in time and space, evenly chosen.
fn knots(fixes: &[&Fix]) -> Vec<[i32; 3]> {
    let mut spaced: Vec<&Fix> = Vec::new();
    for fix in fixes {
        let is_apart = spaced.last().is_none_or(|last| {
            fix.t_ms.saturating_sub(last.t_ms) >= KNOT_APART_MS
                && fix.place.distance_m(last.place) >= KNOT_APART_M
        });
        if is_apart {
            spaced.push(fix);
        }
    }
    let count = spaced.len().min(KNOTS_MAX);
    if count < KNOTS_MIN {
        return Vec::new();
    }
    let mut before = [0; 3];
    let chosen = (0..count).filter_map(|place| spaced.get(place * spaced.len() / count));
    chosen
        .map(|fix| {
            let time = fix.t_ms as i32;
            // `as` saturates: no trace is 200,000 km long.
            let here = [
                time,
                (fix.place.east_m * 10.0).round() as i32,
                (fix.place.north_m * 10.0).round() as i32,
            ];
            let step = [0, 1, 2].map(|part| here[part].saturating_sub(before[part]));
            before = here;
            step
        })
        .collect()
}

/// Returns the pieces of the shape on each of two grids: one for each fix after which the path is
/// long enough. A displacement near a line of one grid is far from those of the other.
fn pieces(fixes: &[&Fix]) -> [Vec<u64>; 2] {
    // The sums of all places before each fix give the mean place of any block.
    let mut sums = vec![(0.0_f64, 0.0_f64)];
    let mut sum = (0.0, 0.0);
    for fix in fixes {
        sum.0 += f64::from(fix.place.east_m);
        sum.1 += f64::from(fix.place.north_m);
        sums.push(sum);
    }
    let mut edges = [0_usize; BLOCKS + 1];
    let mut pieces = [Vec::new(), Vec::new()];
    for (place, first) in fixes.iter().enumerate() {
        for (block, edge) in edges.iter_mut().enumerate() {
            let from_ms = first.t_ms + block as u32 * BLOCK_MS;
            *edge = (*edge).max(place);
            while fixes.get(*edge).is_some_and(|fix| fix.t_ms < from_ms) {
                *edge += 1;
            }
        }
        let until_ms = first.t_ms + BLOCKS as u32 * BLOCK_MS;
        if fixes.last().is_none_or(|last| last.t_ms < until_ms) {
            break;
        }
        if let Some(steps) = steps(&sums, &edges) {
            for (pieces, shift) in pieces.iter_mut().zip([0.0, 0.5]) {
                pieces.push(piece(&steps, shift));
            }
        }
    }
    pieces
}

/// Returns the displacements between the mean places of successive blocks. In a block without fixes
/// the phone stays at its last place, as phones send no fixes at rest. Returns `None` if the path
/// is too short or contains a jump.
fn steps(sums: &[(f64, f64)], edges: &[usize; BLOCKS + 1]) -> Option<[[f64; 2]; BLOCKS - 1]> {
    let mut means = [(0.0, 0.0); BLOCKS];
    for (mean, edge) in means.iter_mut().zip(edges.windows(2)) {
        let &[from, to] = edge else { return None };
        let from = if from == to {
            to.saturating_sub(1)
        } else {
            from
        };
        let (before, after) = (sums.get(from)?, sums.get(to)?);
        let count = (to - from) as f64;
        *mean = ((after.0 - before.0) / count, (after.1 - before.1) / count);
    }
    let mut way_m = 0.0;
    let mut steps = [[0.0; 2]; BLOCKS - 1];
    for (step, pair) in steps.iter_mut().zip(means.windows(2)) {
        let &[before, after] = pair else { return None };
        *step = [after.0 - before.0, after.1 - before.1];
        if step[0].abs().max(step[1].abs()) > JUMP_M {
            return None;
        }
        way_m += (step[0] * step[0] + step[1] * step[1]).sqrt();
    }
    (way_m >= PIECE_M_MIN).then_some(steps)
}

/// Returns the hash of displacements on a grid that is shifted by a share of a cell.
fn piece(steps: &[[f64; 2]; BLOCKS - 1], shift: f64) -> u64 {
    let parts = steps.iter().flatten();
    let cells = parts.map(|metres| (metres / GRID_M + shift).round() as i64 as u64);
    folded(hash_of((2.0 * shift) as u64), cells)
}
