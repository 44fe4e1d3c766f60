//! Restarts of the tasks that run as long as the process.
//!
//! A task that panics would end, and with it its work on this node. Its caller runs it in
//! [`Restarts::run`] instead and repeats it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use porchlight_core::backoff::Backoff;
use tokio::time::Instant;

use super::Task;
use super::fact::Fact;

/// The pauses after panics.
const PAUSES: Backoff = Backoff::new(100, 5_000);
/// The time without a panic after which the pauses are short again.
const CALM: Duration = Duration::from_secs(60);

/// The panics of a task, and the pauses after them.
#[derive(Debug)]
pub struct Restarts {
    task: Task,
    pauses: Backoff,
}

impl Restarts {
    /// Returns the restarts of a task that starts.
    #[must_use]
    pub const fn new(task: Task) -> Self {
        Self {
            task,
            pauses: PAUSES,
        }
    }

    /// Runs `work`, which is the task or one round of it, and returns its output. If `work` panics,
    /// logs that, waits for a pause and returns `None`; the caller then runs the next `work`.
    pub async fn run<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let began = Instant::now();
        if let Ok(done) = AssertUnwindSafe(work).catch_unwind().await {
            self.pauses = PAUSES;
            return Some(done);
        }
        if began.elapsed() >= CALM {
            self.pauses = PAUSES;
        }
        let pause = self.pauses.on_failure();
        let panics = self.pauses.failures();
        let task = self.task;
        Fact::TaskPanicked { task, panics }.record();
        tokio::time::sleep(pause).await;
        None
    }
}

/// Runs the work of a thread that cannot be repeated. If it panics, logs that and calls
/// `on_panicked`.
pub fn run_thread(task: Task, work: impl FnOnce(), on_panicked: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
        Fact::TaskPanicked { task, panics: 1 }.record();
        on_panicked();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pause after a round that panics after `ran`, in units of 50 ms, because a timer
    /// may be a millisecond late.
    async fn pause_after(restarts: &mut Restarts, ran: Duration) -> u128 {
        let began = Instant::now();
        let round = async {
            tokio::time::sleep(ran).await;
            panic!("the round panics");
        };
        assert_eq!(restarts.run::<()>(round).await, None);
        (began.elapsed() - ran).as_millis() / 50
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_runs_again_after_a_pause() {
        let mut restarts = Restarts::new(Task::WebhookScan);
        let mut rounds = 0;
        let done = loop {
            rounds += 1;
            let round = async {
                assert!(rounds > 1, "the first round panics");
                "done"
            };
            if let Some(done) = restarts.run(round).await {
                break done;
            }
        };
        assert_eq!((done, rounds), ("done", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_a_task_has_run_without_a_panic() {
        let mut restarts = Restarts::new(Task::TimerWheel);
        let at_once = Duration::ZERO;
        let first = pause_after(&mut restarts, at_once).await;
        assert!(pause_after(&mut restarts, at_once).await > first);
        assert_eq!(pause_after(&mut restarts, CALM).await, first);
        assert!(pause_after(&mut restarts, at_once).await > first);
        assert_eq!(restarts.run(async { 5 }).await, Some(5));
        assert_eq!(pause_after(&mut restarts, at_once).await, first);
    }

    #[test]
    fn a_thread_that_panics_is_reported() {
        let mut is_reported = false;
        run_thread(Task::Ownership, || {}, || is_reported = true);
        assert!(!is_reported);
        run_thread(
            Task::Ownership,
            || panic!("the thread panics"),
            || is_reported = true,
        );
        assert!(is_reported);
    }
}
