//! What comes next.

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::WHEEL_AHEAD_MS;
use porchlight_schema::time::TimestampMs;

use super::{
    BY_HAND_MAX, Busy, COMMIT_LAG_MS, COMMIT_LAG_MS_MAX, Class, DEEP_EVERY_MS, EndpointMachine,
    LOW_WATER, RELIST_MS, Stage, Wanted,
};
use crate::webhook::{Effect, HandRequest};

impl EndpointMachine {
    pub(super) fn horizon(&self, now: TimestampMs) -> TimestampMs {
        now.plus_ms(WHEEL_AHEAD_MS as i64)
    }

    pub(super) fn ready_max(&self) -> usize {
        self.policy.lanes_max / 2
    }

    pub(super) fn due_max(&self) -> usize {
        self.policy.lanes_max / 2
    }

    pub(super) fn go_on(&mut self, now: TimestampMs, effects: &mut Vec<Effect>) {
        if !self.held(now) {
            self.commit_again(effects);
            if self.enabled {
                self.load(now, effects);
                while let Some((lane, class, hand)) = self.pick(now) {
                    self.window.remove(lane);
                    if let Some(hand) = hand {
                        self.by_hand.remove(&(hand.asked_at, hand.id));
                    }
                    let stage = Stage::Reading;
                    self.busy.insert(lane, Busy { class, hand, stage });
                    effects.push(Effect::Read(lane, hand));
                }
                self.load(now, effects);
            }
        }
        self.sleep(now, effects);
    }

    pub(super) fn commit_again(&mut self, effects: &mut Vec<Effect>) {
        for (&lane, busy) in &mut self.busy {
            if let Stage::Uncommitted(change) = &mut busy.stage {
                let change = std::mem::take(change);
                effects.push(Effect::Commit(lane, change.clone()));
                busy.stage = Stage::Committing(change);
            }
        }
    }

    pub(super) fn load(&mut self, now: TimestampMs, effects: &mut Vec<Effect>) {
        if self.loading {
            return;
        }
        let low_water = LOW_WATER.min(self.ready_max() / 2);
        let mut wanted = self.wanted;
        if now >= self.relist_at || self.relist_at.since_ms(now) > RELIST_MS {
            wanted = Wanted {
                ready: true,
                due: true,
            };
        }
        wanted.ready |= self.more_ready && self.window.ready_len() <= low_water;
        wanted.due |= self.more_due && self.window.due_len() <= low_water;
        // While there is plenty to be looked at and more in the store, what is new is behind it and can wait.
        let plenty = self.more_ready && self.window.ready_len() > low_water;
        let by_hand_low = self.more_by_hand && self.by_hand.is_empty();
        if !(wanted.ready && !plenty || wanted.due || by_hand_low) {
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
        };
        self.loading = true;
        effects.push(Effect::Load {
            ready: (wanted.ready && !plenty).then(|| (from, self.ready_max())),
            due: wanted.due.then(|| (self.horizon(now), self.due_max())),
            by_hand: BY_HAND_MAX,
        });
    }

    /// The next lane to take up: tries by hand first, then fresh messages, then retries. None of the three may take
    /// all places, so that none is starved: tries by hand get a quarter at most, and fresh ones leave an eighth and
    /// retries a quarter of all places to the others.
    pub(super) fn pick(&self, now: TimestampMs) -> Option<(SessionId, Class, Option<HandRequest>)> {
        if self.busy.len() >= self.allowed {
            return None;
        }
        let under_way = |class| self.busy.values().filter(|b| b.class == class).count();
        if under_way(Class::ByHand) < (self.allowed / 4).max(1) {
            let free = |request: &&HandRequest| !self.busy.contains_key(&request.session_id);
            if let Some(&request) = self.by_hand.values().find(free) {
                return Some((request.session_id, Class::ByHand, Some(request)));
            }
        }
        if under_way(Class::Fresh) < self.allowed - (self.allowed / 8).max(1)
            && let Some((_, lane)) = self.window.first_ready()
        {
            return Some((lane, Class::Fresh, None));
        }
        if under_way(Class::Retry) < self.allowed - (self.allowed / 4).max(1) {
            let due = self.window.first_due();
            if let Some((_, lane)) = due.filter(|&(due_at, _)| due_at <= now) {
                return Some((lane, Class::Retry, None));
            }
        }
        None
    }

    pub(super) fn sleep(&mut self, now: TimestampMs, effects: &mut Vec<Effect>) {
        let uncommitted = |busy: &Busy| matches!(busy.stage, Stage::Uncommitted(_));
        let has_work = self.window.len() > 0
            || !self.by_hand.is_empty()
            || self.wanted != Wanted::default()
            || self.more_ready
            || self.more_due
            || self.more_by_hand;
        let has_work = self.enabled && has_work;
        if self.busy.is_empty() && !self.loading && !has_work {
            effects.push(Effect::Idle);
            return;
        }
        let wake_at = if self.held(now) {
            (has_work || self.busy.values().any(uncommitted)).then_some(self.hold_until)
        } else if self.enabled {
            let due = self.window.first_due().map(|(due_at, _)| due_at);
            let due = due.filter(|&due_at| due_at > now);
            due.into_iter().chain([self.relist_at]).min()
        } else {
            None
        };
        if let Some(wake_at) = wake_at.filter(|_| wake_at != self.wake_at) {
            self.wake_at = Some(wake_at);
            effects.push(Effect::WakeAt(wake_at));
        }
    }
}
