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
pub struct StreamSeats {
    /// For event streams. How many one tenant may have is a share of its own.
    pub events: Arc<Seats<Tenant>>,
    /// WebSockets, by session.
    pub sockets: Arc<Seats<SessionId>>,
}

impl Default for StreamSeats {
    fn default() -> Self {
        Self {
            events: Seats::new(
                StreamKind::Events,
                NODE_EVENT_STREAMS_MAX,
                NODE_EVENT_STREAMS_MAX,
            ),
            sockets: Seats::new(StreamKind::Websocket, NODE_SOCKETS_MAX, SESSION_SOCKETS_MAX),
        }
    }
}

/// The limits of one kind of connection; `K` identifies the owner.
#[derive(Debug)]
pub struct Seats<K: Hash + Eq> {
    kind: StreamKind,
    taken: AtomicUsize,
    node_max: usize,
    each: DashMap<K, usize>,
    each_max: usize,
}

/// A permit for one connection, returned when dropped.
#[derive(Debug)]
pub struct Seat<K: Hash + Eq + Copy> {
    seats: Arc<Seats<K>>,
    key: K,
    _open: Open,
}

impl<K: Hash + Eq + Copy> Seats<K> {
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
    /// 429 if the owner has reached its limit; 503 if the node has.
    pub fn take(self: &Arc<Self>, key: K) -> Result<Seat<K>, Problem> {
        let free = |taken: usize| (taken < self.node_max).then_some(taken + 1);
        if self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .is_err()
        {
            StreamMetrics::get().on_ended(self.kind, StreamEnd::Full);
            return Err(Problem::new(
                Code::Overloaded,
                "As many connections are open as this node keeps.",
            ));
        }
        let mut own = self.each.entry(key).or_insert(0);
        *own += 1;
        let is_too_many = *own > self.each_max;
        drop(own);
        let seat = Seat {
            seats: Arc::clone(self),
            key,
            _open: Open::begin(self.kind),
        };
        if is_too_many {
            StreamMetrics::get().on_ended(self.kind, StreamEnd::Full);
            return Err(Problem::new(
                Code::TooManyStreams,
                format!(
                    "{} connections of this kind are open already.",
                    self.each_max
                ),
            ));
        }
        Ok(seat)
    }
}

impl<K: Hash + Eq + Copy> Drop for Seat<K> {
    fn drop(&mut self) {
        self.seats.taken.fetch_sub(1, Ordering::Relaxed);
        self.seats.each.remove_if_mut(&self.key, |_, own| {
            *own -= 1;
            *own == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_is_told_and_what_is_given_back_is_free() {
        let seats = Seats::new(StreamKind::Events, 3, 2);
        let code = |seat: Result<Seat<u8>, Problem>| seat.err().map(|problem| problem.code());
        let (one, two) = (seats.take(1).unwrap(), seats.take(1).unwrap());
        assert_eq!(code(seats.take(1)), Some(Code::TooManyStreams));
        let other = seats.take(2).unwrap();
        assert_eq!(code(seats.take(3)), Some(Code::Overloaded));
        drop((one, other));
        assert_eq!(code(seats.take(1)), None);
        drop(two);
        assert!(seats.each.is_empty() && seats.taken.load(Ordering::Relaxed) == 0);
    }
}
