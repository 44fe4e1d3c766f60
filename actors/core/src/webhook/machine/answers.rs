//! Applies answers to the machine's state.

use std::collections::BTreeSet;

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::ATTEMPT_SLOW_MS;
use porchlight_schema::time::TimestampMs;

use super::{
    Class, EndpointMachine, FAULT_PAUSE_MS_MIN, LaneInProgress, MANUAL_RETRIES_MAX, Policy, Stage,
    Wanted,
};
use crate::webhook::lane::{self, Unsent, Verdict};
use crate::webhook::window::Wait;
use crate::webhook::{AttemptResult, Cause, Change, Effect, Lane, Listing, Mode, Queued, State};

impl LaneInProgress {
    /// Begins the commit of a change.
    pub(super) fn commit(&mut self, lane: SessionId, change: Change) -> Effect {
        self.stage = Stage::Committing(change.clone());
        Effect::Commit(lane, change)
    }

    /// Begins an attempt.
    fn send(&mut self, now: TimestampMs, attempted: Queued) -> Effect {
        self.stage = Stage::Sending {
            attempted,
            begun_at: now,
        };
        Effect::Send(attempted, attempted.attempts.saturating_add(1))
    }

    /// Records that a listing contains a message of the lane. If the message was not read, the
    /// answer to a commit may lack it.
    fn on_listed(&mut self, id: MessageId) {
        self.has_new_message |= !self.waiting.iter().any(|message| message.id == id);
    }
}

impl EndpointMachine {
    /// Processes the answer to a listing.
    pub(super) fn listed(&mut self, now: TimestampMs, listing: Option<Listing>) {
        self.is_listing = false;
        let Some(listing) = listing else {
            self.wanted = Wanted::ALL;
            self.pause_after_fault(now);
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
                let known = self.in_progress.update(lane, |busy| busy.on_listed(id));
                if known.is_none() && !matches!(self.window.get(lane), Some(Wait::Ready(_))) {
                    self.window.put(lane, Wait::Ready(id));
                }
            }
            self.has_more_ready = more && self.window.ready_len() > before;
            self.must_list_after_commit |= more && !self.has_more_ready;
        }
        if let Some(due) = listing.due {
            let (more, before) = (due.len() >= self.due_max(), self.window.due_len());
            for (due_at, lane) in due {
                if self.window.get(lane).is_none() && !self.in_progress.contains(lane) {
                    self.put_due(lane, due_at);
                }
            }
            self.has_more_due = more && self.window.due_len() > before;
            self.must_list_after_commit |= more && !self.has_more_due;
        }
        if let Some(held) = listing.held {
            let (more, mut taken) = (held.len() >= self.held_max(), false);
            for (id, lane) in held {
                if self.window.get(lane).is_none() && !self.in_progress.contains(lane) {
                    self.window.put(lane, Wait::Ready(id));
                    taken = true;
                }
            }
            self.has_more_held = more && taken;
            self.must_list_after_commit |= more && !taken;
        }
        self.has_more_manual = listing.manual.len() >= MANUAL_RETRIES_MAX;
        let under_way: BTreeSet<_> = self
            .in_progress
            .all()
            .filter_map(|busy| busy.manual_retry)
            .collect();
        for request in listing.manual {
            if !under_way.contains(&request) {
                self.manual
                    .insert((request.requested_at, request.id), request);
            }
        }
        if std::mem::take(&mut self.woken_while_listing) {
            self.wanted.ready = true;
        }
    }

    /// Processes the answer to the read of a lane.
    pub(super) fn read(
        &mut self,
        now: TimestampMs,
        lane: SessionId,
        read: Option<Lane>,
        effects: &mut Vec<Effect>,
    ) {
        let paused_at = self.paused_at();
        let Some(manual_retry) = self.in_progress.get(lane).map(|busy| busy.manual_retry) else {
            return;
        };
        let Some(read) = read else {
            self.in_progress.remove(lane);
            self.wanted = Wanted::ALL;
            if let Some(manual_retry) = manual_retry {
                self.manual
                    .insert((manual_retry.requested_at, manual_retry.id), manual_retry);
            }
            self.pause_after_fault(now);
            return;
        };
        if self.mode == Mode::Stopped {
            self.in_progress.remove(lane);
            return;
        }
        if let Some(request) = manual_retry {
            let may_be_sent = |message: &Queued| match message.state {
                State::Waiting | State::Held | State::Failed | State::Cancelled => true,
                State::Delivered => request.again,
                State::Superseded => false,
            };
            let message = read.manual.filter(may_be_sent);
            let message = message.filter(Queued::has_attempts_left);
            let Some(message) = message else {
                let change = Change {
                    manual_done: Some(request),
                    ..Change::default()
                };
                let commit = self
                    .in_progress
                    .update(lane, |busy| busy.commit(lane, change));
                effects.extend(commit);
                return;
            };
            let send = self.in_progress.update(lane, |busy| {
                busy.waiting = read.waiting;
                busy.send(now, message)
            });
            effects.extend(send);
            return;
        }
        match lane::examine(&read.waiting, now, paused_at) {
            Verdict::Commit(change) => {
                effects.extend(self.in_progress.update(lane, |busy| {
                    busy.waiting = read.waiting;
                    busy.commit(lane, change)
                }));
            }
            Verdict::Send(head) => {
                effects.extend(self.in_progress.update(lane, |busy| {
                    busy.class = if head.attempts == 0 {
                        Class::Fresh
                    } else {
                        Class::Retry
                    };
                    busy.waiting = read.waiting;
                    busy.send(now, head)
                }));
            }
            Verdict::Wait(_) | Verdict::Held(_) | Verdict::Empty => {
                self.finish(now, lane, &read.waiting);
            }
        }
    }

    /// Processes the result of an attempt.
    pub(super) fn attempted(
        &mut self,
        now: TimestampMs,
        lane: SessionId,
        report: AttemptResult,
        random: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Some(busy) = self.in_progress.get(lane) else {
            return;
        };
        let Stage::Sending { attempted, .. } = busy.stage else {
            return;
        };
        // A slow attempt keeps its slow permit until its commit ends: a quick permit may not be
        // free.
        let was_slow = busy.is_slow;
        if report.cause == Some(Cause::Internal) {
            let (waiting, manual_retry) = (busy.waiting.clone(), busy.manual_retry);
            if let Some(manual_retry) = manual_retry {
                self.manual
                    .insert((manual_retry.requested_at, manual_retry.id), manual_retry);
            }
            self.finish(now, lane, &waiting);
            self.pause_after_fault(now);
            return;
        }
        self.fault_pause_ms = FAULT_PAUSE_MS_MIN;
        let (cause, duration_ms) = (report.cause, report.duration_ms);
        let change = lane::changes_after_attempt(
            &busy.waiting,
            attempted,
            busy.manual_retry,
            report,
            random,
        );
        let commit = self
            .in_progress
            .update(lane, |busy| busy.commit(lane, change));
        effects.extend(commit);
        let timed_out = cause == Some(Cause::Timeout);
        self.in_progress.record_timeout(lane, timed_out);
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

    /// Ends a message that cannot be sent. This is not a fault of the store: the other lanes
    /// continue.
    pub(super) fn end_unsent(
        &mut self,
        lane: SessionId,
        reason: Unsent,
        effects: &mut Vec<Effect>,
    ) {
        let commit = self.in_progress.update(lane, |busy| {
            let Stage::Sending { attempted, .. } = busy.stage else {
                return None;
            };
            let change = match reason {
                Unsent::Damaged => {
                    lane::changes_without_body(&busy.waiting, attempted, busy.manual_retry)
                }
                Unsent::Removed => lane::changes_of_removed(attempted, busy.manual_retry),
            };
            Some(busy.commit(lane, change))
        });
        effects.extend(commit.flatten());
    }

    /// Processes the answer to a commit.
    pub(super) fn committed(
        &mut self,
        now: TimestampMs,
        lane: SessionId,
        waiting: Option<Vec<Queued>>,
    ) {
        if !self.in_progress.contains(lane) {
            return;
        }
        if let Some(waiting) = waiting {
            self.finish(now, lane, &waiting);
            if std::mem::take(&mut self.must_list_after_commit) {
                self.wanted = Wanted::ALL;
            }
        } else {
            self.in_progress.update(lane, |busy| {
                if let Stage::Committing(change) = &mut busy.stage {
                    busy.stage = Stage::Uncommitted(std::mem::take(change));
                }
            });
            self.pause_after_fault(now);
        }
    }

    /// Ends the operation of a lane and puts the lane back into the window. `waiting` is its
    /// waiting messages as they were last read.
    fn finish(&mut self, now: TimestampMs, lane: SessionId, waiting: &[Queued]) {
        let ended = self.in_progress.remove(lane);
        self.requeue(now, lane, waiting);
        if ended.is_some_and(|busy| busy.has_new_message) && self.mode != Mode::Stopped {
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
            (Verdict::Commit(_) | Verdict::Send(_), Some(head)) => {
                self.window.put(lane, Wait::Ready(head.id));
            }
        }
    }

    /// Puts a lane that is due at `due_at` into the window, and removes the latest one if there are
    /// too many.
    pub(super) fn put_due(&mut self, lane: SessionId, due_at: TimestampMs) {
        self.window.put(lane, Wait::Due(due_at));
        if self.window.due_len() > self.due_max() {
            self.window.remove_latest_due();
            self.has_more_due = true;
        }
    }
}
