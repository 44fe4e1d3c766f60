//! The arbiters of the actors: threads that run the tasks of their actors one after the other.

use actix_rt::{Arbiter, ArbiterHandle};
use porchlight_schema::limits::SCORING_ACTORS;

/// The arbiters of this process. Each kind of actor has its own, because a task delays the tasks
/// behind it: a customer with many webhooks to send must not delay the sessions of others.
pub(super) struct Arbiters {
    /// The arbiters of the actors of sessions.
    pub(super) sessions: Vec<ArbiterHandle>,
    /// The arbiters of the actors of webhooks.
    pub(super) webhooks: Vec<ArbiterHandle>,
    /// The arbiters of the actors that score sessions.
    pub(super) scoring: Vec<ArbiterHandle>,
    all: Vec<Arbiter>,
}

impl Arbiters {
    /// Starts the arbiters of a process with `cores` processors.
    pub(super) fn start(cores: usize) -> Self {
        let mut all = Vec::new();
        let mut start = |count| {
            let started = (0..count).map(|_| Arbiter::new());
            let first = all.len();
            all.extend(started);
            all.iter().skip(first).map(Arbiter::handle).collect()
        };
        Self {
            sessions: start(cores),
            webhooks: start(cores),
            scoring: start(SCORING_ACTORS),
            all,
        }
    }

    /// Returns all arbiters.
    pub(super) fn handles(&self) -> Vec<ArbiterHandle> {
        self.all.iter().map(Arbiter::handle).collect()
    }

    /// Stops all arbiters.
    pub(super) fn stop(&self) {
        for arbiter in &self.all {
            arbiter.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[actix::test]
    async fn webhooks_that_occupy_their_arbiters_do_not_delay_sessions() {
        let arbiters = Arbiters::start(2);
        // Each arbiter of webhooks runs a task that lasts until the end of the test.
        let mut occupied = Vec::new();
        for arbiter in &arbiters.webhooks {
            let (end, ended) = mpsc::sync_channel::<()>(1);
            assert!(arbiter.spawn_fn(move || assert!(ended.recv().is_err())));
            occupied.push(end);
        }
        let (answer, answers) = mpsc::sync_channel(64);
        let others = arbiters.sessions.iter().chain(&arbiters.scoring);
        for arbiter in others.clone() {
            let answer = answer.clone();
            assert!(arbiter.spawn_fn(move || answer.send(()).unwrap()));
        }
        for _ in others {
            answers.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        drop(occupied);
        arbiters.stop();
    }
}
