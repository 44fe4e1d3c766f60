//! Signals that a live session has changed, at most once a second; the page then fetches itself
//! again. The signal carries no data, so that a page and its stream can never disagree.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::{Bytes, Data};
use futures_util::stream::unfold;
use porchlight_actors::service::InsightState;
use porchlight_http::State;
use porchlight_http::problem::{Code, Problem};
use porchlight_schema::ids::SessionId;

use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::super::streams::{StreamPermit, event_stream, is_key_valid};

/// The interval between polls for a change.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The number of polls without a change after which a comment keeps the connection open; the key is
/// checked again at the same interval.
const QUIET_POLLS: u32 = 15;
/// The number of polls (an hour) after which a stream ends and the browser opens a new one.
const POLLS_MAX: u32 = 3_600;

/// Returns the address of a session's stream.
pub(super) fn address(session_id: SessionId) -> String {
    format!("{ROOT}/sessions/{session_id}/live")
}

/// The values that are compared to detect a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LiveState {
    newest: Option<u32>,
    has_ended: bool,
    revision: Option<u32>,
    events: usize,
}

struct LivePoll {
    state: Data<State>,
    session_id: SessionId,
    key_hash: [u8; 32],
    last: Option<LiveState>,
    quiet: u32,
    polls: u32,
    is_over: bool,
    _permit: StreamPermit,
}

pub(super) async fn stream(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let row = request.session().await?;
    let permit = request.open_stream()?;
    let poll = LivePoll {
        session_id: row.start.session_id,
        key_hash: request.ticket.key_hash,
        state: request.state,
        last: None,
        quiet: 0,
        polls: 0,
        is_over: false,
        _permit: permit,
    };
    let signals = unfold(poll, |poll| async move { poll.next().await });
    Ok(event_stream(signals))
}

impl LivePoll {
    /// Returns the next signal and the state for the following one.
    async fn next(mut self) -> Option<(Result<Bytes, Problem>, Self)> {
        loop {
            if self.is_over || self.polls >= POLLS_MAX || self.state.service.is_draining() {
                return None;
            }
            if self.last.is_some() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            self.polls += 1;
            let current = match self.read_state().await {
                Ok(current) => current,
                // The session was removed or restricted: the page fetches nothing new.
                Err(problem) if problem.code() == Code::SessionNotFound => return None,
                // The next poll retries a failed read.
                Err(_) => continue,
            };
            let is_first = self.last.is_none();
            let has_changed = self.last != Some(current);
            self.last = Some(current);
            self.is_over = current.revision.is_some();
            if self.is_over {
                return Some((Ok(Bytes::from_static(b"event: end\ndata: {}\n\n")), self));
            }
            if is_first {
                // The page has just been rendered; it only waits for the connection to open.
                return Some((Ok(Bytes::from_static(b"event: open\ndata: {}\n\n")), self));
            }
            if has_changed {
                self.quiet = 0;
                return Some((
                    Ok(Bytes::from_static(b"event: changed\ndata: {}\n\n")),
                    self,
                ));
            }
            self.quiet += 1;
            if self.quiet >= QUIET_POLLS {
                self.quiet = 0;
                return Some((Ok(Bytes::from_static(b": keep-alive\n\n")), self));
            }
        }
    }

    async fn read_state(&mut self) -> Result<LiveState, Problem> {
        let service = &self.state.service;
        if self.polls % QUIET_POLLS == 1 && !is_key_valid(&self.state, self.key_hash).await {
            // The stream ends with the signal that is in preparation.
            self.polls = POLLS_MAX;
        }
        let Some(row) = service.find_shown(self.session_id).await? else {
            return Err(porchlight_http::problem::session_not_found());
        };
        let newest = service.of(row.start.tenant).newest(&row).await?;
        let (revision, events) = match service.insight(&row).await? {
            InsightState::Scored(stored) => (Some(stored.record.revision), 0),
            InsightState::Processing { events, .. } => (None, events.len()),
        };
        Ok(LiveState {
            newest: newest.map(|(seq, _)| seq),
            has_ended: row.end.is_some(),
            revision,
            events,
        })
    }
}
