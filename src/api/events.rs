//! `GET /v1/sessions/{id}/events`: a session's events as server-sent events (WHATWG HTML, section
//! 9.2).
//!
//! Messages are numbered from 1: one per change of the timeline, in order, then the insight, then
//! the end. The numbers are part of the session's state and survive restarts; after the end the
//! same sequence is computed from stored data. A client is therefore described by its
//! `Last-Event-ID` alone: it gets the following messages on any node, after any restart. If batches
//! came too late to be detected live, a client without a `Last-Event-ID` gets the timeline that was
//! computed from all batches instead, which is the insight's. Its messages are numbered after those
//! of the detected timeline ([`FeedChanges::after`]).
//!
//! A client that already received the end is answered with 204, which makes an `EventSource` stop
//! reconnecting.
//!
//! Nothing is queued for a client: messages are read when the connection has room. A slow client
//! costs one connection.

mod message;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use actix_web::web::{Bytes, Data};
use porchlight_actors::service::{FeedChanges, FeedState, NumberedChange, SharePermit, Watch};
use porchlight_core::privacy::SessionAccess;
use porchlight_http::State;
use porchlight_http::auth::PresentedCredential;
use porchlight_http::connections::ConnectionPermit;
use porchlight_http::observe::on_problem;
use porchlight_http::problem::{Code, Problem, share_exceeded};
use porchlight_http::request_context::RequestContext;
use porchlight_http::request_id::RequestId;
use porchlight_observe::http::Route;
use porchlight_observe::shares::Share;
use porchlight_observe::streams::{MessageOutcome, StreamEnd, StreamKind, StreamMetrics};
use porchlight_ports::{SessionRow, StoreError, StoreResult};
use porchlight_schema::limits::{EVENTS_COMMENT_MS, EVENTS_PIECE_MESSAGES_MAX};
use porchlight_schema::session::Tenant;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::path_image;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The header that keeps proxies from buffering the stream.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const COMMENT: Bytes = Bytes::from_static(b": \n\n");

/// Streams a session's events, its insight and its end. 200, or 204 for a client that already
/// received the end.
///
/// # Errors
///
/// See the module [`super`]; 429 and 503 if too many streams are open.
pub(super) async fn events(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let tenant = caller.require_secret_key()?;
    let row = call.session(&caller, call.session_id()).await?;
    call.check_accept("text", "event-stream")?;
    call.reject_parameters()?;
    let service = &call.state.service;
    if service.is_draining() {
        return Err(Problem::new(Code::Draining, "The service is stopping."));
    }
    let last_sent = last_event_id(call.headers());
    let usage = service.usage(tenant);
    let share = usage.hold(Share::EventStreams).map_err(|exceeded| {
        StreamMetrics::get().on_ended(StreamKind::Events, StreamEnd::Full);
        share_exceeded(exceeded)
    })?;
    let permit = call.state.connections.events.acquire(tenant)?;
    let mut response = HttpResponse::Ok();
    response.insert_header((CONTENT_TYPE, HeaderValue::from_static("text/event-stream")));
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    response.insert_header((ACCEL_BUFFERING, HeaderValue::from_static("no")));
    if call.http.method() == Method::HEAD {
        // A stream has no length, so the answer to HEAD names none.
        return Ok(response.streaming(futures_util::stream::empty::<Result<Bytes, Infallible>>()));
    }
    // Watching begins before the first read, so that no change is missed.
    let watch = service.watch(row.start.session_id);
    let ended = match &row.end {
        Some(end) => Some(Ended::of(
            service.feed_of_ended(&row, end).await?,
            last_sent,
        )),
        None => None,
    };
    if ended
        .as_ref()
        .is_some_and(|ended| last_sent >= ended.end_id())
    {
        return Ok(HttpResponse::NoContent().finish());
    }
    let every = Duration::from_millis(EVENTS_COMMENT_MS);
    let mut comments = interval_at(Instant::now() + every, every);
    comments.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = EventStream {
        presented: PresentedCredential::of(call.headers())?,
        image: path_image::link(&call, row.start.session_id),
        state: call.state.clone(),
        row,
        last_sent,
        ended,
        watch,
        comments,
        _permit: permit,
        _share: share,
    };
    Ok(response.streaming(futures_util::stream::unfold(
        Some(stream),
        |stream| async move {
            let mut stream = stream?;
            let piece = match stream.next().await {
                Ok(piece) => piece,
                Err(end) => {
                    StreamMetrics::get().on_ended(StreamKind::Events, end);
                    return None;
                }
            };
            Some((Ok::<_, Problem>(piece), Some(stream)))
        },
    )))
}

/// Returns the number of the last message that a client received; 0 without a valid one.
fn last_event_id(headers: &HeaderMap) -> u32 {
    let value = headers.get(LAST_EVENT_ID);
    let text = value.and_then(|value| value.to_str().ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The state of one connection.
struct EventStream {
    state: Data<State>,
    presented: PresentedCredential,
    /// The link to the path image.
    image: Option<String>,
    row: SessionRow,
    /// The number of the last message that was sent.
    last_sent: u32,
    /// The remaining messages, once the session has ended.
    ended: Option<Ended>,
    watch: Watch,
    /// The times at which a comment is sent to keep the connection open.
    comments: Interval,
    _permit: ConnectionPermit<Tenant>,
    _share: SharePermit,
}

/// The messages of a completed session that were not sent yet.
struct Ended {
    /// The number of the last message before the insight. It is the same for all clients.
    count: u32,
    remaining: VecDeque<NumberedChange>,
}

impl Ended {
    fn of(changes: FeedChanges, last_sent: u32) -> Self {
        Self {
            count: changes.count(),
            remaining: changes.after(last_sent).into(),
        }
    }

    fn insight_id(&self) -> u32 {
        self.count.saturating_add(1)
    }

    fn end_id(&self) -> u32 {
        self.count.saturating_add(2)
    }
}

impl EventStream {
    /// Returns the next output: messages, or a comment.
    async fn next(&mut self) -> Result<Bytes, StreamEnd> {
        loop {
            if self.state.service.is_draining() {
                return Err(StreamEnd::Draining);
            }
            let (mut out, before) = (Vec::new(), self.last_sent);
            if self.state.service.access(&self.row.start) != SessionAccess::Open {
                return Err(StreamEnd::Finished);
            }
            self.write_pending(&mut out).await?;
            if !out.is_empty() {
                let metrics = StreamMetrics::get();
                (before..self.last_sent)
                    .for_each(|_| metrics.on_message(StreamKind::Events, MessageOutcome::Sent));
                return Ok(out.into());
            }
            if self
                .ended
                .as_ref()
                .is_some_and(|ended| self.last_sent >= ended.end_id())
            {
                return Err(StreamEnd::Finished);
            }
            tokio::select! {
                () = self.watch.changed_anywhere() => {}
                _ = self.comments.tick() => {
                    self.check_credential().await?;
                    return Ok(COMMENT);
                }
            }
        }
    }

    async fn check_credential(&self) -> Result<(), StreamEnd> {
        let now = self.state.service.now();
        if self.state.auth.is_revoked(&self.presented, now).await {
            Err(StreamEnd::Policy)
        } else {
            Ok(())
        }
    }

    /// Writes pending messages.
    ///
    /// # Errors
    ///
    /// Returns an error if the session was removed, and if the store is unavailable: then the
    /// client reconnects and gets an error.
    async fn write_pending(&mut self, out: &mut Vec<u8>) -> Result<(), StreamEnd> {
        let failed = |error: StoreError| {
            let problem = Problem::from(error);
            on_problem(&problem, &RequestId::own(), Route::SessionEvents.as_str());
            StreamEnd::Failed
        };
        let session_id = self.row.start.session_id;
        if self.ended.is_none() {
            let service = &self.state.service;
            let feed = service.feed(session_id, self.last_sent, EVENTS_PIECE_MESSAGES_MAX);
            match feed.await.map_err(failed)? {
                Some(FeedState::Live(changes)) => {
                    changes
                        .iter()
                        .for_each(|change| self.write_change(change, out));
                    return Ok(());
                }
                Some(FeedState::Ended(end)) => {
                    self.row.end = Some(end);
                    let all = service.feed_of_ended(&self.row, &end).await;
                    self.ended = Some(Ended::of(all.map_err(failed)?, self.last_sent));
                }
                // The session was removed.
                None => return Err(StreamEnd::Finished),
            }
        }
        let Some(ended) = &mut self.ended else {
            return Ok(());
        };
        let length = ended.remaining.len().min(EVENTS_PIECE_MESSAGES_MAX);
        let piece: Vec<_> = ended.remaining.drain(..length).collect();
        piece
            .iter()
            .for_each(|change| self.write_change(change, out));
        if out.is_empty() {
            self.write_end(out).await.map_err(failed)?;
        }
        Ok(())
    }

    fn write_change(&mut self, change: &NumberedChange, out: &mut Vec<u8>) {
        self.last_sent = change.number.saturating_add(1);
        message::event(out, self.last_sent, self.row.start.session_id, change);
    }

    /// Writes the insight once it exists, and the end.
    async fn write_end(&mut self, out: &mut Vec<u8>) -> StoreResult<()> {
        let (Some(ended), Some(end)) = (&self.ended, &self.row.end) else {
            return Ok(());
        };
        if self.last_sent < ended.insight_id() {
            let insight = self.state.service.scored(self.row.start.session_id).await?;
            let Some(insight) = insight else {
                return Ok(());
            };
            self.last_sent = ended.insight_id();
            message::insight(
                out,
                self.last_sent,
                &self.row.start,
                &insight,
                self.image.clone(),
            );
        }
        if self.last_sent < ended.end_id() {
            self.last_sent = ended.end_id();
            message::end(out, self.last_sent, &self.row.start, end);
        }
        Ok(())
    }
}
