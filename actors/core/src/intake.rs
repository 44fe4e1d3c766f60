//! Converts samples to one-second windows, one common form for all phones and all divisions into
//! batches.
//!
//! # Guarantees
//!
//! The windows are a function of the sequence of samples: neither the division into batches nor a
//! snapshot between any two samples changes a bit. Beyond that, they do not depend on the
//! interleaving of the kinds, as long as no kind lags the newest sample by more than
//! [`KIND_LAG_MS_MAX`] and every kind that measures has its first sample within [`KIND_LAG_MS_MAX`]
//! of the session's first. A kind whose first sample arrives later is in order from that moment;
//! its samples for seconds that were already emitted are dropped and counted as lagging.
//!
//! Intake emits a window when every kind received so far has passed its end, or when it lies
//! [`KIND_LAG_MS_MAX`] behind the newest sample, whichever is first (in the first 24 s, only the
//! latter). Intake does not wait for `activity`, `mark` and `system`, because phones send them on
//! change. An activity or a mark takes effect 12 s late, because it must have arrived by then. Only
//! scoring uses incidents; it reads them and the marks from the batches. Like every sample, they
//! show that the stream continues, in a second that was not emitted before they arrived. That
//! second depends on the interleaving of the kinds only if no measuring kind has a sample in it.
//!
//! Seconds without a sample of any kind are emitted with `has_sample` false once a sample follows.
//! If at least [`GAP_MS`] passed between two samples, the seconds of this silence are left out, and
//! the window after them records it.

mod accel;
mod accelerometer;
mod counts;
mod probe;
mod slot;
mod speed;
mod waiting;

use std::collections::VecDeque;

use porchlight_schema::limits::{GAP_MS, KIND_LAG_MS_MAX, SAMPLE_T_MS_MAX};
use porchlight_schema::sample::{Activity, ActivityType, Imu, Kind, Location, Sample, Steps};
use porchlight_schema::session::Point;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
use crate::mark::MarkName;
use crate::window::{Fix, WINDOW_MS, Window};
use accel::AccelReducer;
use accelerometer::Accelerometer;
pub use counts::IntakeCounts;
pub use probe::gait_seconds;
use slot::{Slot, place_ms};
use speed::ReportedSpeed;
use waiting::{Emitted, WaitingActivity, WaitingMark};

/// The first part of a session, in which windows wait for the full lag, because some kinds may not
/// have sent a sample yet. A kind may begin one lag after the session's first sample, and its
/// samples may be one lag late.
const FIRST_PART_MS: u32 = 2 * KIND_LAG_MS_MAX;

/// The maximum number of waiting seconds: the lag, an `imu` array ahead of it, and the two at the
/// edges.
const SLOTS_MAX: usize =
    ((KIND_LAG_MS_MAX + porchlight_schema::limits::IMU_DURATION_MS_MAX) / WINDOW_MS) as usize + 2;

/// The maximum number of activities that wait for their effect: one per second of the delay, and
/// the edges.
const ACTIVITIES_MAX: usize = (KIND_LAG_MS_MAX / WINDOW_MS) as usize + 2;

/// The maximum number of marks that wait for their effect; there are two kinds of marks.
const MARKS_MAX: usize = 2 * ACTIVITIES_MAX;

/// The greatest number of steps in a second. Walking takes about 2, running 3; a sprint does not
/// exceed 5. A counter may also report the steps of one lag together.
const STEPS_PER_SEC_MAX: u32 = 5;

/// The time up to which a kind has reported, in milliseconds since the session's start, plus one; 0
/// if it has not reported.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Passed(u32);

impl Passed {
    fn ms(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    /// Records that the kind has reported up to this time.
    fn raise(&mut self, passed_ms: u32) {
        self.0 = self.0.max(passed_ms.saturating_add(1));
    }
}

/// Reduces samples to windows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Intake {
    counts: IntakeCounts,
    /// The time up to which each kind has reported, milliseconds since the session's start.
    passed_ms: [Passed; Kind::ALL.len()],
    newest_ms: Option<u32>,
    /// The time from which a window may be emitted early: as soon as every kind received so far has
    /// passed its end, instead of a whole lag later.
    early_from_ms: u32,
    /// The start of the first waiting window; earlier windows were already emitted.
    next_ms: u32,
    slots: VecDeque<Slot>,
    last_count: Option<u32>,
    reported_speed: ReportedSpeed,
    accel: Option<Box<AccelReducer>>,
    accelerometer: Accelerometer,
    activities: VecDeque<WaitingActivity>,
    activity: Option<(ActivityType, f32)>,
    marks: VecDeque<WaitingMark>,
    arrived_ms: Option<u32>,
    dropped_off_ms: Option<u32>,
    /// The newest emitted window.
    emitted: Option<Emitted>,
}

/// The kinds that measure have the first numbers, followed by the kinds that are sent on change.
const MEASURING_KINDS: usize = Kind::Activity as usize;

/// Returns whether samples of the kind are measurements, sent regularly.
pub(crate) fn measures(kind: Kind) -> bool {
    (kind as usize) < MEASURING_KINDS
}

impl Intake {
    /// Returns the number of samples taken and dropped so far.
    #[must_use]
    pub fn counts(&self) -> IntakeCounts {
        self.counts
    }

    /// Returns the number of bytes on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.activities.capacity() * size_of::<WaitingActivity>()
            + self.marks.capacity() * size_of::<WaitingMark>()
            + self.accel.as_ref().map_or(0, |_| size_of::<AccelReducer>())
    }

    /// Takes the next sample, in the order of `seq` and of its position in the batch; `sink`
    /// receives the windows completed by it. A sample that goes back in time within its kind, or
    /// lags too much, is dropped and counted. Equal times are not a step back, except for fixes: a
    /// phone that repeats its last fix gives it the same time, and the repetition adds no
    /// information. Returns `false` if the sample was dropped.
    #[inline(always)]
    pub fn push(
        &mut self,
        context: &SessionContext,
        sample: Sample<'_>,
        sink: &mut impl FnMut(&Window),
    ) -> bool {
        let (kind, t_ms) = (sample.kind(), sample.t_ms());
        if t_ms > SAMPLE_T_MS_MAX || !self.admits(kind, t_ms) {
            return false;
        }
        if self.newest_ms.is_none() {
            self.early_from_ms = t_ms.saturating_add(FIRST_PART_MS);
            self.next_ms = t_ms.saturating_sub(KIND_LAG_MS_MAX) / WINDOW_MS * WINDOW_MS;
        }
        let newest_ms = self.newest_ms.map_or(t_ms, |newest_ms| newest_ms.max(t_ms));
        self.newest_ms = Some(newest_ms);
        // Windows that lie a whole lag behind are emitted first, so that few windows wait,
        // regardless of the size of the jump.
        self.emit_windows(newest_ms.saturating_sub(KIND_LAG_MS_MAX), sink);
        let place_ms = place_ms(&sample);
        // The sample may be too late for its window, which happens only to a kind without earlier
        // samples. Windows wait for this kind from now on.
        let is_taken = !measures(kind) || place_ms >= self.next_ms;
        if is_taken {
            self.counts.taken[kind as usize] = self.counts.taken[kind as usize].saturating_add(1);
        } else {
            self.counts.lagging = self.counts.lagging.saturating_add(1);
        }
        if let Sample::Imu(imu) = sample {
            let passed_ms = self.take_imu(context, &imu);
            self.passed_ms[kind as usize].raise(passed_ms);
            self.emit_early(sink);
            return is_taken;
        }
        let since_ms = self.passed_ms[kind as usize].ms();
        // The sample does not belong to any of the windows that it completes; they are emitted
        // first, so that few windows wait.
        self.passed_ms[kind as usize].raise(place_ms);
        self.emit_early(sink);
        if !measures(kind) {
            self.slot_of_any_kind_at(place_ms);
        }
        self.take(context, sample, place_ms, since_ms);
        is_taken
    }

    /// Ends the session and emits the waiting windows.
    pub fn finish(&mut self, sink: &mut impl FnMut(&Window)) {
        let end_ms = self
            .next_ms
            .saturating_add(self.slots.len() as u32 * WINDOW_MS);
        self.emit_windows(end_ms, sink);
    }

    /// Returns whether a sample is neither out of order nor too late, and counts it if not.
    fn admits(&mut self, kind: Kind, t_ms: u32) -> bool {
        let passed_ms = self.passed_ms[kind as usize].ms();
        // An `imu` array reports its end as passed, and the next one may begin slightly before it
        // because of clock jitter.
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

    /// Emits the windows that every measuring kind received so far has passed.
    fn emit_early(&mut self, sink: &mut impl FnMut(&Window)) {
        if self.newest_ms < Some(self.early_from_ms) {
            return;
        }
        let end_ms = self.next_ms.saturating_add(WINDOW_MS);
        let mut kinds = self.passed_ms.iter().take(MEASURING_KINDS);
        let until_ms = kinds.try_fold(u32::MAX, |until_ms, kind| {
            // The value of a kind that has not reported wraps around to more than any time.
            let passed_ms = kind.0.wrapping_sub(1);
            (passed_ms >= end_ms).then_some(until_ms.min(passed_ms))
        });
        if let Some(until_ms) = until_ms.filter(|&until_ms| until_ms < u32::MAX) {
            self.emit_all(until_ms, sink);
        }
    }

    /// Takes a sample of any kind but `imu`. `since_ms` is the time of its kind's last sample.
    #[inline(always)]
    fn take(
        &mut self,
        context: &SessionContext,
        sample: Sample<'_>,
        place_ms: u32,
        since_ms: Option<u32>,
    ) {
        match sample {
            Sample::Location(location) => self.take_location(context, &location),
            Sample::Pressure(pressure) => {
                if let Some(slot) = self.slot_at(place_ms) {
                    slot.take_pressure(pressure.hpa);
                }
            }
            Sample::Steps(steps) => self.take_steps(steps, since_ms),
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
        let (accuracy_m, accuracy_known) = Fix::accuracy(location.accuracy_m);
        let mut fix = Fix {
            t_ms: location.t_ms,
            place,
            accuracy_m,
            accuracy_known,
            speed_mps: location.speed_mps,
            bearing_deg: location.bearing_deg,
            altitude_m: location.altitude_m,
            mock: location.mock,
            provider: location.provider,
        };
        fix.speed_mps = self.reported_speed.trusted(&fix);
        if let Some(slot) = self.slot_at(location.t_ms) {
            slot.take_fix(fix);
        }
    }

    fn take_steps(&mut self, steps: Steps, since_ms: Option<u32>) {
        let before = self.last_count.replace(steps.count);
        let apart_ms = steps.t_ms.saturating_sub(since_ms.unwrap_or(steps.t_ms));
        let most = apart_ms.saturating_add(KIND_LAG_MS_MAX) / 1_000 * STEPS_PER_SEC_MAX;
        // The first count covers the time since the phone was started; a lower count is a restart,
        // from 0, or a correction if nobody takes as many steps since the count before.
        let risen = match before {
            None => 0,
            Some(before) if steps.count < before && steps.count > most => 0,
            Some(before) if steps.count < before => steps.count,
            Some(before) => (steps.count - before).min(most),
        };
        if let Some(slot) = self.slot_at(steps.t_ms) {
            slot.take_steps(u16::try_from(risen).unwrap_or(u16::MAX));
        }
    }

    /// Takes an activity. Of several in one second the last counts.
    fn take_activity(&mut self, activity: Activity) {
        let second = activity.t_ms / WINDOW_MS;
        if self
            .activities
            .back()
            .is_some_and(|newest| newest.t_ms / WINDOW_MS == second)
        {
            self.activities.pop_back();
        }
        self.activities.push_back(WaitingActivity {
            t_ms: activity.t_ms,
            activity_type: activity.activity_type,
            confidence: activity.confidence,
        });
        // Two waiting activities in order cannot be further apart than the delay, or the older one
        // has taken effect: this is only a bound.
        if self.activities.len() > ACTIVITIES_MAX {
            self.activities.pop_front();
        }
    }

    /// Processes a mark. Of several marks of one kind in one second the last counts; an arrival
    /// never replaces a drop-off.
    fn take_mark(&mut self, t_ms: u32, name: MarkName) {
        let is_drop_off = name.is_drop_off();
        if !is_drop_off && name != MarkName::Arrived {
            return;
        }
        let is_same = |other: &WaitingMark| {
            other.t_ms / WINDOW_MS == t_ms / WINDOW_MS && other.is_drop_off == is_drop_off
        };
        if let Some(place) = self.marks.iter().rposition(is_same) {
            self.marks.remove(place);
        }
        self.marks.push_back(WaitingMark { t_ms, is_drop_off });
        if self.marks.len() > MARKS_MAX {
            self.marks.pop_front();
        }
    }

    /// Takes an array second by second and returns the time up to which it reaches.
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
                slot.record_sample(at_ms, end_ms.min(to_ms));
            }
            at_ms = end_ms;
        }
        self.accel = Some(accel);
        to_ms
    }

    /// Returns the slot of the window that contains `t_ms`, for a sample of a measuring kind.
    /// Returns `None` if the window was already emitted.
    fn slot_at(&mut self, t_ms: u32) -> Option<&mut Slot> {
        let slot = self.slot_of_any_kind_at(t_ms)?;
        slot.is_measured = true;
        Some(slot)
    }

    /// Returns the slot of the window that contains `t_ms`, for a sample of any kind.
    fn slot_of_any_kind_at(&mut self, t_ms: u32) -> Option<&mut Slot> {
        let place = (t_ms.checked_sub(self.next_ms)? / WINDOW_MS) as usize;
        if place >= SLOTS_MAX {
            return None;
        }
        while self.slots.len() <= place {
            self.slots.push_back(Slot::default());
        }
        let slot = self.slots.get_mut(place)?;
        slot.record_sample(t_ms, t_ms);
        Some(slot)
    }

    /// Emits the windows that end at or before `until_ms`.
    fn emit_windows(&mut self, until_ms: u32, sink: &mut impl FnMut(&Window)) {
        // Most samples do not complete a window.
        if until_ms.saturating_sub(self.next_ms) >= WINDOW_MS {
            self.emit_all(until_ms, sink);
        }
    }

    /// Emits the waiting windows that end at or before `until_ms`, of which there is at least one.
    #[inline(never)]
    fn emit_all(&mut self, until_ms: u32, sink: &mut impl FnMut(&Window)) {
        while let Some(end_ms) = self
            .next_ms
            .checked_add(WINDOW_MS)
            .filter(|&end_ms| end_ms <= until_ms)
        {
            let start_ms = self.next_ms;
            let Some(slot) = self.slots.front_mut() else {
                // No window waits: the rest up to that time is silence.
                self.next_ms = until_ms / WINDOW_MS * WINDOW_MS;
                break;
            };
            self.next_ms = end_ms;
            if let Some((motion, _)) = self.accel.as_mut().and_then(|accel| accel.close(start_ms)) {
                slot.take_imu(motion);
            }
            if slot.has_sample() {
                let mut window = slot.window(start_ms);
                self.slots.pop_front();
                self.apply_delayed(end_ms);
                window.activity = self.activity;
                window.arrived_ms = self.arrived_ms;
                window.dropped_off_ms = self.dropped_off_ms;
                self.accelerometer.filter(&mut window);
                self.emit_one(&mut window, sink);
            } else {
                self.slots.pop_front();
                self.apply_delayed(end_ms);
            }
        }
        // When all kinds arrive regularly, only one or two seconds wait.
        if self.slots.capacity() > 4 && self.slots.len() <= 2 {
            self.slots.shrink_to(2);
        }
    }

    /// Emits a window, and the empty windows of a short silence before it.
    fn emit_one(&mut self, window: &mut Window, sink: &mut impl FnMut(&Window)) {
        let first_ms = window.silent_since_ms.take().unwrap_or(window.t_ms);
        if let Some(before) = self.emitted {
            if first_ms.saturating_sub(before.last_sample_ms) >= GAP_MS {
                window.silent_since_ms = Some(before.last_sample_ms);
            } else {
                let mut t_ms = before.end_ms;
                while t_ms < window.t_ms {
                    sink(&Window {
                        t_ms,
                        last_sample_ms: t_ms,
                        activity: window.activity,
                        arrived_ms: window.arrived_ms,
                        dropped_off_ms: window.dropped_off_ms,
                        ..Window::default()
                    });
                    t_ms += WINDOW_MS;
                }
            }
        }
        self.emitted = Some(Emitted {
            end_ms: window.end_ms(),
            last_sample_ms: window.last_sample_ms,
        });
        sink(window);
    }

    /// Applies the waiting activities and marks whose delay has passed by the end of a window.
    fn apply_delayed(&mut self, end_ms: u32) {
        while let Some(waiting) = self.activities.front() {
            if waiting.t_ms.saturating_add(KIND_LAG_MS_MAX) >= end_ms {
                break;
            }
            self.activity = Some((waiting.activity_type, waiting.confidence));
            self.activities.pop_front();
        }
        while let Some(&WaitingMark { t_ms, is_drop_off }) = self.marks.front() {
            if t_ms.saturating_add(KIND_LAG_MS_MAX) >= end_ms {
                break;
            }
            if is_drop_off {
                self.dropped_off_ms = Some(t_ms);
            } else {
                self.arrived_ms = Some(t_ms);
            }
            self.marks.pop_front();
        }
    }
}
