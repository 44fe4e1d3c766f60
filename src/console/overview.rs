//! The overview: live sessions, failures, delivery results and the state of the webhook. Each
//! number links to its list.
//!
//! Nothing is counted in advance. The overview reads a bounded number of the newest rows, and the
//! page states how many: a person looks here for the current situation, and a bounded read costs
//! the same on a store of any size.

mod counts;

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_core::audit::Action;
use porchlight_core::webhook::Cause;
use porchlight_http::problem::Problem;
use porchlight_ports::ends_soon;
use porchlight_ports::{DeliveryStatus, Endpoint, SessionRow};
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::time::TimestampMs;

use super::form::encode;
use super::layout::{self, Frame, Icon, Notice, Section, ago, duration, icon, notice, thousands};
use super::route::{ROOT, page};
use super::sessions::{reason, recording};
use super::signed_in::SignedInRequest;
use super::{descriptions, guard};
use counts::{DeliveryCounts, OverviewCounts, SessionCounts};

/// The states in display order, the desired one first.
const ORDER: [DeliveryStatus; 6] = [
    DeliveryStatus::Delivered,
    DeliveryStatus::Retrying,
    DeliveryStatus::Failed,
    DeliveryStatus::Pending,
    DeliveryStatus::Superseded,
    DeliveryStatus::Cancelled,
];
/// The number of live sessions that are listed by name.
const LIVE_SHOWN: usize = 6;

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "", Some(Action::ListSessions), show);
}

async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let counts = counts::count(&request).await?;
    let webhooks = request.webhooks()?;
    let endpoint = counts.endpoint.as_ref();
    let ends_at = endpoint.and_then(|endpoint| webhooks.certificate_ends_at(endpoint));
    let frame = request.frame();
    let body = html! {
        header.title { h1 { "Overview" } span.faint { "the last 24 hours, until " (layout::clock(frame.now)) " " (layout::zone()) } }
        (figures(&counts))
        div.columns {
            (outcomes(&counts.sessions))
            div.stacked {
                (webhook(&frame, &counts, ends_at))
                (live(&frame, &counts))
            }
        }
    };
    Ok(guard::ok(frame.page(Section::Overview, "Overview", body)))
}

/// Returns the address of a list that begins at a given time.
fn list_address(path: &str, fields: &[(&str, &str)], from: Option<TimestampMs>) -> String {
    let from = from.map(|from| from.to_string());
    let from = from.as_deref().map(|from| ("from", from));
    let query = encode(fields.iter().copied().chain(from));
    format!("{ROOT}/{path}?{query}")
}

fn figures(counts: &OverviewCounts) -> Markup {
    let (sessions, deliveries) = (&counts.sessions, &counts.deliveries);
    let since = Some(sessions.since);
    let failed = deliveries.of(DeliveryStatus::Failed);
    html! {
        ul.figures {
            li { (figure("Live now", &count_text(counts.live.len(), counts.is_live_truncated), "", &list_address("sessions", &[("status", "recording")], None), "sessions in progress")) }
            li { (figure("Sessions", &count_text(sessions.seen, sessions.is_truncated), "", &list_address("sessions", &[], since), "started")) }
            li { (figure("Suspicious", &thousands(sessions.suspicious), if sessions.suspicious > 0 { "bad" } else { "" }, &list_address("sessions", &[("reason", "suspicious")], since), "flagged sessions")) }
            li { (figure("Failed permanently", &count_text(failed, deliveries.is_failed_truncated), if failed > 0 { "bad" } else { "good" }, &list_address("deliveries", &[("status", "failed")], Some(deliveries.since_failed)), "webhook deliveries")) }
        }
    }
}

/// Formats a count, with a plus sign if there are more than were counted.
fn count_text(count: usize, is_truncated: bool) -> String {
    format!(
        "{}{}",
        thousands(count),
        if is_truncated { "+" } else { "" }
    )
}

fn figure(name: &str, value: &str, tone: &str, address: &str, about: &str) -> Markup {
    html! { a.card.figure-card href=(address) { span.name { (name) } strong class=(tone) { (value) } span.faint { (about) } } }
}

/// Renders a bar next to a count, for its share of the total.
fn bar(count: usize, all: usize, tone: &str) -> Markup {
    let share = count as f64 * 100.0 / all.max(1) as f64;
    html! { svg.bar class=(tone) viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" { rect.part width=(format!("{share:.1}")) height="8" {} } }
}

fn percent(count: usize, all: usize) -> String {
    format!("{:.0} %", count as f64 * 100.0 / all.max(1) as f64)
}

fn outcomes(sessions: &SessionCounts) -> Markup {
    let since = Some(sessions.since);
    let of = |code: &ReasonCode| sessions.codes.get(code).copied().unwrap_or_default();
    let (outcomes, others) = ReasonCode::ALL.split_at(5);
    let line = |code: &ReasonCode| {
        html! {
            li { a href=(list_address("sessions", &[("reason", code.as_str())], since)) { (reason(*code)) } (bar(of(code), sessions.scored, "")) span.num { (thousands(of(code))) } span.num.faint { (percent(of(code), sessions.scored)) } }
        }
    };
    html! {
        section.card aria-labelledby="outcomes" {
            h2 #outcomes { "Delivery outcomes" }
            @if sessions.scored == 0 && sessions.not_scored == 0 {
                p.faint { @if sessions.seen == 0 { "No sessions in the last 24 hours." } @else { "None of these sessions has been scored yet." } }
            } @else {
                p.faint { (thousands(sessions.scored)) " scored" @if sessions.is_truncated { " of the last " (thousands(sessions.seen)) ", since " (layout::clock(sessions.since)) " " (layout::zone()) } }
                h3 { "Outcome" }
                ul.bars { @for code in outcomes { (line(code)) }
                    @if sessions.not_scored > 0 { li { a href=(list_address("sessions", &[("reason", "not_scored")], since)) { span.state.bad { (icon(Icon::Cross)) "Not scored" } } (bar(sessions.not_scored, sessions.scored, "bad")) span.num { (thousands(sessions.not_scored)) } span {} } }
                }
                h3 { "Other reasons" }
                ul.bars { @for code in others { (line(code)) } }
            }
        }
    }
}

fn webhook(frame: &Frame<'_>, counts: &OverviewCounts, ends_at: Option<TimestampMs>) -> Markup {
    let Some(endpoint) = &counts.endpoint else {
        return html! {
            section.card aria-labelledby="webhook" { h2 #webhook { "Webhook" }
                p { "No webhook is registered, so events are not sent. " a href={ (ROOT) "/webhook" } { "Register a URL" } "." }
            }
        };
    };
    html! {
        section.card aria-labelledby="webhook" {
            h2 #webhook { "Webhook" }
            (health(frame, endpoint, &counts.deliveries, ends_at))
            (statuses(&counts.deliveries))
            p { a href={ (ROOT) "/webhook" } { "Webhook" } " · " a href={ (ROOT) "/deliveries" } { "All webhook deliveries" } }
        }
    }
}

fn health(
    frame: &Frame<'_>,
    endpoint: &Endpoint,
    deliveries: &DeliveryCounts,
    ends_at: Option<TimestampMs>,
) -> Markup {
    let waiting = deliveries.of(DeliveryStatus::Retrying) + deliveries.of(DeliveryStatus::Failed);
    html! {
        p.mono.break.faint { (endpoint.url) }
        @if !endpoint.enabled {
            (notice(Notice::Note, "Paused. New events are queued and held until you resume."))
        } @else if let Some((cause, count)) = deliveries.most_common_cause() {
            (notice(Notice::Bad, &format!("Failing webhook deliveries of the last 24 hours: {}. Most common cause: {}.", thousands(waiting), cause_text(cause, count))))
        } @else if deliveries.seen > 0 {
            (notice(Notice::Good, "All webhook deliveries succeed."))
        }
        @if let Some(ends_at) = ends_at.filter(|&ends_at| ends_soon(ends_at, frame.now)) {
            (notice(Notice::Bad, &format!("The certificate of your endpoint expires {}.", ago(ends_at, frame.now))))
        }
    }
}

fn cause_text(cause: Cause, count: usize) -> String {
    let words = descriptions::cause(cause).0;
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string());
    format!(
        "{}{} ({})",
        first.unwrap_or_default(),
        letters.as_str(),
        thousands(count)
    )
}

fn statuses(deliveries: &DeliveryCounts) -> Markup {
    let tone = |status| match status {
        DeliveryStatus::Delivered => "good",
        DeliveryStatus::Failed => "bad",
        DeliveryStatus::Retrying => "warn",
        _ => "",
    };
    html! {
        @if deliveries.seen == 0 { p.faint { "No webhook deliveries in the last 24 hours." } } @else {
            ul.bars { @for status in ORDER {
                @let (count, since) = if status == DeliveryStatus::Failed { (deliveries.of(status), deliveries.since_failed) } else { (deliveries.of(status), deliveries.since) };
                @if count > 0 || matches!(status, DeliveryStatus::Delivered | DeliveryStatus::Failed | DeliveryStatus::Retrying) {
                    li { a href=(list_address("deliveries", &[("status", status.as_str())], Some(since))) { (layout::status(status)) } (bar(count, deliveries.seen.max(count), tone(status))) span.num { (thousands(count)) } span.num.faint { (percent(count, deliveries.seen.max(count))) } }
                }
            } }
            @if deliveries.is_truncated { p.faint { "Counted over the last " (thousands(deliveries.seen)) ", since " (layout::clock(deliveries.since)) " " (layout::zone()) "." } }
        }
    }
}

fn live(frame: &Frame<'_>, counts: &OverviewCounts) -> Markup {
    html! {
        section.card aria-labelledby="live" {
            h2 #live { "Live now" }
            @if counts.live.is_empty() { p.faint { "No sessions in progress." } } @else {
                ul.lives { @for row in counts.live.iter().take(LIVE_SHOWN) { (live_line(frame, row)) } }
                @if counts.live.len() > LIVE_SHOWN { p { a href=(list_address("sessions", &[("status", "recording")], None)) { "All " (count_text(counts.live.len(), counts.is_live_truncated)) } } }
            }
        }
    }
}

fn live_line(frame: &Frame<'_>, row: &SessionRow) -> Markup {
    let start = &row.start;
    html! { li {
        (recording())
        a.clip href={ (ROOT) "/sessions/" (start.session_id) } { (start.delivery_id) }
        span.faint.clip { (start.external_rider_id) }
        span.num.faint.nobr title=(start.started_at) { (duration(frame.now.since_ms(start.started_at).max(0))) }
    } }
}
