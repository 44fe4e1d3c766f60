//! Finds the second of entry from all signs. Reception, a known place, gates and climbs give an
//! approximate time. The change of the air pressure indoors and the pause at the door give the
//! exact second.
//!
//! Each sign adds a cost that grows with the time between a second and the sign. The cost is
//! limited, because a sign may belong to something else than the entrance. The second with the
//! least sum is the entry. The widths are the errors of the signs in the simulated deliveries that
//! the parameters were tuned on. The recordings have only reception and air, and their errors agree
//! with these.

use crate::score::parameters::place::doorway::{
    AROUND_MS, GAIT_AFTER_SEC, GAIT_BEFORE_SEC, GAIT_SEC_MIN, GATE_GAIN, GATE_NEAR_MS, HALL_MAX,
    HALL_MS, HALL_SPREAD_MS, LEAP_FROM, LEAP_GAIN, LEAP_MAX, LEVEL_CHANGE_M, LEVEL_NOISE_SHARE,
    LEVEL_SEC, LEVEL_SEC_MIN, NOISE_M_MIN, NOISE_SEC, NOISE_STEPS_MIN, NORMAL_MEDIAN, PAUSE_GAIN,
    PAUSE_SHARE, PLACED_MAX, PLACED_MS, RESUMED_SHARE, STEP_FROM, STEP_GAIN, STEP_MAX,
};
use crate::score::scoring_context::{BodyState, ScoringContext, body_state, median};
use crate::window::WINDOW_MS;

/// The signs with an approximate time, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Signs {
    /// The times from reception or a known place, if known.
    pub(super) placed_ms: Vec<u32>,
    /// The foot of the first climb, or the wait for it if the body shows the arrival there.
    pub(super) foot_of_climb_ms: Option<u32>,
    /// The ends of passages.
    pub(super) gates_ms: Vec<u32>,
}

impl Signs {
    /// Returns whether a passage ended about `t_ms`.
    pub(super) fn is_gate(&self, t_ms: u32) -> bool {
        self.gates_ms
            .iter()
            .any(|gate_ms| gate_ms.abs_diff(t_ms) <= GATE_NEAR_MS)
    }
}

/// Returns the likeliest second near `about_ms`, not beyond `until_ms`.
pub(super) fn likeliest_ms(
    ctx: &ScoringContext<'_>,
    signs: &Signs,
    about_ms: u32,
    until_ms: u32,
) -> u32 {
    let usual = usual_gait(ctx, about_ms);
    let last_ms = signs
        .foot_of_climb_ms
        .map_or(until_ms, |foot_ms| foot_ms.min(until_ms))
        .min(about_ms.saturating_add(AROUND_MS));
    let first_ms = about_ms.saturating_sub(AROUND_MS).min(last_ms);
    let seconds = (first_ms.div_ceil(WINDOW_MS)..=last_ms / WINDOW_MS).map(|at| at * WINDOW_MS);
    let cost = |t_ms: u32| {
        let mut cost = sign_cost(signs, t_ms);
        cost -= usual.map_or(0.0, |usual| pause_gain(ctx, t_ms, usual));
        cost - air_gain(ctx, t_ms)
    };
    // Without any second to compare, the approximate time is returned.
    seconds
        .map(|t_ms| (cost(t_ms), t_ms))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(about_ms, |(_, t_ms)| t_ms)
}

/// Returns the cost of a second from the signs with an approximate time.
fn sign_cost(signs: &Signs, t_ms: u32) -> f32 {
    let placed = signs.placed_ms.iter();
    let mut cost: f32 = placed
        .map(|placed_ms| (placed_ms.abs_diff(t_ms) as f32 / PLACED_MS).min(PLACED_MAX))
        .sum();
    if let Some(foot_ms) = signs.foot_of_climb_ms {
        let off = (foot_ms as f32 - t_ms as f32 - HALL_MS) / HALL_SPREAD_MS;
        cost += (0.5 * off * off).min(HALL_MAX);
    }
    if signs.is_gate(t_ms) {
        cost -= GATE_GAIN;
    }
    cost
}

/// Returns the usual spread of the acceleration on the walk around `t_ms`.
fn usual_gait(ctx: &ScoringContext<'_>, t_ms: u32) -> Option<f32> {
    let windows = ctx.windows(
        t_ms.saturating_sub(GAIT_BEFORE_SEC * WINDOW_MS),
        t_ms.saturating_add(GAIT_AFTER_SEC * WINDOW_MS),
    );
    let mut spreads: Vec<f32> = windows
        .iter()
        .filter(|window| body_state(window) == BodyState::Moving)
        .filter_map(|window| Some(window.motion?.accel_std))
        .collect();
    (spreads.len() >= GAIT_SEC_MIN).then(|| median(&mut spreads))?
}

/// Returns the gain of a second in which a pause ends, or after the end of a pause in the second
/// before; 0 if none ends there.
fn pause_gain(ctx: &ScoringContext<'_>, t_ms: u32, usual: f32) -> f32 {
    let spread = |t_ms: u32| {
        let window = ctx.windows(t_ms, t_ms.saturating_add(1)).first()?;
        Some(window.motion?.accel_std)
    };
    let around = || {
        let here = spread(t_ms)?.min(spread(t_ms.checked_sub(WINDOW_MS)?)?);
        let after = spread(t_ms + WINDOW_MS)?.min(spread(t_ms + 2 * WINDOW_MS)?);
        Some((here, after))
    };
    match around() {
        Some((here, after)) if after > RESUMED_SHARE * usual => {
            PAUSE_GAIN * (1.0 - here / (PAUSE_SHARE * usual)).max(0.0)
        }
        _ => 0.0,
    }
}

/// Returns the gain of a second in which the air pressure changes: a house has a pressure of its
/// own, and an opening door makes a gust.
fn air_gain(ctx: &ScoringContext<'_>, t_ms: u32) -> f32 {
    let heights = |from_ms: u32, to_ms: u32| -> Vec<f32> {
        let levels = ctx.height.levels(from_ms, to_ms).iter();
        levels.map(|level| level.height_m).collect()
    };
    let next_ms = t_ms + WINDOW_MS;
    let before = heights(t_ms.saturating_sub(LEVEL_SEC * WINDOW_MS), t_ms);
    let after = heights(next_ms, next_ms + LEVEL_SEC * WINDOW_MS);
    let (Some(before_m), Some(after_m)) = (mean(&before), mean(&after)) else {
        return 0.0;
    };
    let lately = heights(t_ms.saturating_sub(NOISE_SEC * WINDOW_MS), t_ms);
    let mut steps: Vec<f32> = lately
        .iter()
        .zip(lately.iter().skip(1))
        .map(|(a, b)| (a - b).abs())
        .collect();
    if steps.len() < NOISE_STEPS_MIN {
        return 0.0;
    }
    let Some(usual_m) = median(&mut steps) else {
        return 0.0;
    };
    let noise_m = (usual_m / NORMAL_MEDIAN).max(NOISE_M_MIN);
    let step = (after_m - before_m).abs() / (noise_m * LEVEL_NOISE_SHARE + LEVEL_CHANGE_M);
    let leap_m = heights(t_ms, next_ms + WINDOW_MS)
        .iter()
        .map(|height_m| (height_m - before_m).abs())
        .fold(0.0, f32::max);
    STEP_GAIN * (step - STEP_FROM).clamp(0.0, STEP_MAX)
        + LEAP_GAIN * (leap_m / noise_m - LEAP_FROM).clamp(0.0, LEAP_MAX)
}

/// Returns the mean of at least [`LEVEL_SEC_MIN`] values.
fn mean(values: &[f32]) -> Option<f32> {
    (values.len() >= LEVEL_SEC_MIN).then(|| values.iter().sum::<f32>() / values.len() as f32)
}
