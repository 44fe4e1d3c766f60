//! The page of one delivery: its content, the result of every attempt, and the remedy.

use actix_web::HttpResponse;
use maud::{Markup, html};
use porchlight_core::webhook::AttemptResult;
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::Query;
use porchlight_http::request_context::restricted;
use porchlight_ports::{DeliveryDetail, DeliveryStatus, RetryOutcome};
use porchlight_schema::ids::MessageId;
use porchlight_schema::key::Permission;
use porchlight_schema::limits::ATTEMPTS_MAX;
use porchlight_schema::time::TimestampMs;

use super::super::layout::{self, Frame, Here, Icon, Notice, clock, copy, icon, notice, time};
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::super::{guard, words};
use super::{curl, explained};

/// The time after a retry request during which the page polls for the result: an attempt and its
/// commit.
const LOOKS_FOR_MS: i64 = 15_000;

fn not_found() -> Problem {
    Problem::new(Code::DeliveryNotFound, "The delivery does not exist.")
}

fn id(visit: &SignedInRequest) -> Result<MessageId, Problem> {
    visit.in_path("id").parse().map_err(|_| not_found())
}

pub(super) async fn show(visit: SignedInRequest) -> Result<HttpResponse, Problem> {
    let webhooks = visit.webhooks()?;
    let webhooks = webhooks.of(visit.tenant());
    let detail = webhooks.delivery(id(&visit)?).await?;
    let detail = detail.ok_or_else(not_found)?;
    let endpoint = webhooks.endpoint().await?;
    let url = endpoint.as_ref().map(|endpoint| endpoint.url.as_ref());
    let mut query = Query::of(visit.http.query_string());
    let asked_at = query.read("asked", "", |text| text.parse().ok().map(TimestampMs));
    let frame = visit.frame();
    let body = page(&frame, &detail, url, asked_at);
    Ok(guard::ok(frame.page(
        Here::Deliveries,
        detail.row.queued.event.as_str(),
        body,
    )))
}

pub(super) async fn retry(mut visit: SignedInRequest) -> Result<HttpResponse, Problem> {
    visit.form().await?;
    let webhooks = visit.webhooks()?;
    let (id, now) = (id(&visit)?, visit.now());
    match webhooks.of(visit.tenant()).retry(id).await? {
        RetryOutcome::Asked => {}
        RetryOutcome::Unknown => return Err(not_found()),
        RetryOutcome::Restricted => return Err(restricted()),
        RetryOutcome::Refused => {
            return Err(Problem::new(
                Code::NotRetryable,
                "The delivery was superseded or cancelled, or no webhook is registered.",
            ));
        }
    }
    Ok(guard::see(&format!(
        "{ROOT}/deliveries/{id}?asked={}",
        now.0
    )))
}

fn page(
    frame: &Frame<'_>,
    detail: &DeliveryDetail,
    url: Option<&str>,
    asked_at: Option<TimestampMs>,
) -> Markup {
    let (row, status) = (&detail.row, detail.status);
    let last = detail.attempts.last().map(|(_, report)| report);
    let waits = asked_at.filter(|&asked_at| {
        let is_answered = last.is_some_and(|last| last.at >= asked_at);
        !is_answered && frame.now.since_ms(asked_at) < LOOKS_FOR_MS
    });
    html! {
        p.crumbs { a href={ (ROOT) "/deliveries" } { "Webhook deliveries" } }
        header.title {
            h1 { (row.queued.event.as_str()) }
            (layout::status(status))
            (retry_button(frame, detail, url.is_some()))
        }
        @if waits.is_some() {
            div data-refresh="700" { (notice(Notice::Note, "A try goes out now. This page looks for its answer.")) }
            noscript { p { a href="" { "Reload" } " to see how it went." } }
        } @else if let Some(last) = last.filter(|last| last.cause.is_some()) {
            @if let Some(cause) = last.cause { (explained(cause, last.status_code)) }
        } @else if asked_at.is_some() && last.is_some() {
            (notice(Notice::Good, "The receiver took it."))
        }
        section.card { (facts(frame, detail, url)) }
        section.card aria-labelledby="tries" {
            h2 #tries { "Tries" }
            (tries(&detail.attempts))
        }
        section.card aria-labelledby="body" {
            h2 #body { "The body, byte for byte" }
            (copy("The exact body", &detail.body))
        }
        @if let Some(url) = url {
            section.card aria-labelledby="curl" {
                h2 #curl { "As a command" }
                p.help { "Sends the same bytes, signed with the secret in " code { "$WEBHOOK_SECRET" } ": put yours there." }
                (copy("curl command", &curl::command(row, url, &detail.body)))
            }
        }
    }
}

fn retry_button(frame: &Frame<'_>, detail: &DeliveryDetail, is_configured: bool) -> Markup {
    let label = match detail.status {
        DeliveryStatus::Superseded | DeliveryStatus::Cancelled => return html! {},
        DeliveryStatus::Delivered => "Send again",
        DeliveryStatus::Pending | DeliveryStatus::Retrying | DeliveryStatus::Failed => "Try now",
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

fn facts(frame: &Frame<'_>, detail: &DeliveryDetail, url: Option<&str>) -> Markup {
    let row = &detail.row;
    let waits = matches!(
        detail.status,
        DeliveryStatus::Pending | DeliveryStatus::Retrying
    );
    html! {
        p { (words::status(detail.status)) }
        dl.facts {
            dt { "Delivery" } dd.mono { (row.queued.id) }
            dt { "Session" } dd.mono { a href={ (ROOT) "/sessions/" (row.queued.session_id) } { (row.queued.session_id) } }
            dt { "Place in the session" } dd { "message " (row.queued.number) }
            dt { "Made" } dd { (time(row.created_at(), frame.now)) }
            @if let Some(delivered_at) = row.delivered_at { dt { "Delivered" } dd { (time(delivered_at, frame.now)) } }
            @if let Some(due_at) = row.queued.due_at.filter(|_| waits) {
                dt { "Next try" } dd { (time(due_at, frame.now)) " · try " (row.queued.attempts + 1) " of " (ATTEMPTS_MAX) }
            }
            dt { "URL now" } dd.mono.break { (url.unwrap_or("none: no webhook is registered")) }
        }
    }
}

fn tries(attempts: &[(u32, AttemptResult)]) -> Markup {
    html! {
        @if attempts.is_empty() { p.faint { "None yet." } } @else {
            div.table { table {
                caption.hidden { "Every try, the last one first" }
                thead { tr { th.num scope="col" { "Try" } th scope="col" { "At (UTC)" } th.num scope="col" { "Took" } th scope="col" { "Result" } th scope="col" { "Answer" } } }
                tbody { @for (number, report) in attempts.iter().rev() { tr {
                    td.num { (number) }
                    td { (clock(report.at)) }
                    td.num.nobr { (report.duration_ms) " ms" }
                    td { @match report.cause {
                        None => { span.state.good { (icon(Icon::Check)) (report.status_code.map_or_else(|| "taken".to_owned(), |code| code.to_string())) } }
                        Some(cause) => { span.state.bad { (icon(Icon::Cross)) @if let Some(code) = report.status_code { (code) " " } (layout::cause(cause)) } }
                    } }
                    td { @match report.response.as_deref().filter(|response| !response.is_empty()) {
                        Some(response) => { pre.answer tabindex="0" { (response) } }
                        None => { span.faint { "–" } }
                    } }
                } } }
            } }
        }
    }
}
