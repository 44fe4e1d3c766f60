//! The page on which the visitor confirms a privacy request. An erasure is submitted only after the
//! identifier of its subject was entered a second time.

use actix_web::HttpResponse;
use maud::html;
use porchlight_actors::service::NewRequest;
use porchlight_http::problem::Problem;
use porchlight_ports::SessionFilter;
use porchlight_schema::privacy::{RequestType, Subject};

use super::super::guard;
use super::super::layout::{Notice, Section, notice};
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::form::{Entered, subject_label, type_name};
use super::list;

/// The number of sessions that the confirmation counts.
const SESSIONS_COUNTED_MAX: u32 = 200;

/// Shows the page, or the form again if it is incomplete.
pub(super) async fn confirm(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let entered = Entered::of(&request.form().await?);
    match entered.request() {
        Ok(new) => confirmation(&request, &entered, &new, None).await,
        Err(message) => list::render(&request, Some(&message), &entered).await,
    }
}

/// Renders the effect of the request, and the form that submits it.
pub(super) async fn confirmation(
    request: &SignedInRequest,
    entered: &Entered,
    new: &NewRequest,
    message: Option<&str>,
) -> Result<HttpResponse, Problem> {
    let sessions = sessions(request, &new.subject).await?;
    let frame = request.frame();
    let is_erasure = new.request_type == RequestType::Erasure;
    let body = html! {
        p.crumbs { a href={ (ROOT) "/privacy" } { "Privacy requests" } }
        header.title { h1 { "Confirm: " (type_name(new.request_type)) } }
        @if let Some(message) = message { (notice(Notice::Bad, message)) }
        section.card {
            p { (effect(new.request_type)) }
            @if new.suppress { p { "New sessions of this courier will be refused." } }
            dl.facts {
                dt { "Subject" } dd.break { (subject_label(&entered.kind)) " " span.mono { (entered.subject) } }
                dt { "Visible sessions" } dd { (sessions) }
                dt { "Request" } dd.mono.break { (entered.request_id) }
            }
            form.stack method="post" action={ (ROOT) "/privacy/create" } {
                (frame.field())
                (entered.hidden())
                @if is_erasure {
                    label for="confirm" { "Enter the id of the subject again to confirm the erasure" }
                    input #confirm.mono name="confirm" required autocomplete="off" spellcheck="false";
                }
                button class=(if is_erasure { "bad" } else { "primary" }) { @if is_erasure { "Erase permanently" } @else { "Submit the request" } }
            }
            p { a href={ (ROOT) "/privacy" } { "Go back without changing anything" } }
        }
    };
    let page = frame.page(Section::Privacy, "Confirm", body);
    Ok(guard::form_page(message.is_some(), page))
}

fn effect(request_type: RequestType) -> &'static str {
    match request_type {
        RequestType::Erasure => {
            "All data of the subject is removed: sessions, telemetry, insights, webhook deliveries and recorders. This cannot be undone. \
             The request can be cancelled for a few seconds."
        }
        RequestType::Access => {
            "All data of the subject is offered as an archive to download for 24 hours."
        }
        RequestType::Restriction => {
            "The sessions of the subject are frozen: nothing is shown, changed, sent or deleted until you release them."
        }
        RequestType::Release => {
            "Restriction and suppression of the subject are lifted, and held webhooks are sent."
        }
    }
}

/// Counts the sessions of a subject that the visitor can see, as text.
async fn sessions(request: &SignedInRequest, subject: &Subject) -> Result<String, Problem> {
    let mut filter = SessionFilter::default();
    match subject {
        Subject::ExternalRiderId(id) => filter.external_rider_id = Some(id.clone()),
        Subject::DeliveryId(id) => filter.delivery_id = Some(id.clone()),
        Subject::SessionId(id) => {
            let found = request.sessions().find(*id).await?;
            return Ok(u8::from(found.is_some()).to_string());
        }
    }
    let _share = request.begin_list()?;
    let sessions = request.sessions();
    let page = sessions.list(&filter, SESSIONS_COUNTED_MAX, None).await?;
    Ok(match page.next {
        Some(_) => format!("{} or more", page.rows.len()),
        None => page.rows.len().to_string(),
    })
}
