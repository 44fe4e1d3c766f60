//! Batches the wake-ups of requests that wait for another thread.
//!
//! The store's writer completes a whole group together. Waking each request separately would queue
//! each of them with its worker from another thread. That costs a lock, often a system call, and a
//! place in the injection queue, which a busy worker polls only with every 31st task. Durable
//! batches would then wait behind new ones. Here the first completion wakes one task of the worker,
//! which then wakes all completed requests from within the worker.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{self, Handle, RuntimeFlavor};

thread_local! {
    static BATCHER: RefCell<Option<(runtime::Id, Arc<WakeBatcher>)>> = const { RefCell::new(None) };
}

/// The wake batcher of a worker.
#[derive(Default)]
struct WakeBatcher {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The wakers of completed requests.
    completed: Vec<Waker>,
    /// The task that wakes the batched tasks.
    task: Option<Waker>,
    /// Whether the task was already woken.
    is_woken: bool,
    /// Whether the task has ended together with its runtime.
    is_gone: bool,
}

impl WakeBatcher {
    /// Returns the batcher of this thread's runtime; `None` for multi-threaded runtimes, which wake
    /// each other efficiently.
    fn of_this_thread() -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return None;
        }
        BATCHER.with_borrow_mut(|here| match here {
            Some((id, batcher)) if *id == runtime.id() => Some(Arc::clone(batcher)),
            _ => {
                let batcher = Arc::new(Self::default());
                runtime.spawn(wake_until_end(Arc::clone(&batcher)));
                *here = Some((runtime.id(), Arc::clone(&batcher)));
                Some(batcher)
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that hold the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, waker: &Waker) {
        let mut state = self.lock();
        if state.is_gone {
            drop(state);
            waker.wake_by_ref();
            return;
        }
        state.completed.push(waker.clone());
        if !std::mem::replace(&mut state.is_woken, true)
            && let Some(task) = state.task.clone()
        {
            drop(state);
            task.wake();
        }
    }

    /// Wakes all completed requests.
    fn wake_completed(&self, task: &Waker) {
        let mut state = self.lock();
        if !state
            .task
            .as_ref()
            .is_some_and(|known| known.will_wake(task))
        {
            state.task = Some(task.clone());
        }
        state.is_woken = false;
        let completed = std::mem::take(&mut state.completed);
        drop(state);
        completed.into_iter().for_each(Waker::wake);
    }
}

/// Wakes completed requests until its runtime ends.
async fn wake_until_end(batcher: Arc<WakeBatcher>) {
    struct Attached(Arc<WakeBatcher>);
    impl Drop for Attached {
        fn drop(&mut self) {
            let mut state = self.0.lock();
            state.is_gone = true;
            let completed = std::mem::take(&mut state.completed);
            drop(state);
            completed.into_iter().for_each(Waker::wake);
        }
    }
    let attached = Attached(batcher);
    poll_fn(|context| {
        attached.0.wake_completed(context.waker());
        Poll::<()>::Pending
    })
    .await;
}

/// A waiting request.
struct WaitingRequest {
    batcher: Arc<WakeBatcher>,
    waker: Waker,
}

impl Wake for WaitingRequest {
    fn wake(self: Arc<Self>) {
        self.batcher.complete(&self.waker);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.batcher.complete(&self.waker);
    }
}

/// Awaits `future`, which another thread completes, with batched wake-ups.
pub async fn await_batched<F: Future>(future: F) -> F::Output {
    let Some(batcher) = WakeBatcher::of_this_thread() else {
        return future.await;
    };
    let mut future = pin!(future);
    let mut current: Option<Arc<WaitingRequest>> = None;
    poll_fn(|context| {
        let task = context.waker();
        let waiting = match &current {
            Some(waiting) if waiting.waker.will_wake(task) => Arc::clone(waiting),
            _ => {
                let (batcher, waker) = (Arc::clone(&batcher), task.clone());
                Arc::clone(current.insert(Arc::new(WaitingRequest { batcher, waker })))
            }
        };
        let waker = Waker::from(waiting);
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Yields so that the framework can read arrived bytes: it passes a body to its request only after
/// it has called the handler once, and then calls the handler again.
///
/// Waking the task in any case would cost each request a needless pass through the worker's queue,
/// so only tasks that were not called again are woken, all together.
pub async fn yield_to_payload() {
    let mut token = None;
    poll_fn(|context| match token.take() {
        Some(token) => {
            DEFERRED.with_borrow_mut(|deferred| deferred.cancel(token));
            Poll::Ready(())
        }
        None => {
            token = Some(wake_later(context.waker()));
            Poll::Pending
        }
    })
    .await;
}

/// Tasks to wake after the present queue, unless they are polled before.
#[derive(Default)]
struct DeferredWakes {
    waiting: Vec<(u64, Waker)>,
    next: u64,
    is_in_queue: bool,
}

thread_local! {
    static DEFERRED: RefCell<DeferredWakes> = RefCell::default();
}

impl DeferredWakes {
    fn add(&mut self, waker: Waker) -> u64 {
        self.next += 1;
        self.waiting.push((self.next, waker));
        self.next
    }

    fn cancel(&mut self, token: u64) {
        // The cancelled waker is usually the newest one.
        let at = self.waiting.iter().rposition(|(known, _)| *known == token);
        if let Some(at) = at {
            self.waiting.swap_remove(at);
        }
    }
}

/// Registers `waker` for the end of the present queue and returns a token that cancels it.
fn wake_later(waker: &Waker) -> u64 {
    struct InQueue;
    impl Drop for InQueue {
        fn drop(&mut self) {
            // If the runtime ends, the next one on this thread sends its own task. At the end of
            // the thread no task is left to wake.
            let waiting = DEFERRED.try_with(|deferred| {
                let mut deferred = deferred.borrow_mut();
                deferred.is_in_queue = false;
                std::mem::take(&mut deferred.waiting)
            });
            let waiting = waiting.into_iter().flatten();
            waiting.for_each(|(_, waker)| waker.wake());
        }
    }
    let one_thread = Handle::try_current()
        .ok()
        .filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
    let Some(runtime) = one_thread else {
        waker.wake_by_ref();
        return 0;
    };
    let (token, is_first) = DEFERRED.with_borrow_mut(|deferred| {
        let token = deferred.add(waker.clone());
        (token, !std::mem::replace(&mut deferred.is_in_queue, true))
    });
    if is_first {
        let in_queue = InQueue;
        runtime.spawn(async move { drop(in_queue) });
    }
    token
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn one_thread() -> runtime::Runtime {
        runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn every_response_of_another_thread_arrives() {
        one_thread().block_on(async {
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..2_000).map(|_| oneshot::channel()).unzip();
            let waiting: Vec<_> = receivers
                .into_iter()
                .map(|receiver| tokio::spawn(await_batched(receiver)))
                .collect();
            let answering = std::thread::spawn(move || {
                for (number, sender) in senders.into_iter().enumerate() {
                    sender.send(number).unwrap();
                    if number % 100 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            for (number, waiting) in waiting.into_iter().enumerate() {
                assert_eq!(waiting.await.unwrap().unwrap(), number);
            }
            answering.join().unwrap();
        });
    }

    #[test]
    fn successive_runtimes_on_one_thread_are_woken() {
        for _ in 0..3 {
            let answer = one_thread().block_on(async {
                let (sender, receiver) = oneshot::channel();
                std::thread::spawn(move || sender.send(7));
                await_batched(receiver).await
            });
            assert_eq!(answer, Ok(7));
        }
    }

    #[test]
    fn coexisting_runtimes_on_one_thread_are_woken() {
        let runtimes = [one_thread(), one_thread()];
        for turn in 0..4 {
            let answer = runtimes[turn % 2].block_on(async {
                let (sender, receiver) = oneshot::channel();
                std::thread::spawn(move || sender.send(turn));
                await_batched(receiver).await
            });
            assert_eq!(answer, Ok(turn));
        }
    }
}
