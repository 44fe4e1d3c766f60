//! Measures the queue delay of a worker. An overloaded worker reads requests late: they wait in its
//! queue, which the times of the handlers do not show. While requests arrive, a probe task is
//! periodically sent through the queue, and its delay represents theirs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use actix_web::rt;

/// The minimum time between probes. A probe costs one or two tenths of a microsecond.
const PROBE_INTERVAL: Duration = Duration::from_millis(1);
/// Age at which a measurement expires.
const MEASUREMENT_TTL: Duration = Duration::from_millis(100);

/// Queue measurements of a worker.
#[derive(Default)]
struct QueueDelay {
    /// The time at which the pending probe was queued.
    sent: Cell<Option<Instant>>,
    /// The delay of the last probe, and the time at which it left the queue.
    measured: Cell<Option<(Duration, Instant)>>,
}

thread_local! {
    static DELAY: QueueDelay = const { QueueDelay { sent: Cell::new(None), measured: Cell::new(None) } };
}

impl QueueDelay {
    /// Returns the estimated queue delay of the present request, and whether a new probe is due.
    fn estimate(&self, now: Instant) -> (Duration, bool) {
        let measured = self.measured.get();
        let age = measured.map(|(_, at)| now.saturating_duration_since(at));
        let known = measured
            .filter(|_| age.is_some_and(|age| age < MEASUREMENT_TTL))
            .map_or(Duration::ZERO, |(waited, _)| waited);
        match self.sent.get() {
            // The probe in the queue has waited this long so far.
            Some(sent) => (known.max(now.saturating_duration_since(sent)), false),
            None => (known, age.is_none_or(|age| age >= PROBE_INTERVAL)),
        }
    }

    fn on_probe_sent(&self, now: Instant) {
        self.sent.set(Some(now));
    }

    fn on_probe_run(&self, now: Instant) {
        if let Some(sent) = self.sent.take() {
            let waited = now.saturating_duration_since(sent);
            self.measured.set(Some((waited, now)));
        }
    }
}

/// Returns the estimated queue delay of the present request. A worker calls it for each request.
pub fn current() -> Duration {
    let now = Instant::now();
    let (waited, is_due) = DELAY.with(|delay| delay.estimate(now));
    if is_due {
        DELAY.with(|delay| delay.on_probe_sent(now));
        let probe = QueuedProbe;
        rt::spawn(async move { drop(probe) });
    }
    waited
}

/// Marks the probe as queued until dropped, also if the worker ends first.
struct QueuedProbe;

impl Drop for QueuedProbe {
    fn drop(&mut self) {
        // The thread-local may be gone at the end of the thread.
        let _recorded = DELAY.try_with(|delay| delay.on_probe_run(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_queue_delay_follows_the_pending_probe() {
        let (delay, begun) = (QueueDelay::default(), Instant::now());
        let estimate = |after: u32| delay.estimate(begun + after * MS);
        assert_eq!(estimate(0), (Duration::ZERO, true));
        delay.on_probe_sent(begun);
        assert_eq!(
            estimate(3),
            (3 * MS, false),
            "the probe is still in the queue"
        );
        delay.on_probe_run(begun + 7 * MS);
        assert_eq!(estimate(7), (7 * MS, false), "measured just now");
        assert_eq!(estimate(8), (7 * MS, true));
        delay.on_probe_sent(begun + 8 * MS);
        assert_eq!(
            estimate(9),
            (7 * MS, false),
            "a pending probe does not shorten the estimate"
        );
        assert_eq!(estimate(20), (12 * MS, false));
        delay.on_probe_run(begun + 21 * MS);
        assert_eq!(
            estimate(121),
            (Duration::ZERO, true),
            "the measurement has expired"
        );
    }

    #[actix::test]
    async fn a_long_queue_is_detected() {
        assert_eq!(current(), Duration::ZERO);
        let (begun, busy) = (Instant::now(), 20 * MS);
        while begun.elapsed() < busy {
            std::hint::spin_loop();
        }
        assert!(current() >= busy, "the probe has not run yet");
        while DELAY.with(|delay| delay.sent.get()).is_some() {
            tokio::task::yield_now().await;
        }
        assert!(
            current() >= busy || begun.elapsed() > MEASUREMENT_TTL,
            "the delay of the probe is known"
        );
    }
}
