//! Distinguishes a gate from the wait for an elevator and from a landing of the stairs.

use porchlight_schema::event::EventType;

use super::GateDetector;
use super::pause::Pause;
use crate::context::SessionContext;
use crate::detect::Observation;
use crate::detect::parameters::gate::{
    GATE_CABIN_SEC, GATE_CLIMBED_M, GATE_CLIMBED_SEC, GATE_IN_CABIN_MS, GATE_STAIRS_EARLY_MS,
    GATE_TO_CABIN_MS,
};
use crate::event_log::EventLog;

impl GateDetector {
    /// Handles an open climb or ride: the pause before it was the wait for the elevator, or it was
    /// a gate on the way.
    pub(super) fn handle_climb(&mut self, context: &SessionContext, log: &mut EventLog) {
        let start_of = |event_type| log.open_event(event_type).map(|event| event.t_start_ms);
        if let Some(start_ms) = start_of(EventType::Elevator) {
            self.judge_before_ride(context, start_ms, log);
        } else if let Some(start_ms) = start_of(EventType::Stairs) {
            self.judge_before_stairs(context, start_ms, log);
        } else {
            return;
        }
        self.approach.enter_building();
        self.walk_sec = 0;
    }

    /// Judges the pauses before stairs. A pause that began on the stairs is one on a landing.
    fn judge_before_stairs(&mut self, context: &SessionContext, start_ms: u32, log: &mut EventLog) {
        for mut pause in [self.earlier.take(), self.pause.take()]
            .into_iter()
            .flatten()
        {
            pause.leads_to_climb = true;
            let is_before = pause
                .end_ms
                .is_some_and(|end_ms| start_ms.saturating_add(GATE_STAIRS_EARLY_MS) >= end_ms);
            if is_before {
                self.judge(context, &pause, log);
            }
        }
    }

    /// Counts a second, and returns whether the pause was the wait for an elevator: after a few steps
    /// the height changes at rest for several seconds. The pressure leap of a door lasts less.
    pub(super) fn count_climb_at_rest(&mut self, observation: &Observation<'_>) -> bool {
        let both = observation.height_m.zip(self.rest_m);
        let is_away =
            both.is_some_and(|(height_m, rest_m)| (height_m - rest_m).abs() >= GATE_CLIMBED_M);
        self.away_sec = if is_away && self.is_resting {
            self.away_sec.saturating_add(1)
        } else {
            0
        };
        let before = self.earlier.as_ref().or(self.pause.as_ref());
        self.away_sec >= GATE_CLIMBED_SEC
            && self.walk_sec <= GATE_CABIN_SEC
            && before.is_some_and(|pause| pause.end_ms.is_some())
    }

    /// Returns whether the courier may be in a cabin of which nothing shows yet that it moves:
    /// the courier rests a few steps from the pause, on a phone without a barometer.
    pub(super) fn may_ride(&self, pause: &Pause) -> bool {
        self.is_resting
            && self.has_acceleration
            && !pause.has_pressure
            && pause.walks == 1
            && self.walked_sec <= GATE_CABIN_SEC
    }

    /// Judges the pauses before a ride: the newest is the wait for the cabin or the time in it, and
    /// the earlier one may have been at the main door.
    pub(super) fn judge_before_ride(
        &mut self,
        context: &SessionContext,
        start_ms: u32,
        log: &mut EventLog,
    ) {
        let (earlier, newest) = (self.earlier.take(), self.pause.take());
        // If steps followed the newest pause, they led into the cabin. If it lasted longer than the
        // doors of a cabin stay open, it was the wait and the time in the cabin. In both cases the
        // earlier pause was on the way to it.
        let has_waited = newest.as_ref().is_some_and(|pause| {
            pause.end_ms.is_some() || start_ms.saturating_sub(pause.start_ms) >= GATE_IN_CABIN_MS
        });
        for (pause, has_waited) in [(earlier, has_waited), (newest, false)] {
            let Some(mut pause) = pause else { continue };
            pause.leads_to_climb = true;
            let is_far_before = |end_ms: u32| start_ms >= end_ms.saturating_add(GATE_TO_CABIN_MS);
            if has_waited || pause.end_ms.is_some_and(is_far_before) {
                self.judge(context, &pause, log);
            } else {
                self.judge_door_before_cabin(context, &pause, log);
            }
        }
    }

    /// Judges a pause seconds before a ride. It is the wait for the cabin, unless a leap of the
    /// pressure while it lasted shows a door. A known entrance says nothing here, since the
    /// elevator is near it.
    fn judge_door_before_cabin(
        &mut self,
        context: &SessionContext,
        pause: &Pause,
        log: &mut EventLog,
    ) {
        if pause.end_ms.is_some() && pause.has_swing_within {
            self.judge(context, pause, log);
        }
    }
}
