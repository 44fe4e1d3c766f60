//! Creates, lists and revokes the keys of this organization in this environment.
//!
//! The contract's public API has no paths for keys; the operators' API and the command line do,
//! over the same [`KeyAdmin`]. These pages are bound to the tenant of the key that signed in.

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_http::audit;
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::Query;
use porchlight_keys::{KeyAdmin, KeyAdminError};
use porchlight_schema::ids::KeyId;
use porchlight_schema::key::{KeyKind, KeyRecord, Role};

use super::guard;
use super::layout::{Frame, Here, Icon, Notice, copy, icon, notice, time};
use super::route::{ROOT, act, page};
use super::signed_in::SignedInRequest;
use super::words;

const DAY_MS: i64 = 24 * 3_600_000;
/// The key lifetimes to choose from: days and label; 0 means valid until revoked.
const LIVES: [(i64, &str); 4] = [
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
    page(config, "/keys", show);
    act(config, "/keys/create", create);
    act(config, "/keys/{id}/revoke", revoke);
}

fn desk(visit: &SignedInRequest) -> &KeyAdmin {
    &visit.state.desk
}

fn refused(error: KeyAdminError) -> Problem {
    match error {
        KeyAdminError::NotFound => Problem::new(Code::NotFound, "The key does not exist."),
        KeyAdminError::Invalid { .. } => Problem::internal(error),
        KeyAdminError::Store(error) => error.into(),
    }
}

async fn show(visit: SignedInRequest) -> Result<HttpResponse, Problem> {
    let revoked = Query::of(visit.http.query_string()).text("revoked", 8);
    let said = revoked.map(|last4| {
        format!("The key ending in {last4} is revoked. All nodes refuse it within 30 seconds.")
    });
    answer(&visit, said, None).await
}

async fn answer(
    visit: &SignedInRequest,
    said: Option<String>,
    made: Option<&str>,
) -> Result<HttpResponse, Problem> {
    let mut keys = desk(visit).list_of(visit.tenant()).await.map_err(refused)?;
    keys.reverse();
    let frame = visit.frame();
    let body = html! {
        header.title { h1 { "Keys" } }
        @if let Some(said) = &said { (notice(Notice::Good, said)) }
        @if let Some(key) = made {
            section.card.once aria-labelledby="once" {
                h2 #once { "Copy the new key now" }
                p { "The key is shown only once. Porchlight stores only its hash." }
                (copy("The new key", key))
            }
        }
        @if frame.may_change() { (create_form(&frame)) }
        (table(visit, &frame, &keys))
    };
    Ok(guard::ok(frame.page(Here::Keys, "Keys", body)))
}

fn create_form(frame: &Frame<'_>) -> Markup {
    html! {
        section.card aria-labelledby="create" {
            h2 #create { "New key" }
            form.filters method="post" action={ (ROOT) "/keys/create" } {
                (frame.field())
                div.grow { label for="kind" { "Kind" } select #kind name="kind" { @for (word, _, _, words) in CHOICES { option value=(word) { (words) } } } }
                div { label for="days" { "Expires after" } select #days name="days" { @for (days, words) in LIVES { option value=(days) { (words) } } } }
                button.primary { "Create key" }
            }
        }
    }
}

fn table(visit: &SignedInRequest, frame: &Frame<'_>, keys: &[KeyRecord]) -> Markup {
    html! {
        div.table { table {
            caption.hidden { "Keys, newest first" }
            thead { tr { th scope="col" { "Key" } th scope="col" { "State" } th.opt scope="col" { "Created" } th.opt scope="col" { "Expires" } th.opt scope="col" { "Last used" } th scope="col" { span.hidden { "Actions" } } } }
            tbody { @for key in keys { (line(frame, key, key.id == visit.key.id)) } }
        } }
    }
}

fn line(frame: &Frame<'_>, key: &KeyRecord, is_own: bool) -> Markup {
    let is_live = key.is_live(frame.now);
    html! { tr {
        td { span.mono { (key.shown_prefix()) "…" (key.last4) } @if key.kind == KeyKind::Secret { span.sub title=(words::role(key.role)) { "role " (key.role.as_str()) } }
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
            Some(used_at) => (time(used_at, frame.now)),
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

async fn create(mut visit: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = visit.form().await?;
    let choice = CHOICES.iter().find(|(word, ..)| *word == form.get("kind"));
    // A choice that is not offered gets the key that may do least.
    let (_, kind, role, _) = *choice.unwrap_or(&CHOICES[0]);
    let days = LIVES
        .iter()
        .find(|(days, _)| days.to_string() == form.get("days"));
    let days = days.map_or(0, |(days, _)| *days);
    let now = visit.now();
    let expires_at = (days > 0).then(|| now.plus_ms(days * DAY_MS));
    let made = desk(&visit)
        .create_for(visit.tenant(), kind, role, None, expires_at, now)
        .await;
    let made = made.map_err(refused)?;
    audit::created(&visit.http, &made.id);
    answer(&visit, None, Some(&made.key)).await
}

async fn revoke(mut visit: SignedInRequest) -> Result<HttpResponse, Problem> {
    visit.form().await?;
    let not_found = || refused(KeyAdminError::NotFound);
    let id: KeyId = visit.in_path("id").parse().map_err(|_| not_found())?;
    let key = desk(&visit)
        .revoke_of(visit.tenant(), id, visit.now())
        .await
        .map_err(refused)?;
    visit.state.auth.forget();
    Ok(guard::see(&format!("{ROOT}/keys?revoked={}", key.last4)))
}
