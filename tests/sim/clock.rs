//! The time of a simulated world: it runs with the runtime's virtual time, stands still while no
//! node lives, and jumps on request.

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
    /// Milliseconds since the beginning of the world; never jumps.
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

    /// Starts the time with a node's life: it runs with the virtual time of the node's runtime.
    pub(crate) fn run(&self) {
        self.0.lock().unwrap().running_since = Some(Instant::now());
    }

    /// Stops the time before the node dies.
    pub(crate) fn halt(&self) {
        let mut state = self.0.lock().unwrap();
        let ran_ms = state.ran_ms();
        state.wall_ms += ran_ms;
        state.age_ms += ran_ms;
        state.running_since = None;
    }

    /// Moves the wall clock; the age of the world does not change.
    pub(crate) fn jump(&self, by_ms: i64) {
        self.0.lock().unwrap().wall_ms += by_ms;
    }

    /// Returns the milliseconds of virtual time since the beginning of the world.
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
