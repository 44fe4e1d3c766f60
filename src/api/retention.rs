//! `GET` and `PUT /v1/retention`: for how long the data of sessions and the audit log are kept.

use actix_web::{HttpResponse, Resource, web};
use porchlight_core::retention::{AUDIT_FIELD, DataClass, RetentionBounds, RetentionPolicy};
use porchlight_http::body::Limits;
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::Problem;
use porchlight_http::request_context::{self, RequestContext};
use porchlight_http::route::{get, resource};
use porchlight_observe::http::Route;
use porchlight_schema::limits::AUDIT_DAYS_MAX;
use serde::Serialize;

/// The chosen retention, and the bounds of the operator.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RetentionView {
    #[serde(flatten)]
    policy: RetentionPolicy,
    bounds: BoundsView,
}

/// The shortest and the longest retention that can be chosen, in days.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BoundsView {
    shortest_telemetry_days: u32,
    shortest_messages_days: u32,
    shortest_insight_days: u32,
    longest_days: u32,
    shortest_audit_days: u32,
    longest_audit_days: u32,
}

impl RetentionView {
    fn new(policy: RetentionPolicy, bounds: &RetentionBounds) -> Self {
        Self {
            policy,
            bounds: BoundsView {
                shortest_telemetry_days: bounds.shortest_days(DataClass::Telemetry),
                shortest_messages_days: bounds.shortest_days(DataClass::Messages),
                shortest_insight_days: bounds.shortest_days(DataClass::Insight),
                longest_days: bounds.longest_days,
                shortest_audit_days: bounds.shortest_audit_days,
                longest_audit_days: AUDIT_DAYS_MAX,
            },
        }
    }
}

/// Returns the resource with its routes.
pub(super) fn retention_resource() -> Resource {
    resource(Route::Retention, "GET, HEAD, PUT")
        .route(get().to(show))
        .route(web::put().to(choose))
}

/// Returns the chosen retention. 200.
async fn show(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let service = &call.state.service;
    let policy = service.retention(tenant).policy().await?;
    let view = RetentionView::new(policy, &service.retention_bounds());
    request_context::json(HttpResponse::Ok(), &view)
}

/// Replaces the chosen retention. 200 with the new one.
async fn choose(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    call.reject_parameters()?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let [telemetry, messages, insight] = DataClass::ALL.map(DataClass::field);
    root.only(&[telemetry, messages, insight, AUDIT_FIELD], &mut faults);
    let mut days = |field: &str| root.whole(field, 0..=u32::MAX, &mut faults);
    let policy = RetentionPolicy {
        telemetry_days: days(telemetry),
        messages_days: days(messages),
        insight_days: days(insight),
        audit_days: days(AUDIT_FIELD),
    };
    let service = &call.state.service;
    let bounds = service.retention_bounds();
    if let Err(refused) = policy.check(&bounds) {
        faults.add(root.pointer(refused.field()), refused.to_string());
    }
    let policy = faults.into_result(Some(policy))?;
    if let Err(refused) = service.retention(tenant).choose(policy).await? {
        return Err(Problem::internal(refused));
    }
    request_context::json(HttpResponse::Ok(), &RetentionView::new(policy, &bounds))
}
