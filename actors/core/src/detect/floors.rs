//! Floors from height.

use crate::context::SessionContext;
use crate::storeys::{STOREY_M, Storeys};

/// How many floors a height is, at least one: by the model that scoring uses too. Climbs begin or end at the ground more
/// often than not, so that the taller ground storey counts in both directions.
pub(super) fn floors_of(context: &SessionContext, height_m: f32) -> u16 {
    let given = context
        .storey_height_m
        .filter(|storey_m| STOREY_M.contains(storey_m));
    let storeys = given.map_or(Storeys::Model, Storeys::Given);
    let floors = storeys.floors(height_m.abs()).unwrap_or(1);
    u16::try_from(floors).unwrap_or(1).max(1)
}
