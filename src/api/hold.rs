//! `GET`, `PUT` and `DELETE /v1/sessions/{id}/hold`: legal holds, which protect a session from
//! retention and erasure.

use actix_web::{HttpResponse, Resource, web};
use porchlight_http::problem::Problem;
use porchlight_http::request_context::{self, RequestContext};
use porchlight_http::route::{get, resource};
use porchlight_observe::http::Route;
use serde::Serialize;

/// The legal hold of a session.
#[derive(Serialize)]
struct HoldView {
    held: bool,
}

/// Returns the resource with its routes.
pub(super) fn hold_resource() -> Resource {
    resource(Route::SessionHold, "DELETE, GET, HEAD, PUT")
        .route(get().to(show))
        .route(web::put().to(place))
        .route(web::delete().to(release))
}

/// Returns whether a session is under a legal hold. 200 `{held}`.
async fn show(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let tenant = caller.require_secret_key()?;
    let row = call.session(&caller, call.session_id()).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let privacy = call.state.service.privacy(tenant);
    let held = privacy.shows_hold(row.start.session_id).await?;
    request_context::json(HttpResponse::Ok(), &HoldView { held })
}

/// Places a legal hold. 200 `{held: true}`, also if the session is already held.
async fn place(call: RequestContext) -> Result<HttpResponse, Problem> {
    set(call, true).await
}

/// Releases a legal hold. 200 `{held: false}`, also if the session is not held.
async fn release(call: RequestContext) -> Result<HttpResponse, Problem> {
    set(call, false).await
}

async fn set(call: RequestContext, held: bool) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let tenant = caller.require_secret_key()?;
    let row = call.session_to_change(&caller, call.session_id()).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    call.check_may_change(&row)?;
    let privacy = call.state.service.privacy(tenant);
    privacy.set_hold(&row.start, held).await??;
    request_context::json(HttpResponse::Ok(), &HoldView { held })
}
