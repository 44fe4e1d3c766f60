//! Spaces the scores that late telemetry causes.
//!
//! A phone that was offline sends many batches of an ended session one after the other. A score
//! after each of them would repeat nearly all of the work, and a tenant whose phones all do so
//! would take the processors from the others. A client that sends a batch after each score is
//! spaced as well: a session is remembered for [`LATE_SCORES_REMEMBERED_MS`] after its last score.
//!
//! Times are milliseconds of a monotonic clock.

use std::collections::{BTreeMap, BTreeSet};

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    LATE_SCORES_APART_MAX_MS, LATE_SCORES_APART_MS, LATE_SCORES_PER_TENANT_PER_SEC,
    LATE_SCORES_REMEMBERED_MS,
};

/// The shortest time between two scores of one tenant.
const SCORE_INTERVAL_MS: u64 = 1_000 / LATE_SCORES_PER_TENANT_PER_SEC as u64;

/// The sessions of one tenant that have received telemetry late.
#[derive(Debug, Default)]
pub struct LateSessions {
    sessions: BTreeMap<SessionId, Late>,
    /// The keys of `sessions`, by the time of their next step.
    steps: BTreeSet<(u64, SessionId)>,
    /// The earliest time of the next score; 0 before the first.
    free_at_ms: u64,
}

/// A session that has received telemetry late.
#[derive(Debug, Clone, Copy)]
struct Late {
    /// The earliest time of its next score.
    due_at_ms: u64,
    /// The time at which it is forgotten if no batch arrives.
    forget_at_ms: u64,
    /// The time between its next score and the one after it.
    apart_ms: u64,
    /// Whether a batch has arrived since the last score.
    is_unscored: bool,
}

impl Late {
    /// Returns the time of its next step: it is scored, or forgotten if no batch has arrived since
    /// its last score.
    fn step_at_ms(&self) -> u64 {
        if self.is_unscored {
            self.due_at_ms
        } else {
            self.forget_at_ms
        }
    }
}

/// The next step of a tenant's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Score this session, then ask for the next step.
    Score(SessionId),
    /// There is nothing to do before this time, unless another batch arrives.
    Wait(u64),
    /// All late telemetry is scored.
    End,
}

impl LateSessions {
    /// Records that a batch of an ended session has arrived.
    pub fn arrive(&mut self, session_id: SessionId, now_ms: u64) {
        let late = self.sessions.entry(session_id).or_insert(Late {
            due_at_ms: now_ms,
            forget_at_ms: now_ms,
            apart_ms: LATE_SCORES_APART_MS,
            is_unscored: true,
        });
        self.steps.remove(&(late.step_at_ms(), session_id));
        late.is_unscored = true;
        self.steps.insert((late.step_at_ms(), session_id));
    }

    /// Returns the next step.
    pub fn step(&mut self, now_ms: u64) -> Step {
        while let Some((step_at_ms, session_id)) = self.steps.first().copied() {
            let step_at_ms = step_at_ms.max(self.free_at_ms);
            if step_at_ms > now_ms {
                return Step::Wait(step_at_ms);
            }
            self.steps.pop_first();
            if self.perform(session_id, now_ms) {
                return Step::Score(session_id);
            }
        }
        Step::End
    }

    /// Returns the number of sessions that have received telemetry since their last score.
    #[must_use]
    pub fn unscored(&self) -> usize {
        let is_unscored = |late: &&Late| late.is_unscored;
        self.sessions.values().filter(is_unscored).count()
    }

    /// Performs the step of a session. Returns whether it is to be scored; if not, it is forgotten.
    fn perform(&mut self, session_id: SessionId, now_ms: u64) -> bool {
        let Some(late) = self.sessions.get_mut(&session_id) else {
            return false;
        };
        if !late.is_unscored {
            self.sessions.remove(&session_id);
            return false;
        }
        *late = Late {
            due_at_ms: now_ms + late.apart_ms,
            forget_at_ms: now_ms + LATE_SCORES_REMEMBERED_MS,
            apart_ms: (late.apart_ms * 2).min(LATE_SCORES_APART_MAX_MS),
            is_unscored: false,
        };
        self.steps.insert((late.step_at_ms(), session_id));
        self.free_at_ms = now_ms + SCORE_INTERVAL_MS;
        true
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    fn session(random: u128) -> SessionId {
        SessionId::new(TimestampMs(0), random)
    }

    /// Performs the steps for `seconds` while a batch of each session arrives every 100 ms. Returns
    /// the number of scores of each session.
    fn scores(late: &mut LateSessions, sessions: &[SessionId], seconds: u64) -> Vec<usize> {
        let mut scored = Vec::new();
        for now_ms in 0..seconds * 1_000 {
            if now_ms.is_multiple_of(100) {
                for session_id in sessions {
                    late.arrive(*session_id, now_ms);
                }
            }
            while let Step::Score(session_id) = late.step(now_ms) {
                scored.push(session_id);
            }
        }
        let count = |id| scored.iter().filter(|scored| *scored == id).count();
        sessions.iter().map(count).collect()
    }

    #[test]
    fn one_late_batch_is_scored_at_once() {
        let mut late = LateSessions::default();
        late.arrive(session(1), 7);
        assert_eq!(late.step(7), Step::Score(session(1)));
        let Step::Wait(until_ms) = late.step(7) else {
            panic!("the session is forgotten too early");
        };
        assert_eq!(late.step(until_ms), Step::End);
        late.arrive(session(1), until_ms);
        assert_eq!(late.step(until_ms), Step::Score(session(1)));
    }

    #[test]
    fn batches_that_follow_are_scored_together_and_the_last_one_is_scored() {
        let mut late = LateSessions::default();
        // Scores at 0, 0.5, 1.5, 3.5, and then every 4 s.
        assert_eq!(scores(&mut late, &[session(1)], 60), [18]);
        let mut now_ms = 3_600_000;
        let mut scored = 0;
        loop {
            match late.step(now_ms) {
                Step::Score(_) => scored += 1,
                Step::Wait(until_ms) => now_ms = until_ms,
                Step::End => break,
            }
        }
        assert_eq!(scored, 1, "the batches after the last score");
        assert_eq!(late.unscored(), 0);
        assert!(late.sessions.is_empty());
    }

    /// A client that waits for each score before it sends the next batch gets no more scores than
    /// one that sends all the time.
    #[test]
    fn a_batch_after_each_score_causes_no_more_scores() {
        let mut late = LateSessions::default();
        let mut scored_at_ms: Vec<u64> = Vec::new();
        for now_ms in 0..60_000 {
            let is_quiet = scored_at_ms.last().is_none_or(|last| now_ms > last + 501);
            if is_quiet {
                late.arrive(session(1), now_ms);
            }
            if late.step(now_ms) == Step::Score(session(1)) {
                scored_at_ms.push(now_ms);
            }
        }
        assert!(scored_at_ms.len() <= 18, "{scored_at_ms:?}");
        assert_eq!(late.steps.len(), 1, "one step for each session");
    }

    #[test]
    fn a_batch_after_a_pause_is_scored_at_once_and_a_quiet_session_is_forgotten() {
        let mut late = LateSessions::default();
        for now_ms in (0..50_000).step_by(5_000) {
            late.arrive(session(1), now_ms);
            assert_eq!(late.step(now_ms), Step::Score(session(1)), "{now_ms}");
        }
        let Step::Wait(until_ms) = late.step(45_000) else {
            panic!("the session is forgotten too early");
        };
        assert_eq!(until_ms, 45_000 + LATE_SCORES_REMEMBERED_MS);
        assert_eq!(late.step(until_ms), Step::End);
        assert!(late.sessions.is_empty() && late.steps.is_empty());
    }

    #[test]
    fn sessions_of_a_tenant_share_a_bounded_rate_and_take_turns() {
        let mut late = LateSessions::default();
        let sessions: Vec<_> = (0..500).map(session).collect();
        let counts = scores(&mut late, &sessions, 20);
        let total: usize = counts.iter().sum();
        let most = 20 * LATE_SCORES_PER_TENANT_PER_SEC as usize;
        assert!((most * 9 / 10..=most).contains(&total), "{total}");
        assert!(
            counts.iter().all(|count| (3..=5).contains(count)),
            "{counts:?}"
        );
    }
}
