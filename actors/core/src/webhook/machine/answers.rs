//! Applies answers to the machine's state.

use std::collections::BTreeSet;

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::ATTEMPT_SLOW_MS;
use porchlight_schema::time::TimestampMs;

use super::{
    Busy, Class, EndpointMachine, HOLD_MS_MIN, HUNG_LANES_MAX, MANUAL_RETRIES_MAX, Policy, Stage,
    Wanted,
};
use crate::webhook::lane::{self, Verdict};
use crate::webhook::window::Wait;
use crate::webhook::{AttemptResult, Cause, Change, Effect, Lane, Listing, Mode, Queued, State};

impl Busy {
    /// Begins the commit of a change.
    pub(super) fn commit(&mut self, lane: SessionId, change: Change) -> Effect {
        self.stage = Stage::Committing(change.clone());
        Effect::Commit(lane, change)
    }

    /// Notes that a listing contains a message of the lane. The answer to a commit may lack it, unless it was read before.
    fn on_listed(&mut self, id: MessageId) {
        self.got_more |= !self.waiting.iter().any(|message| message.id == id);
    }
}

impl EndpointMachine {
    pub(super) fn loaded(&mut self, now: TimestampMs, listing: Option<Listing>) {
        self.loading = false;
        let Some(listing) = listing else {
            self.wanted = Wanted::ALL;
            self.hold(now);
            return;
        };
        if self.mode == Mode::Stopped {
            self.listed_from = TimestampMs(i64::MIN);
            return;
        }
        if let Some(ready) = listing.ready {
            let oldest = ready.first().map(|(id, _)| id.made_at());
            let oldest = oldest.unwrap_or(self.listing_at).min(self.listing_at);
            self.listed_from = oldest;
            let (more, before) = (ready.len() >= self.ready_max(), self.window.ready_len());
            for (id, lane) in ready {
                if let Some(busy) = self.busy.get_mut(&lane) {
                    busy.on_listed(id);
                } else if !matches!(self.window.get(lane), Some(Wait::Ready(_))) {
                    self.window.put(lane, Wait::Ready(id));
                }
            }
            self.more_ready = more && self.window.ready_len() > before;
            self.list_after_commit |= more && !self.more_ready;
        }
        if let Some(due) = listing.due {
            let (more, before) = (due.len() >= self.due_max(), self.window.due_len());
            for (due_at, lane) in due {
                if self.window.get(lane).is_none() && !self.busy.contains_key(&lane) {
                    self.put_due(lane, due_at);
                }
            }
            self.more_due = more && self.window.due_len() > before;
            self.list_after_commit |= more && !self.more_due;
        }
        if let Some(held) = listing.held {
            let (more, mut taken) = (held.len() >= self.held_max(), false);
            for (id, lane) in held {
                if self.window.get(lane).is_none() && !self.busy.contains_key(&lane) {
                    self.window.put(lane, Wait::Ready(id));
                    taken = true;
                }
            }
            self.more_held = more && taken;
            self.list_after_commit |= more && !taken;
        }
        self.more_manual = listing.manual.len() >= MANUAL_RETRIES_MAX;
        let under_way: BTreeSet<_> = self.busy.values().filter_map(|busy| busy.hand).collect();
        for request in listing.manual {
            if !under_way.contains(&request) {
                self.manual.insert((request.asked_at, request.id), request);
            }
        }
        if std::mem::take(&mut self.woken_while_loading) {
            self.wanted.ready = true;
        }
    }

    pub(super) fn read(
        &mut self,
        now: TimestampMs,
        lane: SessionId,
        read: Option<Lane>,
        effects: &mut Vec<Effect>,
    ) {
        let paused_at = self.paused_at();
        let Some(busy) = self.busy.get_mut(&lane) else {
            return;
        };
        let Some(read) = read else {
            let hand = busy.hand;
            self.busy.remove(&lane);
            self.wanted = Wanted::ALL;
            if let Some(hand) = hand {
                self.manual.insert((hand.asked_at, hand.id), hand);
            }
            self.hold(now);
            return;
        };
        if self.mode == Mode::Stopped {
            self.busy.remove(&lane);
            return;
        }
        if let Some(request) = busy.hand {
            let message = read.manual.filter(|message| match message.state {
                State::Waiting | State::Held | State::Failed | State::Cancelled => true,
                State::Delivered => request.again,
                State::Superseded => false,
            });
            let Some(message) = message else {
                let change = Change {
                    manual_done: Some(request),
                    ..Change::default()
                };
                effects.push(busy.commit(lane, change));
                return;
            };
            busy.waiting = read.waiting;
            Self::send(now, busy, message, effects);
            return;
        }
        match lane::examine(&read.waiting, now, paused_at) {
            Verdict::Tidy(change) => {
                busy.waiting = read.waiting;
                effects.push(busy.commit(lane, change));
            }
            Verdict::Send(head) => {
                busy.class = if head.attempts == 0 {
                    Class::Fresh
                } else {
                    Class::Retry
                };
                busy.waiting = read.waiting;
                Self::send(now, busy, head, effects);
            }
            Verdict::Wait(_) | Verdict::Held(_) | Verdict::Empty => {
                self.finish(now, lane, &read.waiting);
            }
        }
    }

    pub(super) fn send(
        now: TimestampMs,
        busy: &mut Busy,
        tried: Queued,
        effects: &mut Vec<Effect>,
    ) {
        busy.stage = Stage::Sending {
            tried,
            begun_at: now,
        };
        effects.push(Effect::Send(tried, tried.attempts.saturating_add(1)));
    }

    pub(super) fn tried(
        &mut self,
        now: TimestampMs,
        lane: SessionId,
        report: AttemptResult,
        chance: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(busy) = self.busy.get_mut(&lane) else {
            return;
        };
        let Stage::Sending { tried, .. } = busy.stage else {
            return;
        };
        // A slow attempt keeps its slow permit until its commit ends: a quick permit may not be free.
        let was_slow = busy.slow;
        if report.cause == Some(Cause::Internal) {
            let (waiting, hand) = (std::mem::take(&mut busy.waiting), busy.hand);
            if let Some(hand) = hand {
                self.manual.insert((hand.asked_at, hand.id), hand);
            }
            self.finish(now, lane, &waiting);
            self.hold(now);
            return;
        }
        self.hold_ms = HOLD_MS_MIN;
        let (cause, duration_ms) = (report.cause, report.duration_ms);
        let change = lane::conclude(&busy.waiting, tried, busy.hand, report, chance);
        effects.push(busy.commit(lane, change));
        self.remember_hung(lane, cause == Some(Cause::Timeout));
        match cause {
            Some(Cause::Timeout) if was_slow => {}
            Some(Cause::Timeout) => {
                self.allowed = (self.allowed - 1).max(Policy::IN_FLIGHT_MIN);
            }
            _ => {
                self.allowed = (self.allowed + 1).min(self.policy.in_flight_max);
                let taken_ms = duration_ms.min(ATTEMPT_SLOW_MS as u32);
                self.usual_ms = (7 * self.usual_ms + taken_ms) / 8;
            }
        }
    }

    /// Records whether the last attempt of a lane timed out.
    fn remember_hung(&mut self, lane: SessionId, hung: bool) {
        if hung {
            self.hung.insert(lane);
            if self.hung.len() > HUNG_LANES_MAX {
                self.hung.pop_first();
            }
        } else {
            self.hung.remove(&lane);
        }
    }

    pub(super) fn committed(
        &mut self,
        now: TimestampMs,
        lane: SessionId,
        waiting: Option<Vec<Queued>>,
    ) {
        let Some(busy) = self.busy.get_mut(&lane) else {
            return;
        };
        if let Some(waiting) = waiting {
            self.finish(now, lane, &waiting);
            if std::mem::take(&mut self.list_after_commit) {
                self.wanted = Wanted::ALL;
            }
        } else {
            if let Stage::Committing(change) = &mut busy.stage {
                busy.stage = Stage::Uncommitted(std::mem::take(change));
            }
            self.hold(now);
        }
    }

    /// Ends the progress of a lane. `waiting` contains the messages that were read, unless they no longer wait.
    fn finish(&mut self, now: TimestampMs, lane: SessionId, waiting: &[Queued]) {
        let ended = self.busy.remove(&lane);
        self.requeue(now, lane, waiting);
        if ended.is_some_and(|busy| busy.got_more) && self.mode != Mode::Stopped {
            let known = matches!(self.window.get(lane), Some(Wait::Ready(_)));
            if !known {
                self.window.put(lane, Wait::Ready(MessageId::new(now, 0)));
            }
        }
    }

    /// Puts a lane that is no longer in progress back into the window, if it belongs there.
    pub(super) fn requeue(&mut self, now: TimestampMs, lane: SessionId, waiting: &[Queued]) {
        if self.mode == Mode::Stopped {
            return;
        }
        let verdict = lane::examine(waiting, now, self.paused_at());
        match (verdict, waiting.first()) {
            (Verdict::Empty | Verdict::Held(_), _) | (_, None) => {}
            (Verdict::Wait(due_at), _) => {
                if due_at < self.horizon(now) {
                    self.put_due(lane, due_at);
                }
            }
            (Verdict::Send(head), _) if head.attempts > 0 && head.state == State::Waiting => {
                self.put_due(lane, head.due_at.unwrap_or(now));
            }
            (Verdict::Tidy(_) | Verdict::Send(_), Some(head)) => {
                self.window.put(lane, Wait::Ready(head.id));
            }
        }
    }

    pub(super) fn put_due(&mut self, lane: SessionId, due_at: TimestampMs) {
        self.window.put(lane, Wait::Due(due_at));
        if self.window.due_len() > self.due_max() {
            self.window.remove_latest_due();
            self.more_due = true;
        }
    }
}
