//! Threads of low priority for work on large bodies.
//!
//! Such work takes milliseconds of processor time. On a worker it would delay all requests of that
//! worker. A thread of usual priority, or one that is only nice, keeps its processor for a time
//! slice of about 3 ms; Linux takes a thread of the policy `SCHED_IDLE` (sched(7)) off its processor
//! as soon as a worker has something to do. The threads of the runtime's blocking pool are shared
//! with reads of the store, so their priority cannot be lowered.
//!
//! On a node whose processors are busy without a pause, such a thread gets about 0.3 % of one: a large
//! body then takes seconds, and the ones behind it are refused with 429 until the load falls.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use thread_priority::ThreadPriority;
use tokio::sync::oneshot;

/// The thread that did the work has ended early, because the work panicked.
#[derive(Debug, thiserror::Error)]
#[error("the work on a large body ended early")]
pub struct EndedEarly;

type Work = Box<dyn FnOnce() + Send>;

/// Runs `work` on a thread of low priority and returns its result. The callers limit the number of
/// concurrent calls: see `LargeBodyTurn`.
///
/// # Errors
///
/// Returns an error if the work panicked.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EndedEarly> {
    let Some(queue) = queue() else {
        return Ok(work());
    };
    let (done, result) = oneshot::channel();
    let work = Box::new(move || {
        // An error means that the client has left.
        let _left = done.send(work());
    });
    queue.send(work).map_err(|_| EndedEarly)?;
    result.await.map_err(|_| EndedEarly)
}

/// Returns the queue of the threads, which the first call starts; `None` if no thread starts.
fn queue() -> Option<&'static mpsc::Sender<Work>> {
    static QUEUE: OnceLock<Option<mpsc::Sender<Work>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (queue, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name("large-bodies".to_owned());
            thread.spawn(move || serve(&waiting)).is_ok()
        };
        let started = (0..threads).map(start).filter(|&is_started| is_started);
        (started.count() > 0).then_some(queue)
    });
    queue.as_ref()
}

fn serve(waiting: &Mutex<mpsc::Receiver<Work>>) {
    lower_priority();
    loop {
        let work = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(work) = work else {
            return;
        };
        // The caller learns of a panic from the dropped channel; the thread goes on.
        let _panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    }
}

/// Lowers the priority of this thread. If that fails, the work is done at the usual priority.
#[cfg(target_os = "linux")]
fn lower_priority() {
    use thread_priority::unix::{
        NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id,
    };
    let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let id = thread_native_id();
    let _lowered = set_thread_priority_and_policy(id, ThreadPriority::Min, policy);
}

/// Lowers the priority of this thread. If that fails, the work is done at the usual priority.
#[cfg(not(target_os = "linux"))]
fn lower_priority() {
    let _lowered = ThreadPriority::Min.set_for_current();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_ends_only_itself() {
        for _ in 0..100 {
            assert!(run(|| panic!("on purpose")).await.is_err());
        }
        assert_eq!(run(|| 7).await.unwrap(), 7);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_threads_run_only_when_no_other_thread_wants_the_processor() {
        use thread_priority::unix::{
            NormalThreadSchedulePolicy::{Idle, Other},
            ThreadSchedulePolicy::Normal,
            thread_schedule_policy,
        };
        let idle = run(thread_schedule_policy).await.unwrap().unwrap();
        let usual = thread_schedule_policy().unwrap();
        assert_eq!((idle, usual), (Normal(Idle), Normal(Other)));
    }
}
