//! Decides which ended session is scored next.
//!
//! Tenants take turns, so a tenant whose sessions end all at once delays the insights of the others by
//! at most one session each time. Several sessions are scored at the same time, because a score
//! mostly waits for the store; one session is never scored twice at the same time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;

use crate::backoff::Backoff;

/// The sessions to score. `T` is a value that the caller attaches to each request, such as its time.
#[derive(Debug)]
pub struct ScoreQueue<T> {
    /// The maximum number of sessions that are scored at the same time.
    at_once_max: usize,
    /// The maximum number of these that belong to one tenant.
    tenant_at_once_max: usize,
    /// The backoff of a session without failures.
    backoff: Backoff,
    sessions: BTreeMap<SessionId, Request>,
    /// The waiting sessions of each tenant, in the order of their requests.
    waiting: BTreeMap<Option<Tenant>, VecDeque<(SessionId, T)>>,
    /// The tenants with waiting sessions; the first one has the next turn.
    turns: VecDeque<Option<Tenant>>,
    running: BTreeMap<Option<Tenant>, usize>,
}

/// The request to score a session.
#[derive(Debug)]
struct Request {
    tenant: Option<Tenant>,
    backoff: Backoff,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// The session is being scored. `again`: it was requested since the score began.
    Running {
        again: bool,
    },
    /// The last attempt failed, and the next one has to wait.
    Paused,
}

/// A session whose score begins.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun<T> {
    /// The id of the session.
    pub session_id: SessionId,
    /// The number of attempts that failed since the session was requested.
    pub failures: u32,
    /// The value that the caller attached to the request.
    pub attached: T,
}

impl<T> ScoreQueue<T> {
    /// Creates an empty queue that lets `at_once_max` sessions be scored at the same time, of which
    /// `tenant_at_once_max` may belong to one tenant. The pauses after failures follow `backoff`.
    #[must_use]
    pub fn new(at_once_max: usize, tenant_at_once_max: usize, backoff: Backoff) -> Self {
        Self {
            at_once_max,
            tenant_at_once_max,
            backoff,
            sessions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            running: BTreeMap::new(),
        }
    }

    /// Requests the score of a session. A session that is being scored is scored once more
    /// afterwards. Sessions without a known tenant share the turns of one tenant.
    pub fn request(&mut self, session_id: SessionId, tenant: Option<Tenant>, attached: T) {
        match self.sessions.get_mut(&session_id) {
            Some(request) => {
                // A score reads everything when it begins, so one that has not begun needs nothing.
                if let State::Running { again } = &mut request.state {
                    *again = true;
                }
            }
            None => {
                let request = Request {
                    tenant,
                    backoff: self.backoff,
                    state: State::Waiting,
                };
                self.sessions.insert(session_id, request);
                self.enqueue(session_id, attached);
            }
        }
    }

    /// Begins the score of the session whose turn it is. Returns `None` if none waits, or if as many
    /// sessions as allowed are being scored.
    pub fn begin(&mut self) -> Option<Begun<T>> {
        if self.running.values().sum::<usize>() >= self.at_once_max {
            return None;
        }
        let max = self.tenant_at_once_max;
        let may_run = |tenant| {
            self.running
                .get(tenant)
                .is_none_or(|&running| running < max)
        };
        let turn = self.turns.iter().position(may_run)?;
        let tenant = self.turns.remove(turn)?;
        let waiting = self.waiting.get_mut(&tenant)?;
        let (session_id, attached) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        *self.running.entry(tenant).or_default() += 1;
        let request = self.sessions.get_mut(&session_id)?;
        request.state = State::Running { again: false };
        Some(Begun {
            session_id,
            failures: request.backoff.failures(),
            attached,
        })
    }

    /// Completes the score of a session, or ends it because another node scores the session. If the
    /// session was requested again meanwhile, it waits for its next score, with `attached`.
    pub fn complete(&mut self, session_id: SessionId, attached: T) {
        if let Some(request) = self.remove(session_id)
            && request.state == (State::Running { again: true })
        {
            self.request(session_id, request.tenant, attached);
        }
    }

    /// Pauses a session whose score has failed. Returns the time after which the caller calls
    /// [`ScoreQueue::resume`], or `None` if the session is not being scored.
    pub fn fail(&mut self, session_id: SessionId) -> Option<Duration> {
        let request = self.sessions.get_mut(&session_id)?;
        if !matches!(request.state, State::Running { .. }) {
            return None;
        }
        request.state = State::Paused;
        let pause = request.backoff.on_failure();
        let tenant = request.tenant;
        self.release(tenant);
        Some(pause)
    }

    /// Lets a paused session wait for its next attempt.
    pub fn resume(&mut self, session_id: SessionId, attached: T) {
        let state = self.sessions.get(&session_id).map(|request| request.state);
        if state == Some(State::Paused) {
            self.enqueue(session_id, attached);
        }
    }

    /// Returns the number of sessions that wait, are being scored or are paused.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns whether no session waits, is being scored or is paused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the number of sessions whose first attempt has not ended.
    #[must_use]
    pub fn in_first_attempt(&self) -> usize {
        let all = self.sessions.values();
        all.filter(|request| request.backoff.failures() == 0)
            .count()
    }

    fn enqueue(&mut self, session_id: SessionId, attached: T) {
        let Some(request) = self.sessions.get_mut(&session_id) else {
            return;
        };
        request.state = State::Waiting;
        let waiting = self.waiting.entry(request.tenant).or_default();
        if waiting.is_empty() {
            self.turns.push_back(request.tenant);
        }
        waiting.push_back((session_id, attached));
    }

    /// Removes the request of a session that is not waiting.
    fn remove(&mut self, session_id: SessionId) -> Option<Request> {
        let state = self.sessions.get(&session_id)?.state;
        if state == State::Waiting {
            return None;
        }
        let request = self.sessions.remove(&session_id)?;
        if state != State::Paused {
            self.release(request.tenant);
        }
        Some(request)
    }

    /// Ends one of the running scores of a tenant.
    fn release(&mut self, tenant: Option<Tenant>) {
        if let Some(running) = self.running.get_mut(&tenant) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.running.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;
    use proptest::prelude::*;

    use super::*;

    fn tenant(number: u8) -> Option<Tenant> {
        Some(Tenant {
            organization_id: OrganizationId::new(TimestampMs(0), u128::from(number)),
            env: Env::Production,
        })
    }

    fn session(number: u8) -> SessionId {
        SessionId::new(TimestampMs(0), u128::from(number))
    }

    fn queue_of(at_once_max: usize, tenant_at_once_max: usize) -> ScoreQueue<()> {
        ScoreQueue::new(at_once_max, tenant_at_once_max, Backoff::new(200, 30_000))
    }

    fn begun(queue: &mut ScoreQueue<()>) -> Vec<SessionId> {
        std::iter::from_fn(|| queue.begin().map(|begun| begun.session_id)).collect()
    }

    #[test]
    fn a_tenant_with_many_sessions_delays_another_tenant_by_one_session() {
        let mut queue = queue_of(1, 1);
        for number in 0..100 {
            queue.request(session(number), tenant(1), ());
        }
        assert_eq!(begun(&mut queue), [session(0)]);
        queue.request(session(200), tenant(2), ());
        queue.complete(session(0), ());
        assert_eq!(begun(&mut queue), [session(1)]);
        queue.complete(session(1), ());
        assert_eq!(begun(&mut queue), [session(200)]);
    }

    #[test]
    fn one_tenant_uses_a_part_of_the_scores_at_the_same_time() {
        let mut queue = queue_of(4, 2);
        for number in 0..10 {
            queue.request(session(number), tenant(1), ());
        }
        assert_eq!(begun(&mut queue).len(), 2);
        for number in 10..20 {
            queue.request(session(number), tenant(2), ());
        }
        assert_eq!(begun(&mut queue), [session(10), session(11)]);
    }

    #[test]
    fn a_session_that_is_requested_during_its_score_is_scored_once_more() {
        let mut queue = queue_of(4, 4);
        queue.request(session(1), tenant(1), ());
        queue.request(session(1), tenant(1), ());
        assert_eq!(begun(&mut queue), [session(1)]);
        queue.request(session(1), tenant(1), ());
        queue.request(session(1), tenant(1), ());
        assert_eq!(begun(&mut queue), []);
        queue.complete(session(1), ());
        assert_eq!(begun(&mut queue), [session(1)]);
        queue.complete(session(1), ());
        assert!(queue.is_empty());
    }

    #[test]
    fn a_failed_session_waits_for_its_pause_and_counts_its_failures() {
        let mut queue = queue_of(4, 4);
        queue.request(session(1), tenant(1), ());
        for failures in 0..3 {
            let begun = queue.begin().unwrap();
            assert_eq!(begun.failures, failures);
            let pause = Duration::from_millis(200 << failures);
            assert_eq!(queue.fail(session(1)), Some(pause));
            assert_eq!(queue.in_first_attempt(), 0);
            queue.request(session(1), tenant(1), ());
            assert_eq!(queue.begin(), None);
            queue.resume(session(1), ());
        }
        assert_eq!(queue.begin().map(|begun| begun.failures), Some(3));
        queue.complete(session(1), ());
        assert!(queue.is_empty());
        queue.resume(session(1), ());
        assert_eq!(queue.begin(), None);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Request(u8),
        Begin,
        Complete(u8),
        Fail(u8),
        Resume(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..12_u8).prop_map(Step::Request),
            3 => Just(Step::Begin),
            2 => (0..12_u8).prop_map(Step::Complete),
            1 => (0..12_u8).prop_map(Step::Fail),
            1 => (0..12_u8).prop_map(Step::Resume),
        ]
    }

    proptest! {
        /// Whatever happens, the bounds hold, no session runs twice, and each requested session is
        /// scored after its last request.
        #[test]
        fn every_request_is_followed_by_a_score(steps in prop::collection::vec(step(), 0..200)) {
            let mut queue = queue_of(4, 2);
            let owner = |number: u8| tenant(number % 3);
            let (mut running, mut paused) = (BTreeSet::new(), BTreeSet::new());
            let mut unscored = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Request(number) => {
                        queue.request(session(number), owner(number), ());
                        unscored.insert(session(number));
                    }
                    Step::Begin => if let Some(begun) = queue.begin() {
                        prop_assert!(running.insert(begun.session_id));
                        prop_assert!(!paused.contains(&begun.session_id));
                        unscored.remove(&begun.session_id);
                    },
                    Step::Complete(number) if running.remove(&session(number)) => {
                        queue.complete(session(number), ());
                    }
                    Step::Fail(number) if running.remove(&session(number)) => {
                        prop_assert!(queue.fail(session(number)).is_some());
                        paused.insert(session(number));
                        unscored.insert(session(number));
                    }
                    Step::Resume(number) => {
                        queue.resume(session(number), ());
                        paused.remove(&session(number));
                    }
                    Step::Complete(_) | Step::Fail(_) => {}
                }
                prop_assert!(running.len() <= 4);
                for number in 0..3 {
                    let of_tenant = |id: &&SessionId| (0..12).any(|n| session(n) == **id && n % 3 == number);
                    prop_assert!(running.iter().filter(of_tenant).count() <= 2);
                }
            }
            for id in std::mem::take(&mut running) {
                queue.complete(id, ());
            }
            for id in paused {
                queue.resume(id, ());
            }
            while let Some(begun) = queue.begin() {
                unscored.remove(&begun.session_id);
                queue.complete(begun.session_id, ());
            }
            prop_assert!(unscored.is_empty());
            prop_assert!(queue.is_empty());
        }
    }
}
