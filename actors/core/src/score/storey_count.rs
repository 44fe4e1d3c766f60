//! Floors from the height of the drop-off, and what the address's floor may decide of them.

use super::doorstep::is_height_of;
use super::scene::Scene;
use crate::storeys::Storeys;

/// What the real temperature of the air makes of a height: 7 % from 15 °C to −5 or 35 °C.
const AIR_SHARE: f32 = 0.07;
/// Where nothing is known of the storeys, so much of the counted floors may be the model's error: dwellings of 2.7 m are a
/// third lower than its 3.8 m, and have no tall ground storey.
const MODEL_SHARE: f32 = 0.45;
/// Noise of a rise, metres (Falcon and Schulzrinne 2018: two levels of 0.2 to 0.3 m).
const NOISE_M: f32 = 0.3;
/// The ground storey is taller by up to this (1.5 to 3 m measured), metres.
const GROUND_MOST_M: f32 = 2.0;

/// Floors for a rise from the entrance, metres; none where it is no height of a building.
///
/// Where the address names the floor next to the one that is counted, and the height is one that this floor can have, it
/// is taken: which of two neighbours it is a height alone cannot tell once there are several storeys of a height known
/// to a tenth, or air of a temperature that is not. Of high floors in a building of which nothing is known, more than
/// neighbours can't be told apart either. Never the ground or a floor on its other
/// side, and nothing else is judged by it: whether the floor is the right one is asked of the metres.
pub(crate) fn floors(scene: &Scene<'_>, metres: f32) -> Option<i16> {
    let storeys = super::climb::storeys(scene);
    let counted = storeys.floors(metres)?;
    let Some(wanted) = scene.input.context.floor else {
        return Some(counted);
    };
    let apart_most = match storeys {
        Storeys::Model => (MODEL_SHARE * f32::from(counted).abs() + 0.5).max(1.0) as u16,
        Storeys::Given(_) | Storeys::Learned { .. } => 1,
    };
    let is_neighbour =
        wanted.abs_diff(counted) <= apart_most && i32::from(wanted) * i32::from(counted) > 0;
    let is_possible = match storeys {
        Storeys::Given(storey_m) => is_within(wanted, storey_m, metres),
        Storeys::Learned { .. } | Storeys::Model => is_height_of(scene, wanted, metres),
    };
    Some(if is_neighbour && is_possible {
        wanted
    } else {
        counted
    })
}

/// Whether `metres` can be the height of a floor where the storey height is known: the ground storey may be taller, and
/// the air may be warmer or colder.
fn is_within(floor: i16, storey_m: f32, metres: f32) -> bool {
    let low_m = f32::from(floor).abs() * storey_m;
    let high_m = if floor > 0 {
        low_m + GROUND_MOST_M
    } else {
        low_m
    };
    let height_m = if floor < 0 { -metres } else { metres };
    (low_m * (1.0 - AIR_SHARE) - NOISE_M..=high_m * (1.0 + AIR_SHARE) + NOISE_M).contains(&height_m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twelfth_floor_is_told_from_the_tenth_in_any_air_but_not_from_the_eleventh() {
        // Storeys of 3 m: 36 m, and up to 7 % more or less.
        assert!(is_within(12, 3.0, 36.0));
        assert!(is_within(12, 3.0, 33.5) && is_within(11, 3.0, 33.5));
        assert!(!is_within(12, 3.0, 30.0) && !is_within(10, 3.0, 36.0));
    }

    #[test]
    fn low_floors_are_told_from_their_neighbours() {
        assert!(is_within(2, 3.0, 6.0) && !is_within(3, 3.0, 6.0) && !is_within(1, 3.0, 6.0));
        assert!(is_within(-1, 3.0, -3.0) && !is_within(-2, 3.0, -3.0) && !is_within(1, 3.0, -3.0));
    }
}
