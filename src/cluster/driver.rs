//! Drives [`OwnershipMachine`]: feeds it time and the store's answers, publishes its state in the
//! [`OwnershipView`], and starts, drains and drops the work of shards.
//!
//! The driver has a dedicated thread, so that no actor can delay a heartbeat.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use porchlight_actors::service::ReconcileScope;
use porchlight_core::ownership::{
    CLOCK_REFUSE_MS, CLOCK_WARN_MS, Change, ClockState, Effect, Input, MembersRead, MonotonicMs,
    NodeName, Outcome, OwnershipMachine, TICK_MS_MAX,
};
use porchlight_core::session::reconcile::reconciles_all;
use porchlight_observe::Task;
use porchlight_observe::cluster::{ChangeOutcome, ClusterMetrics, NodesChange, ShardMove};
use porchlight_observe::restarts::{Restarts, run_thread};
use porchlight_ports::{Clock, NodesTable};
use porchlight_schema::ids::{Shard, ShardSet};
use tokio::sync::{Notify, mpsc, oneshot};

use super::OwnershipView;
use super::failed_reads::{FailedReads, NodesRead};
use super::workload::ShardWorkload;

/// The interval of the machine's ticks.
const TICK: Duration = Duration::from_millis(TICK_MS);
const TICK_MS: u64 = 100;
const _: () = assert!(TICK_MS < TICK_MS_MAX);
/// The time for which the driver gathers claimed shards before it starts their work together.
const GATHER_DELAY: Duration = Duration::from_millis(50);
/// The pause before another attempt to start the work of shards.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The interval at which a node reconciles its shards with the store, which finds the changes of
/// lost nudges.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(60);
/// The number of shards that are reconciled together.
const RECONCILE_GROUP_SHARDS: usize = 64;
/// The pause after a group of shards, so that the reads are spread over time.
const RECONCILE_PAUSE: Duration = Duration::from_secs(1);

/// A handle to the running driver.
#[derive(Debug)]
pub struct Driver {
    leave: mpsc::UnboundedSender<Input>,
    left: Option<oneshot::Receiver<()>>,
}

/// The dependencies of the driver.
pub struct DriverParts {
    /// The store that holds members and owners.
    pub store: Arc<dyn NodesTable>,
    /// The view in which the driver publishes.
    pub view: Arc<OwnershipView>,
    /// The work that belongs to shards.
    pub workload: Arc<ShardWorkload>,
    /// Called when another process has taken this node's name.
    pub on_replaced: Box<dyn FnOnce() + Send>,
    /// A random number that distinguishes processes with the same name.
    pub salt: u64,
    /// The wall clock, which is compared with those of the other nodes.
    pub clock: Arc<dyn Clock>,
}

impl Driver {
    /// Starts the driver. The node joins and receives shards a few seconds later. `on_panicked` is
    /// called if the driver panics: nothing renews the node's lease then.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start(
        parts: DriverParts,
        on_panicked: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "each task of the driver has at most one input on its way"
        )]
        let (inputs, received) = mpsc::unbounded_channel();
        let (left_sender, left) = oneshot::channel();
        let leave = inputs.clone();
        let running = RunningDriver::new(parts, inputs, left_sender);
        std::thread::Builder::new()
            .name("ownership".into())
            .spawn(move || {
                let work = || runtime.block_on(running.run(received));
                run_thread(Task::Ownership, work, on_panicked);
            })?;
        Ok(Self {
            leave,
            left: Some(left),
        })
    }

    /// Releases all shards and leaves the cluster. Returns whether this finished in time; if not,
    /// the other nodes notice the missing heartbeat.
    pub async fn leave(&mut self, within: Duration) -> bool {
        // A driver that has ended has already left.
        let _sent = self.leave.send(Input::Leave);
        match self.left.take() {
            Some(left) => tokio::time::timeout(within, left).await.is_ok(),
            None => true,
        }
    }
}

/// Claimed shards whose work should start together.
#[derive(Debug, Default)]
struct ClaimedShards {
    shards: Mutex<ShardSet>,
    more: Notify,
}

impl ClaimedShards {
    fn lock(&self) -> MutexGuard<'_, ShardSet> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, shard: Shard) {
        self.lock().insert(shard);
        self.more.notify_one();
    }
}

/// The running driver: the ownership machine and its inputs and effects.
struct RunningDriver {
    machine: OwnershipMachine,
    store: Arc<dyn NodesTable>,
    view: Arc<OwnershipView>,
    workload: Arc<ShardWorkload>,
    claimed: Arc<ClaimedShards>,
    inputs: mpsc::UnboundedSender<Input>,
    on_replaced: Option<Box<dyn FnOnce() + Send>>,
    left_sender: Option<oneshot::Sender<()>>,
    /// The owners of other nodes' shards as last published.
    owners: Vec<Option<NodeName>>,
    members: Vec<NodeName>,
    clock: Arc<dyn Clock>,
    /// The last reported state of this node's clock.
    clock_state: ClockState,
    /// The failed reads of the nodes' tables.
    failed_reads: Arc<FailedReads>,
}

impl RunningDriver {
    fn new(
        parts: DriverParts,
        inputs: mpsc::UnboundedSender<Input>,
        left_sender: oneshot::Sender<()>,
    ) -> Self {
        Self {
            machine: OwnershipMachine::new(parts.view.me().clone(), parts.salt),
            store: parts.store,
            view: parts.view,
            workload: parts.workload,
            claimed: Arc::default(),
            inputs,
            on_replaced: Some(parts.on_replaced),
            left_sender: Some(left_sender),
            owners: Vec::new(),
            members: Vec::new(),
            clock: parts.clock,
            clock_state: ClockState::default(),
            failed_reads: Arc::default(),
        }
    }

    async fn run(mut self, mut received: mpsc::UnboundedReceiver<Input>) {
        tokio::spawn(start_claimed(
            Arc::clone(&self.claimed),
            Arc::clone(&self.view),
            Arc::clone(&self.workload),
        ));
        tokio::spawn(reconcile_shards(
            Arc::clone(&self.view),
            Arc::clone(&self.workload),
        ));
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.left_sender.is_some() {
            let input = tokio::select! {
                _ = ticks.tick() => Input::Tick,
                Some(input) = received.recv() => input,
                () = self.view.wait_for_owner_read_request() => Input::OwnersOutdated,
            };
            self.handle_input(input);
        }
    }

    fn handle_input(&mut self, input: Input) {
        let now = self.view.now();
        let effects = self.machine.handle(now, input);
        // Readers must see the machine's new state before any work starts, and before any work is
        // stopped.
        self.publish();
        let mut dropped = ShardSet::NONE;
        for effect in effects {
            match effect {
                Effect::Change(change) => self.spawn_change(change),
                Effect::ReadMembers(mode) => {
                    let (started, clock) = (now, Arc::clone(&self.clock));
                    self.spawn_read(NodesRead::Members, move |store| async move {
                        let rows = store.members(mode).await?;
                        let wall = clock.now();
                        Ok(Input::Members(MembersRead {
                            rows,
                            started,
                            wall,
                        }))
                    });
                }
                Effect::ReadOwners => {
                    self.spawn_read(NodesRead::Owners, |store| async move {
                        store.owners().await.map(Input::Owners)
                    });
                }
                Effect::ReadOwner(shard) => {
                    self.spawn_read(NodesRead::Owner, move |store| async move {
                        let row = store.owner(shard).await?;
                        Ok(Input::Owner(shard, row))
                    });
                }
                Effect::Start(shard, _) => {
                    ClusterMetrics::get().on_moved(ShardMove::Taken, 1);
                    self.claimed.add(shard);
                }
                Effect::Drain(shard, generation) => self.drain(shard, generation),
                Effect::Drop(shard, _) => dropped.insert(shard),
                Effect::NotifyOfRelease => self.workload.notify_of_release(),
                Effect::Replaced => {
                    if let Some(on_replaced) = self.on_replaced.take() {
                        on_replaced();
                    }
                }
                Effect::Left => {
                    tracing::info!("this node left the cluster");
                    if let Some(left_sender) = self.left_sender.take() {
                        // The receiver may have stopped waiting.
                        let _sent = left_sender.send(());
                    }
                }
            }
        }
        if !dropped.is_empty() {
            tracing::warn!(
                shards = dropped.len(),
                "shards lost: their sessions and webhooks are stopped"
            );
            ClusterMetrics::get().on_moved(ShardMove::Lost, dropped.len() as u64);
            self.workload.abort(dropped);
        }
    }

    /// Copies the machine's state into the view.
    fn publish(&mut self) {
        let now = self.view.now();
        // The end of the lease is published first, because it may be earlier than before.
        let until = self.machine.acts_until().unwrap_or_default();
        self.view.set_lease_end(until);
        let mut owned = 0_u32;
        for shard in ShardSet::ALL.iter() {
            let generation = self.machine.holds(shard, now);
            owned += u32::from(generation.is_some());
            let written = generation.map(|generation| self.store.written_generation(generation));
            self.view.set_generation(shard, written);
        }
        self.view
            .set_received_shards(self.machine.has_received_shards());
        let holder = |shard| self.machine.holder(shard).cloned();
        let owners: Vec<_> = ShardSet::ALL.iter().map(holder).collect();
        let members: Vec<_> = self.machine.members().cloned().collect();
        if owners != self.owners || members != self.members {
            self.view.set_owners(owners.clone(), members.clone());
            self.owners = owners;
            self.members = members;
        }
        let metrics = ClusterMetrics::get();
        metrics.shards_owned.set(f64::from(owned));
        metrics.members.set(self.members.len() as f64);
        if let Some(age_ms) = self.machine.heartbeat_age_ms(now) {
            metrics.heartbeat_age.set(age_ms as f64 / 1_000.0);
        }
        self.report_clock(now);
    }

    /// Reports how this node's wall clock compares with those of the other nodes, and logs each
    /// change.
    fn report_clock(&mut self, now: MonotonicMs) {
        let (ahead_ms, behind_ms) = (
            self.machine.clock_ahead_ms(),
            self.machine.clock_behind_ms(),
        );
        let state = self.machine.clock_state(now);
        let is_refused = state == ClockState::Refused;
        ClusterMetrics::get().on_clock(ahead_ms, behind_ms, is_refused);
        if state == self.clock_state {
            return;
        }
        self.clock_state = state;
        match state {
            ClockState::Refused => tracing::error!(
                ahead_ms,
                behind_ms,
                limit_ms = CLOCK_REFUSE_MS,
                "this node does not join: its clock differs too much from those of the members"
            ),
            ClockState::Differs => tracing::warn!(
                ahead_ms,
                behind_ms,
                limit_ms = CLOCK_WARN_MS,
                "the clock of this node differs from that of another node"
            ),
            ClockState::Agrees => tracing::info!("the clocks of the nodes agree again"),
        }
    }

    /// Runs a conditional write in the background and feeds its outcome to the machine.
    fn spawn_change(&self, change: Change) {
        let started = self.view.now();
        let (store, inputs) = (Arc::clone(&self.store), self.inputs.clone());
        tokio::spawn(async move {
            let outcome = store.change_nodes(&change).await;
            record_change(&change, outcome);
            // A driver that has ended needs no answer.
            let _sent = inputs.send(Input::Changed {
                started,
                change,
                outcome,
            });
        });
    }

    /// Runs a read of the store in the background. The machine repeats failed reads.
    fn spawn_read<F>(&self, kind: NodesRead, read: impl FnOnce(Arc<dyn NodesTable>) -> F)
    where
        F: Future<Output = porchlight_ports::StoreResult<Input>> + Send + 'static,
    {
        let (reading, inputs) = (read(Arc::clone(&self.store)), self.inputs.clone());
        let (view, failures) = (Arc::clone(&self.view), Arc::clone(&self.failed_reads));
        tokio::spawn(async move {
            match reading.await {
                Ok(input) => {
                    failures.on_success(kind);
                    let _sent = inputs.send(input);
                }
                Err(error) => failures.on_failure(kind, view.now(), &error),
            }
        });
    }

    fn drain(&self, shard: Shard, generation: u64) {
        let (workload, inputs) = (Arc::clone(&self.workload), self.inputs.clone());
        tokio::spawn(async move {
            let mut restarts = Restarts::new(Task::ShardDrain);
            let shards = ShardSet::from_iter([shard]);
            while restarts.run(workload.drain(shards)).await.is_none() {}
            ClusterMetrics::get().on_moved(ShardMove::Given, 1);
            let _sent = inputs.send(Input::Drained(shard, generation));
        });
    }
}

/// Counts a conditional write and logs the rare kinds.
fn record_change(change: &Change, outcome: Outcome) {
    let kind = match change {
        Change::Join { .. } => NodesChange::Join,
        Change::Heartbeat { .. } => NodesChange::Heartbeat,
        Change::MarkDead { .. } => NodesChange::Gone,
        Change::Leave { .. } => NodesChange::Leave,
        Change::Claim { .. } => NodesChange::Claim,
        Change::Release { .. } => NodesChange::Release,
    };
    let counted = match outcome {
        Outcome::Applied => ChangeOutcome::Applied,
        Outcome::Refused => ChangeOutcome::Refused,
        Outcome::Unknown => ChangeOutcome::Unknown,
    };
    ClusterMetrics::get().on_changed(kind, counted);
    match change {
        Change::Join { member, .. } => {
            tracing::info!(
                node = member.node.0,
                outcome = counted.as_str(),
                "this node joins the cluster"
            );
        }
        Change::MarkDead { member, .. } => {
            tracing::warn!(
                node = member.node.0,
                outcome = counted.as_str(),
                "a member is declared dead"
            );
        }
        _ => {}
    }
}

/// Starts the work of shards that were claimed together in one step, and repeats failed parts.
async fn start_claimed(
    claimed: Arc<ClaimedShards>,
    view: Arc<OwnershipView>,
    workload: Arc<ShardWorkload>,
) {
    loop {
        claimed.more.notified().await;
        tokio::time::sleep(GATHER_DELAY).await;
        let shards = std::mem::take(&mut *claimed.lock());
        let shards: ShardSet = shards.iter().filter(|&shard| view.owns(shard)).collect();
        if shards.is_empty() {
            continue;
        }
        let (workload, claimed) = (Arc::clone(&workload), Arc::clone(&claimed));
        // Later claims do not wait for this step.
        tokio::spawn(async move {
            let began = std::time::Instant::now();
            let mut restarts = Restarts::new(Task::ShardStart);
            match restarts.run(workload.start(shards)).await {
                Some(Ok(sessions)) => {
                    let metrics = ClusterMetrics::get();
                    metrics.failover.record(began.elapsed().as_secs_f64());
                    metrics.sessions_taken.increment(sessions as u64);
                    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    tracing::info!(shards = shards.len(), sessions, ms, "shards acquired");
                    return;
                }
                Some(Err(error)) => tracing::warn!(
                    error = format!("{error:#}"),
                    shards = shards.len(),
                    "shards cannot be acquired yet"
                ),
                None => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
            shards.iter().for_each(|shard| claimed.add(shard));
        });
    }
}

/// Periodically reconciles this node's shards with the store, a group at a time. A group that fails
/// is reconciled in the next round, and does not hold up the others.
async fn reconcile_shards(view: Arc<OwnershipView>, workload: Arc<ShardWorkload>) {
    let mut restarts = Restarts::new(Task::ShardReconcile);
    for round in 1_u64.. {
        tokio::time::sleep(RECONCILE_INTERVAL).await;
        let scope = match reconciles_all(round) {
            true => ReconcileScope::All,
            false => ReconcileScope::Marked,
        };
        let owned = ShardSet::ALL.iter().filter(|&shard| view.owns(shard));
        let owned: Vec<Shard> = owned.collect();
        for group in owned.chunks(RECONCILE_GROUP_SHARDS) {
            let owned = group.iter().copied().filter(|&shard| view.owns(shard));
            let owned: ShardSet = owned.collect();
            if owned.is_empty() {
                continue;
            }
            let reconciled = restarts.run(workload.reconcile(owned, scope)).await;
            if let Some(Err(error)) = reconciled {
                let shards = owned.len();
                tracing::warn!(
                    error = format!("{error:#}"),
                    shards,
                    "shards of this node cannot be reconciled"
                );
            }
            tokio::time::sleep(RECONCILE_PAUSE).await;
        }
    }
}
