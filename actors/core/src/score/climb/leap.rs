//! Finds the leap of the air pressure at a door.
//!
//! Ventilation and warm air hold a house above or below the street. A courier who passes the door
//! gets from one pressure to the other within a second or two; stairs and elevators take longer.

use porchlight_schema::event::EventType;

use crate::score::height::Level;
use crate::score::parameters::door::leap::{
    AROUND_MS, CORE_MS, CORE_SHARE, IN_CLIMB_MS, LEAP_M, MOVING_MIN, PASSED_MS, PUSH_MPS2, PUSH_MS,
    SIDE_MS, SIDE_SHARE,
};
use crate::score::scoring_context::{BodyState, ScoringContext, body_state};
use crate::window::WINDOW_MS;

/// Returns the time at which the courier had passed the door at about `entrance_ms`, if the
/// pressure leapt there before `until_ms`.
pub(super) fn inside_door_ms(
    ctx: &ScoringContext<'_>,
    entrance_ms: u32,
    until_ms: u32,
) -> Option<u32> {
    let from_ms = entrance_ms.saturating_sub(AROUND_MS);
    let to_ms = entrance_ms.saturating_add(AROUND_MS).min(until_ms);
    let levels = ctx.height.levels(
        from_ms.saturating_sub(SIDE_MS),
        to_ms.saturating_add(SIDE_MS),
    );
    // The last of several doors leads into the hall.
    last_leap(levels, |(before_ms, inside_ms)| {
        from_ms <= before_ms && inside_ms <= to_ms && is_passed(ctx, before_ms)
    })
    .map(|(_, inside)| inside.t_ms)
}

/// A door at which a detected climb only seems to begin, because the air pressure leaps there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DoorInClimb {
    /// The time at which the courier had passed the door.
    pub(crate) inside_ms: u32,
    /// The change of height that the leap of the pressure simulates, metres.
    pub(crate) leap_m: f32,
}

/// Returns the door through which the courier walked at the beginning of a climb: the leap of the
/// pressure has the slope of a staircase, so the climb seems to begin before the door. A leap during
/// which a cabin pushed the body is a short ride.
pub(crate) fn door_in_climb(ctx: &ScoringContext<'_>, began_ms: u32) -> Option<DoorInClimb> {
    let from_ms = began_ms.saturating_sub(CORE_MS);
    let to_ms = began_ms.saturating_add(IN_CLIMB_MS);
    let levels = ctx.height.levels(
        from_ms.saturating_sub(SIDE_MS),
        to_ms.saturating_add(SIDE_MS + WINDOW_MS),
    );
    let (before, inside) = last_leap(levels, |(before_ms, inside_ms)| {
        from_ms <= before_ms && inside_ms <= to_ms && is_passed(ctx, before_ms)
    })?;
    let leap_m = inside.height_m - before.height_m;
    let is_ride = is_ride_at(ctx, began_ms) && is_pushed(ctx, (before.t_ms, inside.t_ms), leap_m);
    (!is_ride).then_some(DoorInClimb {
        inside_ms: inside.t_ms,
        leap_m,
    })
}

/// Returns whether the climb that begins at an instant is a ride.
fn is_ride_at(ctx: &ScoringContext<'_>, began_ms: u32) -> bool {
    ctx.events(EventType::Elevator)
        .any(|ride| ride.t_start_ms == began_ms)
}

/// Returns whether the body was pushed as in a cabin that moves by `leap_m`: first in the direction
/// of the ride, and then against it.
fn is_pushed(ctx: &ScoringContext<'_>, (before_ms, inside_ms): (u32, u32), leap_m: f32) -> bool {
    let around = (
        before_ms.saturating_sub(PUSH_MS),
        inside_ms.saturating_add(PUSH_MS),
    );
    let pushes = ctx
        .windows(around.0, around.1)
        .iter()
        .filter_map(|window| window.motion?.vertical_mean)
        .map(|vertical_mps2| vertical_mps2 * leap_m.signum());
    pushes
        .skip_while(|push_mps2| *push_mps2 < PUSH_MPS2)
        .any(|push_mps2| push_mps2 <= -PUSH_MPS2)
}

/// Returns the level in the seconds after a door.
pub(super) fn level_inside(ctx: &ScoringContext<'_>, inside_ms: u32) -> Option<Level> {
    ctx.height
        .level(inside_ms, inside_ms.saturating_add(SIDE_MS))
}

/// Returns whether the courier went through the door: nobody walks in an elevator that starts and
/// stops so fast. A phone that does not record the body is trusted.
fn is_passed(ctx: &ScoringContext<'_>, before_ms: u32) -> bool {
    let windows = ctx.windows(before_ms, before_ms.saturating_add(PASSED_MS));
    let moving = windows
        .iter()
        .filter(|window| body_state(window) != BodyState::Still)
        .count();
    moving >= MOVING_MIN.min(windows.len())
}

/// Returns the levels before and after the last leap whose start and end are accepted.
fn last_leap(levels: &[Level], is_accepted: impl Fn((u32, u32)) -> bool) -> Option<(Level, Level)> {
    (0..levels.len()).rev().find_map(|at| {
        let before = levels.get(at)?;
        let after_ms = before.t_ms.saturating_add(CORE_MS);
        let after = levels.get(levels.partition_point(|level| level.t_ms < after_ms))?;
        let is_near = after.t_ms - before.t_ms <= CORE_MS;
        let is_found = is_near && is_leap(levels, *before, *after);
        (is_found && is_accepted((before.t_ms, after.t_ms))).then_some((*before, *after))
    })
}

/// Returns whether the level is steady up to `before`, steady from `after` on, and far apart.
fn is_leap(levels: &[Level], before: Level, after: Level) -> bool {
    let side = |from_ms: u32, to_ms: u32| {
        let first = levels.partition_point(|level| level.t_ms < from_ms);
        let last = levels.partition_point(|level| level.t_ms <= to_ms);
        Side::of(levels.get(first..last)?)
    };
    let sides = side(before.t_ms.saturating_sub(SIDE_MS), before.t_ms)
        .zip(side(after.t_ms, after.t_ms.saturating_add(SIDE_MS)));
    sides.is_some_and(|(outside, inside)| {
        let leap_m = inside.middle_m - outside.middle_m;
        let core_m = after.height_m - before.height_m;
        LEAP_M.contains(&leap_m.abs())
            && core_m / leap_m >= CORE_SHARE
            && outside.range_m.max(inside.range_m) <= SIDE_SHARE * leap_m.abs()
    })
}

/// The levels on one side of a door.
struct Side {
    middle_m: f32,
    range_m: f32,
}

impl Side {
    /// Returns `None` if fewer levels are known than one a second.
    fn of(levels: &[Level]) -> Option<Self> {
        let mut heights_m: Vec<f32> = levels.iter().map(|level| level.height_m).collect();
        heights_m.sort_by(f32::total_cmp);
        let (least_m, most_m) = (heights_m.first()?, heights_m.last()?);
        let middle_m = *heights_m.get(heights_m.len() / 2)?;
        (heights_m.len() >= (SIDE_MS / WINDOW_MS) as usize).then_some(Self {
            middle_m,
            range_m: most_m - least_m,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one level a second, with errors of up to 0.15 m.
    fn levels(heights_m: &[f32]) -> Vec<Level> {
        let seconds = (0..).zip(heights_m);
        seconds
            .map(|(second, height_m)| Level {
                t_ms: second * WINDOW_MS,
                height_m: height_m + [0.1, -0.05, 0.15, -0.15, 0.0][second as usize % 5],
            })
            .collect()
    }

    fn leap(heights_m: &[f32]) -> Option<u32> {
        last_leap(&levels(heights_m), |_| true).map(|(_, after)| after.t_ms)
    }

    /// Returns eight seconds on the level, the given heights, and eight seconds on the last of
    /// them.
    fn way(heights_m: &[f32]) -> Vec<f32> {
        let last_m = heights_m.last().copied().unwrap_or(0.0);
        [&[0.0; 8], heights_m, &[last_m; 8]].concat()
    }

    #[test]
    fn a_door_into_another_pressure_is_a_leap() {
        // 0.35 hPa are 2.95 m. The door is passed at the turn of a second, and within one.
        assert!(leap(&way(&[-2.95])).is_some());
        assert_eq!(leap(&way(&[-1.2, -2.95])), Some(9_000));
        assert!(leap(&way(&[1.8])).is_some());
    }

    #[test]
    fn a_climb_is_not_a_leap() {
        // Nine steps at 0.3 m/s, and three at a run.
        assert_eq!(leap(&way(&[0.3, 0.6, 0.9, 1.2, 1.5])), None);
        assert_eq!(leap(&way(&[0.5, 1.0])), None);
        // One storey by an elevator of 1 m/s, and by one of 0.63 m/s.
        assert_eq!(leap(&way(&[0.35, 1.2, 2.2, 2.85, 3.0])), None);
        assert_eq!(leap(&way(&[0.2, 0.8, 1.4, 2.1, 2.7, 3.0])), None);
    }

    #[test]
    fn a_gust_is_not_a_leap() {
        let gust = [&[0.0; 8][..], &[-2.0], &[0.0; 8]].concat();
        assert_eq!(leap(&gust), None);
    }
}
