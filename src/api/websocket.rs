//! GET `/v1/sessions/{id}/telemetry` as a WebSocket (RFC 6455): one batch per message, one answer
//! each, in order.
//!
//! A text message is a batch as JSON and is answered with `{"ackSeq": 17}`; a binary message is a
//! batch as protobuf and is answered with an `AckSeq`. A refused batch is answered with its
//! problem, as text, and the connection stays open. As many batches are in flight as one session
//! may have; the next is read when one of them is answered. The upgrade counts against the
//! credential's rate, batches do not: the session's limit bounds them.
//!
//! | close code | reason |
//! |---|---|
//! | 1000 | the session has ended; earlier messages are answered first |
//! | 1001 | the node is stopping |
//! | 1002 | the input is not a WebSocket message |
//! | 1008 | the credential was revoked, or nothing arrived for [`SOCKET_SILENCE_MS_MAX`], including pongs |
//! | 1009 | a message is larger than a batch may be |
//! | 1013 | the node has no capacity for a long message: retry |
//!
//! A socket that is opened after the session's end accepts late telemetry as over HTTP.

mod announced;
mod closing;
mod received;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix_http::ws::{Codec, Frame, HandshakeError, Item, Message, hash_key, verify_handshake};
use actix_web::body::BodyStream;
use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use actix_web::web::{Bytes, BytesMut, Data};
use actix_web::{HttpRequest, HttpResponse, rt};
use futures_util::{FutureExt, StreamExt};
use porchlight_actors::service::{Permit, SharePermit, Target, TenantUsage, Watch};
use porchlight_http::State;
use porchlight_http::auth::{Caller, PresentedCredential};
use porchlight_http::connections::ConnectionPermit;
use porchlight_http::observe::on_problem;
use porchlight_http::problem::{Code, Problem, session_not_found, share_exceeded};
use porchlight_http::queue_delay;
use porchlight_http::request_context::RequestContext;
use porchlight_http::request_id::RequestId;
use porchlight_observe::http::Route;
use porchlight_observe::shares::Share;
use porchlight_observe::streams::{MessageOutcome, StreamEnd, StreamKind, StreamMetrics};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    ANSWER_WRITTEN_MS_MAX, BATCH_SENT_BYTES_MAX, LARGE_BODY_BYTES, SESSION_IN_FLIGHT_MAX,
    SOCKET_CLOSING_MS_MAX, SOCKET_PING_MS, SOCKET_SILENCE_MS_MAX,
};
use porchlight_schema::sample::json::DecodedBatch;
use porchlight_schema::sample::proto;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::codec::Encoder;

use super::format::Format;
use super::pipeline::{BufferPermit, Pipeline};
use super::telemetry::{decode, decode_body, not_admitted};
use closing::Closing;
use received::Received;

/// The maximum number of answer chunks waiting to be written.
const PIECES_WAITING_MAX: usize = 4;
/// The maximum payload of a ping or pong in bytes (RFC 6455, section 5.5).
const CONTROL_BYTES_MAX: usize = 125;

/// Opens a WebSocket. 101; 426 for a request without an upgrade.
///
/// # Errors
///
/// See the module [`super`]; 429 and 503 if too many are open.
pub(super) async fn upgrade(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let session_id = call.session_id();
    caller.check_may_act_on(session_id)?;
    let session_id = session_id.ok_or_else(session_not_found)?;
    let service = &call.state.service;
    let target = service.target(session_id).await?;
    let target = target
        .filter(|target| caller.can_see(target.tenant))
        .ok_or_else(session_not_found)?;
    caller.check_expiry(target.end.as_ref(), service.now())?;
    let accept = accept(&call.http)?;
    call.reject_parameters()?;
    if service.is_draining() {
        return Err(Problem::new(Code::Draining, "The service is stopping."));
    }
    let permit = call.state.connections.sockets.acquire(session_id)?;
    let share = target.usage().hold(Share::Sockets);
    let share = share.map_err(|exceeded| {
        StreamMetrics::get().on_ended(StreamKind::Websocket, StreamEnd::Full);
        share_exceeded(exceeded)
    })?;
    let presented = PresentedCredential::of(call.headers())?;
    let (out, mut frames) = mpsc::channel(PIECES_WAITING_MAX);
    let socket = Socket {
        watch: service.watch(session_id),
        presented,
        payload: call.payload,
        state: call.state,
        caller,
        session_id,
        usage: Arc::clone(target.usage()),
        was_live: target.end.is_none(),
        codec: Codec::new().max_size(BATCH_SENT_BYTES_MAX),
        received: Received::default(),
        partial: None,
        pipeline: Pipeline::new(),
        buffer_permit: BufferPermit::default(),
        received_at: Instant::now(),
        out,
    };
    rt::spawn(socket.run(permit, share));
    let frames = futures_util::stream::poll_fn(move |context| {
        let frame = frames.poll_recv(context);
        frame.map(|frame: Option<Bytes>| frame.map(Ok::<_, Problem>))
    });
    Ok(HttpResponse::build(StatusCode::SWITCHING_PROTOCOLS)
        .upgrade("websocket")
        .insert_header((SEC_WEBSOCKET_ACCEPT, accept))
        .body(BodyStream::new(frames)))
}

/// Returns the header that confirms the upgrade to the client.
fn accept(request: &HttpRequest) -> Result<HeaderValue, Problem> {
    let required = |detail: &str| {
        Problem::new(Code::UpgradeRequired, detail)
            .with_header(UPGRADE, HeaderValue::from_static("websocket"))
    };
    verify_handshake(request.head()).map_err(|error| match error {
        HandshakeError::NoVersionHeader | HandshakeError::UnsupportedVersion => {
            required("Only version 13 of the WebSocket protocol is supported.")
                .with_header(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))
        }
        HandshakeError::BadWebsocketKey => Problem::new(
            Code::BadRequest,
            "Sec-WebSocket-Key must be 16 bytes in base64.",
        ),
        _ => required("Telemetry is sent with POST, or over a WebSocket."),
    })?;
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    let hash = hash_key(key.map_or(&[], HeaderValue::as_bytes));
    HeaderValue::from_bytes(&hash).map_err(Problem::internal)
}

/// The state of one connection.
struct Socket {
    state: Data<State>,
    caller: Caller,
    presented: PresentedCredential,
    session_id: SessionId,
    /// The usage of this node by the session's tenant.
    usage: Arc<TenantUsage>,
    /// Whether the session was live when the socket was opened: then its end closes the socket.
    was_live: bool,
    payload: Payload,
    codec: Codec,
    received: Received,
    /// A message of which some frames have not arrived.
    partial: Option<(Format, BytesMut)>,
    pipeline: Pipeline<(Format, u32)>,
    buffer_permit: BufferPermit,
    watch: Watch,
    received_at: Instant,
    out: Sender<Bytes>,
}

impl Socket {
    async fn run(mut self, _permit: ConnectionPermit<SessionId>, _share: SharePermit) {
        let closing = self.serve().await;
        StreamMetrics::get().on_ended(StreamKind::Websocket, closing.end());
        if let Some(reason) = closing.reason()
            && self.send([Message::Close(Some(reason))]).await.is_ok()
            && closing.needs_answer()
        {
            let timeout_after = Duration::from_millis(SOCKET_CLOSING_MS_MAX);
            // The connection is closed in any case.
            let _answered = timeout(timeout_after, self.wait_until_closed()).await;
        }
        self.pipeline.abandon();
    }

    /// Receives and answers messages until there is a reason to close.
    async fn serve(&mut self) -> Closing {
        let every = Duration::from_millis(SOCKET_PING_MS);
        let mut pings = interval_at(Instant::now() + every, every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closing = self.check_session().await;
        loop {
            if let Some(closing) = closing {
                return self.finish(closing).await;
            }
            closing = match self.process_frames().await {
                None => {
                    let may_read = self.has_capacity();
                    tokio::select! {
                        biased;
                        () = self.pipeline.first_done() => self.answer().await.err(),
                        chunk = self.payload.next(), if may_read => match chunk {
                            Some(Ok(chunk)) => self.receive(&chunk),
                            _ => return Closing::Gone,
                        },
                        () = self.watch.changed() => self.check_session().await,
                        _ = pings.tick() => self.send_ping().await,
                    }
                }
                closing => closing,
            };
        }
    }

    /// Answers batches in flight and, if the session has ended, messages that the client sent
    /// before it could know of the end.
    async fn finish(&mut self, closing: Closing) -> Closing {
        loop {
            if !self.pipeline.is_empty() {
                self.pipeline.first_done().await;
                if let Err(closing) = self.answer().await {
                    return closing;
                }
            } else if !matches!(closing, Closing::Ended) {
                return closing;
            } else if let Some(closing) = self.process_frames().await {
                return closing;
            } else if self.pipeline.is_empty() {
                match self.payload.next().now_or_never() {
                    Some(Some(Ok(chunk))) => {
                        if let Some(closing) = self.receive(&chunk) {
                            return closing;
                        }
                    }
                    _ => return closing,
                }
            }
        }
    }

    async fn check_session(&self) -> Option<Closing> {
        let service = &self.state.service;
        if service.is_draining() {
            Some(Closing::Draining)
        } else if self.was_live && !service.still_records(self.session_id).await {
            Some(Closing::Ended)
        } else {
            None
        }
    }

    async fn send_ping(&mut self) -> Option<Closing> {
        if self.received_at.elapsed() > Duration::from_millis(SOCKET_SILENCE_MS_MAX) {
            return Some(Closing::Silent);
        }
        let now = self.state.service.now();
        if self.state.auth.is_revoked(&self.presented, now).await {
            return Some(Closing::Revoked);
        }
        // If the session ends on another node, nothing wakes this task.
        let closing = self.check_session().await;
        if closing.is_some() {
            return closing;
        }
        self.send([Message::Ping(Bytes::new())]).await.err()
    }

    fn receive(&mut self, chunk: &[u8]) -> Option<Closing> {
        self.received_at = Instant::now();
        self.received.push(chunk);
        let partial = self.partial.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let held = self.received.len() + partial;
        let covered = self
            .buffer_permit
            .cover(&self.state.service, &self.usage, held);
        covered.is_err().then_some(Closing::NoCapacity)
    }

    fn has_capacity(&self) -> bool {
        self.pipeline.len() < SESSION_IN_FLIGHT_MAX as usize
    }

    /// Processes the frames that have arrived.
    async fn process_frames(&mut self) -> Option<Closing> {
        while self.has_capacity() {
            let closing = match self.received.take_frame(&mut self.codec) {
                Ok(Some(frame)) => self.handle_frame(frame).await,
                Ok(None) if self.will_be_too_large() => Some(Closing::TooLarge),
                Ok(None) => return None,
                Err(error) => Some(Closing::of(&error)),
            };
            if closing.is_some() {
                return closing;
            }
        }
        None
    }

    /// Returns whether the arriving frame makes its message larger than a batch may be.
    fn will_be_too_large(&self) -> bool {
        let partial = self.partial.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let left = BATCH_SENT_BYTES_MAX.saturating_sub(partial) as u64;
        self.received
            .announced_bytes()
            .is_some_and(|length| length > left)
    }

    async fn handle_frame(&mut self, frame: Frame) -> Option<Closing> {
        match frame {
            Frame::Text(text) => return self.begin_batch(Format::Json, text).await.err(),
            Frame::Binary(bytes) => return self.begin_batch(Format::Protobuf, bytes).await.err(),
            Frame::Continuation(item) => return self.continuation(item).await,
            Frame::Ping(bytes) if bytes.len() > CONTROL_BYTES_MAX => return Some(Closing::Broken),
            Frame::Ping(bytes) => return self.send([Message::Pong(bytes)]).await.err(),
            Frame::Pong(_) => {}
            Frame::Close(reason) => return Some(Closing::ByPeer(reason)),
        }
        None
    }

    async fn continuation(&mut self, item: Item) -> Option<Closing> {
        let (bytes, is_last) = match item {
            Item::FirstText(bytes) => {
                self.partial = Some((Format::Json, BytesMut::new()));
                (bytes, false)
            }
            Item::FirstBinary(bytes) => {
                self.partial = Some((Format::Protobuf, BytesMut::new()));
                (bytes, false)
            }
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        let Some((_, partial)) = &mut self.partial else {
            return Some(Closing::Broken);
        };
        if partial.len() + bytes.len() > BATCH_SENT_BYTES_MAX {
            return Some(Closing::TooLarge);
        }
        partial.extend_from_slice(&bytes);
        if is_last && let Some((format, message)) = self.partial.take() {
            return self.begin_batch(format, message.freeze()).await.err();
        }
        None
    }

    /// Starts one batch; it is answered in order. While a large one waits for its turn, the batches
    /// before it are answered.
    async fn begin_batch(&mut self, format: Format, bytes: Bytes) -> Result<(), Closing> {
        let (state, caller) = (self.state.clone(), self.caller.clone());
        let mut admitting = pin!(admit(state, caller, self.session_id, format, bytes));
        let admitted = loop {
            tokio::select! {
                biased;
                admitted = &mut admitting => break admitted,
                () = self.pipeline.first_done() => {}
            }
            // A permit for a large body must not wait for a client that does not read its answers.
            let mut admitted = None;
            let mut answering = pin!(self.answer());
            let answered = poll_fn(|context| {
                if admitted.is_none()
                    && let Poll::Ready(done) = admitting.as_mut().poll(context)
                {
                    admitted = Some(done);
                }
                answering.as_mut().poll(context)
            });
            answered.await?;
            if let Some(admitted) = admitted {
                break admitted;
            }
        };
        match admitted {
            Ok((target, permit, batch)) => {
                let service = self.state.service.clone();
                let answer = (format, batch.seq);
                self.pipeline
                    .begin(answer, service, target, permit, batch)
                    .await;
            }
            Err(problem) => self.pipeline.push_done((format, 0), Err(problem)),
        }
        Ok(())
    }

    /// Sends the answers that are ready.
    async fn answer(&mut self) -> Result<(), Closing> {
        let mut answers = Vec::new();
        while let Some(((format, seq), outcome)) = self.pipeline.take_done().await {
            let metrics = StreamMetrics::get();
            answers.push(match (outcome, format) {
                (Ok(()), format) => {
                    metrics.on_message(StreamKind::Websocket, MessageOutcome::Accepted);
                    match format {
                        Format::Json => Message::Text(format!("{{\"ackSeq\":{seq}}}").into()),
                        Format::Protobuf => Message::Binary(proto::encode_ack(None, seq).into()),
                    }
                }
                (Err(problem), _) => {
                    metrics.on_message(StreamKind::Websocket, MessageOutcome::Refused);
                    // Each problem has an id of its own, because it does not answer the request
                    // that opened the socket.
                    let id = RequestId::own();
                    on_problem(&problem, &id, Route::SessionTelemetry.as_str());
                    Message::Text(problem.of_request(id).to_json().into())
                }
            });
        }
        self.send(answers).await
    }

    async fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Result<(), Closing> {
        let mut out = BytesMut::new();
        for message in messages {
            let encoded = self.codec.encode(message, &mut out);
            encoded.map_err(|error| Closing::of(&error))?;
        }
        if out.is_empty() {
            return Ok(());
        }
        let timeout = Duration::from_millis(ANSWER_WRITTEN_MS_MAX);
        let sent = self.out.send_timeout(out.freeze(), timeout);
        let sent = self.pipeline.await_with_commits(sent).await;
        sent.map_err(|_| Closing::Gone)
    }

    /// Waits until the peer has closed as well.
    async fn wait_until_closed(&mut self) {
        while let Some(Ok(chunk)) = self.payload.next().await {
            self.received.clear();
            self.received.push(&chunk);
            if let Ok(Some(Frame::Close(_))) = self.received.take_frame(&mut self.codec) {
                return;
            }
        }
    }
}

/// Admits and decodes a batch of a session.
///
/// # Errors
///
/// Returns 401 for an expired token; 404; 429; 503; 400, 413 and 422 for a batch that cannot be
/// decoded.
async fn admit(
    state: Data<State>,
    caller: Caller,
    session_id: SessionId,
    format: Format,
    bytes: Bytes,
) -> Result<(Target, Permit, DecodedBatch), Problem> {
    let service = &state.service;
    let target = service.target(session_id).await?;
    let target = target.ok_or_else(session_not_found)?;
    caller.check_expiry(target.end.as_ref(), service.now())?;
    let permit = service.admit(&target).map_err(not_admitted)?;
    let mut permit = permit.with_queue_delay(queue_delay::current());
    permit.grow(bytes.len()).map_err(not_admitted)?;
    let batch = if bytes.len() > LARGE_BODY_BYTES {
        decode_body(format, bytes.into(), &mut permit).await?
    } else {
        decode(format, &bytes)?
    };
    Ok((target, permit, batch))
}
