//! Collects consecutive seconds of one state, which may become an event.

use porchlight_schema::event::{Confidence, Direction, EventType, Metadata};
use serde::{Deserialize, Serialize};

use super::confidence::{self, RunMeasurements};
use super::decode::State;
use super::frame::KeptFrame;
use super::parameters::evidence::CLIMB_SLOW_MPS;
use super::parameters::runs::{
    CLIMB_BY_STRIDE_MS_MIN, CLIMB_HEIGHT_M_MIN, CLIMB_MS_MIN, CLIMB_ROUGH_SEC, CLIMB_STRAIGHT_MIN,
    CREEP_SEC_MIN, DOOR_STOP_MS_MAX, DRIVE_LENGTH_M_MIN, DRIVE_MS_MIN, FAST_SECONDS_SHARE,
    LANDING_MS_MAX, PARKED_MOVE_FIXES, PARKED_MOVE_MS_MIN, PARKED_SEEN_MS_MIN,
    PARKED_UNSTEADY_MS_MIN, PARKED_WALK_MS_MIN, PAUSE_MS_MAX, RAMP_MPS, RIDE_HEIGHT_M_MIN,
    RIDE_UNDER_SKY_HEIGHT_M_MIN, RIDE_UNFELT_HEIGHT_M_MIN, RUN_EVIDENCE_MIN, RUN_SPEED_MPS_MAX,
    SAME_WAY_M_MIN, STOPPED_BY_POSITION_MS_MIN, STOPPED_MS_MIN, WALK_MS_MIN, WALK_SPEED_MPS_MAX,
    WALK_UNSTEADY_SHARE, WALK_USUAL_MPS_MAX,
};
use super::sway::Sway;
use super::tally::{Counted, Tally};
use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::floors::floors_of_climb;
use crate::window::WINDOW_MS;

/// Consecutive seconds of one state, with their evidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) state: State,
    pub(super) start_ms: u32,
    pub(super) end_ms: u32,
    /// The end of the newest second of the run's own state.
    pub(super) own_end_ms: u32,
    /// The sum of the seconds' evidence for the state.
    pub(super) evidence: f32,
    /// The number of seconds by kind of observation.
    pub(super) tally: Tally,
    /// The number of its own seconds in which only the step counter measured the body.
    pub(super) counter_sec: u16,
    /// The number of its own seconds in which acceleration spread too much for a cabin.
    pub(super) loud_sec: u16,
    /// The number of seconds faster than any walk.
    pub(super) fast_sec: u16,
    /// The number of its own seconds in which satellites show without doubt that the phone moves
    /// faster than a walk.
    pub(super) carried_sec: u16,
    /// The number of those seconds that are faster than a run.
    pub(super) faster_than_run_sec: u16,
    /// The sum of the squared speeds over ground, in m²/s².
    pub(super) speed_squared: f32,
    /// The height before the run.
    pub(super) height_before_m: Option<f32>,
    /// The height at the end of the run or a little later.
    pub(super) height_after_m: Option<f32>,
    /// The total height climbed up and down, in metres.
    pub(super) path_m: f32,
    /// The sum of the standard errors of the seconds' slopes, in m/s.
    pub(super) rough_mps: f32,
    /// The height gained by acceleration alone, in metres; 0 if a barometer measures it.
    pub(super) ride_m: f32,
    /// The distance over ground, in metres.
    pub(super) ground_m: f32,
}

/// The kinds that a run counts for seconds of any state.
const KINDS_OF_ANY_STATE: u16 = Counted::Push.bit()
    | Counted::Seen.bit()
    | Counted::Sky.bit()
    | Counted::Fix.bit()
    | Counted::Speed.bit();
/// The kinds that a run counts only for seconds of its own state.
const KINDS_OF_OWN_STATE: u16 = Counted::Body.bit() | Counted::Steps.bit() | Counted::Stride.bit();

/// Returns the event type of a state.
pub(super) fn event_type(state: State) -> EventType {
    match state {
        State::Still => EventType::Stopped,
        State::Walk => EventType::Walking,
        State::Climb => EventType::Stairs,
        State::Ride => EventType::Elevator,
        State::Drive => EventType::Driving,
    }
}

impl Run {
    /// Creates a run of one second; `before_m` is the height before it.
    pub(super) fn of(frame: &KeptFrame, state: State, before_m: Option<f32>) -> Self {
        let mut run = Self {
            state,
            start_ms: frame.t_ms(),
            end_ms: 0,
            own_end_ms: 0,
            evidence: 0.0,
            tally: Tally::default(),
            counter_sec: 0,
            loud_sec: 0,
            fast_sec: 0,
            carried_sec: 0,
            faster_than_run_sec: 0,
            speed_squared: 0.0,
            height_before_m: before_m,
            height_after_m: None,
            path_m: 0.0,
            rough_mps: 0.0,
            ride_m: 0.0,
            ground_m: 0.0,
        };
        run.extend(frame);
        run
    }

    /// Adds a second of the run's own state. Its height also serves as the height before if none
    /// was known.
    #[inline]
    pub(super) fn extend(&mut self, frame: &KeptFrame) {
        self.end_ms = frame.t_ms() + WINDOW_MS;
        self.own_end_ms = self.end_ms;
        self.evidence += match self.state {
            State::Still | State::Ride => -frame.gait(),
            State::Walk | State::Climb => frame.gait(),
            State::Drive => 1.0,
        };
        self.tally.count(frame.counted());
        self.counter_sec = self
            .counter_sec
            .saturating_add(u16::from(frame.is_by_counter()));
        self.loud_sec = self.loud_sec.saturating_add(u16::from(frame.is_loud()));
        if let Some(speed_mps) = frame.speed_mps() {
            let is_fast = speed_mps > WALK_SPEED_MPS_MAX;
            self.fast_sec = self.fast_sec.saturating_add(u16::from(is_fast));
            let is_carried = frame.is_carried();
            let is_vehicle = is_carried && speed_mps >= RUN_SPEED_MPS_MAX;
            self.carried_sec = self.carried_sec.saturating_add(u16::from(is_carried));
            self.faster_than_run_sec = self
                .faster_than_run_sec
                .saturating_add(u16::from(is_vehicle));
            self.speed_squared += speed_mps * speed_mps;
            self.ground_m += speed_mps;
        }
        let height_m = frame.height_m();
        if height_m.is_some() {
            self.height_before_m = self.height_before_m.or(height_m);
            self.height_after_m = height_m;
        }
        if frame.has_slope() {
            self.path_m += frame.rate_mps().abs();
            self.rough_mps += frame.rate_error_mps();
        }
    }

    pub(super) fn duration_ms(&self) -> u32 {
        self.end_ms.saturating_sub(self.start_ms)
    }

    /// Returns whether the body was measured in most of the run.
    pub(super) fn is_by_body(&self) -> bool {
        u32::from(self.tally.of(Counted::Body)) * 2 * WINDOW_MS >= self.duration_ms()
    }

    /// Returns whether the run shows that a vehicle was left: steps, or a long enough slow move if
    /// no body is measured.
    pub(super) fn is_walk_away(&self) -> bool {
        if self.is_by_body() {
            self.duration_ms() >= PARKED_WALK_MS_MIN && self.has_gait()
        } else {
            let is_seen =
                u32::from(self.tally.of(Counted::Seen)) * 2 * WINDOW_MS >= self.duration_ms();
            let mean_mps = self.ground_m / f32::from(self.tally.of(Counted::Speed)).max(1.0);
            let is_long = if is_seen && self.is_steady() && mean_mps <= WALK_USUAL_MPS_MAX {
                self.duration_ms() >= PARKED_SEEN_MS_MIN
            } else if is_seen {
                self.duration_ms() >= PARKED_UNSTEADY_MS_MIN
            } else {
                self.is_long_move()
            };
            is_long
                && u32::from(self.fast_sec) * FAST_SECONDS_SHARE * WINDOW_MS < self.duration_ms()
        }
    }

    /// Returns whether steps were seen in most of the run.
    pub(super) fn has_gait(&self) -> bool {
        u32::from(self.tally.of(Counted::Steps)) * 2 * WINDOW_MS >= self.duration_ms()
    }

    /// Returns whether a slow move by positions is too long for a manoeuvre: by time, and by fixes
    /// if those are rare.
    pub(super) fn is_long_move(&self) -> bool {
        self.duration_ms() >= PARKED_MOVE_MS_MIN && self.tally.of(Counted::Fix) >= PARKED_MOVE_FIXES
    }

    /// Returns whether the speed is as steady as a walk's.
    fn is_steady(&self) -> bool {
        let seconds = f32::from(self.tally.of(Counted::Speed)).max(1.0);
        let mean_mps = self.ground_m / seconds;
        let variance = (self.speed_squared / seconds - mean_mps * mean_mps).max(0.0);
        variance.sqrt() <= WALK_UNSTEADY_SHARE * mean_mps
    }

    /// Returns the height gained by pressure, in metres.
    pub(super) fn height_m(&self) -> Option<f32> {
        Some(self.height_after_m? - self.height_before_m?)
    }

    /// Returns whether the run leads at least `min_m` up or down, and most of its path leads in
    /// that direction.
    pub(super) fn is_straight(&self, min_m: f32) -> bool {
        let seconds = (self.duration_ms() / WINDOW_MS).max(1) as f32;
        let needed_m = min_m
            .max(CLIMB_STRAIGHT_MIN * self.path_m)
            .max(CLIMB_ROUGH_SEC * self.rough_mps / seconds);
        self.height_m()
            .is_some_and(|height_m| height_m.abs() >= needed_m)
    }

    /// Returns whether the courier turns on the stairs at this second, and goes back: the run has
    /// led up or down, and the height now changes the other way as on stairs.
    pub(super) fn turns_at(&self, frame: &KeptFrame) -> bool {
        let goes_back = frame.has_slope() && frame.rate_mps() * self.rise_m() < 0.0;
        self.state == State::Climb
            && goes_back
            && frame.rate_mps().abs() >= CLIMB_SLOW_MPS
            && self.is_straight(CLIMB_HEIGHT_M_MIN)
    }

    /// Returns whether the phone saw the sky in most of the run.
    pub(super) fn is_under_sky(&self) -> bool {
        u32::from(self.tally.of(Counted::Sky)) * 2 * WINDOW_MS >= self.duration_ms()
    }

    /// Returns whether no body was measured under the sky, where wind changes the pressure by more
    /// than a storey.
    fn is_unfelt_under_sky(&self) -> bool {
        !self.is_by_body() && self.is_under_sky()
    }

    /// Returns whether only the step counter measured the body in most of the run.
    fn is_by_counter(&self) -> bool {
        u32::from(self.counter_sec) * 2 * WINDOW_MS >= self.duration_ms()
    }

    /// Returns whether the steps of the run are those that some counters count in a vehicle: it is
    /// faster than a run for seconds, and no acceleration shows a gait.
    pub(super) fn has_false_steps(&self) -> bool {
        self.is_by_counter() && self.faster_than_run_sec >= u16::from(CREEP_SEC_MIN)
    }

    /// Returns whether the run is a climb with enough measured steps to show that the courier left
    /// the vehicle. A vehicle on a hill takes no steps.
    pub(super) fn is_climb_on_foot(&self) -> bool {
        self.state == State::Climb
            && self.is_by_body()
            && self.is_walk_away()
            && !self.has_false_steps()
    }

    /// Returns whether an apparent climb is a walk on the level: steps were measured, and the
    /// height fell about as much as it rose. A pocket swings the air pressure with each step.
    pub(super) fn is_level_walk(&self) -> bool {
        self.state == State::Climb
            && self.is_by_body()
            && self.has_gait()
            && self.duration_ms() >= WALK_MS_MIN
            && self.height_m().is_some_and(|height_m| {
                height_m.abs() < SAME_WAY_M_MIN.max(CLIMB_STRAIGHT_MIN * self.path_m)
            })
    }

    /// Returns whether an apparent ride is the drive over a ramp: a vehicle shakes the phone in
    /// most seconds, and the height changes no faster than on a ramp. A cabin runs smoothly.
    fn is_ramp(&self) -> bool {
        let seconds = self.duration_ms() as f32 / WINDOW_MS as f32;
        u32::from(self.loud_sec) * 2 * WINDOW_MS > self.duration_ms()
            && self.rise_m().abs() <= RAMP_MPS * seconds
    }

    /// Returns the height gained by pressure, or else by acceleration, in metres.
    pub(super) fn rise_m(&self) -> f32 {
        self.height_m().unwrap_or(self.ride_m)
    }

    /// Returns whether a ride leads so far up or down that a door's swing of the pressure does not
    /// explain it. A cabin pushes the body. Without a push the air caused the change, unless the
    /// change is large.
    fn is_high_ride(&self) -> bool {
        let is_pushed = self.tally.of(Counted::Push) > 0;
        let min_m = if self.is_under_sky() && !(self.is_by_body() && is_pushed) {
            RIDE_UNDER_SKY_HEIGHT_M_MIN
        } else if is_pushed {
            RIDE_HEIGHT_M_MIN
        } else {
            RIDE_UNFELT_HEIGHT_M_MIN
        };
        self.is_straight(min_m)
    }

    /// Returns whether the run is an apparent ride of which moving air may be the cause: the height
    /// swayed as much before it.
    pub(super) fn is_ride_by_air(&self, sway: &Sway) -> bool {
        self.state == State::Ride
            && self.height_after_m.is_some()
            && (!self.is_high_ride() || sway.explains(self.rise_m()))
    }

    /// Returns whether the run is an event by itself.
    pub(super) fn qualifies(&self) -> bool {
        let duration_ms = self.duration_ms();
        match self.state {
            State::Still => {
                let min_ms = if self.is_by_body() {
                    STOPPED_MS_MIN
                } else {
                    STOPPED_BY_POSITION_MS_MIN
                };
                duration_ms >= min_ms
                    && self.evidence > RUN_EVIDENCE_MIN * duration_ms as f32 / WINDOW_MS as f32
            }
            State::Walk => {
                duration_ms >= WALK_MS_MIN
                    && self.evidence > RUN_EVIDENCE_MIN * duration_ms as f32 / WINDOW_MS as f32
            }
            State::Climb if self.height_after_m.is_none() => {
                duration_ms >= CLIMB_BY_STRIDE_MS_MIN
                    && u32::from(self.tally.of(Counted::Stride)) * 2 * WINDOW_MS >= duration_ms
            }
            State::Climb => {
                let min_m = if self.is_unfelt_under_sky() {
                    RIDE_UNDER_SKY_HEIGHT_M_MIN
                } else {
                    CLIMB_HEIGHT_M_MIN
                };
                duration_ms >= CLIMB_MS_MIN && self.is_straight(min_m)
            }
            State::Ride => {
                let is_carried = self.carried_sec >= u16::from(CREEP_SEC_MIN);
                self.is_high_ride() && !self.is_ramp() && !is_carried
            }
            State::Drive => duration_ms >= DRIVE_MS_MIN && self.ground_m >= DRIVE_LENGTH_M_MIN,
        }
    }

    /// Returns whether `run` ends this run without being an event itself: a pause of 5 to 8 s ends
    /// a walk.
    pub(super) fn is_ended_by(&self, run: &Self) -> bool {
        self.state == State::Walk && run.state == State::Still && run.duration_ms() >= PAUSE_MS_MAX
    }

    /// Returns whether the following `run` belongs to this event if a run of the event's state
    /// follows.
    pub(super) fn tolerates(&self, run: &Self) -> bool {
        let duration_ms = run.duration_ms();
        match (self.state, run.state) {
            (State::Drive, State::Still) => true,
            (State::Drive, State::Walk) => !run.is_walk_away(),
            // A climb or ride that is an event was on foot; any other is a hill.
            (State::Drive, State::Climb | State::Ride) => false,
            (State::Drive, _) => true,
            (State::Ride, State::Still) => duration_ms < DOOR_STOP_MS_MAX,
            // If no body is measured, the walk is not certain.
            (State::Ride, State::Walk) => !run.is_by_body() && duration_ms < DOOR_STOP_MS_MAX,
            (State::Ride, State::Climb) => self.is_continued_by(run),
            (State::Climb, State::Walk | State::Still) => duration_ms < LANDING_MS_MAX,
            (State::Walk, State::Still) => duration_ms < PAUSE_MS_MAX,
            _ => false,
        }
    }

    /// Returns whether `run` continues this ride although it looks like stairs: the cabin moves
    /// slowly to the next floor, and no measurement of the body could distinguish the two.
    pub(super) fn is_continued_by(&self, run: &Self) -> bool {
        let is_same_way = run.rise_m() * self.rise_m() > 0.0;
        (self.state, run.state) == (State::Ride, State::Climb) && !run.is_by_body() && is_same_way
    }

    /// Joins this run and the next into one with the longer one's state and the measurements of
    /// both.
    pub(super) fn joined(&self, next: &Self) -> Self {
        let (longer, shorter) = if self.duration_ms() >= next.duration_ms() {
            (self, next)
        } else {
            (next, self)
        };
        let mut tally = longer.tally;
        tally.add(&shorter.tally, KINDS_OF_ANY_STATE & !Counted::Push.bit());
        Self {
            start_ms: self.start_ms,
            end_ms: next.end_ms,
            tally,
            fast_sec: longer.fast_sec.saturating_add(shorter.fast_sec),
            speed_squared: longer.speed_squared + shorter.speed_squared,
            ground_m: longer.ground_m + shorter.ground_m,
            ..*longer
        }
    }

    /// Adds a later run to this event.
    pub(super) fn absorb(&mut self, later: &Self) {
        self.end_ms = later.end_ms;
        self.height_before_m = self.height_before_m.or(later.height_before_m);
        self.height_after_m = later.height_after_m.or(self.height_after_m);
        if later.state == self.state {
            self.own_end_ms = later.own_end_ms;
            self.evidence += later.evidence;
            self.tally.add(&later.tally, KINDS_OF_OWN_STATE);
            self.counter_sec = self.counter_sec.saturating_add(later.counter_sec);
            self.loud_sec = self.loud_sec.saturating_add(later.loud_sec);
            self.fast_sec = self.fast_sec.saturating_add(later.fast_sec);
            self.carried_sec = self.carried_sec.saturating_add(later.carried_sec);
            self.faster_than_run_sec = self
                .faster_than_run_sec
                .saturating_add(later.faster_than_run_sec);
        }
        self.tally.add(&later.tally, KINDS_OF_ANY_STATE);
        self.speed_squared += later.speed_squared;
        self.path_m += later.path_m;
        self.rough_mps += later.rough_mps;
        self.ride_m += later.ride_m;
        self.ground_m += later.ground_m;
    }

    /// Returns the metadata of the event: floors, direction and height of a climb or ride.
    pub(super) fn metadata(&self, context: &SessionContext) -> Metadata {
        if !matches!(self.state, State::Climb | State::Ride) {
            return Metadata::None;
        }
        let direction = if self.rise_m() < 0.0 {
            Direction::Down
        } else {
            Direction::Up
        };
        let height_m = self.height_m().map(f32::abs);
        Metadata::Climb {
            floors: height_m.map(|height_m| {
                let is_ride = self.state == State::Ride;
                floors_of_climb(
                    context.place_kind,
                    context.storey_height_m,
                    height_m,
                    is_ride,
                )
            }),
            direction,
            height_cm: height_m.map(|height_m| (height_m * 100.0).round() as u32),
        }
    }

    /// Closes the event of this run.
    pub(super) fn close(&self, context: &SessionContext, log: &mut EventLog) {
        log.close(
            event_type(self.state),
            self.end_ms,
            self.confidence(context),
            self.metadata(context),
        );
    }

    /// Returns the confidence of the run.
    pub(super) fn confidence(&self, context: &SessionContext) -> Confidence {
        let seconds = (self.duration_ms() as f32 / WINDOW_MS as f32).max(1.0);
        let measurements = RunMeasurements {
            state: self.state,
            seconds,
            evidence: self.evidence / seconds,
            fix_sec: self.tally.of(Counted::Fix),
            by_body: self.is_by_body(),
            by_counter: self.is_by_counter(),
            has_height: self.height_after_m.is_some(),
            height_m: self.rise_m(),
            speed_mps: self.ground_m / f32::from(self.tally.of(Counted::Speed)).max(1.0),
        };
        confidence::of_run(context.confidences, &measurements)
    }
}
