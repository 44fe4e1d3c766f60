//! The legal hold of a session: its state on the session's page, and the actions that place and
//! release it. `PUT` and `DELETE /v1/sessions/{id}/hold` do the same for programs.

use actix_web::HttpResponse;
use maud::{Markup, html};
use porchlight_http::problem::Problem;
use porchlight_schema::ids::SessionId;

use super::super::guard;
use super::super::layout::Frame;
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;

pub(super) async fn place(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    set(request, true).await
}

pub(super) async fn release(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    set(request, false).await
}

async fn set(mut request: SignedInRequest, is_held: bool) -> Result<HttpResponse, Problem> {
    request.form().await?;
    let row = request.session().await?;
    let privacy = request.state.service.privacy(request.tenant());
    privacy.set_hold(&row.start, is_held).await??;
    let id = row.start.session_id;
    Ok(guard::redirect(&format!("{ROOT}/sessions/{id}#hold")))
}

/// Renders whether a session is held, and the form that changes it if the role allows that.
pub(super) fn card(frame: &Frame<'_>, session_id: SessionId, is_held: bool) -> Markup {
    let action = if is_held { "release-hold" } else { "hold" };
    html! {
        details.card #hold open[is_held] { summary { "Legal hold" @if is_held { ": this session is held" } }
            @if is_held { p { "This session is neither deleted by retention nor erased until the hold is released." } }
            @else { p.help { "A hold keeps this session with all its data: retention does not delete it, and it cannot be erased." } }
            @if frame.may_change() {
                form method="post" action={ (ROOT) "/sessions/" (session_id) "/" (action) } {
                    (frame.field())
                    button { @if is_held { "Release the hold" } @else { "Place a legal hold" } }
                }
            }
        }
    }
}
