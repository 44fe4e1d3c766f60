//! The audit log page: lists the reads and changes of each object, by actor. The page shows the
//! data of `GET /v1/audit`.

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_actors::audit::AuditPage;
use porchlight_core::audit::{Action, Actor, ActorKind, Filter, HashedLine, LinePosition};
use porchlight_http::problem::Problem;
use porchlight_http::query::Query;
use porchlight_schema::limits::TEXT_CHARS_MAX;

use super::guard;
use super::layout::{Section, clock, next_page, zone};
use super::route::{ROOT, page};
use super::signed_in::SignedInRequest;

/// The number of lines per page.
const ROWS: u32 = 50;

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "/audit", None, show);
}

/// Returns the address of a page of the log, given the filter and the position after which it
/// begins.
fn address(filter: &Filter, after: Option<LinePosition>) -> String {
    let mut address = format!("{ROOT}/audit?");
    if let Some(action) = filter.action {
        address.push_str(&format!("action={}&", action.as_str()));
    }
    if let Some(object) = &filter.object {
        // An id contains no character that an address would have to escape; any other text matches
        // nothing.
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
        let object: String = object.chars().filter(is_plain).collect();
        address.push_str(&format!("object={object}&"));
    }
    if let Some(LinePosition { group, line }) = after {
        address.push_str(&format!("after={group}.{line}"));
    }
    address
}

fn parse_position(text: &str) -> Option<LinePosition> {
    let (group, line) = text.split_once('.')?;
    Some(LinePosition {
        group: group.parse().ok()?,
        line: line.parse().ok()?,
    })
}

async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let mut query = Query::of(request.http.query_string());
    let filter = Filter {
        action: query.read("action", "", Action::of_name),
        object: query.text("object", TEXT_CHARS_MAX),
        ..Filter::default()
    };
    let after = query.read("after", "", parse_position);
    let log = request.state.service.audit();
    let log = log.ok_or_else(|| Problem::internal("the service has no audit log"))?;
    let _share = request.begin_list()?;
    let page = log.page(request.tenant(), &filter, ROWS, after).await?;
    let frame = request.frame();
    let body = html! {
        header.title { h1 { "Audit log" } }
        p.help { "Every read, change and erasure of personal data, and every change of keys and settings, by people and systems, except the requests of recording phones. A hash chain protects the entries against changes." }
        (form(&filter))
        (table(&page))
        (next_page(page.next.map(|next| address(&filter, Some(next))), after.map(|_| address(&filter, None))))
    };
    Ok(guard::ok(frame.page(Section::Audit, "Audit log", body)))
}

fn form(filter: &Filter) -> Markup {
    html! {
        form.filters method="get" action={ (ROOT) "/audit" } role="search" aria-label="Audit log" {
            div { label for="action" { "Action" }
                select #action name="action" {
                    option value="" { "any" }
                    @for action in Action::ALL {
                        option value=(action.as_str()) selected[filter.action == Some(*action)] { (action.as_str()) }
                    }
                }
            }
            div.grow { label for="object" { "Object" } input #object.mono name="object" value=(filter.object.as_deref().unwrap_or_default()) placeholder="ses_…" spellcheck="false" autocomplete="off"; }
            button { "Filter" }
        }
    }
}

fn table(page: &AuditPage) -> Markup {
    html! {
        @if page.lines.is_empty() { p.faint { "No matching entries." } } @else {
            div.table { table {
                caption.hidden { "Audit log, newest entry first" }
                thead { tr { th scope="col" { "Time (" (zone()) ")" } th scope="col" { "Actor" } th scope="col" { "Action" } th scope="col" { "Object" } th.opt scope="col" { "From" } } }
                tbody { @for line in &page.lines { (row(line)) } }
            } }
        }
    }
}

fn row(HashedLine { line, hash }: &HashedLine) -> Markup {
    html! { tr title={ "hash " (hash) } {
        td { (clock(line.at)) }
        td { (actor_name(&line.actor)) }
        td { (line.action) }
        td.mono.break { @match &line.object {
            Some(id) if id.starts_with("ses_") => a href={ (ROOT) "/sessions/" (id) } { (id) },
            Some(id) => (id),
            None => span.faint { "–" },
        } }
        td.opt.mono { @if let Some(from) = line.from { (from) } @else { span.faint { "–" } } }
    } }
}

fn actor_name(actor: &Actor) -> Markup {
    html! {
        @match &actor.kind {
            ActorKind::Key => {
                @match &actor.name { Some(name) => (name), None => "key" }
                @if let Some(id) = actor.id { span.sub.mono.opt { (id) } }
            }
            ActorKind::Link => "signed link",
            ActorKind::Operator => "an operator",
            ActorKind::Service => "the service",
            ActorKind::Other(name) => (name),
        }
    }
}

/// Returns the link to the lines of one session.
pub(super) fn session_link(id: &str) -> Markup {
    html! { p.faint { a href={ (ROOT) "/audit?object=" (id) } { "Audit log of this session" } } }
}
