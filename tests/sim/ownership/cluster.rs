//! A cluster of nodes around one store, in virtual time.

mod clocks;
mod stalls;
mod state;

use std::cell::{Ref, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use porchlight_core::ownership::{
    Change, Effect, Input, Member, MembersRead, MonotonicMs, NodeName, Outcome, OwnershipMachine,
    ReadMode, TICK_MS_MAX,
};
use porchlight_schema::ids::Shard;
use porchlight_schema::time::TimestampMs;

use super::judge::Judge;
use super::store::{Row, Tables, row_of};
use crate::chance::Chance;

/// The store's deadline for a conditional write: after it the outcome is unknown.
const DEADLINE_MS: u64 = 5_000;

/// A fault of a node or of the store.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// `kill -9`, and a new process later.
    Kill { node: usize, for_ms: u64 },
    /// SIGSTOP, then SIGCONT.
    Pause { node: usize, for_ms: u64 },
    /// SIGTERM, and a new process some time after the old one has ended.
    Leave { node: usize, for_ms: u64 },
    /// The node cannot reach the store.
    CutOff { node: usize, for_ms: u64 },
    /// No node can reach the store.
    Outage { for_ms: u64 },
    /// The store executes nothing, and everything that has arrived afterwards.
    Stall { for_ms: u64 },
    /// A stall in which the database abandons requests after its own timeout.
    StallOfReplicas { for_ms: u64 },
}

#[derive(Debug)]
struct Node {
    name: NodeName,
    /// The state machine, or `None` while there is no process.
    machine: Option<OwnershipMachine>,
    /// The number of this process; events for another one do not arrive.
    life: u64,
    clock_permille: u64,
    clock_from_ms: u64,
    /// The lead of the node's wall clock over the true time.
    wall_ahead_ms: i64,
    paused_until_ms: u64,
    cut_off_until_ms: u64,
    restart_after_ms: u64,
    /// The member as which the node acts, as known to the judge.
    member: Option<Member>,
    /// Whether the node keeps the shards that it should drain.
    keeps_shards: bool,
    /// Whether the process was asked to leave.
    is_leaving: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum StoreRequest {
    Change(Change),
    Members(ReadMode),
    Owners,
    Owner(Shard),
}

#[derive(Debug)]
enum Event {
    Tick(usize, u64),
    Begin(usize),
    Fault(Fault),
    /// The store executes the request; then the answer is sent.
    Store(usize, u64, u64),
    Answer(usize, u64, Input),
    Write(usize, u64, Shard),
    Written(Shard, u64, Member),
}

/// A request in flight.
#[derive(Debug)]
struct Pending {
    request: StoreRequest,
    started: MonotonicMs,
    /// The caller's wall clock at that time.
    sent_at: TimestampMs,
    /// The caller gets an unknown outcome; the store still executes the request, unless it is
    /// overtaken.
    is_unknown: bool,
    /// A serial read of the row came first: pending writes can no longer be applied.
    is_overtaken: bool,
}

pub(super) struct Cluster {
    now_ms: u64,
    nodes: Vec<Node>,
    tables: Tables,
    pending: std::collections::BTreeMap<u64, Pending>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    next: u64,
    chance: Chance,
    unknown_permille: u64,
    outage_until_ms: u64,
    stall_until_ms: u64,
    is_stall_of_replicas: bool,
    /// The time at which a node's wall clock was last set.
    clocks_set_at_ms: u64,
    /// The share of answers that take seconds.
    slow_permille: u64,
    changes: u64,
    judge: RefCell<Judge>,
}

impl Cluster {
    pub(super) fn new(seed: u64, nodes: usize, unknown_permille: u64) -> Self {
        let mut chance = Chance::of(&[seed, 0xc1]);
        let nodes: Vec<Node> = (0..nodes)
            .map(|n| Node {
                name: NodeName(format!("node-{n}:7000")),
                machine: None,
                life: 0,
                clock_permille: chance.between(900, 1_100) as u64,
                clock_from_ms: chance.between(0, 1_000_000) as u64,
                wall_ahead_ms: 0,
                paused_until_ms: 0,
                cut_off_until_ms: 0,
                restart_after_ms: 0,
                member: None,
                keeps_shards: false,
                is_leaving: false,
            })
            .collect();
        let mut cluster = Self {
            now_ms: 0,
            nodes,
            tables: Tables::default(),
            pending: std::collections::BTreeMap::new(),
            queue: BinaryHeap::new(),
            events: std::collections::BTreeMap::new(),
            next: 0,
            chance,
            unknown_permille,
            outage_until_ms: 0,
            stall_until_ms: 0,
            is_stall_of_replicas: false,
            clocks_set_at_ms: 0,
            slow_permille: 20,
            changes: 0,
            judge: RefCell::default(),
        };
        for node in 0..cluster.len() {
            let at_ms = cluster.chance.between(0, 2_000) as u64;
            cluster.at(at_ms, Event::Begin(node));
        }
        cluster
    }

    /// Creates a cluster whose store answers within milliseconds.
    pub(super) fn without_slow_answers(seed: u64, nodes: usize) -> Self {
        let mut cluster = Self::new(seed, nodes, 0);
        cluster.slow_permille = 0;
        cluster
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn name(&self, node: usize) -> NodeName {
        self.nodes[node].name.clone()
    }

    pub(super) fn judge(&self) -> Ref<'_, Judge> {
        self.judge.borrow()
    }

    pub(super) fn plan(&mut self, at_ms: u64, fault: Fault) {
        self.at(at_ms, Event::Fault(fault));
    }

    /// Ends all timeouts, slow answers, cuts and pauses; nodes that are down come back. Two slow
    /// answers in a row are longer than the longest harmless stall and may move shards.
    pub(super) fn calm(&mut self) {
        self.unknown_permille = 0;
        self.slow_permille = 0;
        self.outage_until_ms = 0;
        let now_ms = self.now_ms;
        for node in 0..self.len() {
            let one = &mut self.nodes[node];
            one.cut_off_until_ms = 0;
            one.paused_until_ms = one.paused_until_ms.min(now_ms);
            one.restart_after_ms = one.restart_after_ms.min(1_000);
            if one.machine.is_none() {
                self.at(now_ms + 500, Event::Begin(node));
            }
        }
    }

    /// Makes a node keep the shards that it should drain.
    pub(super) fn keep_shards(&mut self, node: usize) {
        self.nodes[node].keeps_shards = true;
    }

    fn clock(&self, node: usize) -> MonotonicMs {
        let one = &self.nodes[node];
        MonotonicMs(one.clock_from_ms + self.now_ms * one.clock_permille / 1_000)
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.next += 1;
        self.queue.push(Reverse((at_ms, self.next)));
        self.events.insert(self.next, event);
    }

    fn after(&mut self, low_ms: i64, high_ms: i64, event: Event) {
        let at_ms = self.now_ms + self.chance.between(low_ms, high_ms) as u64;
        self.at(at_ms, event);
    }

    pub(super) fn run_until(&mut self, until_ms: u64) {
        while let Some(Reverse((at_ms, id))) = self.queue.peek().copied() {
            if at_ms > until_ms {
                break;
            }
            self.queue.pop();
            self.now_ms = at_ms;
            if let Some(event) = self.events.remove(&id) {
                self.on_event(event);
            }
        }
        self.now_ms = until_ms;
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Begin(node) => self.begin(node),
            Event::Tick(node, life) if self.is_living(node, life) => {
                if !self.postpone_if_paused(node, Event::Tick(node, life)) {
                    let latest_ms = TICK_MS_MAX as i64;
                    self.after(latest_ms * 2 / 3, latest_ms, Event::Tick(node, life));
                    self.feed(node, Input::Tick);
                }
            }
            Event::Answer(node, life, input) if self.is_living(node, life) => {
                let paused = self.nodes[node].paused_until_ms > self.now_ms;
                if paused {
                    self.postpone_if_paused(node, Event::Answer(node, life, input));
                } else {
                    self.nodes[node].is_leaving |= matches!(input, Input::Leave);
                    self.feed(node, input);
                }
            }
            Event::Store(node, life, id) => self.on_store(node, life, id),
            Event::Fault(fault) => self.on_fault(fault),
            Event::Write(node, life, shard) if self.is_living(node, life) => {
                // The write is decided now, and stays in flight for some time or until the process
                // is continued.
                let generation = self.acting_generation(node, shard);
                if let (Some(generation), Some(member)) =
                    (generation, self.nodes[node].member.clone())
                {
                    self.judge.borrow().assert_alone(self, node, shard);
                    self.after(0, 20_000, Event::Written(shard, generation, member));
                }
                self.after(2_000, 9_000, Event::Write(node, life, shard));
            }
            Event::Written(shard, generation, member) => {
                self.judge.borrow().on_write(shard, generation, &member);
            }
            Event::Tick(..) | Event::Answer(..) | Event::Write(..) => {}
        }
    }

    fn is_living(&self, node: usize, life: u64) -> bool {
        let one = &self.nodes[node];
        one.life == life && one.machine.is_some()
    }

    /// Postpones an event of a stopped process until the process is continued. Returns whether the
    /// process is stopped.
    fn postpone_if_paused(&mut self, node: usize, event: Event) -> bool {
        let until_ms = self.nodes[node].paused_until_ms;
        if until_ms > self.now_ms {
            self.at(until_ms, event);
            return true;
        }
        false
    }

    fn begin(&mut self, node: usize) {
        if self.nodes[node].machine.is_some() {
            return;
        }
        let salt = self.chance.draw();
        let one = &mut self.nodes[node];
        one.life += 1;
        (one.paused_until_ms, one.is_leaving) = (0, false);
        one.machine = Some(OwnershipMachine::new(one.name.clone(), salt));
        let life = one.life;
        self.after(0, 400, Event::Tick(node, life));
        for _ in 0..8 {
            let shard = Shard(self.chance.draw() as u8);
            self.after(0, 9_000, Event::Write(node, life, shard));
        }
    }

    fn on_fault(&mut self, fault: Fault) {
        let now_ms = self.now_ms;
        match fault {
            Fault::Kill { node, for_ms } => {
                if self.nodes[node].machine.take().is_some() {
                    self.at(now_ms + for_ms, Event::Begin(node));
                }
            }
            Fault::Pause { node, for_ms } => self.nodes[node].paused_until_ms = now_ms + for_ms,
            Fault::Leave { node, for_ms } => {
                self.nodes[node].restart_after_ms = for_ms;
                let life = self.nodes[node].life;
                self.at(now_ms, Event::Answer(node, life, Input::Leave));
            }
            Fault::CutOff { node, for_ms } => self.nodes[node].cut_off_until_ms = now_ms + for_ms,
            Fault::Outage { for_ms } => self.outage_until_ms = now_ms + for_ms,
            Fault::Stall { for_ms } => {
                (self.stall_until_ms, self.is_stall_of_replicas) = (now_ms + for_ms, false);
            }
            Fault::StallOfReplicas { for_ms } => {
                (self.stall_until_ms, self.is_stall_of_replicas) = (now_ms + for_ms, true);
            }
        }
    }

    fn feed(&mut self, node: usize, input: Input) {
        let now = self.clock(node);
        if let Input::Changed {
            change: Change::Claim { member, .. },
            ..
        } = &input
        {
            // The answer to a claim may arrive after the node has joined again.
            let known = &mut self.nodes[node].member;
            if known.as_ref().is_none_or(|known| known < member) {
                *known = Some(member.clone());
            }
        }
        let Some(machine) = &mut self.nodes[node].machine else {
            return;
        };
        for effect in machine.handle(now, input) {
            self.perform(node, effect);
        }
        self.check_clocks(node);
    }

    fn perform(&mut self, node: usize, effect: Effect) {
        let life = self.nodes[node].life;
        match effect {
            Effect::Change(change) => {
                self.changes += 1;
                self.ask(node, StoreRequest::Change(change));
            }
            Effect::ReadMembers(mode) => self.ask(node, StoreRequest::Members(mode)),
            Effect::ReadOwners => self.ask(node, StoreRequest::Owners),
            Effect::ReadOwner(shard) => self.ask(node, StoreRequest::Owner(shard)),
            Effect::Start(shard, generation) => {
                let (_, holder) = &self.tables.owners[&shard.0];
                let member = holder
                    .clone()
                    .filter(|holder| holder.node == self.nodes[node].name);
                let member = member.or_else(|| self.nodes[node].member.clone()).unwrap();
                self.nodes[node].member = Some(member.clone());
                self.judge.borrow_mut().on_start(shard, generation, &member);
                self.judge.borrow().assert_alone(self, node, shard);
            }
            Effect::Drain(..) if self.nodes[node].keeps_shards => {}
            Effect::Drain(shard, generation) => {
                let drained = Input::Drained(shard, generation);
                self.after(0, 1_000, Event::Answer(node, life, drained));
            }
            // The nodes read the owners regularly.
            Effect::Drop(..) | Effect::NotifyOfRelease => {}
            Effect::Replaced => panic!("no node replaced node {node}"),
            Effect::Left => {
                self.nodes[node].machine = None;
                let at_ms = self.now_ms + self.nodes[node].restart_after_ms;
                self.at(at_ms, Event::Begin(node));
            }
        }
    }

    fn ask(&mut self, node: usize, request: StoreRequest) {
        if matches!(request, StoreRequest::Change(Change::Join { .. })) {
            assert!(!self.nodes[node].is_leaving, "node {node} joins to leave");
        }
        let is_change = matches!(request, StoreRequest::Change(_));
        let is_unknown = is_change && self.chance.permille(self.unknown_permille);
        self.next += 1;
        let id = self.next;
        let pending = Pending {
            request,
            started: self.clock(node),
            sent_at: self.wall(node),
            is_unknown,
            is_overtaken: false,
        };
        self.pending.insert(id, pending);
        let life = self.nodes[node].life;
        // A timed-out write may be applied soon, after the deadline, or never.
        let latest_ms = if is_unknown {
            2 * DEADLINE_MS as i64
        } else {
            60
        };
        self.after(1, latest_ms, Event::Store(node, life, id));
        if is_unknown {
            self.answer_unknown(node, life, id, DEADLINE_MS);
        }
    }

    /// Answers a change after some time with an unknown outcome.
    fn answer_unknown(&mut self, node: usize, life: u64, id: u64, after_ms: u64) {
        let pending = &self.pending[&id];
        if let StoreRequest::Change(change) = &pending.request {
            let input = Input::Changed {
                started: pending.started,
                change: change.clone(),
                outcome: Outcome::Unknown,
            };
            let after_ms = after_ms as i64;
            self.after(after_ms, after_ms + 50, Event::Answer(node, life, input));
        }
    }

    fn on_store(&mut self, node: usize, life: u64, id: u64) {
        if self.postpone_if_stalled(node, life, id) {
            return;
        }
        let is_away =
            self.outage_until_ms > self.now_ms || self.nodes[node].cut_off_until_ms > self.now_ms;
        if is_away {
            if !self.pending[&id].is_unknown {
                self.answer_unknown(node, life, id, DEADLINE_MS);
            }
            self.pending.remove(&id);
            return;
        }
        let Some(pending) = self.pending.remove(&id) else {
            return;
        };
        let serial = match &pending.request {
            StoreRequest::Members(ReadMode::Serial) => Some(Row::Members),
            StoreRequest::Owner(shard) => Some(Row::Owner(*shard)),
            _ => None,
        };
        if let Some(row) = serial {
            for other in self.pending.values_mut().filter(|other| other.is_unknown) {
                other.is_overtaken |=
                    matches!(&other.request, StoreRequest::Change(change) if row_of(change) == row);
            }
        }
        let input = match pending.request {
            StoreRequest::Change(change) => {
                let never =
                    pending.is_overtaken || (pending.is_unknown && self.chance.permille(500));
                let applied = !never && self.tables.apply(&change, pending.sent_at);
                if pending.is_unknown {
                    return;
                }
                Input::Changed {
                    started: pending.started,
                    change,
                    outcome: if applied {
                        Outcome::Applied
                    } else {
                        Outcome::Refused
                    },
                }
            }
            StoreRequest::Members { .. } => Input::Members(MembersRead {
                rows: self.tables.members(),
                started: pending.started,
                wall: self.wall(node),
            }),
            StoreRequest::Owners => Input::Owners(self.tables.owners()),
            StoreRequest::Owner(shard) => Input::Owner(shard, self.tables.owner(shard)),
        };
        // Most answers are fast; an occasional one is slow, so that its data is stale.
        let is_slow = self.chance.permille(self.slow_permille);
        let slowest_ms = if is_slow { 4_000 } else { 60 };
        self.after(1, slowest_ms, Event::Answer(node, life, input));
    }
}
