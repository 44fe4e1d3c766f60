//! Floors from height.

use crate::context::SessionContext;
use crate::storeys::{STOREY_M, Storeys};

/// How many floors a height is, at least one. Where the storey height is not known, by the model that scoring uses too:
/// climbs begin or end at the ground more often than not, so that the taller ground storey counts in both directions.
/// Where it is known, plainly: a climb's own height lacks its first and last steps, which is about what the ground
/// storey has more.
pub(super) fn floors_of(context: &SessionContext, height_m: f32) -> u16 {
    let given = context
        .storey_height_m
        .filter(|storey_m| STOREY_M.contains(storey_m));
    let floors = match given {
        Some(storey_m) => (height_m.abs() / storey_m).round(),
        None => f32::from(Storeys::Model.floors(height_m.abs()).unwrap_or(1)),
    };
    floors.max(1.0) as u16
}
