//! Handles signing in with a secret key, and signing out.

use actix_web::http::StatusCode;
use actix_web::http::header::{RETRY_AFTER, SET_COOKIE};
use actix_web::web::{Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};
use porchlight_http::body::Limits;
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::Query;
use porchlight_schema::key::KeyKind;

use super::form;
use super::return_to::{NEXT_CHARS_MAX, is_console_address};
use super::route::ROOT;
use super::signed_in::{self, SignedInRequest};
use super::{guard, layout};

/// The limits of the form, which anybody may submit: a key, and the address of the page to return
/// to.
const FORM_LIMITS: Limits = Limits {
    sent_bytes: 8 * 1024,
    unpacked_bytes: 8 * 1024,
};

/// The reason for the sign-in page, if there is one to show.
#[derive(Clone, Copy)]
enum SignInNotice {
    Ended,
    Out,
    Mistyped,
    Client,
    Unknown,
    TooOften,
}

impl SignInNotice {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Ended => (
                "note",
                "Your session has ended, or its key was revoked. Sign in again.",
            ),
            Self::Out => ("note", "You are signed out."),
            Self::Mistyped => ("bad", "The key is incomplete or mistyped. Copy it again."),
            Self::Client => (
                "bad",
                "This is a client key for phones. Sign in with a secret key.",
            ),
            Self::Unknown => ("bad", "Unknown, expired or revoked key."),
            Self::TooOften => (
                "bad",
                "Too many sign-in attempts from your address. Wait a few seconds.",
            ),
        }
    }
}

pub(super) fn routes(config: &mut ServiceConfig) {
    super::route::page_with_action(config, "/sign-in", show, None, sign_in);
    super::route::action(config, "/sign-out", None, sign_out);
}

async fn show(http: HttpRequest) -> HttpResponse {
    let mut query = Query::of(http.query_string());
    let next = query.text("next", NEXT_CHARS_MAX).unwrap_or_default();
    let why = query.closed(
        "why",
        &[("ended", SignInNotice::Ended), ("out", SignInNotice::Out)],
    );
    guard::ok(page(&next, why))
}

fn page(next: &str, why: Option<SignInNotice>) -> Markup {
    layout::signed_out_page(
        "Sign in",
        html! {
            h1 { "Sign in" }
            p.lead { "Use a secret key of your organization. The key selects the environment: Sandbox or Production." }
            @if let Some((kind, words)) = why.map(SignInNotice::words) {
                p class={ "notice " (kind) } role="status" #why { (words) }
            }
            form.stack method="post" action={ (ROOT) "/sign-in" } {
                @if is_console_address(next) {
                    input type="hidden" name="next" value=(next);
                }
                label for="key" { "Secret key" }
                input #key.wide.mono type="password" name="key" required autofocus autocomplete="current-password"
                    spellcheck="false" autocapitalize="off" placeholder="sk_sandbox_… or sk_live_…" aria-describedby="key-help";
                p.help #key-help { "Porchlight checks the key and does not store it in your browser." }
                button.primary { "Sign in" }
            }
        },
    )
}

async fn sign_in(http: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let state = signed_in::state(&http)?;
    let console = signed_in::console(&http)?;
    let form = form::read(&http, payload.into_inner(), &state, FORM_LIMITS).await?;
    let next = form.get("next").to_owned();
    let peer = http.peer_addr().map(|peer| peer.ip());
    let client = console.proxies.client(peer, http.headers());
    let read = porchlight_keys::read(form.get("key").trim());
    if let Err(wait) = console.throttle.admit(client, read.map(|read| read.hash)) {
        let mut refused = guard::html(
            StatusCode::TOO_MANY_REQUESTS,
            page(&next, Some(SignInNotice::TooOften)),
        );
        refused.headers_mut().insert(RETRY_AFTER, wait.into());
        return Ok(refused);
    }
    let again = |why| guard::html(StatusCode::UNPROCESSABLE_ENTITY, page(&next, Some(why)));
    let Some(read) = read else {
        return Ok(again(SignInNotice::Mistyped));
    };
    if read.kind != KeyKind::Secret {
        return Ok(again(SignInNotice::Client));
    }
    let now = state.service.now();
    let key = match state.auth.signed_in(read.hash, now).await {
        Ok(key) => key,
        Err(problem) if problem.code() == Code::CredentialInvalid => {
            return Ok(again(SignInNotice::Unknown));
        }
        Err(problem) => return Err(problem),
    };
    if key.kind != read.kind || key.tenant.env != read.env {
        return Ok(again(SignInNotice::Unknown));
    }
    let ticket = console.tickets.issue(read.hash, now);
    let mut response = guard::redirect(if is_console_address(&next) {
        &next
    } else {
        ROOT
    });
    let cookie = signed_in::set_cookie(&http, &console, &ticket)?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

async fn sign_out(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    request.console.tickets.sign_out(&request.ticket);
    let mut response = guard::redirect(&format!("{ROOT}/sign-in?why=out"));
    response
        .headers_mut()
        .insert(SET_COOKIE, signed_in::unset_cookie(&request.http)?);
    Ok(response)
}
