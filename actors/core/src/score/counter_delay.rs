//! Corrects the delay with which some phones report their steps.

use std::borrow::Cow;

use super::body_state::{BodyState, state_by_acceleration};
use crate::detect::counter_lag::CounterLag;
use crate::window::{WINDOW_MS, Window};

/// Returns the windows with each step in the second in which it was taken. The delay is the one at
/// which the steps agree best with the acceleration; without acceleration it remains unknown.
pub(super) fn corrected(windows: &[Window]) -> Cow<'_, [Window]> {
    let late_ms = seconds_late(windows).saturating_mul(WINDOW_MS);
    if late_ms == 0 {
        return Cow::Borrowed(windows);
    }
    let mut moved = windows.to_vec();
    for window in &mut moved {
        window.steps = window.steps.map(|_| 0);
    }
    for window in windows {
        let Some(steps) = window.steps.filter(|&steps| steps > 0) else {
            continue;
        };
        let taken_ms = window.t_ms.saturating_sub(late_ms);
        let next = windows.partition_point(|other| other.t_ms <= taken_ms);
        if let Some(taken) = moved.get_mut(next.saturating_sub(1)) {
            taken.steps = Some(taken.steps.unwrap_or(0).saturating_add(steps));
        }
    }
    Cow::Owned(moved)
}

/// Returns the delay of the step counter in seconds; 0 if it is unknown.
fn seconds_late(windows: &[Window]) -> u32 {
    let mut lag = CounterLag::default();
    for window in windows {
        let moves = window
            .motion
            .and_then(|motion| match state_by_acceleration(&motion) {
                BodyState::Moving => Some(true),
                BodyState::Still => Some(false),
                BodyState::Unknown => None,
            });
        lag.observe(window.steps.is_some_and(|steps| steps > 0), moves);
    }
    lag.seconds() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::BodyMotion;

    /// Returns the seconds of a courier who walks and rests for 15 s each, with a counter that is
    /// late by `late_sec` and reports every `every_sec`.
    fn seconds(late_sec: u32, every_sec: u32, has_motion: bool) -> Vec<Window> {
        let walks = |t_sec: u32| t_sec / 15 % 2 == 1;
        let second = |t_sec: u32| {
            let is_reported = t_sec.is_multiple_of(every_sec) && t_sec >= late_sec + every_sec;
            let newest = t_sec.saturating_sub(late_sec);
            let steps = (newest.saturating_sub(every_sec - 1)..=newest).filter(|&t| walks(t));
            Window {
                t_ms: t_sec * WINDOW_MS,
                steps: Some(if is_reported {
                    2 * steps.count() as u16
                } else {
                    0
                }),
                motion: has_motion.then_some(BodyMotion {
                    accel_mean: 9.81,
                    accel_std: if walks(t_sec) { 2.4 } else { 0.15 },
                    vertical_mean: None,
                    cadence_hz: Some(if walks(t_sec) { 2.0 } else { 0.0 }),
                    yaw_rad: None,
                    stride: None,
                    gait: None,
                }),
                ..Window::default()
            }
        };
        (0..300).map(second).collect()
    }

    /// Returns the number of seconds that have steps although the courier rests.
    fn wrong(windows: &[Window]) -> usize {
        let rests = |window: &&Window| (window.t_ms / WINDOW_MS / 15).is_multiple_of(2);
        let steps = |window: &&Window| window.steps.is_some_and(|steps| steps > 0);
        windows.iter().filter(rests).filter(steps).count()
    }

    #[test]
    fn steps_are_counted_when_they_were_taken_however_late_the_counter_is() {
        for every_sec in [1, 2, 3] {
            for late_sec in [0, 2, 5, 9] {
                let windows = seconds(late_sec, every_sec, true);
                let moved = corrected(&windows);
                let total = |windows: &[Window]| -> u32 {
                    windows
                        .iter()
                        .filter_map(|one| one.steps)
                        .map(u32::from)
                        .sum()
                };
                assert_eq!(total(&moved), total(&windows));
                let count = wrong(&moved);
                assert!(count <= 20, "{late_sec} s, every {every_sec} s: {count}");
            }
        }
    }

    #[test]
    fn without_acceleration_a_counter_counts_as_prompt() {
        let windows = seconds(9, 1, false);
        assert_eq!(corrected(&windows), Cow::Borrowed(&windows));
    }
}
