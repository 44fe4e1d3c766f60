//! Webhook deliveries: the list, the details of one delivery, and retries. The pages use the same
//! reads and requests as the API.

mod curl;
mod detail;
mod filter;
mod retry;

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_core::audit::Action;
use porchlight_http::problem::Problem;
use porchlight_http::query;
use porchlight_ports::{DeliveryRow, DeliveryStatus, Page};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::key::Permission;
use porchlight_schema::message::MessageEvent;

use super::layout::{
    self, Frame, Notice, Section, ago, clock, empty, icon, next_page, notice, zone,
};
use super::list_query::{CURSOR, ListQuery};
use super::route::{ROOT, action, page, page_with_action};
use super::signed_in::SignedInRequest;
use super::{descriptions, guard};
use filter::{is_narrowed, is_retryable, retry_query};

/// The number of rows per page.
const ROWS: u32 = 50;

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "/deliveries", None, list);
    page_with_action(
        config,
        "/deliveries/retry",
        retry::preview,
        Some(Action::RetryDeliveries),
        retry::run,
    );
    page(config, "/deliveries/retry/progress", None, retry::progress);
    page(
        config,
        "/deliveries/{id}",
        Some(Action::ReadDelivery),
        detail::show,
    );
    action(
        config,
        "/deliveries/{id}/retry",
        Some(Action::RetryDelivery),
        detail::retry,
    );
}

async fn list(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let webhooks = request.webhooks()?;
    let query = filter::parse(request.http.query_string());
    let webhooks = webhooks.of(request.tenant());
    let current = webhooks.endpoint().await?.map(|endpoint| endpoint.id);
    let rows = match filter::read(&query) {
        Ok(filter) => {
            let _share = request.begin_list()?;
            let after = query.after().map(|id| MessageId::from_bytes(id.to_bytes()));
            Ok(webhooks.deliveries(&filter, ROWS, after).await?)
        }
        Err(fault) => Err(fault),
    };
    let frame = request.frame();
    let body = html! {
        header.title {
            h1 { "Webhook deliveries" }
            @if frame.may(Permission::RetryDelivery) && is_retryable(&query) && rows.as_ref().is_ok_and(|page| !page.rows.is_empty()) && current.is_some() {
                a.button href={ (ROOT) "/deliveries/retry?" (retry_query(&query)) } { (icon(layout::Icon::Again)) "Retry all that match…" }
            }
        }
        (tabs(&query))
        (form(&query))
        @match &rows {
            Ok(page) => (table(&frame, page, current, &query)),
            Err(fault) => (notice(Notice::Bad, fault)),
        }
    };
    let page = frame.page(Section::Deliveries, "Webhook deliveries", body);
    Ok(guard::form_page(rows.is_err(), page))
}

/// Renders one tab per state.
fn tabs(query: &ListQuery) -> Markup {
    let first = [
        DeliveryStatus::Failed,
        DeliveryStatus::Retrying,
        DeliveryStatus::Pending,
    ];
    let rest = [
        DeliveryStatus::Delivered,
        DeliveryStatus::Superseded,
        DeliveryStatus::Cancelled,
    ];
    let chosen = query.get("status");
    html! {
        nav.tabs aria-label="Status" {
            a href={ (ROOT) "/deliveries?" (query.with("status", "")) } aria-current=[chosen.is_empty().then_some("true")] { "all" }
            @for status in first.into_iter().chain(rest) {
                a href={ (ROOT) "/deliveries?" (query.with("status", status.as_str())) } aria-current=[(chosen == status.as_str()).then_some("true")] { (layout::status(status)) }
            }
        }
    }
}

fn form(query: &ListQuery) -> Markup {
    html! {
        form.filters method="get" action={ (ROOT) "/deliveries" } role="search" aria-label="Webhook deliveries" {
            @if !query.get("status").is_empty() { input type="hidden" name="status" value=(query.get("status")); }
            div { label for="event" { "Event" }
                select #event name="event" {
                    option value="" { "any" }
                    @for event in MessageEvent::ALL {
                        option value=(event.as_str()) selected[query.get("event") == event.as_str()] { (event.as_str()) }
                    }
                }
            }
            div.grow { label for="session" { "Session" } input #session.mono name="sessionId" value=(query.get("sessionId")) placeholder="ses_…" spellcheck="false" autocomplete="off"; }
            div { label for="from" { "From (UTC)" } input #from type="datetime-local" name="from" value=(query.local("from")); }
            div { label for="to" { "Before (UTC)" } input #to type="datetime-local" name="to" value=(query.local("to")); }
            button { "Filter" }
            @if is_narrowed(query) || query.has(&["status"]) { a.clear href={ (ROOT) "/deliveries" } { "Clear" } }
        }
    }
}

fn table(
    frame: &Frame<'_>,
    page: &Page<DeliveryRow, MessageId>,
    current: Option<EndpointId>,
    query: &ListQuery,
) -> Markup {
    let next = page
        .next
        .map(|id| query::cursor(SessionId::from_bytes(id.to_bytes())));
    let next = next.map(|cursor| format!("{ROOT}/deliveries?{}", query.with(CURSOR, &cursor)));
    let first = query
        .after()
        .map(|_| format!("{ROOT}/deliveries?{}", query.with(CURSOR, "")));
    html! {
        @if page.rows.is_empty() { (empty_list(query, current, next.is_some())) } @else {
            div.table { table {
                caption.hidden { "Webhook deliveries, newest first" }
                thead { tr {
                    th scope="col" { "Status" } th scope="col" { "Event" } th.opt scope="col" { "Created (" (zone()) ")" }
                    th.num.opt scope="col" { "Attempts" } th scope="col" { "Last result" } th.opt scope="col" { "Next attempt" }
                } }
                tbody { @for row in &page.rows { (line(frame, row, current)) } }
            } }
        }
        (next_page(next, first))
    }
}

/// Renders the messages of one session, in order.
pub(super) fn session_table(
    frame: &Frame<'_>,
    rows: &[DeliveryRow],
    current: Option<EndpointId>,
) -> Markup {
    html! {
        div.table { table {
            caption.hidden { "Webhook deliveries of this session, in order" }
            thead { tr {
                th scope="col" { "Status" } th scope="col" { "Event" } th.opt scope="col" { "Created (" (zone()) ")" }
                th.num.opt scope="col" { "Attempts" } th scope="col" { "Last result" } th.opt scope="col" { "Next attempt" }
            } }
            tbody { @for row in rows { (line(frame, row, current)) } }
        } }
    }
}

fn line(frame: &Frame<'_>, row: &DeliveryRow, current: Option<EndpointId>) -> Markup {
    let (queued, status) = (&row.queued, row.status(current));
    let waits = matches!(status, DeliveryStatus::Pending | DeliveryStatus::Retrying);
    html! { tr {
        td { (layout::status(status)) }
        td { a.main href={ (ROOT) "/deliveries/" (queued.id) } { (queued.event.as_str()) }
            span.sub.mono { (queued.session_id) }
            span.sub.narrow { (ago(row.created_at(), frame.now)) } }
        td.opt { (clock(row.created_at())) span.sub { (ago(row.created_at(), frame.now)) } }
        td.num.opt { (queued.attempts) }
        td { (result(row)) }
        td.opt { @match queued.due_at.filter(|_| waits) {
            Some(due_at) => { (ago(due_at, frame.now)) }
            None => { span.faint { "–" } }
        } }
    } }
}

/// Renders the result of the last attempt.
fn result(row: &DeliveryRow) -> Markup {
    html! {
        @match (row.cause, row.status_code) {
            (Some(_), Some(code)) => { span.bad { "status " (code) } }
            (Some(cause), None) => { span.bad { (layout::cause(cause)) } }
            (None, Some(code)) => { "status " (code) }
            (None, None) => { span.faint { "–" } }
        }
    }
}

fn empty_list(query: &ListQuery, current: Option<EndpointId>, has_more: bool) -> Markup {
    if has_more {
        return empty(
            "No match yet",
            html! { "None of the newest webhook deliveries matches. Continue with the older ones." },
        );
    }
    if query.get("status") == DeliveryStatus::Failed.as_str() && !is_narrowed(query) {
        return empty(
            "No failed webhook deliveries",
            html! { "Webhook deliveries appear here after their last attempt failed." },
        );
    }
    if is_narrowed(query) || query.has(&["status"]) {
        return empty(
            "No matching webhook deliveries",
            html! { "Change the filter, or " a href={ (ROOT) "/deliveries" } { "see all" } "." },
        );
    }
    match current {
        Some(_) => empty(
            "No webhook deliveries yet",
            html! { "They appear here when sessions start and end. " a href={ (ROOT) "/webhook" } { "Send a sample event" } " to test your endpoint." },
        ),
        None => empty(
            "No webhook is registered",
            html! { a href={ (ROOT) "/webhook" } { "Register a URL" } " to see its webhook deliveries here." },
        ),
    }
}

/// Renders the cause of a failure and its remedy, in large type.
fn failure_notice(cause: porchlight_core::webhook::Cause, status_code: Option<u16>) -> Markup {
    let (explanation, advice) = descriptions::cause(cause);
    html! {
        div.notice.bad { (icon(layout::Icon::Cross)) div {
            strong { (explanation) @if let Some(code) = status_code { " (" (code) ")" } }
            p { (advice) }
        } }
    }
}
