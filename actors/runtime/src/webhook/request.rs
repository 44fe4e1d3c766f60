//! A message as sent over the wire: its headers are signed at the time of the attempt with every
//! valid secret.

use std::borrow::Cow;
use std::sync::Arc;

use porchlight_core::webhook::signature::{SecretError, service_signature, standard_signature};
use porchlight_core::webhook::wire::{body_to_send, request_headers};
use porchlight_schema::ids::MessageId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use zeroize::Zeroizing;

use porchlight_ports::{Endpoint, OutboundRequest, SecretSeal};

/// An endpoint with its opened secrets, ready to sign. The secrets are wiped from memory on drop.
pub struct EndpointSigner {
    /// The endpoint to send to.
    pub endpoint: Endpoint,
    secret: Zeroizing<String>,
    previous: Option<(Zeroizing<String>, TimestampMs)>,
}

impl std::fmt::Debug for EndpointSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointSigner")
            .field("endpoint", &self.endpoint.id)
            .finish_non_exhaustive()
    }
}

/// The content and the metadata of one request.
#[derive(Debug, Clone)]
pub struct OutgoingMessage {
    /// The event that the message reports.
    pub event: MessageEvent,
    /// The session that the event belongs to.
    pub session: String,
    /// The message's id.
    pub id: MessageId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The message's position within the session.
    pub sequence: u32,
    /// The exact body of the request.
    pub body: Arc<str>,
}

/// Returns the body to send for a stored body; see [`body_to_send`].
pub(super) fn sent_body(event: MessageEvent, stored: Arc<str>) -> Arc<str> {
    match body_to_send(event, &stored) {
        Cow::Owned(changed) => changed.into(),
        Cow::Borrowed(_) => stored,
    }
}

impl EndpointSigner {
    /// Opens the endpoint's secrets. Returns `None` if no available key opens one of them.
    #[must_use]
    pub fn new(endpoint: Endpoint, seal: &dyn SecretSeal) -> Option<Self> {
        let open = |secret| seal.open(endpoint.tenant, endpoint.id, secret);
        let secret = open(&endpoint.secret)?;
        let previous = match &endpoint.previous {
            Some(previous) => Some((open(&previous.secret)?, previous.expires_at)),
            None => None,
        };
        Some(Self {
            endpoint,
            secret,
            previous,
        })
    }

    /// Builds the request, signed at `now` (contract section 6).
    ///
    /// # Errors
    ///
    /// Returns an error if the stored secret is not a valid secret.
    pub fn sign(
        &self,
        message: &OutgoingMessage,
        now: TimestampMs,
    ) -> Result<OutboundRequest, SecretError> {
        let body = message.body.as_bytes();
        let previous = self.previous.as_ref();
        let previous = previous.filter(|(_, expires_at)| now < *expires_at);
        let previous = previous.map(|(secret, _)| secret.as_str());
        let live = std::iter::once(self.secret.as_str()).chain(previous);
        let mut headers = request_headers(
            message.event,
            &message.session,
            message.id,
            message.sequence,
            message.attempt,
            now,
        );
        headers.push(("x-service-signature", service_signature(&self.secret, body)));
        let standard = standard_signature(live, message.id, now, body)?;
        headers.push(("webhook-signature", standard));
        if let Some(previous) = previous {
            let signature = service_signature(previous, body);
            headers.push(("x-service-signature-previous", signature));
        }
        Ok(OutboundRequest {
            tenant: self.endpoint.tenant,
            url: Arc::clone(&self.endpoint.url),
            headers,
            body: Arc::clone(&message.body),
        })
    }
}
