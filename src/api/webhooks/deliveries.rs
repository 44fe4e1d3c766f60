//! `/v1/webhooks/deliveries`: the list, single deliveries, and retries.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use actix_web::HttpResponse;
use porchlight_core::webhook::wire::request_headers;
use porchlight_core::webhook::{AttemptResult, Cause, Queued, State};
use porchlight_http::fields::{Faults, Fields};
use porchlight_http::problem::{Problem, check_retry, delivery_not_found};
use porchlight_http::query::{self, Query};
use porchlight_http::request_context::{self, RequestContext};
use porchlight_ports::{DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus, Endpoint};
use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde_json::Value;

use super::configuration::optional_body;
use super::{events, webhooks};

/// Returns the statuses with their names.
fn statuses() -> [(&'static str, DeliveryStatus); 6] {
    DeliveryStatus::ALL.map(|status| (status.as_str(), status))
}

/// A delivery in the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryView {
    id: MessageId,
    event: MessageEvent,
    session_id: SessionId,
    sequence: u32,
    status: DeliveryStatus,
    attempts: u32,
    cause: Option<Cause>,
    status_code: Option<u16>,
    created_at: TimestampMs,
    delivered_at: Option<TimestampMs>,
    next_attempt_at: Option<TimestampMs>,
    /// The time since which the delivery is held; absent unless the webhook is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_since: Option<TimestampMs>,
    /// The delivery of the session that must be delivered or fail first; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsForView>,
}

/// The delivery directly before a waiting delivery.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitsForView {
    delivery_id: MessageId,
    next_attempt_at: Option<TimestampMs>,
}

/// Returns the time of the next scheduled attempt; `None` before the first attempt, and while the
/// message is held.
fn next_attempt_at(queued: &Queued, paused_at: Option<TimestampMs>) -> Option<TimestampMs> {
    let scheduled = queued.due_at.filter(|_| queued.state == State::Waiting);
    scheduled.filter(|_| paused_at.is_none())
}

impl DeliveryView {
    /// Creates a row of a tenant whose endpoint is `current`, directly behind the message `before`.
    fn new(row: &DeliveryRow, current: Option<&Endpoint>, before: Option<&Queued>) -> Self {
        let status = row.status(current.map(|endpoint| endpoint.id));
        let paused_at = current.and_then(Endpoint::paused_since);
        let waits = matches!(status, DeliveryStatus::Pending | DeliveryStatus::Retrying);
        let waits_for = before.filter(|_| waits).map(|before| WaitsForView {
            delivery_id: before.id,
            next_attempt_at: next_attempt_at(before, paused_at),
        });
        Self {
            id: row.queued.id,
            event: row.queued.event,
            session_id: row.queued.session_id,
            sequence: row.queued.number,
            status,
            attempts: row.queued.attempts,
            cause: row.cause,
            status_code: row.status_code,
            created_at: row.created_at(),
            delivered_at: row.delivered_at,
            next_attempt_at: next_attempt_at(&row.queued, paused_at).filter(|_| waits),
            held_since: paused_at
                .filter(|_| waits)
                .map(|paused_at| row.queued.held_since(paused_at)),
            waits_for,
        }
    }
}

/// A page of the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageView {
    data: Vec<DeliveryView>,
    next_cursor: Option<String>,
}

/// One delivery attempt as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttemptView<'a> {
    attempt: u32,
    at: TimestampMs,
    duration_ms: u32,
    status_code: Option<u16>,
    cause: Option<Cause>,
    response: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    /// The headers of the request, without signatures.
    request_headers: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_headers: Option<BTreeMap<&'a str, &'a str>>,
}

impl<'a> AttemptView<'a> {
    fn new(message: &Queued, attempt: u32, report: &'a AttemptResult) -> Self {
        let session = message.session_id.to_string();
        let headers = request_headers(
            message.event,
            &session,
            message.id,
            message.number,
            attempt,
            report.at,
        );
        Self {
            attempt,
            at: report.at,
            duration_ms: report.duration_ms,
            status_code: report.status_code,
            cause: report.cause,
            response: report.response.as_deref(),
            reason: report.details.reason.as_deref(),
            address: report.details.address,
            request_headers: headers.into_iter().collect(),
            response_headers: report.status_code.map(|_| {
                let headers = report.details.response_headers.iter();
                headers
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect()
            }),
        }
    }
}

/// A delivery with its payload and attempts, as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailView<'a> {
    #[serde(flatten)]
    row: DeliveryView,
    /// The exact body; null if it is lost.
    payload: Option<&'a str>,
    url: Option<&'a str>,
    attempt_log: Vec<AttemptView<'a>>,
}

/// Returns a delivery with its payload and attempts as the API shows it, for an access request.
///
/// # Errors
///
/// Never fails in practice: every field can be written as JSON.
pub(crate) fn exported_delivery(
    detail: &DeliveryDetail,
    endpoint: Option<&Endpoint>,
) -> serde_json::Result<Value> {
    serde_json::to_value(DetailView::new(detail, endpoint, None))
}

impl<'a> DetailView<'a> {
    /// Creates a delivery of a tenant whose endpoint is `current`, directly behind the message
    /// `before`.
    fn new(
        detail: &'a DeliveryDetail,
        current: Option<&'a Endpoint>,
        before: Option<&Queued>,
    ) -> Self {
        let attempts = detail
            .attempts
            .iter()
            .map(|(attempt, report)| AttemptView::new(&detail.row.queued, *attempt, report));
        Self {
            row: DeliveryView::new(&detail.row, current, before),
            payload: detail.body.as_deref(),
            url: current.map(|endpoint| endpoint.url.as_ref()),
            attempt_log: attempts.collect(),
        }
    }
}

/// The number of messages that will be retried.
#[derive(Serialize)]
struct RetriedView {
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

/// Lists deliveries, newest first. 200 `{data, nextCursor}`.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn list(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let webhooks = webhooks(&call)?;
    let mut query = Query::of(call.http.query_string());
    let filter = DeliveryFilter {
        status: query.closed("status", &statuses()),
        event: query.closed("event", &events()),
        session_id: query.read("sessionId", "must be the id of a session", |text| {
            text.parse().ok()
        }),
        from: query.time("from"),
        to: query.time("to"),
    };
    let (limit, after) = (query.limit(), query.delivery_cursor());
    query.finish()?;
    let _share = call.begin_list(tenant)?;
    let webhooks = webhooks.of(tenant);
    let current = webhooks.endpoint().await?;
    let page = webhooks.deliveries(&filter, limit, after).await?;
    let before = webhooks.before(current.as_ref(), &page.rows).await?;
    let view = PageView {
        data: page
            .rows
            .iter()
            .zip(&before)
            .map(|(row, before)| DeliveryView::new(row, current.as_ref(), before.as_ref()))
            .collect(),
        next_cursor: page.next.map(query::delivery_cursor),
    };
    request_context::json(HttpResponse::Ok(), &view)
}

fn id_in_path(call: &RequestContext) -> Result<MessageId, Problem> {
    let id = call.http.match_info().get("id");
    id.and_then(|text| MessageId::from_str(text).ok())
        .ok_or_else(delivery_not_found)
}

/// Returns one delivery. 200 with row, payload and attempts.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn show(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    let webhooks = webhooks.of(tenant);
    let detail = webhooks.delivery(id_in_path(&call)?).await?;
    let detail = detail.ok_or_else(delivery_not_found)?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let endpoint = webhooks.endpoint().await?;
    let before = webhooks.before(endpoint.as_ref(), std::slice::from_ref(&detail.row));
    let before = before.await?.into_iter().next().flatten();
    let view = DetailView::new(&detail, endpoint.as_ref(), before.as_ref());
    request_context::json(HttpResponse::Ok(), &view)
}

/// Retries one delivery now. 202 `{count}`.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn retry(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let webhooks = webhooks(&call)?;
    let id = id_in_path(&call)?;
    let webhooks = webhooks.of(tenant);
    if !webhooks.has_delivery(id).await? {
        return Err(delivery_not_found());
    }
    call.check_accept_json()?;
    let (_, value) = optional_body(&mut call).await?;
    let mut faults = Faults::default();
    Fields::root(&value)?.only(&[], &mut faults);
    call.reject_parameters()?;
    faults.into_result(Some(()))?;
    check_retry(webhooks.retry(id).await?)?;
    let view = RetriedView {
        count: 1,
        truncated: None,
    };
    request_context::json(HttpResponse::Accepted(), &view)
}

/// Retries all deliveries that match a filter now. 202 `{count, truncated}`.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn retry_many(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let webhooks = webhooks(&call)?;
    let (_, value) = optional_body(&mut call).await?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let status = root.closed("status", &statuses(), &mut faults);
    let filter = DeliveryFilter {
        status: Some(status.unwrap_or(DeliveryStatus::Failed)),
        event: root.closed("event", &events(), &mut faults),
        session_id: None,
        from: root.time_bound("from", &mut faults),
        to: root.time_bound("to", &mut faults),
    };
    let dry_run = root.read(
        "dryRun",
        "must be true or false",
        &mut faults,
        Value::as_bool,
    );
    root.only(&["status", "event", "from", "to", "dryRun"], &mut faults);
    call.reject_parameters()?;
    let (filter, dry_run) = faults.into_result(Some((filter, dry_run.unwrap_or(false))))?;
    let _share = call.begin_list(tenant)?;
    let webhooks = webhooks.of(tenant);
    let asked = match dry_run {
        true => webhooks.count_retryable(&filter).await?,
        false => webhooks.retry_all(&filter).await?,
    };
    let view = RetriedView {
        count: asked.count,
        truncated: Some(asked.is_truncated),
    };
    request_context::json(HttpResponse::Accepted(), &view)
}
