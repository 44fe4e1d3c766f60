//! Recognises a phone that a bicycle or scooter shakes: its acceleration looks like a gait, but the
//! receiver is faster than a pedestrian, and the step counter is silent.

use serde::{Deserialize, Serialize};

use super::constants::{
    SHAKEN_FIXES, SHAKEN_HOLDS_MS, SHAKEN_MPS, SHAKEN_SILENT_MS, STEPS_IDLE_SEC_MIN,
    WALK_ACCURACY_M_MAX,
};
use crate::window::Window;

/// The last fast fixes and the step counter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Shaken {
    /// The number of consecutive fast fixes, and the times of the first and the newest.
    fast: u8,
    first_ms: u32,
    newest_ms: u32,
    /// The newest rise of the step counter.
    risen_ms: Option<u32>,
    /// The number of seconds in which the counter reported without a rise, as far as they count.
    idle_sec: u8,
}

impl Shaken {
    /// Processes the next second. Returns the time since which a vehicle shakes the phone.
    pub(super) fn observe(&mut self, window: &Window) -> Option<u32> {
        match window.steps {
            Some(0) => self.idle_sec = self.idle_sec.saturating_add(1),
            Some(_) => self.risen_ms = Some(window.t_ms),
            None => {}
        }
        for fix in window.fixes() {
            let is_good = fix.accuracy_known && fix.accuracy_m <= WALK_ACCURACY_M_MAX;
            if is_good && fix.speed_mps.is_some_and(|mps| mps >= SHAKEN_MPS) {
                if self.fast == 0 {
                    self.first_ms = fix.t_ms;
                }
                self.fast = self.fast.saturating_add(1);
                self.newest_ms = fix.t_ms;
            } else {
                self.fast = 0;
            }
        }
        let holds = window.t_ms.saturating_sub(self.newest_ms) <= SHAKEN_HOLDS_MS;
        // A counter that has never reported shows nothing by its silence.
        let silent_since_ms = match self.risen_ms {
            Some(ms) => ms.saturating_add(SHAKEN_SILENT_MS),
            None if self.idle_sec >= STEPS_IDLE_SEC_MIN => 0,
            None => return None,
        };
        let is_shaken = self.fast >= SHAKEN_FIXES && holds && window.t_ms >= silent_since_ms;
        is_shaken.then_some(self.first_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geo::Place;
    use crate::window::Fix;

    /// Returns a second with a fix, and the increase of the step counter in it.
    fn second(number: u32, mps: f32, steps: Option<u16>) -> Window {
        let fix = Fix {
            t_ms: number * 1_000,
            place: Place::default(),
            accuracy_m: 5.0,
            accuracy_known: true,
            speed_mps: Some(mps),
            bearing_deg: None,
            altitude_m: None,
            mock: false,
            provider: None,
        };
        Window {
            t_ms: number * 1_000,
            fixes: [Some(fix), None],
            steps,
            ..Window::default()
        }
    }

    fn newest(seconds: impl Iterator<Item = Window>) -> Option<u32> {
        let mut shaken = Shaken::default();
        seconds.fold(None, |_, window| shaken.observe(&window))
    }

    /// A courier rides a bicycle at 4.5 m/s over cobbles, which shake the phone like steps. The step
    /// counter reports each second that there are none.
    #[test]
    fn a_bicycle_shakes_the_phone() {
        let ride = |counter: Option<u16>| (0..20).map(move |number| second(number, 4.5, counter));
        assert_eq!(newest(ride(Some(0))), Some(0));
        assert_eq!(newest(ride(None)), None, "a phone without a counter");
    }

    /// A runner is as fast, and the counter counts. A walker is slower.
    #[test]
    fn a_pedestrian_shakes_the_phone_by_walking() {
        assert_eq!(
            newest((0..20).map(|number| second(number, 4.5, Some(3)))),
            None
        );
        assert_eq!(
            newest((0..20).map(|number| second(number, 1.5, Some(0)))),
            None
        );
        // The counter reports the steps of a run in batches, 8 s late.
        let late = |number: u32| second(number, 4.0, (number % 8 == 7).then_some(20));
        assert_eq!(newest((0..40).map(late)), None);
    }
}
