//! Limits on long-lived connections, per node and per owner.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use porchlight_observe::streams::{Open, StreamEnd, StreamKind, StreamMetrics};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{NODE_EVENT_STREAMS_MAX, NODE_SOCKETS_MAX, SESSION_SOCKETS_MAX};
use porchlight_schema::session::Tenant;

use super::problem::{Code, Problem};

/// The limits of all kinds of long-lived connections.
#[derive(Debug)]
pub struct StreamLimiter {
    /// The limit of event streams. The number per tenant is limited by a separate share.
    pub events: Arc<ConnectionLimiter<Tenant>>,
    /// WebSockets, by session.
    pub sockets: Arc<ConnectionLimiter<SessionId>>,
}

impl Default for StreamLimiter {
    fn default() -> Self {
        Self {
            events: ConnectionLimiter::new(
                StreamKind::Events,
                NODE_EVENT_STREAMS_MAX,
                NODE_EVENT_STREAMS_MAX,
            ),
            sockets: ConnectionLimiter::new(
                StreamKind::Websocket,
                NODE_SOCKETS_MAX,
                SESSION_SOCKETS_MAX,
            ),
        }
    }
}

/// The limits of one kind of connection; `K` identifies the owner.
#[derive(Debug)]
pub struct ConnectionLimiter<K: Hash + Eq> {
    kind: StreamKind,
    taken: AtomicUsize,
    node_max: usize,
    each: DashMap<K, usize>,
    each_max: usize,
}

/// A permit for one connection, returned when dropped.
#[derive(Debug)]
pub struct ConnectionPermit<K: Hash + Eq + Copy> {
    connections: Arc<ConnectionLimiter<K>>,
    key: K,
    _open: Open,
}

impl<K: Hash + Eq + Copy> ConnectionLimiter<K> {
    /// Creates limits per node and per owner.
    #[must_use]
    pub fn new(kind: StreamKind, node_max: usize, each_max: usize) -> Arc<Self> {
        Arc::new(Self {
            kind,
            taken: AtomicUsize::new(0),
            node_max,
            each: DashMap::new(),
            each_max,
        })
    }

    /// Acquires a permit.
    ///
    /// # Errors
    ///
    /// Returns 429 if the owner has reached its limit; 503 if the node has.
    pub fn acquire(self: &Arc<Self>, key: K) -> Result<ConnectionPermit<K>, Problem> {
        let free = |taken: usize| (taken < self.node_max).then_some(taken + 1);
        if self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .is_err()
        {
            StreamMetrics::get().on_ended(self.kind, StreamEnd::Full);
            return Err(Problem::new(
                Code::Overloaded,
                "The node has reached its limit of open connections.",
            ));
        }
        let mut own = self.each.entry(key).or_insert(0);
        *own += 1;
        let is_too_many = *own > self.each_max;
        drop(own);
        let permit = ConnectionPermit {
            connections: Arc::clone(self),
            key,
            _open: Open::begin(self.kind),
        };
        if is_too_many {
            StreamMetrics::get().on_ended(self.kind, StreamEnd::Full);
            return Err(Problem::new(
                Code::TooManyStreams,
                format!(
                    "{} connections of this kind are already open.",
                    self.each_max
                ),
            ));
        }
        Ok(permit)
    }
}

impl<K: Hash + Eq + Copy> Drop for ConnectionPermit<K> {
    fn drop(&mut self) {
        self.connections.taken.fetch_sub(1, Ordering::Relaxed);
        self.connections.each.remove_if_mut(&self.key, |_, own| {
            *own -= 1;
            *own == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_limits_are_reported_and_released_permits_are_free() {
        let connections = ConnectionLimiter::new(StreamKind::Events, 3, 2);
        let code = |permit: Result<ConnectionPermit<u8>, Problem>| {
            permit.err().map(|problem| problem.code())
        };
        let (one, two) = (
            connections.acquire(1).unwrap(),
            connections.acquire(1).unwrap(),
        );
        assert_eq!(code(connections.acquire(1)), Some(Code::TooManyStreams));
        let other = connections.acquire(2).unwrap();
        assert_eq!(code(connections.acquire(3)), Some(Code::Overloaded));
        drop((one, other));
        assert_eq!(code(connections.acquire(1)), None);
        drop(two);
        assert!(connections.each.is_empty() && connections.taken.load(Ordering::Relaxed) == 0);
    }
}
