//! Height from pressure, and floors from height.

use crate::window::Window;

/// R·T/g of the standard atmosphere at 15 °C, metres: height = this · ln(p0 / p).
const SCALE_HEIGHT_M: f64 = 8_434.0;
/// Seconds of pressure below which a level is not measured.
const SECONDS_LEAST: usize = 3;
/// Weather moves the pressure by about 0.1 hPa in ten minutes: metres a minute (judgement, as fronts do more).
const DRIFT_M_PER_MIN: f32 = 0.08;
/// After this long, two levels can no longer be compared.
const COMPARABLE_MS: u32 = 45 * 60_000;
/// Noise of one level: a phone's barometer averages to 0.03 to 0.1 m within seconds (Falcon and Schulzrinne 2018).
const LEVEL_SIGMA_M: f32 = 0.3;

/// A level: height above the first pressure, metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    pub(crate) t_ms: u32,
    pub(crate) height_m: f32,
}

/// Height above the first pressure of the session, second by second, where pressure was heard.
#[derive(Debug, Default)]
pub(crate) struct HeightTrack {
    levels: Vec<Level>,
}

impl HeightTrack {
    pub(crate) fn new(windows: &[Window]) -> Self {
        let mut heard = windows
            .iter()
            .filter_map(|window| Some((window.t_ms, window.pressure_hpa?)));
        let heard: Vec<(u32, f32)> = heard.by_ref().filter(|(_, hpa)| *hpa > 0.0).collect();
        let Some(&(_, first_hpa)) = heard.first() else {
            return Self::default();
        };
        let level = |&(t_ms, hpa): &(u32, f32)| Level {
            t_ms,
            height_m: (SCALE_HEIGHT_M * libm::log(f64::from(first_hpa) / f64::from(hpa))) as f32,
        };
        let mut levels: Vec<Level> = heard.iter().map(level).collect();
        levels.sort_by_key(|level| level.t_ms);
        Self { levels }
    }

    /// The levels of `from_ms..to_ms`.
    pub(crate) fn levels(&self, from_ms: u32, to_ms: u32) -> &[Level] {
        let first = self.levels.partition_point(|level| level.t_ms < from_ms);
        let last = self.levels.partition_point(|level| level.t_ms < to_ms);
        self.levels.get(first..last).unwrap_or_default()
    }

    /// The median level of `from_ms..to_ms`: doors and gusts move a few seconds only.
    pub(crate) fn level(&self, from_ms: u32, to_ms: u32) -> Option<Level> {
        let mut levels = self.levels(from_ms, to_ms).to_vec();
        if levels.len() < SECONDS_LEAST {
            return None;
        }
        levels.sort_by(|a, b| a.height_m.total_cmp(&b.height_m));
        let median = levels.get(levels.len() / 2)?;
        Some(Level {
            t_ms: from_ms / 2 + to_ms / 2,
            height_m: median.height_m,
        })
    }
}

/// A difference of two levels, metres, with its uncertainty (one standard deviation).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rise {
    pub(crate) metres: f32,
    pub(crate) sigma_m: f32,
}

/// From one level to the other; none where the weather may have changed more than that between.
pub(crate) fn rise(from: Level, to: Level) -> Option<Rise> {
    let apart_ms = to.t_ms.abs_diff(from.t_ms);
    if apart_ms > COMPARABLE_MS {
        return None;
    }
    let drift_m = apart_ms as f32 / 60_000.0 * DRIFT_M_PER_MIN;
    let sigma_m = (2.0 * LEVEL_SIGMA_M * LEVEL_SIGMA_M + drift_m * drift_m).sqrt();
    Some(Rise {
        metres: to.height_m - from.height_m,
        sigma_m,
    })
}

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
