//! The arbiter of the movement track: runs of states in, events that never overlap out.
//!
//! It holds one event and the runs after it that are not settled. A run of another state ends the event once it is long
//! enough to be an event itself and too long to belong to the one before: a halt in traffic belongs to the drive, a
//! landing to the stairs, a stop at a floor between to the ride, a short pause to the walk.

use porchlight_schema::event::EventType;
use serde::{Deserialize, Serialize};

use super::constants::{
    CAME_ON_FOOT_MS_MAX, DOOR_STOP_MS_MAX, DRIVE_IN_GAIT_MS_MIN, FIRST_FIX_MS,
    HALT_BY_POSITION_MS_MAX, HALT_MS_MAX, HEIGHT_GAP_MS, PARKED_MOVE_MS_MIN, ROLLING_MPS,
    SAME_WAY_M_MIN, STOPPED_MS_MIN,
};
use super::decode::State;
use super::frame::KeptFrame;
use super::height::LoneRide;
use super::row::Row;
use super::run::{Run, event_type};
use super::tally::Counted;
use crate::context::SessionContext;
use crate::event_log::EventLog;
use crate::window::WINDOW_MS;

/// Runs that may wait behind an event.
const PENDING: usize = 5;

/// Makes events of runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Arbiter {
    event: Option<Run>,
    /// Most of the time none waits: then they take no room.
    pending: Row<Run, PENDING>,
    /// The newest heights, for the ends of climbs; the newest last.
    heights: [Option<f32>; 3],
    /// When the newest of them was measured.
    height_ms: u32,
    /// In a vehicle, or not seen to have left it on foot.
    in_vehicle: bool,
    /// Was seen to stay or to walk: before that nobody knows that it is no vehicle on a hill whose first fix is to come.
    has_stood: bool,
    /// When the first second was.
    first_ms: Option<u32>,
    /// The newest second of walking, or of a ride that pressure showed.
    walked_ms: Option<u32>,
    /// When a ride may have begun that only acceleration shows, and that has not ended: a stay that it would leave too
    /// short is not told before that is known.
    ride_maybe_ms: Option<u32>,
    /// While it ends: the last sample, beyond which nothing reaches.
    #[serde(skip)]
    last_ms: Option<u32>,
}

impl Arbiter {
    /// Nothing was heard after `t_ms`: the second with it counts up to there.
    pub(super) fn end_with(&mut self, t_ms: u32) {
        self.last_ms = Some(t_ms);
    }

    /// Takes the next settled second, the ride that acceleration alone showed, if it ended with it, and when one began
    /// that may be under way.
    pub(super) fn observe(
        &mut self,
        context: &SessionContext,
        frame: &KeptFrame,
        state: State,
        lone_ride: &mut Option<(u32, LoneRide)>,
        ride_maybe_ms: Option<u32>,
        log: &mut EventLog,
    ) {
        let t_ms = frame.t_ms();
        self.first_ms.get_or_insert(t_ms);
        self.ride_maybe_ms = ride_maybe_ms.or(lone_ride.map(|(_, ride)| ride.start_ms));
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
        // A vehicle that rolls out is not parked yet.
        if state == State::Walk || state == State::Ride {
            self.walked_ms = Some(t_ms);
        }
        let rolls = || {
            frame
                .speed_mps()
                .is_some_and(|speed_mps| speed_mps >= ROLLING_MPS)
        };
        let is_drive = |run: &Run| run.state == State::Drive;
        let state = if state == State::Still && self.newest().is_some_and(is_drive) && rolls() {
            State::Drive
        } else {
            state
        };
        self.append(frame, state, &before);
        self.resolve(context, log);
        if let Some((_, ride)) = lone_ride.take_if(|(end_ms, _)| *end_ms <= t_ms) {
            self.insert_ride(context, frame, &ride, log);
        }
    }

    /// A ride that only acceleration showed is known when it ends: the stay that it was taken for ends where it began.
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
        if self.in_vehicle || !came_on_foot {
            return;
        }
        // It lies within the newest stay, be that an event or not yet one.
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
            self.pending = Row::default();
            return;
        }
        // A stay that was told is one (contract 4): the ride began when it was long enough.
        let told_ms = self
            .event
            .filter(|event| event.state == State::Still && event.is_by_body())
            .map_or(0, |event| event.start_ms + STOPPED_MS_MIN);
        let start_ms = ride.start_ms.max(stay.start_ms).max(told_ms);
        if start_ms >= end_ms {
            return;
        }
        if let Some(mut event) = self.event.take() {
            event.end_ms = event.end_ms.min(start_ms);
            close(context, &event, log);
        }
        self.pending = Row::default();
        let run = Run {
            state: State::Ride,
            start_ms,
            end_ms,
            own_end_ms: end_ms,
            evidence: (end_ms - start_ms) as f32 / WINDOW_MS as f32,
            from_m: None,
            to_m: None,
            ride_m: ride.rise_m,
            ..stay
        };
        log.open(
            EventType::Elevator,
            run.start_ms,
            run.confidence(),
            run.metadata(context),
        );
        self.event = Some(run);
    }

    /// Nothing follows: what is long enough becomes an event, and the last one ends at `t_ms`.
    pub(super) fn finish(&mut self, context: &SessionContext, t_ms: u32, log: &mut EventLog) {
        // A halt at the very end may be parking: what waits behind the event is decided as it stands.
        while let Some(place) = self.first_qualified() {
            self.advance(context, place, log);
        }
        if let Some(mut event) = self.event.take() {
            if self.pending.is_empty() {
                event.end_ms = t_ms;
            }
            event.end_ms = event.end_ms.min(t_ms);
            close(context, &event, log);
        }
        *self = Self {
            in_vehicle: self.in_vehicle,
            has_stood: self.has_stood,
            walked_ms: self.walked_ms,
            first_ms: self.first_ms,
            ..Self::default()
        };
    }

    /// In the first two seconds after a climb or ride the height still settles: they count for its end.
    fn settle_height(&mut self, frame: &KeptFrame) {
        let settles = |run: &Run| {
            matches!(run.state, State::Climb | State::Ride)
                && frame.t_ms().saturating_sub(run.end_ms) < 2 * WINDOW_MS
        };
        let newest = self.pending.iter_mut().rev();
        for run in newest.chain(self.event.as_mut()).take(2) {
            if settles(run) {
                run.to_m = frame.height_m().or(run.to_m);
            }
        }
    }

    /// `before`: the newest heights before the second.
    fn append(&mut self, frame: &KeptFrame, state: State, before: &[Option<f32>; 3]) {
        let last_ms = self.last_ms.unwrap_or(u32::MAX);
        let newest = self.pending.last_mut().or(self.event.as_mut());
        if let Some(run) = newest.filter(|run| run.state == state) {
            let [.., before_m] = before;
            if run.from_m.is_none() && before_m.is_some() {
                run.from_m = mean(before);
            }
            run.go_on(frame);
            run.end_ms = run.end_ms.min(last_ms);
            return;
        }
        let mut second = Run::of(frame, state, mean(before));
        second.end_ms = second.end_ms.min(last_ms);
        if self.absorb_manoeuvre(&second) {
            return;
        }
        if self.pending.len() == PENDING {
            // More changes than are kept: the oldest two become one, of the longer one's state.
            if let [first, next, ..] = &mut *self.pending {
                *next = first.joined(next);
                self.pending.drop_first(1);
            }
        }
        self.pending.push(second);
    }

    /// Where positions are all there is, a short slow move before or after a drive is the vehicle's: it leaves its
    /// place, it looks for one. True where `second` was taken into the drive.
    fn absorb_manoeuvre(&mut self, second: &Run) -> bool {
        let Some((&manoeuvre, before)) = self.pending.split_last() else {
            return false;
        };
        if manoeuvre.state != State::Walk || manoeuvre.is_by_body() || manoeuvre.is_long_move() {
            return false;
        }
        let place = before.len();
        let before = match place.checked_sub(1) {
            Some(place) => self.pending.get_mut(place),
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

    /// The newest run, be it the event or one that waits.
    fn newest(&self) -> Option<&Run> {
        self.pending.last().or(self.event.as_ref())
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.pending.heap_bytes()
    }

    /// Makes of the runs that wait what can be made of them.
    #[inline]
    fn resolve(&mut self, context: &SessionContext, log: &mut EventLog) {
        // In most seconds none waits.
        if !self.pending.is_empty() {
            self.resolve_pending(context, log);
        }
    }

    fn resolve_pending(&mut self, context: &SessionContext, log: &mut EventLog) {
        self.rejoin();
        while let Some(place) = self.first_qualified() {
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
            self.advance(context, place, log);
            self.rejoin();
        }
    }

    /// Where the event's own state has come back and all between was tolerable, it goes on.
    fn rejoin(&mut self) {
        let Some(event) = &self.event else { return };
        let Some(newest) = self.pending.last().copied() else {
            return;
        };
        let between = self.pending.len() - 1;
        if newest.state != event.state && !event.is_continued_by(&newest) {
            return;
        }
        let away_ms = newest.start_ms.saturating_sub(event.own_end_ms);
        let tolerable = (event.state != State::Drive || away_ms < self.halt_ms_max())
            && self.pending.iter().take(between).all(|run| {
                event.tolerates(run) || !(self.is_event(run) || event.is_parted_by(run))
            });
        // A climb or ride goes on in its own direction; before that shows it may be the way back.
        let same_way = newest.state != State::Ride && newest.state != State::Climb
            || newest.height_m().is_none()
            || (newest.rises() * event.rises() > 0.0 && newest.rises().abs() >= SAME_WAY_M_MIN);
        if tolerable && same_way {
            if let Some(event) = &mut self.event {
                self.pending.iter().for_each(|run| event.absorb(run));
            }
            self.pending = Row::default();
        }
    }

    /// How long a halt of the vehicle may be, by what was seen in it.
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

    /// Whether a run that waits can be an event: what looks like stairs or an elevator in a vehicle is a hill.
    fn is_event(&self, run: &Run) -> bool {
        let begun_ms = run.start_ms.saturating_sub(self.first_ms.unwrap_or(0));
        let may_climb =
            !self.in_vehicle && (self.has_stood || run.has_gait() || begun_ms >= FIRST_FIX_MS);
        if run.state == State::Still
            && run.is_by_body()
            && self.ride_maybe_ms.is_some_and(|ride_ms| {
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
            && !self.in_vehicle
            && self.has_stood
            && run.is_by_body()
            && run.has_gait()
            && run.duration_ms() < DRIVE_IN_GAIT_MS_MIN
        {
            return false;
        }
        run.qualifies() && (may_climb || !matches!(run.state, State::Climb | State::Ride))
    }

    fn first_qualified(&self) -> Option<usize> {
        self.pending.iter().position(|run| self.is_event(run))
    }

    /// Ends the event; the run at `place` is the next, what stands before it is none.
    fn advance(&mut self, context: &SessionContext, place: usize, log: &mut EventLog) {
        if let Some(event) = self.event.take() {
            close(context, &event, log);
        }
        let Some(run) = self.pending.get(place).copied() else {
            return;
        };
        self.pending.drop_first(place + 1);
        if self.pending.is_empty() {
            self.pending = Row::default();
        }
        match run.state {
            State::Drive => self.in_vehicle = true,
            State::Walk => (self.in_vehicle, self.has_stood) = (false, true),
            State::Still => self.has_stood = true,
            _ => {}
        }
        log.open(
            event_type(run.state),
            run.start_ms,
            run.confidence(),
            run.metadata(context),
        );
        self.event = Some(run);
    }
}

/// The mean of those that were measured.
fn mean(heights_m: &[Option<f32>; 3]) -> Option<f32> {
    let (mut sum_m, mut count) = (0.0, 0.0);
    for height_m in heights_m.iter().flatten() {
        sum_m += height_m;
        count += 1.0;
    }
    (count > 0.0).then(|| sum_m / count)
}

fn close(context: &SessionContext, event: &Run, log: &mut EventLog) {
    log.close(
        event_type(event.state),
        event.end_ms,
        event.confidence(),
        event.metadata(context),
    );
}
