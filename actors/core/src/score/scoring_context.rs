//! Prepares a session for scoring: fixes in order, the height track, and the periods on foot.

mod foot_periods;
mod upstairs;
mod walked;

use std::borrow::Cow;

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::SystemName;

pub(crate) use foot_periods::FootPeriod;

use super::ScoreInput;
pub(crate) use super::body_state::{BodyState, body_state};
use super::counter_delay;
use super::handling;
use super::height::{HeightTrack, Level};
use super::jumps::{self, Jump};
use super::position::{Estimate, SIGMA_M_MIN, fused, mean_of_each};
use crate::geo::Place;
use crate::score::parameters::place::scene::{
    ANCHOR_ACCURACY_M, ANCHOR_AGE_MS, ANCHORS, DOUBTFUL_DRIVE_MS, INDOOR_FACTOR, INDOOR_NEAR_MS,
    NO_PAUSE_MS, RARE_FIX_MS, SILENCE_MS, STEP_OF_DRIVE_MS, TOWN_MPS, USABLE_ACCURACY_M, WALK_MPS,
    WAY_TO_DISTANCE,
};
use crate::score::parameters::place::stays::BEFORE_MS;
use crate::window::{Fix, WINDOW_MS, Window, windows_between};

/// Returns the median of `values`, the upper of the two middle ones for an even number, or `None`
/// if empty. Sorts `values`.
pub(crate) fn median(values: &mut [f32]) -> Option<f32> {
    values.sort_by(f32::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The session, prepared once and read by every part of scoring.
pub(crate) struct ScoringContext<'a> {
    pub(crate) input: &'a ScoreInput<'a>,
    /// The windows, with each step in the second in which it was taken.
    windows: Cow<'a, [Window]>,
    /// The events, without drives that the steps disprove and rides that hands caused.
    pub(crate) timeline: Vec<&'a Event>,
    /// The time of an apparent ride in which hands moved the phone at a door.
    pub(crate) apparent_ride: Option<(u32, u32)>,
    /// The fixes with a credible position: exact enough, not marked as simulated, not reached by a
    /// jump.
    pub(crate) fixes: Vec<Fix>,
    /// For each of these fixes the time at which the phone reported its place first.
    reported_ms: Vec<u32>,
    /// The times of all usable fixes, including those that a jump reached.
    pub(crate) received_ms: Vec<u32>,
    /// The jumps in the positions that were not marked as simulated.
    pub(crate) jumps: Vec<Jump>,
    /// The distance walked up to each window, in metres.
    walked_m: Vec<f32>,
    pub(crate) height: HeightTrack,
    pub(crate) foot_periods: Vec<FootPeriod>,
    /// The time of the drop-off with which the session began on foot.
    pub(crate) began_at_door: Option<u32>,
    /// The end of the session, or of the telemetry if that continues beyond.
    pub(crate) end_ms: u32,
}

impl<'a> ScoringContext<'a> {
    pub(crate) fn new(input: &'a ScoreInput<'a>) -> Self {
        let last_data_ms = last_data_ms(input);
        let end_ms = input.duration_ms.max(last_data_ms).min(super::END_MS_MAX);
        let windows = counter_delay::corrected(input.windows);
        let apparent_ride = handling::apparent_ride(input, &windows, end_ms);
        let height = HeightTrack::new(input.windows);
        let mut timeline = timeline(input, &windows, end_ms);
        upstairs::remove_drives(&mut timeline, &height, end_ms);
        if apparent_ride.is_some() {
            timeline.retain(|event| event.event_type != EventType::Elevator);
        }
        let mut fixes = usable_fixes(input.windows);
        let jumps = jumps::find(&fixes, input.windows, input.clock_steps);
        let received_ms = fixes.iter().map(|fix| fix.t_ms).collect();
        jumps::remove_jumped_fixes(&mut fixes, &jumps);
        let mut foot_periods = foot_periods::find(&timeline, input, &fixes, &height, end_ms);
        let began_at_door =
            foot_periods::start_at_door(&mut foot_periods, &timeline, input, end_ms);
        Self {
            input,
            reported_ms: reported_ms(&fixes),
            fixes,
            received_ms,
            jumps,
            walked_m: walked::up_to_each(&windows, &timeline, end_ms),
            windows,
            height,
            foot_periods,
            began_at_door,
            timeline,
            apparent_ride,
            end_ms,
        }
    }

    /// Returns the windows that begin in `from_ms..to_ms`.
    pub(crate) fn windows(&self, from_ms: u32, to_ms: u32) -> &[Window] {
        windows_between(&self.windows, from_ms, to_ms)
    }

    /// Returns the credible fixes of `from_ms..to_ms`.
    pub(crate) fn fixes(&self, from_ms: u32, to_ms: u32) -> &[Fix] {
        let first = self.fixes.partition_point(|fix| fix.t_ms < from_ms);
        let last = self.fixes.partition_point(|fix| fix.t_ms < to_ms);
        self.fixes.get(first..last).unwrap_or_default()
    }

    /// Returns the credible fixes of `from_ms..to_ms`, each with the accuracy that it still has. A
    /// phone that repeats its last place does not see where the courier walked since: the place is off
    /// by as much.
    pub(crate) fn aged_fixes(&self, from_ms: u32, to_ms: u32) -> impl Iterator<Item = Fix> {
        self.dated_fixes(from_ms, to_ms).map(|(fix, reported_ms)| {
            let strayed_m = self.steps_m(reported_ms, fix.t_ms) * WAY_TO_DISTANCE;
            let accuracy_m = if strayed_m > 0.0 {
                libm::hypotf(fix.accuracy_m, strayed_m)
            } else {
                fix.accuracy_m
            };
            Fix { accuracy_m, ..*fix }
        })
    }

    /// Returns the credible fixes of `from_ms..to_ms`, each with the time at which its place was
    /// reported first.
    fn dated_fixes(
        &self,
        from_ms: u32,
        to_ms: u32,
    ) -> impl DoubleEndedIterator<Item = (&Fix, u32)> {
        let first = self.fixes.partition_point(|fix| fix.t_ms < from_ms);
        let reported_ms = self.reported_ms.get(first..).unwrap_or_default();
        let fixes = self.fixes(from_ms, to_ms);
        (0..fixes.len())
            .filter_map(move |index| Some((fixes.get(index)?, *reported_ms.get(index)?)))
    }

    /// Returns the events of a type, in order.
    pub(crate) fn events(&self, event_type: EventType) -> impl Iterator<Item = &'a Event> {
        self.timeline
            .iter()
            .copied()
            .filter(move |event| event.event_type == event_type)
    }

    /// Returns the end of an event. An event that is still open ends with the session.
    pub(crate) fn end_of(&self, event: &Event) -> u32 {
        event_end_ms(event, self.end_ms)
    }

    /// Returns the start and the end of an event.
    pub(crate) fn span_of(&self, event: &Event) -> (u32, u32) {
        (event.t_start_ms, self.end_of(event))
    }

    /// Returns the start and the end of each event of a type, in order.
    pub(crate) fn spans(&self, event_type: EventType) -> impl Iterator<Item = (u32, u32)> {
        self.events(event_type).map(|event| self.span_of(event))
    }

    /// Returns the changes of floors: first all stairs, then all rides.
    pub(crate) fn climbs(&self) -> impl Iterator<Item = &'a Event> {
        let stairs = self.events(EventType::Stairs);
        stairs.chain(self.events(EventType::Elevator))
    }

    /// Returns whether an event of one of these types covers more than `more_than_ms` of a span.
    pub(crate) fn is_in_event(
        &self,
        types: &[EventType],
        span: (u32, u32),
        more_than_ms: u32,
    ) -> bool {
        self.timeline.iter().any(|event| {
            types.contains(&event.event_type)
                && overlap_ms(self.span_of(event), span) > more_than_ms
        })
    }

    /// Returns the times of bad reception: first all degradations, then all losses.
    pub(crate) fn poor_reception(&self) -> impl Iterator<Item = &'a Event> {
        let degraded = self.events(EventType::GpsDegraded);
        degraded.chain(self.events(EventType::GpsLost))
    }

    /// Returns whether the phone reported that it lost a sensor or the permission to read it.
    pub(crate) fn has_lost_sensor(&self) -> bool {
        let mut system = self.input.system.iter();
        system.any(|(_, name)| matches!(name, SystemName::SensorLost | SystemName::PermissionLost))
    }

    /// Returns the drive at `t_ms`, if the phone was in a moving vehicle.
    pub(crate) fn driving_at(&self, t_ms: u32) -> Option<&'a Event> {
        self.events(EventType::Driving)
            .find(|event| event.t_start_ms <= t_ms && t_ms <= self.end_of(event))
    }

    /// Returns the metres walked on the level in `from_ms..to_ms`, or `None` if a vehicle lies
    /// between.
    pub(crate) fn walked_m(&self, from_ms: u32, to_ms: u32) -> Option<f32> {
        let (from_ms, to_ms) = (from_ms.min(to_ms), from_ms.max(to_ms));
        let drives = self.events(EventType::Driving);
        if drives
            .into_iter()
            .any(|event| event.t_start_ms < to_ms && self.end_of(event) > from_ms)
        {
            return None;
        }
        Some(self.steps_m(from_ms, to_ms))
    }

    /// Returns the metres walked on the level in `from_ms..to_ms`, also if a vehicle lies between.
    fn steps_m(&self, from_ms: u32, to_ms: u32) -> f32 {
        let walked_m = |t_ms: u32| {
            let before = self.windows.partition_point(|window| window.t_ms < t_ms);
            self.walked_m.get(before).copied().unwrap_or(0.0)
        };
        walked_m(to_ms) - walked_m(from_ms)
    }

    /// Estimates the phone's position in `from_ms..=to_ms`: from the fixes of that time, and from
    /// good ones before and after it with the distance walked in between.
    pub(crate) fn estimate(&self, from_ms: u32, to_ms: u32) -> Option<Estimate> {
        let mut inside = mean_of_each(self.aged_fixes(from_ms, to_ms.saturating_add(WINDOW_MS)));
        if self.is_indoors(from_ms, to_ms)
            && let Some(inside) = &mut inside
        {
            inside.sigma_m *= INDOOR_FACTOR;
        }
        // A repeated place is no newer than its first report.
        let good = |(fix, reported_ms): &(&Fix, u32)| {
            fix.t_ms == *reported_ms && fix.accuracy_m <= ANCHOR_ACCURACY_M
        };
        let before = self
            .dated_fixes(from_ms.saturating_sub(ANCHOR_AGE_MS), from_ms)
            .rev()
            .filter(good)
            .take(ANCHORS)
            .filter_map(|(fix, _)| self.estimate_from_anchor(fix, from_ms));
        let after = self
            .dated_fixes(to_ms, to_ms.saturating_add(ANCHOR_AGE_MS))
            .filter(good)
            .take(ANCHORS)
            .filter_map(|(fix, _)| self.estimate_from_anchor(fix, to_ms));
        let best = |a: &Estimate, b: &Estimate| a.sigma_m.total_cmp(&b.sigma_m);
        fused(inside, [before.min_by(best), after.min_by(best)])
    }

    /// Returns whether the phone was indoors: reception was bad, or floors changed, during or
    /// shortly before or after this time.
    pub(crate) fn is_indoors(&self, from_ms: u32, to_ms: u32) -> bool {
        let near = (
            from_ms.saturating_sub(INDOOR_NEAR_MS),
            to_ms.saturating_add(INDOOR_NEAR_MS),
        );
        self.poor_reception()
            .chain(self.climbs())
            .any(|event| overlap_ms(self.span_of(event), near) > 0)
    }

    /// Estimates the position at `t_ms` from an earlier or later fix, and the distance walked
    /// between. While no data was received, the courier may have walked, and between rare fixes the
    /// courier may have driven. Returns `None` if a drive lies between.
    fn estimate_from_anchor(&self, anchor: &Fix, t_ms: u32) -> Option<Estimate> {
        let unrecorded_m = if self.has_rare_fixes() {
            anchor.t_ms.abs_diff(t_ms) as f32 / 1_000.0 * TOWN_MPS
        } else {
            silent_ms(self.input.windows, anchor.t_ms, t_ms) as f32 / 1_000.0 * WALK_MPS
        };
        let strayed_m = (self.walked_m(anchor.t_ms, t_ms)? + unrecorded_m) * WAY_TO_DISTANCE;
        let accuracy_m = anchor.accuracy_m.max(SIGMA_M_MIN);
        let sigma_m = (accuracy_m * accuracy_m + strayed_m * strayed_m).sqrt();
        Some(Estimate {
            place: anchor.place,
            sigma_m,
        })
    }

    /// Returns whether positions are so rare that a drive between two of them remains undetected,
    /// as on phones that report only significant changes.
    pub(crate) fn has_rare_fixes(&self) -> bool {
        let located_ms = (self.received_ms.len() as u32).saturating_mul(RARE_FIX_MS);
        located_ms < last_data_ms(self.input)
    }

    /// Returns the height level at the start of a period on foot.
    pub(crate) fn level_before(&self, foot: FootPeriod) -> Option<Level> {
        let to_ms = foot.from_ms.saturating_add(BEFORE_MS);
        self.height.level(foot.from_ms, to_ms)
    }

    /// Returns the distance of an estimate from the address, and the combined uncertainty of both.
    pub(crate) fn offset_from_address(&self, estimate: Estimate) -> (f32, f32) {
        let address_m = self.input.context.accuracy_m.max(1.0);
        let sigma_m = (estimate.sigma_m * estimate.sigma_m + address_m * address_m).sqrt();
        (estimate.place.distance_m(Place::default()), sigma_m)
    }
}

/// Returns the events of the movement track, in order.
fn movements_of<'a>(timeline: &[&'a Event]) -> Vec<&'a Event> {
    let mut movements: Vec<&Event> = timeline
        .iter()
        .copied()
        .filter(|event| event.event_type.is_movement())
        .collect();
    movements.sort_by_key(|event| event.t_start_ms);
    movements
}

/// Returns the end of an event, or the session's end for an open event (which should not occur).
pub(crate) fn event_end_ms(event: &Event, end_ms: u32) -> u32 {
    event
        .t_end_ms
        .unwrap_or(if event.is_open() {
            end_ms
        } else {
            event.t_start_ms
        })
        .max(event.t_start_ms)
}

/// Returns the silences between `from_ms` and `to_ms`: times without any data that are long enough
/// to hide a walk.
pub(crate) fn silences(windows: &[Window], from_ms: u32, to_ms: u32) -> Vec<(u32, u32)> {
    let first = windows.partition_point(|window| window.t_ms < from_ms);
    let received = windows
        .get(first..)
        .unwrap_or_default()
        .iter()
        .take_while(|window| window.t_ms < to_ms)
        .filter(|window| window.has_measurement);
    let mut last_ms = from_ms;
    let mut silences = Vec::new();
    for (begun_ms, ended_ms) in received
        .map(|window| (window.t_ms, window.end_ms()))
        .chain([(to_ms, to_ms)])
    {
        if begun_ms.saturating_sub(last_ms) >= SILENCE_MS {
            silences.push((last_ms, begun_ms));
        }
        last_ms = last_ms.max(ended_ms);
    }
    silences
}

/// Returns the end of the last second with data.
fn last_data_ms(input: &ScoreInput<'_>) -> u32 {
    let mut windows = input.windows.iter();
    windows
        .rfind(|window| window.has_measurement)
        .map_or(0, Window::end_ms)
}

/// Returns the time of the silences between two instants, in milliseconds.
fn silent_ms(windows: &[Window], a_ms: u32, b_ms: u32) -> u32 {
    silences(windows, a_ms.min(b_ms), a_ms.max(b_ms))
        .iter()
        .map(|silence| silence.1 - silence.0)
        .fold(0, u32::saturating_add)
}

/// Returns the overlap of two spans in milliseconds.
pub(crate) fn overlap_ms(a: (u32, u32), b: (u32, u32)) -> u32 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

/// Returns all fixes of the windows, also those that scoring leaves out.
pub(crate) fn recorded_fixes(windows: &[Window]) -> impl Iterator<Item = &Fix> {
    windows
        .iter()
        .flat_map(|window| window.fixes.iter().flatten())
}

/// Returns the fixes that are exact enough and not marked as simulated, in order of time.
fn usable_fixes(windows: &[Window]) -> Vec<Fix> {
    let mut fixes: Vec<Fix> = recorded_fixes(windows)
        .filter(|fix| !fix.mock && fix.accuracy_m <= USABLE_ACCURACY_M)
        .copied()
        .collect();
    fixes.sort_by_key(|fix| fix.t_ms);
    fixes
}

/// Returns for each fix the time at which the phone reported its place first.
fn reported_ms(fixes: &[Fix]) -> Vec<u32> {
    let mut first: Option<&Fix> = None;
    let reported = fixes.iter().map(|fix| {
        let same = first.filter(|first| first.place == fix.place);
        first.insert(same.unwrap_or(fix)).t_ms
    });
    reported.collect()
}

/// Returns the events without short drives that contain walking or rest only on poor positions:
/// under a roof, positions jump as if the phone drove.
fn timeline<'a>(input: &ScoreInput<'a>, windows: &[Window], end_ms: u32) -> Vec<&'a Event> {
    let bad: Vec<(u32, u32)> = input
        .events
        .iter()
        .filter(|event| {
            matches!(
                event.event_type,
                EventType::GpsDegraded | EventType::GpsLost
            )
        })
        .map(|event| (event.t_start_ms, event_end_ms(event, end_ms)))
        .collect();
    let walks: Vec<(u32, u32)> = input
        .events
        .iter()
        .filter(|event| event.event_type == EventType::Walking)
        .map(|event| (event.t_start_ms, event_end_ms(event, end_ms)))
        .collect();
    let is_doubtful = |event: &Event| {
        let span = (event.t_start_ms, event_end_ms(event, end_ms));
        let length_ms = span.1 - span.0;
        if event.event_type != EventType::Driving || length_ms >= DOUBTFUL_DRIVE_MS {
            return false;
        }
        let windows = windows_between(windows, span.0, span.1);
        let gait = windows
            .iter()
            .filter(|window| body_state(window) == BodyState::Moving)
            .count() as u32;
        let poor_ms = bad
            .iter()
            .map(|&bad| overlap_ms(bad, span))
            .fold(0, u32::saturating_add);
        // A person enters or leaves a vehicle only with a pause.
        let walks_into = walks
            .iter()
            .any(|walk| walk.1.abs_diff(span.0) <= NO_PAUSE_MS);
        let walks_out = walks
            .iter()
            .any(|walk| walk.0.abs_diff(span.1) <= NO_PAUSE_MS);
        gait >= length_ms / STEP_OF_DRIVE_MS
            || poor_ms >= length_ms / 2
            || (walks_into && walks_out)
    };
    input
        .events
        .iter()
        .filter(|event| !is_doubtful(event))
        .collect()
}
