//! Webhooks: one actor for each tenant that has something to send, spawned by a poke or a due time and gone when it
//! is idle. What is to be sent, and when, is decided by [`porchlight_core::webhook::EndpointMachine`]; all of it lies
//! in the store, so that an actor can be thrown away at any time.

mod actor;
mod desk;
mod remembered;
mod request;
mod sample;
mod shards;
mod tenant;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use porchlight_core::webhook::Cause;
use porchlight_observe::{ActorKind, Metrics};
use porchlight_ports::{
    Answer, Clock, Endpoint, Entropy, Nudge, OutboundRequest, Outbox, Ownership, Peers, SecretSeal,
    StoreError, Transport,
};
use porchlight_schema::ids::MessageId;
use porchlight_schema::limits::WHEEL_AHEAD_MS;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use crate::shards::LettingGo;
use crate::timers::Wheel;

use actor::WebhookActor;
pub use desk::{ConfigureError, Made};
use porchlight_observe::webhook::WebhookMetrics;
pub use request::{Armed, Saying};
pub use tenant::TenantWebhooks;

/// How often the store is asked for what a lost poke missed, and for retries that have come near.
const SCAN: Duration = Duration::from_secs(60);
/// How often the age of the oldest message is told.
const TELL: Duration = Duration::from_secs(5);
/// Test events and probes of one tenant under way at once: what a customer waits for here is at its own receiver.
const ASKED_BY_TENANT_MAX: usize = 4;
/// The session that a test event speaks of.
const TEST_SESSION: &str = "ses_test";
/// No message waits.
const NONE_WAITS: i64 = i64::MAX;

/// What webhooks need of the world.
pub struct WebhookParts {
    /// Endpoints and their outboxes.
    pub outbox: Arc<dyn Outbox>,
    /// What sends.
    pub transport: Arc<dyn Transport>,
    /// What decrypts secrets.
    pub seal: Arc<dyn SecretSeal>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Spreads retries.
    pub entropy: Arc<dyn Entropy>,
    /// Which shards this process acts for.
    pub ownership: Arc<dyn Ownership>,
    /// Those who act for the others.
    pub peers: Arc<dyn Peers>,
}

/// All tenants' webhooks. Cloning shares them.
#[derive(Clone)]
pub struct Webhooks {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    outbox: Arc<dyn Outbox>,
    transport: Arc<dyn Transport>,
    seal: Arc<dyn SecretSeal>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    ownership: Arc<dyn Ownership>,
    peers: Arc<dyn Peers>,
    arbiters: Vec<ArbiterHandle>,
    wheels: Mutex<Vec<Wheel<Tenant>>>,
    actors: DashMap<Tenant, (Arc<Presence>, Addr<WebhookActor>)>,
    /// By tenant the receiver's URL, and when its certificate ends.
    certificates: DashMap<Tenant, (Arc<str>, TimestampMs)>,
    asked: DashMap<Tenant, usize>,
    draining: AtomicBool,
    letting_go: LettingGo,
}

/// What is known of an actor without asking it.
struct Presence {
    /// A poke is in its mailbox: another one would say the same.
    poked: AtomicBool,
    /// So is word of a changed endpoint.
    changed: AtomicBool,
    /// Since when its oldest message waits that could be sent.
    oldest: AtomicI64,
}

impl Presence {
    fn taken(&self) {
        self.poked.store(false, Ordering::Release);
    }

    fn set_oldest(&self, oldest: Option<TimestampMs>) {
        let oldest = oldest.map_or(NONE_WAITS, |oldest| oldest.0);
        self.oldest.store(oldest, Ordering::Relaxed);
    }
}

/// A test event or a probe that is under way.
struct Asked {
    inner: Arc<Inner>,
    tenant: Tenant,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.inner.asked.entry(self.tenant) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// What an actor is told, and since when it waits. It is counted as waiting until it is dropped: one that is left in
/// the mailbox of an actor that stops must not count for ever.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Told {
    what: Tell,
    since: Instant,
}

impl Told {
    fn now(what: Tell) -> Self {
        let metrics = Metrics::get().actor(ActorKind::Webhook);
        metrics.mailbox.increment(1.0);
        Self {
            what,
            since: Instant::now(),
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let metrics = Metrics::get().actor(ActorKind::Webhook);
        metrics.mailbox.decrement(1.0);
    }
}

/// What an actor can be told.
#[derive(Debug, Clone, Copy)]
enum Tell {
    /// Look at the outbox.
    Poke,
    /// It is the time that was asked for.
    Tick,
    /// The endpoint was changed.
    Changed,
    /// Begin nothing more.
    Drain,
    /// Stop at once: the tenant is another node's.
    Drop,
}

/// How a test event went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tested {
    /// The message's id; it is not listed.
    pub id: MessageId,
    /// What was sent, signatures included.
    pub request: OutboundRequest,
    /// How it went.
    pub answer: Answer,
}

/// Why no test event was sent.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// There is no endpoint.
    #[error("there is no webhook")]
    NoEndpoint,
    /// Too many of this tenant are under way.
    #[error("too many test events are under way")]
    Busy,
    /// The endpoint can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its secret can't be opened, with the keys that there are.
    #[error("the webhook's secret cannot be opened")]
    Secret,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks")
            .field("actors", &self.inner.actors.len())
            .finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Starts the scan, which at once finds everything that is due. Actors run on these arbiters, of which there must
    /// be one.
    #[must_use]
    pub fn start(arbiters: &[ArbiterHandle], parts: WebhookParts) -> Self {
        let inner = Arc::new(Inner {
            outbox: parts.outbox,
            transport: parts.transport,
            seal: parts.seal,
            clock: parts.clock,
            entropy: parts.entropy,
            ownership: parts.ownership,
            peers: parts.peers,
            arbiters: arbiters.to_vec(),
            wheels: Mutex::default(),
            actors: DashMap::new(),
            certificates: DashMap::new(),
            asked: DashMap::new(),
            draining: AtomicBool::new(false),
            letting_go: LettingGo::default(),
        });
        let wheel = |arbiter| {
            let inner = Arc::downgrade(&inner);
            Wheel::start(arbiter, move |tenant| {
                if let Some(inner) = inner.upgrade() {
                    inner.tell(tenant, Tell::Tick);
                }
            })
        };
        *inner.lock_wheels() = arbiters.iter().map(wheel).collect();
        if let Some(arbiter) = arbiters.first() {
            // An arbiter that is gone takes nothing; the process is ending then.
            let _scanning = arbiter.spawn(scan(Arc::downgrade(&inner)));
            let _telling = arbiter.spawn(tell_oldest(Arc::downgrade(&inner)));
        }
        Self { inner }
    }

    /// There may be something new in this tenant's outbox: who acts for it looks.
    pub fn poke(&self, tenant: Tenant) {
        if self.inner.acts_for(tenant) {
            self.inner.tell(tenant, Tell::Poke);
        } else {
            self.inner.peers.nudge(Nudge::Tenant(tenant));
        }
    }

    /// This tenant's endpoint was made, changed or removed: who acts for it looks.
    pub fn endpoint_changed(&self, tenant: Tenant) {
        if !self.inner.acts_for(tenant) {
            self.inner.peers.nudge(Nudge::Tenant(tenant));
            return;
        }
        if self.inner.actors.contains_key(&tenant) {
            self.inner.tell(tenant, Tell::Changed);
        }
        self.inner.tell(tenant, Tell::Poke);
    }

    /// Another node says that there is something new in this tenant's outbox, or that its endpoint was changed.
    pub fn look_at(&self, tenant: Tenant) {
        if self.inner.acts_for(tenant) {
            if self.inner.actors.contains_key(&tenant) {
                self.inner.tell(tenant, Tell::Changed);
            }
            self.inner.tell(tenant, Tell::Poke);
        }
    }

    /// When the certificate of this endpoint's receiver ends, as last seen by this process. A change of the URL forgets
    /// it; a pause does not.
    #[must_use]
    pub fn certificate_ends_at(&self, endpoint: &Endpoint) -> Option<TimestampMs> {
        let seen = self.inner.certificates.get(&endpoint.tenant)?;
        let (url, ends_at) = seen.value();
        (*url == endpoint.url).then_some(*ends_at)
    }

    /// Sends a test event at once and once, through the same guards and signed like the rest; it works while the
    /// endpoint is disabled.
    ///
    /// # Errors
    ///
    /// See [`TestError`].
    pub async fn test(&self, tenant: Tenant, event: MessageEvent) -> Result<Tested, TestError> {
        let inner = &self.inner;
        let _asked = inner.ask(tenant).ok_or(TestError::Busy)?;
        let endpoint = inner.outbox.endpoint(tenant).await?;
        let endpoint = endpoint.ok_or(TestError::NoEndpoint)?;
        let armed = Armed::new(endpoint, inner.seal.as_ref()).ok_or(TestError::Secret)?;
        let now = inner.clock.now();
        let id = MessageId::new(now, inner.entropy.random());
        let saying = Saying {
            event,
            session: TEST_SESSION.to_owned(),
            id,
            attempt: 1,
            sequence: 0,
            body: sample::body(tenant, event, now),
        };
        let request = armed.sign(&saying, now).map_err(|_| TestError::Secret)?;
        let answer = inner.transport.send(request.clone()).await;
        if let Some(ends_at) = answer.certificate_ends_at {
            inner.certificate_ends(tenant, Arc::clone(&request.url), ends_at);
        }
        Ok(Tested {
            id,
            request,
            answer,
        })
    }

    /// Begins nothing more, and waits until what is under way is committed, or the deadline has come. Whether all
    /// was done in time.
    pub async fn drain(&self, within: Duration) -> bool {
        self.inner.draining.store(true, Ordering::Release);
        let tenants: Vec<Tenant> = self.inner.actors.iter().map(|entry| *entry.key()).collect();
        for tenant in tenants {
            self.inner.tell(tenant, Tell::Drain);
        }
        let emptied = async {
            while !self.inner.actors.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(within, emptied).await.is_ok()
    }
}

impl Inner {
    fn lock_wheels(&self) -> std::sync::MutexGuard<'_, Vec<Wheel<Tenant>>> {
        self.wheels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn place(&self, tenant: Tenant) -> usize {
        usize::from(tenant.organization_id.shard().0) % self.arbiters.len().max(1)
    }

    /// Tells the tenant's actor, which is spawned when there is none.
    fn tell(self: &Arc<Self>, tenant: Tenant, what: Tell) {
        match self.actors.entry(tenant) {
            Entry::Occupied(entry) if entry.get().1.connected() => {
                let (presence, actor) = entry.get();
                let repeats = match what {
                    Tell::Poke => presence.poked.swap(true, Ordering::AcqRel),
                    Tell::Changed => presence.changed.swap(true, Ordering::AcqRel),
                    Tell::Tick | Tell::Drain | Tell::Drop => false,
                };
                if !repeats {
                    admitted_send(actor, what);
                }
            }
            // It looks at the outbox when it starts, so that nothing need be told.
            Entry::Occupied(mut entry) => {
                if let Some(spawned) = self.spawn(tenant) {
                    entry.insert(spawned);
                }
            }
            Entry::Vacant(entry) => {
                if let Some(spawned) = self.spawn(tenant) {
                    entry.insert(spawned);
                }
            }
        }
    }

    fn spawn(self: &Arc<Self>, tenant: Tenant) -> Option<(Arc<Presence>, Addr<WebhookActor>)> {
        let arbiter = self.arbiters.get(self.place(tenant))?;
        if self.is_ending(tenant) {
            return None;
        }
        let presence = Arc::new(Presence {
            poked: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            oldest: AtomicI64::new(NONE_WAITS),
        });
        let (inner, known) = (Arc::clone(self), Arc::clone(&presence));
        let actor = WebhookActor::start_in_arbiter(arbiter, move |_| {
            WebhookActor::new(tenant, inner, known)
        });
        Some((presence, actor))
    }

    /// A place for a test event or a probe, unless the tenant has all that it may have.
    fn ask(self: &Arc<Self>, tenant: Tenant) -> Option<Asked> {
        let mut asked = self.asked.entry(tenant).or_default();
        (*asked < ASKED_BY_TENANT_MAX).then(|| {
            *asked += 1;
            Asked {
                inner: Arc::clone(self),
                tenant,
            }
        })
    }

    fn arm(&self, tenant: Tenant, wait: Duration) {
        if let Some(wheel) = self.lock_wheels().get(self.place(tenant)) {
            wheel.arm(tenant, wait);
        }
    }

    /// Takes an idle actor out, unless it has been poked meanwhile. Whether it may stop.
    fn retire(&self, tenant: Tenant, presence: &Arc<Presence>) -> bool {
        let idle = |known: &Arc<Presence>| {
            Arc::ptr_eq(known, presence) && !known.poked.load(Ordering::Acquire)
        };
        let removed = self.actors.remove_if(&tenant, |_, (known, _)| idle(known));
        removed.is_some() || !self.actors.contains_key(&tenant)
    }

    /// Takes an actor out that stops, whatever it was told.
    fn forget(&self, tenant: Tenant, presence: &Arc<Presence>) {
        self.actors
            .remove_if(&tenant, |_, (known, _)| Arc::ptr_eq(known, presence));
    }

    fn certificate_ends(&self, tenant: Tenant, url: Arc<str>, ends_at: TimestampMs) {
        self.certificates.insert(tenant, (url, ends_at));
    }
}

/// Sends what was admitted: one poke and one change at most wait in a mailbox, and one tick for each time that was asked
/// for.
#[expect(
    clippy::disallowed_methods,
    reason = "`poked` and `changed` have admitted it; ticks are few"
)]
fn admitted_send(actor: &Addr<WebhookActor>, what: Tell) {
    actor.do_send(Told::now(what));
}

async fn scan(inner: Weak<Inner>) {
    loop {
        {
            let Some(inner) = inner.upgrade() else { return };
            if inner.is_draining() {
                return;
            }
            let until = inner.clock.now().plus_ms(WHEEL_AHEAD_MS as i64);
            match inner.outbox.work(inner.own(), until).await {
                Ok(work) => {
                    for work in work {
                        inner.tell(work.tenant, Tell::Poke);
                    }
                }
                Err(error) => tracing::warn!(%error, "the outboxes could not be scanned"),
            }
            match inner.outbox.depth(inner.clock.now()).await {
                Ok(depth) => WebhookMetrics::get().set_depth(&depth),
                Err(error) => tracing::warn!(%error, "the outboxes could not be counted"),
            }
        }
        tokio::time::sleep(SCAN).await;
    }
}

async fn tell_oldest(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(TELL).await;
        let Some(inner) = inner.upgrade() else { return };
        let oldest = inner.actors.iter();
        let oldest = oldest.map(|entry| entry.value().0.oldest.load(Ordering::Relaxed));
        let oldest = oldest.min().filter(|&oldest| oldest != NONE_WAITS);
        let gauge = &WebhookMetrics::get().oldest_due;
        gauge.set(oldest.map_or(0.0, |oldest| oldest as f64 / 1000.0));
    }
}

impl Tested {
    /// The cause, as the API names it.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        self.answer.cause.map(Cause::as_str)
    }
}
