//! Samples in, one-second windows out: whatever the phone sent, and however it was cut into batches, reduced to one
//! form.
//!
//! # What is guaranteed
//!
//! The windows are a function of the sequence of samples: neither the cut into batches nor a snapshot between any two
//! samples changes a bit. Beyond that they do not depend on how the kinds were interleaved, as long as no kind lags the
//! newest sample by more than [`KIND_LAG_MS_MAX`] and every kind that measures has its first sample within
//! [`KIND_LAG_MS_MAX`] of the session's first. A kind that is first heard of later is in order from the moment at which
//! it is heard; what it says of seconds that were already handed on is dropped and counted as lagging.
//!
//! A window is handed on when every kind heard so far has passed its end, or when it lies [`KIND_LAG_MS_MAX`] behind the
//! newest sample, whichever is first; only the latter in the first 24 s. `activity`, `mark` and `system` speak on change
//! and are not waited for: an activity, or a mark, takes effect 12 s late, by when it must have come; incidents are for
//! scoring, which reads them, and the marks, from the batches.
//!
//! Silence: seconds without a sample are handed on with `alive` false once something follows, unless at least
//! [`GAP_MS`] passed between two samples: then they are left out, and the window after them says so.

mod accel;
mod probe;
mod slot;
mod speed;

use std::collections::VecDeque;

use porchlight_schema::limits::{GAP_MS, KIND_LAG_MS_MAX, SAMPLE_T_MS_MAX};
use porchlight_schema::sample::{Activity, ActivityType, Imu, Kind, Location, Sample, Steps};
use porchlight_schema::session::Point;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::mark::MarkName;
use crate::window::{Fix, WINDOW_MS, Window};
use accel::AccelReducer;
pub use probe::gait_seconds;
use slot::Slot;
use speed::ToldSpeed;

/// In the first part of a session a kind may not have been heard of yet, so windows wait for the full lag:
/// a first sample within one lag of the session's first, itself one lag late.
const FIRST_PART_MS: u32 = 2 * KIND_LAG_MS_MAX;

/// The most seconds that can wait: the lag, an `imu` array ahead of it, and the two at the edges.
const SLOTS_MAX: usize =
    ((KIND_LAG_MS_MAX + porchlight_schema::limits::IMU_DURATION_MS_MAX) / WINDOW_MS) as usize + 2;

/// Activities that may wait for their effect: one a second of the delay, and the edges.
const ACTIVITIES_MAX: usize = (KIND_LAG_MS_MAX / WINDOW_MS) as usize + 2;

/// The same of marks, of which there are two kinds.
const MARKS_MAX: usize = 2 * ACTIVITIES_MAX;

/// What the intake counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IntakeCounts {
    /// Samples taken, by [`Kind`] number.
    pub taken: [u32; Kind::ALL.len()],
    /// Dropped: older than the one before of their kind, or a second fix of the same time.
    pub backwards: u32,
    /// Dropped: more than [`KIND_LAG_MS_MAX`] behind the newest sample, or of a second already handed on.
    pub lagging: u32,
}

/// Up to where a kind has spoken, milliseconds since the session's start, and one more; 0 where it has not.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Passed(u32);

impl Passed {
    fn ms(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    /// It has spoken up to there.
    fn raise(&mut self, passed_ms: u32) {
        self.0 = self.0.max(passed_ms.saturating_add(1));
    }
}

/// Reduces samples to windows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Intake {
    counts: IntakeCounts,
    /// By kind: up to where it has spoken, milliseconds since the session's start.
    passed_ms: [Passed; Kind::ALL.len()],
    newest_ms: Option<u32>,
    /// From where on it is enough that every kind heard has passed.
    swift_from_ms: u32,
    /// The start of the first waiting window: those before it were handed on.
    next_ms: u32,
    slots: VecDeque<Slot>,
    last_count: Option<u32>,
    told_speed: ToldSpeed,
    accel: Option<Box<AccelReducer>>,
    activities: VecDeque<(u32, ActivityType, f32)>,
    activity: Option<(ActivityType, f32)>,
    /// Marks that wait for their effect: when, and whether the parcel changed hands. Else it is an arrival.
    marks: VecDeque<(u32, bool)>,
    arrived_ms: Option<u32>,
    handed_over_ms: Option<u32>,
    /// The newest window that was handed on: its end and its newest sample.
    last: Option<(u32, u32)>,
}

/// The kinds that measure have the first numbers; after them come those that speak on change.
const MEASURING_KINDS: usize = Kind::Activity as usize;

fn measures(kind: Kind) -> bool {
    (kind as usize) < MEASURING_KINDS
}

/// The time that says to which window a sample belongs: of an array the end, up to which it can still be of use, of a
/// reduced second its middle, so that it goes where most of it lies.
fn place_ms(sample: &Sample<'_>) -> u32 {
    match sample {
        Sample::Imu(imu) => imu
            .t_ms
            .saturating_add((imu.accel[0].len() as f32 * 1_000.0 / imu.hz) as u32),
        Sample::Motion(motion) => motion.t_ms.saturating_add(WINDOW_MS / 2),
        other => other.t_ms(),
    }
}

impl Intake {
    /// What was taken and dropped so far.
    #[must_use]
    pub fn counts(&self) -> IntakeCounts {
        self.counts
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.activities.capacity() * size_of::<(u32, ActivityType, f32)>()
            + self.marks.capacity() * size_of::<(u32, bool)>()
            + self.accel.as_ref().map_or(0, |_| size_of::<AccelReducer>())
    }

    /// Takes the next sample, in the order of `seq` and of its place in the batch; `sink` gets the windows that are
    /// complete by it. A sample that goes back in time within its kind, or lags too much, is dropped and counted. Equal
    /// times are no step back, except of fixes: a phone that repeats its last fix gives it the same time, and it says
    /// nothing new.
    #[inline(always)]
    pub fn push(
        &mut self,
        context: &SessionContext,
        sample: Sample<'_>,
        sink: &mut impl FnMut(&Window),
    ) {
        let (kind, t_ms) = (sample.kind(), sample.t_ms());
        if t_ms > SAMPLE_T_MS_MAX || !self.admits(kind, t_ms) {
            return;
        }
        if self.newest_ms.is_none() {
            self.swift_from_ms = t_ms.saturating_add(FIRST_PART_MS);
            self.next_ms = t_ms.saturating_sub(KIND_LAG_MS_MAX) / WINDOW_MS * WINDOW_MS;
        }
        let newest_ms = self.newest_ms.map_or(t_ms, |newest_ms| newest_ms.max(t_ms));
        self.newest_ms = Some(newest_ms);
        // What lies a whole lag behind goes first, so that few windows wait, whatever the leap.
        self.hand_on(newest_ms.saturating_sub(KIND_LAG_MS_MAX), sink);
        let place_ms = place_ms(&sample);
        // Too late for its window: only of a kind not heard before. It is waited for from now on.
        if measures(kind) && place_ms < self.next_ms {
            self.counts.lagging = self.counts.lagging.saturating_add(1);
        } else {
            self.counts.taken[kind as usize] = self.counts.taken[kind as usize].saturating_add(1);
        }
        let is_swift = newest_ms >= self.swift_from_ms;
        if let Sample::Imu(imu) = sample {
            let passed_ms = self.take_imu(context, &imu);
            self.passed_ms[kind as usize].raise(passed_ms);
            if is_swift {
                self.hand_on(self.passed_by_all_ms(), sink);
            }
            return;
        }
        // The window that it falls into is not among those that it completes: these go first, so that few wait.
        self.passed_ms[kind as usize].raise(place_ms);
        // Nothing has been passed by all that this kind has not passed.
        if is_swift && (place_ms.saturating_sub(self.next_ms) >= WINDOW_MS || !measures(kind)) {
            self.hand_on(self.passed_by_all_ms(), sink);
        }
        self.take(context, sample, place_ms);
    }

    /// The session is over: hands on what waits.
    pub fn finish(&mut self, sink: &mut impl FnMut(&Window)) {
        let end_ms = self
            .next_ms
            .saturating_add(self.slots.len() as u32 * WINDOW_MS);
        self.hand_on(end_ms, sink);
    }

    fn admits(&mut self, kind: Kind, t_ms: u32) -> bool {
        let passed_ms = self.passed_ms[kind as usize].ms();
        // An `imu` array has passed its end, and the next may begin a little before it by the jitter of the clock.
        let back = match kind {
            Kind::Location => passed_ms.is_some_and(|passed_ms| t_ms <= passed_ms),
            Kind::Imu => self
                .accel
                .as_ref()
                .is_some_and(|accel| t_ms < accel.begun_ms()),
            Kind::Motion => {
                passed_ms.is_some_and(|passed_ms| t_ms.saturating_add(WINDOW_MS / 2) < passed_ms)
            }
            _ => passed_ms.is_some_and(|passed_ms| t_ms < passed_ms),
        };
        let lags = self
            .newest_ms
            .is_some_and(|newest_ms| newest_ms.saturating_sub(t_ms) > KIND_LAG_MS_MAX);
        if back {
            self.counts.backwards = self.counts.backwards.saturating_add(1);
        } else if lags {
            self.counts.lagging = self.counts.lagging.saturating_add(1);
        }
        !back && !lags
    }

    fn passed_by_all_ms(&self) -> u32 {
        let heard = self.passed_ms.iter().take(MEASURING_KINDS);
        // What has not spoken wraps round to more than any time.
        let least_ms = heard.fold(u32::MAX, |least_ms, passed| {
            least_ms.min(passed.0.wrapping_sub(1))
        });
        if least_ms == u32::MAX { 0 } else { least_ms }
    }

    /// Takes a sample of any kind but `imu`.
    #[inline(always)]
    fn take(&mut self, context: &SessionContext, sample: Sample<'_>, place_ms: u32) {
        match sample {
            Sample::Location(location) => self.take_location(context, &location),
            Sample::Pressure(pressure) => {
                if let Some(slot) = self.slot_at(place_ms) {
                    slot.take_pressure(pressure.hpa);
                }
            }
            Sample::Steps(steps) => self.take_steps(steps),
            Sample::Motion(motion) => {
                if let Some(slot) = self.slot_at(place_ms) {
                    slot.take_motion(&motion);
                }
            }
            Sample::Magnetic(magnetic) => {
                if let Some(slot) = self.slot_at(place_ms) {
                    slot.take_magnetic(magnetic.field_ut);
                }
            }
            Sample::Activity(activity) => self.take_activity(activity),
            Sample::Mark(mark) => self.take_mark(mark.t_ms, MarkName::from_name(mark.name)),
            Sample::Imu(_) | Sample::System(_) => {}
        }
    }

    #[inline]
    fn take_location(&mut self, context: &SessionContext, location: &Location) {
        let place = context.frame.place(Point {
            lat: location.lat,
            lng: location.lng,
        });
        let accuracy_m = location.accuracy_m.unwrap_or(Fix::ACCURACY_M_UNKNOWN);
        let speed_mps = self
            .told_speed
            .believed(location.speed_mps, place, accuracy_m);
        let fix = Fix {
            t_ms: location.t_ms,
            place,
            accuracy_m,
            accuracy_known: location.accuracy_m.is_some(),
            speed_mps,
            bearing_deg: location.bearing_deg,
            altitude_m: location.altitude_m,
            mock: location.mock,
            provider: location.provider,
        };
        if let Some(slot) = self.slot_at(location.t_ms) {
            slot.take_fix(fix);
        }
    }

    fn take_steps(&mut self, steps: Steps) {
        let before = self.last_count.replace(steps.count);
        // The first count is where it stands since the phone was started; a fall is a restart, from 0.
        let risen = match before {
            None => 0,
            Some(before) if steps.count < before => steps.count,
            Some(before) => steps.count - before,
        };
        if let Some(slot) = self.slot_at(steps.t_ms) {
            slot.take_steps(u16::try_from(risen).unwrap_or(u16::MAX));
        }
    }

    fn take_activity(&mut self, activity: Activity) {
        let second = activity.t_ms / WINDOW_MS;
        if self
            .activities
            .back()
            .is_some_and(|&(t_ms, _, _)| t_ms / WINDOW_MS == second)
        {
            self.activities.pop_back();
        }
        self.activities
            .push_back((activity.t_ms, activity.activity_type, activity.confidence));
        // Two in order can't lie further apart than the delay, or the older one has taken effect: this only bounds it.
        if self.activities.len() > ACTIVITIES_MAX {
            self.activities.pop_front();
        }
    }

    /// Of several in one second the last counts, a hand-over before all.
    fn take_mark(&mut self, t_ms: u32, name: MarkName) {
        let hands_over = name.is_hand_over();
        if !hands_over && name != MarkName::Arrived {
            return;
        }
        let is_same = |&(other_ms, other): &(u32, bool)| {
            other_ms / WINDOW_MS == t_ms / WINDOW_MS && other == hands_over
        };
        if let Some(place) = self.marks.iter().rposition(is_same) {
            self.marks.remove(place);
        }
        self.marks.push_back((t_ms, hands_over));
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// Takes an array second by second and says up to where it reaches.
    fn take_imu(&mut self, context: &SessionContext, imu: &Imu<'_>) -> u32 {
        let mut accel = self.accel.take().unwrap_or_default();
        accel.use_models(context.models);
        accel.take(imu, self.next_ms, |second_ms, motion, _| {
            if let Some(slot) = self.slot_at(second_ms) {
                slot.take_imu(motion);
            }
        });
        let (from_ms, to_ms) = (imu.t_ms.max(self.next_ms), accel.passed_ms());
        let mut at_ms = from_ms;
        while at_ms < to_ms {
            let end_ms = (at_ms / WINDOW_MS + 1) * WINDOW_MS;
            if let Some(slot) = self.slot_at(at_ms) {
                slot.hear(at_ms, end_ms.min(to_ms));
            }
            at_ms = end_ms;
        }
        self.accel = Some(accel);
        to_ms
    }

    /// The window that holds `t_ms`; none where it was handed on already.
    fn slot_at(&mut self, t_ms: u32) -> Option<&mut Slot> {
        let place = (t_ms.checked_sub(self.next_ms)? / WINDOW_MS) as usize;
        if place >= SLOTS_MAX {
            return None;
        }
        while self.slots.len() <= place {
            self.slots.push_back(Slot::default());
        }
        let slot = self.slots.get_mut(place)?;
        slot.hear(t_ms, t_ms);
        Some(slot)
    }

    /// Hands on the windows that end at or before `until_ms`.
    fn hand_on(&mut self, until_ms: u32, sink: &mut impl FnMut(&Window)) {
        // Most samples complete none.
        if until_ms.saturating_sub(self.next_ms) >= WINDOW_MS {
            self.hand_on_all(until_ms, sink);
        }
    }

    #[inline(never)]
    fn hand_on_all(&mut self, until_ms: u32, sink: &mut impl FnMut(&Window)) {
        while let Some(end_ms) = self
            .next_ms
            .checked_add(WINDOW_MS)
            .filter(|&end_ms| end_ms <= until_ms)
        {
            let start_ms = self.next_ms;
            let Some(slot) = self.slots.front_mut() else {
                // Nothing waits: the rest up to there is silence.
                self.next_ms = until_ms / WINDOW_MS * WINDOW_MS;
                break;
            };
            self.next_ms = end_ms;
            if let Some((motion, _)) = self.accel.as_mut().and_then(|accel| accel.close(start_ms)) {
                slot.take_imu(motion);
            }
            if slot.is_alive() {
                let mut window = slot.window(start_ms);
                self.slots.pop_front();
                self.take_effect(end_ms);
                window.activity = self.activity;
                window.arrived_ms = self.arrived_ms;
                window.handed_over_ms = self.handed_over_ms;
                self.hand_on_one(&mut window, sink);
            } else {
                self.slots.pop_front();
                self.take_effect(end_ms);
            }
        }
        // Where all kinds flow one or two seconds wait.
        if self.slots.capacity() > 4 && self.slots.len() <= 2 {
            self.slots.shrink_to(2);
        }
    }

    fn hand_on_one(&mut self, window: &mut Window, sink: &mut impl FnMut(&Window)) {
        let first_ms = window.silent_since_ms.take().unwrap_or(window.t_ms);
        if let Some((mut t_ms, last_ms)) = self.last {
            if first_ms.saturating_sub(last_ms) >= GAP_MS {
                window.silent_since_ms = Some(last_ms);
            } else {
                while t_ms < window.t_ms {
                    sink(&Window {
                        t_ms,
                        last_sample_ms: t_ms,
                        activity: window.activity,
                        arrived_ms: window.arrived_ms,
                        handed_over_ms: window.handed_over_ms,
                        ..Window::default()
                    });
                    t_ms += WINDOW_MS;
                }
            }
        }
        self.last = Some((window.end_ms(), window.last_sample_ms));
        sink(window);
    }

    fn take_effect(&mut self, end_ms: u32) {
        while let Some(&(t_ms, activity_type, confidence)) = self.activities.front() {
            if t_ms.saturating_add(KIND_LAG_MS_MAX) >= end_ms {
                break;
            }
            self.activity = Some((activity_type, confidence));
            self.activities.pop_front();
        }
        while let Some(&(t_ms, hands_over)) = self.marks.front() {
            if t_ms.saturating_add(KIND_LAG_MS_MAX) >= end_ms {
                break;
            }
            if hands_over {
                self.handed_over_ms = Some(t_ms);
            } else {
                self.arrived_ms = Some(t_ms);
            }
            self.marks.pop_front();
        }
    }
}
