//! `BACKTRACKING`: turning round and going one's own way back, before the drop-off.

mod trail;

use porchlight_schema::event::{EventType, Metadata};
use porchlight_schema::limits::KIND_LAG_MS_MAX;
use serde::{Deserialize, Serialize};

use super::constants::{
    COURSE_NEW, CRUMB_ACCURACY_M_MAX, CRUMB_M, CRUMB_NEW, REST_LOG_ODDS, REST_SEC_MIN,
    RETRACE_ACCURACIES, RETRACE_COSINE_MAX, RETRACE_M_MIN, RETRACE_MISSES_MAX, RETRACE_NEAR_M,
    RETRACE_NEAR_M_MAX, RETRACE_UNSEEN_M_MIN, RETRACE_WITHIN_MS, RETURN_NEAR_M, STOPPED_MS_MIN,
    VISIT_MS_MIN, VISIT_NEAR_MS, VISIT_STRIDE_MS,
};
use super::{Detector, Observation, confidence};
use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::geo::Place;
use crate::window::WINDOW_MS;
use trail::{Course, Crumb, Trail};

/// Crumbs that must lie between the way there and the way back: the turn itself.
const TURN_CRUMBS: usize = 2;

/// A way back that is being gone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Retrace {
    /// When the turn was, and the newest crumb on the way there.
    turn_ms: u32,
    last_ms: u32,
    /// Time of the crumb of the way there that was reached.
    there_ms: u32,
    length_m: f32,
    misses: u8,
    is_open: bool,
}

/// Finds ways gone twice.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct BacktrackingDetector {
    place: Option<Place>,
    accuracy_m: f32,
    trail: Trail,
    retrace: Option<Retrace>,
    /// The body is measured: stays are seen by it.
    has_body: bool,
    /// Seconds running in which it was at rest, as far as they count.
    rest_sec: u8,
    /// The newest stay, from and to.
    stay_ms: Option<(u32, u32)>,
    /// A stay near the address was seen: what follows is the way back to the vehicle.
    is_return: bool,
    /// The newest second in which the body was at rest.
    rest_ms: u32,
    /// Whether the phone has told a speed of its own: then a fix without one is not of satellites, and leads nowhere.
    tells_speed: bool,
    /// The newest pause where the address itself may be, from and to.
    door_ms: Option<(u32, u32)>,
    /// When the newest pause ended.
    pause_ms: u32,
    /// Length of the way since the newest crumb, metres.
    gone_m: f32,
    /// The phone's own course over ground, as of late, degrees.
    course_deg: Option<f32>,
}

impl Detector for BacktrackingDetector {
    #[inline]
    fn observe(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let drive = log.newest_event(EventType::Driving);
        if drive.is_some_and(|drive| drive.t_end_ms.is_none()) {
            self.end(log);
            *self = Self::default();
            return;
        }
        // What follows the hand-over is the way to the vehicle.
        let left_ms = drive.and_then(|drive| drive.t_end_ms).unwrap_or(0);
        self.is_return |= observation
            .window
            .handed_over_ms
            .is_some_and(|ms| ms >= left_ms);
        let changes_floor = log.open_event(EventType::Stairs).is_some()
            || log.open_event(EventType::Elevator).is_some();
        if changes_floor {
            self.end(log);
            self.trail = Trail::default();
            // Whoever has changed floors is in the building: the next way in the open leads back.
            self.is_return = true;
        }
        // On the way to the vehicle no way back begins: until the next drive there is nothing to remember.
        if self.is_return && !self.retrace.is_some_and(|retrace| retrace.is_open) {
            if !self.trail.is_empty() {
                *self = Self {
                    is_return: true,
                    ..Self::default()
                };
            }
            return;
        }
        let gait = observation.gait;
        self.has_body |= gait.is_measured;
        if gait.log_odds < -REST_LOG_ODDS {
            self.rest_sec = self.rest_sec.saturating_add(1);
            self.rest_ms = observation.window.end_ms();
        } else if gait.log_odds > REST_LOG_ODDS {
            self.rest_sec = 0;
        }
        self.see_pause(context);
        self.see_stay(context, observation, log);
        for fix in observation.window.fixes() {
            // Who stays goes no way, however the fixes wander.
            let stays = self.has_body && self.rest_sec >= REST_SEC_MIN;
            self.tells_speed |= fix.speed_mps.is_some();
            let is_loose = self.tells_speed && fix.speed_mps.is_none();
            if fix.accuracy_m > CRUMB_ACCURACY_M_MAX || changes_floor || stays || is_loose {
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
                self.gone_m += place.distance_m(before);
            }
            self.course_deg = fix.bearing_deg.map(|now_deg| {
                let before_deg = self.course_deg.unwrap_or(now_deg);
                let turned_deg = once_round(now_deg - before_deg + 540.0) - 180.0;
                once_round(before_deg + COURSE_NEW * turned_deg + 360.0)
            });
            let crumb = Crumb {
                t_ms: fix.t_ms,
                place,
                course: Course::of_degrees(self.course_deg),
            };
            self.step(context, crumb, log);
        }
    }

    fn finish(&mut self, _context: &SessionContext, _t_ms: u32, log: &mut EventLog) {
        self.end(log);
        *self = Self {
            is_return: self.is_return,
            ..Self::default()
        };
    }
}

/// The remainder of a whole circle, of degrees below three of them: exactly what `%` gives, which is a call that divides bit
/// by bit.
fn once_round(deg: f32) -> f32 {
    if deg < 360.0 {
        deg
    } else if deg < 720.0 {
        deg - 360.0
    } else {
        deg - 720.0
    }
}

impl BacktrackingDetector {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.trail.heap_bytes()
    }

    /// A parcel is put down in less time than makes a stay: at the address itself a pause is enough.
    fn see_pause(&mut self, context: &SessionContext) {
        if self.rest_sec < REST_SEC_MIN {
            return;
        }
        // The smoothed place is as much as a crumb behind.
        let near_m = CRUMB_M + context.accuracy_m.max(self.accuracy_m);
        let is_here = self
            .place
            .is_some_and(|place| place.distance_m(Place::default()) <= near_m);
        if is_here {
            let length_ms = u32::from(self.rest_sec) * WINDOW_MS;
            self.door_ms = Some((self.rest_ms.saturating_sub(length_ms), self.rest_ms));
        }
        if self.rest_sec >= REST_SEC_MIN {
            self.pause_ms = self.rest_ms;
        }
    }

    fn see_stay(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let Some(stay) = log.newest_event(EventType::Stopped) else {
            return;
        };
        let (start_ms, end_ms) = (stay.t_start_ms, stay.t_end_ms);
        // That a stay has ended is known late; the body shows it before.
        let newest_ms = if self.has_body {
            self.rest_ms.max(start_ms)
        } else {
            observation.window.t_ms
        };
        let t_ms = end_ms.unwrap_or(newest_ms);
        self.stay_ms = Some((start_ms, t_ms));
        // A stay ends the way back.
        if let Some(retrace) = &mut self.retrace
            && start_ms > retrace.turn_ms.saturating_add(VISIT_NEAR_MS)
        {
            retrace.last_ms = retrace.last_ms.min(start_ms);
            self.end(log);
        }
        let is_long = t_ms.saturating_sub(start_ms) >= STOPPED_MS_MIN + KIND_LAG_MS_MAX / 2;
        let is_new = observation.window.t_ms.saturating_sub(t_ms) <= VISIT_NEAR_MS;
        if is_long
            && is_new
            && self
                .trail
                .get(TURN_CRUMBS)
                .is_some_and(|crumb| crumb.t_ms < start_ms)
            && self
                .place
                .is_some_and(|place| place.distance_m(Place::default()) <= self.near_m(context))
        {
            self.is_return = true;
        }
    }

    /// A stay this near to the address may be the drop-off, metres.
    fn near_m(&self, context: &SessionContext) -> f32 {
        RETURN_NEAR_M + context.accuracy_m.max(self.accuracy_m)
    }

    /// Whether somebody who turned at `turn_ms` had stayed there: at a door, and not on the wrong way.
    fn is_visit(&self, turn_ms: u32) -> bool {
        let is_at_turn = |(from_ms, to_ms): (u32, u32), near_ms: u32| {
            (from_ms.saturating_sub(near_ms)..=to_ms.saturating_add(near_ms)).contains(&turn_ms)
        };
        let is_long =
            |&(from_ms, to_ms): &(u32, u32)| to_ms.saturating_sub(from_ms) >= VISIT_MS_MIN;
        let is_stay = |stay| is_at_turn(stay, VISIT_NEAR_MS);
        self.stay_ms.filter(is_long).is_some_and(is_stay)
            || self
                .door_ms
                .is_some_and(|pause| is_at_turn(pause, VISIT_STRIDE_MS))
    }

    fn step(&mut self, context: &SessionContext, crumb: Crumb, log: &mut EventLog) {
        let Some(last) = self.trail.newest() else {
            self.trail.push(crumb);
            return;
        };
        let stride_m = crumb.place.distance_m(last.place);
        if stride_m < CRUMB_M {
            return;
        }
        // Who turned on the way here went beyond the last crumb and back.
        let beyond_m = (core::mem::take(&mut self.gone_m) - stride_m).clamp(0.0, 2.0 * CRUMB_M);
        // Where no body shows a stay, the path does.
        if !self.has_body && crumb.t_ms.saturating_sub(last.t_ms) >= VISIT_MS_MIN + VISIT_STRIDE_MS
        {
            self.stay_ms = Some((last.t_ms, crumb.t_ms));
        }
        let there = self.there(&last, &crumb);
        self.trail.push(crumb);
        match (&mut self.retrace, there) {
            (None, None) => {}
            (None, Some(there)) => {
                self.turn(context, &there, &crumb, beyond_m);
            }
            (Some(retrace), Some(there)) if there.t_ms <= retrace.there_ms => {
                retrace.length_m += stride_m;
                (retrace.last_ms, retrace.there_ms, retrace.misses) = (crumb.t_ms, there.t_ms, 0);
                let least_m = if self.has_body {
                    RETRACE_M_MIN.max(self.accuracy_m)
                } else {
                    RETRACE_UNSEEN_M_MIN.max(1.5 * self.accuracy_m)
                };
                let turn_ms = retrace.turn_ms;
                if retrace.is_open || self.is_return || retrace.length_m < least_m {
                    return;
                }
                // The stay at the turn may have been too short for a visit when the way back began.
                if self.is_visit(turn_ms) {
                    self.is_return = true;
                } else if let Some(retrace) = &mut self.retrace {
                    retrace.is_open = true;
                    log.open(
                        EventType::Backtracking,
                        retrace.turn_ms,
                        confidence::of_retraced(0.0),
                        retrace.metadata(),
                    );
                }
            }
            (Some(retrace), _) => {
                retrace.misses += 1;
                if retrace.misses >= RETRACE_MISSES_MAX {
                    self.end(log);
                }
            }
        }
    }

    /// A way back begins: `crumb`, the newest, lies beside `there` on the way there; the last stride was longer by `beyond_m`
    /// than its ends are apart.
    fn turn(&mut self, context: &SessionContext, there: &Crumb, crumb: &Crumb, beyond_m: f32) {
        // Of the way from there to here the second half leads back, but for what the two lie apart.
        let way_m = self.trail.way_m(there.t_ms) + beyond_m;
        let ahead_m = self.trail.ahead_m(there, crumb.place);
        let length_m = ((way_m - ahead_m) / 2.0).clamp(CRUMB_M / 2.0, way_m);
        let back_ms = (crumb.t_ms - there.t_ms) as f32 * length_m / way_m.max(CRUMB_M);
        let mut turn_ms = crumb.t_ms - (back_ms as u32).min(crumb.t_ms - there.t_ms);
        // Who looked round there turned back when he went on.
        if (there.t_ms..crumb.t_ms).contains(&self.pause_ms) {
            turn_ms = turn_ms.max(self.pause_ms);
        }
        // Where no body shows a stay, turning back near the address is what a visit to its door looks like.
        let is_unseen =
            !self.has_body && crumb.place.distance_m(Place::default()) <= self.near_m(context);
        if is_unseen || self.is_visit(turn_ms) {
            self.is_return = true;
        }
        self.retrace = Some(Retrace {
            turn_ms,
            last_ms: crumb.t_ms,
            there_ms: there.t_ms,
            length_m,
            misses: 0,
            is_open: false,
        });
    }

    /// The crumb of the way there beside which `crumb` lies, if the step to it runs against that way.
    fn there(&self, last: &Crumb, crumb: &Crumb) -> Option<Crumb> {
        // Both ways are off, each by as much as its fixes.
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
            // Most ways beside this one lead along it.
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
            // Of equals the older.
            let is_better = |&(best_m, best): &(f32, Crumb)| {
                apart_m < best_m || (apart_m == best_m && here.t_ms < best.t_ms)
            };
            if is_against && best.as_ref().is_none_or(is_better) {
                best = Some((apart_m, here));
            }
        });
        best.map(|(_, crumb)| crumb)
    }

    fn end(&mut self, log: &mut EventLog) {
        if let Some(retrace) = self.retrace.take().filter(|retrace| retrace.is_open) {
            log.close(
                EventType::Backtracking,
                retrace.last_ms,
                confidence::of_retraced(retrace.length_m - RETRACE_M_MIN),
                retrace.metadata(),
            );
        }
    }
}

impl Retrace {
    fn metadata(&self) -> Metadata {
        Metadata::Backtracking {
            retraced_m: self.length_m.round() as u32,
        }
    }
}
