//! Detects `BACKTRACKING`: the courier turns round and retraces the path, before the drop-off.

mod retrace;
mod trail;

use porchlight_schema::event::EventType;
use porchlight_schema::limits::KIND_LAG_MS_MAX;
use serde::{Deserialize, Serialize};

use super::parameters::backtracking::{
    COURSE_NEW, CRUMB_ACCURACY_M_MAX, CRUMB_M, CRUMB_NEW, REST_SEC_MIN, RETRACE_ACCURACIES,
    RETRACE_COSINE_MAX, RETRACE_M_MIN, RETRACE_MISSES_MAX, RETRACE_NEAR_M, RETRACE_NEAR_M_MAX,
    RETRACE_UNSEEN_ACCURACIES, RETRACE_UNSEEN_M_MIN, RETRACE_WITHIN_MS, RETURN_NEAR_M,
    VISIT_MS_MIN, VISIT_NEAR_MS, VISIT_STRIDE_MS,
};
use super::parameters::gait::REST_LOG_ODDS;
use super::parameters::gate::GATE_VEHICLE_MPS;
use super::parameters::runs::STOPPED_MS_MIN;
use super::{Detector, Observation, confidence};
use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::geo::Place;
use crate::window::{Fix, WINDOW_MS};
use retrace::{Retrace, Visit};
use trail::{Course, Crumb, Trail};

/// The number of crumbs (points of the path, [`CRUMB_M`] apart) that must lie between the outbound
/// path and the return path: the turn itself.
const TURN_CRUMBS: usize = 2;

/// A detector that finds retraced paths.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct BacktrackingDetector {
    place: Option<Place>,
    accuracy_m: f32,
    trail: Trail,
    retrace: Option<Retrace>,
    /// Whether a sensor measures the body, so that rest shows stays.
    has_body: bool,
    /// The number of consecutive seconds in which the body was at rest; it saturates.
    rest_sec: u8,
    /// The start and end of the newest stay.
    stay_ms: Option<(u32, u32)>,
    /// The place of the newest stay.
    stay_place: Option<Place>,
    /// Whether the courier has stayed at another door and turned there.
    has_visited: bool,
    /// The longest return path after a stay at another door. It was before the drop-off if a stay
    /// near the address follows.
    unreported: Option<Retrace>,
    /// Whether the path leads back to the vehicle, because the courier has dropped off the parcel
    /// or visited the address.
    is_return: bool,
    /// The newest second in which the body was at rest.
    rest_ms: u32,
    /// Whether the phone has reported a speed of its own. If so, a fix without one is not from
    /// satellites and is ignored.
    reports_speed: bool,
    /// The start and end of the newest pause at a place that may be that of the address.
    address_pause_ms: Option<(u32, u32)>,
    /// The time at which the newest pause ended.
    last_pause_end_ms: u32,
    /// The length of the path since the newest crumb, metres.
    walked_m: f32,
    /// The phone's own recent course over ground, degrees.
    course_deg: Option<f32>,
}

impl Detector for BacktrackingDetector {
    fn heap_bytes(&self) -> usize {
        self.trail.heap_bytes()
    }

    #[inline]
    fn observe(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let drive = log.newest_event(EventType::Driving);
        if drive.is_some_and(|drive| drive.t_end_ms.is_none()) {
            self.end_retrace(context, log);
            *self = Self::default();
            return;
        }
        // After the drop-off, the path leads to the vehicle.
        let left_ms = drive.and_then(|drive| drive.t_end_ms).unwrap_or(0);
        let dropped_off_ms = observation.window.dropped_off_ms;
        if dropped_off_ms.is_some_and(|ms| ms >= left_ms) {
            self.mark_drop_off(context, log);
        }
        let changes_floor = log.is_open(EventType::Stairs) || log.is_open(EventType::Elevator);
        if changes_floor {
            self.end_retrace(context, log);
            self.trail = Trail::default();
            // A courier who has changed floors is in the building: the next path in the open leads
            // back.
            self.mark_drop_off(context, log);
        }
        // No return path begins on the way to the vehicle: until the next drive there is nothing to
        // remember.
        if self.is_return && !self.retrace.is_some_and(|retrace| retrace.is_open) {
            if !self.trail.is_empty() {
                *self = Self {
                    is_return: true,
                    ..Self::default()
                };
            }
            return;
        }
        // Behind a wall a fix may be off by far more than it claims.
        let has_bad_reception =
            log.is_open(EventType::GpsDegraded) || log.is_open(EventType::GpsLost);
        let gait = observation.gait;
        self.has_body |= gait.is_measured;
        if gait.log_odds < -REST_LOG_ODDS {
            self.rest_sec = self.rest_sec.saturating_add(1);
            self.rest_ms = observation.window.end_ms();
        } else if gait.log_odds > REST_LOG_ODDS {
            self.rest_sec = 0;
        }
        self.record_pause(context);
        self.record_stay(context, observation, log);
        for fix in observation.window.fixes() {
            self.reports_speed |= fix.speed_mps.is_some_and(|mps| mps > 0.0);
            if changes_floor || has_bad_reception || !self.is_on_path(fix) {
                continue;
            }
            self.accuracy_m = fix.accuracy_m;
            let place = match self.place {
                None => fix.place,
                Some(before) => Place {
                    east_m: before.east_m + CRUMB_NEW * (fix.place.east_m - before.east_m),
                    north_m: before.north_m + CRUMB_NEW * (fix.place.north_m - before.north_m),
                },
            };
            if let Some(before) = self.place.replace(place) {
                self.walked_m += place.distance_m(before);
            }
            self.course_deg = fix.bearing_deg.map(|now_deg| {
                let before_deg = self.course_deg.unwrap_or(now_deg);
                let turned_deg = within_circle_deg(now_deg - before_deg + 540.0) - 180.0;
                within_circle_deg(before_deg + COURSE_NEW * turned_deg + 360.0)
            });
            let crumb = Crumb {
                t_ms: fix.t_ms,
                place,
                course: Course::of_degrees(self.course_deg),
            };
            self.add_crumb(context, crumb, log);
        }
    }

    fn finish(&mut self, context: &SessionContext, _t_ms: u32, log: &mut EventLog) {
        self.end_retrace(context, log);
        *self = Self {
            is_return: self.is_return,
            ..Self::default()
        };
    }
}

/// Reduces an angle below 1,080 degrees to one below 360. The result equals that of `% 360.0`,
/// which is a slow call because it divides bit by bit.
fn within_circle_deg(deg: f32) -> f32 {
    if deg < 360.0 {
        deg
    } else if deg < 720.0 {
        deg - 360.0
    } else {
        deg - 720.0
    }
}

impl BacktrackingDetector {
    /// Returns whether a fix shows the path: it is accurate and from satellites, and the body is
    /// not at rest. Fixes of a body at rest wander.
    fn is_on_path(&self, fix: &Fix) -> bool {
        let is_at_rest = self.has_body && self.rest_sec >= REST_SEC_MIN;
        let is_non_satellite = self.reports_speed && fix.speed_mps.is_none();
        fix.accuracy_m <= CRUMB_ACCURACY_M_MAX && !is_at_rest && !is_non_satellite
    }

    /// Records a pause at the address itself. Putting down a parcel takes less time than a stay, so
    /// a pause is enough there.
    fn record_pause(&mut self, context: &SessionContext) {
        if self.rest_sec < REST_SEC_MIN {
            return;
        }
        // The smoothed place lags by up to one crumb.
        let near_m = CRUMB_M + context.accuracy_m.max(self.accuracy_m);
        let is_here = self
            .place
            .is_some_and(|place| place.distance_m(Place::default()) <= near_m);
        if is_here {
            let length_ms = u32::from(self.rest_sec) * WINDOW_MS;
            self.address_pause_ms = Some((self.rest_ms.saturating_sub(length_ms), self.rest_ms));
        }
        self.last_pause_end_ms = self.rest_ms;
    }

    /// Records the newest stay. It ends the return path, and a long stay near the address is the
    /// drop-off.
    fn record_stay(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let Some(stay) = log.newest_event(EventType::Stopped) else {
            return;
        };
        let (start_ms, end_ms) = (stay.t_start_ms, stay.t_end_ms);
        // The end of a stay is known late; the body shows it earlier.
        let newest_ms = if self.has_body {
            self.rest_ms.max(start_ms)
        } else {
            observation.window.t_ms
        };
        let t_ms = end_ms.unwrap_or(newest_ms);
        if self
            .stay_ms
            .is_none_or(|(known_ms, _)| known_ms != start_ms)
        {
            self.stay_place = self.place;
        }
        self.stay_ms = Some((start_ms, t_ms));
        // A stay ends the return path.
        if let Some(retrace) = &mut self.retrace
            && start_ms > retrace.turn_ms.saturating_add(VISIT_NEAR_MS)
        {
            retrace.last_ms = retrace.last_ms.min(start_ms);
            self.end_retrace(context, log);
        }
        let is_long = t_ms.saturating_sub(start_ms) >= STOPPED_MS_MIN + KIND_LAG_MS_MAX / 2;
        let is_new = observation.window.t_ms.saturating_sub(t_ms) <= VISIT_NEAR_MS;
        if is_long
            && is_new
            && self
                .trail
                .get(TURN_CRUMBS)
                .is_some_and(|crumb| crumb.t_ms < start_ms)
            && self.is_near(context, self.stay_place.or(self.place))
        {
            self.mark_drop_off(context, log);
        }
    }

    /// Returns whether a known place is so near to the address that a stay there may be the
    /// drop-off.
    fn is_near(&self, context: &SessionContext, place: Option<Place>) -> bool {
        place.is_some_and(|place| place.distance_m(Place::default()) <= self.near_m(context))
    }

    /// Records the drop-off, after which the path leads to the vehicle. A return path after a stay
    /// at another door was before the drop-off if the courier is near the address now, and it is
    /// then reported. Further calls do nothing.
    fn mark_drop_off(&mut self, context: &SessionContext, log: &mut EventLog) {
        if core::mem::replace(&mut self.is_return, true) {
            return;
        }
        if !self.retrace.is_some_and(|retrace| retrace.is_open) {
            self.end_retrace(context, log);
        }
        let unreported = self.unreported.take();
        if let Some(retrace) = unreported.filter(|_| self.is_near(context, self.place)) {
            self.open(context, &retrace, log);
            self.close(context, &retrace, log);
        }
    }

    /// Returns the distance from the address, metres, within which a stay may be the drop-off.
    fn near_m(&self, context: &SessionContext) -> f32 {
        RETURN_NEAR_M + context.accuracy_m.max(self.accuracy_m)
    }

    /// Returns the stay at the turn at `turn_ms`, if the courier stayed there as at a door. Without
    /// a stay the courier turned on a wrong path.
    fn visit(&self, context: &SessionContext, turn_ms: u32) -> Option<Visit> {
        let is_at_turn = |(from_ms, to_ms): (u32, u32), near_ms: u32| {
            (from_ms.saturating_sub(near_ms)..=to_ms.saturating_add(near_ms)).contains(&turn_ms)
        };
        let is_long =
            |&(from_ms, to_ms): &(u32, u32)| to_ms.saturating_sub(from_ms) >= VISIT_MS_MIN;
        let is_stay = |stay| is_at_turn(stay, VISIT_NEAR_MS);
        let is_pause = |pause| is_at_turn(pause, VISIT_STRIDE_MS);
        if self.address_pause_ms.is_some_and(is_pause) {
            return Some(Visit::ToAddress);
        }
        self.stay_ms.filter(is_long).filter(|&stay| is_stay(stay))?;
        Some(match self.stay_place {
            Some(_) if !self.is_near(context, self.stay_place) => Visit::Elsewhere,
            _ => Visit::ToAddress,
        })
    }

    /// Returns the length from which a return path counts, metres.
    fn least_m(&self) -> f32 {
        if self.has_body {
            RETRACE_M_MIN.max(self.accuracy_m)
        } else {
            RETRACE_UNSEEN_M_MIN.max(RETRACE_UNSEEN_ACCURACIES * self.accuracy_m)
        }
    }

    /// Adds a crumb if it is far enough from the last one, and follows the return path.
    fn add_crumb(&mut self, context: &SessionContext, crumb: Crumb, log: &mut EventLog) {
        let Some(last) = self.trail.newest() else {
            self.trail.push(crumb);
            return;
        };
        let stride_m = crumb.place.distance_m(last.place);
        if stride_m < CRUMB_M {
            return;
        }
        // If positions jump farther than anybody runs, the path before the jump does not lead here,
        // so the trail begins again.
        let stride_sec = crumb.t_ms.saturating_sub(last.t_ms) as f32 / 1_000.0;
        if stride_m > GATE_VEHICLE_MPS * stride_sec {
            self.end_retrace(context, log);
            self.trail = Trail::default();
            self.trail.push(crumb);
            self.walked_m = 0.0;
            return;
        }
        // The path since the last crumb is longer than the distance to it if the courier went on
        // and turned.
        let beyond_m = (core::mem::take(&mut self.walked_m) - stride_m).clamp(0.0, 2.0 * CRUMB_M);
        // If no body is measured, the path shows the stay.
        if !self.has_body && crumb.t_ms.saturating_sub(last.t_ms) >= VISIT_MS_MIN + VISIT_STRIDE_MS
        {
            self.stay_ms = Some((last.t_ms, crumb.t_ms));
            self.stay_place = Some(last.place);
        }
        let outbound = self.outbound_crumb(&last, &crumb);
        self.trail.push(crumb);
        let least_m = self.least_m();
        match (&mut self.retrace, outbound) {
            (None, None) => {}
            (None, Some(outbound)) => {
                self.begin_retrace(context, &outbound, &crumb, beyond_m);
            }
            (Some(retrace), Some(outbound)) if outbound.t_ms <= retrace.outbound_ms => {
                retrace.length_m += stride_m;
                (retrace.last_ms, retrace.outbound_ms, retrace.misses) =
                    (crumb.t_ms, outbound.t_ms, 0);
                let (is_open, turn_ms) = (retrace.is_open, retrace.turn_ms);
                if is_open || self.is_return || retrace.length_m < least_m {
                    return;
                }
                // When the return path began, the stay at the turn may have been too short for a
                // visit.
                self.record_visit(context, turn_ms);
                if let Some(retrace) = &mut self.retrace
                    && !self.is_return
                {
                    retrace.is_after_visit |= self.has_visited;
                    retrace.is_open = !retrace.is_after_visit;
                    if retrace.is_open {
                        let retrace = *retrace;
                        self.open(context, &retrace, log);
                    }
                }
            }
            (Some(retrace), _) => {
                retrace.misses += 1;
                if retrace.misses >= RETRACE_MISSES_MAX {
                    self.end_retrace(context, log);
                }
            }
        }
    }

    /// Begins a return path: `crumb`, the newest, lies next to `outbound` on the outbound path. The
    /// last stride was `beyond_m` longer than the distance between its ends.
    fn begin_retrace(
        &mut self,
        context: &SessionContext,
        outbound: &Crumb,
        crumb: &Crumb,
        beyond_m: f32,
    ) {
        // The second half of the path from `outbound` to here leads back, except for the distance
        // between the two.
        let way_m = self.trail.path_m(outbound.t_ms) + beyond_m;
        let ahead_m = self.trail.ahead_m(outbound, crumb.place);
        let length_m = ((way_m - ahead_m) / 2.0).clamp(CRUMB_M / 2.0, way_m);
        let back_ms = (crumb.t_ms - outbound.t_ms) as f32 * length_m / way_m.max(CRUMB_M);
        let mut turn_ms = crumb.t_ms - (back_ms as u32).min(crumb.t_ms - outbound.t_ms);
        // A courier who paused there to look round turned back when the walk continued.
        if (outbound.t_ms..crumb.t_ms).contains(&self.last_pause_end_ms) {
            turn_ms = turn_ms.max(self.last_pause_end_ms);
        }
        // If no body is measured, turning back near the address looks the same as a visit to its
        // door.
        self.is_return |= !self.has_body && self.is_near(context, Some(crumb.place));
        self.record_visit(context, turn_ms);
        self.retrace = Some(Retrace {
            turn_ms,
            last_ms: crumb.t_ms,
            outbound_ms: outbound.t_ms,
            length_m,
            misses: 0,
            is_open: false,
            is_after_visit: self.has_visited,
        });
    }

    /// Records a stay at the turn: near the address, the path leads to the vehicle; elsewhere, it
    /// may.
    fn record_visit(&mut self, context: &SessionContext, turn_ms: u32) {
        match self.visit(context, turn_ms) {
            Some(Visit::ToAddress) => self.is_return = true,
            Some(Visit::Elsewhere) => self.has_visited = true,
            None => {}
        }
    }

    /// Returns the crumb of the outbound path closest to `crumb`, if the step to `crumb` runs
    /// against that path.
    fn outbound_crumb(&self, last: &Crumb, crumb: &Crumb) -> Option<Crumb> {
        // Each of the two paths is off by the error of its fixes.
        let near_m =
            (RETRACE_ACCURACIES * self.accuracy_m).clamp(RETRACE_NEAR_M, RETRACE_NEAR_M_MAX);
        let (step_east, step_north) = (
            crumb.place.east_m - last.place.east_m,
            crumb.place.north_m - last.place.north_m,
        );
        let step_m = crumb.place.distance_m(last.place);
        let older = self.trail.len().saturating_sub(TURN_CRUMBS);
        let mut best: Option<(f32, Crumb)> = None;
        self.trail.each_near(crumb.place, near_m, |number| {
            if number >= older {
                return;
            }
            let (Some(here), Some(next)) = (self.trail.get(number), self.trail.get(number + 1))
            else {
                return;
            };
            let along = step_east * (next.place.east_m - here.place.east_m)
                + step_north * (next.place.north_m - here.place.north_m);
            // Most paths next to this one run in the same direction.
            if along > 0.0 || crumb.t_ms.saturating_sub(here.t_ms) > RETRACE_WITHIN_MS {
                return;
            }
            let apart_m = here.place.distance_m(crumb.place);
            if apart_m > near_m {
                return;
            }
            if next.course.is_along(crumb.course) {
                return;
            }
            let way_m = next.place.distance_m(here.place);
            let is_against = along <= RETRACE_COSINE_MAX * way_m * step_m;
            // If two crumbs are equally near, the older one is kept.
            let is_better = |&(best_m, best): &(f32, Crumb)| {
                apart_m < best_m || (apart_m == best_m && here.t_ms < best.t_ms)
            };
            if is_against && best.as_ref().is_none_or(is_better) {
                best = Some((apart_m, here));
            }
        });
        best.map(|(_, crumb)| crumb)
    }

    /// Ends the return path in progress, if there is one.
    fn end_retrace(&mut self, context: &SessionContext, log: &mut EventLog) {
        let Some(retrace) = self.retrace.take() else {
            return;
        };
        if retrace.is_open {
            self.close(context, &retrace, log);
        } else if retrace.is_after_visit && retrace.length_m >= self.least_m() {
            let known_m = self.unreported.map_or(0.0, |known| known.length_m);
            self.unreported = (retrace.length_m > known_m)
                .then_some(retrace)
                .or(self.unreported);
        }
    }

    fn open(&self, context: &SessionContext, retrace: &Retrace, log: &mut EventLog) {
        log.open(
            EventType::Backtracking,
            retrace.turn_ms,
            confidence::of_retraced(context.confidences, 0.0),
            retrace.metadata(),
        );
    }

    fn close(&self, context: &SessionContext, retrace: &Retrace, log: &mut EventLog) {
        log.close(
            EventType::Backtracking,
            retrace.last_ms,
            confidence::of_retraced(context.confidences, retrace.length_m - RETRACE_M_MIN),
            retrace.metadata(),
        );
    }
}
