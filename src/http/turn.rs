//! How long what comes to a worker waits for its turn. A worker that has too much to do is late with reading: requests
//! wait in its queue, and whoever times what is done for them sees nothing of it. So a task is sent through that queue
//! now and then, while requests come, and what it waited is taken for what they did.

use std::cell::Cell;
use std::time::{Duration, Instant};

use actix_web::rt;

/// How often it is measured at most. A task costs a tenth of a microsecond or two.
const MEASURE_EVERY: Duration = Duration::from_millis(1);
/// What was measured longer ago says nothing of now.
const KEPT: Duration = Duration::from_millis(100);

/// What is known of this worker's queue.
#[derive(Default)]
struct Turn {
    /// When the task that is in the queue was sent.
    sent: Cell<Option<Instant>>,
    /// What the last one waited, and when it was through.
    measured: Cell<Option<(Duration, Instant)>>,
}

thread_local! {
    static TURN: Turn = const { Turn { sent: Cell::new(None), measured: Cell::new(None) } };
}

impl Turn {
    /// What a request has waited that is looked at now, and whether it is time to measure again.
    fn look(&self, now: Instant) -> (Duration, bool) {
        let measured = self.measured.get();
        let age = measured.map(|(_, at)| now.saturating_duration_since(at));
        let known = measured
            .filter(|_| age.is_some_and(|age| age < KEPT))
            .map_or(Duration::ZERO, |(waited, _)| waited);
        match self.sent.get() {
            // It waits already, and not yet for as long as it will.
            Some(sent) => (known.max(now.saturating_duration_since(sent)), false),
            None => (known, age.is_none_or(|age| age >= MEASURE_EVERY)),
        }
    }

    fn send(&self, now: Instant) {
        self.sent.set(Some(now));
    }

    fn arrive(&self, now: Instant) {
        if let Some(sent) = self.sent.take() {
            let waited = now.saturating_duration_since(sent);
            self.measured.set(Some((waited, now)));
        }
    }
}

/// About how long a request has waited in this worker's queue that is looked at now. Called for each; from a worker.
pub fn waited() -> Duration {
    let now = Instant::now();
    let (waited, is_time) = TURN.with(|turn| turn.look(now));
    if is_time {
        TURN.with(|turn| turn.send(now));
        let arriving = Arriving;
        rt::spawn(async move { drop(arriving) });
    }
    waited
}

/// In the queue, until it is dropped: also with a worker that ends before it is through.
struct Arriving;

impl Drop for Arriving {
    fn drop(&mut self) {
        // At the end of the thread there may be nobody to tell.
        let _told = TURN.try_with(|turn| turn.arrive(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_waits_is_as_old_as_what_was_sent_before_it() {
        let (turn, begun) = (Turn::default(), Instant::now());
        let look = |after: u32| turn.look(begun + after * MS);
        assert_eq!(look(0), (Duration::ZERO, true));
        turn.send(begun);
        assert_eq!(look(3), (3 * MS, false), "it is still in the queue");
        turn.arrive(begun + 7 * MS);
        assert_eq!(look(7), (7 * MS, false), "measured just now");
        assert_eq!(look(8), (7 * MS, true));
        turn.send(begun + 8 * MS);
        assert_eq!(
            look(9),
            (7 * MS, false),
            "no shorter than the one before, so far"
        );
        assert_eq!(look(20), (12 * MS, false));
        turn.arrive(begun + 21 * MS);
        assert_eq!(look(121), (Duration::ZERO, true), "too long ago");
    }

    #[actix::test]
    async fn a_queue_that_is_long_is_seen() {
        assert_eq!(waited(), Duration::ZERO);
        let (begun, busy) = (Instant::now(), 20 * MS);
        while begun.elapsed() < busy {
            std::hint::spin_loop();
        }
        assert!(waited() >= busy, "the task has not had its turn");
        while TURN.with(|turn| turn.sent.get()).is_some() {
            tokio::task::yield_now().await;
        }
        assert!(
            waited() >= busy || begun.elapsed() > KEPT,
            "what it waited is known"
        );
    }
}
