//! The page of one delivery: its content, the result of every attempt, and the remedy.

use actix_web::HttpResponse;
use maud::{Markup, html};
use porchlight_core::webhook::{AttemptResult, Queued, State};
use porchlight_http::problem::{Problem, check_retry, delivery_not_found};
use porchlight_http::query::Query;
use porchlight_ports::{DeliveryDetail, DeliveryStatus};
use porchlight_schema::ids::MessageId;
use porchlight_schema::key::Permission;
use porchlight_schema::limits::ATTEMPTS_MAX;
use porchlight_schema::time::TimestampMs;

use super::super::layout::{
    self, Frame, Icon, Notice, Section, clock, copy, icon, notice, time, zone,
};
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::super::{descriptions, guard};
use super::{curl, failure_notice};

/// The time after a retry request during which the page polls for the result: an attempt and its
/// commit.
const POLL_MS_MAX: i64 = 15_000;

fn id(request: &SignedInRequest) -> Result<MessageId, Problem> {
    let id = request.path_segment("id").parse();
    id.map_err(|_| delivery_not_found())
}

pub(super) async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let webhooks = request.webhooks()?;
    let webhooks = webhooks.of(request.tenant());
    let detail = webhooks.delivery(id(&request)?).await?;
    let detail = detail.ok_or_else(delivery_not_found)?;
    let endpoint = webhooks.endpoint().await?;
    let before = webhooks.before(endpoint.as_ref(), std::slice::from_ref(&detail.row));
    let before = before.await?.into_iter().next().flatten();
    let url = endpoint.as_ref().map(|endpoint| endpoint.url.as_ref());
    let mut query = Query::of(request.http.query_string());
    let requested_at = query.read("asked", "", |text| text.parse().ok().map(TimestampMs));
    let frame = request.frame();
    let body = page(&frame, &detail, (url, before.as_ref()), requested_at);
    Ok(guard::ok(frame.page(
        Section::Deliveries,
        detail.row.queued.event.as_str(),
        body,
    )))
}

pub(super) async fn retry(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    let webhooks = request.webhooks()?;
    let (id, now) = (id(&request)?, request.now());
    check_retry(webhooks.of(request.tenant()).retry(id).await?)?;
    Ok(guard::redirect(&format!(
        "{ROOT}/deliveries/{id}?asked={}",
        now.0
    )))
}

fn page(
    frame: &Frame<'_>,
    detail: &DeliveryDetail,
    (url, before): (Option<&str>, Option<&Queued>),
    requested_at: Option<TimestampMs>,
) -> Markup {
    let (row, status) = (&detail.row, detail.status);
    let last = detail.attempts.last().map(|(_, report)| report);
    let waits = requested_at.filter(|&requested_at| {
        let is_answered = last.is_some_and(|last| last.at >= requested_at);
        !is_answered && frame.now.since_ms(requested_at) < POLL_MS_MAX
    });
    html! {
        p.crumbs { a href={ (ROOT) "/deliveries" } { "Webhook deliveries" } }
        header.title {
            h1 { (row.queued.event.as_str()) }
            (layout::status(status))
            (retry_button(frame, detail, url.is_some()))
        }
        @if waits.is_some() {
            div data-refresh="700" { (notice(Notice::Note, "Sending an attempt now. This page updates when the response arrives.")) }
            noscript { p { a href="" { "Reload" } " to see the result." } }
        } @else if let Some(last) = last.filter(|last| last.cause.is_some()) {
            @if let Some(cause) = last.cause { (failure_notice(cause, last.status_code)) }
        } @else if requested_at.is_some() && last.is_some() {
            (notice(Notice::Good, "Your endpoint accepted it."))
        }
        section.card { (facts(frame, detail, url, before)) }
        section.card aria-labelledby="attempts" {
            h2 #attempts { "Attempts" }
            (attempts(&detail.attempts))
        }
        section.card aria-labelledby="body" {
            h2 #body { "Request body" }
            @match &detail.body {
                Some(body) => (copy("Request body", body)),
                None => (notice(Notice::Bad, "The stored request body is damaged, so this event cannot be sent. Read the session instead.")),
            }
        }
        @if let (Some(url), Some(body)) = (url, &detail.body) {
            section.card aria-labelledby="curl" {
                h2 #curl { "Send it yourself" }
                p.help { "This command sends the same body, signed with the secret in " code { "$WEBHOOK_SECRET" } "." }
                (copy("curl command", &curl::command(row, url, body)))
            }
        }
    }
}

fn retry_button(frame: &Frame<'_>, detail: &DeliveryDetail, is_configured: bool) -> Markup {
    let label = match detail.status {
        _ if detail.body.is_none() => return html! {},
        DeliveryStatus::Superseded | DeliveryStatus::Cancelled => return html! {},
        DeliveryStatus::Delivered => "Send again",
        DeliveryStatus::Pending | DeliveryStatus::Retrying | DeliveryStatus::Failed => "Retry now",
    };
    html! {
        @if is_configured && frame.may(Permission::RetryDelivery) {
            form.end method="post" action={ (ROOT) "/deliveries/" (detail.row.queued.id) "/retry" } {
                (frame.field())
                button.primary { (icon(Icon::Again)) (label) }
            }
        }
    }
}

/// Renders the facts about a delivery. `before` is the message of its session that must be
/// delivered or fail first.
fn facts(
    frame: &Frame<'_>,
    detail: &DeliveryDetail,
    url: Option<&str>,
    before: Option<&Queued>,
) -> Markup {
    let row = &detail.row;
    let waits = matches!(
        detail.status,
        DeliveryStatus::Pending | DeliveryStatus::Retrying
    );
    html! {
        p { (descriptions::status(detail.status)) }
        dl.facts {
            dt { "Delivery" } dd.mono { (row.queued.id) }
            dt { "Session" } dd.mono { a href={ (ROOT) "/sessions/" (row.queued.session_id) } { (row.queued.session_id) } }
            dt { "Sequence" } dd { (row.queued.number) }
            dt { "Created" } dd { (time(row.created_at(), frame.now)) }
            @if let Some(delivered_at) = row.delivered_at { dt { "Delivered" } dd { (time(delivered_at, frame.now)) } }
            @if let Some(due_at) = row.queued.due_at.filter(|_| waits) {
                dt { "Next attempt" } dd { (time(due_at, frame.now)) " · attempt " (row.queued.attempts + 1) " of " (ATTEMPTS_MAX) }
            }
            @if let Some(before) = before.filter(|_| waits) {
                dt { "Waits for" } dd { a.mono href={ (ROOT) "/deliveries/" (before.id) } { (before.id) } " · " (before.event.as_str())
                    @if let Some(due_at) = before.due_at.filter(|_| before.state == State::Waiting) { " · next attempt " (time(due_at, frame.now)) } }
            }
            dt { "Current URL" } dd.mono.break { (url.unwrap_or("no webhook is registered")) }
        }
    }
}

/// Returns the beginning of the response's body, unless it is empty.
fn response(report: &AttemptResult) -> Option<&str> {
    let response = report.response.as_deref();
    response.filter(|response| !response.is_empty())
}

/// Renders the reason of a failure, the address of the attempt and the response headers, as far as
/// they are known.
fn circumstances(report: &AttemptResult) -> Markup {
    let details = &report.details;
    html! {
        @if let Some(reason) = &details.reason { span.sub { (reason) } }
        @if let Some(address) = details.address { span.sub.mono { (address) } }
        @if !details.response_headers.is_empty() {
            details {
                summary { "Response headers" }
                pre.answer tabindex="0" { @for (name, value) in &details.response_headers { (name) ": " (value) "\n" } }
            }
        }
    }
}

fn attempts(attempts: &[(u32, AttemptResult)]) -> Markup {
    html! {
        @if attempts.is_empty() { p.faint { "None yet." } } @else {
            div.table { table {
                caption.hidden { "Attempts, newest first" }
                thead { tr { th.num scope="col" { "Attempt" } th scope="col" { "Sent (" (zone()) ")" } th.num.opt scope="col" { "Duration" } th scope="col" { "Result" } th.opt scope="col" { "Response" } } }
                tbody { @for (number, report) in attempts.iter().rev() { tr {
                    td.num { (number) }
                    td { (clock(report.at)) }
                    td.num.opt.nobr { (report.duration_ms) " ms" }
                    td { @match report.cause {
                        None => { span.state.good { (icon(Icon::Check)) (report.status_code.map_or_else(|| "accepted".to_owned(), |code| code.to_string())) } }
                        Some(cause) => { span.state.bad { (icon(Icon::Cross)) @if let Some(code) = report.status_code { (code) " " } (layout::cause(cause)) } }
                    } (circumstances(report)) @if let Some(response) = response(report) { pre.answer.narrow tabindex="0" { (response) } } }
                    td.opt { @match response(report) {
                        Some(response) => { pre.answer tabindex="0" { (response) } }
                        None => { span.faint { "–" } }
                    } }
                } } }
            } }
        }
    }
}
