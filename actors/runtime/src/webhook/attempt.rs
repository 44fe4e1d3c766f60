//! One attempt of a message: it reads the body, signs the request and sends it.

use std::sync::Arc;

use porchlight_core::webhook::{AttemptDetails, AttemptResult, Cause, Queued};
use porchlight_observe::Fact;
use porchlight_observe::webhook::{StoreCall, WebhookMetrics};
use porchlight_ports::{Endpoint, StoreError, StoreResult};
use porchlight_schema::ids::MessageId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::Inner;
use super::request::{EndpointSigner, OutgoingMessage, sent_body};

/// The outcome of an attempt.
pub(super) enum Attempted {
    /// The attempt ended, or the service could not make it: the cause in the result distinguishes
    /// them. The second value is the receiver's URL with the expiry of its certificate, if known.
    Ended(AttemptResult, Option<(Arc<str>, TimestampMs)>),
    /// The stored body of the message is missing or damaged.
    Damaged,
    /// The message was removed with its session.
    Removed,
}

/// The stored body of a message.
enum Body {
    Found(Arc<str>),
    /// The body is missing or damaged, which is reported.
    Lost,
    /// The message was removed with its session, after its lane was read.
    Removed,
}

/// Reads a tenant's endpoint.
pub(super) async fn read_endpoint(inner: &Inner, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
    WebhookMetrics::get().on_store_call(StoreCall::Endpoint);
    inner.outbox.endpoint(tenant).await
}

/// Returns the endpoint as stored now, or `None` if this attempt must not be made. A pause prevents
/// the attempt only if the machine did not know of it when it chose the attempt.
pub(super) async fn reload_endpoint(
    inner: &Inner,
    signer: Arc<EndpointSigner>,
) -> Option<Arc<EndpointSigner>> {
    let known = &signer.endpoint;
    let endpoint = read_endpoint(inner, known.tenant).await.ok()??;
    if endpoint.id != known.id || known.enabled && !endpoint.enabled {
        return None;
    }
    if endpoint.version == known.version {
        return Some(signer);
    }
    EndpointSigner::new(endpoint, inner.seal.as_ref()).map(Arc::new)
}

/// Reads the body of a message.
async fn read_body(inner: &Inner, tenant: Tenant, message: &Queued) -> StoreResult<Body> {
    WebhookMetrics::get().on_store_call(StoreCall::Body);
    let (session_id, number) = (message.session_id, message.number);
    let error = match inner.outbox.body(session_id, number).await {
        Ok(Some(body)) => return Ok(Body::Found(body)),
        Ok(None) if is_removed(inner, tenant, message.id).await? => return Ok(Body::Removed),
        Ok(None) => StoreError::Damaged(format!("message {} has no body", message.id)),
        Err(error @ StoreError::Damaged(_)) => error,
        Err(error) => return Err(error),
    };
    Fact::Damaged {
        session_id,
        what: "the body of a message",
        error: &error,
    }
    .record();
    Ok(Body::Lost)
}

/// Returns whether a message was removed with its session. The list of deliveries still has a
/// message whose body is lost.
async fn is_removed(inner: &Inner, tenant: Tenant, id: MessageId) -> StoreResult<bool> {
    match inner.outbox.delivery(tenant, id).await {
        Err(StoreError::Damaged(_)) => Ok(false),
        delivery => Ok(delivery?.is_none()),
    }
}

/// Makes one attempt. If this service itself fails, the cause is `internal`.
pub(super) async fn attempt_once(
    inner: &Arc<Inner>,
    signer: Option<Arc<EndpointSigner>>,
    message: Queued,
    attempt: u32,
) -> Attempted {
    let internal_fault = || {
        let report = AttemptResult {
            at: inner.clock.now(),
            duration_ms: 0,
            status_code: None,
            cause: Some(Cause::Internal),
            response: None,
            details: AttemptDetails::default(),
        };
        Attempted::Ended(report, None)
    };
    let Some(signer) = signer else {
        return internal_fault();
    };
    let tenant = signer.endpoint.tenant;
    let Ok(body) = read_body(inner, tenant, &message).await else {
        return internal_fault();
    };
    if inner.hides(tenant, message.session_id).await {
        return internal_fault();
    }
    let body = match body {
        Body::Found(body) => body,
        Body::Lost => return Attempted::Damaged,
        Body::Removed => return Attempted::Removed,
    };
    let outgoing = OutgoingMessage {
        event: message.event,
        session: message.session_id.to_string(),
        id: message.id,
        attempt,
        sequence: message.number,
        body: sent_body(message.event, body),
    };
    let at = inner.clock.now();
    let Ok(request) = signer.sign(&outgoing, at) else {
        return internal_fault();
    };
    let url = Arc::clone(&request.url);
    let owner = Arc::clone(inner);
    // A process that was suspended, or waited for the permit, may have lost the tenant long ago.
    let may_begin = Box::new(move || owner.may_send(tenant));
    let answer = inner.transport.send_if(request, may_begin).await;
    let report = AttemptResult {
        at: at.plus_ms(i64::from(answer.waited_ms)),
        duration_ms: answer.duration_ms,
        status_code: answer.status_code,
        cause: answer.cause,
        response: answer.response,
        details: answer.details,
    };
    let ends_at = answer.certificate_ends_at.map(|ends_at| (url, ends_at));
    Attempted::Ended(report, ends_at)
}
