//! Threads of low priority for work on large bodies.
//!
//! Such work takes milliseconds of processor time. On a worker it would delay all requests of that
//! worker. A thread of usual priority, or one that only has a high nice value, keeps its processor
//! for a time slice of about 3 ms; Linux takes a thread of the policy `SCHED_IDLE` (sched(7)) off
//! its processor as soon as a worker has something to do. The threads of the runtime's blocking
//! pool are shared with reads of the store, so their priority cannot be lowered.
//!
//! On a node whose processors are busy without a pause, such a thread gets hardly any time. Work
//! that no thread has begun after [`LARGE_BODY_STARVED_MS`] therefore goes to the blocking pool:
//! large bodies are slow on a busy node, but they are completed. A process without privileges
//! cannot raise the priority of a thread. Work that can be repeated is therefore done a second time
//! on the blocking pool if a thread has begun it and does not complete it in time; all other work
//! consists of short steps.

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError, mpsc};
use std::time::{Duration, Instant};

use porchlight_actors::shares::large_bodies_at_once;
use porchlight_schema::limits::{LARGE_BODY_REPEATED_MS, LARGE_BODY_STARVED_MS};
use thread_priority::ThreadPriority;
use tokio::sync::oneshot;

/// The error of work whose thread has ended early, because the work panicked.
#[derive(Debug, thiserror::Error)]
#[error("the work on a large body ended early")]
pub struct EndedEarly;

type Work = Box<dyn FnOnce() + Send>;
/// Work that waits for a thread; empty once a thread has begun it.
type Waiting = Arc<Mutex<Option<Work>>>;

/// Runs `work` on a thread of low priority and returns its result. The callers limit the number of
/// concurrent calls: see `LargeBodyPermit`.
///
/// # Errors
///
/// Returns an error if the work panicked.
pub async fn run<T: Send + 'static>(
    work: impl Fn() -> T + Send + Sync + 'static,
) -> Result<T, EndedEarly> {
    let starved_after = Duration::from_millis(LARGE_BODY_STARVED_MS);
    let repeated_after = Duration::from_millis(LARGE_BODY_REPEATED_MS);
    match threads() {
        Some(threads) => threads.repeat(work, starved_after, repeated_after).await,
        None => Ok(work()),
    }
}

/// The steps of one body's work, each of which begins where the one before ended.
#[derive(Debug)]
pub struct Steps {
    began: Instant,
}

impl Steps {
    /// Begins the work on a body.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    /// Runs the next step on a thread of low priority, or on the blocking pool once the steps have
    /// taken [`LARGE_BODY_STARVED_MS`].
    ///
    /// # Errors
    ///
    /// Returns an error if the step panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        step: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EndedEarly> {
        let starved_after = Duration::from_millis(LARGE_BODY_STARVED_MS);
        let left = starved_after.saturating_sub(self.began.elapsed());
        match threads() {
            Some(_) if left.is_zero() => on_blocking_pool(step).await,
            Some(threads) => threads.run(step, left).await,
            None => Ok(step()),
        }
    }
}

/// Returns the threads of low priority, or `None` if none could be started.
fn threads() -> Option<&'static Threads> {
    static THREADS: OnceLock<Option<Threads>> = OnceLock::new();
    THREADS.get_or_init(Threads::start).as_ref()
}

async fn on_blocking_pool<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, EndedEarly> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| EndedEarly)
}

/// The threads of low priority, one for each permit of the node.
struct Threads {
    queue: mpsc::Sender<Waiting>,
}

impl Threads {
    /// Starts the threads. Returns `None` if no thread starts.
    fn start() -> Option<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "an entry belongs to a large body, whose number has a limit"
        )]
        let (queue, waiting) = mpsc::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let threads = large_bodies_at_once();
        let start = |_| {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name("large-bodies".to_owned());
            thread.spawn(move || serve(&waiting)).is_ok()
        };
        let started = (0..threads).map(start).filter(|&is_started| is_started);
        (started.count() > 0).then_some(Self { queue })
    }

    /// Runs `work` on one of the threads, or on the blocking pool if none of them has begun it
    /// after `starved_after`.
    ///
    /// # Errors
    ///
    /// Returns an error if the work panicked.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        starved_after: Duration,
    ) -> Result<T, EndedEarly> {
        let (done, mut result) = oneshot::channel();
        let work: Work = Box::new(move || {
            // An error means that the client has left.
            let _left = done.send(work());
        });
        let waiting = Arc::new(Mutex::new(Some(work)));
        self.queue
            .send(Arc::clone(&waiting))
            .map_err(|_| EndedEarly)?;
        if let Ok(result) = tokio::time::timeout(starved_after, &mut result).await {
            return result.map_err(|_| EndedEarly);
        }
        if let Some(work) = take_if_free(&waiting) {
            // The work reports its result by the channel.
            drop(tokio::task::spawn_blocking(work));
        }
        result.await.map_err(|_| EndedEarly)
    }
}

impl Threads {
    /// Runs `work` like [`Self::run`], and a second time on the blocking pool if there is no result
    /// after `repeated_after`. Returns the first result.
    ///
    /// # Errors
    ///
    /// Returns an error if the work panicked.
    async fn repeat<T: Send + 'static>(
        &self,
        work: impl Fn() -> T + Send + Sync + 'static,
        starved_after: Duration,
        repeated_after: Duration,
    ) -> Result<T, EndedEarly> {
        let work = Arc::new(work);
        let first = Arc::clone(&work);
        let mut first = pin!(self.run(move || first(), starved_after));
        if let Ok(result) = tokio::time::timeout(repeated_after, &mut first).await {
            return result;
        }
        tokio::select! {
            result = first => result,
            result = on_blocking_pool(move || work()) => result,
        }
    }
}

/// Takes work that no thread has begun. A worker never waits for a thread of low priority, so work
/// that a thread is about to take stays with that thread.
fn take_if_free(waiting: &Mutex<Option<Work>>) -> Option<Work> {
    match waiting.try_lock() {
        Ok(mut work) => work.take(),
        Err(TryLockError::Poisoned(work)) => work.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn serve(queue: &Mutex<mpsc::Receiver<Waiting>>) {
    lower_priority();
    loop {
        let waiting = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(waiting) = waiting else {
            return;
        };
        let work = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(work) = work {
            // The caller learns of a panic from the dropped channel; the thread continues.
            let _panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        }
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
        let steps = Steps::begin();
        for _ in 0..100 {
            assert!(run(|| panic!("on purpose")).await.is_err());
            assert!(steps.run(|| panic!("on purpose")).await.is_err());
        }
        assert_eq!(run(|| 7).await.unwrap(), 7);
        assert_eq!(steps.run(|| 8).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn work_that_no_thread_begins_is_done_by_the_blocking_pool() {
        let threads = Threads::start().unwrap();
        let patience = Duration::from_secs(3600);
        let count = large_bodies_at_once();
        // Each thread of low priority begins work that lasts until the end of the test.
        let (begun, mut has_begun) = tokio::sync::mpsc::channel(64);
        let (release, held) = mpsc::sync_channel::<()>(1);
        let held = Arc::new(Mutex::new(held));
        let hold = |_| {
            let (begun, held) = (begun.clone(), Arc::clone(&held));
            let work = move || {
                begun.try_send(()).unwrap();
                held.lock().unwrap().recv().unwrap_err();
            };
            threads.run(work, patience)
        };
        let all_held = futures_util::future::join_all((0..count).map(hold));
        let other_work = async {
            for _ in 0..count {
                has_begun.recv().await.unwrap();
            }
            let name = || std::thread::current().name().map(str::to_owned);
            let by = threads.run(name, Duration::from_millis(1)).await.unwrap();
            assert_ne!(by.as_deref(), Some("large-bodies"));
            drop(release);
        };
        let (held, ()) = tokio::join!(all_held, other_work);
        assert!(held.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn work_that_a_starved_thread_has_begun_is_repeated_by_the_blocking_pool() {
        let threads = Threads::start().unwrap();
        let (release, held) = mpsc::sync_channel::<()>(1);
        let held = Mutex::new(held);
        let is_low = || std::thread::current().name() == Some("large-bodies");
        let work = move || {
            if is_low() {
                held.lock().unwrap().recv().unwrap_err();
            }
            is_low()
        };
        let patience = Duration::from_secs(3600);
        let repeated = threads.repeat(work, patience, Duration::from_millis(20));
        assert!(!repeated.await.unwrap());
        drop(release);
    }

    #[tokio::test]
    async fn the_steps_of_a_starved_body_go_to_the_blocking_pool() {
        let by_low = async |steps: &Steps| {
            let name = || std::thread::current().name().map(str::to_owned);
            steps.run(name).await.unwrap().as_deref() == Some("large-bodies")
        };
        let long_ago = Duration::from_millis(LARGE_BODY_STARVED_MS);
        let starved = Steps {
            began: Instant::now().checked_sub(long_ago).unwrap(),
        };
        assert!(!by_low(&starved).await);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_threads_run_only_when_no_other_thread_wants_the_processor() {
        use thread_priority::unix::{
            NormalThreadSchedulePolicy::{Idle, Other},
            ThreadSchedulePolicy::Normal,
            thread_schedule_policy,
        };
        let threads = Threads::start().unwrap();
        let idle = threads.run(thread_schedule_policy, Duration::from_secs(3600));
        let idle = idle.await.unwrap().unwrap();
        let usual = thread_schedule_policy().unwrap();
        assert_eq!((idle, usual), (Normal(Idle), Normal(Other)));
    }
}
