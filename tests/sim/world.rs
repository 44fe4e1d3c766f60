//! The state that outlives a node: the phones' knowledge, and the observations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use porchlight_schema::event::Event;
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{Env, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use crate::clock::SimClock;
use crate::plan::Plan;

/// The maximum number of recorded violations of a seed.
const VIOLATIONS_MAX: usize = 10;
/// The wall-clock time at which every world begins.
const WALL_MS: i64 = 1_763_636_100_000;

/// A simulated world.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) tenant: Tenant,
    logs: Vec<Mutex<Log>>,
    violations: Mutex<Vec<String>>,
}

/// The externally known state of one session.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) start: Option<SessionStart>,
    /// Whether each act of the script has its final answer.
    pub(crate) done: Vec<bool>,
    /// The body that was acknowledged under each number.
    pub(crate) acknowledged: BTreeMap<u32, PackedBatch>,
    pub(crate) stopped: bool,
    pub(crate) pods: u32,
    /// The events at the last read while the session recorded.
    pub(crate) seen: Vec<Event>,
    /// The number of reads.
    pub(crate) polls: u32,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let log = |script: &crate::plan::Script| {
            Mutex::new(Log {
                done: vec![false; script.acts.len()],
                ..Log::default()
            })
        };
        Self {
            logs: plan.scripts.iter().map(log).collect(),
            clock: Arc::new(SimClock::new(WALL_MS)),
            tenant: Tenant {
                organization_id: OrganizationId::new(TimestampMs(WALL_MS), plan.seed.into()),
                env: Env::Sandbox,
            },
            plan,
            violations: Mutex::default(),
        }
    }

    pub(crate) fn log(&self, index: usize) -> MutexGuard<'_, Log> {
        self.logs[index].lock().unwrap()
    }

    /// Returns whether every phone has completed its script.
    pub(crate) fn is_done(&self) -> bool {
        (0..self.logs.len()).all(|index| {
            let log = self.log(index);
            log.start.is_some() && log.done.iter().all(|&done| done)
        })
    }

    /// Returns the age of the world at which the last act is due, in milliseconds.
    pub(crate) fn last_act_ms(&self) -> i64 {
        let acts = self.plan.scripts.iter().flat_map(|script| &script.acts);
        acts.map(|act| act.at_ms).max().unwrap_or(0)
    }

    /// Records a violated invariant, up to a number that is enough to read.
    pub(crate) fn report(&self, violation: String) {
        let mut violations = self.violations.lock().unwrap();
        if violations.len() < VIOLATIONS_MAX {
            violations.push(violation);
        }
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.violations.lock().unwrap())
    }
}
