//! `GET /v1/sessions`, `GET /v1/sessions/{id}` and `GET /v1/sessions/{id}/acknowledged`.

mod outcome;

use actix_web::HttpResponse;
use porchlight_ports::{Acknowledged, SeqRange, SessionFilter, SessionRow};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::TEXT_CHARS_MAX;
use porchlight_schema::session::{SessionStatus, SessionView};
use serde::Serialize;

use porchlight_http::problem::Problem;
use porchlight_http::query::{self, Query};
use porchlight_http::request_context::{self, RequestContext};

use outcome::OutcomeFilter;

/// A page of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageView<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// The acknowledged batches of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AcknowledgedView<'a> {
    session_id: SessionId,
    status: SessionStatus,
    next_seq: u32,
    missing: &'a [SeqRange],
}

/// Returns the acknowledged batches of a session, so that a restarted app knows which ones it must
/// still send. 200 `{sessionId, status, nextSeq, missing}`.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn acknowledged(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let session_id = call.session_id();
    caller.check_may_act_on(session_id)?;
    let row = call.session(&caller, session_id).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let sessions = call.state.service.of(row.start.tenant);
    let acknowledged = sessions.acknowledged(&row).await?;
    request_context::json(
        HttpResponse::Ok(),
        &AcknowledgedView::new(&row, &acknowledged),
    )
}

impl<'a> AcknowledgedView<'a> {
    fn new(row: &SessionRow, acknowledged: &'a Acknowledged) -> Self {
        Self {
            session_id: row.start.session_id,
            status: row.status(),
            next_seq: acknowledged.next_seq,
            missing: &acknowledged.missing,
        }
    }
}

/// Returns the acknowledged batches of a session as the API shows them.
///
/// # Errors
///
/// Never fails in practice: every field can be written as JSON.
pub(super) fn acknowledged_view(
    row: &SessionRow,
    acknowledged: &Acknowledged,
) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(AcknowledgedView::new(row, acknowledged))
}

/// Returns one session. 200: Session.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn session(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    caller.require_secret_key()?;
    let row = call.session(&caller, call.session_id()).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    request_context::json(
        HttpResponse::Ok(),
        &SessionView::answer(&row.start, row.end.as_ref()),
    )
}

/// Returns sessions, newest first. 200 `{data, nextCursor}`.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn list(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let mut query = Query::of(call.http.query_string());
    let states = [
        ("recording", SessionStatus::Recording),
        ("completed", SessionStatus::Completed),
    ];
    let filter = SessionFilter {
        status: query.closed("status", &states),
        delivery_id: query.text("deliveryId", TEXT_CHARS_MAX),
        external_rider_id: query.text("externalRiderId", TEXT_CHARS_MAX),
        from: query.time("from"),
        to: query.time("to"),
    };
    let outcome = OutcomeFilter::read(&mut query);
    let (limit, after) = (query.limit(), query.cursor());
    query.finish()?;
    let service = &call.state.service;
    let _share = call.begin_list(tenant)?;
    let page = if outcome.is_empty() {
        service.list(tenant, &filter, limit, after).await?
    } else {
        outcome.page(service, tenant, &filter, limit, after).await?
    };
    let data = page
        .rows
        .iter()
        .map(|row| SessionView::answer(&row.start, row.end.as_ref()))
        .collect();
    request_context::json(
        HttpResponse::Ok(),
        &PageView {
            data,
            next_cursor: page.next.map(query::cursor),
        },
    )
}
