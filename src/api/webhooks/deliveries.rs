//! `/v1/webhooks/deliveries`: the list, one of them, and trying again.

use std::str::FromStr;

use actix_web::HttpResponse;
use porchlight_core::webhook::{Cause, Report};
use porchlight_http::call::{self, Call};
use porchlight_http::fields::{Faults, Fields};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::{self, Query};
use porchlight_ports::{AskOutcome, DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde_json::Value;

use super::configuration::optional_body;
use super::{EVENTS, webhooks};

/// The names of where a delivery stands.
const STATUSES: [(&str, DeliveryStatus); 6] = [
    ("pending", DeliveryStatus::Pending),
    ("retrying", DeliveryStatus::Retrying),
    ("delivered", DeliveryStatus::Delivered),
    ("failed", DeliveryStatus::Failed),
    ("superseded", DeliveryStatus::Superseded),
    ("cancelled", DeliveryStatus::Cancelled),
];

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
}

impl DeliveryView {
    fn new(row: &DeliveryRow, current: Option<EndpointId>) -> Self {
        let status = row.status(current);
        let waits = matches!(status, DeliveryStatus::Pending | DeliveryStatus::Retrying);
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
            next_attempt_at: row.queued.due_at.filter(|_| waits),
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

/// One try.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttemptView<'a> {
    attempt: u32,
    at: TimestampMs,
    duration_ms: u32,
    status_code: Option<u16>,
    cause: Option<Cause>,
    response: Option<&'a str>,
}

impl<'a> AttemptView<'a> {
    fn new(attempt: u32, report: &'a Report) -> Self {
        Self {
            attempt,
            at: report.at,
            duration_ms: report.duration_ms,
            status_code: report.status_code,
            cause: report.cause,
            response: report.response.as_deref(),
        }
    }
}

/// One delivery with all that is known of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DetailView<'a> {
    #[serde(flatten)]
    row: DeliveryView,
    payload: &'a str,
    url: Option<&'a str>,
    attempt_log: Vec<AttemptView<'a>>,
}

/// How many will be tried.
#[derive(Serialize)]
struct AskedView {
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

/// Deliveries, newest first. 200 `{data, nextCursor}`.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn list(call: Call) -> Result<HttpResponse, Problem> {
    let tenant = call.secret().await?;
    call.accepts_json()?;
    let webhooks = webhooks(&call)?;
    let mut query = Query::of(call.http.query_string());
    let filter = DeliveryFilter {
        status: query.closed("status", &STATUSES),
        event: query.closed("event", &EVENTS),
        session_id: query.read("sessionId", "must be a session's id", |text| {
            text.parse().ok()
        }),
        from: query.time("from"),
        to: query.time("to"),
    };
    let (limit, after) = (query.limit(), query.cursor());
    query.done()?;
    // A cursor is 16 bytes, of whatever id they are.
    let after = after.map(|id| MessageId::from_bytes(id.to_bytes()));
    let _share = call.begin_list(tenant)?;
    let webhooks = webhooks.of(tenant);
    let current = webhooks.endpoint().await?.map(|endpoint| endpoint.id);
    let page = webhooks.deliveries(&filter, limit, after).await?;
    let next = page.next.map(|id| SessionId::from_bytes(id.to_bytes()));
    let view = PageView {
        data: page
            .rows
            .iter()
            .map(|row| DeliveryView::new(row, current))
            .collect(),
        next_cursor: next.map(query::cursor),
    };
    call::json(HttpResponse::Ok(), &view)
}

fn not_found() -> Problem {
    Problem::new(Code::DeliveryNotFound, "There is no such delivery.")
}

fn id_in_path(call: &Call) -> Result<MessageId, Problem> {
    let id = call.http.match_info().get("id");
    id.and_then(|text| MessageId::from_str(text).ok())
        .ok_or_else(not_found)
}

/// One delivery. 200: the row, the payload, every try.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn show(call: Call) -> Result<HttpResponse, Problem> {
    let tenant = call.secret().await?;
    let webhooks = webhooks(&call)?;
    let webhooks = webhooks.of(tenant);
    let detail = webhooks.delivery(id_in_path(&call)?).await?;
    let DeliveryDetail {
        row,
        body,
        attempts,
        ..
    } = detail.ok_or_else(not_found)?;
    call.accepts_json()?;
    let endpoint = webhooks.endpoint().await?;
    let view = DetailView {
        row: DeliveryView::new(&row, endpoint.as_ref().map(|endpoint| endpoint.id)),
        payload: &body,
        url: endpoint.as_ref().map(|endpoint| endpoint.url.as_ref()),
        attempt_log: attempts
            .iter()
            .map(|(attempt, report)| AttemptView::new(*attempt, report))
            .collect(),
    };
    call::json(HttpResponse::Ok(), &view)
}

/// Tries one again, now. 202 `{count}`.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn retry(call: Call) -> Result<HttpResponse, Problem> {
    let tenant = call.secret().await?;
    let webhooks = webhooks(&call)?;
    let id = id_in_path(&call)?;
    let webhooks = webhooks.of(tenant);
    if webhooks.delivery(id).await?.is_none() {
        return Err(not_found());
    }
    call.accepts_json()?;
    match webhooks.retry(id).await? {
        AskOutcome::Asked => {}
        AskOutcome::Unknown => return Err(not_found()),
        AskOutcome::Refused => {
            return Err(Problem::new(
                Code::NotRetryable,
                "The delivery is superseded or cancelled, or there is no webhook to send it to.",
            ));
        }
    }
    let view = AskedView {
        count: 1,
        truncated: None,
    };
    call::json(HttpResponse::Accepted(), &view)
}

/// Tries all that pass a filter again, now. 202 `{count, truncated}`.
///
/// # Errors
///
/// See the module [`super::super`].
pub(super) async fn retry_many(mut call: Call) -> Result<HttpResponse, Problem> {
    let tenant = call.secret().await?;
    call.accepts_json()?;
    let webhooks = webhooks(&call)?;
    let value = optional_body(&mut call).await?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let status = root.closed("status", &STATUSES, &mut faults);
    let filter = DeliveryFilter {
        status: Some(status.unwrap_or(DeliveryStatus::Failed)),
        event: root.closed("event", &EVENTS, &mut faults),
        session_id: None,
        from: root.time("from", &mut faults),
        to: root.time("to", &mut faults),
    };
    let dry_run = root.read(
        "dryRun",
        "must be true or false",
        &mut faults,
        Value::as_bool,
    );
    let (filter, dry_run) = faults.none(Some((filter, dry_run.unwrap_or(false))))?;
    let asked = webhooks.of(tenant).retry_all(&filter, dry_run).await?;
    let view = AskedView {
        count: asked.count,
        truncated: Some(asked.truncated),
    };
    call::json(HttpResponse::Accepted(), &view)
}
