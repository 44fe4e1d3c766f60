//! Privacy requests (contract section 11): erasure, access, restriction and release.

mod archive;
mod collect;
mod samples;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, Resource, web};
use porchlight_actors::service::{NewRequest, Submitted, is_position};
use porchlight_core::privacy::{PrivacyRequest, RecordedSubject};
use porchlight_http::audit;
use porchlight_http::body::Limits;
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::{Code, Problem, privacy_limit_reached, privacy_request_not_found};
use porchlight_http::query::{Query, cursor_bytes, cursor_of};
use porchlight_http::request_context::{self, RequestContext};
use porchlight_http::route::{get, resource};
use porchlight_observe::http::Route;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    PRIVACY_REASON_CHARS_MAX, PRIVACY_REQUEST_ID_CHARS_MAX, TEXT_CHARS_MAX,
};
use porchlight_schema::privacy::{Counts, RequestStatus, RequestType, Subject, is_request_id};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde_json::Value;

pub(super) use archive::Archives;

/// Returns the resources with their routes.
pub(super) fn resources() -> Vec<Resource> {
    vec![
        resource(Route::PrivacyRequests, "GET, HEAD, POST")
            .route(get().to(list))
            .route(web::post().to(submit)),
        resource(Route::PrivacyRequest, "DELETE, GET, HEAD")
            .route(get().to(show))
            .route(web::delete().to(cancel)),
        resource(Route::PrivacyArchive, "GET, HEAD").route(get().to(archive::download)),
    ]
}

/// The subject as it is answered.
#[derive(Serialize)]
#[serde(untagged)]
enum SubjectView<'a> {
    Clear(&'a Subject),
    Hashed { hash: String },
}

/// A request as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestView<'a> {
    request_id: &'a str,
    r#type: RequestType,
    subject: SubjectView<'a>,
    status: RequestStatus,
    received_at: TimestampMs,
    completed_at: Option<TimestampMs>,
    counts: Counts,
    receipt: Option<&'a str>,
    download_url: Option<String>,
}

/// A page of requests.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageView<'a> {
    data: Vec<RequestView<'a>>,
    next_cursor: Option<String>,
}

impl<'a> RequestView<'a> {
    fn new(call: &RequestContext, tenant: Tenant, request: &'a PrivacyRequest) -> Self {
        let subject = match &request.subject {
            RecordedSubject::Clear(subject) => SubjectView::Clear(subject),
            RecordedSubject::Hashed(hashed) => SubjectView::Hashed {
                hash: format!("sha256:{}:{}", hashed.salt, hashed.hash),
            },
        };
        Self {
            request_id: &request.request_id,
            r#type: request.request_type,
            subject,
            status: request.status,
            received_at: request.received_at,
            completed_at: request.completed_at,
            counts: request.counts,
            receipt: request.receipt.as_deref(),
            download_url: archive::link(call, tenant, request),
        }
    }
}

/// Submits a request. 202: the request; 200 for a repetition, with the present state.
async fn submit(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    call.reject_parameters()?;
    let new = new_request(&value)?;
    audit::created(&call.http, &new.request_id);
    let service = &call.state.service;
    match service.privacy(tenant).submit(new).await? {
        Submitted::New(request) => request_context::json(
            HttpResponse::Accepted(),
            &RequestView::new(&call, tenant, &request),
        ),
        Submitted::Repeated(request) => request_context::json(
            HttpResponse::Ok(),
            &RequestView::new(&call, tenant, &request),
        ),
        Submitted::Differs => Err(Problem::new(
            Code::RequestIdReused,
            "Another privacy request has this requestId.",
        )),
        Submitted::NoRoom => Err(privacy_limit_reached()),
        Submitted::Held => Err(Problem::new(
            Code::LegalHold,
            "A legal hold protects a session of the subject.",
        )),
    }
}

/// Returns a privacy request. 200.
async fn show(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let privacy = call.state.service.privacy(tenant);
    let request = privacy.find(id_in_path(&call)).await?;
    let request = request.ok_or_else(privacy_request_not_found)?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    request_context::json(
        HttpResponse::Ok(),
        &RequestView::new(&call, tenant, &request),
    )
}

/// Returns the requests, newest first. 200 `{data, nextCursor}`.
async fn list(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let mut query = Query::of(call.http.query_string());
    let status = query.closed("status", &RequestStatus::ALL);
    let limit = query.limit();
    let after = query.read("cursor", "must be a nextCursor of this list", |text| {
        cursor_bytes(text).filter(|bytes| is_position(bytes))
    });
    query.finish()?;
    let _share = call.begin_list(tenant)?;
    let privacy = call.state.service.privacy(tenant);
    let page = privacy.page(status, limit as usize, after).await?;
    let view = |request| RequestView::new(&call, tenant, request);
    let view = PageView {
        data: page.requests.iter().map(view).collect(),
        next_cursor: page.next.map(|position| cursor_of(&position)),
    };
    request_context::json(HttpResponse::Ok(), &view)
}

/// Cancels a request. 204.
async fn cancel(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let privacy = call.state.service.privacy(tenant);
    let id = id_in_path(&call);
    if privacy.find(id).await?.is_none() {
        return Err(privacy_request_not_found());
    }
    call.reject_parameters()?;
    match privacy.cancel(id).await? {
        Some(Ok(())) => Ok(HttpResponse::build(StatusCode::NO_CONTENT).finish()),
        Some(Err(_not_pending)) => Err(Problem::new(
            Code::NotPending,
            "The request has started or finished, and cannot be cancelled.",
        )),
        None => Err(privacy_request_not_found()),
    }
}

fn id_in_path(call: &RequestContext) -> &str {
    call.http.match_info().get("requestId").unwrap_or_default()
}

fn new_request(body: &Value) -> Result<NewRequest, Problem> {
    let root = Fields::root(body)?;
    let mut faults = Faults::default();
    root.only(
        &["requestId", "type", "subject", "suppress", "reason"],
        &mut faults,
    );
    let detail = format!(
        "must have 1 to {PRIVACY_REQUEST_ID_CHARS_MAX} letters, digits or characters of ._:~@-, and begin with a letter or digit"
    );
    let request_id = root.read("requestId", detail, &mut faults, |value| {
        value.as_str().filter(|text| is_request_id(text))
    });
    let request_id = root.need("requestId", request_id, &mut faults);
    let request_type = root.closed("type", &RequestType::ALL, &mut faults);
    let request_type = root.need("type", request_type, &mut faults);
    let fields = root.object("subject", &mut faults);
    let fields = root.need("subject", fields, &mut faults);
    let subject = fields.and_then(|fields| subject(&fields, &mut faults));
    let suppress = root.read(
        "suppress",
        "must be true or false",
        &mut faults,
        Value::as_bool,
    );
    let suppress = suppress.unwrap_or(false);
    let reason = root.text("reason", 0..=PRIVACY_REASON_CHARS_MAX, &mut faults);
    let is_rider = matches!(subject, Some(Subject::ExternalRiderId(_)));
    if suppress && subject.is_some() && !is_rider {
        let detail = "is allowed for a subject with externalRiderId only";
        faults.add(root.pointer("suppress"), detail);
    }
    if suppress
        && matches!(
            request_type,
            Some(RequestType::Release | RequestType::Access)
        )
    {
        let detail = "is allowed for an erasure or a restriction only";
        faults.add(root.pointer("suppress"), detail);
    }
    let request = || {
        Some(NewRequest {
            request_id: request_id?.to_owned(),
            request_type: request_type?,
            subject: subject?,
            suppress,
            reason: reason.map(str::to_owned),
        })
    };
    faults.into_result(request())
}

fn subject(fields: &Fields<'_>, faults: &mut Faults) -> Option<Subject> {
    const NAMES: [&str; 3] = ["externalRiderId", "deliveryId", "sessionId"];
    fields.only(&NAMES, faults);
    let given = NAMES.iter().filter(|name| fields.has(name)).count();
    if given != 1 {
        let detail = "must have exactly one of externalRiderId, deliveryId and sessionId";
        faults.add("/subject".to_owned(), detail);
        return None;
    }
    let rider = fields.text("externalRiderId", 1..=TEXT_CHARS_MAX, faults);
    let delivery = fields.text("deliveryId", 1..=TEXT_CHARS_MAX, faults);
    let session = fields.read(
        "sessionId",
        "must be the id of a session",
        faults,
        |value| value.as_str()?.parse::<SessionId>().ok(),
    );
    rider
        .map(|id| Subject::ExternalRiderId(id.to_owned()))
        .or_else(|| delivery.map(|id| Subject::DeliveryId(id.to_owned())))
        .or_else(|| session.map(Subject::SessionId))
}
