//! Drives [`OwnershipMachine`]: gives it time and the store's answers, publishes into the [`View`] what it holds, and has
//! what lives in shards started, drained and dropped.
//!
//! It runs on a thread of its own, so that no actor's work delays a heartbeat.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use porchlight_core::ownership::{Change, Effect, Input, NodeName, Outcome, OwnershipMachine};
use porchlight_observe::cluster::{ChangeOutcome, ClusterMetrics, NodesChange, ShardMove};
use porchlight_schema::ids::{Shard, ShardSet};
use porchlight_store::cql::{CqlStore, written_generation};
use tokio::sync::{Notify, mpsc, oneshot};

use super::View;

/// How often the machine is told that time has passed (it asks for twice a second).
const TICK: Duration = Duration::from_millis(400);
/// Shards that are claimed together are taken up together: so long is waited for more of them.
const GATHERED_WITHIN: Duration = Duration::from_millis(50);
/// Pause before taking up shards is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often a node looks for what it was not told of: what a lost nudge would have led to.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Every so many of these looks it reads all sessions that record.
const LOOKS_THOROUGH_EVERY: u64 = 5;

/// What lives in shards.
#[async_trait]
pub trait Tenants: Send + Sync {
    /// This node acts for these shards now: takes up what lives in them; how many sessions. Whether it was all, an error
    /// says: then it is asked again.
    async fn take(&self, shards: ShardSet) -> anyhow::Result<usize>;

    /// Writes down and stops what lives in these shards.
    async fn drain(&self, shards: ShardSet);

    /// Stops what lives in these shards at once, and writes nothing.
    fn drop_at_once(&self, shards: ShardSet);

    /// Looks for what nobody told this node of in its shards; every so often more thoroughly.
    async fn look_over(&self, shards: ShardSet, thoroughly: bool) -> anyhow::Result<()>;

    /// This node released a shard: the others may be told to look.
    fn released(&self);
}

/// The driver, as its owner sees it.
#[derive(Debug)]
pub struct Driver {
    leave: mpsc::UnboundedSender<Input>,
    left: Option<oneshot::Receiver<()>>,
}

/// What the driver needs.
pub struct DriverParts {
    /// Where members and owners are written.
    pub store: Arc<CqlStore>,
    /// Where it publishes.
    pub view: Arc<View>,
    /// What lives in shards.
    pub tenants: Arc<dyn Tenants>,
    /// Called when another process has this node's name.
    pub replaced: Box<dyn FnOnce() + Send>,
    /// Chance.
    pub salt: u64,
}

impl Driver {
    /// Starts it; the node joins, and takes shards a few seconds later.
    ///
    /// # Errors
    ///
    /// Its thread can't be started.
    pub fn start(parts: DriverParts) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let (inputs, received) = mpsc::unbounded_channel();
        let (tell_left, left) = oneshot::channel();
        let leave = inputs.clone();
        let running = Running::new(parts, inputs, tell_left);
        std::thread::Builder::new()
            .name("ownership".into())
            .spawn(move || runtime.block_on(running.run(received)))?;
        Ok(Self {
            leave,
            left: Some(left),
        })
    }

    /// Gives all shards away and leaves. Whether it was done within this time; if not, the others find out by the
    /// silence.
    pub async fn leave(&mut self, within: Duration) -> bool {
        // One that is not there any more has left.
        let _sent = self.leave.send(Input::Leave);
        match self.left.take() {
            Some(left) => tokio::time::timeout(within, left).await.is_ok(),
            None => true,
        }
    }
}

/// Shards that are to be taken up, gathered.
#[derive(Debug, Default)]
struct ToTake {
    shards: std::sync::Mutex<ShardSet>,
    more: Notify,
}

impl ToTake {
    fn lock(&self) -> std::sync::MutexGuard<'_, ShardSet> {
        self.shards
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn add(&self, shard: Shard) {
        self.lock().insert(shard);
        self.more.notify_one();
    }
}

struct Running {
    machine: OwnershipMachine,
    store: Arc<CqlStore>,
    view: Arc<View>,
    tenants: Arc<dyn Tenants>,
    to_take: Arc<ToTake>,
    inputs: mpsc::UnboundedSender<Input>,
    replaced: Option<Box<dyn FnOnce() + Send>>,
    tell_left: Option<oneshot::Sender<()>>,
    epoch: u64,
    /// What was published of the others last.
    holders: Vec<Option<NodeName>>,
    members: Vec<NodeName>,
}

impl Running {
    fn new(
        parts: DriverParts,
        inputs: mpsc::UnboundedSender<Input>,
        tell_left: oneshot::Sender<()>,
    ) -> Self {
        Self {
            machine: OwnershipMachine::new(parts.view.me().clone(), parts.salt),
            epoch: parts.store.epoch(),
            store: parts.store,
            view: parts.view,
            tenants: parts.tenants,
            to_take: Arc::default(),
            inputs,
            replaced: Some(parts.replaced),
            tell_left: Some(tell_left),
            holders: Vec::new(),
            members: Vec::new(),
        }
    }

    async fn run(mut self, mut received: mpsc::UnboundedReceiver<Input>) {
        tokio::spawn(take_up(
            Arc::clone(&self.to_take),
            Arc::clone(&self.view),
            Arc::clone(&self.tenants),
        ));
        tokio::spawn(look_over(Arc::clone(&self.view), Arc::clone(&self.tenants)));
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while self.tell_left.is_some() {
            let input = tokio::select! {
                _ = ticks.tick() => Input::Tick,
                Some(input) = received.recv() => input,
                () = self.view.hinted() => Input::Hint,
            };
            self.feed(input);
        }
    }

    fn feed(&mut self, input: Input) {
        let now = self.view.now();
        if matches!(
            &input,
            Input::Changed {
                change: Change::Release { .. },
                outcome: Outcome::Applied,
                ..
            }
        ) {
            self.tenants.released();
        }
        let effects = self.machine.handle(now, input);
        // Whoever asks from here on sees what the machine holds now: before anything is started, and before anything
        // that must stop has been told to.
        self.publish();
        let mut dropped = ShardSet::NONE;
        for effect in effects {
            match effect {
                Effect::Change(change) => self.change(change),
                Effect::ReadMembers { serial } => {
                    self.ask(move |store| async move {
                        store.members(serial).await.map(Input::Members)
                    });
                }
                Effect::ReadOwners => {
                    self.ask(|store| async move { store.owners().await.map(Input::Owners) });
                }
                Effect::ReadOwner(shard) => {
                    self.ask(move |store| async move {
                        let row = store.owner(shard).await?;
                        Ok(Input::Owner(shard, row))
                    });
                }
                Effect::Start(shard, _) => {
                    ClusterMetrics::get().on_moved(ShardMove::Taken, 1);
                    self.to_take.add(shard);
                }
                Effect::Drain(shard, generation) => self.drain(shard, generation),
                Effect::Drop(shard, _) => dropped.insert(shard),
                Effect::Replaced => {
                    if let Some(replaced) = self.replaced.take() {
                        replaced();
                    }
                }
                Effect::Left => {
                    tracing::info!("this node has left the others");
                    if let Some(tell_left) = self.tell_left.take() {
                        // Nobody may wait for it any more.
                        let _told = tell_left.send(());
                    }
                }
            }
        }
        if !dropped.is_empty() {
            tracing::warn!(
                shards = dropped.len(),
                "shards lost: what lives in them is stopped"
            );
            ClusterMetrics::get().on_moved(ShardMove::Lost, dropped.len() as u64);
            self.tenants.drop_at_once(dropped);
        }
    }

    /// Has the view say what the machine says.
    fn publish(&mut self) {
        let now = self.view.now();
        // First for how long it holds, where that is less than before.
        let until = self.machine.acts_until().unwrap_or_default();
        self.view.fence_at(until);
        let mut owned = 0_u32;
        for shard in ShardSet::ALL.iter() {
            let generation = self.machine.holds(shard, now);
            owned += u32::from(generation.is_some());
            let written = generation.map(|generation| written_generation(self.epoch, generation));
            self.view.act(shard, written);
        }
        let holder = |shard| self.machine.holder(shard).cloned();
        let holders: Vec<_> = ShardSet::ALL.iter().map(holder).collect();
        let members: Vec<_> = self.machine.members().cloned().collect();
        if holders != self.holders || members != self.members {
            self.view.learn(holders.clone(), members.clone());
            self.holders = holders;
            self.members = members;
        }
        let metrics = ClusterMetrics::get();
        metrics.shards_owned.set(f64::from(owned));
        metrics.members.set(self.members.len() as f64);
        if let Some(age_ms) = self.machine.heartbeat_age_ms(now) {
            metrics.heartbeat_age.set(age_ms as f64 / 1_000.0);
        }
    }

    fn change(&self, change: Change) {
        let started = self.view.now();
        let (store, inputs) = (Arc::clone(&self.store), self.inputs.clone());
        tokio::spawn(async move {
            let outcome = store.change_nodes(&change).await;
            tell_of(&change, outcome);
            // A driver that has ended needs no answer.
            let _sent = inputs.send(Input::Changed {
                started,
                change,
                outcome,
            });
        });
    }

    /// Reads; what can't be read is asked for again by the machine, in its time.
    fn ask<F>(&self, read: impl FnOnce(Arc<CqlStore>) -> F)
    where
        F: Future<Output = porchlight_ports::StoreResult<Input>> + Send + 'static,
    {
        let (reading, inputs) = (read(Arc::clone(&self.store)), self.inputs.clone());
        tokio::spawn(async move {
            match reading.await {
                Ok(input) => {
                    let _sent = inputs.send(input);
                }
                Err(error) => tracing::warn!(%error, "the nodes' tables can't be read"),
            }
        });
    }

    fn drain(&self, shard: Shard, generation: u64) {
        let (tenants, inputs) = (Arc::clone(&self.tenants), self.inputs.clone());
        tokio::spawn(async move {
            tenants.drain(ShardSet::from_iter([shard])).await;
            ClusterMetrics::get().on_moved(ShardMove::Given, 1);
            let _sent = inputs.send(Input::Drained(shard, generation));
        });
    }
}

/// Counts a conditional write, and logs those that are rare.
fn tell_of(change: &Change, outcome: Outcome) {
    let kind = match change {
        Change::Join { .. } => NodesChange::Join,
        Change::Beat { .. } => NodesChange::Beat,
        Change::MarkGone { .. } => NodesChange::Gone,
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
            tracing::info!(node = member.node.0, outcome = counted.as_str(), "joining");
        }
        Change::MarkGone { member, .. } => {
            tracing::warn!(
                node = member.node.0,
                outcome = counted.as_str(),
                "a node is called gone"
            );
        }
        _ => {}
    }
}

/// Takes up shards as they are claimed, those that come together at once; again, where the store could not be read.
async fn take_up(to_take: Arc<ToTake>, view: Arc<View>, tenants: Arc<dyn Tenants>) {
    loop {
        to_take.more.notified().await;
        tokio::time::sleep(GATHERED_WITHIN).await;
        let shards = std::mem::take(&mut *to_take.lock());
        let shards: ShardSet = shards.iter().filter(|&shard| view.owns(shard)).collect();
        if shards.is_empty() {
            continue;
        }
        let (tenants, to_take) = (Arc::clone(&tenants), Arc::clone(&to_take));
        // Those that come next do not wait for these.
        tokio::spawn(async move {
            let began = std::time::Instant::now();
            match tenants.take(shards).await {
                Ok(sessions) => {
                    let metrics = ClusterMetrics::get();
                    metrics.take_over.record(began.elapsed().as_secs_f64());
                    metrics.sessions_taken.increment(sessions as u64);
                    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    tracing::info!(shards = shards.len(), sessions, ms, "shards taken up");
                }
                Err(error) => {
                    tracing::warn!(%error, shards = shards.len(), "shards can't be taken up yet");
                    tokio::time::sleep(AGAIN_AFTER).await;
                    shards.iter().for_each(|shard| to_take.add(shard));
                }
            }
        });
    }
}

/// Looks, from time to time, for what nobody told this node of.
async fn look_over(view: Arc<View>, tenants: Arc<dyn Tenants>) {
    for look in 1_u64.. {
        tokio::time::sleep(LOOK_EVERY).await;
        let owned = ShardSet::ALL.iter().filter(|&shard| view.owns(shard));
        let owned: ShardSet = owned.collect();
        if owned.is_empty() {
            continue;
        }
        let thoroughly = look % LOOKS_THOROUGH_EVERY == 0;
        if let Err(error) = tenants.look_over(owned, thoroughly).await {
            tracing::warn!(%error, "this node's shards can't be looked over");
        }
    }
}
