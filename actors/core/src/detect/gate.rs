//! `GATE`: a pause on the approach, after which the walk continues through the gate. The evidence
//! is weighed once the walk has continued.

mod approach;
mod climb;
mod pause;
mod vehicle;

use porchlight_schema::event::{EventType, Metadata};
use serde::{Deserialize, Serialize};

use super::motion::Gait;
use super::{Detector, Observation, confidence};
use crate::context::SessionContext;
use crate::detect::parameters::gate::{
    GATE_CABIN_SEC, GATE_CLIMBED_MS, GATE_DECIDE_MS, GATE_GAIT_LOG_ODDS, GATE_GPS_SILENT_MS,
    GATE_INSIDE_ACCURACY_M, GATE_LEFT_MS, GATE_LOG_ODDS_MIN, GATE_MARK_MS, GATE_NEAR_M,
    GATE_NOISE_M_MAX, GATE_NOISE_NEW, GATE_OUTSIDE_ACCURACY_M, GATE_OUTSIDE_USUAL, GATE_PACED_M,
    GATE_PAUSE_EVIDENCE, GATE_PAUSE_MS_MAX, GATE_PAUSE_MS_MIN, GATE_PLACES_MS,
    GATE_RESUME_EVIDENCE, GATE_SILENT_INTERVALS, GATE_SWING_M, GATE_SWING_NOISE,
    GATE_UNSEEN_RIDE_MS, GATE_WALK_SEC,
};
use crate::detect::parameters::position::{INTERVAL_MS_MAX, INTERVAL_NEW};
use crate::detect::parameters::runs::STOPPED_MS_MIN;
use crate::event_log::EventLog;
use crate::geo::Place;
use crate::window::WINDOW_MS;
use approach::Approach;
use pause::Pause;
use vehicle::{EarlierFix, WalkFromVehicle};

/// The maximum number of seconds of walking that count.
const WALK_SEC_MAX: u8 = 60;
/// The number of places kept for the direction of the walk, some seconds apart.
const PLACES: usize = 4;

/// Returns the seconds of a walk, at most [`WALK_SEC_MAX`].
fn walk_sec(walk_ms: u32) -> u8 {
    (walk_ms / WINDOW_MS).min(u32::from(WALK_SEC_MAX)) as u8
}

/// The evidence, added up since a second, that the courier has changed from walking to rest or
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct ChangeEvidence {
    since_ms: u32,
    sum: f32,
}

impl ChangeEvidence {
    /// Adds the evidence of a second, and starts over if the sum has fallen to zero.
    fn add(&mut self, t_ms: u32, evidence: f32) {
        if self.sum <= 0.0 {
            *self = Self {
                since_ms: t_ms,
                sum: 0.0,
            };
        }
        self.sum = (self.sum + evidence).max(0.0);
    }
}

/// A detector that finds gates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct GateDetector {
    /// The number of seconds of walking before the newest rest, at most [`WALK_SEC_MAX`].
    walk_sec: u8,
    /// The evidence for rest while walking, or for walking while at rest.
    change: ChangeEvidence,
    /// The evidence of `change` without the newest second.
    change_before: ChangeEvidence,
    is_resting: bool,
    /// The start of the newest rest, in milliseconds since the session's start.
    rest_ms: u32,
    /// The value of `walk_sec` at the start of the newest rest.
    walked_sec: u8,
    /// The height at which the newest rest was recognised, metres.
    rest_m: Option<f32>,
    /// The number of consecutive seconds at a height as different from `rest_m` as after a ride.
    away_sec: u8,
    pause: Option<Box<Pause>>,
    /// The previous pause, a few steps from the current one: a wait for an elevator, or a gate
    /// before a door.
    earlier: Option<Box<Pause>>,
    /// The time at which the courier reported the drop-off, since the vehicle was left. The path
    /// after it is not an approach.
    dropped_off_ms: Option<u32>,
    /// Whether a drive is open, so that a pause is one in traffic.
    is_driving: bool,
    /// The time from which a pause is on foot; an earlier one began in the vehicle.
    walk_from_ms: u32,
    /// The newest usable fixes, some seconds apart, newest last.
    places: [Option<EarlierFix>; PLACES],
    accuracy_m: f32,
    /// The time of the newest fix.
    fix_ms: Option<u32>,
    /// The usual time between two fixes, milliseconds.
    interval_ms: f32,
    last_height_m: Option<f32>,
    /// The usual change of height from second to second, metres.
    noise_m: f32,
    approach: Approach,
    walk: WalkFromVehicle,
    /// Whether the phone has sent acceleration.
    has_acceleration: bool,
}

impl Detector for GateDetector {
    fn heap_bytes(&self) -> usize {
        [&self.pause, &self.earlier].into_iter().flatten().count() * size_of::<Pause>()
    }

    #[inline]
    fn observe(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        log: &mut EventLog,
    ) {
        let t_ms = observation.window.t_ms;
        self.has_acceleration |= observation.window.motion.is_some();
        let drive = log.newest_event(EventType::Driving);
        let left_ms = drive.map_or(0, |drive| drive.t_end_ms.unwrap_or(t_ms));
        self.walk_from_ms = drive.map_or(0, |_| left_ms + GATE_LEFT_MS);
        self.is_driving = drive.is_some_and(|drive| drive.t_end_ms.is_none());
        if self.is_driving {
            // The end of a drive is known late: the courier may already be on foot.
            self.approach.start_drive();
        }
        self.dropped_off_ms = observation
            .window
            .dropped_off_ms
            .filter(|&ms| ms >= left_ms.max(self.approach.since_ms()));
        let swing_m = self.observe_pressure_swing_m(observation);
        let has_fix = observation.window.last_fix().is_some();
        if has_fix {
            self.track_vehicle(observation);
            self.record_places(observation);
        }
        let is_climbing = log.is_open(EventType::Stairs) || log.is_open(EventType::Elevator);
        if has_fix {
            self.approach.observe(observation, is_climbing);
        }
        if is_climbing {
            self.handle_climb(context, log);
        }
        let gait = observation.gait.log_odds;
        self.add_evidence(t_ms, &observation.gait);
        if gait > GATE_GAIT_LOG_ODDS {
            self.walk.count_walk();
        }
        if gait > GATE_GAIT_LOG_ODDS && !self.is_resting {
            self.walk_sec = self.walk_sec.saturating_add(1).min(WALK_SEC_MAX);
        }
        if self.is_resting && self.change.sum >= GATE_RESUME_EVIDENCE {
            self.end_rest(observation);
        } else if !self.is_resting && self.change.sum >= GATE_PAUSE_EVIDENCE {
            self.is_resting = true;
            self.change_before = ChangeEvidence::default();
            let since_ms = core::mem::take(&mut self.change).since_ms;
            self.begin_rest(context, observation, since_ms, log);
        }
        let is_silent = self.pause.is_some() && self.is_silent(observation);
        if let Some(pause) = &mut self.pause {
            pause.observe(observation, swing_m, is_silent);
            if let Some(fix) = self.places[PLACES - 1].filter(|_| !self.is_resting) {
                pause.set_onward(fix.t_ms, fix.place, fix.accuracy_m);
            }
        }
        if self.count_climb_at_rest(observation) {
            self.judge_before_ride(context, t_ms.saturating_sub(GATE_CLIMBED_MS), log);
        }
        if self.pause.is_some() {
            self.decide(context, t_ms, log);
        }
    }

    fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        // If the session ends before the walk has led away from a pause, the pause may be the door.
        self.pause.take_if(|pause| !pause.leads_on(context));
        self.decide(context, t_ms.saturating_add(GATE_DECIDE_MS), log);
        // The walk from the vehicle continues after a silence, but nothing connects the places, the
        // rests and the pauses before and after the silence.
        self.approach.begin_silence();
        self.walk.begin_silence(self.newest_fix());
        *self = Self {
            noise_m: self.noise_m,
            approach: self.approach,
            walk: self.walk,
            has_acceleration: self.has_acceleration,
            ..Self::default()
        };
    }
}

impl GateDetector {
    /// Adds the evidence of the newest second, and corrects that of the second before, which is
    /// clearer now that its successor is known.
    fn add_evidence(&mut self, t_ms: u32, gait: &Gait) {
        let is_resting = self.is_resting;
        let evidence = |log_odds: f32| {
            if is_resting { log_odds } else { -log_odds }
        };
        if let Some((before, _)) = gait.before {
            self.change = self.change_before;
            self.change
                .add(t_ms.saturating_sub(WINDOW_MS), evidence(before));
        }
        self.change_before = self.change;
        self.change.add(t_ms, evidence(gait.log_odds));
    }

    /// Returns the change of height since the second before, in metres, if it is larger than usual;
    /// otherwise 0. Learns the usual change. Returns `None` without a barometer.
    fn observe_pressure_swing_m(&mut self, observation: &Observation<'_>) -> Option<f32> {
        let height_m = observation.height_m?;
        let before_m = self.last_height_m.replace(height_m)?;
        let leap_m = (height_m - before_m).abs();
        let is_swing = leap_m >= GATE_SWING_M.max(GATE_SWING_NOISE * self.noise_m);
        self.noise_m += GATE_NOISE_NEW * (leap_m.min(GATE_NOISE_M_MAX) - self.noise_m);
        Some(if is_swing { leap_m } else { 0.0 })
    }

    /// Ends the rest when the walk continues.
    fn end_rest(&mut self, observation: &Observation<'_>) {
        self.is_resting = false;
        self.change_before = ChangeEvidence::default();
        let since_ms = core::mem::take(&mut self.change).since_ms;
        // The seconds of gait by which the end of the rest was recognised count as walking.
        self.walk_sec = walk_sec(observation.window.end_ms().saturating_sub(since_ms));
        let rest_ms = since_ms.saturating_sub(self.rest_ms);
        if rest_ms < GATE_PAUSE_MS_MIN {
            // The courier only hesitated: the walk before it counts on.
            let walked_sec = self.walk_sec.saturating_add(self.walked_sec);
            self.walk_sec = walked_sec.min(WALK_SEC_MAX);
            let began_ms = self.rest_ms;
            if self
                .pause
                .take_if(|pause| pause.start_ms == began_ms)
                .is_some()
            {
                self.pause = self.earlier.take();
                self.count_walk();
                return;
            }
        }
        let is_stay = rest_ms >= STOPPED_MS_MIN;
        if let Some(place) = self
            .newest_place()
            .filter(|_| is_stay && self.dropped_off_ms.is_none())
        {
            self.approach.rest_at(place, since_ms);
        }
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.end_ms.is_none()) {
            pause.end_ms = Some(since_ms);
        }
        self.count_walk();
    }

    /// Adds the walk that begins to the count of each pause before it.
    fn count_walk(&mut self) {
        for pause in [&mut self.earlier, &mut self.pause].into_iter().flatten() {
            pause.walks = pause.walks.saturating_add(1);
        }
    }

    /// Tracks the walk from the vehicle.
    fn track_vehicle(&mut self, observation: &Observation<'_>) {
        let is_walking =
            observation.gait.is_measured && observation.gait.log_odds > GATE_GAIT_LOG_ODDS;
        for fix in observation.window.fixes() {
            if self.walk.observe_after_silence(fix) {
                self.approach.restart(fix.t_ms);
            }
            self.walk.observe(fix, self.newest_fix(), is_walking);
        }
    }

    /// Records the places that show the direction of the walk, and the usual interval between
    /// fixes.
    fn record_places(&mut self, observation: &Observation<'_>) {
        for fix in observation.window.fixes() {
            self.accuracy_m = fix.accuracy_m;
            if let Some(before_ms) = self.fix_ms.replace(fix.t_ms) {
                let interval_ms = (fix.t_ms.saturating_sub(before_ms) as f32).min(INTERVAL_MS_MAX);
                self.interval_ms += INTERVAL_NEW * (interval_ms - self.interval_ms);
            }
            if fix.accuracy_m > GATE_NEAR_M {
                continue;
            }
            match self.places[PLACES - 1] {
                Some(newest) if fix.t_ms.saturating_sub(newest.t_ms) < GATE_PLACES_MS => {}
                _ => {
                    self.places.copy_within(1.., 0);
                    self.places[PLACES - 1] = Some(EarlierFix {
                        t_ms: fix.t_ms,
                        place: fix.place,
                        accuracy_m: fix.accuracy_m,
                    });
                }
            }
        }
    }

    /// Returns whether the newest fix is older than the usual interval between fixes explains.
    fn is_silent(&self, observation: &Observation<'_>) -> bool {
        let usual_ms = (GATE_SILENT_INTERVALS * self.interval_ms) as u32;
        observation
            .fix_age_ms
            .is_some_and(|age_ms| age_ms >= GATE_GPS_SILENT_MS.max(usual_ms))
    }

    fn newest_fix(&self) -> Option<EarlierFix> {
        self.places[PLACES - 1]
    }

    fn newest_place(&self) -> Option<Place> {
        self.newest_fix().map(|fix| fix.place)
    }

    /// Begins a rest.
    fn begin_rest(
        &mut self,
        context: &SessionContext,
        observation: &Observation<'_>,
        since_ms: u32,
        log: &mut EventLog,
    ) {
        (self.rest_ms, self.rest_m, self.away_sec) = (since_ms, observation.height_m, 0);
        self.walked_sec = self.walk_sec;
        if self.walk_sec <= GATE_CABIN_SEC
            && let Some(pause) = self.pause.as_mut().filter(|pause| pause.end_ms.is_some())
        {
            pause.rests_nearby = true;
        }
        if !self.approach.is_on() || self.walk_sec < GATE_WALK_SEC {
            return;
        }
        // If two gates are close to each other, the first is decided as it stands. A few steps may
        // lead into a cabin.
        if let Some(pause) = self.earlier.take() {
            self.judge(context, &pause, log);
        }
        if let Some(pause) = self.pause.take() {
            if self.walk_sec <= GATE_CABIN_SEC {
                self.earlier = Some(pause);
            } else {
                self.judge(context, &pause, log);
            }
        }
        if !self.approach.is_on() {
            return;
        }
        let window = observation.window;
        let oldest = self.places.iter().flatten().next();
        self.pause = Some(Box::new(Pause {
            start_ms: since_ms,
            end_ms: None,
            accuracy_m: self.accuracy_m,
            field_ut: window.magnetic_ut,
            from: oldest.map(|fix| fix.place),
            place: self.newest_place(),
            fixes: 1,
            onward: None,
            onward_accuracy_m: 0.0,
            walks: 0,
            least_cosine: None,
            yaw_rad: None,
            has_pressure: observation.height_m.is_some(),
            has_swing: false,
            has_decay: false,
            has_field_change: false,
            is_inside: self.accuracy_m >= GATE_INSIDE_ACCURACY_M || self.is_silent(observation),
            is_arrived: false,
            has_swing_within: false,
            came_sec: self.walk_sec,
            leads_to_climb: false,
            from_vehicle_sec: log
                .newest_event(EventType::Driving)
                .map(|_| self.walk.on_foot_sec()),
            vehicle: self.walk.vehicle(),
            has_returned: self.walk.was_away(),
            rests_nearby: false,
        }));
    }

    /// Decides whether a pause was a gate once the walk has continued for long enough, or the pause
    /// is too long.
    fn decide(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        let is_over = |pause: &Pause| match pause.end_ms {
            Some(end_ms) => {
                let since_ms = t_ms.saturating_sub(end_ms);
                let may_ride = self.may_ride(pause) && since_ms < GATE_UNSEEN_RIDE_MS;
                since_ms >= GATE_DECIDE_MS && !may_ride
            }
            None => t_ms.saturating_sub(pause.start_ms) > GATE_PAUSE_MS_MAX,
        };
        let is_newest_over = self.pause.as_deref().is_some_and(is_over);
        let is_earlier_over = is_newest_over || self.earlier.as_deref().is_some_and(is_over);
        if let Some(pause) = self.earlier.take_if(|_| is_earlier_over) {
            self.judge(context, &pause, log);
        }
        if let Some(pause) = self.pause.take_if(|_| is_newest_over) {
            self.judge(context, &pause, log);
        }
    }

    /// Returns whether the courier paces at the place of a pause, under the open sky: several
    /// walks, or one walk and another rest, have not led away from it. A passage leads away.
    fn is_pacing_at(&self, pause: &Pause) -> bool {
        let is_good = self.accuracy_m <= GATE_OUTSIDE_ACCURACY_M && !pause.has_decay;
        // Behind a door the accuracy value doubles.
        let is_outside = self.accuracy_m <= GATE_OUTSIDE_USUAL * pause.accuracy_m;
        let rests_again = self.is_resting && self.walked_sec >= GATE_WALK_SEC && is_outside;
        let rest = self.pause.as_deref().filter(|_| self.is_resting);
        let here = rest.map_or(self.newest_place(), |rest| rest.place);
        let both = here.zip(pause.place);
        is_good
            && (pause.walks > 1 || rests_again)
            && !pause.leads_to_climb
            && both.is_some_and(|(here, place)| here.distance_m(place) <= GATE_PACED_M)
    }

    /// Judges whether a pause was a gate, by the evidence so far.
    fn judge(&mut self, context: &SessionContext, pause: &Pause, log: &mut EventLog) {
        if self.is_driving || pause.start_ms < self.walk_from_ms {
            return;
        }
        // A search beside the vehicle is not a visit, even if the courier turns round after it.
        let is_visit = pause.is_near(context) && !pause.is_at_vehicle();
        let Some(end_ms) = pause.end_ms else {
            if is_visit {
                self.approach.turn_back(pause);
            }
            return;
        };
        let wait_ms = end_ms.saturating_sub(pause.start_ms);
        if !(GATE_PAUSE_MS_MIN..=GATE_PAUSE_MS_MAX).contains(&wait_ms) {
            return;
        }
        if self
            .dropped_off_ms
            .is_some_and(|ms| ms <= end_ms.saturating_add(GATE_MARK_MS))
        {
            // The path after the drop-off is not an approach.
            self.approach.turn_back(pause);
            return;
        }
        let went_sec = self.is_resting.then_some(self.walk_sec);
        if pause.goes_back() || pause.may_be_at_door(context, went_sec) {
            if wait_ms >= STOPPED_MS_MIN && is_visit {
                self.approach.turn_back(pause);
            }
            return;
        }
        if self.is_pacing_at(pause) && !pause.is_known(context) {
            return;
        }
        let log_odds = pause.log_odds(context, wait_ms);
        if log_odds >= GATE_LOG_ODDS_MIN {
            let metadata = Metadata::Gate {
                wait_sec: (wait_ms + 500) / 1_000,
            };
            let confidence =
                confidence::of_gate(context.confidences, self.has_acceleration, log_odds);
            log.open(EventType::Gate, pause.start_ms, confidence, metadata);
            log.close(EventType::Gate, end_ms, confidence, metadata);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_is_recognised_late_counts_as_a_long_one() {
        assert_eq!(walk_sec(4_999), 4);
        assert_eq!(walk_sec(258_000), WALK_SEC_MAX);
    }
}
