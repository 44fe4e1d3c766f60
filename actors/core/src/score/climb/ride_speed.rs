//! Finds the speed of an elevator from the heights of a ride.

use porchlight_schema::event::{Event, EventType};

use crate::score::height::Level;
use crate::score::parameters::door::ride::{FAST_MPS, SPAN_LEVELS};
use crate::score::scoring_context::ScoringContext;

/// Returns whether one of the climbs is a ride at the speed of an elevator in a tower.
pub(super) fn is_fast(ctx: &ScoringContext<'_>, climbs: &[&Event]) -> bool {
    let rides = climbs
        .iter()
        .filter(|event| event.event_type == EventType::Elevator);
    rides
        .map(|ride| ctx.span_of(ride))
        .any(|(from_ms, to_ms)| top_mps(ctx.height.levels(from_ms, to_ms)) >= FAST_MPS)
}

/// Returns the greatest speed over successive levels, m/s.
fn top_mps(levels: &[Level]) -> f32 {
    let speeds = levels.windows(SPAN_LEVELS).filter_map(|levels| {
        let (first, last) = (levels.first()?, levels.last()?);
        let sec = last.t_ms.saturating_sub(first.t_ms) as f32 / 1_000.0;
        (sec > 0.0).then(|| (last.height_m - first.height_m).abs() / sec)
    });
    speeds.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the levels of a ride with the given speeds of its seconds, m/s.
    fn ride(speeds: &[f32]) -> Vec<Level> {
        let mut height_m = 0.0;
        let seconds = (0..).zip(speeds);
        seconds
            .map(|(second, mps)| {
                height_m += mps;
                Level {
                    t_ms: second * 1_000,
                    height_m,
                }
            })
            .collect()
    }

    #[test]
    fn the_speed_of_a_tower_is_distinguished_from_that_of_a_home() {
        // Four storeys of a home at 1.0 m/s, then the same height in a tower at 1.75 m/s.
        let home = [
            0.5, 1.0, 1.05, 0.95, 1.0, 1.1, 1.0, 0.95, 1.0, 1.0, 1.0, 0.5,
        ];
        assert!(top_mps(&ride(&home)) < FAST_MPS);
        let tower = [0.9, 1.75, 1.7, 1.8, 1.75, 1.75, 1.75, 0.9];
        assert!(top_mps(&ride(&tower)) >= FAST_MPS);
        assert_eq!(top_mps(&[]), 0.0);
    }
}
