//! Measures how far a path deviates from an even pace along a few straight lines.
//!
//! Every straight street and every turn at a corner looks the same at the same pace, so they do not
//! identify a trip. The rest does: the wandering error of the receiver and the changes of pace.

use crate::score::parameters::door::course::PIECE_PLACES_MIN;

/// A place in metres, east and north, at a time in seconds.
pub(super) type TimedPlace = (f64, [f64; 2]);

/// The numbers that each piece fits: a place and a velocity, both on two axes, and its last place.
const FITTED: usize = 2 + 2 + 1;

/// The sums over the places before each place, from which the fit of any piece follows.
struct Sums {
    /// The sums of time, its square, and for each axis of place, its square, and place times time.
    sums: Vec<[f64; 8]>,
}

impl Sums {
    fn of(places: &[TimedPlace]) -> Self {
        let mut sum = [0.0; 8];
        let mut sums = vec![sum];
        for &(sec, [east_m, north_m]) in places {
            let parts = [
                sec,
                sec * sec,
                east_m,
                east_m * east_m,
                east_m * sec,
                north_m,
                north_m * north_m,
                north_m * sec,
            ];
            for (sum, part) in sum.iter_mut().zip(parts) {
                *sum += part;
            }
            sums.push(sum);
        }
        Self { sums }
    }

    /// Returns the sum of the squared distances of the places `from..to` from their best uniform
    /// straight motion, in square metres.
    fn squares(&self, from: usize, to: usize) -> f64 {
        let (Some(before), Some(until)) = (self.sums.get(from), self.sums.get(to)) else {
            return f64::INFINITY;
        };
        let mut sum = [0.0; 8];
        for (sum, (until, before)) in sum.iter_mut().zip(until.iter().zip(before)) {
            *sum = until - before;
        }
        let [sec, sec_square, parts @ ..] = sum;
        let count = (to - from) as f64;
        let time_spread = sec_square - sec * sec / count;
        let axis = |place: f64, square: f64, product: f64| {
            let spread = square - place * place / count;
            let common = product - place * sec / count;
            let fitted = if time_spread > 0.0 {
                common * common / time_spread
            } else {
                0.0
            };
            (spread - fitted).max(0.0)
        };
        let [east, east_square, east_sec, north, north_square, north_sec] = parts;
        axis(east, east_square, east_sec) + axis(north, north_square, north_sec)
    }
}

/// Returns the mean square distance, per degree of freedom, of the places from the best `pieces`
/// uniform straight motions, one after the other. The result is in square metres, and 0 if the
/// places are too few for this number of pieces.
pub(super) fn deviation_m2(places: &[TimedPlace], pieces: usize) -> f64 {
    let count = places.len();
    // The last place of the last piece is given.
    let free = (2 * count).saturating_sub(FITTED * pieces - 1);
    if count < PIECE_PLACES_MIN * pieces || free == 0 {
        return 0.0;
    }
    let sums = Sums::of(places);
    let first = (0..=count).map(|to| {
        if to < PIECE_PLACES_MIN {
            f64::INFINITY
        } else {
            sums.squares(0, to)
        }
    });
    let mut least: Vec<f64> = first.collect();
    for _ in 1..pieces {
        let extended = (0..=count).map(|to| {
            let from = 0..=to.saturating_sub(PIECE_PLACES_MIN);
            let sum = |from: usize| {
                let before = least.get(from).copied().unwrap_or(f64::INFINITY);
                before + sums.squares(from, to)
            };
            from.map(sum).fold(f64::INFINITY, f64::min)
        });
        least = extended.collect();
    }
    least.last().copied().unwrap_or(0.0) / free as f64
}
