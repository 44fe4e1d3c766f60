//! Floors from height.

use super::constants::{GROUND_STOREY_EXTRA_M, STOREY_HEIGHT_M};
use crate::context::SessionContext;

/// How many floors a height is, at least one: with the storey height of the place where it is known, else with the
/// usual one and a ground storey that is taller.
pub(super) fn floors_of(context: &SessionContext, height_m: f32) -> u16 {
    let floors = match context.storey_height_m.filter(|&storey_m| storey_m > 1.0) {
        Some(storey_m) => height_m / storey_m,
        None => ((height_m - GROUND_STOREY_EXTRA_M) / STOREY_HEIGHT_M)
            .max(height_m / (2.0 * STOREY_HEIGHT_M)),
    };
    (floors.round().max(1.0)) as u16
}
