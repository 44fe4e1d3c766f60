//! `/v1/webhooks`, `/rotate` and `/test`.

use actix_web::HttpResponse;
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::web::Bytes;
use porchlight_actors::webhook::Webhooks;
use porchlight_http::body::{self, Limits};
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::Problem;
use porchlight_http::request_context::{self, RequestContext};
use porchlight_ports::{Endpoint, Idempotency, ends_soon};
use porchlight_schema::ids::{EndpointId, MessageId};
use porchlight_schema::limits::{SECRET_OVERLAP_SEC_DEFAULT, SECRET_OVERLAP_SEC_MAX};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::start::idempotency_key;
use super::{events, webhooks};

/// A configuration as returned.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigurationView<'a> {
    id: EndpointId,
    url: &'a str,
    enabled: bool,
    created_at: TimestampMs,
    /// Present only right after the secret was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// Present only in the answer to a rotation; null if the previous secret is no longer valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_secret_expires_at: Option<Option<TimestampMs>>,
    /// Present only if the receiver's certificate expires soon.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_expires_at: Option<TimestampMs>,
}

impl<'a> ConfigurationView<'a> {
    fn new(endpoint: &'a Endpoint, webhooks: &Webhooks) -> Self {
        let ends_at = webhooks.certificate_ends_at(endpoint);
        Self {
            id: endpoint.id,
            url: &endpoint.url,
            enabled: endpoint.enabled,
            created_at: endpoint.created_at,
            secret: None,
            previous_secret_expires_at: None,
            certificate_expires_at: ends_at.filter(|&ends_at| ends_soon(ends_at, webhooks.now())),
        }
    }
}

/// The result of a test event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TestView {
    delivery_id: MessageId,
    status_code: Option<u16>,
    duration_ms: u32,
    error: Option<&'static str>,
}

/// Reads the body and returns it as it was sent and as JSON. An absent or empty body counts as
/// `{}`.
pub(super) async fn optional_body(call: &mut RequestContext) -> Result<(Bytes, Value), Problem> {
    let length = call.headers().get(CONTENT_LENGTH);
    let is_chunked = call.headers().contains_key(TRANSFER_ENCODING);
    let empty = || Value::Object(serde_json::Map::new());
    if !is_chunked && length.is_none_or(|length| length == "0") {
        return Ok((Bytes::new(), empty()));
    }
    // A chunked body may turn out to be empty, and an empty body needs no media type.
    let body = if is_chunked {
        let announced = body::announced(call.headers(), Limits::REQUEST)?;
        call.read(announced).await?
    } else {
        call.body(Limits::REQUEST).await?
    };
    if body.is_empty() {
        return Ok((body, empty()));
    }
    body::json(call.headers(), Limits::REQUEST)?;
    let value = fields::parse(&body)?;
    Ok((body, value))
}

/// Returns the key and body hash by which a repeat of this request is recognised, if it may be
/// repeated.
fn repeat(call: &RequestContext, body: &[u8]) -> Result<Option<Idempotency>, Problem> {
    let key = idempotency_key(call.headers())?;
    Ok(key.map(|key| Idempotency {
        key,
        body_hash: Sha256::digest(body).into(),
    }))
}

fn url<'v>(fields: &Fields<'v>, faults: &mut Faults) -> Option<&'v str> {
    fields.read("url", "must be a string", faults, Value::as_str)
}

/// Creates the configuration. 201: with its secret; a repeat by `Idempotency-Key` gets the same
/// answer.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn register(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let webhooks = webhooks(&call)?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let url = url(&root, &mut faults);
    let url = root.need("url", url, &mut faults);
    root.only(&["url"], &mut faults);
    call.reject_parameters()?;
    let repeat = repeat(&call, &body)?;
    let url = faults.into_result(url)?;
    let made = webhooks.register(tenant, url, repeat.as_ref()).await?;
    let view = ConfigurationView {
        secret: Some(&made.secret),
        ..ConfigurationView::new(&made.endpoint, &webhooks)
    };
    request_context::json(HttpResponse::Created(), &view)
}

/// Returns the configuration without its secret. 200.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn show(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    let endpoint = webhooks.endpoint(tenant).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    request_context::json(
        HttpResponse::Ok(),
        &ConfigurationView::new(&endpoint, &webhooks),
    )
}

/// Changes URL and pause. 200 with the configuration.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn change(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    webhooks.endpoint(tenant).await?;
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let url = url(&root, &mut faults);
    let enabled = root.read(
        "enabled",
        "must be true or false",
        &mut faults,
        Value::as_bool,
    );
    root.only(&["url", "enabled"], &mut faults);
    call.reject_parameters()?;
    let (url, enabled) = faults.into_result(Some((url, enabled)))?;
    let endpoint = webhooks.change(tenant, url, enabled).await?;
    request_context::json(
        HttpResponse::Ok(),
        &ConfigurationView::new(&endpoint, &webhooks),
    )
}

/// Deletes the configuration. 204.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn remove(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    webhooks.endpoint(tenant).await?;
    call.reject_parameters()?;
    webhooks.remove(tenant).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Creates a new secret. 200: the configuration with the secret, and the time until which the
/// previous one signs; a repeat by `Idempotency-Key` gets the same answer.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn rotate(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    webhooks.endpoint(tenant).await?;
    call.check_accept_json()?;
    let (body, value) = optional_body(&mut call).await?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let overlap_sec = root.whole("overlapSec", 0..=SECRET_OVERLAP_SEC_MAX, &mut faults);
    root.only(&["overlapSec"], &mut faults);
    call.reject_parameters()?;
    let overlap_sec =
        faults.into_result(Some(overlap_sec.unwrap_or(SECRET_OVERLAP_SEC_DEFAULT)))?;
    let repeat = repeat(&call, &body)?;
    let made = webhooks
        .rotate(tenant, overlap_sec, repeat.as_ref())
        .await?;
    let view = ConfigurationView {
        secret: Some(&made.secret),
        previous_secret_expires_at: Some(made.previous_expires_at),
        ..ConfigurationView::new(&made.endpoint, &webhooks)
    };
    request_context::json(HttpResponse::Ok(), &view)
}

/// Ends a running overlap: the previous secret no longer signs, the current one stays. 204.
///
/// # Errors
///
/// See the module [`super::super`]; 404 if no overlap is running.
pub(super) async fn end_overlap(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    webhooks.endpoint(tenant).await?;
    call.reject_parameters()?;
    webhooks.end_overlap(tenant).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Sends a test event. 200 with its result.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn test(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    webhooks.endpoint(tenant).await?;
    call.check_accept_json()?;
    let (_, value) = optional_body(&mut call).await?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let event = root.closed("event", &events(), &mut faults);
    root.only(&["event"], &mut faults);
    call.reject_parameters()?;
    let event = faults.into_result(Some(event.unwrap_or(MessageEvent::InsightUpdated)))?;
    let tested = webhooks.test(tenant, event).await?;
    let view = TestView {
        delivery_id: tested.id,
        status_code: tested.answer.status_code,
        duration_ms: tested.answer.duration_ms,
        error: tested.error(),
    };
    request_context::json(HttpResponse::Ok(), &view)
}
