//! Judges each floor by the shape of the staircase: its flights and its turns. Neither depends on the
//! height of the storeys.

use super::parameters::count;

/// Returns the likelihood of the counted flights on the way to a floor. The staircase has the same
/// number of flights per storey on each way; a miscount on one way says nothing about the other.
pub(super) fn by_flights(counts: &[u16], floor: i16) -> f64 {
    if counts.is_empty() {
        return 1.0;
    }
    let storeys = f64::from(floor.unsigned_abs());
    let by_kind = (1..)
        .zip(count::FLIGHTS_PER_STOREY_SHARES)
        .map(|(per_storey, share)| {
            let usual = f64::from(per_storey) * storeys;
            let likelihoods = counts.iter().map(|&counted| {
                let off = (f64::from(counted) - usual) / count::FLIGHTS_SIGMA;
                count::FLIGHTS_MISCOUNTED + libm::exp(-0.5 * off * off)
            });
            share * likelihoods.product::<f64>()
        });
    count::FLIGHTS_OTHERWISE + by_kind.sum::<f64>()
}

/// Returns the likelihood of the measured turns on the way to a floor. A staircase returns to the
/// same place on each storey, so its turns do not depend on the number of flights. A hand that turns
/// the phone on one way does not do so on the other.
pub(super) fn by_turns(turns: &[f32], floor: i16) -> f64 {
    let turns = || turns.iter().map(|&turns| f64::from(turns).abs());
    if !turns().any(|turns| turns >= count::TURNS_MIN) {
        return 1.0;
    }
    let usual = f64::from(floor.unsigned_abs()) - count::TURNS_LACK;
    let likelihoods = turns().map(|turns| {
        let off = (turns - usual) / count::TURNS_SIGMA;
        count::TURNS_BY_HAND + libm::exp(-0.5 * off * off)
    });
    count::TURNS_OTHERWISE + likelihoods.product::<f64>()
}

#[cfg(test)]
mod tests {
    use crate::floors::model::Building;
    use crate::floors::{Estimate, FloorMatch, Measured};

    /// Returns the estimate for stairs in an unknown building.
    fn stairs(rise_m: f32, flights: &[u16], turns: &[f32]) -> Estimate {
        let measured = Measured {
            rise_m,
            sigma_m: 0.4,
            flights: flights.to_vec(),
            turns: turns.to_vec(),
            ..Measured::default()
        };
        Estimate::new(&Building::default(), &measured).expect("a height of a building")
    }

    #[test]
    fn turns_on_the_stairs_count_floors() {
        // 11.4 m are four flats or three offices; the stairs made three and three quarter turns.
        let turned = |turns| stairs(11.2, &[], &[turns]).probability(3);
        assert!(turned(2.75) > 2.0 * turned(3.75));
        // A straight flight is not evidence.
        let straight = turned(0.1);
        assert!(turned(3.75) < straight && straight < turned(2.75));
    }

    #[test]
    fn flights_count_floors_of_any_storey_height() {
        // A staircase with two flights per storey: 11.2 m in eight flights are four storeys of 2.8
        // m, and in six flights three storeys of 3.7 m.
        let after = |rise_m, flights| stairs(rise_m, &[flights], &[]);
        assert_eq!(after(11.2, 8).best(), 4);
        assert_eq!(after(11.2, 8).compare(4).0, FloorMatch::Right);
        assert_ne!(after(11.2, 8).compare(3).0, FloorMatch::Right);
        assert_eq!(after(11.2, 6).best(), 3);
        assert_eq!(after(11.2, 6).compare(3).0, FloorMatch::Right);
        // One flight per storey: four flights of 2.8 m are not two storeys of 5.6 m.
        assert_eq!(after(11.2, 4).best(), 4);
        // One miscounted landing does not outweigh the height.
        assert_eq!(after(11.2, 7).best(), stairs(11.2, &[], &[]).best());
    }

    #[test]
    fn turns_show_the_number_of_flights_per_storey() {
        // Six flights of 2.5 m each: six low storeys with one flight, or three high ones with two.
        // The staircase returns to the same place on each storey, so it turned six or three times.
        let alone = stairs(15.0, &[6, 6], &[]);
        let high = stairs(15.0, &[6, 6], &[2.75, 2.9]);
        let low = stairs(15.0, &[6, 6], &[5.75, 5.9]);
        assert_eq!((high.best(), high.compare(3).0), (3, FloorMatch::Right));
        assert!(low.probability(3) < 0.5 * alone.probability(3));
        assert!(alone.probability(6) < 0.5 * low.probability(6));
        assert!(high.probability(6) < 0.5 * alone.probability(6));
    }

    #[test]
    fn the_way_back_confirms_what_the_way_up_shows() {
        // The second of two flats of 3.4 m with a hall of 4.6 m, where low storeys would be three.
        let ratio = |found: &Estimate| found.probability(2) / found.probability(3);
        let (one, both) = (stairs(8.0, &[], &[1.75]), stairs(8.0, &[], &[1.75, 1.75]));
        assert!(ratio(&both) > 2.0 * ratio(&one));
        let (one, both) = (stairs(8.0, &[4], &[]), stairs(8.0, &[4, 4], &[]));
        assert!(ratio(&both) > 1.5 * ratio(&one));
        // A hand that turned the phone on the way up leaves the way back as it is.
        let turned = stairs(8.0, &[], &[1.0, 1.75]);
        assert!(ratio(&turned) > ratio(&stairs(8.0, &[], &[])));
    }
}
