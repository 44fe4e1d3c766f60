//! Tests the machine against a plain model of its environment: a store made of two maps, a scripted
//! receiver, and a clock that jumps from one event to the next. The machine's guarantees must hold
//! for every input.

mod cases;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::{ATTEMPTS_MAX, HELD_MS_MAX, RETRY_DELAYS_MS};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use proptest::prelude::*;

use super::*;

const START: TimestampMs = TimestampMs(1_763_636_100_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Answers,
    Fails,
    Hangs,
    OursFails,
}

#[derive(Debug, Clone)]
enum Op {
    /// Damages the body of a message.
    Damage(u8),
    Enqueue(u8),
    /// Like `Enqueue`, but the machine gets the lane.
    EnqueueKnown(u8),
    LoseWake(u8),
    Pass(u32),
    Receive(Receiver),
    Store(bool),
    Crash,
    /// Lifts a restriction.
    Release,
    Mode(Mode),
    Manual(u8),
}

struct World {
    now: TimestampMs,
    policy: Policy,
    machine: EndpointMachine,
    mode: Mode,
    store_up: bool,
    /// Whether a commit reported as failed was made nevertheless.
    commit_in_doubt: bool,
    receiver: Receiver,
    /// The messages whose body is damaged.
    damaged: BTreeSet<MessageId>,
    /// The sessions on which the receiver hangs, regardless of the others.
    hanging: BTreeSet<SessionId>,
    /// The response time of a receiver that answers, in milliseconds.
    response_ms: std::ops::Range<u32>,
    messages: BTreeMap<MessageId, Queued>,
    lanes: BTreeMap<SessionId, Vec<MessageId>>,
    hand: BTreeSet<ManualRetry>,
    answers: VecDeque<(u64, Input)>,
    attempts: BTreeMap<(TimestampMs, u64), (SessionId, AttemptResult)>,
    wake_at: Option<TimestampMs>,
    lanes_under_way: BTreeSet<SessionId>,
    last_failure: BTreeMap<MessageId, (u32, TimestampMs)>,
    sent: Vec<(TimestampMs, MessageId, u32)>,
    /// The messages of each lane when it was last read.
    read: BTreeMap<SessionId, Vec<MessageId>>,
    /// The number of listings so far.
    listings: usize,
    counter: u64,
    idle: bool,
    first_paused_at: Option<TimestampMs>,
    /// Whether a message may have been held for too long, for example because the store was
    /// unavailable when it was to be sent.
    was_paused_for_long: bool,
}

impl World {
    fn new(policy: Policy) -> Self {
        let mut world = Self {
            now: START,
            policy,
            machine: EndpointMachine::new(policy, Mode::Sending),
            mode: Mode::Sending,
            store_up: true,
            commit_in_doubt: false,
            receiver: Receiver::Answers,
            damaged: BTreeSet::new(),
            hanging: BTreeSet::new(),
            response_ms: 3..43,
            messages: BTreeMap::new(),
            lanes: BTreeMap::new(),
            hand: BTreeSet::new(),
            answers: VecDeque::new(),
            attempts: BTreeMap::new(),
            wake_at: None,
            lanes_under_way: BTreeSet::new(),
            last_failure: BTreeMap::new(),
            sent: Vec::new(),
            read: BTreeMap::new(),
            listings: 0,
            counter: 0,
            idle: false,
            first_paused_at: None,
            was_paused_for_long: false,
        };
        world.input(Input::Woken);
        world
    }

    fn enqueue(&mut self, session: u8) {
        let session_id = SessionId::new(START, u128::from(session));
        let lane = self.lanes.entry(session_id).or_default();
        let number = lane.len() as u32;
        let event = MessageEvent::ALL[lane.len().min(2)];
        // Some messages share a millisecond, and they belong to several sessions.
        let id = MessageId::derived(self.now, session_id, number);
        lane.push(id);
        self.messages
            .insert(id, Queued::new(id, session_id, number, event));
    }

    fn request_retry(&mut self, which: u8) {
        let Some(message) = self.messages.values().nth(usize::from(which)) else {
            return;
        };
        if message.state != State::Superseded {
            self.hand.insert(ManualRetry {
                requested_at: self.now,
                id: message.id,
                session_id: message.session_id,
                again: message.state == State::Delivered,
            });
        }
    }

    fn waiting(&self, lane: SessionId) -> Vec<Queued> {
        let messages = self.lanes.get(&lane).into_iter().flatten();
        messages
            .map(|id| self.messages[id])
            .filter(Queued::is_waiting)
            .collect()
    }

    /// Returns the waiting messages of a lane, without those that came after it was last read.
    fn known_waiting(&self, lane: SessionId) -> Vec<Queued> {
        let mut waiting = self.waiting(lane);
        let known = &self.read[&lane];
        waiting.retain(|message| known.contains(&message.id));
        waiting
    }

    fn input(&mut self, input: Input) {
        let generation = self.machine.generation();
        self.answers.push_back((generation, input));
        while let Some((generation, input)) = self.answers.pop_front() {
            if let Input::Committed(lane, _) = &input {
                self.lanes_under_way.remove(lane);
            }
            for effect in self.machine.handle(self.now, generation, input) {
                self.perform(effect);
            }
            self.machine.check();
            let slow = self.machine.slow_in_flight();
            assert!(slow <= self.policy.slow_max);
            assert!(self.machine.in_flight() - slow <= self.policy.in_flight_max);
        }
    }

    fn perform(&mut self, effect: Effect) {
        let generation = self.machine.generation();
        self.idle = effect == Effect::Idle;
        let answer = match effect {
            Effect::List(request) => {
                self.listings += 1;
                Input::Listed(self.store_up.then(|| self.list(request)))
            }
            Effect::Read(lane, hand) => {
                let known = self.lanes.get(&lane).cloned();
                self.read.insert(lane, known.unwrap_or_default());
                let read = self.store_up.then(|| Lane {
                    waiting: self.waiting(lane),
                    manual: hand
                        .filter(|request| self.hand.contains(request))
                        .map(|request| self.messages[&request.id]),
                });
                Input::Read(lane, read)
            }
            Effect::Commit(lane, change) => {
                if self.store_up || self.commit_in_doubt {
                    self.commit(change);
                }
                Input::Committed(lane, self.store_up.then(|| self.known_waiting(lane)))
            }
            Effect::Send(message, attempt) => return self.send(message, attempt),
            Effect::WakeAt(wake_at) => {
                self.wake_at = Some(wake_at);
                return;
            }
            Effect::Idle => return,
        };
        self.answers.push_back((generation, answer));
    }

    fn list(&self, request: ListingRequest) -> Listing {
        let ready = request.ready.map(|(from, limit)| {
            let of = self.messages.values();
            of.filter(|m| m.index() == Index::Ready && m.id.made_at() >= from)
                .map(|m| (m.id, m.session_id))
                .take(limit)
                .collect()
        });
        let due = request.due.map(|(until, limit)| {
            let mut of: Vec<_> = self
                .messages
                .values()
                .filter_map(|m| match m.index() {
                    Index::Due(due_at) if due_at < until => Some((due_at, m.session_id)),
                    _ => None,
                })
                .collect();
            of.sort_unstable();
            of.truncate(limit);
            of
        });
        let held = request.held.map(|(before, limit)| {
            let of = self.messages.values();
            let mut of: Vec<_> = of
                .filter_map(|m| match m.index() {
                    Index::Held(until) if until < before => Some((until, m.id, m.session_id)),
                    _ => None,
                })
                .collect();
            of.sort_unstable();
            of.truncate(limit);
            of.into_iter().map(|(_, id, lane)| (id, lane)).collect()
        });
        Listing {
            ready,
            due,
            held,
            manual: self.hand.iter().take(request.manual_max).copied().collect(),
        }
    }

    fn commit(&mut self, change: Change) {
        for update in change.updates {
            let stored = self.messages[&update.before.id];
            // The update replaces exactly the message that was read, or has already replaced it.
            assert!(stored == update.before || stored == update.after);
            if let Some(report) = update.report {
                assert_eq!(update.after.attempts, update.before.attempts + 1);
                if report.cause.is_some() {
                    let ended = (update.after.attempts, report.ended_at());
                    self.last_failure.insert(update.before.id, ended);
                }
            }
            self.messages.insert(update.before.id, update.after);
        }
        if let Some(request) = change.manual_done {
            self.hand.remove(&request);
        }
    }

    fn send(&mut self, message: Queued, attempt: u32) {
        let stored = self.messages[&message.id];
        assert_eq!((stored, attempt), (message, stored.attempts + 1));
        assert!(self.lanes_under_way.insert(message.session_id));
        let manual = self.hand.iter().any(|request| request.id == message.id);
        assert_ne!(self.mode, Mode::Stopped);
        if !manual {
            assert_eq!(self.mode, Mode::Sending);
            assert_eq!(self.waiting(message.session_id)[0], message, "out of order");
            assert!(attempt <= ATTEMPTS_MAX);
            if let Some(&(failed, at)) = self.last_failure.get(&message.id) {
                let waited_ms = self.now.since_ms(at);
                assert!(waited_ms >= RETRY_DELAYS_MS[failed as usize - 1] as i64);
            }
        }
        if self.damaged.contains(&message.id) {
            let answer = Input::Damaged(message.session_id);
            self.answers.push_back((self.machine.generation(), answer));
            return;
        }
        self.counter += 1;
        let hangs = self.hanging.contains(&message.session_id);
        let receiver = if hangs {
            Receiver::Hangs
        } else {
            self.receiver
        };
        let (cause, duration_ms) = match receiver {
            Receiver::Answers => {
                let response_ms = &self.response_ms;
                let spread = self.counter % response_ms.len() as u64;
                (None, response_ms.start + spread as u32)
            }
            Receiver::Fails => (Some(Cause::Status), 3),
            Receiver::Hangs => (Some(Cause::Timeout), 5_000),
            Receiver::OursFails => (Some(Cause::Internal), 0),
        };
        let report = AttemptResult {
            at: self.now,
            duration_ms,
            status_code: None,
            cause,
            response: None,
            details: AttemptDetails::default(),
        };
        self.sent.push((self.now, message.id, attempt));
        let ends = (report.ended_at(), self.counter);
        self.attempts.insert(ends, (message.session_id, report));
    }

    /// Advances time until no event remains before `until`.
    fn run_until(&mut self, until: TimestampMs) {
        for _ in 0..2_000_000 {
            let attempt_ends = self.attempts.keys().next().map(|&(at, _)| at);
            let next = [attempt_ends, self.wake_at].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= until) else {
                self.now = until;
                let paused_at = self.first_paused_at;
                self.was_paused_for_long |=
                    paused_at.is_some_and(|at| until.since_ms(at) >= HELD_MS_MAX);
                return;
            };
            self.now = self.now.max(next);
            if attempt_ends == Some(next) {
                let ((_, chance), (lane, report)) = self.attempts.pop_first().unwrap();
                if report.cause == Some(Cause::Internal) {
                    self.lanes_under_way.remove(&lane);
                }
                self.input(Input::Attempted(lane, report, chance.wrapping_mul(7919)));
            } else {
                self.wake_at = None;
                self.input(Input::Tick);
            }
        }
        panic!("the machine is running hot");
    }

    fn crash(&mut self) {
        self.machine = EndpointMachine::new(self.policy, self.mode);
        self.answers.clear();
        self.attempts.clear();
        self.lanes_under_way.clear();
        self.wake_at = None;
        self.input(Input::Woken);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Damage(which) => {
                let damaged = self.messages.keys().nth(usize::from(which)).copied();
                self.damaged.extend(damaged);
            }
            Op::Enqueue(session) => {
                self.enqueue(session);
                self.input(Input::Woken);
            }
            Op::EnqueueKnown(session) => {
                self.enqueue(session);
                let lane = SessionId::new(START, u128::from(session));
                self.input(Input::NewMessages(vec![lane]));
            }
            Op::LoseWake(session) => self.enqueue(session),
            Op::Pass(ms) => self.run_until(self.now.plus_ms(i64::from(ms))),
            Op::Receive(receiver) => self.receiver = receiver,
            Op::Store(up) => {
                self.commit_in_doubt = !self.commit_in_doubt;
                self.store_up = up;
            }
            Op::Crash => self.crash(),
            Op::Release => self.input(Input::Released),
            Op::Mode(mode) => {
                self.mode = match mode {
                    // Same behaviour as the store: pausing a paused endpoint changes nothing.
                    Mode::Paused(_) if matches!(self.mode, Mode::Paused(_)) => self.mode,
                    Mode::Paused(_) => Mode::Paused(self.now),
                    mode => mode,
                };
                if let Mode::Paused(at) = self.mode {
                    self.first_paused_at.get_or_insert(at);
                }
                self.input(Input::Mode(self.mode));
            }
            Op::Manual(which) => {
                self.request_retry(which);
                self.input(Input::Woken);
            }
        }
    }

    /// Ends all faults; every message in the outbox must then reach a final state.
    fn settle(&mut self) {
        self.receiver = Receiver::Answers;
        self.store_up = true;
        self.apply(Op::Mode(Mode::Sending));
        // The node's scan wakes a machine that went to sleep.
        for _ in 0..2_000 {
            self.input(Input::Woken);
            self.run_until(self.now.plus_ms(300_000));
        }
        assert!(self.idle, "{:?}", self.machine);
        assert!(self.hand.is_empty());
        for (id, message) in &self.messages {
            let lane = &self.lanes[&message.session_id];
            let newest = lane.last() == Some(id);
            match message.state {
                State::Waiting => panic!("left behind: {message:?}"),
                State::Failed => {
                    assert!(message.attempts >= ATTEMPTS_MAX || self.damaged.contains(id));
                }
                State::Superseded => {
                    assert!(message.event == MessageEvent::InsightUpdated && !newest);
                }
                State::Delivered => {}
                State::Held => panic!("held without a pause: {message:?}"),
                State::Cancelled => assert!(self.was_paused_for_long),
            }
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let receiver = prop_oneof![
        3 => Just(Receiver::Answers),
        2 => Just(Receiver::Fails),
        1 => Just(Receiver::Hangs),
        1 => Just(Receiver::OursFails),
    ];
    prop_oneof![
        4 => (0_u8..12).prop_map(Op::Enqueue),
        8 => (0_u8..12).prop_map(Op::EnqueueKnown),
        2 => (0_u8..12).prop_map(Op::LoseWake),
        4 => (0_u32..20_000).prop_map(Op::Pass),
        2 => (0_u32..100_000_000).prop_map(Op::Pass),
        3 => receiver.prop_map(Op::Receive),
        1 => any::<bool>().prop_map(Op::Store),
        1 => Just(Op::Crash),
        1 => Just(Op::Release),
        2 => prop_oneof![
            Just(Op::Mode(Mode::Sending)),
            Just(Op::Mode(Mode::Paused(START))),
            Just(Op::Mode(Mode::Stopped)),
        ],
        1 => Just(Op::Pass(8 * 86_400_000)),
        1 => any::<u8>().prop_map(|which| Op::Damage(which % 40)),
        2 => any::<u8>().prop_map(|which| Op::Manual(which % 40)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn guarantees_hold_for_any_sequence_of_events(
        ops in prop::collection::vec(op(), 1..120),
        lanes_max in prop_oneof![Just(8_usize), Just(1_024)],
    ) {
        let in_flight_max = if lanes_max == 8 { Policy::IN_FLIGHT_MIN } else { 32 };
        let slow_max = if lanes_max == 8 { 2 } else { 256 };
        let mut world = World::new(Policy { in_flight_max, slow_max, lanes_max });
        for op in ops {
            world.apply(op);
        }
        world.settle();
    }
}
