//! Waits for another thread's answer so that many answers cost one wake-up.
//!
//! The store's writer answers a whole group at once. Were each waiting request woken on its own, each would be queued
//! with its worker from afar: a lock, often a system call, and a place in a queue that a busy worker looks at only with
//! every 31st task, so that under load what is durable would wait behind what is new. Here the first answer wakes one
//! task of the worker, and that one wakes all whose answers have come by then, in the worker's own queue.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{self, Handle, RuntimeFlavor};

thread_local! {
    static DESK: RefCell<Option<(runtime::Id, Arc<Desk>)>> = const { RefCell::new(None) };
}

/// Where a worker's requests are woken from.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whose answers have come.
    answered: Vec<Waker>,
    /// The task that wakes them.
    task: Option<Waker>,
    /// The task knows that there is somebody to wake.
    is_told: bool,
    /// The task has ended, with its runtime.
    is_gone: bool,
}

impl Desk {
    /// The desk of this thread's runtime; none where it has several threads, which wake each other well enough.
    fn here() -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return None;
        }
        DESK.with_borrow_mut(|here| match here {
            Some((id, desk)) if *id == runtime.id() => Some(Arc::clone(desk)),
            _ => {
                let desk = Arc::new(Self::default());
                runtime.spawn(attend(Arc::clone(&desk)));
                *here = Some((runtime.id(), Arc::clone(&desk)));
                Some(desk)
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that hold it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, waker: &Waker) {
        let mut state = self.lock();
        if state.is_gone {
            drop(state);
            waker.wake_by_ref();
            return;
        }
        state.answered.push(waker.clone());
        if !std::mem::replace(&mut state.is_told, true)
            && let Some(task) = state.task.clone()
        {
            drop(state);
            task.wake();
        }
    }

    /// Wakes all whose answers have come.
    fn wake_answered(&self, task: &Waker) {
        let mut state = self.lock();
        if !state
            .task
            .as_ref()
            .is_some_and(|known| known.will_wake(task))
        {
            state.task = Some(task.clone());
        }
        state.is_told = false;
        let answered = std::mem::take(&mut state.answered);
        drop(state);
        answered.into_iter().for_each(Waker::wake);
    }
}

/// Wakes who was answered, until its runtime ends.
async fn attend(desk: Arc<Desk>) {
    struct Attending(Arc<Desk>);
    impl Drop for Attending {
        fn drop(&mut self) {
            let mut state = self.0.lock();
            state.is_gone = true;
            let answered = std::mem::take(&mut state.answered);
            drop(state);
            answered.into_iter().for_each(Waker::wake);
        }
    }
    let attending = Attending(desk);
    poll_fn(|context| {
        attending.0.wake_answered(context.waker());
        Poll::<()>::Pending
    })
    .await;
}

/// A request that waits.
struct Waiting {
    desk: Arc<Desk>,
    waker: Waker,
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.desk.answer(&self.waker);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.desk.answer(&self.waker);
    }
}

/// The output of `future`, which is woken by another thread together with others.
pub async fn together<F: Future>(future: F) -> F::Output {
    let Some(desk) = Desk::here() else {
        return future.await;
    };
    let mut future = pin!(future);
    let mut told: Option<Arc<Waiting>> = None;
    poll_fn(|context| {
        let task = context.waker();
        let waiting = match &told {
            Some(waiting) if waiting.waker.will_wake(task) => Arc::clone(waiting),
            _ => {
                let (desk, waker) = (Arc::clone(&desk), task.clone());
                Arc::clone(told.insert(Arc::new(Waiting { desk, waker })))
            }
        };
        let waker = Waker::from(waiting);
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Lets what has come in be read: the framework feeds a body to its request only after it has called the handler once.
///
/// If it has something to feed, it calls the handler again at once. To be woken besides would cost each request a turn
/// in the worker's queue for nothing, so that only who was not called again is woken, with all others of the kind.
pub async fn look_again() {
    let mut place = None;
    poll_fn(|context| match place.take() {
        Some(place) => {
            LATER.with_borrow_mut(|later| later.leave(place));
            Poll::Ready(())
        }
        None => {
            place = Some(wake_later(context.waker()));
            Poll::Pending
        }
    })
    .await;
}

/// Who is to be woken after what is in the queue now, unless called before that.
#[derive(Default)]
struct Later {
    waiting: Vec<(u64, Waker)>,
    next: u64,
    is_in_queue: bool,
}

thread_local! {
    static LATER: RefCell<Later> = RefCell::default();
}

impl Later {
    fn enter(&mut self, waker: Waker) -> u64 {
        self.next += 1;
        self.waiting.push((self.next, waker));
        self.next
    }

    fn leave(&mut self, place: u64) {
        // Most often it was the last to come.
        let at = self.waiting.iter().rposition(|(known, _)| *known == place);
        if let Some(at) = at {
            self.waiting.swap_remove(at);
        }
    }
}

/// Has `waker` woken when the queue has come round, and gives the place by which that is called off.
fn wake_later(waker: &Waker) -> u64 {
    struct InQueue;
    impl Drop for InQueue {
        fn drop(&mut self) {
            // Also with a runtime that ends: the next one on this thread sends its own. At the end of the thread there
            // is nobody to wake.
            let waiting = LATER.try_with(|later| {
                let mut later = later.borrow_mut();
                later.is_in_queue = false;
                std::mem::take(&mut later.waiting)
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
    let (place, is_first) = LATER.with_borrow_mut(|later| {
        let place = later.enter(waker.clone());
        (place, !std::mem::replace(&mut later.is_in_queue, true))
    });
    if is_first {
        let in_queue = InQueue;
        runtime.spawn(async move { drop(in_queue) });
    }
    place
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
    fn every_answer_of_another_thread_arrives() {
        one_thread().block_on(async {
            let (senders, receivers): (Vec<_>, Vec<_>) =
                (0..2_000).map(|_| oneshot::channel()).unzip();
            let waiting: Vec<_> = receivers
                .into_iter()
                .map(|receiver| tokio::spawn(together(receiver)))
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
    fn a_runtime_that_follows_another_on_its_thread_is_woken_too() {
        for _ in 0..3 {
            let answer = one_thread().block_on(async {
                let (sender, receiver) = oneshot::channel();
                std::thread::spawn(move || sender.send(7));
                together(receiver).await
            });
            assert_eq!(answer, Ok(7));
        }
    }

    #[test]
    fn a_runtime_that_lives_beside_another_on_its_thread_is_woken_too() {
        let runtimes = [one_thread(), one_thread()];
        for turn in 0..4 {
            let answer = runtimes[turn % 2].block_on(async {
                let (sender, receiver) = oneshot::channel();
                std::thread::spawn(move || sender.send(turn));
                together(receiver).await
            });
            assert_eq!(answer, Ok(turn));
        }
    }
}
