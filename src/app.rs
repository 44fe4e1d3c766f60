//! The composition root, the only module that imports every part. It builds the service from a
//! configuration, runs it until it must stop, and drains it in the order of the data flow.

mod arbiters;
mod logging;
mod temporary;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::Duration;

use actix_web::web::Data;
use anyhow::{Context, anyhow};
use futures_util::future::join_all;
use porchlight_actors::registry::DEFER_FROM_BATCHES_PER_SEC;
use porchlight_actors::scoring::ScoringPool;
use porchlight_actors::service::{Parts, Ports, PrivacySettings, Service};
use porchlight_actors::webhook::{WebhookParts, Webhooks};
use porchlight_core::session::lifetime::Lifetime;
use porchlight_http::State;
use porchlight_http::open_files;
use porchlight_http::serve::Connections;
use porchlight_keys::keyring::SecretKeys;
use porchlight_keys::secrets::SecretVault;
use porchlight_observe::error_text;
use porchlight_ports::{Clock, Entropy, SingleNode, Wake};
use porchlight_schema::limits::{ATTEMPT_MS_MAX, DRAIN_KEY_USES_MS_MAX, DRAIN_MS_MAX};
use porchlight_world::{SystemClock, SystemEntropy};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use crate::cluster::Node;
use crate::config::{Config, StoreKind};
use crate::key_guard::secret_keys;
use crate::listener::ListenerParts;
use crate::open_store::{OpenStore, StoreOpenError};
use crate::ops::{NodeHealth, OpsParts};
use crate::retention::{RetentionStatus, Sweeper};
use crate::transport::{HttpTransport, TransportSettings};
use crate::{listener, notify, ops, receipts, telemetry};
use arbiters::Arbiters;
pub use logging::Logging;
pub use temporary::{TemporaryService, with_temporary_service};

/// The exit code when the store cannot continue: acknowledged data is safe, and a restart recovers.
const EXIT_STORE_FATAL: i32 = 70;
/// The exit code when another process serves from the keyspace: a restart would displace that
/// process.
const EXIT_REPLACED: i32 = 71;
/// The exit code when the thread that renews a node's lease panicked: a restart joins again.
const EXIT_OWNERSHIP_PANICKED: i32 = 72;

/// The event that stops the service.
#[derive(Debug)]
pub enum Shutdown {
    /// The signal SIGTERM, SIGINT or SIGHUP.
    Signal,
    /// A message or the end of a channel within the process.
    Channel(oneshot::Receiver<()>),
}

/// The addresses of the listeners.
#[derive(Debug, Clone, Copy)]
pub struct BoundAddresses {
    /// The address of the public API.
    pub api: SocketAddr,
    /// The address of the operators' listener.
    pub ops: SocketAddr,
}

/// Runs the service until it must stop, and drains it. `ready` is called once it accepts requests.
pub fn run(
    config: Config,
    logging: Logging,
    shutdown: Shutdown,
    ready: impl FnOnce(&BoundAddresses),
) -> anyhow::Result<()> {
    logging.start(&config)?;
    open_files::raise_limit();
    let (version, store) = (env!("CARGO_PKG_VERSION"), config.store.kind.as_str());
    // Nothing is acknowledged during the start. A start on a CQL cluster may wait for minutes, and can
    // end at any point. The start of an embedded store is completed, and the store is then closed.
    let is_interruptible = config.store.kind == StoreKind::Cql;
    let configuration = logging.configuration().to_owned();
    actix_rt::System::new().block_on(async move {
        // Installed before the service reports that it is ready, so that every signal finds a
        // handler.
        let mut stopped = shutdown.listen()?;
        let app = tokio::select! {
            app = App::build(config) => app?,
            () = &mut stopped, if is_interruptible => {
                notify::send(notify::STOPPING);
                tracing::info!("the service has stopped before its start was complete");
                return Ok(());
            }
        };
        let bound = app.bound;
        tracing::info!(version, configuration, store, api = %bound.api, ops = %bound.ops, "ready");
        notify::send(notify::READY);
        ready(&bound);
        stopped.await;
        notify::send(notify::STOPPING);
        app.drain().await?;
        tracing::info!("the service has stopped");
        Ok(())
    })
}

impl Shutdown {
    /// Listens from now on, and returns a future that completes when the service must stop.
    fn listen(self) -> anyhow::Result<Pin<Box<dyn Future<Output = ()>>>> {
        Ok(match self {
            Self::Channel(stop) => Box::pin(async {
                // If the sender was dropped, the service must stop too.
                drop(stop.await);
            }),
            Self::Signal => {
                let mut terminate = signal(SignalKind::terminate())?;
                let mut interrupt = signal(SignalKind::interrupt())?;
                let mut hang_up = signal(SignalKind::hangup())?;
                Box::pin(async move {
                    tokio::select! {
                        _ = hang_up.recv() => {}
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                })
            }
        })
    }
}

/// A running service.
struct App {
    service: Service,
    /// The state of the public API.
    api: Data<State>,
    webhooks: Webhooks,
    store: OpenStore,
    bound: BoundAddresses,
    servers: Vec<actix_web::dev::ServerHandle>,
    /// The open connections to the public API.
    connections: Connections,
    /// The maximum time for which the service answers open connections during a stop.
    drain_grace: Duration,
    arbiters: Arbiters,
    /// This process as a node of a cluster.
    node: Option<Node>,
}

impl App {
    async fn build(config: Config) -> anyhow::Result<Self> {
        let metrics = telemetry::install_metrics()?;
        let map = config.map.open()?;
        let cores = available_parallelism().map_or(1, usize::from);
        let actors = Arbiters::start(cores);
        let mut node = Node::of(&config.cluster)?;
        let late_service: Arc<OnceLock<Service>> = Arc::default();
        let (store, secrets) = open_with_keys(&config, &late_service, node.as_ref()).await?;
        let (service, webhooks) = build_service(
            &config,
            &actors,
            &store,
            &secrets,
            node.as_ref(),
            &late_service,
        )?;
        if node.is_none() {
            let recovered = service.recover().await;
            let sessions = recovered.context("the state of the previous process cannot be read")?;
            tracing::info!(sessions, "sessions recovered");
        }
        start_privacy(&config, &service, &webhooks, &secrets).await?;
        let folder = (config.store.kind == StoreKind::Embedded).then_some(&*config.store.path);
        telemetry::watch(&actors.handles(), folder);

        let retention = start_retention(&config, &store, &service).await?;
        let (public, api) = listener::serve(ListenerParts {
            config: &config,
            cores,
            service: service.clone(),
            keys: store.keys(),
            webhooks: webhooks.clone(),
            secrets: &secrets,
            map,
        })?;
        let for_revocations = api.clone();
        let (operators, operators_handle) = ops::serve(OpsParts {
            config: &config,
            service: service.clone(),
            store: &store,
            metrics,
            secrets: &secrets,
            on_revoked: Arc::new(move |id| for_revocations.auth.evict(id)),
            health: NodeHealth {
                view: node.as_ref().map(|node| Arc::clone(node.view())),
                retention,
            },
        })?;
        if let (Some(node), Some(nodes)) = (&mut node, store.nodes()) {
            let on_replaced = || exit_replaced("another process has this node's name");
            let joining = node.join(nodes, &service, &webhooks, on_replaced, exit_panicked);
            joining.await?;
        }
        Ok(Self {
            service,
            api,
            webhooks,
            store,
            bound: BoundAddresses {
                api: public.address,
                ops: operators,
            },
            servers: vec![public.handle, operators_handle],
            connections: public.connections,
            drain_grace: config.server.drain_grace.as_duration(),
            arbiters: actors,
            node,
        })
    }

    /// Refuses new work, finishes requests in flight, lets every session save its state, and closes
    /// the store. Connected clients are answered until then, because closing an idle connection may
    /// race with a request. Each step has a limit, and the tests of this module add them up.
    async fn drain(mut self) -> anyhow::Result<()> {
        let grace_ends = Instant::now() + self.drain_grace;
        if let Some(node) = &mut self.node {
            self.service.refuse();
            let leaving = node.leave(Duration::from_millis(DRAIN_MS_MAX));
            let webhooks = self.webhooks.drain(Duration::from_millis(ATTEMPT_MS_MAX));
            if !tokio::join!(leaving, webhooks).0 {
                tracing::warn!(
                    "not all shards were released in time: the other nodes will claim them"
                );
            }
        }
        self.service.drain().await;
        self.webhooks
            .drain(Duration::from_millis(ATTEMPT_MS_MAX))
            .await;
        match &self.node {
            // A load balancer sends requests here until its next health check reports that this
            // node is not ready.
            Some(_) => sleep_until(grace_ends).await,
            None => self.connections.wait_until_none_open(grace_ends).await,
        }
        let stopping = self.servers.iter().map(|server| server.stop(true));
        join_all(stopping).await;
        tokio::join!(self.flush_audit_log(), self.write_key_uses());
        self.arbiters.stop();
        self.store.close().await;
        Ok(())
    }

    async fn flush_audit_log(&self) {
        if let Some(audit) = self.service.audit()
            && !audit.flush().await
        {
            tracing::error!("the last lines of the audit log could not be written");
        }
    }

    async fn write_key_uses(&self) {
        let deadline = Duration::from_millis(DRAIN_KEY_USES_MS_MAX);
        if timeout(deadline, self.api.auth.write_uses()).await.is_err() {
            tracing::warn!("not all last uses of keys were written in time");
        }
    }
}

/// Ends a process that another one has replaced.
fn exit_replaced(reason: &str) {
    tracing::error!(reason, "another process has replaced this one");
    std::process::exit(EXIT_REPLACED);
}

/// Ends the process of a node whose lease nothing renews any more, so that it starts again.
fn exit_panicked() {
    std::process::exit(EXIT_OWNERSHIP_PANICKED);
}

/// Opens the store; durable batches are passed to the service once it exists.
async fn open_store(
    config: &Config,
    late_service: &Arc<OnceLock<Service>>,
    node: Option<&Node>,
) -> anyhow::Result<OpenStore> {
    let late_service = Arc::clone(late_service);
    let on_fatal: fn(&str) = match config.store.kind {
        StoreKind::Embedded => |reason| {
            tracing::error!(reason, "the store cannot continue");
            std::process::exit(EXIT_STORE_FATAL);
        },
        StoreKind::Cql => exit_replaced,
    };
    let opened = OpenStore::open_for_serving(
        config,
        Arc::new(move |session_id, entry| {
            if let Some(service) = late_service.get() {
                service.deliver(session_id, entry);
            }
        }),
        Arc::new(on_fatal),
        node.map(|node| Arc::clone(node.view()) as _),
    );
    match opened.await {
        // The error keeps its type, because the caller examines it.
        Err(StoreOpenError::Embedded(error)) => Err(error).context("the store cannot be opened"),
        opened => Ok(opened?),
    }
}

/// Opens the store and loads the secret keys that it depends on.
async fn open_with_keys(
    config: &Config,
    late_service: &Arc<OnceLock<Service>>,
    node: Option<&Node>,
) -> anyhow::Result<(OpenStore, SecretKeys)> {
    if config.store.kind == StoreKind::Cql && node.is_none() {
        // A process that serves alone from a cluster displaces the previous one as soon as it opens
        // the store, so its keys are checked earlier.
        let store = OpenStore::open_before_server(config).await?;
        store.close_after(secret_keys(config, &store)).await?;
    }
    let store = open_store(config, late_service, node).await?;
    match secret_keys(config, &store).await {
        Ok(keys) => Ok((store, keys)),
        Err(refused) => {
            store.close().await;
            Err(refused.into())
        }
    }
}

/// Performs privacy requests from now on.
async fn start_privacy(
    config: &Config,
    service: &Service,
    webhooks: &Webhooks,
    secrets: &SecretKeys,
) -> anyhow::Result<()> {
    let webhooks = webhooks.clone();
    let settings = PrivacySettings {
        erasure_delay_ms: config.privacy.delay.as_millis(),
        retention: config.retention.bounds(config.store.retention),
        sign: Some(receipts::signer(secrets)),
        on_released: Arc::new(move |tenant| webhooks.released(tenant)),
    };
    let started = service.start_privacy(settings).await;
    started.context("the privacy marks cannot be read")
}

/// Starts to delete old data.
async fn start_retention(
    config: &Config,
    store: &OpenStore,
    service: &Service,
) -> anyhow::Result<Arc<RetentionStatus>> {
    let status: Arc<RetentionStatus> = Arc::default();
    let embedded = store.embedded().cloned();
    if let Some(store) = &embedded
        && let Err(error) = store.last_backup().await
    {
        tracing::error!(
            error = error_text(&error),
            "the time of the last backup cannot be read"
        );
    }
    let retention_ms = config.store.retention.as_millis();
    let service = service.clone();
    let sweeper = Sweeper::start(embedded, service, retention_ms, Arc::clone(&status)).await?;
    actix_rt::spawn(sweeper.run());
    Ok(status)
}

fn build_service(
    config: &Config,
    arbiters: &Arbiters,
    store: &OpenStore,
    secrets: &SecretKeys,
    node: Option<&Node>,
    late_service: &OnceLock<Service>,
) -> anyhow::Result<(Service, Webhooks)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let transport = HttpTransport::start(TransportSettings {
        allow_addresses: config.webhook.allowed()?,
        extra_ca_file: config.webhook.extra_ca_file(),
        ..TransportSettings::default()
    })?;
    let ownership = store.ownership(clock.now());
    let peers = node.map_or_else(|| Arc::new(SingleNode { generation: 0 }) as _, Node::peers);
    let webhooks = Webhooks::start(
        &arbiters.webhooks,
        WebhookParts {
            outbox: store.outbox(),
            transport: Arc::new(transport),
            seal: Arc::new(SecretVault::new(secrets)),
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
            ownership: Arc::clone(&ownership),
            peers: Arc::clone(&peers),
        },
    );
    let to_wake = webhooks.clone();
    let wake: Wake = Arc::new(move |tenant, session_id| to_wake.wake_lane(tenant, session_id));
    let shared = store.store();
    let service = Service::new(Parts {
        ports: Ports {
            store: Arc::clone(&shared),
            clock: Arc::clone(&clock),
            entropy,
            wake: Arc::clone(&wake),
            lifetime: Lifetime {
                idle_ms: config.session.idle_timeout.as_millis(),
                max_ms: config.session.max_duration.as_millis(),
            },
            ownership,
            peers,
        },
        arbiters: arbiters.sessions.clone(),
        scoring: ScoringPool::start(&arbiters.scoring, shared, clock, wake),
        shares: config.limits.shares(),
        defer_from_per_sec: DEFER_FROM_BATCHES_PER_SEC,
    });
    webhooks.restrict(service.restrictions());
    late_service
        .set(service.clone())
        .map_err(|_| anyhow!("the service was built twice"))?;
    Ok((service, webhooks))
}
