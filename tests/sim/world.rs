//! What lasts beyond the life of a node: what the phones know, and what was seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use porchlight_schema::event::Event;
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{Env, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use crate::clock::SimClock;
use crate::plan::Plan;

/// When every world begins.
const WALL_MS: i64 = 1_763_636_100_000;

/// A simulated world.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) tenant: Tenant,
    logs: Vec<Mutex<Log>>,
    broken: Mutex<Vec<String>>,
}

/// What is known of one session from outside.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) start: Option<SessionStart>,
    /// Of each act of the script: it was answered for good.
    pub(crate) done: Vec<bool>,
    /// The body that was acknowledged under each number.
    pub(crate) acknowledged: BTreeMap<u32, PackedBatch>,
    pub(crate) stopped: bool,
    pub(crate) pods: u32,
    /// The events as they were last read while the session recorded.
    pub(crate) seen: Vec<Event>,
    /// How often they were read.
    pub(crate) looks: u32,
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
            broken: Mutex::default(),
        }
    }

    pub(crate) fn log(&self, place: usize) -> MutexGuard<'_, Log> {
        self.logs[place].lock().unwrap()
    }

    /// Whether every phone has done all that it wanted.
    pub(crate) fn is_done(&self) -> bool {
        (0..self.logs.len()).all(|place| {
            let log = self.log(place);
            log.start.is_some() && log.done.iter().all(|&done| done)
        })
    }

    /// When the last act is due, by the world's age.
    pub(crate) fn last_act_ms(&self) -> i64 {
        let acts = self.plan.scripts.iter().flat_map(|script| &script.acts);
        acts.map(|act| act.at_ms).max().unwrap_or(0)
    }

    /// An invariant does not hold.
    pub(crate) fn broken(&self, what: String) {
        let mut broken = self.broken.lock().unwrap();
        if broken.len() < 10 {
            broken.push(what);
        }
    }

    pub(crate) fn take_broken(&self) -> Vec<String> {
        std::mem::take(&mut self.broken.lock().unwrap())
    }
}
