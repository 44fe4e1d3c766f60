//! The page with the privacy requests of the tenant and the form for a new one.

use actix_web::HttpResponse;
use maud::{Markup, html};
use porchlight_actors::service::is_position;
use porchlight_core::privacy::{PrivacyRequest, RecordedSubject};
use porchlight_http::links::ArchiveLink;
use porchlight_http::problem::Problem;
use porchlight_http::query::{Query, cursor_bytes, cursor_of};
use porchlight_schema::privacy::{Counts, RequestStatus};

use super::super::guard;
use super::super::layout::{Frame, Icon, Notice, Section, empty, icon, next_page, notice, time};
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::form::{self, Entered};

/// The number of requests per page.
const ROWS: usize = 50;

/// The part of the page's address that selects requests.
#[derive(Default)]
struct Selected {
    status: Option<RequestStatus>,
    after: Option<Vec<u8>>,
}

impl Selected {
    fn of(request: &SignedInRequest) -> Self {
        let mut query = Query::of(request.http.query_string());
        Self {
            status: query.closed("status", &RequestStatus::ALL),
            after: query.read("after", "", |text| {
                cursor_bytes(text).filter(|bytes| is_position(bytes))
            }),
        }
    }

    fn address(&self, after: Option<&[u8]>) -> String {
        let mut address = format!("{ROOT}/privacy?");
        if let Some(status) = self.status {
            address.push_str(&format!("status={}&", status_name(status)));
        }
        if let Some(after) = after {
            address.push_str(&format!("after={}", cursor_of(after)));
        }
        address
    }
}

pub(super) async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    render(&request, None, &Entered::default()).await
}

/// Renders the page with the entered texts and, if they are invalid, an error message.
pub(super) async fn render(
    request: &SignedInRequest,
    message: Option<&str>,
    entered: &Entered,
) -> Result<HttpResponse, Problem> {
    let selected = Selected::of(request);
    let _share = request.begin_list()?;
    let privacy = request.state.service.privacy(request.tenant());
    let page = privacy.page(selected.status, ROWS, selected.after.clone());
    let page = page.await?;
    let done = Query::of(request.http.query_string()).text("done", 16);
    let done = done.and_then(|done| match done.as_str() {
        "created" => Some("The request was submitted."),
        "cancelled" => Some("The request was cancelled. Nothing was changed."),
        _ => None,
    });
    let frame = request.frame();
    let older = page
        .next
        .as_deref()
        .map(|next| selected.address(Some(next)));
    let newest = selected.after.as_ref().map(|_| selected.address(None));
    let body = html! {
        header.title { h1 { "Privacy requests" } }
        p.lead { "Erase, export, freeze or release the personal data of a courier, a delivery or a session." }
        @if let Some(done) = done { (notice(Notice::Good, done)) }
        @if let Some(message) = message { (notice(Notice::Bad, message)) }
        @if frame.may_change() { (form::new_request(&frame, entered)) }
        (filter(selected.status))
        @if page.requests.is_empty() {
            (empty("No requests", html! { "Requests that match will be listed here." }))
        } @else { (table(request, &frame, &page.requests)) }
        (next_page(older, newest))
    };
    let page = frame.page(Section::Privacy, "Privacy requests", body);
    Ok(guard::form_page(message.is_some(), page))
}

fn filter(status: Option<RequestStatus>) -> Markup {
    html! {
        form.filters method="get" action={ (ROOT) "/privacy" } role="search" aria-label="Privacy requests" {
            div { label for="status" { "Status" } select #status name="status" {
                option value="" { "any" }
                @for (name, one) in RequestStatus::ALL { option value=(name) selected[status == Some(one)] { (status_label(one)) } }
            } }
            button { "Filter" }
        }
    }
}

fn table(request: &SignedInRequest, frame: &Frame<'_>, requests: &[PrivacyRequest]) -> Markup {
    html! {
        div.table { table {
            caption.hidden { "Privacy requests, newest first" }
            thead { tr { th scope="col" { "Request" } th scope="col" { "Subject" } th scope="col" { "Status" } th.opt scope="col" { "Received" } th.opt scope="col" { "Affected" } th scope="col" { span.hidden { "Actions" } } } }
            tbody { @for privacy_request in requests { (row(request, frame, privacy_request)) } }
        } }
    }
}

fn row(request: &SignedInRequest, frame: &Frame<'_>, privacy_request: &PrivacyRequest) -> Markup {
    html! { tr {
        td { (form::type_name(privacy_request.request_type)) span.sub.mono.break { (privacy_request.request_id) } }
        td.break { (subject(privacy_request)) }
        td { (status(privacy_request.status)) @if let Some(at) = privacy_request.completed_at { span.sub { (time(at, frame.now)) } } }
        td.opt { (time(privacy_request.received_at, frame.now)) }
        td.opt { (counts(&privacy_request.counts)) }
        td { (actions(request, frame, privacy_request)) }
    } }
}

fn subject(privacy_request: &PrivacyRequest) -> Markup {
    html! {
        @match &privacy_request.subject {
            RecordedSubject::Clear(subject) => {
                @let (kind, id) = subject.parts();
                (form::subject_label(kind)) " " span.mono { (id) }
            }
            RecordedSubject::Hashed(hashed) => span.faint title={ "sha256:" (hashed.salt) ":" (hashed.hash) } { "erased; kept as a hash" },
        }
    }
}

/// Renders the affected objects, one line for each class of data.
fn counts(counts: &Counts) -> Markup {
    let classes = [
        ("sessions", counts.sessions),
        ("batches of telemetry", counts.telemetry),
        ("insights", counts.insights),
        ("path images", counts.images),
        ("webhook deliveries", counts.messages),
        ("observations of places", counts.places),
        ("keys", counts.keys),
    ];
    let affected = classes.iter().filter(|(_, count)| *count > 0);
    html! { @for (class, count) in affected { span.sub { (class) ": " (count) } } }
}

fn actions(
    request: &SignedInRequest,
    frame: &Frame<'_>,
    privacy_request: &PrivacyRequest,
) -> Markup {
    let archive = || {
        let expires_at = privacy_request.archive_expires_at()?;
        let link = ArchiveLink {
            tenant: request.tenant(),
            request_id: &privacy_request.request_id,
            expires_at,
        };
        let links = request
            .state
            .links
            .as_ref()
            .filter(|_| frame.now < expires_at)?;
        let url = links.archive_url(&link)?;
        Some(url.get(url.find("/v1/")?..)?.to_owned())
    };
    html! {
        @if privacy_request.receipt.is_some() { a.button.quiet href={ (ROOT) "/privacy/" (privacy_request.request_id) "/receipt" } download="receipt.jws" { "Receipt" } }
        @if let Some(archive) = archive() { a.button.quiet href=(archive) { "Download the archive" } }
        @if privacy_request.status == RequestStatus::Pending && frame.may_change() {
            form method="post" action={ (ROOT) "/privacy/" (privacy_request.request_id) "/cancel" } {
                (frame.field())
                button { "Cancel" span.hidden { " the request " (privacy_request.request_id) } }
            }
        }
    }
}

fn status_name(status: RequestStatus) -> &'static str {
    let named = RequestStatus::ALL.iter().find(|(_, one)| *one == status);
    named.map_or("", |(name, _)| name)
}

fn status_label(status: RequestStatus) -> &'static str {
    match status {
        RequestStatus::Pending => "pending",
        RequestStatus::InProgress => "in progress",
        RequestStatus::Completed => "completed",
        RequestStatus::Cancelled => "cancelled",
        RequestStatus::Failed => "failed",
    }
}

fn status(status: RequestStatus) -> Markup {
    let (class, glyph) = match status {
        RequestStatus::Pending => ("wait", Icon::Wait),
        RequestStatus::InProgress => ("again", Icon::Again),
        RequestStatus::Completed => ("good", Icon::Check),
        RequestStatus::Cancelled => ("dim", Icon::Minus),
        RequestStatus::Failed => ("bad", Icon::Cross),
    };
    let title = match status {
        RequestStatus::Failed => {
            Some("A legal hold was placed on a session of the subject, so nothing was erased.")
        }
        _ => None,
    };
    html! { span class={ "state " (class) } title=[title] { (icon(glyph)) (status_label(status)) } }
}
