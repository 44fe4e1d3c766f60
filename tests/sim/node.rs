//! One life of the node: the real service, registry, actors and scoring pool, on one thread in
//! virtual time.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::System;
use futures_util::FutureExt;
use porchlight_actors::scoring::ScoringPool;
use porchlight_actors::service::{Parts, Ports, Service};
use porchlight_core::session::lifetime::Lifetime;
use porchlight_core::shares::ShareLimits;
use porchlight_ports::{
    Clock, Endpoint, Entropy, Insights, Journal, JournalEntry, Outbox, SealedSecret, Sessions,
    SingleNode, Store, Wake,
};
use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_store::engine::memory::MemoryEngine;
use porchlight_store::{MemoryStore, OnDurable};
use tokio::sync::mpsc;

use crate::chance::Chance;
use crate::phone::phone;
use crate::plan::{Death, Life};
use crate::store::{FaultyStore, block_on, subject};
use crate::world::World;

const ENTROPY: u64 = 4;
const FORWARD: u64 = 5;

/// The interval of the checks for the end of a life.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

struct SimEntropy(Mutex<Chance>);

impl Entropy for SimEntropy {
    fn random(&self) -> u128 {
        let mut chance = self.0.lock().unwrap();
        (u128::from(chance.draw()) << 64) | u128::from(chance.draw())
    }
}

/// Runs `inside` as the main task of an actor system in virtual time; nothing of the system remains
/// afterwards.
pub(crate) fn in_system<T>(inside: impl Future<Output = T>) -> T {
    let runner = System::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    });
    runner.block_on(inside)
}

/// Runs the node once on the contents of `engine`, until its fate or, without one, until everything
/// is settled.
pub(crate) fn live(world: &Arc<World>, number: u64, engine: MemoryEngine, fate: Option<Life>) {
    in_system(async {
        world.clock.run();
        #[expect(clippy::disallowed_methods, reason = "the test bounds its messages")]
        let (sender, forwarded) = mpsc::unbounded_channel();
        let on_durable: OnDurable = Arc::new(move |session_id, entry| {
            drop(sender.send((session_id, entry)));
        });
        let real = MemoryStore::on(engine, on_durable, Arc::new(|_| {})).unwrap();
        let store = Arc::new(FaultyStore::new(
            real,
            world.plan.fault_rates,
            world.plan.seed,
            number,
        ));
        // A life may also end before it has started.
        if fate.is_none_or(|fate| fate.length_ms > 0) {
            Node {
                world,
                number,
                store,
            }
            .live(forwarded, fate)
            .await;
        }
        world.clock.halt();
    });
}

struct Node<'w> {
    world: &'w Arc<World>,
    number: u64,
    store: Arc<FaultyStore>,
}

type ForwardedBatches = mpsc::UnboundedReceiver<(SessionId, JournalEntry)>;

impl Node<'_> {
    async fn live(self, forwarded: ForwardedBatches, fate: Option<Life>) {
        let service = self.service();
        self.enable_webhook();
        let delivering = actix_rt::spawn(deliver(
            Arc::clone(self.world),
            self.number,
            Arc::clone(&self.store),
            service.clone(),
            forwarded,
        ));
        self.schedule_clock_jumps();
        let end_ms = fate.map(|fate| self.world.clock.age_ms() + fate.length_ms);
        // The binary would exit and be restarted.
        while !matches!(
            AssertUnwindSafe(service.recover()).catch_unwind().await,
            Ok(Ok(_))
        ) {
            if self.store.is_broken() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for index in 0..self.world.plan.scripts.len() {
            let store = Arc::clone(&self.store) as _;
            actix_rt::spawn(phone(Arc::clone(self.world), index, service.clone(), store));
        }
        match (fate, end_ms) {
            (Some(fate), Some(end_ms)) => {
                while self.world.clock.age_ms() < end_ms && !self.store.is_broken() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                if fate.death == Death::Drained {
                    service.drain().await;
                }
            }
            _ => {
                self.settle(&service).await;
                service.drain().await;
                self.check_for_leaks(service, delivering).await;
            }
        }
    }

    fn service(&self) -> Service {
        let arbiter = System::current().arbiter().clone();
        let store: Arc<dyn Store> = Arc::clone(&self.store) as _;
        let clock: Arc<dyn Clock> = Arc::clone(&self.world.clock) as _;
        let wake: Wake = Arc::new(|_, _| {});
        let entropy = Chance::of(&[self.world.plan.seed, ENTROPY, self.number]);
        let alone = SingleNode {
            generation: self.number + 1,
        };
        Service::new(Parts {
            ports: Ports {
                store: Arc::clone(&store),
                clock: Arc::clone(&clock),
                entropy: Arc::new(SimEntropy(Mutex::new(entropy))),
                wake: Arc::clone(&wake),
                lifetime: Lifetime {
                    idle_ms: self.world.plan.idle_ms,
                    max_ms: self.world.plan.max_ms,
                },
                ownership: Arc::new(alone),
                peers: Arc::new(alone),
            },
            arbiters: vec![arbiter.clone()],
            scoring: ScoringPool::start(&[arbiter.clone(), arbiter], store, clock, wake),
            shares: ShareLimits::default(),
            // Every batch of a session without a reader is deferred.
            defer_from_per_sec: 0,
        })
    }

    /// Gives the tenant an enabled endpoint, so that messages are kept.
    fn enable_webhook(&self) {
        let tenant = self.world.tenant;
        let created = self.store.real.create_endpoint(Endpoint {
            enabled: true,
            id: EndpointId::new(self.world.clock.now(), 1),
            tenant,
            url: "https://receiver.example/".into(),
            created_at: self.world.clock.now(),
            version: 1,
            secret: SealedSecret {
                number: 1,
                sealed: Vec::new(),
            },
            secret_made_at: self.world.clock.now(),
            previous: None,
            paused_at: None,
            remembered: Vec::new(),
        });
        // A disk that fails immediately is a valid case.
        drop(block_on(created));
    }

    fn schedule_clock_jumps(&self) {
        let age_ms = self.world.clock.age_ms();
        for &(at_ms, by_ms) in &self.world.plan.jumps {
            if at_ms >= age_ms {
                let world = Arc::clone(self.world);
                actix_rt::spawn(async move {
                    let left_ms = at_ms - world.clock.age_ms();
                    tokio::time::sleep(Duration::from_millis(left_ms as u64)).await;
                    world.clock.jump(by_ms);
                });
            }
        }
    }

    /// Lets the phones finish, then ends the faults, and waits until every session has ended and
    /// its insight covers all of the session's batches.
    async fn settle(&self, service: &Service) {
        let plan = &self.world.plan;
        let patience_ms = self.world.last_act_ms().max(self.world.clock.age_ms()) + 10 * 60_000;
        while !self.world.is_done() && self.world.clock.age_ms() < patience_ms {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.store.end_faults();
        let jumped_ms: i64 = plan.jumps.iter().map(|(_, by_ms)| by_ms.abs()).sum();
        let end_ms =
            self.world.clock.age_ms() + plan.idle_ms.min(plan.max_ms) + jumped_ms + 60 * 60_000;
        while !(self.world.is_done() && self.is_settled(service)) {
            if self.world.clock.age_ms() > end_ms {
                self.world.report(format!(
                    "I3: not all sessions have ended and have an insight that covers them: {} record, {} wait to be scored",
                    service.registry().live(),
                    service.scoring_waiting()
                ));
                return;
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
    }

    fn is_settled(&self, service: &Service) -> bool {
        let real = &self.store.real;
        let is_covered = |id: SessionId| {
            let row = block_on(real.find(id)).unwrap().unwrap();
            let insight = block_on(real.insight(id)).unwrap();
            row.end.is_some()
                && insight.is_some_and(|insight| {
                    insight.covered.batches == block_on(real.count(id)).unwrap()
                        && insight.covered.pod_received_at
                            == block_on(real.pod(id)).unwrap().map(|pod| pod.received_at)
                        && insight.covered.late_stop_at
                            == row.end.and_then(|end| end.late_stop_at())
                })
        };
        let scored = (0..self.world.plan.scripts.len()).all(|index| {
            let start = self.world.log(index).start.clone();
            start.is_some_and(|start| is_covered(start.session_id))
        });
        scored && service.registry().live() == 0 && service.scoring_waiting() == 0
    }

    async fn check_for_leaks(&self, service: Service, delivering: actix_rt::task::JoinHandle<()>) {
        let report = |violation: String| self.world.report(format!("I4: {violation}"));
        let in_flight = service.bodies_in_flight();
        if in_flight != 0 {
            report(format!("{in_flight} bytes are in flight without a sender"));
        }
        drop(service);
        delivering.abort();
        // A reader that polls the events rarely polls again, and ends.
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        let held = Arc::strong_count(&self.store) - 1;
        if held != 0 {
            report(format!("{held} actors or tasks are left over"));
        }
    }
}

/// Delivers durable batches, as far as the faults permit.
async fn deliver(
    world: Arc<World>,
    number: u64,
    store: Arc<FaultyStore>,
    service: Service,
    mut forwarded: ForwardedBatches,
) {
    let fault_rates = world.plan.fault_rates;
    while let Some((session_id, entry)) = forwarded.recv().await {
        let (subject, seq) = (subject(session_id), entry.seq);
        let mut chance = Chance::of(&[world.plan.seed, FORWARD, number, subject, u64::from(seq)]);
        if chance.permille(fault_rates.hand_over_lost) && !store.has_no_faults() {
            continue;
        }
        let times = 1 + u32::from(chance.permille(fault_rates.hand_over_doubled));
        for _ in 0..times {
            let delay_ms = chance.between(0, fault_rates.hand_over_ms_max) as u64;
            if delay_ms == 0 {
                service.deliver(session_id, entry.clone());
                continue;
            }
            let (service, entry) = (service.clone(), entry.clone());
            actix_rt::spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                service.deliver(session_id, entry);
            });
        }
    }
}
