//! Sends notifications and queries to the other nodes, over one HTTP/2 connection and from one
//! queue per node.
//!
//! Notifications wait in the queue while a request is in flight and leave with the next one, so a
//! busy node sends fewer, larger requests. No notification is sent twice: a node finds missed ones
//! in the store.

mod nudges;
mod queue;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dashmap::DashMap;
use porchlight_core::ownership::NodeName;
use porchlight_core::timeline::NumberedChange;
use porchlight_observe::error_text;
use porchlight_observe::peer::{Forwarded, Nudged, PeerMetrics, PeerRoute};
use porchlight_ports::{LiveAnswer, Nudge, PeerError, Peers};
use porchlight_schema::hex;
use porchlight_schema::ids::{SessionId, Shard};
use porchlight_schema::limits::{PEER_BODY_BYTES_MAX, PEER_QUERIES_MAX, PEER_REQUEST_MS_MAX};
use porchlight_schema::sample::packed::PackedBatch;
use serde::de::DeserializeOwned;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, Semaphore};

use super::OwnershipView;
use super::secret::{self, Head, Nonce, PeerSecrets};
use super::wire::{self, Changes, ChangesQuery, ForwardedBatch, Live, Reply};
use queue::{Queue, QueuedBatch};

/// The deadline for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(PEER_REQUEST_MS_MAX / 2);
/// The minimum time between two ownership reads that failed requests trigger.
const OWNER_REFRESH_MIN: Duration = Duration::from_secs(1);
/// The interval of connection keep-alive pings, and the time after which an unanswered ping closes
/// the connection.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The reason why a request to another node failed.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    /// The connection failed, or no answer arrived in time.
    #[error("the node did not answer")]
    Http(#[from] reqwest::Error),
    /// The answer has an unexpected status.
    #[error("the node answered with status {0}")]
    Status(u16),
    /// The answer is not authenticated with the shared secret.
    #[error("the answer is not authenticated")]
    Unauthenticated,
    /// The answer is too large or malformed.
    #[error("the answer is too large or malformed")]
    InvalidAnswer,
}

/// The client for all other nodes. It implements [`Peers`].
pub struct PeerClient {
    inner: Arc<Inner>,
    runtime: Mutex<Option<Runtime>>,
}

struct Inner {
    view: Arc<OwnershipView>,
    secrets: PeerSecrets,
    http: reqwest::Client,
    handle: Handle,
    peers: DashMap<NodeName, Arc<Peer>>,
    /// The time at which a failed request last triggered an ownership read.
    owners_refreshed_at: Mutex<Option<Instant>>,
}

/// The state for one other node.
struct Peer {
    name: NodeName,
    queue: Mutex<Queue>,
    wake: Notify,
    is_gone: AtomicBool,
    /// Whether a request is in flight.
    is_busy: AtomicBool,
    /// Permits for queries that wait for an answer.
    query_permits: Semaphore,
}

impl std::fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerClient")
            .field("peers", &self.inner.peers.len())
            .finish_non_exhaustive()
    }
}

impl Peer {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self) -> bool {
        self.queue().is_empty() && !self.is_busy.load(Ordering::Acquire)
    }
}

impl PeerClient {
    /// Starts the thread for traffic between nodes.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start a thread, or if the HTTP client cannot be built.
    pub fn start(view: Arc<OwnershipView>, secrets: PeerSecrets) -> anyhow::Result<Arc<Self>> {
        let http = reqwest::Client::builder()
            .http2_prior_knowledge()
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_INTERVAL)
            .http2_adaptive_window(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(Duration::from_millis(PEER_REQUEST_MS_MAX))
            .build()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("porchlight-peers")
            .enable_all()
            .build()?;
        let inner = Arc::new(Inner {
            view,
            secrets,
            http,
            handle: runtime.handle().clone(),
            peers: DashMap::new(),
            owners_refreshed_at: Mutex::default(),
        });
        Ok(Arc::new(Self {
            inner,
            runtime: Mutex::new(Some(runtime)),
        }))
    }

    /// Returns this node's view of ownership.
    #[must_use]
    pub fn view(&self) -> &Arc<OwnershipView> {
        &self.inner.view
    }

    pub(super) fn secrets(&self) -> &PeerSecrets {
        &self.inner.secrets
    }

    /// Returns the runtime that carries traffic between nodes.
    pub(super) fn handle(&self) -> &Handle {
        &self.inner.handle
    }

    /// Notifies the other members that this node has released shards. Never blocks.
    pub fn notify_of_release(&self) {
        for node in self.inner.view.members() {
            if node != *self.inner.view.me() {
                self.inner.change_queue(node, Queue::record_release);
            }
        }
    }

    /// Waits until all queued notifications are sent or the deadline has passed, and returns
    /// whether all were sent.
    pub async fn flush(&self, within: Duration) -> bool {
        let emptied = async {
            while !self.inner.peers.iter().all(|peer| peer.is_idle()) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(within, emptied).await.is_ok()
    }
}

impl Drop for PeerClient {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut();
        if let Some(runtime) = runtime.unwrap_or_else(PoisonError::into_inner).take() {
            // The client may be dropped inside another runtime, where blocking on its threads would
            // panic.
            runtime.shutdown_background();
        }
    }
}

#[async_trait]
impl Peers for PeerClient {
    fn forward(&self, session_id: SessionId, seq: u32, batch: PackedBatch) {
        self.inner.forward(QueuedBatch {
            session_id,
            seq,
            batch,
            was_refused: false,
        });
    }

    fn nudge(&self, nudge: Nudge) {
        let shard = match nudge {
            Nudge::Session(session_id) => session_id.shard(),
            Nudge::Tenant(tenant) | Nudge::Message(tenant, _) => tenant.organization_id.shard(),
        };
        match self.inner.remote_owner(shard) {
            Some(node) => self
                .inner
                .change_queue(node, |queue| queue.push_nudge(nudge)),
            None => {
                self.inner.refresh_owners();
                PeerMetrics::get().on_nudge(Nudged::Lost, 1);
            }
        }
    }

    async fn live(&self, session_id: SessionId) -> Result<LiveAnswer, PeerError> {
        let querying = self.query::<Live>(PeerRoute::Live, session_id, wire::encode(&session_id));
        let (events, changed_at) = querying.await?;
        Ok(LiveAnswer { events, changed_at })
    }

    async fn changes(
        &self,
        session_id: SessionId,
        number: u32,
        limit: usize,
    ) -> Result<Vec<NumberedChange>, PeerError> {
        let query = wire::encode(&ChangesQuery {
            session_id,
            number,
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
        });
        let querying = self.query::<Changes>(PeerRoute::Changes, session_id, query);
        querying.await.map(wire::numbered)
    }
}

impl PeerClient {
    /// Sends a query to the owner of a session, on the thread for traffic between nodes.
    async fn query<T: DeserializeOwned + Send + 'static>(
        &self,
        route: PeerRoute,
        session_id: SessionId,
        query: Result<Vec<u8>, wire::WireError>,
    ) -> Result<T, PeerError> {
        let node = self.inner.remote_owner(session_id.shard());
        let Some(node) = node else {
            self.inner.refresh_owners();
            return Err(PeerError::Unreachable);
        };
        let peer = self.inner.peer(node);
        let query = query.map_err(|_| PeerError::Unreachable)?;
        let inner = Arc::clone(&self.inner);
        let querying = self.inner.handle.spawn(async move {
            // Further queries would only wait for each other.
            let Ok(_permit) = peer.query_permits.try_acquire() else {
                return Err(PeerError::Unreachable);
            };
            let answer = inner.request::<Reply<T>>(&peer.name, route, query);
            match answer.await {
                Ok(Reply::Answer(answer)) => Ok(answer),
                Ok(Reply::NotOwner) => {
                    inner.refresh_owners();
                    Err(PeerError::NotOwner)
                }
                Ok(Reply::Unavailable) => Err(PeerError::Unreachable),
                Err(error) => {
                    inner.refresh_owners();
                    tracing::debug!(
                        node = peer.name.0,
                        error = error_text(&error),
                        "a request to another node failed"
                    );
                    Err(PeerError::Unreachable)
                }
            }
        });
        querying.await.unwrap_or(Err(PeerError::Unreachable))
    }
}

impl Inner {
    /// Returns the owner of a shard, if it is another node.
    fn remote_owner(&self, shard: Shard) -> Option<NodeName> {
        let owner = self.view.owner_of(shard);
        owner.filter(|owner| owner != self.view.me())
    }

    fn forward(self: &Arc<Self>, waiting: QueuedBatch) {
        match self.remote_owner(waiting.session_id.shard()) {
            Some(node) => self.change_queue(node, |queue| queue.push(waiting)),
            None => {
                self.refresh_owners();
                PeerMetrics::get().on_forward(Forwarded::NoOwner, 1);
            }
        }
    }

    /// Requests a new ownership read after a notification found no owner or the wrong one, at most
    /// once per [`OWNER_REFRESH_MIN`].
    fn refresh_owners(&self) {
        let now = Instant::now();
        let mut owners_refreshed_at = self
            .owners_refreshed_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if owners_refreshed_at.is_none_or(|at| now.duration_since(at) >= OWNER_REFRESH_MIN) {
            *owners_refreshed_at = Some(now);
            self.view.request_owner_read();
        }
    }

    fn change_queue(self: &Arc<Self>, node: NodeName, change: impl FnOnce(&mut Queue)) {
        let peer = self.peer(node);
        change(&mut peer.queue());
        peer.wake.notify_one();
    }

    /// Returns the peer with this name. Creating one removes peers that are no longer members.
    fn peer(self: &Arc<Self>, node: NodeName) -> Arc<Peer> {
        if let Some(peer) = self.peers.get(&node) {
            return Arc::clone(&peer);
        }
        let members = self.view.members();
        self.peers.retain(|name, peer| {
            let stays = *name == node || members.contains(name) || !peer.queue().is_empty();
            if !stays {
                peer.is_gone.store(true, Ordering::Release);
                peer.wake.notify_one();
            }
            stays
        });
        let entry = self.peers.entry(node.clone()).or_insert_with(|| {
            let peer = Arc::new(Peer {
                name: node,
                queue: Mutex::default(),
                wake: Notify::new(),
                is_gone: AtomicBool::new(false),
                is_busy: AtomicBool::new(false),
                query_permits: Semaphore::new(PEER_QUERIES_MAX),
            });
            self.handle
                .spawn(nudges::send_queued(Arc::downgrade(self), Arc::clone(&peer)));
            peer
        });
        Arc::clone(&entry)
    }

    /// Sends one request and reads its answer, within [`PEER_REQUEST_MS_MAX`].
    async fn request<T: DeserializeOwned>(
        &self,
        node: &NodeName,
        route: PeerRoute,
        body: Vec<u8>,
    ) -> Result<T, RequestError> {
        let begun = Instant::now();
        let answered = self.send_authenticated(node, wire::path(route), body).await;
        PeerMetrics::get().on_request(route, begun.elapsed().as_secs_f64());
        wire::decode_owned(&answered?).map_err(|_| RequestError::InvalidAnswer)
    }

    async fn send_authenticated(
        &self,
        node: &NodeName,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, RequestError> {
        let (mut nonce, digest): (Nonce, _) = (Nonce::default(), secret::digest(&body));
        porchlight_world::fill_random(&mut nonce);
        let secret = self.secrets.signing();
        let tag = secret.request(&Head {
            node: &node.0,
            method: "POST",
            path,
            nonce: &nonce,
            digest: &digest,
        });
        let sending = self
            .http
            .post(format!("http://{}{path}", node.0))
            .header(wire::NONCE, hex::encode(&nonce))
            .header(wire::DIGEST, hex::encode(&digest))
            .header(wire::TAG, hex::encode(&tag))
            .body(body)
            .send();
        let mut response = sending.await?;
        let status = response.status().as_u16();
        let tag = response.headers().get(wire::TAG);
        let tag = tag.and_then(|tag| hex::decode(tag.as_bytes()));
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if answer.len() + chunk.len() > PEER_BODY_BYTES_MAX {
                return Err(RequestError::InvalidAnswer);
            }
            answer.extend_from_slice(&chunk);
        }
        // The body of a refused request is not read.
        if status != 200 {
            return Err(RequestError::Status(status));
        }
        let expected = secret.answer(&nonce, status, &answer);
        if tag.is_some_and(|tag| secret::is_equal(&tag, &expected)) {
            Ok(answer)
        } else {
            Err(RequestError::Unauthenticated)
        }
    }

    async fn send_batches(self: &Arc<Self>, peer: &Peer, batches: Vec<QueuedBatch>) {
        let metrics = PeerMetrics::get();
        let forwarded = batches.iter().map(|waiting| ForwardedBatch {
            session_id: waiting.session_id,
            seq: waiting.seq,
            batch: waiting.batch.as_bytes(),
        });
        let Ok(body) = wire::encode(&forwarded.collect::<Vec<_>>()) else {
            return metrics.on_forward(Forwarded::Failed, batches.len());
        };
        let answered = self.request::<Vec<bool>>(&peer.name, PeerRoute::Forwarded, body);
        let accepted = match answered.await {
            Ok(accepted) if accepted.len() == batches.len() => accepted,
            Ok(_) => return metrics.on_forward(Forwarded::Failed, batches.len()),
            Err(error) => {
                self.refresh_owners();
                tracing::debug!(
                    node = peer.name.0,
                    error = error_text(&error),
                    "batches could not be forwarded"
                );
                return metrics.on_forward(Forwarded::Failed, batches.len());
            }
        };
        for (waiting, is_accepted) in batches.into_iter().zip(accepted) {
            let owner = self.remote_owner(waiting.session_id.shard());
            let has_moved = owner.is_some_and(|owner| owner != peer.name);
            if is_accepted {
                metrics.on_forward(Forwarded::Taken, 1);
            } else if has_moved && !waiting.was_refused {
                self.forward(QueuedBatch {
                    was_refused: true,
                    ..waiting
                });
            } else {
                self.refresh_owners();
                metrics.on_forward(Forwarded::Refused, 1);
            }
        }
    }
}
