//! Creates, lists and revokes the keys of this organization in this environment.
//!
//! The contract's public API has no paths for keys; the operators' API and the command line do,
//! over the same [`KeyAdmin`]. These pages are bound to the tenant of the key that signed in.

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_core::audit::Action;
use porchlight_http::audit;
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::Query;
use porchlight_keys::{KeyAdmin, KeyAdminError};
use porchlight_schema::ids::KeyId;
use porchlight_schema::key::{KeyKind, KeyRecord, Role};
use porchlight_schema::time::DAY_MS;

use super::descriptions;
use super::guard;
use super::layout::{Frame, Icon, Notice, Section, clock, copy, icon, notice, time, zone};
use super::route::{ROOT, action, page};
use super::signed_in::SignedInRequest;

/// The key lifetimes to choose from: days and label; 0 means valid until revoked.
const LIFETIMES: [(i64, &str); 4] = [
    (0, "never"),
    (30, "30 days"),
    (90, "90 days"),
    (365, "1 year"),
];
/// The keys that can be created: the form value, kind, role and permissions.
const CHOICES: [(&str, KeyKind, Role, &str); 4] = [
    (
        "client",
        KeyKind::Client,
        Role::Admin,
        "client: for phones; can only start sessions",
    ),
    (
        "secret",
        KeyKind::Secret,
        Role::Admin,
        "secret, admin: full access to this environment, for your servers",
    ),
    (
        "support",
        KeyKind::Secret,
        Role::Support,
        "secret, support: read, and retry webhook deliveries",
    ),
    (
        "viewer",
        KeyKind::Secret,
        Role::Viewer,
        "secret, viewer: read only",
    ),
];

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "/keys", None, show);
    action(config, "/keys/create", Some(Action::CreateKey), create);
    action(config, "/keys/{id}/revoke", Some(Action::RevokeKey), revoke);
}

fn key_admin(request: &SignedInRequest) -> &KeyAdmin {
    &request.state.key_admin
}

fn problem_of(error: KeyAdminError) -> Problem {
    match error {
        KeyAdminError::NotFound => Problem::new(Code::NotFound, "The key does not exist."),
        KeyAdminError::TooMany => Problem::too_many_keys(),
        KeyAdminError::Invalid { .. } => Problem::internal(error),
        KeyAdminError::Store(error) => error.into(),
    }
}

async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let revoked = Query::of(request.http.query_string()).text("revoked", 8);
    let message = revoked.map(|last4| {
        format!("The key ending in {last4} is revoked. All nodes refuse it within 30 seconds.")
    });
    let _share = request.begin_list()?;
    render(&request, message, None).await
}

/// Renders the page. The caller holds a share of lists.
async fn render(
    request: &SignedInRequest,
    message: Option<String>,
    created: Option<&str>,
) -> Result<HttpResponse, Problem> {
    let mut keys = key_admin(request)
        .list_of(request.tenant())
        .await
        .map_err(problem_of)?;
    keys.reverse();
    let frame = request.frame();
    let body = html! {
        header.title { h1 { "Keys" } }
        @if let Some(message) = &message { (notice(Notice::Good, message)) }
        @if let Some(key) = created {
            section.card.once aria-labelledby="once" {
                h2 #once { "Copy the new key now" }
                p { "The key is shown only once. Porchlight stores only its hash." }
                (copy("The new key", key))
            }
        }
        @if frame.may_change() { (create_form(&frame)) }
        (table(request, &frame, &keys))
    };
    Ok(guard::ok(frame.page(Section::Keys, "Keys", body)))
}

fn create_form(frame: &Frame<'_>) -> Markup {
    html! {
        section.card aria-labelledby="create" {
            h2 #create { "New key" }
            form.filters method="post" action={ (ROOT) "/keys/create" } {
                (frame.field())
                div.grow { label for="kind" { "Kind" } select #kind name="kind" { @for (word, _, _, words) in CHOICES { option value=(word) { (words) } } } }
                div { label for="days" { "Expires after" } select #days name="days" { @for (days, words) in LIFETIMES { option value=(days) { (words) } } } }
                button.primary { "Create key" }
            }
        }
    }
}

fn table(request: &SignedInRequest, frame: &Frame<'_>, keys: &[KeyRecord]) -> Markup {
    html! {
        div.table { table {
            caption.hidden { "Keys, newest first" }
            thead { tr { th scope="col" { "Key" } th scope="col" { "State" } th.opt scope="col" { "Created" } th.opt scope="col" { "Expires" } th.opt scope="col" { "Last used" } th scope="col" { span.hidden { "Actions" } } } }
            tbody { @for key in keys { (line(frame, key, key.id == request.key.id)) } }
        } }
    }
}

fn line(frame: &Frame<'_>, key: &KeyRecord, is_own: bool) -> Markup {
    let is_live = key.is_live(frame.now);
    html! { tr {
        td { span.mono { (key.shown_prefix()) "…" (key.last4) } @if key.kind == KeyKind::Secret { span.sub title=(descriptions::role(key.role)) { "role " (key.role.as_str()) } }
            @if let Some(name) = &key.name { span.sub { (name) } }
            @if is_own { span.sub { "used for this sign-in" } } }
        td { @if key.revoked_at.is_some() { span.state.dim { (icon(Icon::Minus)) "revoked" } }
             @else if is_live { span.state.good { (icon(Icon::Check)) "active" } }
             @else { span.state.dim { (icon(Icon::Wait)) "expired" } } }
        td.opt { (time(key.created_at, frame.now)) }
        td.opt { @match (key.revoked_at, key.expires_at) {
            (Some(revoked_at), _) => { "revoked " (time(revoked_at, frame.now)) }
            (None, Some(expires_at)) => (time(expires_at, frame.now)),
            (None, None) => span.faint { "never" },
        } }
        // The time of use is recorded to the hour.
        td.opt { @match key.last_used_at {
            Some(used_at) => { "in the hour from " (clock(used_at)) " " (zone()) }
            None => span.faint { "never" },
        } }
        td.num { @if is_live && frame.may_change() { (revoke_form(frame, key, is_own)) } }
    } }
}

/// Renders the form for revoking, which takes two steps: clients that still use the key stop
/// working immediately.
fn revoke_form(frame: &Frame<'_>, key: &KeyRecord, is_own: bool) -> Markup {
    html! {
        details.danger {
            summary { "Revoke" span.hidden { " the key ending in " (key.last4) } }
            form.sure method="post" action={ (ROOT) "/keys/" (key.id) "/revoke" } {
                (frame.field())
                p { "Clients that use this key stop working immediately." @if is_own { " You will be signed out." } }
                button.bad { "Revoke " (key.last4) }
            }
        }
    }
}

async fn create(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let choice = CHOICES.iter().find(|(word, ..)| *word == form.get("kind"));
    // An unknown choice gets the key with the fewest permissions.
    let (_, kind, role, _) = *choice.unwrap_or(&CHOICES[0]);
    let days = LIFETIMES
        .iter()
        .find(|(days, _)| days.to_string() == form.get("days"));
    let days = days.map_or(0, |(days, _)| *days);
    let now = request.now();
    let expires_at = (days > 0).then(|| now.plus_ms(days * DAY_MS));
    // Held until the page with the new key is rendered: a refusal would lose the key.
    let _share = request.begin_list()?;
    let created = key_admin(&request)
        .create_for(request.tenant(), kind, role, None, expires_at, now)
        .await;
    let created = created.map_err(problem_of)?;
    audit::created(&request.http, &created.id);
    render(&request, None, Some(&created.key)).await
}

async fn revoke(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    let not_found = || problem_of(KeyAdminError::NotFound);
    let id: KeyId = request
        .path_segment("id")
        .parse()
        .map_err(|_| not_found())?;
    let _share = request.begin_list()?;
    let key = key_admin(&request)
        .revoke_of(request.tenant(), id, request.now())
        .await
        .map_err(problem_of)?;
    request.state.auth.evict(id);
    Ok(guard::redirect(&format!(
        "{ROOT}/keys?revoked={}",
        key.last4
    )))
}
