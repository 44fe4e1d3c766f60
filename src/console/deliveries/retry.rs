//! Retries all deliveries that match a filter, in three steps: the count, the run, and its
//! progress.

use actix_web::HttpResponse;
use maud::{Markup, PreEscaped, html};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::Query;
use porchlight_ports::{BulkRetry, DeliveryFilter, DeliveryStatus};
use porchlight_schema::key::Permission;
use porchlight_schema::limits::RETRY_BY_FILTER_MAX;

use super::super::guard;
use super::super::layout::{Notice, Section, notice, thousands, zone};
use super::super::list_query::ListQuery;
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::filter::{self, retry_query};

fn chosen_filter(query: &ListQuery) -> Result<DeliveryFilter, Problem> {
    let filter =
        filter::read(query).map_err(|fault| Problem::new(Code::InvalidParameter, fault))?;
    Ok(DeliveryFilter {
        status: filter.status.or(Some(DeliveryStatus::Failed)),
        session_id: None,
        ..filter
    })
}

/// Renders the filter in words.
fn describe(filter: &DeliveryFilter) -> Markup {
    html! {
        dl.facts {
            dt { "Status" } dd { @if let Some(status) = filter.status { (super::layout::status(status)) } }
            dt { "Event" } dd { (filter.event.map_or("any", |event| event.as_str())) }
            dt { "Created from" } dd { @match filter.from { Some(from) => { (super::clock(from)) " " (zone()) }, None => "the beginning" } }
            dt { "Created before" } dd { @match filter.to { Some(to) => { (super::clock(to)) " " (zone()) }, None => "now" } }
        }
    }
}

fn count_text(retry: BulkRetry) -> String {
    let count = thousands(retry.count);
    if retry.is_truncated {
        format!("more than {count}")
    } else {
        count
    }
}

pub(super) async fn preview(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let query = filter::parse(request.http.query_string());
    let filter = chosen_filter(&query)?;
    let webhooks = request.webhooks()?;
    let _share = request.begin_list()?;
    let counted = webhooks
        .of(request.tenant())
        .count_retryable(&filter)
        .await?;
    let back = format!("{ROOT}/deliveries?{}", retry_query(&query));
    let frame = request.frame();
    let body = html! {
        p.crumbs { a href=(back) { "Webhook deliveries" } }
        header.title { h1 { "Retry all that match" } }
        section.card {
            p.figure { strong { (count_text(counted)) } " " (if counted.count == 1 { "delivery matches" } else { "deliveries match" }) }
            (describe(&filter))
            @if counted.is_truncated {
                (notice(Notice::Note, &format!("This retries the oldest {}. Repeat it for the rest when they are done.", thousands(RETRY_BY_FILTER_MAX))))
            }
            p.help { "Each delivery gets one immediate attempt outside its schedule. If the attempt fails, the delivery stays failed." }
            form.buttons method="post" action={ (ROOT) "/deliveries/retry" } {
                (frame.field())
                @for name in ["status", "event", "from", "to"] {
                    @if !query.get(name).is_empty() { input type="hidden" name=(name) value=(query.get(name)); }
                }
                @if counted.count > 0 && frame.may(Permission::RetryDelivery) { button.primary { "Retry " (thousands(counted.count)) " now" } }
                a.button.quiet href=(back) { "Back" }
            }
        }
    };
    Ok(guard::ok(frame.page(
        Section::Deliveries,
        "Retry all that match",
        body,
    )))
}

pub(super) async fn run(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let query = filter::parse(&request.form().await?.query());
    let filter = chosen_filter(&query)?;
    let webhooks = request.webhooks()?;
    let _share = request.begin_list()?;
    let done = webhooks.of(request.tenant()).retry_all(&filter).await?;
    let query = retry_query(&query);
    Ok(guard::redirect(&format!(
        "{ROOT}/deliveries/retry/progress?{query}&count={}",
        done.count
    )))
}

pub(super) async fn progress(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let mut parameters = Query::of(request.http.query_string());
    let requested: usize = parameters
        .read("count", "", |text| text.parse().ok())
        .unwrap_or_default();
    let query = filter::parse(request.http.query_string());
    let filter = chosen_filter(&query)?;
    let webhooks = request.webhooks()?;
    let webhooks = webhooks.of(request.tenant());
    let endpoint = webhooks.endpoint().await?;
    let waiting = webhooks.retries_waiting().await?;
    let is_paused = endpoint.is_some_and(|endpoint| !endpoint.enabled);
    let _share = request.begin_list()?;
    let remaining = webhooks.count_retryable(&filter).await?;
    let (requested, attempted) = (
        requested.min(RETRY_BY_FILTER_MAX),
        requested.saturating_sub(waiting),
    );
    let list = format!("{ROOT}/deliveries?{}", retry_query(&query));
    let is_running = waiting > 0 && !is_paused;
    let frame = request.frame();
    let body = html! {
        p.crumbs { a href=(list) { "Webhook deliveries" } }
        header.title { h1 { @if is_running { "Retrying" } @else if waiting > 0 { "Waiting" } @else { "Done" } } }
        section.card data-refresh=[is_running.then_some("1000")] {
            p.figure { strong { (thousands(attempted)) } " of " (thousands(requested)) " attempted" }
            progress max=(requested.max(1)) value=(attempted) aria-label="Attempted deliveries" {}
            p aria-live="polite" { (count_text(remaining)) " still " (if remaining.count == 1 { "matches" } else { "match" }) " the filter, because the attempt failed or is pending." }
            @if is_paused && waiting > 0 { (notice(Notice::Note, "The webhook is paused. The remaining retries run when you resume it.")) }
            p { a href=(list) { "Show the remaining webhook deliveries" } " · " a href={ (ROOT) "/deliveries" } { "All webhook deliveries" } }
        }
    };
    let head = html! { @if is_running { noscript { (PreEscaped(r#"<meta http-equiv="refresh" content="3">"#)) } } };
    Ok(guard::ok(frame.page_with(
        Section::Deliveries,
        "Retrying",
        head,
        body,
    )))
}
