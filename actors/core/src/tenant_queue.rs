//! Decides which piece of work begins next, such as the score of an ended session.
//!
//! Tenants take turns, so a tenant with much work delays the work of the others by at most one
//! piece each time. Several pieces run at the same time, because each mostly waits for the store;
//! no piece runs twice at the same time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use porchlight_schema::session::Tenant;

use crate::backoff::Backoff;

/// The pieces of work to do, by key. `T` is a value that the caller attaches to each request, such
/// as its time.
#[derive(Debug)]
pub struct TenantQueue<K, T> {
    /// The maximum number of pieces that run at the same time.
    at_once_max: usize,
    /// The maximum number of these that belong to one tenant.
    tenant_at_once_max: usize,
    /// The backoff of a piece without failures.
    backoff: Backoff,
    requests: BTreeMap<K, Request>,
    /// The waiting pieces of each tenant, in the order of their requests.
    waiting: BTreeMap<Option<Tenant>, VecDeque<(K, T)>>,
    /// The tenants with waiting pieces; the first one has the next turn.
    turns: VecDeque<Option<Tenant>>,
    running: BTreeMap<Option<Tenant>, usize>,
}

/// The request to do a piece of work.
#[derive(Debug)]
struct Request {
    tenant: Option<Tenant>,
    backoff: Backoff,
    /// The number of attempts that most likely fail in the same way again.
    lasting_failures: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// The piece runs. `again`: it was requested since it began.
    Running {
        again: bool,
    },
    /// The last attempt failed, and the next one has to wait.
    Paused,
}

/// A piece of work that begins.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun<K, T> {
    /// The key of the piece.
    pub key: K,
    /// The number of lasting failures since the piece was requested.
    pub lasting_failures: u32,
    /// The value that the caller attached to the request.
    pub attached: T,
}

impl<K: Copy + Ord, T> TenantQueue<K, T> {
    /// Creates an empty queue that lets `at_once_max` pieces run at the same time, of which
    /// `tenant_at_once_max` may belong to one tenant. The pauses after failures follow `backoff`.
    #[must_use]
    pub fn new(at_once_max: usize, tenant_at_once_max: usize, backoff: Backoff) -> Self {
        Self {
            at_once_max,
            tenant_at_once_max,
            backoff,
            requests: BTreeMap::new(),
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            running: BTreeMap::new(),
        }
    }

    /// Requests a piece of work. A piece that runs is repeated afterwards. Pieces without a known
    /// tenant share the turns of one tenant.
    pub fn request(&mut self, key: K, tenant: Option<Tenant>, attached: T) {
        match self.requests.get_mut(&key) {
            Some(request) => {
                // A piece reads everything when it begins, so one that has not begun needs nothing.
                if let State::Running { again } = &mut request.state {
                    *again = true;
                }
            }
            None => {
                let request = Request {
                    tenant,
                    backoff: self.backoff,
                    lasting_failures: 0,
                    state: State::Waiting,
                };
                self.requests.insert(key, request);
                self.enqueue(key, attached);
            }
        }
    }

    /// Begins the piece whose turn it is. Returns `None` if none waits, or if as many pieces as
    /// allowed run.
    pub fn begin(&mut self) -> Option<Begun<K, T>> {
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
        let (key, attached) = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        *self.running.entry(tenant).or_default() += 1;
        let request = self.requests.get_mut(&key)?;
        request.state = State::Running { again: false };
        Some(Begun {
            key,
            lasting_failures: request.lasting_failures,
            attached,
        })
    }

    /// Completes a piece, or ends it because another node does it. If the piece was requested again
    /// meanwhile, it waits for its next run, with `attached`.
    pub fn complete(&mut self, key: K, attached: T) {
        if let Some(request) = self.remove(key)
            && request.state == (State::Running { again: true })
        {
            self.request(key, request.tenant, attached);
        }
    }

    /// Pauses a piece that has failed. Returns the time after which the caller calls
    /// [`TenantQueue::resume`], or `None` if the piece does not run.
    pub fn fail(&mut self, key: K) -> Option<Duration> {
        let request = self.requests.get_mut(&key)?;
        if !matches!(request.state, State::Running { .. }) {
            return None;
        }
        request.state = State::Paused;
        let pause = request.backoff.on_failure();
        let tenant = request.tenant;
        self.release(tenant);
        Some(pause)
    }

    /// Pauses a piece with a lasting failure, such as damaged data; see [`TenantQueue::fail`].
    pub fn fail_lastingly(&mut self, key: K) -> Option<Duration> {
        let pause = self.fail(key)?;
        let request = self.requests.get_mut(&key)?;
        request.lasting_failures = request.lasting_failures.saturating_add(1);
        Some(pause)
    }

    /// Lets a paused piece wait for its next attempt.
    pub fn resume(&mut self, key: K, attached: T) {
        let state = self.requests.get(&key).map(|request| request.state);
        if state == Some(State::Paused) {
            self.enqueue(key, attached);
        }
    }

    /// Returns the number of pieces that wait, run or are paused.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether no piece waits, runs or is paused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the number of a tenant's pieces that wait or run.
    #[must_use]
    pub fn len_of(&self, tenant: Option<Tenant>) -> usize {
        let waiting = self.waiting.get(&tenant).map_or(0, VecDeque::len);
        waiting + self.running.get(&tenant).copied().unwrap_or_default()
    }

    /// Returns the number of pieces whose first attempt has not ended.
    #[must_use]
    pub fn in_first_attempt(&self) -> usize {
        let all = self.requests.values();
        all.filter(|request| request.backoff.failures() == 0)
            .count()
    }

    fn enqueue(&mut self, key: K, attached: T) {
        let Some(request) = self.requests.get_mut(&key) else {
            return;
        };
        request.state = State::Waiting;
        let waiting = self.waiting.entry(request.tenant).or_default();
        if waiting.is_empty() {
            self.turns.push_back(request.tenant);
        }
        waiting.push_back((key, attached));
    }

    /// Removes the request of a piece that is not waiting.
    fn remove(&mut self, key: K) -> Option<Request> {
        let state = self.requests.get(&key)?.state;
        if state == State::Waiting {
            return None;
        }
        let request = self.requests.remove(&key)?;
        if state != State::Paused {
            self.release(request.tenant);
        }
        Some(request)
    }

    /// Ends one of the running pieces of a tenant.
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

    use porchlight_schema::ids::{OrganizationId, SessionId};
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

    fn queue_of(at_once_max: usize, tenant_at_once_max: usize) -> TenantQueue<SessionId, ()> {
        TenantQueue::new(at_once_max, tenant_at_once_max, Backoff::new(200, 30_000))
    }

    fn begun(queue: &mut TenantQueue<SessionId, ()>) -> Vec<SessionId> {
        std::iter::from_fn(|| queue.begin().map(|begun| begun.key)).collect()
    }

    #[test]
    fn a_tenant_with_many_sessions_delays_another_tenant_by_one_session() {
        let mut queue = queue_of(1, 1);
        for number in 0..100 {
            queue.request(session(number), tenant(1), ());
        }
        assert_eq!(begun(&mut queue), [session(0)]);
        queue.request(session(200), tenant(2), ());
        assert_eq!([1, 2, 3].map(|of| queue.len_of(tenant(of))), [100, 1, 0]);
        queue.complete(session(0), ());
        assert_eq!(queue.len_of(tenant(1)), 99);
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
    fn a_failed_session_waits_for_its_pause_and_counts_its_lasting_failures() {
        let mut queue = queue_of(4, 4);
        queue.request(session(1), tenant(1), ());
        // The store is unavailable twice before the first lasting failure.
        for (failures, lasting_failures) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
            let begun = queue.begin().unwrap();
            assert_eq!(begun.lasting_failures, lasting_failures);
            let pause = Duration::from_millis(200 << failures);
            let paused = match failures {
                0 | 1 => queue.fail(session(1)),
                _ => queue.fail_lastingly(session(1)),
            };
            assert_eq!(paused, Some(pause));
            assert_eq!(queue.in_first_attempt(), 0);
            queue.request(session(1), tenant(1), ());
            assert_eq!(queue.begin(), None);
            queue.resume(session(1), ());
        }
        assert_eq!(queue.begin().map(|begun| begun.lasting_failures), Some(2));
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
                        prop_assert!(running.insert(begun.key));
                        prop_assert!(!paused.contains(&begun.key));
                        unscored.remove(&begun.key);
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
                unscored.remove(&begun.key);
                queue.complete(begun.key, ());
            }
            prop_assert!(unscored.is_empty());
            prop_assert!(queue.is_empty());
        }
    }
}
