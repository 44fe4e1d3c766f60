//! `BACKTRACKING`: turning round and going one's own way back, before the drop-off.

use std::collections::VecDeque;

use porchlight_schema::event::{EventType, Metadata};
use porchlight_schema::limits::KIND_LAG_MS_MAX;
use serde::{Deserialize, Serialize};

use super::constants::{
    CRUMB_ACCURACY_M_MAX, CRUMB_M, CRUMB_NEW, REST_LOG_ODDS, REST_SEC_MIN, RETRACE_ACCURACIES,
    RETRACE_COSINE_MAX, RETRACE_M_MIN, RETRACE_MISSES_MAX, RETRACE_NEAR_M, RETRACE_NEAR_M_MAX,
    RETRACE_UNSEEN_M_MIN, RETRACE_WITHIN_MS, RETURN_NEAR_M, STOPPED_MS_MIN, VISIT_MS_MIN,
    VISIT_NEAR_MS, VISIT_STRIDE_MS,
};
use super::{Detector, Observation, confidence};
use crate::context::SessionContext;
use crate::geo::Place;
use crate::timeline::EventLog;

/// Crumbs kept: 64 of 5 m are 320 m of path (research 2.3).
const CRUMBS: usize = 64;
/// Crumbs that must lie between the way there and the way back: the turn itself.
const TURN_CRUMBS: usize = 2;

/// A point of the path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Crumb {
    t_ms: u32,
    place: Place,
}

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
    crumbs: VecDeque<Crumb>,
    retrace: Option<Retrace>,
    /// The body is measured: stays are seen by it.
    has_body: bool,
    /// Seconds running in which it was at rest, as far as they count.
    rest_sec: u8,
    /// The newest stay, from and to.
    stay_ms: Option<(u32, u32)>,
    /// A stay near the address was seen: what follows is the way back to the vehicle.
    is_return: bool,
}

impl Detector for BacktrackingDetector {
    fn observe(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        if log.open_event(EventType::Driving).is_some() {
            self.end(log);
            *self = Self::default();
            return;
        }
        let changes_floor = log.open_event(EventType::Stairs).is_some()
            || log.open_event(EventType::Elevator).is_some();
        if changes_floor {
            self.end(log);
            self.crumbs.clear();
            // Whoever has changed floors is in the building: the next way in the open leads back.
            self.is_return = true;
        }
        let gait = observation.gait;
        self.has_body |= gait.is_measured;
        if gait.log_odds < -REST_LOG_ODDS {
            self.rest_sec = self.rest_sec.saturating_add(1);
        } else if gait.log_odds > REST_LOG_ODDS {
            self.rest_sec = 0;
        }
        self.see_stay(context, observation, log);
        for fix in observation.window.fixes() {
            // Who stays goes no way, however the fixes wander.
            let stays = self.has_body && self.rest_sec >= REST_SEC_MIN;
            if fix.accuracy_m > CRUMB_ACCURACY_M_MAX || changes_floor || stays {
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
            self.place = Some(place);
            self.step(
                Crumb {
                    t_ms: fix.t_ms,
                    place,
                },
                log,
            );
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

impl BacktrackingDetector {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.crumbs.capacity() * size_of::<Crumb>()
    }

    fn see_stay(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let Some(stay) = log.newest_event(EventType::Stopped).copied() else {
            return;
        };
        let t_ms = stay.t_end_ms.unwrap_or(observation.window.t_ms);
        self.stay_ms = Some((stay.t_start_ms, t_ms));
        // A stay ends the way back.
        if let Some(retrace) = &mut self.retrace
            && stay.t_start_ms > retrace.turn_ms.saturating_add(VISIT_NEAR_MS)
        {
            retrace.last_ms = retrace.last_ms.min(stay.t_start_ms);
            self.end(log);
        }
        let is_long = t_ms.saturating_sub(stay.t_start_ms) >= STOPPED_MS_MIN + KIND_LAG_MS_MAX / 2;
        let near_m = RETURN_NEAR_M + context.accuracy_m.max(self.accuracy_m);
        let is_new = observation.window.t_ms.saturating_sub(t_ms) <= VISIT_NEAR_MS;
        if is_long
            && is_new
            && self.crumbs.len() > TURN_CRUMBS
            && self
                .place
                .is_some_and(|place| place.distance_m(Place::default()) <= near_m)
        {
            self.is_return = true;
        }
    }

    /// Whether somebody who turned at `turn_ms` had stayed there: at a door, and not on the wrong way.
    fn is_visit(&self, turn_ms: u32) -> bool {
        self.stay_ms.is_some_and(|(from_ms, to_ms)| {
            to_ms.saturating_sub(from_ms) >= VISIT_MS_MIN
                && (from_ms.saturating_sub(VISIT_NEAR_MS)..=to_ms.saturating_add(VISIT_NEAR_MS))
                    .contains(&turn_ms)
        })
    }

    fn step(&mut self, crumb: Crumb, log: &mut EventLog) {
        let Some(last) = self.crumbs.back().copied() else {
            self.crumbs.push_back(crumb);
            return;
        };
        let stride_m = crumb.place.distance_m(last.place);
        if stride_m < CRUMB_M {
            return;
        }
        // Where no body shows a stay, the path does.
        if !self.has_body && crumb.t_ms.saturating_sub(last.t_ms) >= VISIT_MS_MIN + VISIT_STRIDE_MS
        {
            self.stay_ms = Some((last.t_ms, crumb.t_ms));
        }
        let there = self.there(&last, &crumb);
        if self.crumbs.len() == CRUMBS {
            self.crumbs.pop_front();
        }
        self.crumbs.push_back(crumb);
        match (&mut self.retrace, there) {
            (None, None) => {}
            (None, Some(there)) => {
                let turn_ms = there.t_ms + (crumb.t_ms - there.t_ms) / 2;
                if self.is_visit(turn_ms) {
                    self.is_return = true;
                }
                self.retrace = Some(Retrace {
                    turn_ms,
                    last_ms: crumb.t_ms,
                    there_ms: there.t_ms,
                    // From the turn to here half of the way between was already gone back.
                    length_m: stride_m,
                    misses: 0,
                    is_open: false,
                });
            }
            (Some(retrace), Some(there)) if there.t_ms <= retrace.there_ms => {
                retrace.length_m += stride_m;
                (retrace.last_ms, retrace.there_ms, retrace.misses) = (crumb.t_ms, there.t_ms, 0);
                let least_m = if self.has_body {
                    RETRACE_M_MIN.max(self.accuracy_m)
                } else {
                    RETRACE_UNSEEN_M_MIN.max(1.5 * self.accuracy_m)
                };
                if !retrace.is_open && !self.is_return && retrace.length_m >= least_m {
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
        // Of most crumbs it is enough to know that they are far away: roots are drawn for those near by alone.
        let far_m2 = near_m * near_m * 1.001;
        let older = self.crumbs.len().saturating_sub(TURN_CRUMBS);
        let mut best: Option<(f32, Crumb)> = None;
        let is_near = |here: &Crumb| {
            let east_m = here.place.east_m - crumb.place.east_m;
            let north_m = here.place.north_m - crumb.place.north_m;
            east_m * east_m + north_m * north_m <= far_m2
        };
        let (oldest, newest) = self.crumbs.as_slices();
        let near = oldest.iter().enumerate().filter(|(_, here)| is_near(here));
        let newer = (oldest.len()..).zip(newest);
        let near = near.chain(newer.filter(|(_, here)| is_near(here)));
        for (place, here) in near {
            let Some(next) = self.crumbs.get(place + 1).filter(|_| place < older) else {
                break;
            };
            let apart_m = here.place.distance_m(crumb.place);
            if apart_m > near_m || crumb.t_ms.saturating_sub(here.t_ms) > RETRACE_WITHIN_MS {
                continue;
            }
            let way_m = next.place.distance_m(here.place);
            let along = step_east * (next.place.east_m - here.place.east_m)
                + step_north * (next.place.north_m - here.place.north_m);
            let is_against = along <= RETRACE_COSINE_MAX * way_m * step_m;
            if is_against && best.is_none_or(|(best_m, _)| apart_m < best_m) {
                best = Some((apart_m, *here));
            }
        }
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
