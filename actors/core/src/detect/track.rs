//! The arbiter of the movement track, which turns runs of states into events that never overlap.
//!
//! The arbiter holds one event and the later runs that are not decided. A run of another state ends
//! the event once it is long enough to be an event itself and too long to belong to the preceding
//! event. A halt in traffic belongs to the drive, a landing to the stairs, a stop at an
//! intermediate floor to the ride, and a short pause to the walk.

use porchlight_schema::event::EventType;
use serde::{Deserialize, Serialize};

use super::decode::State;
use super::frame::KeptFrame;
use super::height::LoneRide;
use super::occupancy::Occupancy;
use super::parameters::gps::FIRST_FIX_MS;
use super::parameters::height::HEIGHT_GAP_MS;
use super::parameters::runs::{
    CAME_ON_FOOT_MS_MAX, CREEP_SEC_MIN, DOOR_STOP_MS_MAX, DRIVE_IN_GAIT_MS_MIN,
    HALT_BY_POSITION_MS_MAX, HALT_MS_MAX, PARKED_MOVE_MS_MIN, ROLLING_MPS, SAME_WAY_M_MIN,
    STOPPED_MS_MIN, WALK_SPEED_MPS_MAX,
};
use super::run::{Run, event_type};
use super::short_queue::ShortQueue;
use super::sway::Sway;
use super::tally::Counted;
use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::window::WINDOW_MS;

/// The maximum number of runs that wait behind an event.
const PENDING: usize = 5;

/// Turns runs into events.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Arbiter {
    event: Option<Run>,
    /// The waiting runs. In most seconds no run waits, and the queue takes no memory.
    pending: ShortQueue<Run, PENDING>,
    /// The newest heights, newest last, used for the ends of climbs.
    heights: [Option<f32>; 3],
    /// The time of the newest height.
    height_ms: u32,
    occupancy: Occupancy,
    sway: Sway,
    /// Whether a stay or a walk was an event. Before that, an apparent climb may be a vehicle on a
    /// hill whose first fix has not arrived.
    has_stood: bool,
    /// The number of consecutive seconds in which the body was carried at rest, faster than a walk.
    creep_sec: u8,
    /// The time of the first second.
    first_ms: Option<u32>,
    /// The newest second of walking, or of a ride that pressure showed.
    walked_ms: Option<u32>,
    /// The possible start of a ride that only acceleration shows and that has not ended. A stay
    /// that this ride would make too short is not reported before the ride is known.
    possible_ride_ms: Option<u32>,
    /// The time of the last sample while the session ends. No event reaches beyond it.
    #[serde(skip)]
    last_ms: Option<u32>,
}

impl Arbiter {
    /// Ends the input at `t_ms`: the second that contains this time counts up to it.
    pub(super) fn end_with(&mut self, t_ms: u32) {
        self.last_ms = Some(t_ms);
    }

    /// Processes the next decided second, with a ride that acceleration alone showed and that ended
    /// with this second, and the start of a ride that may be in progress.
    pub(super) fn observe(
        &mut self,
        context: &SessionContext,
        frame: &KeptFrame,
        state: State,
        lone_ride: &mut Option<(u32, LoneRide)>,
        possible_ride_ms: Option<u32>,
        log: &mut EventLog,
    ) {
        let t_ms = frame.t_ms();
        self.first_ms.get_or_insert(t_ms);
        self.possible_ride_ms = possible_ride_ms.or(lone_ride.map(|(_, ride)| ride.start_ms));
        let [.., newest_m] = self.heights;
        if newest_m.is_some() && t_ms.saturating_sub(self.height_ms) > HEIGHT_GAP_MS {
            self.heights = [None; 3];
        }
        let before = self.heights;
        if let Some(height_m) = frame.height_m() {
            let [_, older, newer] = before;
            self.heights = [older, newer, Some(height_m)];
            self.height_ms = t_ms;
        }
        self.settle_height(frame);
        if state == State::Walk || state == State::Ride {
            self.walked_ms = Some(t_ms);
        }
        // A vehicle that is rolling out is not parked yet.
        let rolls = || {
            frame
                .speed_mps()
                .is_some_and(|speed_mps| speed_mps >= ROLLING_MPS)
        };
        let is_drive = |run: &Run| run.state == State::Drive;
        let creeps = self.count_creep(frame, state);
        let is_rolling = creeps || (self.newest().is_some_and(is_drive) && rolls());
        let state = if state == State::Still && is_rolling {
            State::Drive
        } else {
            state
        };
        self.occupancy.observe(frame, state);
        self.sway.observe(frame, state);
        self.append(frame, state, &before);
        self.resolve(context, log);
        if let Some((_, ride)) = lone_ride.take_if(|(end_ms, _)| *end_ms <= t_ms) {
            self.insert_ride(context, frame, &ride, log);
        }
    }

    /// Counts a second, and returns whether a vehicle that halted in traffic moves up: only the halt
    /// followed the drive, and the body is carried at rest faster than a person walks.
    fn count_creep(&mut self, frame: &KeptFrame, state: State) -> bool {
        let is_fast = state == State::Still
            && frame.has_body()
            && !frame.is_non_satellite()
            && frame
                .speed_mps()
                .is_some_and(|speed_mps| speed_mps > WALK_SPEED_MPS_MAX);
        self.creep_sec = if is_fast {
            self.creep_sec.saturating_add(1)
        } else {
            0
        };
        self.creep_sec >= CREEP_SEC_MIN
            && self.event.is_some_and(|event| event.state == State::Drive)
            && self.pending.iter().all(|run| run.state == State::Still)
    }

    /// Inserts a ride that only acceleration showed, which is known when it ends. The stay reported
    /// in its place ends where the ride began.
    fn insert_ride(
        &mut self,
        context: &SessionContext,
        frame: &KeptFrame,
        ride: &LoneRide,
        log: &mut EventLog,
    ) {
        let came_on_foot = self
            .walked_ms
            .is_some_and(|ms| ride.start_ms.saturating_sub(ms) <= CAME_ON_FOOT_MS_MAX);
        if !self.occupancy.had_left_by(ride.start_ms) || !came_on_foot {
            return;
        }
        // The ride lies within the newest stay, whether that is an event already or not.
        let Some(stay) = self
            .newest()
            .copied()
            .filter(|run| run.state == State::Still && run.start_ms <= ride.start_ms + WINDOW_MS)
        else {
            return;
        };
        let end_ms = frame.t_ms() + WINDOW_MS;
        let goes_on = |event: &Run| {
            event.state == State::Ride
                && event.ride_m * ride.rise_m > 0.0
                && ride.start_ms.saturating_sub(event.end_ms) < DOOR_STOP_MS_MAX
        };
        if let Some(event) = self.event.as_mut().filter(|event| goes_on(event)) {
            (event.end_ms, event.own_end_ms) = (end_ms, end_ms);
            event.ride_m += ride.rise_m;
            self.pending = ShortQueue::default();
            return;
        }
        // A reported stay is final (contract 4), so the ride begins when the stay was long enough
        // for its report.
        let reported_until_ms = self
            .event
            .filter(|event| event.state == State::Still && event.is_by_body())
            .map_or(0, |event| event.start_ms + STOPPED_MS_MIN);
        let start_ms = ride.start_ms.max(stay.start_ms).max(reported_until_ms);
        // In a cabin the phone does not see the sky. Under the sky, moving hands pushed the phone.
        let is_outside = frame.sees_sky() && stay.is_under_sky();
        if start_ms >= end_ms || is_outside {
            return;
        }
        if let Some(mut event) = self.event.take() {
            event.end_ms = event.end_ms.min(start_ms);
            event.close(context, log);
        }
        self.pending = ShortQueue::default();
        let run = Run {
            state: State::Ride,
            start_ms,
            end_ms,
            own_end_ms: end_ms,
            evidence: (end_ms - start_ms) as f32 / WINDOW_MS as f32,
            height_before_m: None,
            height_after_m: None,
            ride_m: ride.rise_m,
            ..stay
        };
        log.open(
            EventType::Elevator,
            run.start_ms,
            run.confidence(context),
            run.metadata(context),
        );
        self.event = Some(run);
    }

    /// Finishes the track: a run that is long enough becomes an event, and the last event ends at
    /// `t_ms`.
    pub(super) fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        // A halt at the very end may be parking. The runs behind the event are decided as they
        // stand.
        while let Some(index) = self.first_qualified() {
            self.advance(context, index, log);
        }
        if let Some(mut event) = self.event.take() {
            if self.pending.is_empty() {
                event.end_ms = t_ms;
            }
            event.end_ms = event.end_ms.min(t_ms);
            event.close(context, log);
        }
        *self = Self {
            occupancy: self.occupancy,
            has_stood: self.has_stood,
            walked_ms: self.walked_ms,
            first_ms: self.first_ms,
            ..Self::default()
        };
    }

    /// Settles the height after a climb or ride: the first two seconds after it count for its end.
    fn settle_height(&mut self, frame: &KeptFrame) {
        let settles = |run: &Run| {
            matches!(run.state, State::Climb | State::Ride)
                && frame.t_ms().saturating_sub(run.end_ms) < 2 * WINDOW_MS
        };
        let newest = self.pending.iter_mut().rev();
        for run in newest.chain(self.event.as_mut()).take(2) {
            if settles(run) {
                run.height_after_m = frame.height_m().or(run.height_after_m);
            }
        }
    }

    /// Appends a second; `before` is the newest heights before it.
    fn append(&mut self, frame: &KeptFrame, state: State, before: &[Option<f32>; 3]) {
        let last_ms = self.last_ms.unwrap_or(u32::MAX);
        self.settle_newest(state);
        let newest = self.pending.last_mut().or(self.event.as_mut());
        if let Some(run) = newest.filter(|run| run.state == state && !run.turns_at(frame)) {
            let [.., before_m] = before;
            if run.height_before_m.is_none() && before_m.is_some() {
                run.height_before_m = mean(before);
            }
            run.extend(frame);
            run.end_ms = run.end_ms.min(last_ms);
            return;
        }
        let mut second = Run::of(frame, state, mean(before));
        second.end_ms = second.end_ms.min(last_ms);
        if self.absorb_manoeuvre(&second) {
            return;
        }
        if self.pending.len() == PENDING {
            // There are more changes than are kept, so the oldest two runs become one, with the
            // longer one's state.
            if let [first, next, ..] = &mut *self.pending {
                *next = first.joined(next);
                self.pending.drop_first(1);
            }
        }
        self.pending.push(second);
    }

    /// Corrects the state of the newest waiting run if `state` ends the run: an apparent climb on
    /// level ground is a walk, and an apparent ride in moving air is a rest. The run then becomes a
    /// part of a run of that state directly before it.
    fn settle_newest(&mut self, state: State) {
        let Some((newest, before)) = self.pending.split_last_mut() else {
            return;
        };
        let shown = if newest.state == state {
            return;
        } else if newest.is_level_walk() {
            State::Walk
        } else if newest.is_by_body() && newest.is_ride_by_air(&self.sway) {
            State::Still
        } else {
            return;
        };
        newest.state = shown;
        if let Some(run) = before.last_mut().filter(|run| run.state == shown) {
            run.absorb(newest);
            self.pending.pop();
        }
        self.rejoin();
    }

    /// Absorbs a short slow move before or after a drive into the drive, if positions are the only
    /// input: the vehicle leaves or looks for its place. Returns whether `second` was absorbed.
    fn absorb_manoeuvre(&mut self, second: &Run) -> bool {
        let Some((&manoeuvre, before)) = self.pending.split_last() else {
            return false;
        };
        if manoeuvre.state != State::Walk || manoeuvre.is_by_body() || manoeuvre.is_long_move() {
            return false;
        }
        let index = before.len();
        let before = match index.checked_sub(1) {
            Some(index) => self.pending.get_mut(index),
            None => self.event.as_mut(),
        };
        match (before, second.state) {
            (Some(drive), State::Still)
                if drive.state == State::Drive
                    && manoeuvre.end_ms.saturating_sub(drive.own_end_ms) < PARKED_MOVE_MS_MIN =>
            {
                drive.end_ms = manoeuvre.end_ms;
                self.pending.pop();
                false
            }
            (_, State::Drive) => {
                if let Some(newest) = self.pending.last_mut() {
                    *newest = Run {
                        start_ms: manoeuvre.start_ms,
                        ..*second
                    };
                }
                true
            }
            _ => false,
        }
    }

    /// Returns the newest run, whether it is the event or a waiting one.
    fn newest(&self) -> Option<&Run> {
        self.pending.last().or(self.event.as_ref())
    }

    /// Returns the heap size in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.pending.heap_bytes()
    }

    /// Resolves the waiting runs as far as possible.
    #[inline]
    fn resolve(&mut self, context: &SessionContext, log: &mut EventLog) {
        // In most seconds no run waits.
        if !self.pending.is_empty() {
            self.resolve_pending(context, log);
        }
    }

    fn resolve_pending(&mut self, context: &SessionContext, log: &mut EventLog) {
        self.rejoin();
        while let Some(index) = self.first_qualified() {
            let breaks = match &self.event {
                None => true,
                Some(event) => {
                    let newest_ms = self.pending.last().map_or(0, |run| run.end_ms);
                    (event.state == State::Drive
                        && newest_ms.saturating_sub(event.own_end_ms) >= self.halt_ms_max())
                        || self
                            .pending
                            .iter()
                            .any(|run| self.is_event(run) && !event.tolerates(run))
                }
            };
            if !breaks {
                break;
            }
            self.advance(context, index, log);
            self.rejoin();
        }
    }

    /// Continues the event if its own state has come back and all runs between were tolerable.
    fn rejoin(&mut self) {
        let Some(event) = &self.event else { return };
        let Some((newest, between)) = self.pending.split_last() else {
            return;
        };
        if newest.state != event.state && !event.is_continued_by(newest) {
            return;
        }
        let away_ms = newest.start_ms.saturating_sub(event.own_end_ms);
        let tolerable = (event.state != State::Drive || away_ms < self.halt_ms_max())
            && between
                .iter()
                .all(|run| event.tolerates(run) || !(self.is_event(run) || event.is_ended_by(run)));
        // A climb or ride continues in its own direction. Until the direction is visible it may be
        // the way back.
        let same_way = newest.state != State::Ride && newest.state != State::Climb
            || newest.height_m().is_none()
            || (newest.rise_m() * event.rise_m() > 0.0 && newest.rise_m().abs() >= SAME_WAY_M_MIN);
        if tolerable && same_way {
            if let Some(event) = &mut self.event {
                self.pending.iter().for_each(|run| event.absorb(run));
            }
            self.pending = ShortQueue::default();
        }
    }

    /// Returns how long a halt of the vehicle may be, given the observations during it.
    fn halt_ms_max(&self) -> u32 {
        let (mut seen_ms, mut all_ms) = (0, 0);
        for run in self.pending.iter() {
            seen_ms += u32::from(run.tally.of(Counted::Seen)) * WINDOW_MS;
            all_ms += run.duration_ms();
        }
        if seen_ms * 2 >= all_ms {
            HALT_MS_MAX
        } else {
            HALT_BY_POSITION_MS_MAX
        }
    }

    /// Returns whether a waiting run can be an event. In a vehicle, an apparent climb or ride is a
    /// hill, unless steps are measured on the climb.
    fn is_event(&self, run: &Run) -> bool {
        let begun_ms = run.start_ms.saturating_sub(self.first_ms.unwrap_or(0));
        let may_climb = run.is_climb_on_foot()
            || (self.occupancy.had_left_by(run.start_ms)
                && (self.has_stood || run.has_gait() || begun_ms >= FIRST_FIX_MS));
        if run.state == State::Still
            && run.is_by_body()
            && self.possible_ride_ms.is_some_and(|ride_ms| {
                let is_riding = self.event.is_some_and(|event| event.state == State::Ride);
                let short_ms = if is_riding {
                    DOOR_STOP_MS_MAX
                } else {
                    STOPPED_MS_MIN
                };
                ride_ms >= run.start_ms && ride_ms < run.start_ms + short_ms
            })
        {
            return false;
        }
        if run.state == State::Drive
            && !self.occupancy.is_in_vehicle()
            && self.has_stood
            && run.is_by_body()
            && run.has_gait()
            && !run.has_false_steps()
            && run.duration_ms() < DRIVE_IN_GAIT_MS_MIN
        {
            return false;
        }
        run.qualifies()
            && !run.is_ride_by_air(&self.sway)
            && (may_climb || !matches!(run.state, State::Climb | State::Ride))
    }

    fn first_qualified(&self) -> Option<usize> {
        self.pending.iter().position(|run| self.is_event(run))
    }

    /// Ends the event. The run at `index` is the next event, and the runs before it are not events.
    fn advance(&mut self, context: &SessionContext, index: usize, log: &mut EventLog) {
        if let Some(event) = self.event.take() {
            event.close(context, log);
        }
        let Some(run) = self.pending.get(index).copied() else {
            return;
        };
        self.pending.drop_first(index + 1);
        if self.pending.is_empty() {
            self.pending = ShortQueue::default();
        }
        match run.state {
            State::Drive => self.occupancy.board(),
            State::Walk => {
                self.occupancy.leave();
                self.has_stood = true;
            }
            State::Still => self.has_stood = true,
            State::Climb | State::Ride => self.occupancy.leave(),
        }
        log.open(
            event_type(run.state),
            run.start_ms,
            run.confidence(context),
            run.metadata(context),
        );
        self.event = Some(run);
    }
}

/// Returns the mean of the measured heights.
fn mean(heights_m: &[Option<f32>; 3]) -> Option<f32> {
    let (mut sum_m, mut count) = (0.0, 0.0);
    for height_m in heights_m.iter().flatten() {
        sum_m += height_m;
        count += 1.0;
    }
    (count > 0.0).then(|| sum_m / count)
}
