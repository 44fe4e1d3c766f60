//! The time of a simulated world: it runs with the runtime's virtual time, stands still while no node lives, and
//! jumps when it is told to.

use std::sync::Mutex;

use porchlight_ports::Clock;
use porchlight_schema::time::TimestampMs;
use tokio::time::Instant;

/// The wall clock that the nodes see.
#[derive(Debug)]
pub(crate) struct SimClock(Mutex<State>);

#[derive(Debug)]
struct State {
    wall_ms: i64,
    /// Since the beginning of the world; never jumps.
    age_ms: i64,
    running_since: Option<Instant>,
}

impl State {
    fn ran_ms(&self) -> i64 {
        self.running_since
            .map_or(0, |since| since.elapsed().as_millis() as i64)
    }
}

impl SimClock {
    pub(crate) fn new(wall_ms: i64) -> Self {
        Self(Mutex::new(State {
            wall_ms,
            age_ms: 0,
            running_since: None,
        }))
    }

    /// A node begins to live: the time runs with the virtual time of its runtime.
    pub(crate) fn run(&self) {
        self.0.lock().unwrap().running_since = Some(Instant::now());
    }

    /// The node is about to die.
    pub(crate) fn halt(&self) {
        let mut state = self.0.lock().unwrap();
        let ran_ms = state.ran_ms();
        state.wall_ms += ran_ms;
        state.age_ms += ran_ms;
        state.running_since = None;
    }

    /// Moves the wall clock; the age of the world stays.
    pub(crate) fn jump(&self, by_ms: i64) {
        self.0.lock().unwrap().wall_ms += by_ms;
    }

    /// Milliseconds of virtual time since the beginning of the world.
    pub(crate) fn age_ms(&self) -> i64 {
        let state = self.0.lock().unwrap();
        state.age_ms + state.ran_ms()
    }
}

impl Clock for SimClock {
    fn now(&self) -> TimestampMs {
        let state = self.0.lock().unwrap();
        TimestampMs(state.wall_ms + state.ran_ms())
    }

    fn uptime_ms(&self) -> i64 {
        self.age_ms()
    }
}
