//! A request of a signed-in visitor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::{COOKIE, HeaderValue};
use actix_web::web::Data;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use porchlight_actors::service::{SharePermit, TenantSessions};
use porchlight_actors::webhook::Webhooks;
use porchlight_http::State;
use porchlight_http::audit;
use porchlight_http::body::Limits;
use porchlight_http::permission;
use porchlight_http::problem::{Code, Problem, session_not_found, share_exceeded};
use porchlight_observe::shares::Share;
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::key::{KeyKind, KeyRecord};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::form::{self, Form};
use super::layout::Frame;
use super::route::{self, ROOT};
use super::session_cookie::Ticket;
use super::state::Console;
use super::streams::StreamPermit;

/// The cookie's name over TLS; the prefix makes browsers refuse the cookie if it was set without
/// TLS.
const SECURE_COOKIE: &str = "__Secure-porchlight-console";
/// The cookie's name without TLS, mostly on the machine itself.
const PLAIN_COOKIE: &str = "porchlight-console";

/// The cookie that the answer sets, kept in the request's extensions.
#[derive(Clone)]
pub(super) struct RenewedCookie(pub(super) HeaderValue);

/// A request of a visitor who is signed in with a secret key that is still valid and whose role
/// allows the request.
pub(super) struct SignedInRequest {
    /// The head of the request.
    pub(super) http: HttpRequest,
    payload: Payload,
    /// The state of the service.
    pub(super) state: Data<State>,
    /// The state of the console.
    pub(super) console: Data<Console>,
    /// The key that signed in.
    pub(super) key: Arc<KeyRecord>,
    /// The ticket that the browser holds.
    pub(super) ticket: Ticket,
    /// The organization's name.
    pub(super) organization: String,
    /// Counts the request among its tenant's.
    _request: SharePermit,
}

impl FromRequest for SignedInRequest {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(http: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (http, payload) = (http.clone(), payload.take());
        Box::pin(async move {
            let state = state(&http)?;
            let now = state.service.now();
            let console = console(&http)?;
            let ticket = cookie(&http).and_then(|text| console.tickets.open(text, now));
            let ticket = ticket.ok_or_else(|| {
                Problem::new(Code::CredentialMissing, "Sign in with a secret key.")
            })?;
            let key = state.auth.signed_in(ticket.key_hash, now).await?;
            if key.kind != KeyKind::Secret {
                return Err(Problem::new(
                    Code::SecretKeyRequired,
                    "A secret key is required.",
                ));
            }
            permission::require(&key, route::needed(&http))?;
            let usage = state.service.usage(key.tenant);
            let request = usage.hold(Share::Requests).map_err(share_exceeded)?;
            if let Some(action) = route::audited(&http) {
                let actor = audit::actor(&key);
                audit::begin(&http, &state.service, key.tenant, actor, action).await?;
            }
            if let Some(renewed) = console.tickets.renewed(&ticket, now) {
                let cookie = set_cookie(&http, &console, &renewed)?;
                http.extensions_mut().insert(RenewedCookie(cookie));
            }
            let id = key.tenant.organization_id;
            let organization = console.names.of(&state.key_admin, id).await?;
            Ok(Self {
                http,
                payload,
                state,
                console,
                key,
                ticket,
                organization,
                _request: request,
            })
        })
    }
}

impl SignedInRequest {
    /// Returns the tenant whose data the visitor may see.
    pub(super) fn tenant(&self) -> Tenant {
        self.key.tenant
    }

    /// Counts a list among those of the visitor's tenant that are being read.
    ///
    /// # Errors
    ///
    /// Returns 429 if the tenant has reached its limit of concurrent lists.
    pub(super) fn begin_list(&self) -> Result<SharePermit, Problem> {
        let usage = self.state.service.usage(self.tenant());
        usage.hold(Share::Lists).map_err(share_exceeded)
    }

    /// Counts a stream among those of the visitor's tenant that are open.
    ///
    /// # Errors
    ///
    /// Returns 429 or `overloaded`; see [`Streams::open`](super::streams::Streams::open).
    pub(super) fn open_stream(&self) -> Result<StreamPermit, Problem> {
        let usage = self.state.service.usage(self.tenant());
        self.console.streams.open(self.tenant(), &usage)
    }

    /// Returns the current time.
    pub(super) fn now(&self) -> TimestampMs {
        self.state.service.now()
    }

    /// Returns the frame around every page of this visitor.
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame {
            env: self.key.tenant.env,
            organization: &self.organization,
            role: self.key.role,
            key: format!("{}…{}", self.key.shown_prefix(), self.key.last4),
            csrf_token: self.console.tickets.csrf_token(&self.ticket),
            now: self.now(),
        }
    }

    /// Reads the submitted form, which must belong to this session.
    pub(super) async fn form(&mut self) -> Result<Form, Problem> {
        let form = form::read(
            &self.http,
            self.payload.take(),
            &self.state,
            Limits::REQUEST,
        )
        .await?;
        if self
            .console
            .tickets
            .is_csrf_token(&self.ticket, form.get(form::CSRF_FIELD))
        {
            Ok(form)
        } else {
            Err(Problem::new(
                Code::Forbidden,
                "The form belongs to another sign-in. Go back, reload the page, and submit it again.",
            ))
        }
    }

    /// Returns a segment of the path.
    pub(super) fn path_segment(&self, name: &str) -> &str {
        self.http.match_info().get(name).unwrap_or_default()
    }

    /// Returns the session in the path, if it belongs to this tenant.
    pub(super) async fn session(&self) -> Result<SessionRow, Problem> {
        let id: SessionId = self
            .path_segment("id")
            .parse()
            .map_err(|_| session_not_found())?;
        let row = self.sessions().find(id).await?;
        row.ok_or_else(session_not_found)
    }

    /// Returns the sessions of the visitor's tenant.
    pub(super) fn sessions(&self) -> TenantSessions<'_> {
        self.state.service.of(self.tenant())
    }

    /// Returns the webhooks of this process.
    pub(super) fn webhooks(&self) -> Result<Webhooks, Problem> {
        let webhooks = self.state.webhooks.clone();
        webhooks.ok_or_else(|| Problem::internal("this process sends no webhooks"))
    }
}

/// Returns the application's state.
pub(super) fn state(http: &HttpRequest) -> Result<Data<State>, Problem> {
    let state = http.app_data::<Data<State>>().cloned();
    state.ok_or_else(|| Problem::internal("the application has no state"))
}

/// Returns the console of the application.
pub(super) fn console(http: &HttpRequest) -> Result<Data<Console>, Problem> {
    let console = http.app_data::<Data<Console>>().cloned();
    console.ok_or_else(|| Problem::internal("the application has no console"))
}

fn is_secure(http: &HttpRequest) -> bool {
    // A client that forges a forwarded header only makes its own cookie stricter, or loses it.
    http.connection_info().scheme() == "https"
}

fn cookie_name(http: &HttpRequest) -> &'static str {
    if is_secure(http) {
        SECURE_COOKIE
    } else {
        PLAIN_COOKIE
    }
}

/// Returns the value of the console cookie, not yet checked.
pub(super) fn cookie(http: &HttpRequest) -> Option<&str> {
    let name = cookie_name(http);
    let all = http.headers().get_all(COOKIE);
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Returns the header that sets this ticket as the cookie.
pub(super) fn set_cookie(
    http: &HttpRequest,
    console: &Console,
    ticket: &Ticket,
) -> Result<HeaderValue, Problem> {
    let sealed = console.tickets.seal(ticket);
    let sealed = sealed.ok_or_else(|| Problem::internal("a session cookie cannot be sealed"))?;
    // Without a maximum age, the cookie ends when the browser is closed.
    header(http, &sealed, "")
}

/// Returns the header that removes the cookie.
pub(super) fn unset_cookie(http: &HttpRequest) -> Result<HeaderValue, Problem> {
    header(http, "", "; Max-Age=0")
}

fn header(http: &HttpRequest, value: &str, age: &str) -> Result<HeaderValue, Problem> {
    let name = cookie_name(http);
    let secure = if is_secure(http) { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={ROOT}; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::from_str(&text).map_err(Problem::internal)
}
