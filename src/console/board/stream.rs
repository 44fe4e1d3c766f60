//! The stream behind the live board: first all sessions, then the changes every few seconds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::{Bytes, Data};
use futures_util::stream::unfold;
use porchlight_http::State;
use porchlight_http::problem::Problem;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::BOARD_REFRESH_MS;
use porchlight_schema::session::Tenant;
use serde::Serialize;

use super::super::live_sessions::{Entry, Snapshot};
use super::super::signed_in::SignedInRequest;
use super::super::state::Console;
use super::super::streams::{StreamPermit, event_stream, is_key_valid};

/// The number of refreshes after which the key is checked again.
const REFRESHES_PER_KEY_CHECK: u32 = 8;
/// The number of refreshes (an hour) after which a stream ends and the browser opens a new one.
const REFRESHES_MAX: u32 = 1_800;

/// The changes since the last message.
#[derive(Serialize)]
struct Changes<'a> {
    /// The time of the service, in milliseconds since 1970.
    now: i64,
    /// Whether `put` lists all sessions, as in the first message of a stream.
    all: bool,
    /// Sessions that are new or have changed.
    put: Vec<&'a Entry>,
    /// Sessions that have ended.
    gone: Vec<SessionId>,
    /// Whether there are more sessions than the board shows.
    more: bool,
}

struct BoardStream {
    state: Data<State>,
    console: Data<Console>,
    tenant: Tenant,
    key_hash: [u8; 32],
    sent: HashMap<SessionId, Arc<Entry>>,
    refreshes: u32,
    _permit: StreamPermit,
}

pub(super) async fn stream(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let tenant = request.tenant();
    let permit = request.open_stream()?;
    let board = BoardStream {
        tenant,
        key_hash: request.ticket.key_hash,
        state: request.state,
        console: request.console,
        sent: HashMap::new(),
        refreshes: 0,
        _permit: permit,
    };
    let messages = unfold(board, |board| async move { board.next().await });
    Ok(event_stream(messages))
}

impl BoardStream {
    /// Returns the next message and the state for the following one. A message without changes
    /// keeps the connection open and carries the current time.
    async fn next(mut self) -> Option<(Result<Bytes, Problem>, Self)> {
        loop {
            if self.refreshes >= REFRESHES_MAX || self.state.service.is_draining() {
                return None;
            }
            if self.refreshes > 0 {
                tokio::time::sleep(Duration::from_millis(BOARD_REFRESH_MS.unsigned_abs())).await;
            }
            if self.refreshes % REFRESHES_PER_KEY_CHECK == REFRESHES_PER_KEY_CHECK - 1
                && !is_key_valid(&self.state, self.key_hash).await
            {
                return None;
            }
            self.refreshes += 1;
            let service = &self.state.service;
            // The next refresh retries a failed read.
            let Ok(snapshot) = self.console.boards.of(service, self.tenant).await else {
                continue;
            };
            let message = self.message(&snapshot)?;
            return Some((Ok(message), self));
        }
    }

    fn message(&mut self, snapshot: &Snapshot) -> Option<Bytes> {
        let put: Vec<_> = snapshot
            .entries
            .values()
            .filter(|entry| self.sent.get(&entry.id) != Some(entry))
            .cloned()
            .collect();
        let is_gone = |id: &&SessionId| !snapshot.entries.contains_key(id);
        let gone: Vec<_> = self.sent.keys().filter(is_gone).copied().collect();
        for id in &gone {
            self.sent.remove(id);
        }
        let changes = Changes {
            now: self.state.service.now().0,
            all: self.sent.is_empty(),
            put: put.iter().map(AsRef::as_ref).collect(),
            gone,
            more: snapshot.is_truncated,
        };
        let json = serde_json::to_string(&changes).ok()?;
        self.sent
            .extend(put.into_iter().map(|entry| (entry.id, entry)));
        Some(Bytes::from(format!("event: board\ndata: {json}\n\n")))
    }
}
