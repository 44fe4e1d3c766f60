//! Recognises a phone that a vehicle shakes. The acceleration looks like a gait, but the step
//! counter is silent, and the receiver is faster than a pedestrian, or stands still while an engine
//! idles.

use serde::{Deserialize, Serialize};

use super::parameters::evidence::{
    SHAKEN_FIXES, SHAKEN_HOLDS_MS, SHAKEN_MPS, SHAKEN_SILENT_MPS, SHAKEN_SILENT_MS, SHAKEN_WAY_MS,
    SHAKEN_WAYS_MAX, STANDS_MPS,
};
use super::parameters::gait::STEPS_IDLE_SEC_MIN;
use super::parameters::height::RIDE_QUIET_STD_MPS2;
use super::parameters::runs::WALK_ACCURACY_M_MAX;
use crate::geo::Place;
use crate::window::{BodyMotion, Fix, WINDOW_MS, Window};

/// Consecutive fixes at a speed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Streak {
    fixes: u8,
    first_ms: u32,
    newest_ms: u32,
}

impl Streak {
    /// Adds a fix, or ends the streak if it is too slow or too inaccurate.
    fn add(&mut self, fix: &Fix, is_fast: bool) {
        if !is_fast {
            self.fixes = 0;
            return;
        }
        if self.fixes == 0 {
            self.first_ms = fix.t_ms;
        }
        self.fixes = self.fixes.saturating_add(1);
        self.newest_ms = fix.t_ms;
    }

    /// Returns the start of the streak if it is long enough and still lasts.
    fn since_ms(&self, t_ms: u32) -> Option<u32> {
        let holds = t_ms.saturating_sub(self.newest_ms) <= SHAKEN_HOLDS_MS;
        (self.fixes >= SHAKEN_FIXES && holds).then_some(self.first_ms)
    }
}

/// Two earlier fixes, from which the speed follows on a phone that reports none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Displacement {
    /// The time, place and accuracy of a fix that is one to two times [`SHAKEN_WAY_MS`] old.
    from: Option<(u32, Place, f32)>,
    /// A newer one, which replaces it.
    next: Option<(u32, Place, f32)>,
}

impl Displacement {
    /// Adds a fix.
    fn add(&mut self, fix: &Fix) {
        let is_old =
            |&(t_ms, ..): &(u32, Place, f32)| fix.t_ms.saturating_sub(t_ms) >= SHAKEN_WAY_MS;
        if self.next.as_ref().is_none_or(is_old) {
            self.from = self.next.replace((fix.t_ms, fix.place, fix.accuracy_m));
        }
    }

    /// Returns the least speed, in m/s, that explains the distance to the newest fix.
    fn min_mps(&self, fix: &Fix) -> Option<f32> {
        let (t_ms, place, accuracy_m) = self.from?;
        let seconds = fix.t_ms.saturating_sub(t_ms) as f32 / 1_000.0;
        let way_m = fix.place.distance_m(place) - accuracy_m.max(fix.accuracy_m);
        let is_near = fix.t_ms.saturating_sub(t_ms) <= SHAKEN_WAYS_MAX * SHAKEN_WAY_MS;
        (is_near && seconds > 0.0).then_some(way_m.max(0.0) / seconds)
    }
}

/// The last fast fixes and the step counter.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Shaken {
    fast: Streak,
    /// The last fixes that are at least as fast as a slow bicycle.
    brisk: Streak,
    displacement: Displacement,
    /// The number of consecutive seconds in which the counter reported no rise; it stops at the
    /// maximum of its type.
    silent_sec: u8,
    /// The newest rise of the step counter.
    risen_ms: Option<u32>,
    /// The number of seconds in which the counter reported without a rise; it stops at the maximum
    /// of its type.
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
        self.silent_sec = match window.steps {
            Some(0) => self.silent_sec.saturating_add(1),
            _ => 0,
        };
        for fix in window.fixes() {
            self.displacement.add(fix);
            let is_good = fix.accuracy_known && fix.accuracy_m <= WALK_ACCURACY_M_MAX;
            let mps = fix.speed_mps.or_else(|| self.displacement.min_mps(fix));
            let mps = mps.filter(|_| is_good).unwrap_or(0.0);
            self.fast.add(fix, mps >= SHAKEN_MPS);
            self.brisk.add(fix, mps >= SHAKEN_SILENT_MPS);
        }
        let is_silent = u32::from(self.silent_sec) * WINDOW_MS >= SHAKEN_SILENT_MS;
        let has_stepped = self
            .risen_ms
            .is_some_and(|ms| window.t_ms < ms.saturating_add(SHAKEN_SILENT_MS));
        if !has_stepped && stands_and_trembles(window) {
            return Some(window.t_ms);
        }
        if is_silent && let Some(since_ms) = self.brisk.since_ms(window.t_ms) {
            return Some(since_ms);
        }
        // A counter that has never reported shows nothing by its silence.
        let silent_since_ms = match self.risen_ms {
            Some(ms) => ms.saturating_add(SHAKEN_SILENT_MS),
            None if self.idle_sec >= STEPS_IDLE_SEC_MIN => 0,
            None => return None,
        };
        self.fast
            .since_ms(window.t_ms)
            .filter(|_| window.t_ms >= silent_since_ms)
    }
}

/// Returns whether the receiver stands still in a second in which the phone only trembles, as on a
/// moped whose engine idles.
fn stands_and_trembles(window: &Window) -> bool {
    let is_weak = |motion: BodyMotion| motion.accel_std <= RIDE_QUIET_STD_MPS2;
    let stands = |fix: &Fix| {
        fix.accuracy_known
            && fix.accuracy_m <= WALK_ACCURACY_M_MAX
            && fix.speed_mps.is_some_and(|mps| mps <= STANDS_MPS)
    };
    window.motion.is_some_and(is_weak) && window.last_fix().is_some() && window.fixes().all(stands)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A courier rides a bicycle at 4.5 m/s over cobbles, which shake the phone like steps. The
    /// step counter reports each second that there are none.
    #[test]
    fn a_bicycle_shakes_the_phone() {
        let ride = |counter: Option<u16>| (0..20).map(move |number| second(number, 4.5, counter));
        assert_eq!(newest(ride(Some(0))), Some(0));
        assert_eq!(newest(ride(None)), None, "a phone without a counter");
    }

    /// The phone reports no speed, so its places show it.
    #[test]
    fn a_bicycle_shakes_a_phone_that_reports_no_speed() {
        let ride = |mps: f32| {
            (0..30).map(move |number| {
                let mut second = second(number, mps, Some(0));
                for fix in second.fixes.iter_mut().flatten() {
                    fix.speed_mps = None;
                    fix.place.east_m = mps * number as f32;
                }
                second
            })
        };
        assert!(newest(ride(4.5)).is_some());
        assert_eq!(newest(ride(1.5)), None, "a walk");
    }

    /// A cargo bicycle moves at 3 m/s. The counter has reported no step for ten seconds. If it
    /// reports only rises, or counts the steps of a courier who jogs, it shows no vehicle at that
    /// speed.
    #[test]
    fn a_slow_bicycle_shakes_the_phone_while_the_counter_reports_no_step() {
        let ride = |counter: Option<u16>| (0..20).map(move |number| second(number, 3.0, counter));
        assert_eq!(newest(ride(Some(0))), Some(0));
        assert_eq!(newest(ride(None)), None);
        assert_eq!(newest(ride(Some(3))), None);
        assert_eq!(
            newest(ride(Some(0)).take(9)),
            None,
            "the counter may be late"
        );
    }

    /// The engine of a moped idles at a red light and makes the phone tremble at the pace of a
    /// walk. The receiver stands, and the counter counts no step. A walk swings the phone more
    /// strongly, moves the receiver, or is counted.
    #[test]
    fn an_idling_engine_shakes_the_phone() {
        let halt = |accel_std: f32, mps: f32, steps: Option<u16>| {
            newest((0..20).map(move |number| {
                let motion = BodyMotion {
                    accel_mean: 9.81,
                    accel_std,
                    vertical_mean: None,
                    cadence_hz: None,
                    yaw_rad: None,
                    stride: None,
                    gait: None,
                };
                Window {
                    motion: Some(motion),
                    ..second(number, mps, steps)
                }
            }))
        };
        assert_eq!(halt(0.3, 0.05, Some(0)), Some(19_000));
        assert_eq!(
            halt(0.3, 0.05, None),
            Some(19_000),
            "a phone without a counter"
        );
        assert_eq!(halt(0.3, 0.05, Some(2)), None, "steps");
        assert_eq!(halt(1.2, 0.05, Some(0)), None, "a strong swing");
        assert_eq!(halt(0.3, 1.2, Some(0)), None, "a walk");
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
