//! The listener for other nodes: HTTP/2 on `cluster.listen`. A request without a valid tag is
//! answered 401 before its body is read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_observe::peer::{PeerAnswer, PeerMetrics, PeerRoute};
use porchlight_ports::{LiveAnswer, PeerError};
use porchlight_schema::hex;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    EVENTS_PIECE_MESSAGES_MAX, PEER_BODY_BYTES_MAX, PEER_QUERIES_MAX, PEER_REQUEST_MS_MAX,
};
use porchlight_schema::sample::packed::PackedBatch;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::PeerClient;
use super::secret::{self, Head, Nonce, PeerSecret, Tag};
use super::wire::{self, ChangesQuery, ForwardedBatch, Messages, Nudges, Reply, WireError};

/// The maximum number of connections. It leaves room for connections of restarted nodes that are
/// not yet known to be dead.
const CONNECTIONS_MAX: usize = 256;
/// The maximum number of concurrent requests per connection: queries, plus some notifications.
const STREAMS_MAX: u32 = PEER_QUERIES_MAX as u32 + 16;
/// The flow-control window in bytes, per request and per connection.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// The maximum size of a request head in bytes.
const HEAD_BYTES_MAX: u32 = 4 * 1024;
/// The pause after a failed accept, usually for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The time after which a connection without traffic is closed. It exceeds the client's keep-alive
/// interval.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// The deadline for one request, from its first byte to the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(PEER_REQUEST_MS_MAX);

/// The running listener for other nodes.
#[derive(Debug)]
pub struct PeerServer {
    /// The address on which the server listens.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
}

/// The dependencies of the request handlers.
struct State {
    client: Arc<PeerClient>,
    service: Service,
    webhooks: Webhooks,
}

/// A request that passed authentication and whose body has not been read.
struct Admitted<'a> {
    route: PeerRoute,
    /// The announced SHA-256 of the body.
    digest: [u8; 32],
    /// The secret that authenticates the request and its answer.
    secret: &'a PeerSecret,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Unauthorized,
    NotFound,
    TooLarge,
    Invalid,
}

impl From<WireError> for Refusal {
    fn from(_: WireError) -> Self {
        Self::Invalid
    }
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Invalid => StatusCode::BAD_REQUEST,
        }
    }

    fn answer(self) -> PeerAnswer {
        match self {
            Self::Unauthorized => PeerAnswer::Unauthorized,
            Self::NotFound | Self::TooLarge | Self::Invalid => PeerAnswer::Invalid,
        }
    }
}

impl PeerServer {
    /// Listens on `address` (`host:port`) until stopped or dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound.
    pub async fn start(
        address: &str,
        client: Arc<PeerClient>,
        service: Service,
        webhooks: Webhooks,
    ) -> anyhow::Result<Self> {
        let handle = client.handle().clone();
        let requested = address.to_owned();
        // The socket must be registered with the runtime that serves it.
        let bound = handle.spawn(async move { TcpListener::bind(requested).await });
        let listener = bound
            .await?
            .with_context(|| format!("cluster.listen: {address} cannot be bound"))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let state = Arc::new(State {
            client,
            service,
            webhooks,
        });
        handle.spawn(listen(listener, state, stopped));
        Ok(Self { address, stop })
    }

    /// Stops accepting requests.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

async fn listen(listener: TcpListener, state: Arc<State>, mut stopped: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // The tasks of connections end when this set is dropped.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // The server was stopped or dropped.
            _ = stopped.changed() => return,
            Some(_ended) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            continue;
        };
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let _permit = permit;
            if let Err(error) = serve_connection(socket, &state).await {
                tracing::debug!(error = format!("{error:#}"), "a node's connection ended");
            }
        });
    }
}

async fn serve_connection(socket: TcpStream, state: &Arc<State>) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(HEAD_BYTES_MAX);
    let mut connection = timeout(REQUEST_TIMEOUT, builder.handshake::<_, Bytes>(socket)).await??;
    // Requests end with their connection, because the answer could not be delivered.
    let mut requests = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = timeout(IDLE_TIMEOUT, connection.accept()) => accepted,
            Some(_ended) = requests.join_next() => continue,
        };
        let Ok(Some(accepted)) = accepted else {
            return Ok(());
        };
        let (request, respond) = accepted?;
        requests.spawn(serve_request(request, respond, Arc::clone(state)));
    }
}

async fn serve_request(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    state: Arc<State>,
) {
    if timeout(REQUEST_TIMEOUT, state.respond(request, &mut respond))
        .await
        .is_err()
    {
        respond.send_reset(Reason::CANCEL);
    }
}

fn header_bytes<const N: usize>(headers: &HeaderMap, name: &str) -> Option<[u8; N]> {
    hex::decode(headers.get(name)?.as_bytes())
}

impl State {
    async fn respond(&self, request: Request<RecvStream>, respond: &mut SendResponse<Bytes>) {
        let (head, body) = request.into_parts();
        let nonce = header_bytes(&head.headers, wire::NONCE).unwrap_or_default();
        let (status, body, tag) = match self.compute_answer(&head, &nonce, body).await {
            Ok((body, tag)) => {
                PeerMetrics::get().on_answer(PeerAnswer::Ok);
                (StatusCode::OK, body, Some(tag))
            }
            Err(refusal) => {
                PeerMetrics::get().on_answer(refusal.answer());
                tracing::debug!(
                    path = head.uri.path(),
                    ?refusal,
                    "a node's request was refused"
                );
                (refusal.status(), Vec::new(), None)
            }
        };
        let mut response = Response::builder().status(status);
        if let Some(tag) = tag {
            response = response.header(wire::TAG, hex::encode(&tag));
        }
        // The connection may be gone; then the answer has no recipient.
        let sent = response
            .body(())
            .ok()
            .and_then(|response| respond.send_response(response, body.is_empty()).ok());
        if let Some(mut stream) = sent
            && !body.is_empty()
        {
            let _sent = stream.send_data(body.into(), true);
        }
    }

    /// Computes the answer to a request, and its tag.
    async fn compute_answer(
        &self,
        head: &http::request::Parts,
        nonce: &Nonce,
        body: RecvStream,
    ) -> Result<(Vec<u8>, Tag), Refusal> {
        let admitted = self.admit(head, nonce)?;
        let body = read(body, &admitted.digest).await?;
        let body = self.answer(admitted.route, &body).await?;
        let status = StatusCode::OK.as_u16();
        let tag = admitted.secret.answer(nonce, status, &body);
        Ok((body, tag))
    }

    /// Authenticates a request and determines its route.
    fn admit(&self, head: &http::request::Parts, nonce: &Nonce) -> Result<Admitted<'_>, Refusal> {
        let given: Tag = header_bytes(&head.headers, wire::TAG).ok_or(Refusal::Unauthorized)?;
        let digest = header_bytes(&head.headers, wire::DIGEST).ok_or(Refusal::Unauthorized)?;
        let signed = Head {
            node: &self.client.view().me().0,
            method: head.method.as_str(),
            path: head.uri.path(),
            nonce,
            digest: &digest,
        };
        let secret = self.client.secrets().verify_request(&given, &signed);
        let secret = secret.ok_or(Refusal::Unauthorized)?;
        let is_requested = |route: &&PeerRoute| {
            head.method == Method::POST && wire::path(**route) == head.uri.path()
        };
        let route = PeerRoute::ALL.iter().find(is_requested);
        Ok(Admitted {
            route: *route.ok_or(Refusal::NotFound)?,
            digest,
            secret,
        })
    }

    async fn answer(&self, route: PeerRoute, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let answer = match route {
            PeerRoute::Forwarded => wire::encode(&self.accept_forwarded(wire::decode(body)?)),
            PeerRoute::Nudge => {
                self.nudge(wire::decode_owned(body)?);
                wire::encode(&())
            }
            PeerRoute::Messages => {
                let messages: Messages = wire::decode_owned(body)?;
                for (tenant, session_id) in messages {
                    self.webhooks.on_message_nudge(tenant, session_id);
                }
                wire::encode(&())
            }
            PeerRoute::Live => {
                let session_id: SessionId = wire::decode_owned(body)?;
                let live = self.service.live(session_id).await;
                let live = live.map(|LiveAnswer { events, changed_at }| (events, changed_at));
                encode_reply(live)
            }
            PeerRoute::Changes => {
                let ChangesQuery {
                    session_id,
                    number,
                    limit,
                } = wire::decode_owned(body)?;
                let limit = (limit as usize).min(EVENTS_PIECE_MESSAGES_MAX);
                let changes = self.service.changes(session_id, number, limit).await;
                encode_reply(changes.map(wire::changes))
            }
        };
        Ok(answer?)
    }

    /// Passes forwarded batches to their sessions. Returns for each batch whether this node owns
    /// the session.
    fn accept_forwarded(&self, batches: Vec<ForwardedBatch<'_>>) -> Vec<bool> {
        let accept = |forwarded: ForwardedBatch<'_>| {
            let ForwardedBatch {
                session_id,
                seq,
                batch,
            } = forwarded;
            // A batch that cannot be decoded stays in the journal only.
            PackedBatch::from_bytes(Arc::from(batch))
                .is_ok_and(|batch| self.service.accept_forwarded(session_id, seq, batch))
        };
        batches.into_iter().map(accept).collect()
    }

    fn nudge(&self, nudges: Nudges) {
        let Nudges {
            sessions,
            tenants,
            has_released,
        } = nudges;
        for session_id in sessions {
            self.service.queue_reconcile(session_id);
        }
        for tenant in tenants {
            self.webhooks.on_nudge(tenant);
        }
        if has_released {
            self.client.view().request_owner_read();
        }
    }
}

fn encode_reply<T: Serialize>(answered: Result<T, PeerError>) -> Result<Vec<u8>, WireError> {
    wire::encode(&match answered {
        Ok(answer) => Reply::Answer(answer),
        Err(PeerError::NotOwner) => Reply::NotOwner,
        Err(PeerError::Unreachable) => Reply::Unavailable,
    })
}

/// Reads a body and verifies the announced digest.
async fn read(mut body: RecvStream, digest: &[u8; 32]) -> Result<Vec<u8>, Refusal> {
    let mut read = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(|_| Refusal::Invalid)?;
        if read.len() + chunk.len() > PEER_BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        read.extend_from_slice(&chunk);
        // If the stream has ended, the next chunk reports it.
        let _released = body.flow_control().release_capacity(chunk.len());
    }
    if secret::is_equal(&secret::digest(&read), digest) {
        Ok(read)
    } else {
        Err(Refusal::Unauthorized)
    }
}
