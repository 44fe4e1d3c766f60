//! Sends the queued notifications to a node.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use porchlight_observe::error_text;
use porchlight_observe::peer::{Nudged, PeerMetrics, PeerRoute};
use porchlight_ports::Nudge;

use super::{Inner, Peer, RequestError};
use crate::cluster::wire::{self, Messages, Nudges};

/// The status of a request whose route the other node does not know.
const NOT_FOUND: u16 = 404;

impl Inner {
    async fn send_nudges(&self, peer: &Peer, nudges: &Nudges) {
        let count = nudges.sessions.len() + nudges.tenants.len();
        let body = wire::encode(nudges);
        let sent = self.notify(peer, PeerRoute::Nudge, body).await;
        on_nudged(peer, sent, count);
    }

    /// Notifies a node of new messages. A node of the previous release does not know this route,
    /// and gets a request to examine the outboxes instead.
    async fn send_messages(&self, peer: &Peer, messages: &Messages) {
        let body = wire::encode(messages);
        match self.notify(peer, PeerRoute::Messages, body).await {
            Err(RequestError::Status(NOT_FOUND)) => {
                let mut queue = peer.queue();
                for &(tenant, _) in messages {
                    queue.push_nudge(Nudge::Tenant(tenant));
                }
            }
            sent => on_nudged(peer, sent, messages.len()),
        }
    }

    async fn notify(
        &self,
        peer: &Peer,
        route: PeerRoute,
        body: Result<Vec<u8>, wire::WireError>,
    ) -> Result<(), RequestError> {
        let body = body.map_err(|_| RequestError::InvalidAnswer)?;
        self.request::<()>(&peer.name, route, body).await
    }
}

fn on_nudged(peer: &Peer, sent: Result<(), RequestError>, count: usize) {
    let outcome = match sent {
        Ok(()) => Nudged::Sent,
        Err(error) => {
            tracing::debug!(
                node = peer.name.0,
                error = error_text(&error),
                "a node could not be nudged"
            );
            Nudged::Lost
        }
    };
    PeerMetrics::get().on_nudge(outcome, count);
}

/// Sends a node its queued notifications until the node has left or this client was dropped.
pub(super) async fn send_queued(inner: Weak<Inner>, peer: Arc<Peer>) {
    loop {
        peer.wake.notified().await;
        loop {
            let Some(inner) = inner.upgrade() else { return };
            let (batches, nudges, messages) = {
                let mut queue = peer.queue();
                peer.is_busy.store(!queue.is_empty(), Ordering::Release);
                let batches = queue.take_batches();
                (batches, queue.take_nudges(), queue.take_messages())
            };
            if batches.is_empty() && nudges.is_none() && messages.is_empty() {
                break;
            }
            if !messages.is_empty() {
                inner.send_messages(&peer, &messages).await;
            }
            // A nudge about a session is sent before the session's batches.
            if let Some(nudges) = &nudges {
                inner.send_nudges(&peer, nudges).await;
            }
            if !batches.is_empty() {
                inner.send_batches(&peer, batches).await;
            }
        }
        if peer.is_gone.load(Ordering::Acquire) {
            return;
        }
    }
}
