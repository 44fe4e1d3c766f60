//! The shell around one endpoint's machine: it reads, sends and commits as the machine directs.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use actix::prelude::*;
use porchlight_core::webhook::{
    Change, Effect, EndpointMachine, Input, Lane, ListingRequest, ManualRetry, Mode, Policy, Queued,
};
use porchlight_observe::webhook::{StoreCall, WebhookMetrics};
use porchlight_observe::{ActorKind, MessageKind, Metrics, Outcome, StopReason};
use porchlight_ports::{Endpoint, StoreResult};
use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::attempt::{Attempted, attempt_once, read_endpoint, reload_endpoint};
use super::operations::{Operating, Operations, ProcessResults};
use super::presence::{NewMessages, Presence};
use super::request::EndpointSigner;
use super::{Envelope, Inner, WebhookCommand};

/// The maximum age of an endpoint before an attempt reads it again, so that a change made on
/// another node applies to waiting messages.
const ENDPOINT_FRESH_MS: i64 = 5_000;

/// The time for which an idle actor stays. A new actor lists its whole outbox; an existing one
/// lists only new messages.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The actor for one tenant's webhooks.
pub(super) struct WebhookActor {
    tenant: Tenant,
    inner: Arc<Inner>,
    presence: Arc<Presence>,
    loaded: Option<Loaded>,
    operations: Operations<Self>,
    stopping: StopReason,
    /// The time since which there has been nothing to do.
    idle_since: Option<TimestampMs>,
    /// The values that this actor has added to the gauges.
    reported: ReportedLoad,
}

/// The values that an actor has added to the gauges.
#[derive(Debug, Clone, Copy, Default)]
struct ReportedLoad {
    in_flight: usize,
    window: usize,
    blocked: usize,
}

impl ReportedLoad {
    /// Replaces these values in the gauges.
    fn replace(&mut self, new: Self) {
        let metrics = WebhookMetrics::get();
        let by = |new: usize, old: usize| new as f64 - old as f64;
        metrics
            .in_flight
            .increment(by(new.in_flight, self.in_flight));
        metrics.window.increment(by(new.window, self.window));
        metrics.blocked.increment(by(new.blocked, self.blocked));
        *self = new;
    }
}

/// The actor's state once the endpoint has been read.
struct Loaded {
    machine: EndpointMachine,
    signer: Arc<EndpointSigner>,
    read_at: TimestampMs,
}

impl WebhookActor {
    pub(super) fn new(tenant: Tenant, inner: Arc<Inner>, presence: Arc<Presence>) -> Self {
        Self {
            tenant,
            inner,
            presence,
            loaded: None,
            operations: Operations::default(),
            stopping: StopReason::Shutdown,
            idle_since: None,
            reported: ReportedLoad::default(),
        }
    }

    fn stop(&mut self, ctx: &mut Context<Self>, reason: StopReason) {
        self.stopping = reason;
        self.inner.remove_actor(self.tenant, &self.presence);
        ctx.stop();
    }

    /// Reads the endpoint. `next` is called if the actor has work left.
    fn read_endpoint(&mut self, next: impl FnOnce(&mut Self, &mut Context<Self>) + 'static) {
        let (inner, tenant) = (Arc::clone(&self.inner), self.tenant);
        let reading = async move { read_endpoint(&inner, tenant).await };
        self.operations.begin(reading, |actor, ctx, endpoint| {
            if actor.take_endpoint(ctx, endpoint) {
                next(actor, ctx);
            }
        });
    }

    /// Applies the endpoint that was read. Returns `false` if the actor has no work left.
    fn take_endpoint(
        &mut self,
        ctx: &mut Context<Self>,
        endpoint: StoreResult<Option<Endpoint>>,
    ) -> bool {
        let now = self.inner.clock.now();
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint,
            Err(error) => {
                WebhookMetrics::get().on_store_failure(self.tenant, "reading the endpoint", &error);
                if self.loaded.is_none() {
                    // The node's scan returns to this tenant.
                    self.stop(ctx, StopReason::Idle);
                }
                return self.loaded.is_some();
            }
        };
        let Some(endpoint) = endpoint else {
            self.stop(ctx, StopReason::Finished);
            return false;
        };
        if let Some(loaded) = &mut self.loaded
            && loaded.signer.endpoint.version == endpoint.version
            && loaded.signer.endpoint.id == endpoint.id
        {
            loaded.read_at = now;
            return true;
        }
        let (id, mode) = (endpoint.id, self.inner.mode_of(&endpoint));
        let Some(signer) = EndpointSigner::new(endpoint, self.inner.seal.as_ref()) else {
            tracing::error!(organization = %self.tenant.organization_id, endpoint = %id,
                "a webhook secret cannot be opened with the keys that are configured");
            self.stop(ctx, StopReason::Idle);
            return false;
        };
        let signer = Arc::new(signer);
        match &mut self.loaded {
            Some(loaded) => {
                let is_same = loaded.signer.endpoint.id == id;
                loaded.signer = signer;
                loaded.read_at = now;
                if is_same {
                    self.feed(ctx, None, Input::Mode(mode));
                } else {
                    loaded.machine.restart(mode);
                    self.feed(ctx, None, Input::Woken);
                }
            }
            None => {
                self.loaded = Some(Loaded {
                    machine: EndpointMachine::new(Policy::default(), mode),
                    signer,
                    read_at: now,
                });
            }
        }
        true
    }

    /// Feeds an input to the machine and performs the resulting effects. `generation` is that of
    /// the answered effect.
    fn feed(&mut self, ctx: &mut Context<Self>, generation: Option<u64>, input: Input) {
        let (now, begun) = (self.inner.clock.now(), Instant::now());
        let metrics = Metrics::get().actor(ActorKind::Webhook);
        let kind = match generation {
            Some(_) => MessageKind::Step,
            None => MessageKind::Wake,
        };
        let Some(loaded) = &mut self.loaded else {
            return;
        };
        let machine = &mut loaded.machine;
        let generation = generation.unwrap_or(machine.generation());
        let handled = AssertUnwindSafe(|| machine.handle(now, generation, input));
        let Ok(effects) = std::panic::catch_unwind(handled) else {
            tracing::error!(organization = %self.tenant.organization_id, env = self.tenant.env.as_str(),
                "a webhook machine panicked; it is rebuilt from the store");
            metrics.restarts.increment(1);
            metrics.on_handled(kind, Outcome::Panic, begun.elapsed().as_secs_f64());
            self.stop(ctx, StopReason::Panic);
            return;
        };
        for effect in effects {
            self.perform(ctx, now, effect);
        }
        self.report_load(now);
        metrics.on_handled(kind, Outcome::Ok, begun.elapsed().as_secs_f64());
    }

    fn report_load(&mut self, now: TimestampMs) {
        let Some(machine) = self.loaded.as_ref().map(|loaded| &loaded.machine) else {
            return;
        };
        self.reported.replace(ReportedLoad {
            in_flight: machine.in_flight(),
            window: machine.window_len(),
            blocked: machine.lanes_blocked(),
        });
        self.presence.set_oldest(machine.oldest_due(now));
    }

    fn perform(&mut self, ctx: &mut Context<Self>, now: TimestampMs, effect: Effect) {
        if effect != Effect::Idle {
            self.idle_since = None;
        }
        match effect {
            Effect::List(request) => self.list(request),
            Effect::Read(lane, manual) => self.read(lane, manual),
            Effect::Send(message, attempt) => self.send(message, attempt),
            Effect::Commit(lane, change) => self.commit(lane, change),
            Effect::WakeAt(at) => {
                let wait_ms = at.since_ms(self.inner.clock.now()).max(0);
                let wait = Duration::from_millis(wait_ms.unsigned_abs());
                self.inner.arm(self.tenant, wait);
            }
            Effect::Idle => self.handle_idle(ctx, now),
        }
    }

    /// Handles an idle machine: the actor stays for some time, and stops if no message has arrived.
    fn handle_idle(&mut self, ctx: &mut Context<Self>, now: TimestampMs) {
        let since = *self.idle_since.get_or_insert(now);
        let left_ms = IDLE_TIMEOUT.as_millis() as i64 - now.since_ms(since);
        // A clock that was set back must not keep the actor forever.
        let may_stay = (1..=IDLE_TIMEOUT.as_millis() as i64).contains(&left_ms);
        if may_stay && !self.inner.is_ending(self.tenant) {
            let wait = Duration::from_millis(left_ms.unsigned_abs());
            self.inner.arm(self.tenant, wait);
        } else if self.inner.retire(self.tenant, &self.presence) {
            self.stopping = StopReason::Idle;
            ctx.stop();
        }
    }

    /// Returns the machine's generation and the endpoint's id, once the endpoint has been read.
    fn endpoint_in_generation(&self) -> Option<(u64, EndpointId)> {
        let loaded = self.loaded.as_ref()?;
        Some((loaded.machine.generation(), loaded.signer.endpoint.id))
    }

    fn list(&mut self, request: ListingRequest) {
        let Some((generation, endpoint_id)) = self.endpoint_in_generation() else {
            return;
        };
        let (inner, tenant) = (Arc::clone(&self.inner), self.tenant);
        let reading = async move {
            let endpoint = read_endpoint(&inner, tenant).await;
            WebhookMetrics::get().on_store_call(StoreCall::Listing);
            let listing = inner.shown_listing(tenant, endpoint_id, request);
            (endpoint, listing.await)
        };
        let then = move |actor: &mut Self, ctx: &mut _, (endpoint, listing)| {
            if actor.take_endpoint(ctx, endpoint) {
                let listing = actor.ok(listing, "listing an outbox");
                actor.feed(ctx, Some(generation), Input::Listed(listing));
            }
        };
        self.operations.begin(reading, then);
    }

    fn read(&mut self, lane: SessionId, manual: Option<ManualRetry>) {
        let Some((generation, endpoint_id)) = self.endpoint_in_generation() else {
            return;
        };
        let (inner, tenant) = (Arc::clone(&self.inner), self.tenant);
        let reading = async move {
            WebhookMetrics::get().on_store_call(StoreCall::Lane);
            if inner.hides(tenant, lane).await {
                return Ok(Lane::default());
            }
            inner.outbox.lane(tenant, endpoint_id, lane, manual).await
        };
        self.operations.begin(reading, move |actor, ctx, read| {
            let read = actor.ok(read, "reading a lane");
            actor.feed(ctx, Some(generation), Input::Read(lane, read));
        });
    }

    fn send(&mut self, message: Queued, attempt: u32) {
        let Some((generation, _)) = self.endpoint_in_generation() else {
            return;
        };
        let Some(loaded) = &self.loaded else { return };
        let now = self.inner.clock.now();
        let age_ms = now.since_ms(loaded.read_at);
        let stale = !(0..=ENDPOINT_FRESH_MS).contains(&age_ms);
        let (inner, signer) = (Arc::clone(&self.inner), Arc::clone(&loaded.signer));
        let lane = message.session_id;
        if stale {
            self.read_endpoint(|_, _| {});
        }
        let sending = async move {
            let signer = if stale {
                reload_endpoint(&inner, signer).await
            } else {
                Some(signer)
            };
            attempt_once(&inner, signer, message, attempt).await
        };
        let then = move |actor: &mut Self, ctx: &mut _, attempted| {
            let input = match attempted {
                Attempted::Ended(report, ends_at) => {
                    WebhookMetrics::get().on_attempt(&report, attempt, message.id.made_at());
                    if let Some((url, ends_at)) = ends_at {
                        actor.inner.certificate_ends(actor.tenant, url, ends_at);
                    }
                    let random = actor.inner.entropy.random() as u64;
                    Input::Attempted(lane, report, random)
                }
                Attempted::Damaged => Input::Damaged(lane),
                Attempted::Removed => Input::Removed(lane),
            };
            actor.feed(ctx, Some(generation), input);
        };
        self.operations.begin(sending, then);
    }

    fn commit(&mut self, lane: SessionId, change: Change) {
        let Some((generation, endpoint_id)) = self.endpoint_in_generation() else {
            return;
        };
        let (inner, tenant) = (Arc::clone(&self.inner), self.tenant);
        let updates = change.updates.clone();
        let committing = async move {
            WebhookMetrics::get().on_store_call(StoreCall::Commit);
            let outbox = &inner.outbox;
            let waiting = outbox.commit(tenant, endpoint_id, lane, change).await?;
            if inner.hides(tenant, lane).await {
                return Ok(Vec::new());
            }
            Ok(waiting)
        };
        self.operations
            .begin(committing, move |actor, ctx, waiting| {
                if waiting.is_ok() {
                    for update in &updates {
                        WebhookMetrics::get().on_update(tenant, update);
                    }
                }
                let waiting = actor.ok(waiting, "committing an attempt");
                actor.feed(ctx, Some(generation), Input::Committed(lane, waiting));
            });
    }

    fn ok<T>(&self, result: StoreResult<T>, doing: &'static str) -> Option<T> {
        result
            .inspect_err(|error| {
                WebhookMetrics::get().on_store_failure(self.tenant, doing, error);
            })
            .ok()
    }
}

impl Operating for WebhookActor {
    fn operations(&mut self) -> &mut Operations<Self> {
        &mut self.operations
    }
}

impl Actor for WebhookActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        Metrics::get().actor(ActorKind::Webhook).on_started();
        self.read_endpoint(|actor, ctx| actor.feed(ctx, None, Input::Woken));
        ctx.spawn(ProcessResults);
    }

    fn stopped(&mut self, _ctx: &mut Context<Self>) {
        self.reported.replace(ReportedLoad::default());
        self.inner.remove_actor(self.tenant, &self.presence);
        Metrics::get()
            .actor(ActorKind::Webhook)
            .on_stopped(self.stopping);
    }
}

impl Handler<Envelope> for WebhookActor {
    type Result = ();

    fn handle(&mut self, message: Envelope, ctx: &mut Context<Self>) {
        let metrics = Metrics::get().actor(ActorKind::Webhook);
        metrics.wait.record(message.since.elapsed().as_secs_f64());
        match message.command {
            WebhookCommand::Wake => {
                // Until the endpoint is read there is no machine; the whole outbox is then listed.
                let input = match self.presence.take_new_messages() {
                    NewMessages::Lanes(lanes) => Input::NewMessages(lanes),
                    NewMessages::Outbox => Input::Woken,
                };
                self.feed(ctx, None, input);
            }
            WebhookCommand::Tick => self.feed(ctx, None, Input::Tick),
            WebhookCommand::Changed => {
                self.presence
                    .is_change_pending
                    .store(false, Ordering::Release);
                // Until the endpoint is read, the actor only seems idle: it must not stop now.
                self.idle_since = None;
                self.read_endpoint(|_, _| {});
            }
            WebhookCommand::Released => self.feed(ctx, None, Input::Released),
            WebhookCommand::Drain if self.loaded.is_none() => {
                self.stop(ctx, StopReason::LostOwnership)
            }
            WebhookCommand::Drain => self.feed(ctx, None, Input::Mode(Mode::Stopped)),
            WebhookCommand::Drop => self.stop(ctx, StopReason::LostOwnership),
        }
    }
}
