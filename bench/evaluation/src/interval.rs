//! Confidence intervals by resampling recordings (Efron's bootstrap): seconds and events of one
//! recording are alike, so the bootstrap draws recordings and not seconds.

/// The number of resampling rounds.
const ROUNDS: usize = 1_000;

/// Returns the middle 95 % of a figure over sets of recordings, each drawn with replacement from
/// the evaluated recordings. The same recordings always give the same interval. Returns `None` if
/// the figure is `None` for most sets, or with fewer than three recordings.
pub(super) fn interval<T>(
    recordings: &[T],
    figure: impl Fn(&mut dyn Iterator<Item = &T>) -> Option<f64>,
) -> Option<(f64, f64)> {
    if recordings.len() < 3 {
        return None;
    }
    let mut state = 0x5EED_u64;
    let mut figures: Vec<f64> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let drawn: Vec<usize> = (0..recordings.len())
            .map(|_| (next(&mut state) % recordings.len() as u64) as usize)
            .collect();
        figures.extend(figure(
            &mut drawn.iter().filter_map(|&place| recordings.get(place)),
        ));
    }
    if figures.len() < ROUNDS / 2 {
        return None;
    }
    Some((
        crate::quantile::quantile(&figures, 0.025)?,
        crate::quantile::quantile(&figures, 0.975)?,
    ))
}

/// Returns the next number of SplitMix64 (Steele et al. 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_contains_the_figure_and_narrows_with_more_data() {
        let share = |drawn: &mut dyn Iterator<Item = &u32>| {
            let (mut right, mut all) = (0, 0);
            for one in drawn {
                (right, all) = (right + one, all + 1);
            }
            Some(f64::from(right) / f64::from(all))
        };
        let of = |count: u32| {
            let recordings: Vec<u32> = (0..count).map(|place| u32::from(place % 4 > 0)).collect();
            interval(&recordings, share).unwrap()
        };
        let (few, many) = (of(12), of(400));
        assert!(few.0 < 0.75 && few.1 > 0.75 && many.0 < 0.75 && many.1 > 0.75);
        assert!(many.1 - many.0 < few.1 - few.0);
        assert_eq!(of(12), few);
        assert_eq!(interval(&[1, 0], share), None);
    }
}
