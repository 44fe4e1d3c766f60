//! `POST /v1/telemetry`: batches of many sessions from a fleet's gateway, one per line, each
//! answered as a single request would be.
//!
//! Lines are processed as they arrive and answered in order. Up to [`NDJSON_LINES_IN_FLIGHT_MAX`]
//! of them wait for their commits together and share them. A separate task does the work, and the
//! answer is written as fast as the gateway reads it; a gateway that does not read is disconnected,
//! and its permits are returned.
//!
//! A node without capacity reads no further line of a request that still has lines in flight, so
//! the gateway is slowed down as by a slow network. Without lines in flight, the request waits up
//! to [`NDJSON_ROOM_MS_MAX`], and then a line is refused. The request counts against the key's
//! rate, its lines do not (contract 8: requests of one key); the node's capacity bounds them.
//!
//! After [`NDJSON_FAULTY_LINES_MAX`] lines that are refused for their content, the request ends:
//! such lines need no capacity, and a small body may unpack to millions of them.
//!
//! The answer's head waits for the first line's answer, so that an error in the whole body before
//! it has a status of its own. Later errors are reported in a last line without a session.

mod answer;
mod lines;

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use actix_web::web::{Bytes, Data};
use actix_web::{HttpResponse, rt};
use porchlight_actors::service::{AdmitError, SharePermit, Target, TenantUsage};
use porchlight_http::State;
use porchlight_http::auth::Caller;
use porchlight_http::background;
use porchlight_http::body::stream::BodyStream;
use porchlight_http::body::{self, Limits};
use porchlight_http::problem::{Code, Problem, session_not_found};
use porchlight_http::request_context::RequestContext;
use porchlight_observe::streams::{Open, StreamEnd, StreamKind, StreamMetrics};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    ANSWER_WRITTEN_MS_MAX, BATCH_SENT_BYTES_MAX, BATCH_UNPACKED_BYTES_MAX, LARGE_BODY_BYTES,
    NDJSON_FAULTY_LINES_MAX, NDJSON_LINES_IN_FLIGHT_MAX, NDJSON_ROOM_MS_MAX, SESSION_IN_FLIGHT_MAX,
};
use porchlight_schema::sample::json::{DecodeError, DecodedBatch, DecodedLine, decode_line};
use tokio::sync::mpsc::{self, Sender};

use super::format::Format;
use super::pipeline::{BufferPermit, Pipeline};
use super::telemetry::{count_unknown, not_admitted, not_decoded};
use answer::LineId;
use lines::{Line, Lines};

/// The media type of request and answer.
const MEDIA_TYPE: &str = "application/x-ndjson";
/// The maximum number of answer chunks waiting to be written.
const PIECES_WAITING_MAX: usize = 4;

/// The interval at which a waiting request checks for capacity.
const CAPACITY_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Messages from the task to the answer.
enum Piece {
    /// Answer lines to send.
    Lines(Bytes),
    /// The request was refused before the first answer.
    Refused(Problem),
    /// Every line is answered.
    End,
}

/// Processes batches, one per line. 200 with one line each, in order: `{sessionId, seq, status,
/// code?}`.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn telemetry(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let usage = call.state.service.usage(caller.require_secret_key()?);
    call.check_accept("application", "x-ndjson")?;
    let announced = body::media(call.headers(), MEDIA_TYPE, Limits::NDJSON)?;
    let line_bytes_max = if announced.is_plain() {
        BATCH_SENT_BYTES_MAX
    } else {
        BATCH_UNPACKED_BYTES_MAX
    };
    call.reject_parameters()?;
    let request = call.take_request();
    let body = announced.stream(call.payload.take(), call.state.config.body_deadlines)?;
    let gateway = Gateway {
        _request: request,
        usage,
        state: call.state,
        caller,
        body,
        lines: Lines::new(line_bytes_max),
        faulty_lines: 0,
        pipeline: Pipeline::new(),
        blocked: None,
        buffer_permit: BufferPermit::default(),
        buffer_refusal: None,
        no_capacity_since: None,
        waits_for_capacity: false,
        has_ended: false,
        failed: None,
        has_answered: false,
    };
    let (pieces, mut answered) = mpsc::channel(PIECES_WAITING_MAX);
    rt::spawn(gateway.run(pieces));
    let mut first = match answered.recv().await {
        Some(Piece::Lines(lines)) => Some(lines),
        Some(Piece::End) => None,
        Some(Piece::Refused(problem)) => return Err(problem),
        None => return Err(task_ended_early()),
    };
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)));
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    if first.is_none() {
        return Ok(response.body(Bytes::new()));
    }
    let lines = futures_util::stream::poll_fn(move |context| {
        if let Some(first) = first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        answered.poll_recv(context).map(|piece| match piece {
            Some(Piece::Lines(lines)) => Some(Ok(lines)),
            Some(Piece::End) => None,
            // The connection is cut, so that no client takes the partial answer for a complete one.
            Some(Piece::Refused(_)) | None => Some(Err(task_ended_early())),
        })
    });
    Ok(response.streaming(lines))
}

fn task_ended_early() -> Problem {
    Problem::internal("a gateway's task ended early")
}

/// The state of one request.
struct Gateway {
    _request: Option<SharePermit>,
    /// The usage of this node by the caller's tenant.
    usage: Arc<TenantUsage>,
    state: Data<State>,
    caller: Caller,
    body: BodyStream<Payload>,
    lines: Lines,
    /// The number of lines that were refused for their content.
    faulty_lines: usize,
    pipeline: Pipeline<LineKey>,
    /// A line that waits because its session, or the node, has reached its limit through this very
    /// request.
    blocked: Option<PendingBatch>,
    /// The permit to hold a long line while it arrives.
    buffer_permit: BufferPermit,
    /// The reason why the permit was refused: the line is refused after the lines before it.
    buffer_refusal: Option<AdmitError>,
    /// The time since which the node has had no capacity.
    no_capacity_since: Option<Instant>,
    /// Whether lines wait for capacity of the node.
    waits_for_capacity: bool,
    has_ended: bool,
    /// The error that ended the body early.
    failed: Option<Problem>,
    has_answered: bool,
}

/// The key of a line in the pipeline: its session, if it was found, and its identification.
type LineKey = (Option<SessionId>, LineId);

/// A batch that waits only for admission.
struct PendingBatch {
    target: Target,
    line_id: LineId,
    bytes: usize,
    batch: DecodedBatch,
}

impl Gateway {
    async fn run(mut self, pieces: Sender<Piece>) {
        let _open = Open::begin(StreamKind::Ndjson);
        let timeout = Duration::from_millis(ANSWER_WRITTEN_MS_MAX);
        let end = loop {
            let (piece, is_last) = match self.next().await {
                Ok(Some(lines)) => (Piece::Lines(lines), false),
                Ok(None) => (Piece::End, true),
                Err(problem) => (Piece::Refused(problem), true),
            };
            let sent = pieces.send_timeout(piece, timeout);
            match self.pipeline.await_with_commits(sent).await {
                Ok(()) if is_last => break StreamEnd::Finished,
                Ok(()) => {}
                // The client does not read the answer; the sender will retry the rest.
                Err(mpsc::error::SendTimeoutError::Timeout(_)) => break StreamEnd::Silent,
                Err(mpsc::error::SendTimeoutError::Closed(_)) => break StreamEnd::Gone,
            }
        };
        StreamMetrics::get().on_ended(StreamKind::Ndjson, end);
        self.pipeline.abandon();
    }

    /// Returns the next answers; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            self.process_lines().await;
            let mut out = Vec::new();
            while let Some(((_, line_id), outcome)) = self.pipeline.take_done().await {
                match outcome {
                    Ok(()) => line_id.accept(&mut out),
                    Err(problem) => line_id.refuse(&problem, &mut out),
                }
            }
            let is_last = self.has_ended && self.pipeline.is_empty() && self.blocked.is_none();
            if is_last && self.lines.is_empty() {
                match self.failed.take() {
                    Some(problem) if !self.has_answered && out.is_empty() => return Err(problem),
                    Some(problem) => LineId::unknown().refuse(&problem, &mut out),
                    None if out.is_empty() => return Ok(None),
                    None => {}
                }
            }
            if !out.is_empty() {
                self.has_answered = true;
                return Ok(Some(out.into()));
            }
            self.wait().await;
        }
    }

    /// Waits until the first line is answered or more of the body has arrived.
    async fn wait(&mut self) {
        let may_read = !self.has_ended && !self.is_full() && !self.waits_for_capacity;
        let read = tokio::select! {
            biased;
            () = self.pipeline.first_done() => return,
            () = tokio::time::sleep(CAPACITY_POLL_INTERVAL), if self.waits_for_capacity => return,
            read = self.body.read(self.lines.buffer()), if may_read => read,
        };
        match read {
            Ok(true) => {
                let held = self.lines.held_bytes() + self.body.held_bytes();
                let (service, usage) = (&self.state.service, &self.usage);
                self.buffer_refusal = self.buffer_permit.cover(service, usage, held).err();
                // A body that unpacks to many bytes must not delay other requests.
                tokio::task::yield_now().await;
            }
            Ok(false) => self.has_ended = true,
            Err(problem) => self.end_early(problem),
        }
    }

    /// Ends the request with a problem, and drops the lines that were not taken yet.
    fn end_early(&mut self, problem: Problem) {
        self.has_ended = true;
        self.failed = Some(problem);
        self.lines.discard_line();
    }

    fn is_full(&self) -> bool {
        self.pipeline.len() >= NDJSON_LINES_IN_FLIGHT_MAX || self.blocked.is_some()
    }

    /// Processes the lines that have arrived.
    async fn process_lines(&mut self) {
        if let Some(blocked) = self.blocked.take() {
            self.admit(blocked).await;
        }
        while !self.is_full() {
            self.waits_for_capacity = self.update_capacity_wait();
            if self.waits_for_capacity {
                return;
            }
            let Some(line) = self.lines.next_line(self.has_ended) else {
                return self.refuse_unbuffered_line();
            };
            match line {
                Line::TooLong => {
                    let problem = Problem::new(Code::BodyTooLarge, "The line is too long.");
                    self.refuse(LineId::unknown(), problem);
                }
                Line::Whole(line) if line.trim_ascii().is_empty() => {}
                Line::Whole(line) if line.len() > LARGE_BODY_BYTES => {
                    let line = Bytes::copy_from_slice(line);
                    self.take_large_line(line).await;
                }
                Line::Whole(line) => {
                    let bytes = line.len();
                    let read = decode_line(line);
                    self.take_line(read, bytes).await;
                }
            }
        }
    }

    /// Notes since when there is no capacity, and returns whether the next line must wait for it:
    /// reading and refusing the line would cost as much as accepting it.
    fn update_capacity_wait(&mut self) -> bool {
        if self.state.service.has_room(&self.usage) {
            self.no_capacity_since = None;
            return false;
        }
        let since = *self.no_capacity_since.get_or_insert_with(Instant::now);
        let is_patient = since.elapsed() < Duration::from_millis(NDJSON_ROOM_MS_MAX);
        !self.lines.is_empty() && (is_patient || !self.pipeline.is_empty())
    }

    fn refuse_unbuffered_line(&mut self) {
        if let Some(error) = self.buffer_refusal.take()
            && self.lines.discard_line()
        {
            self.refuse(LineId::unknown(), not_admitted(error));
        }
    }

    /// Decodes a large line on a background thread, once it has a permit.
    async fn take_large_line(&mut self, line: Bytes) {
        let (bytes, usage) = (line.len(), Arc::clone(&self.usage));
        let permit = match self
            .pipeline
            .await_with_commits(usage.acquire_large_body())
            .await
        {
            Ok(permit) => permit,
            Err(refused) => {
                return self.refuse(LineId::unknown(), not_admitted(refused.into()));
            }
        };
        let decoding = background::run(move || decode_line(&line));
        let read = self.pipeline.await_with_commits(decoding).await;
        drop(permit);
        match read {
            Ok(read) => self.take_line(read, bytes).await,
            Err(error) => self.refuse(LineId::unknown(), Problem::internal(error)),
        }
    }

    async fn take_line(&mut self, read: Result<DecodedLine, DecodeError>, bytes: usize) {
        let line = match read {
            Ok(line) => line,
            Err(error) => {
                return self.refuse(LineId::unknown(), not_decoded(Format::Json, error));
            }
        };
        let line_id = LineId::new(line.session_id, line.seq);
        let target = match self.target(line_id.session()).await {
            Ok(target) => target,
            Err(problem) => return self.refuse(line_id, problem),
        };
        match line.batch {
            Ok(batch) => {
                let pending = PendingBatch {
                    target,
                    line_id,
                    bytes,
                    batch,
                };
                self.admit(pending).await;
            }
            Err(error) => self.refuse(line_id, not_decoded(Format::Json, error)),
        }
    }

    /// Returns the session of a line, if the caller can see it.
    async fn target(&self, session: Option<&str>) -> Result<Target, Problem> {
        let session =
            session.ok_or_else(|| Problem::invalid_field("/sessionId", "must be a string"))?;
        let session_id = session.parse().map_err(|_| session_not_found())?;
        let target = self.state.service.target(session_id).await?;
        target
            .filter(|target| self.caller.can_see(target.tenant))
            .ok_or_else(session_not_found)
    }

    async fn admit(&mut self, pending: PendingBatch) {
        let session_id = pending.target.session_id;
        let own = self.pipeline.answers();
        let own = own.filter(|(session, _)| *session == Some(session_id));
        if own.count() >= SESSION_IN_FLIGHT_MAX as usize {
            self.blocked = Some(pending);
            return;
        }
        let PendingBatch {
            target,
            line_id,
            bytes,
            batch,
        } = pending;
        let admitted = self.state.service.admit(&target);
        let admitted = admitted.and_then(|mut permit| permit.grow(bytes).map(|()| permit));
        let permit = match admitted {
            Ok(permit) => permit,
            Err(AdmitError::NodeFull | AdmitError::TenantFull(_)) if !self.pipeline.is_empty() => {
                self.blocked = Some(PendingBatch {
                    target,
                    line_id,
                    bytes,
                    batch,
                });
                return;
            }
            Err(error) => return self.refuse(line_id, not_admitted(error)),
        };
        count_unknown(&batch);
        let service = self.state.service.clone();
        self.pipeline
            .begin((Some(session_id), line_id), service, target, permit, batch)
            .await;
    }

    fn refuse(&mut self, line_id: LineId, problem: Problem) {
        let status = problem.code().status();
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            self.faulty_lines += 1;
            if self.faulty_lines == NDJSON_FAULTY_LINES_MAX {
                let detail = "The body has too many lines that are refused for their content.";
                self.end_early(Problem::new(Code::BodyTooLarge, detail));
            }
        }
        self.pipeline.push_done((None, line_id), Err(problem));
    }
}
