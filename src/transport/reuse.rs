//! Recognises failures of reused connections, which do not show that the receiver has failed.
//!
//! A receiver may close a kept-alive connection at any time, also while a request is on its way.
//! The request then fails although a new connection would have carried it (RFC 9112, section
//! 9.3.1).

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Extensions;
use hyper_util::client::legacy::connect::HttpInfo;
use porchlight_schema::limits::ATTEMPT_MS_MAX;

use super::IDLE_MS_MAX;

/// The time for which an answered connection is remembered at least: a connection that has neither
/// answered nor failed for longer is no longer in the pool.
const REMEMBERED: Duration = Duration::from_millis(IDLE_MS_MAX + ATTEMPT_MS_MAX);

/// A connection: its local address and the receiver's. No two open connections share both.
type Connection = (SocketAddr, SocketAddr);

/// The connections that have answered a request recently.
#[derive(Debug)]
pub(super) struct Answered(Mutex<Generations>);

/// Two sets of connections. At the end of a period the older one is dropped, so that neither needs
/// to be searched for old entries.
#[derive(Debug)]
struct Generations {
    newer: HashSet<Connection>,
    older: HashSet<Connection>,
    since: Instant,
}

impl Default for Answered {
    fn default() -> Self {
        Self(Mutex::new(Generations {
            newer: HashSet::new(),
            older: HashSet::new(),
            since: Instant::now(),
        }))
    }
}

impl Generations {
    fn rotate(&mut self) {
        let elapsed = self.since.elapsed();
        if elapsed < REMEMBERED {
            return;
        }
        self.older = std::mem::take(&mut self.newer);
        if elapsed >= 2 * REMEMBERED {
            self.older.clear();
        }
        self.since = Instant::now();
    }
}

impl Answered {
    /// Remembers that the connection of this response has answered.
    pub(super) fn insert(&self, response: &reqwest::Response) {
        if let Some(info) = response.extensions().get::<HttpInfo>() {
            let mut generations = self.lock();
            generations.rotate();
            generations.newer.insert(connection(info));
        }
    }

    /// Returns whether a request failed without an answer, on a connection that had answered an
    /// earlier request. In rare cases it was another connection with the same addresses.
    pub(super) fn has_lost(&self, error: &reqwest::Error) -> bool {
        let Some(connection) = failed_connection(error).filter(|_| is_lost(error)) else {
            return false;
        };
        let mut generations = self.lock();
        generations.rotate();
        generations.newer.contains(&connection) || generations.older.contains(&connection)
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connection(info: &HttpInfo) -> Connection {
    (info.local_addr(), info.remote_addr())
}

/// Returns the connection on which a request failed, or `None` if none was open.
fn failed_connection(error: &reqwest::Error) -> Option<Connection> {
    let error = sources(error).find_map(|error| error.downcast_ref())?;
    let client: &hyper_util::client::legacy::Error = error;
    let mut extras = Extensions::new();
    client.connect_info()?.get_extras(&mut extras);
    extras.get().map(connection)
}

/// Returns whether the connection ended before the answer's head, or the receiver states that it
/// has not processed the request.
fn is_lost(error: &reqwest::Error) -> bool {
    sources(error).any(|error| {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return is_unprocessed(error);
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_incomplete_message()
                || error.is_canceled()
                || error.is_closed()
                // An HTTP/2 ping without an answer.
                || error.is_timeout();
        }
        error.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::NotConnected
            )
        })
    })
}

/// Returns whether the receiver has ended an HTTP/2 connection, or states that it has not processed
/// a request (RFC 9113, section 8.7). A receiver that resets a stream for another reason has
/// answered.
fn is_unprocessed(error: &h2::Error) -> bool {
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (error.is_go_away() || is_refused)
}

fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| (*error).source())
}
