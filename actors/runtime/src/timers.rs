//! A timer wheel for each arbiter: a key fires once, at the latest time for which it was armed.
//!
//! The wheel is a cache of due times that are known elsewhere; losing it costs a read of the store.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use futures_util::StreamExt;
use porchlight_observe::Task;
use porchlight_observe::restarts::Restarts;
use porchlight_schema::limits::WHEEL_AHEAD_MS;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

/// The range of a wheel: the longest delay of a key. A key that is due later fires after it, and its
/// owner arms it again. The queue panics at delays of more than two years, which follow from a clock
/// that was set back.
const DELAY_MAX: Duration = Duration::from_millis(WHEEL_AHEAD_MS);

/// A handle to a timer wheel.
#[derive(Debug, Clone)]
pub struct Wheel<K> {
    // The channel has no capacity. Its senders are sessions and tenants, whose number is bounded at
    // their admission; each arms its key once for each input, and the wheel only inserts into a
    // map.
    arms: mpsc::UnboundedSender<(K, Duration)>,
}

impl<K: Hash + Eq + Clone + Send + 'static> Wheel<K> {
    /// Runs a wheel on `arbiter`; `fire` is called there with each key that is due. The wheel stops
    /// when its last handle is dropped.
    pub fn start(arbiter: &ArbiterHandle, fire: impl Fn(K) + Send + 'static) -> Self {
        #[expect(clippy::disallowed_methods, reason = "see the field `arms`")]
        let (arms, armed) = mpsc::unbounded_channel();
        // An arbiter that is gone takes no wheel; the process is ending then.
        let _started = arbiter.spawn(RunningWheel::new(armed, fire).run());
        Self { arms }
    }

    /// Lets `key` fire after `delay`, or after [`DELAY_MAX`] if that is sooner. It replaces an
    /// earlier delay of the key.
    pub fn arm(&self, key: K, delay: Duration) {
        // A wheel that has ended belongs to an arbiter that has ended.
        let _sent = self.arms.send((key, delay.min(DELAY_MAX)));
    }
}

/// A wheel that runs, and calls `fire` with each key that is due.
struct RunningWheel<K, F> {
    armed: mpsc::UnboundedReceiver<(K, Duration)>,
    fire: F,
    /// The armed keys, each with its entry in the queue and its time.
    keys: HashMap<K, (delay_queue::Key, Instant)>,
}

impl<K: Hash + Eq + Clone, F: Fn(K)> RunningWheel<K, F> {
    fn new(armed: mpsc::UnboundedReceiver<(K, Duration)>, fire: F) -> Self {
        Self {
            armed,
            fire,
            keys: HashMap::new(),
        }
    }

    /// Fires keys until no handle is left, even if one of them panics.
    async fn run(mut self) {
        let mut restarts = Restarts::new(Task::TimerWheel);
        while restarts.run(self.turn()).await.is_none() {}
    }

    /// Fires keys in a queue of its own, because a panic may have left an earlier one half changed.
    async fn turn(&mut self) {
        let mut queue: DelayQueue<K> = DelayQueue::new();
        for (key, (entry, due)) in &mut self.keys {
            *entry = queue.insert_at(key.clone(), *due);
        }
        loop {
            tokio::select! {
                arm = self.armed.recv() => {
                    let Some((key, delay)) = arm else { return };
                    let due = Instant::now() + delay;
                    match self.keys.get_mut(&key) {
                        Some((entry, at)) => {
                            queue.reset_at(entry, due);
                            *at = due;
                        }
                        None => {
                            let entry = queue.insert_at(key.clone(), due);
                            self.keys.insert(key, (entry, due));
                        }
                    }
                }
                Some(due) = queue.next(), if !queue.is_empty() => {
                    let key = due.into_inner();
                    self.keys.remove(&key);
                    (self.fire)(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Returns the keys that fire within twice the range, with their times in seconds. The key '!' panics.
    fn fired(delays: &[(char, Duration)]) -> Vec<(char, u64)> {
        let fired = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&fired);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            #[expect(clippy::disallowed_methods, reason = "the test bounds its messages")]
            let (arms, armed) = mpsc::unbounded_channel();
            let wheel = Wheel { arms };
            let start = tokio::time::Instant::now();
            let running = RunningWheel::new(armed, move |key| {
                assert_ne!(key, '!', "the key panics");
                log.lock().unwrap().push((key, start.elapsed().as_secs()));
            });
            let running = tokio::spawn(running.run());
            for &(key, delay) in delays {
                wheel.arm(key, delay);
            }
            tokio::time::sleep(2 * DELAY_MAX).await;
            drop(wheel);
            running.await.unwrap();
        });
        let fired = fired.lock().unwrap();
        fired.clone()
    }

    #[test]
    fn a_key_fires_once_at_its_last_armed_time() {
        let delays = [('a', 10), ('b', 20), ('a', 30)];
        let delays = delays.map(|(key, sec)| (key, Duration::from_secs(sec)));
        assert_eq!(fired(&delays), [('b', 20), ('a', 30)]);
    }

    #[test]
    fn keys_fire_after_another_one_has_panicked() {
        let delays = [('!', 10), ('a', 20), ('!', 30), ('b', 40), ('a', 50)];
        let delays = delays.map(|(key, sec)| (key, Duration::from_secs(sec)));
        assert_eq!(fired(&delays), [('b', 40), ('a', 50)]);
        let delays = [('a', 50), ('!', 10)].map(|(key, sec)| (key, Duration::from_secs(sec)));
        assert_eq!(fired(&delays), [('a', 50)]);
    }

    /// The clock was set back by ten years, so that an attempt is due in ten years.
    #[test]
    fn a_key_that_is_due_in_years_fires_after_the_longest_delay() {
        let years = Duration::from_secs(10 * 365 * 24 * 3_600);
        let delays = [
            ('a', years),
            ('b', Duration::MAX),
            ('c', Duration::from_secs(5)),
        ];
        let mut fired = fired(&delays);
        fired.sort_unstable();
        let range = DELAY_MAX.as_secs();
        assert_eq!(fired, [('a', range), ('b', range), ('c', 5)]);
    }
}
