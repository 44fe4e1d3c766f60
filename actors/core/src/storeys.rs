//! Floors from height: the one model of buildings, for events and for scores.

/// What is known of a building's storeys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Storeys {
    /// Nothing: the model.
    Model,
    /// Their height, metres, by the address.
    Given(f32),
    /// Heights of floors above the entrance, metres, measured in earlier sessions; and of a storey, metres.
    Learned {
        floors: Vec<(i16, f32)>,
        storey_m: f32,
    },
}

/// Storeys between the least and the greatest that buildings have (2.7 to 4.9 m measured, with room on both sides).
pub(crate) const STOREY_M: core::ops::RangeInclusive<f32> = 2.2..=6.5;
/// Floors of the tallest buildings; beyond, a measurement is none.
const FLOORS_MAX: f32 = 170.0;
/// The ground storey is up to 1.5 to 3 m taller, or not at all (measured in five buildings): this is taken off a rise
/// where the storey height is given; a third of a storey of noise in the other direction is still borne.
const GROUND_EXTRA_M: f32 = 0.7;
/// The model's storey where nothing is known, and its taller ground storey: 66 % of climbs exact and all within one
/// when fitted on other buildings than those measured (62 climbs in five buildings).
const MODEL_STOREY_M: f32 = 3.8;
const MODEL_GROUND_EXTRA_M: f32 = 1.5;
/// Any rise of this much is a floor at least: no mezzanine of a building is lower.
const FLOOR_LEAST_M: f32 = 2.0;

impl Storeys {
    /// Floors for a rise from the entrance, negative for down; none where it is no height of a building.
    pub(crate) fn floors(&self, metres: f32) -> Option<i16> {
        let (height_m, sign) = (metres.abs(), if metres < 0.0 { -1_i16 } else { 1 });
        // Downwards, storeys below ground, or the whole way from an upper floor: no ground storey comes first.
        let ground_m = |extra_m: f32| if metres < 0.0 { 0.0 } else { extra_m };
        let floors = match self {
            Self::Given(storey_m) => ((height_m - ground_m(GROUND_EXTRA_M)) / storey_m)
                .round()
                .max(0.0),
            Self::Learned { floors, storey_m } => return learned_floors(floors, *storey_m, metres),
            Self::Model if height_m < FLOOR_LEAST_M => 0.0,
            Self::Model => ((height_m - ground_m(MODEL_GROUND_EXTRA_M)) / MODEL_STOREY_M)
                .round()
                .max(1.0),
        };
        (floors <= FLOORS_MAX).then_some(sign * floors as i16)
    }
}

/// The floor whose height is nearest: measured ones count as measured, others from the nearest measured one.
fn learned_floors(known: &[(i16, f32)], storey_m: f32, metres: f32) -> Option<i16> {
    if (metres / storey_m).abs() > FLOORS_MAX {
        return None;
    }
    let ground = (0_i16, 0.0_f32);
    let anchor = known
        .iter()
        .copied()
        .chain([ground])
        .min_by(|a, b| (a.1 - metres).abs().total_cmp(&(b.1 - metres).abs()))?;
    let more = ((metres - anchor.1) / storey_m).round();
    anchor.0.checked_add(more as i16)
}
