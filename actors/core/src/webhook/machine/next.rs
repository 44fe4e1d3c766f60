//! Chooses the next operations of the machine.
//!
//! A **lane** is the messages of one session, in order: the machine reads it, attempts its first
//! message, and commits the result. During these steps the lane is in progress and holds a permit.
//! It begins with a **quick permit** (at most [`ENDPOINT_IN_FLIGHT_MAX`], fewer after timeouts) and
//! exchanges it for a **slow permit** (at most [`ENDPOINT_SLOW_IN_FLIGHT_MAX`]) when its attempt
//! takes long. A lane whose last attempt timed out begins with a slow permit if one is free.
//!
//! [`ENDPOINT_IN_FLIGHT_MAX`]: porchlight_schema::limits::ENDPOINT_IN_FLIGHT_MAX
//! [`ENDPOINT_SLOW_IN_FLIGHT_MAX`]: porchlight_schema::limits::ENDPOINT_SLOW_IN_FLIGHT_MAX
//!
//! A free quick permit goes to the first class that has a lane and has not reached its bound:
//! manual attempts, then fresh messages by age, then retries by due time. Each class leaves permits
//! to the others.
//!
//! The lanes that are not in progress wait in a window, which holds a part of the outbox. When a
//! list of the window has at most [`LOW_WATER`] lanes left and the store has more, the machine
//! lists the outbox again. A wake, a change of the mode and a timer ([`RELIST_MS`]) also cause a
//! listing.

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{ATTEMPT_SLOW_MS, WHEEL_AHEAD_MS};
use porchlight_schema::time::TimestampMs;

use super::{
    COMMIT_LAG_MS, COMMIT_LAG_MS_MAX, Class, DEEP_EVERY_MS, EndpointMachine, HANGING_MIN,
    HANGING_REMEMBERED_MS, LOW_WATER, LaneInProgress, MANUAL_RETRIES_MAX, Policy, RELIST_MS,
    SLOW_MS_MIN, Stage, USUAL_TIMES, Wanted,
};
use crate::webhook::{Change, Effect, ListingRequest, ManualRetry, Mode};

/// The lane that is processed next.
#[derive(Debug, Clone, Copy)]
struct Next {
    lane: SessionId,
    class: Class,
    /// The request for a manual attempt.
    manual_retry: Option<ManualRetry>,
    /// Whether the lane takes a slow permit instead of a quick one.
    is_slow: bool,
}

impl Next {
    /// Returns a lane whose turn it is by the schedule, with a quick permit.
    fn scheduled(lane: SessionId, class: Class) -> Self {
        Self {
            lane,
            class,
            manual_retry: None,
            is_slow: false,
        }
    }
}

impl EndpointMachine {
    /// Returns the time up to which due lanes are taken into the window.
    pub(super) fn horizon(&self, now: TimestampMs) -> TimestampMs {
        now.plus_ms(WHEEL_AHEAD_MS as i64)
    }

    /// Returns the maximum number of ready lanes in the window.
    pub(super) fn ready_max(&self) -> usize {
        self.policy.lanes_max / 2 - self.held_max()
    }

    /// Returns the maximum number of held lanes taken into the window together.
    pub(super) fn held_max(&self) -> usize {
        self.policy.lanes_max / 8
    }

    /// Returns the maximum number of due lanes in the window.
    pub(super) fn due_max(&self) -> usize {
        self.policy.lanes_max / 2
    }

    /// Begins all operations that may begin now, and sets the time of the next tick.
    pub(super) fn advance(&mut self, now: TimestampMs, effects: &mut Vec<Effect>) {
        self.move_slow_attempts(now);
        if !self.is_paused_after_fault(now) {
            self.retry_commits(effects);
            if self.mode != Mode::Stopped {
                self.list(now, effects);
                while let Some(next) = self.pick(now) {
                    self.begin(next, effects);
                }
                self.list(now, effects);
            }
        }
        self.set_wake_time(now, effects);
    }

    /// Begins to process a lane.
    fn begin(&mut self, next: Next, effects: &mut Vec<Effect>) {
        let Next {
            lane,
            class,
            manual_retry,
            is_slow,
        } = next;
        self.window.remove(lane);
        if let Some(manual_retry) = manual_retry {
            self.manual
                .remove(&(manual_retry.requested_at, manual_retry.id));
        }
        let busy = LaneInProgress {
            class,
            manual_retry,
            stage: Stage::Reading,
            waiting: Vec::new(),
            is_slow,
            has_new_message: false,
        };
        self.in_progress.insert(lane, busy);
        effects.push(Effect::Read(lane, manual_retry));
    }

    /// Repeats the commits that failed.
    pub(super) fn retry_commits(&mut self, effects: &mut Vec<Effect>) {
        while let Some(&lane) = self.in_progress.uncommitted().first() {
            let commit = self.in_progress.update(lane, |busy| {
                let change = match &mut busy.stage {
                    Stage::Uncommitted(change) => std::mem::take(change),
                    _ => Change::default(),
                };
                busy.commit(lane, change)
            });
            effects.extend(commit);
        }
    }

    /// Lists the outbox, if a list is due and none is being read.
    pub(super) fn list(&mut self, now: TimestampMs, effects: &mut Vec<Effect>) {
        if self.is_listing {
            return;
        }
        let low_water = LOW_WATER.min(self.ready_max() / 2);
        let mut wanted = self.wanted;
        if now >= self.relist_at || self.relist_at.since_ms(now) > RELIST_MS {
            wanted = Wanted::ALL;
        }
        wanted.ready |= self.has_more_ready && self.window.ready_len() <= low_water;
        wanted.due |= self.has_more_due && self.window.due_len() <= low_water;
        // While many lanes are ready and the store has more, new messages are behind them and can
        // wait.
        let plenty = self.has_more_ready && self.window.ready_len() > low_water;
        let manual_low = self.has_more_manual && self.manual.is_empty();
        let room = self.window.ready_len() <= low_water;
        let held = (wanted.held || self.has_more_held) && room;
        if !(wanted.ready && !plenty || wanted.due || held || manual_low) {
            return;
        }
        if wanted.due {
            self.relist_at = now.plus_ms(RELIST_MS);
            self.listed_from = TimestampMs(i64::MIN);
        }
        self.listing_at = now;
        let mut lag_ms = COMMIT_LAG_MS;
        if now >= self.deep_at || self.deep_at.since_ms(now) > DEEP_EVERY_MS {
            self.deep_at = now.plus_ms(DEEP_EVERY_MS);
            lag_ms = COMMIT_LAG_MS_MAX;
        }
        let from = self.listed_from.plus_ms(-lag_ms);
        self.wanted = Wanted {
            ready: wanted.ready && plenty,
            due: false,
            held: wanted.held && !held,
        };
        self.is_listing = true;
        effects.push(Effect::List(ListingRequest {
            ready: (wanted.ready && !plenty).then(|| (from, self.ready_max())),
            due: wanted.due.then(|| (self.horizon(now), self.due_max())),
            held: held.then(|| (self.held_before(now), self.held_max())),
            manual_max: MANUAL_RETRIES_MAX,
        }));
    }

    /// Returns the next lane to process. A lane whose last attempt timed out gets a slow permit if
    /// one is free; so does any lane that finds no quick permit while the receiver hangs on some
    /// sessions.
    fn pick(&self, now: TimestampMs) -> Option<Next> {
        let slow_room = self.policy.slow_max.saturating_sub(self.slow_in_flight());
        if let Some(mut next) = self.pick_quick(now) {
            next.is_slow = slow_room > 0 && self.in_progress.has_timed_out(next.lane);
            return Some(next);
        }
        // An eighth of the slow permits stays free for attempts that become slow.
        if slow_room <= self.policy.slow_max / 8 {
            return None;
        }
        let ready = self.first_ready();
        let ready = ready.map(|lane| Next::scheduled(lane, Class::Fresh));
        let due = self.first_due_by(now);
        let due = due.map(|lane| Next::scheduled(lane, Class::Retry));
        let is_hanging = self.is_hanging(now);
        let mut next = ready.into_iter().chain(due);
        let mut next = next.find(|next| is_hanging || self.in_progress.has_timed_out(next.lane))?;
        next.is_slow = true;
        Some(next)
    }

    /// Returns the next lane for a quick permit: manual attempts first, then fresh messages, then
    /// retries. No class may take all permits, so that none is starved: manual attempts get at most
    /// a quarter, fresh messages leave an eighth of all permits to the others, and retries leave a
    /// quarter.
    fn pick_quick(&self, now: TimestampMs) -> Option<Next> {
        if self.in_progress.quick() >= self.allowed {
            return None;
        }
        let under_way = |class| self.in_progress.quick_of(class);
        // The customer asks for a manual attempt, so a pause does not hold it.
        if under_way(Class::Manual) < (self.allowed / 4).max(1) {
            let free = |request: &&ManualRetry| !self.in_progress.contains(request.session_id);
            if let Some(&request) = self.manual.values().find(free) {
                return Some(Next {
                    manual_retry: Some(request),
                    ..Next::scheduled(request.session_id, Class::Manual)
                });
            }
        }
        if under_way(Class::Fresh) < self.allowed - (self.allowed / 8).max(1)
            && let Some(lane) = self.first_ready()
        {
            return Some(Next::scheduled(lane, Class::Fresh));
        }
        if under_way(Class::Retry) < self.allowed - (self.allowed / 4).max(1)
            && let Some(lane) = self.first_due_by(now)
        {
            return Some(Next::scheduled(lane, Class::Retry));
        }
        None
    }

    /// Returns the lane with the oldest message that may be sent now.
    fn first_ready(&self) -> Option<SessionId> {
        let waits = self.timed_out_lanes_wait();
        let mut lanes = self.window.ready();
        lanes.find(|lane| !(waits && self.in_progress.has_timed_out(*lane)))
    }

    /// Returns the lane with the longest-due retry that may be sent now.
    fn first_due_by(&self, now: TimestampMs) -> Option<SessionId> {
        let waits = self.timed_out_lanes_wait();
        let mut lanes = self.window.due_by(now);
        lanes.find(|lane| !(waits && self.in_progress.has_timed_out(*lane)))
    }

    /// Returns whether lanes whose last attempt timed out have to wait for each other: together
    /// they may take half of the slow permits.
    fn timed_out_lanes_wait(&self) -> bool {
        self.in_progress.timed_out() >= (self.policy.slow_max / 2).max(Policy::IN_FLIGHT_MIN)
    }

    /// Returns whether the receiver hangs on some sessions and usually answers fast. A receiver
    /// that answers every request slowly gets no additional attempts.
    fn is_hanging(&self, now: TimestampMs) -> bool {
        let left_ms = self.hanging_until.since_ms(now);
        (1..=HANGING_REMEMBERED_MS).contains(&left_ms)
            && i64::from(USUAL_TIMES * self.usual_ms) < ATTEMPT_SLOW_MS as i64
    }

    /// Returns the bound for listing held messages: all of them when they may be sent, otherwise
    /// those held for too long.
    fn held_before(&self, now: TimestampMs) -> TimestampMs {
        match self.mode {
            Mode::Paused(_) => now.plus_ms(1),
            Mode::Sending | Mode::Stopped => TimestampMs(i64::MAX),
        }
    }

    /// Returns whether an operation could begin now if a permit were free.
    fn waits_for_permit(&self, now: TimestampMs) -> bool {
        let due = self.window.first_due();
        self.window.first_ready().is_some()
            || due.is_some_and(|(due_at, _)| due_at <= now)
            || !self.manual.is_empty()
    }

    /// Returns the time after which an attempt is slow: at most [`ATTEMPT_SLOW_MS`], which is soon
    /// enough as long as no other message waits for its permit.
    fn slow_after_ms(&self, now: TimestampMs) -> i64 {
        let latest = ATTEMPT_SLOW_MS as i64;
        if self.waits_for_permit(now) {
            i64::from(USUAL_TIMES * self.usual_ms).clamp(SLOW_MS_MIN, latest)
        } else {
            latest
        }
    }

    /// Moves long-running attempts from quick permits to free slow permits, so that receivers that
    /// hang on some sessions do not delay the others.
    fn move_slow_attempts(&mut self, now: TimestampMs) {
        let room = self.policy.slow_max.saturating_sub(self.slow_in_flight());
        let slow_after_ms = self.slow_after_ms(now);
        let begun_by = now.plus_ms(-slow_after_ms);
        let slow = self.in_progress.quick_begun_by(begun_by).take(room);
        for lane in slow.collect::<Vec<_>>() {
            self.in_progress.update(lane, |busy| busy.is_slow = true);
        }
        if self.in_progress.attempts_begun_by(begun_by, HANGING_MIN) >= HANGING_MIN {
            self.hanging_until = now.plus_ms(HANGING_REMEMBERED_MS);
        }
    }

    /// Returns the time at which the next attempt becomes slow, if an operation waits for its
    /// permit and a slow permit is free.
    fn next_slow_at(&self, now: TimestampMs) -> Option<TimestampMs> {
        if !self.waits_for_permit(now) || self.slow_in_flight() >= self.policy.slow_max {
            return None;
        }
        let after_ms = self.slow_after_ms(now);
        let begun_at = self.in_progress.quick_begun_after(now.plus_ms(-after_ms))?;
        Some(begun_at.plus_ms(after_ms))
    }

    /// Requests the next tick, or reports that the machine is idle.
    pub(super) fn set_wake_time(&mut self, now: TimestampMs, effects: &mut Vec<Effect>) {
        let has_work = self.window.len() > 0
            || !self.manual.is_empty()
            || self.wanted != Wanted::default()
            || self.has_more_ready
            || self.has_more_due
            || self.has_more_held
            || self.has_more_manual;
        let has_work = self.mode != Mode::Stopped && has_work;
        if self.in_progress.is_empty() && !self.is_listing && !has_work {
            effects.push(Effect::Idle);
            return;
        }
        let wake_at = if self.is_paused_after_fault(now) {
            (has_work || !self.in_progress.uncommitted().is_empty())
                .then_some(self.fault_pause_until)
        } else if self.mode != Mode::Stopped {
            let due = self.window.first_due().map(|(due_at, _)| due_at);
            let due = due.filter(|&due_at| due_at > now);
            let slow = self.next_slow_at(now);
            due.into_iter().chain(slow).chain([self.relist_at]).min()
        } else {
            None
        };
        if let Some(wake_at) = wake_at.filter(|_| wake_at != self.wake_at) {
            self.wake_at = Some(wake_at);
            effects.push(Effect::WakeAt(wake_at));
        }
    }
}
