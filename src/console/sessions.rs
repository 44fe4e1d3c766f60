//! Sessions: the list, and the page of one session with all its data.

mod explanation;
mod hold;
mod insight;
mod live;
mod map;
mod outcome;
mod page;
mod scores;
mod series;
mod street;
mod timeline;
mod trace;

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_core::audit::Action;
use porchlight_http::problem::Problem;
use porchlight_http::query;
use porchlight_ports::{Page, SessionFilter, SessionOutcome, SessionRow};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::session::SessionStatus;

use super::layout::{
    self, Frame, Icon, Notice, Section, ago, clock, empty, icon, next_page, notice, zone,
};
use super::list_query::{CURSOR, ListQuery};
use super::route::ROOT;
use super::signed_in::SignedInRequest;
use super::{descriptions, guard};
pub(super) use outcome::reason;

/// The number of rows per page.
const ROWS: usize = 50;
/// The maximum number of sessions that one page reads to filter by outcome; each read includes the
/// insight.
const EXAMINED_MAX: usize = 400;
/// The fields in the list's address.
const FIELDS: [&str; 6] = [
    "status",
    "deliveryId",
    "externalRiderId",
    "reason",
    "from",
    "to",
];
/// The states and their labels.
const STATES: [(SessionStatus, &str); 2] = [
    (SessionStatus::Recording, "recording"),
    (SessionStatus::Completed, "completed"),
];

pub(super) fn routes(config: &mut ServiceConfig) {
    super::route::page(config, "/sessions", Some(Action::ListSessions), list);
    super::route::page(
        config,
        "/sessions/{id}",
        Some(Action::ViewConsole),
        page::show,
    );
    super::route::page(
        config,
        "/sessions/{id}/live",
        Some(Action::ReadEvents),
        live::stream,
    );
    super::route::page(
        config,
        "/sessions/{id}/explanation",
        Some(Action::ReadExplanation),
        explanation::show,
    );
    super::route::action(
        config,
        "/sessions/{id}/review",
        Some(Action::WriteReview),
        explanation::review,
    );
    super::route::action(
        config,
        "/sessions/{id}/hold",
        Some(Action::PlaceHold),
        hold::place,
    );
    super::route::action(
        config,
        "/sessions/{id}/release-hold",
        Some(Action::ReleaseHold),
        hold::release,
    );
}

/// The outcomes by which sessions can be filtered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutcomeFilter {
    Code(ReasonCode),
    Suspicious,
    NotScored,
}

impl OutcomeFilter {
    fn all() -> Vec<Self> {
        let codes = ReasonCode::ALL.into_iter().map(Self::Code);
        codes.chain([Self::Suspicious, Self::NotScored]).collect()
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Code(code) => code.as_str(),
            Self::Suspicious => "suspicious",
            Self::NotScored => "not_scored",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Code(code) => descriptions::reason_label(code),
            Self::Suspicious => "Suspicious behaviour",
            Self::NotScored => "Could not be scored",
        }
    }

    fn matches(self, outcome: &SessionOutcome) -> bool {
        match self {
            Self::Code(code) => outcome.codes.contains(&code),
            Self::Suspicious => outcome
                .summary
                .is_some_and(|summary| summary.suspicious_behavior),
            Self::NotScored => outcome.summary.is_none(),
        }
    }
}

/// The sessions of a page with their outcomes.
struct Rows {
    rows: Vec<(SessionRow, Option<SessionOutcome>)>,
    next: Option<SessionId>,
}

fn filter(query: &ListQuery) -> Result<(SessionFilter, Option<OutcomeFilter>), String> {
    let word = |status| {
        STATES
            .iter()
            .find(|(one, _)| *one == status)
            .map_or("", |(_, word)| word)
    };
    let states = STATES.map(|(status, _)| status);
    let text = |name| {
        Some(query.get(name))
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let filter = SessionFilter {
        status: query.one_of("status", &states, word)?,
        delivery_id: text("deliveryId"),
        external_rider_id: text("externalRiderId"),
        from: query.time("from")?,
        to: query.time("to")?,
    };
    let chosen = query.one_of("reason", &OutcomeFilter::all(), OutcomeFilter::as_str)?;
    Ok((filter, chosen))
}

async fn list(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let query = ListQuery::of(request.http.query_string(), &FIELDS);
    // A session id in this field leads to its session.
    if let Ok(id) = query.get("deliveryId").parse::<SessionId>() {
        return Ok(guard::redirect(&format!("{ROOT}/sessions/{id}")));
    }
    let rows = match filter(&query) {
        Ok((filter, chosen)) => Ok(read(&request, &filter, chosen, query.after()).await?),
        Err(fault) => Err(fault),
    };
    let frame = request.frame();
    let body = html! {
        header.title { h1 { "Sessions" } }
        (tabs(&query))
        (form(&query))
        @match &rows {
            Ok(rows) => (table(&frame, rows, &query)),
            Err(fault) => (notice(Notice::Bad, fault)),
        }
    };
    let page = frame.page(Section::Sessions, "Sessions", body);
    Ok(guard::form_page(rows.is_err(), page))
}

/// Reads the sessions of one page. With a reason code, it selects those whose insight has that
/// code, among a bounded number of sessions.
async fn read(
    request: &SignedInRequest,
    filter: &SessionFilter,
    chosen: Option<OutcomeFilter>,
    after: Option<SessionId>,
) -> Result<Rows, Problem> {
    let limit = if chosen.is_some() { EXAMINED_MAX } else { ROWS };
    let _share = request.begin_list()?;
    let own = request.sessions();
    let page: Page<SessionRow, SessionId> = own.list(filter, limit as u32, after).await?;
    let found = own.outcomes(&page.rows).await?;
    let has = |outcome: &Option<SessionOutcome>| {
        chosen.is_none_or(|chosen| outcome.as_ref().is_some_and(|one| chosen.matches(one)))
    };
    let mut rows: Vec<_> = page
        .rows
        .into_iter()
        .zip(found)
        .filter(|(_, one)| has(one))
        .collect();
    let mut next = page.next;
    if rows.len() > ROWS {
        rows.truncate(ROWS);
        next = rows.last().map(|(row, _)| row.start.session_id);
    }
    Ok(Rows { rows, next })
}

fn tabs(query: &ListQuery) -> Markup {
    let chosen = query.get("status");
    let current = |status: &str| (chosen == status).then_some("true");
    html! {
        nav.tabs aria-label="Status" {
            a href={ (ROOT) "/sessions?" (query.with("status", "")) } aria-current=[current("")] { "all" }
            @for (_, word) in STATES {
                a href={ (ROOT) "/sessions?" (query.with("status", word)) } aria-current=[current(word)] { (word) }
            }
        }
    }
}

fn form(query: &ListQuery) -> Markup {
    html! {
        form.filters method="get" action={ (ROOT) "/sessions" } role="search" aria-label="Sessions" {
            @if query.has(&["status"]) { input type="hidden" name="status" value=(query.get("status")); }
            div.grow { label for="delivery" { "Delivery or session id" } input #delivery name="deliveryId" value=(query.get("deliveryId")) spellcheck="false" autocomplete="off"; }
            div.grow { label for="rider" { "Courier id" } input #rider name="externalRiderId" value=(query.get("externalRiderId")) spellcheck="false" autocomplete="off"; }
            div { label for="reason" { "Outcome" }
                select #reason name="reason" {
                    option value="" { "any" }
                    @for chosen in OutcomeFilter::all() { option value=(chosen.as_str()) selected[query.get("reason") == chosen.as_str()] { (chosen.label()) } }
                }
            }
            div { label for="from" { "From (UTC)" } input #from type="datetime-local" name="from" value=(query.local("from")); }
            div { label for="to" { "Before (UTC)" } input #to type="datetime-local" name="to" value=(query.local("to")); }
            button { "Search" }
            @if query.has(&FIELDS) { a.clear href={ (ROOT) "/sessions" } { "Clear" } }
        }
    }
}

fn table(frame: &Frame<'_>, rows: &Rows, query: &ListQuery) -> Markup {
    let next = rows.next.map(query::cursor);
    let next = next.map(|cursor| format!("{ROOT}/sessions?{}", query.with(CURSOR, &cursor)));
    let first = query
        .after()
        .map(|_| format!("{ROOT}/sessions?{}", query.with(CURSOR, "")));
    html! {
        @if rows.rows.is_empty() { (empty_list(query, next.is_some())) } @else {
            div.table { table {
                caption.hidden { "Sessions, newest first" }
                thead { tr {
                    th scope="col" { "Delivery" } th scope="col" { "Outcome" } th.num.opt scope="col" { "Fraud" }
                    th.opt scope="col" { "Courier" } th.opt scope="col" { "Address" } th.opt scope="col" { "Started (" (zone()) ")" } th.num.opt scope="col" { "Took" }
                } }
                tbody { @for (row, outcome) in &rows.rows { (line(frame, row, outcome.as_ref())) } }
            } }
        }
        (next_page(next, first))
    }
}

fn line(frame: &Frame<'_>, row: &SessionRow, outcome: Option<&SessionOutcome>) -> Markup {
    let start = &row.start;
    let until = row.end.map_or(frame.now, |end| end.ended_at);
    let length = layout::duration(until.since_ms(start.started_at).max(0));
    let summary = outcome.and_then(|outcome| outcome.summary);
    html! { tr {
        td { a.main href={ (ROOT) "/sessions/" (start.session_id) } { (start.delivery_id) }
            span.sub.mono { (start.session_id) }
            span.sub.narrow { (ago(start.created_at, frame.now)) " · " (length) } }
        td { (outcome::chip(row, outcome)) }
        td.num.opt { @match summary {
            Some(summary) => { span.bad[summary.suspicious_behavior] { (format!("{:.2}", summary.fraud_score)) } }
            None => { span.faint { "–" } }
        } }
        td.opt { span.clip title=(start.external_rider_id) { (start.external_rider_id) } }
        td.opt { span.clip title=(start.address.line1) { (start.address.line1) } span.sub.clip { (start.address.city) } }
        td.opt { (clock(start.started_at)) span.sub { (ago(start.started_at, frame.now)) } }
        td.num.opt.nobr { (length) }
    } }
}

fn empty_list(query: &ListQuery, has_more: bool) -> Markup {
    if has_more {
        return empty(
            "No match yet",
            html! { "None of the newest sessions matches. Continue with the older ones." },
        );
    }
    if query.has(&FIELDS) {
        return empty(
            "No matching sessions",
            html! { "IDs must match exactly. Change the search, or " a href={ (ROOT) "/sessions" } { "see all" } "." },
        );
    }
    empty(
        "No sessions yet",
        html! { "A session appears here when it starts: " code { "POST /v1/sessions/start" } "." },
    )
}

/// Renders the state of a session that is recording.
pub(super) fn recording() -> Markup {
    html! { span.state.live-now { (icon(Icon::Live)) "recording" } }
}
