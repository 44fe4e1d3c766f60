//! A timer wheel for each arbiter: a key fires once, at the latest time for which it was armed.
//!
//! The wheel is a cache of due times that are known elsewhere; losing it costs a read of the store.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use actix_rt::ArbiterHandle;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::time::{DelayQueue, delay_queue};

/// The longest delay of a key; a longer one fires after it. The queue panics at delays of more than
/// two years, which follow from a clock that was set back.
const DELAY_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A handle to a timer wheel.
#[derive(Debug, Clone)]
pub struct Wheel<K> {
    // The channel has no capacity. Its senders are sessions and tenants, whose number is bounded at
    // their admission; each arms its key once for each input, and the wheel only inserts into a
    // map.
    arms: mpsc::UnboundedSender<(K, Duration)>,
}

impl<K: Hash + Eq + Clone + Send + 'static> Wheel<K> {
    /// Runs a wheel on `arbiter`; `fire` is called there with each key that is due. It ends when
    /// the last handle to it is gone.
    pub fn start(arbiter: &ArbiterHandle, fire: impl Fn(K) + Send + 'static) -> Self {
        #[expect(clippy::disallowed_methods, reason = "see the field `arms`")]
        let (arms, armed) = mpsc::unbounded_channel();
        // An arbiter that is gone takes no wheel; the process is ending then.
        let _started = arbiter.spawn(run(armed, fire));
        Self { arms }
    }

    /// Lets `key` fire after `delay`, or after [`DELAY_MAX`] if that is sooner. It replaces an
    /// earlier delay of the key.
    pub fn arm(&self, key: K, delay: Duration) {
        // A wheel that has ended belongs to an arbiter that has ended.
        let _sent = self.arms.send((key, delay.min(DELAY_MAX)));
    }
}

async fn run<K: Hash + Eq + Clone>(
    mut armed: mpsc::UnboundedReceiver<(K, Duration)>,
    fire: impl Fn(K),
) {
    let mut queue: DelayQueue<K> = DelayQueue::new();
    let mut keys: HashMap<K, delay_queue::Key> = HashMap::new();
    loop {
        tokio::select! {
            arm = armed.recv() => {
                let Some((key, delay)) = arm else { return };
                match keys.get(&key) {
                    Some(entry) => queue.reset(entry, delay),
                    None => {
                        let entry = queue.insert(key.clone(), delay);
                        keys.insert(key, entry);
                    }
                }
            }
            Some(due) = queue.next(), if !queue.is_empty() => {
                let key = due.into_inner();
                keys.remove(&key);
                fire(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Returns the keys that fire within two days, with their times in seconds.
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
            let running = tokio::spawn(run(armed, move |key| {
                log.lock().unwrap().push((key, start.elapsed().as_secs()));
            }));
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
        let day = DELAY_MAX.as_secs();
        assert_eq!(fired, [('a', day), ('b', day), ('c', 5)]);
    }
}
