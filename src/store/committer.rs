//! The only writer of the store. Operations are queued. The writer's thread takes the queue as one
//! group, runs every operation, writes one batch, syncs once, and then answers all callers. The
//! next group consists of the operations that arrived during the sync; above about 1,600
//! writes per second, the writer waits for a few more ([`pace`]).
//!
//! A failed write or sync is fatal, because the content of the disk is then unknown. The writer
//! acknowledges nothing more, refuses every later call, and notifies the binary, which exits and
//! recovers.

mod disk;
mod operation;
mod pace;

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use porchlight_core::disk_space::{SpaceLevel, WriteOrigin};
use porchlight_observe::error_text;
use porchlight_observe::store::{StoreMetrics, StoreOutcome};
use porchlight_ports::{JournalEntry, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{COMMIT_GROUP_BYTES_MAX, COMMIT_GROUP_MAX, COMMIT_QUEUE_MAX};
use tokio::sync::oneshot;

pub(crate) use self::disk::Disk;
use self::disk::SharedLevel;
use self::operation::{Closed, Operation, Pending, Refusal};
use self::pace::Pace;
use super::continuity;
use super::engine::{Durability, Engine, EngineError};
use super::journal_heads::JournalHeads;
use super::txn::{Group, Txn};

/// Called with each batch as soon as it is durable. It runs on the writer's thread and must never
/// block.
pub type OnDurable = Arc<dyn Fn(SessionId, JournalEntry) + Send + Sync>;

/// Called once, with the reason, when the store cannot continue. The binary exits.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// Without writes for this long, the writer writes its markers anyway: a keyspace without writes
/// keeps the engine from removing old journals (fjall-rs/fjall#288).
const IDLE_WRITE: Duration = Duration::from_secs(60);

/// The interval at which an idle writer measures the disk, so that it notices freed space.
const IDLE_MEASURE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<dyn Operation>>,
    /// Whether the writer sleeps and must be woken.
    is_idle: bool,
    /// The reason why operations are no longer accepted.
    closed: Option<Closed>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between any two statements that hold the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The callers' side of the queue. Dropping it ends the writer after the queued operations.
pub struct Committer {
    shared: Arc<Shared>,
    space: SharedLevel,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Committer {
    /// Starts the writer of an engine whose last group has this number.
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        group_number: u64,
        disk: Disk,
        on_durable: OnDurable,
        on_fatal: OnFatal,
    ) -> std::io::Result<Self> {
        let space = disk.shared();
        let shared = Arc::new(Shared::default());
        let mut writer = Writer {
            engine,
            group_number,
            journal_heads: JournalHeads::default(),
            group: Group::default(),
            begun: Instant::now(),
            written_at: Instant::now(),
            disk,
            pace: Pace::default(),
            not_before: None,
            on_durable,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                let reason = match catch_unwind(AssertUnwindSafe(|| writer.run())) {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error_text(&error),
                    Err(panic) => format!("the writer panicked: {}", panic_text(panic.as_ref())),
                };
                refuse_all(&writer.shared, &reason);
                on_fatal(&reason);
            })?;
        Ok(Self {
            shared,
            space,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues an operation of the service itself, of about `bytes` bytes, and waits until its
    /// writes are as durable as requested. A queued operation runs even if the caller stops
    /// waiting.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Overloaded`] if the queue is full, [`StoreError::Full`] if the disk
    /// is, [`StoreError::Unavailable`] if the store is closed or failed, and the errors of
    /// `decide`.
    pub async fn run<T, F>(&self, bytes: usize, durability: Durability, decide: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.queue(bytes, durability, WriteOrigin::Service, decide)
            .await
    }

    /// Runs an operation like [`Self::run`], but refuses its writes while the disk is nearly full.
    ///
    /// # Errors
    ///
    /// See [`Self::run`].
    pub async fn run_for_client<T, F>(
        &self,
        bytes: usize,
        durability: Durability,
        decide: F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.queue(bytes, durability, WriteOrigin::Client, decide)
            .await
    }

    async fn queue<T, F>(
        &self,
        bytes: usize,
        durability: Durability,
        origin: WriteOrigin,
        decide: F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send + 'static,
    {
        if !self.space.get().accepts(origin) {
            self.check_open()?;
            StoreMetrics::get().on_operations(StoreOutcome::Full, 1);
            return Err(StoreError::Full);
        }
        let (waiter, answer) = oneshot::channel();
        let operation = Box::new(Pending {
            bytes,
            origin,
            durability,
            decide: Some(decide),
            decided: None,
            waiter,
        });
        {
            let mut queue = self.shared.lock();
            if let Some(closed) = &queue.closed {
                return Err(StoreError::unavailable(closed.clone()));
            }
            if queue.waiting.len() >= COMMIT_QUEUE_MAX {
                StoreMetrics::get().on_operations(StoreOutcome::Overloaded, 1);
                return Err(StoreError::Overloaded);
            }
            queue.waiting.push_back(operation);
            if queue.is_idle {
                queue.is_idle = false;
                self.shared.wake.notify_one();
            }
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::unavailable("the store's writer has ended")),
        }
    }

    /// Returns the level of free space at the last measurement of the disk.
    #[must_use]
    pub fn space(&self) -> SpaceLevel {
        self.space.get()
    }

    /// Writes small rows of a client durably.
    pub async fn write_for_client<T, F>(&self, decide: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.run_for_client(1024, Durability::Synced, decide).await
    }

    /// Writes small rows of the service itself durably.
    pub async fn write<T, F>(&self, decide: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.run(1024, Durability::Synced, decide).await
    }

    /// Writes small rows of the service itself. The next durable write makes them durable. Use it
    /// for work that is repeated after a crash of the machine: it adds no syncs to those of the
    /// clients' writes.
    pub async fn write_unsynced<T, F>(&self, decide: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send + 'static,
    {
        self.run(1024, Durability::Buffered, decide).await
    }

    /// Returns the number of queued operations.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.shared.lock().waiting.len()
    }

    /// Returns an error if the store is closed or has failed.
    pub fn check_open(&self) -> StoreResult<()> {
        match &self.shared.lock().closed {
            Some(closed) => Err(StoreError::unavailable(closed.clone())),
            None => Ok(()),
        }
    }

    /// Stops accepting operations, runs the queued ones, and waits for the writer to end. Blocks.
    pub fn close(&self) {
        {
            let mut queue = self.shared.lock();
            if queue.closed.is_none() {
                queue.closed = Some(Closed("the store is closed".into()));
            }
            queue.is_idle = false;
            self.shared.wake.notify_one();
        }
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // The callback that receives batches may own the store, so the writer's thread may be the
        // last to drop it.
        let is_writer = |thread: &std::thread::JoinHandle<()>| {
            thread.thread().id() == std::thread::current().id()
        };
        if let Some(thread) = thread.filter(|thread| !is_writer(thread)) {
            // The panic was already reported.
            drop(thread.join());
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.close();
    }
}

struct Writer {
    engine: Arc<dyn Engine>,
    group_number: u64,
    journal_heads: JournalHeads,
    group: Group,
    /// The time at which the last group started.
    begun: Instant,
    /// The time at which the last group was written.
    written_at: Instant,
    disk: Disk,
    pace: Pace,
    /// The earliest start of the next group; `None` for an immediate start.
    not_before: Option<Instant>,
    on_durable: OnDurable,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(&mut self) -> Result<(), EngineError> {
        loop {
            if let Some(not_before) = self.not_before.take() {
                sleep_until(not_before);
            }
            let Some(operations) = self.next_group() else {
                return self.engine.close();
            };
            let operations = self.accepted(operations)?;
            let is_idle_write_due =
                self.written_at.elapsed() >= IDLE_WRITE && self.disk.accepts(WriteOrigin::Service);
            if operations.is_empty() && !is_idle_write_due {
                continue;
            }
            let begun = Instant::now();
            let writes = operations.iter().filter(|operation| operation.is_synced());
            let spacing = self.pace.spacing(writes.count(), begun - self.begun);
            self.not_before = (!spacing.is_zero()).then(|| begun + spacing);
            self.begun = begun;
            self.commit(operations)?;
            self.written_at = Instant::now();
        }
    }

    /// Measures the disk, refuses the operations for which it has no space, and returns the others.
    fn accepted(
        &mut self,
        operations: Vec<Box<dyn Operation>>,
    ) -> Result<Vec<Box<dyn Operation>>, EngineError> {
        let before = self.disk.level();
        let level = self.disk.measure(self.engine.unflushed_bytes());
        if before == SpaceLevel::Exhausted && level != SpaceLevel::Exhausted {
            self.engine.resume()?;
        }
        // A purge that sees space waits for the workers of the engine, which now run.
        self.disk.publish();
        if level == SpaceLevel::Plenty {
            return Ok(operations);
        }
        let (accepted, refused): (Vec<_>, Vec<_>) = operations
            .into_iter()
            .partition(|operation| level.accepts(operation.origin()));
        StoreMetrics::get().on_operations(StoreOutcome::Full, refused.len() as u64);
        for operation in refused {
            operation.complete(Some(&Refusal::Full));
        }
        Ok(accepted)
    }

    /// Waits for the next group: the queue up to a group's limits, or an empty group after a second
    /// without operations. Returns `None` when the store closes.
    fn next_group(&self) -> Option<Vec<Box<dyn Operation>>> {
        let mut queue = self.shared.lock();
        while queue.waiting.is_empty() {
            if queue.closed.is_some() {
                return None;
            }
            queue.is_idle = true;
            let (woken, timeout) = self
                .shared
                .wake
                .wait_timeout(queue, IDLE_MEASURE)
                .unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.is_idle = false;
            if timeout.timed_out() && queue.waiting.is_empty() && queue.closed.is_none() {
                return Some(Vec::new());
            }
        }
        let mut bytes = 0;
        let mut count = 0;
        for operation in queue.waiting.iter().take(COMMIT_GROUP_MAX) {
            bytes += operation.bytes();
            if count > 0 && bytes > COMMIT_GROUP_BYTES_MAX {
                break;
            }
            count += 1;
        }
        let operations = queue.waiting.drain(..count).collect();
        StoreMetrics::get().queue.set(queue.waiting.len() as f64);
        Some(operations)
    }

    fn commit(&mut self, mut operations: Vec<Box<dyn Operation>>) -> Result<(), EngineError> {
        let mut durability = Durability::Buffered;
        let mut failed = 0;
        for operation in &mut operations {
            let mut txn = Txn {
                engine: self.engine.as_ref(),
                group: &mut self.group,
                journal_heads: &mut self.journal_heads,
            };
            if operation.decide(&mut txn) {
                durability = durability.max(operation.durability());
                self.group.keep();
            } else {
                failed += 1;
                self.group.roll_back();
            }
        }
        let is_idle_write = operations.is_empty();
        if (is_idle_write || !self.group.is_empty())
            && let Err(error) = self.write(durability)
        {
            let reason = Refusal::Closed(Closed(error_text(&error).into()));
            StoreMetrics::get().on_operations(StoreOutcome::Failed, operations.len() as u64);
            for operation in operations {
                operation.complete(Some(&reason));
            }
            return Err(error);
        }
        for (session_id, entry) in self.group.batches.drain(..) {
            (self.on_durable)(session_id, entry);
        }
        StoreMetrics::get().on_operations(StoreOutcome::Ok, operations.len() as u64 - failed);
        StoreMetrics::get().on_operations(StoreOutcome::Failed, failed);
        for operation in operations {
            operation.complete(None);
        }
        Ok(())
    }

    fn write(&mut self, durability: Durability) -> Result<(), EngineError> {
        let begun = Instant::now();
        let group_number = self.group_number + 1;
        let mut writes = self.group.writes(group_number);
        writes.extend(continuity::markers(group_number));
        self.engine.apply(writes, durability)?;
        self.group_number = group_number;
        if durability == Durability::Synced {
            self.engine.acknowledge(group_number)?;
        }
        StoreMetrics::get().groups.increment(1);
        StoreMetrics::get()
            .commit
            .record(begun.elapsed().as_secs_f64());
        if group_number.is_multiple_of(continuity::ROTATE_GROUPS) {
            self.engine.rotate()?;
        }
        Ok(())
    }
}

/// Makes the writer wait until this time, so that no caller has to wake it.
#[expect(
    clippy::disallowed_methods,
    reason = "the writer's thread is its own, and no arbiter waits on it"
)]
fn sleep_until(then: Instant) {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
}

fn refuse_all(shared: &Shared, reason: &str) {
    let closed = Closed(reason.into());
    let waiting = {
        let mut queue = shared.lock();
        queue.closed = Some(closed.clone());
        std::mem::take(&mut queue.waiting)
    };
    let refusal = Refusal::Closed(closed);
    for operation in waiting {
        operation.complete(Some(&refusal));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

#[cfg(test)]
mod tests;
