//! Webhooks: one actor for each tenant with messages to send, spawned by a wake or a due time and
//! stopped when idle. [`porchlight_core::webhook::EndpointMachine`] decides which message to send,
//! and when; all of its state is in the store, so that an actor can be discarded at any time.

mod actor;
mod attempt;
mod configuration;
mod operations;
mod presence;
mod remembered;
mod request;
mod restricted;
mod sample;
mod scan;
mod shards;
mod tenant;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use porchlight_core::webhook::Cause;
use porchlight_core::webhook::signature::SecretError;
use porchlight_observe::{ActorKind, Metrics};
use porchlight_ports::{
    Answer, Clock, Endpoint, Entropy, Nudge, OutboundRequest, Outbox, Ownership, Peers, SecretSeal,
    StoreError, Transport,
};
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::limits::TENANT_PROBES_MAX;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use crate::privacy::Restrictions;
use crate::shards::OwnShards;
use crate::timers::Wheel;
use actor::WebhookActor;
pub use configuration::{ConfigureError, Made};
use presence::Presence;
pub use request::{EndpointSigner, OutgoingMessage};
pub use tenant::TenantWebhooks;

/// The session id in test events.
const TEST_SESSION: &str = "ses_test";

/// The dependencies of webhooks.
pub struct WebhookParts {
    /// The endpoints and their outboxes.
    pub outbox: Arc<dyn Outbox>,
    /// The transport that sends messages.
    pub transport: Arc<dyn Transport>,
    /// The adapter that seals and opens secrets.
    pub seal: Arc<dyn SecretSeal>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness that spreads retries.
    pub entropy: Arc<dyn Entropy>,
    /// The shards that this process acts for.
    pub ownership: Arc<dyn Ownership>,
    /// The nodes that act for the other shards.
    pub peers: Arc<dyn Peers>,
}

/// The webhooks of all tenants. Clones share the same state.
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
    shards: OwnShards,
    peers: Arc<dyn Peers>,
    arbiters: Vec<ArbiterHandle>,
    wheels: Mutex<Vec<Wheel<Tenant>>>,
    actors: DashMap<Tenant, (Arc<Presence>, Addr<WebhookActor>)>,
    /// The receiver's URL and the expiry of its certificate, by tenant.
    certificates: DashMap<Tenant, (Arc<str>, TimestampMs)>,
    probes: DashMap<Tenant, usize>,
    is_draining: AtomicBool,
    pub(crate) restrictions: OnceLock<Restrictions>,
}

/// A test event or a probe in flight.
struct ProbePermit {
    inner: Arc<Inner>,
    tenant: Tenant,
}

impl Drop for ProbePermit {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.inner.probes.entry(self.tenant) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// A message to an actor, and the time since which it waits. It counts as waiting until it is
/// dropped, because a message left in the mailbox of a stopped actor must not count forever.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Envelope {
    command: WebhookCommand,
    since: Instant,
}

impl Envelope {
    fn now(command: WebhookCommand) -> Self {
        let metrics = Metrics::get().actor(ActorKind::Webhook);
        metrics.mailbox.increment(1.0);
        Self {
            command,
            since: Instant::now(),
        }
    }
}

impl Drop for Envelope {
    fn drop(&mut self) {
        let metrics = Metrics::get().actor(ActorKind::Webhook);
        metrics.mailbox.decrement(1.0);
    }
}

/// The kinds of messages to an actor.
#[derive(Debug, Clone, Copy)]
enum WebhookCommand {
    /// Read the new messages of the outbox.
    Wake,
    /// The requested time has been reached.
    Tick,
    /// The endpoint was changed.
    Changed,
    /// Read the outbox from its beginning, because a restriction was lifted.
    Released,
    /// Start nothing more.
    Drain,
    /// Stop immediately: another node owns the tenant.
    Drop,
}

/// The result of a test event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tested {
    /// The message's id, which is not listed.
    pub id: MessageId,
    /// The sent request, including signatures.
    pub request: OutboundRequest,
    /// The receiver's answer.
    pub answer: Answer,
}

/// The reason why no test event was sent.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    /// The tenant has no endpoint.
    #[error("no webhook is registered")]
    NoEndpoint,
    /// Too many test events or probes of this tenant are in flight.
    #[error("too many test events are in progress")]
    Busy,
    /// The endpoint cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No available key opens the endpoint's secret.
    #[error("the webhook's secret cannot be opened")]
    Secret,
    /// The opened secret signs no request.
    #[error("the test event cannot be signed")]
    Sign(#[source] SecretError),
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks")
            .field("actors", &self.inner.actors.len())
            .finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Starts the scan, which immediately finds everything that is due. Actors run on these
    /// arbiters, of which there must be at least one, and which run no other actors.
    #[must_use]
    pub fn start(arbiters: &[ArbiterHandle], parts: WebhookParts) -> Self {
        let inner = Arc::new(Inner {
            outbox: parts.outbox,
            transport: parts.transport,
            seal: parts.seal,
            clock: parts.clock,
            entropy: parts.entropy,
            shards: OwnShards::new(parts.ownership),
            peers: parts.peers,
            arbiters: arbiters.to_vec(),
            wheels: Mutex::default(),
            actors: DashMap::new(),
            certificates: DashMap::new(),
            probes: DashMap::new(),
            is_draining: AtomicBool::new(false),
            restrictions: OnceLock::new(),
        });
        let wheel = |arbiter| {
            let inner = Arc::downgrade(&inner);
            Wheel::start(arbiter, move |tenant| {
                if let Some(inner) = inner.upgrade() {
                    inner.command(tenant, WebhookCommand::Tick);
                }
            })
        };
        *inner.lock_wheels() = arbiters.iter().map(wheel).collect();
        if let Some(arbiter) = arbiters.first() {
            // A stopped arbiter accepts nothing, but then the process is ending.
            let _scanning = arbiter.spawn(scan::scan(Arc::downgrade(&inner)));
            let _counting = arbiter.spawn(scan::report_depth(Arc::downgrade(&inner)));
            let _spawned = arbiter.spawn(scan::report_oldest(Arc::downgrade(&inner)));
        }
        Self { inner }
    }

    /// Reports that this tenant's outbox may have something new. The owner reconciles it.
    pub fn wake(&self, tenant: Tenant) {
        self.wake_in(tenant, None);
    }

    /// Reports that this session has a new message in its tenant's outbox. The owner sends it
    /// without listing the outbox.
    pub fn wake_lane(&self, tenant: Tenant, session_id: SessionId) {
        self.wake_in(tenant, Some(session_id));
    }

    fn wake_in(&self, tenant: Tenant, lane: Option<SessionId>) {
        if !self.wake_here(tenant, lane) {
            let nudge = lane.map_or(Nudge::Tenant(tenant), |lane| Nudge::Message(tenant, lane));
            self.inner.peers.nudge(nudge);
        }
    }

    /// Handles a nudge: a session has a new message in its tenant's outbox.
    pub fn on_message_nudge(&self, tenant: Tenant, session_id: SessionId) {
        self.wake_here(tenant, Some(session_id));
    }

    /// Wakes the tenant's actor. Returns `false` if another node acts for the tenant.
    fn wake_here(&self, tenant: Tenant, lane: Option<SessionId>) -> bool {
        let acts = self.inner.acts_for(tenant);
        if acts {
            self.inner.wake(tenant, lane);
        }
        acts
    }

    /// Reports that this tenant's endpoint was created, changed or removed.
    pub fn endpoint_changed(&self, tenant: Tenant) {
        if !self.reread_here(tenant) {
            self.inner.peers.nudge(Nudge::Tenant(tenant));
        }
    }

    /// Handles a nudge: this tenant's outbox has a new message, or its endpoint was changed.
    pub fn on_nudge(&self, tenant: Tenant) {
        self.reread_here(tenant);
    }

    /// Lets the tenant's actor read its endpoint and its outbox again. Returns `false` if another
    /// node acts for the tenant.
    fn reread_here(&self, tenant: Tenant) -> bool {
        let acts = self.inner.acts_for(tenant);
        if acts {
            if self.inner.actors.contains_key(&tenant) {
                self.inner.command(tenant, WebhookCommand::Changed);
            }
            self.inner.wake(tenant, None);
        }
        acts
    }

    /// Returns the expiry of the certificate of this endpoint's receiver, as last seen by this
    /// process. A change of the URL clears it; a pause does not.
    #[must_use]
    pub fn certificate_ends_at(&self, endpoint: &Endpoint) -> Option<TimestampMs> {
        let seen = self.inner.certificates.get(&endpoint.tenant)?;
        let (url, ends_at) = seen.value();
        (*url == endpoint.url).then_some(*ends_at)
    }

    /// Sends a test event once, immediately, through the same guards and with the same signatures
    /// as other messages. The call also works while the endpoint is paused.
    ///
    /// # Errors
    ///
    /// See [`TestError`].
    pub async fn test(&self, tenant: Tenant, event: MessageEvent) -> Result<Tested, TestError> {
        let inner = &self.inner;
        let _permit = inner.acquire_probe_permit(tenant).ok_or(TestError::Busy)?;
        let endpoint = inner.outbox.endpoint(tenant).await?;
        let endpoint = endpoint.ok_or(TestError::NoEndpoint)?;
        let signer = EndpointSigner::new(endpoint, inner.seal.as_ref()).ok_or(TestError::Secret)?;
        let now = inner.clock.now();
        let id = MessageId::new(now, inner.entropy.random());
        let message = OutgoingMessage {
            event,
            session: TEST_SESSION.to_owned(),
            id,
            attempt: 1,
            sequence: 0,
            body: sample::body(tenant, event, now),
        };
        let request = signer.sign(&message, now).map_err(TestError::Sign)?;
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

    /// Starts nothing more, and waits until the work in flight is committed or the deadline has
    /// passed. Returns whether everything was committed in time.
    pub async fn drain(&self, within: Duration) -> bool {
        self.inner.is_draining.store(true, Ordering::Release);
        for tenant in self.inner.tenants_of(ShardSet::ALL) {
            self.inner.command(tenant, WebhookCommand::Drain);
        }
        let drained = async {
            while !self.inner.actors.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(within, drained).await.is_ok()
    }
}

impl Inner {
    fn lock_wheels(&self) -> std::sync::MutexGuard<'_, Vec<Wheel<Tenant>>> {
        self.wheels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    fn arbiter_index(&self, tenant: Tenant) -> usize {
        usize::from(tenant.organization_id.shard().0) % self.arbiters.len().max(1)
    }

    /// Wakes the tenant's actor: `lane` has a new message or, with `None`, any lane may have one.
    fn wake(self: &Arc<Self>, tenant: Tenant, lane: Option<SessionId>) {
        if let Some(actor) = self.actors.get(&tenant) {
            actor.value().0.wake(lane);
        }
        self.command(tenant, WebhookCommand::Wake);
    }

    /// Sends a message to the tenant's actor, and spawns the actor if it is not running.
    fn command(self: &Arc<Self>, tenant: Tenant, command: WebhookCommand) {
        match self.actors.entry(tenant) {
            Entry::Occupied(entry) if entry.get().1.connected() => {
                let (presence, actor) = entry.get();
                let repeats = match command {
                    WebhookCommand::Wake => presence.is_wake_pending.swap(true, Ordering::AcqRel),
                    WebhookCommand::Changed => {
                        presence.is_change_pending.swap(true, Ordering::AcqRel)
                    }
                    WebhookCommand::Tick
                    | WebhookCommand::Released
                    | WebhookCommand::Drain
                    | WebhookCommand::Drop => false,
                };
                if !repeats {
                    admitted_send(actor, command);
                }
            }
            // A new actor lists the outbox when it starts, so it needs no message.
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
        let arbiter = self.arbiters.get(self.arbiter_index(tenant))?;
        if self.is_ending(tenant) {
            return None;
        }
        let presence = Arc::new(Presence::default());
        let (inner, known) = (Arc::clone(self), Arc::clone(&presence));
        let actor = WebhookActor::start_in_arbiter(arbiter, move |_| {
            WebhookActor::new(tenant, inner, known)
        });
        Some((presence, actor))
    }

    /// Acquires a permit for a test event or a probe; `None` if the tenant holds all of its
    /// permits.
    fn acquire_probe_permit(self: &Arc<Self>, tenant: Tenant) -> Option<ProbePermit> {
        let mut probes = self.probes.entry(tenant).or_default();
        (*probes < TENANT_PROBES_MAX).then(|| {
            *probes += 1;
            ProbePermit {
                inner: Arc::clone(self),
                tenant,
            }
        })
    }

    fn arm(&self, tenant: Tenant, wait: Duration) {
        if let Some(wheel) = self.lock_wheels().get(self.arbiter_index(tenant)) {
            wheel.arm(tenant, wait);
        }
    }

    /// Removes an idle actor, unless it was woken in the meantime. Returns whether the actor may
    /// stop.
    fn retire(&self, tenant: Tenant, presence: &Arc<Presence>) -> bool {
        let idle = |known: &Arc<Presence>| {
            Arc::ptr_eq(known, presence) && !known.is_wake_pending.load(Ordering::Acquire)
        };
        let removed = self.actors.remove_if(&tenant, |_, (known, _)| idle(known));
        removed.is_some() || !self.actors.contains_key(&tenant)
    }

    /// Removes an actor that is stopping, regardless of the content of its mailbox.
    fn remove_actor(&self, tenant: Tenant, presence: &Arc<Presence>) {
        self.actors
            .remove_if(&tenant, |_, (known, _)| Arc::ptr_eq(known, presence));
    }

    fn certificate_ends(&self, tenant: Tenant, url: Arc<str>, ends_at: TimestampMs) {
        self.certificates.insert(tenant, (url, ends_at));
    }
}

/// Sends an admitted message: a mailbox holds at most one wake, one change, and one tick for each
/// requested time.
#[expect(
    clippy::disallowed_methods,
    reason = "earlier messages have admitted it, and ticks are rare"
)]
fn admitted_send(actor: &Addr<WebhookActor>, command: WebhookCommand) {
    actor.do_send(Envelope::now(command));
}

impl Tested {
    /// Returns the cause, as the API names it.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        self.answer.cause.map(Cause::as_str)
    }
}
