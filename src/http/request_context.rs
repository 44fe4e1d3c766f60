//! A request on its way through the checks in the contract's order: credential (401, 429), role
//! (403), object (404), `Accept` (406), media type (415), size (413), and then the body.

use std::cell::OnceCell;
use std::future::{Ready, ready};
use std::str::FromStr;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::web::{Bytes, Data};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use porchlight_actors::service::{InsightState, Service, SharePermit, TenantUsage};
use porchlight_core::privacy::SessionAccess;
use porchlight_observe::shares::Share;
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::Score;
use porchlight_schema::session::Tenant;
use serde::Serialize;

use super::audit;
use super::auth::Caller;
use super::body::{self, Announced, Limits};
use super::permission;
use super::problem::{Code, Problem, not_scored, restricted, session_not_found, share_exceeded};
use super::query::Query;
use super::state::State;

/// A request with its state.
pub struct RequestContext {
    /// The request's head.
    pub http: HttpRequest,
    /// The unread body of the request.
    pub payload: Payload,
    /// The shared state.
    pub state: Data<State>,
    /// Counts the request among its tenant's, once the tenant is known.
    request: OnceCell<SharePermit>,
}

impl FromRequest for RequestContext {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(http: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let state = http.app_data::<Data<State>>().cloned();
        let state = state.ok_or_else(|| Problem::internal("the application has no state"));
        ready(state.map(|state| Self::new(http.clone(), payload.take(), state)))
    }
}

impl RequestContext {
    /// Creates a request that is not counted yet.
    pub fn new(http: HttpRequest, payload: Payload, state: Data<State>) -> Self {
        Self {
            http,
            payload,
            state,
            request: OnceCell::new(),
        }
    }

    /// Returns the request's headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.http.headers()
    }

    /// Returns the caller, if the role of its key allows the request. The request of a key is
    /// counted among its tenant's; that of a session token is counted once its session is found.
    ///
    /// # Errors
    ///
    /// Returns 401, 429, 503; 403 for a secret key whose role does not allow the request.
    pub async fn caller(&self) -> Result<Caller, Problem> {
        let service = &self.state.service;
        let caller = self.state.identify(self.headers()).await?;
        self.state.count(&caller, &self.http)?;
        if let Caller::Key(record) = &caller {
            permission::check(record, &self.http)?;
            // A request that waits for room in the audit log holds a permit of its tenant.
            self.count_request(&service.usage(record.tenant))?;
            audit::begin_with_key(&self.http, service, record).await?;
        }
        Ok(caller)
    }

    /// Counts the request among its tenant's until the handler has answered, at most once.
    ///
    /// # Errors
    ///
    /// Returns 429 if the tenant has reached its limit of requests in progress.
    pub fn count_request(&self, usage: &Arc<TenantUsage>) -> Result<(), Problem> {
        if self.request.get().is_none() {
            let permit = usage.hold(Share::Requests).map_err(share_exceeded)?;
            // The permit is not set yet, because no other code ran since it was created.
            let _set = self.request.set(permit);
        }
        Ok(())
    }

    /// Counts a list among those of the tenant that are being read.
    ///
    /// # Errors
    ///
    /// Returns 429 if the tenant has reached its limit of concurrent lists.
    pub fn begin_list(&self, tenant: Tenant) -> Result<SharePermit, Problem> {
        let usage = self.state.service.usage(tenant);
        usage.hold(Share::Lists).map_err(share_exceeded)
    }

    /// Takes the permit of the request, for work that continues after the handler has answered.
    pub fn take_request(&mut self) -> Option<SharePermit> {
        self.request.take()
    }

    /// Returns the tenant of the caller's secret key.
    ///
    /// # Errors
    ///
    /// Returns 401, 429, 503; 403 for another credential.
    pub async fn require_secret_key(&self) -> Result<Tenant, Problem> {
        self.caller().await?.require_secret_key()
    }

    /// Returns the session id in the path; `None` if it is invalid.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        SessionId::from_str(self.http.match_info().get("id")?).ok()
    }

    /// Returns the session `session_id`, if the caller can see it and its token is valid.
    ///
    /// # Errors
    ///
    /// Returns 404; 401 for an expired token; 503.
    pub async fn session(
        &self,
        caller: &Caller,
        session_id: Option<SessionId>,
    ) -> Result<SessionRow, Problem> {
        let row = self.session_to_change(caller, session_id).await?;
        match self.state.service.access(&row.start) {
            SessionAccess::Open => Ok(row),
            SessionAccess::Restricted | SessionAccess::Erased => Err(session_not_found()),
        }
    }

    /// Returns the session `session_id`, which may be restricted, if the caller can see it and its
    /// token is valid. [`Self::check_may_change`] must follow when the content of the request has
    /// been checked.
    ///
    /// # Errors
    ///
    /// Returns 404; 401 for an expired token; 503.
    pub async fn session_to_change(
        &self,
        caller: &Caller,
        session_id: Option<SessionId>,
    ) -> Result<SessionRow, Problem> {
        let session_id = session_id.ok_or_else(session_not_found)?;
        let row = self.state.service.find(session_id).await?;
        self.check_access(caller, row)
    }

    /// Returns the session to stop, like [`Self::session_to_change`].
    ///
    /// # Errors
    ///
    /// Returns 404; 401 for an expired token; 503.
    pub async fn session_to_stop(
        &self,
        caller: &Caller,
        session_id: Option<SessionId>,
    ) -> Result<SessionRow, Problem> {
        let session_id = session_id.ok_or_else(session_not_found)?;
        let row = self.state.service.find_to_stop(session_id).await?;
        self.check_access(caller, row)
    }

    /// Checks that a session may be changed. This check follows those of the request's content.
    ///
    /// # Errors
    ///
    /// Returns 409 `restricted`; 404 if the session was erased since it was found.
    pub fn check_may_change(&self, row: &SessionRow) -> Result<(), Problem> {
        match self.state.service.access(&row.start) {
            SessionAccess::Open => Ok(()),
            SessionAccess::Restricted => Err(restricted()),
            SessionAccess::Erased => Err(session_not_found()),
        }
    }

    /// Checks that the caller can see a session that was looked up and is not being erased, and
    /// that the token is valid.
    fn check_access(
        &self,
        caller: &Caller,
        row: Option<SessionRow>,
    ) -> Result<SessionRow, Problem> {
        let row = row
            .filter(|row| caller.can_see(row.start.tenant))
            .filter(|row| self.state.service.access(&row.start) != SessionAccess::Erased)
            .ok_or_else(session_not_found)?;
        let service = &self.state.service;
        caller.check_expiry(row.end.as_ref(), service.now())?;
        self.count_request(&service.usage(row.start.tenant))?;
        Ok(row)
    }

    /// Checks that `Accept` allows JSON.
    ///
    /// # Errors
    ///
    /// Returns 406.
    pub fn check_accept_json(&self) -> Result<(), Problem> {
        self.check_accept("application", "json")
    }

    /// Checks that `Accept` allows this media type.
    ///
    /// # Errors
    ///
    /// Returns 406.
    pub fn check_accept(&self, main: &str, sub: &str) -> Result<(), Problem> {
        if accepts(self.headers(), main, sub) {
            Ok(())
        } else {
            Err(Problem::new(
                Code::NotAcceptable,
                format!("Only {main}/{sub} is available at this path."),
            ))
        }
    }

    /// Checks that the request has no query: for paths without parameters.
    ///
    /// # Errors
    ///
    /// Returns 422 with the name of each parameter.
    pub fn reject_parameters(&self) -> Result<(), Problem> {
        reject_parameters(&self.http)
    }

    /// Reads and unpacks a JSON body.
    ///
    /// # Errors
    ///
    /// Returns 415, 413, 408, 400.
    pub async fn body(&mut self, limits: Limits) -> Result<Bytes, Problem> {
        let announced = body::json(self.headers(), limits)?;
        self.read(announced).await
    }

    /// Reads and unpacks a body whose head was checked.
    ///
    /// # Errors
    ///
    /// Returns 413, 408, 400.
    pub async fn read(&mut self, announced: Announced) -> Result<Bytes, Problem> {
        let deadlines = self.state.config.body_deadlines;
        let body = announced.read(self.payload.take(), deadlines, |_| Ok(()));
        body.await.map(|body| body.to_bytes())
    }
}

/// Checks that the request has no query.
///
/// # Errors
///
/// Returns 422 with the name of each parameter.
pub fn reject_parameters(http: &HttpRequest) -> Result<(), Problem> {
    match http.query_string() {
        "" => Ok(()),
        text => Query::of(text).finish(),
    }
}

/// Returns the scores of a session.
///
/// # Errors
///
/// Returns 404 until the session is scored.
pub async fn score_of(service: &Service, row: &SessionRow) -> Result<Score, Problem> {
    let score = match service.insight(row).await? {
        InsightState::Scored(stored) => stored.record.score,
        InsightState::Processing { .. } => None,
    };
    score.ok_or_else(not_scored)
}

/// Returns a JSON answer that must not be cached.
///
/// # Errors
///
/// Returns 500 if it cannot be serialized, which would be a defect.
pub fn json(
    mut response: actix_web::HttpResponseBuilder,
    body: &impl Serialize,
) -> Result<HttpResponse, Problem> {
    let text = serde_json::to_string(body).map_err(Problem::internal)?;
    response.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")));
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    Ok(response.body(text))
}

/// Returns whether `Accept` allows a media type. Without a readable range, all is allowed.
pub fn accepts(headers: &HeaderMap, main: &str, sub: &str) -> bool {
    quality(headers, main, sub) > 0.0
}

/// Returns whether `Accept` prefers a page to a problem document, as browsers do.
#[must_use]
pub fn prefers_html(headers: &HeaderMap) -> bool {
    let json = quality(headers, "application", "json");
    let problem = quality(headers, "application", "problem+json");
    quality(headers, "text", "html") > json.max(problem)
}

/// Returns the quality that `Accept` gives a media type, 0 to 1: the most specific range decides
/// (RFC 9110, section 12.5.1). Malformed parts are ignored; without a readable range, it is 1.
fn quality(headers: &HeaderMap, main: &str, sub: &str) -> f32 {
    let mut best: Option<(u8, f32)> = None;
    let mut is_readable = false;
    for value in headers.get_all(ACCEPT) {
        if value == "*/*" {
            return 1.0;
        }
        for range in value.to_str().unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let Some((range_main, range_sub)) =
                parts.next().and_then(|media| media.split_once('/'))
            else {
                continue;
            };
            is_readable = true;
            let specific = match (range_main, range_sub) {
                ("*", "*") => 0,
                (range_main, "*") if range_main.eq_ignore_ascii_case(main) => 1,
                _ if range_main.eq_ignore_ascii_case(main)
                    && range_sub.eq_ignore_ascii_case(sub) =>
                {
                    2
                }
                _ => continue,
            };
            let quality = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
            let quality = quality.map_or(1.0, |(_, quality)| quality.trim().parse().unwrap_or(0.0));
            if best.is_none_or(|(before, _)| before < specific) {
                best = Some((specific, quality));
            }
        }
    }
    best.map_or(if is_readable { 0.0 } else { 1.0 }, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().unwrap());
            super::accepts(&headers, "application", "json")
        };
        for value in [
            "*/*",
            "application/json",
            "Application/*",
            "text/html, application/json;q=0.1",
            "text/html, */*;q=0.8",
            "application/json;v=1",
            "",
        ] {
            assert!(accepts(value), "{value}");
        }
        for value in [
            "text/html",
            "application/xml",
            "application/json;q=0",
            "*/*, application/json;q=0",
            "image/*, text/*",
        ] {
            assert!(!accepts(value), "{value}");
        }
        assert!(super::accepts(&HeaderMap::new(), "application", "json"));
    }

    #[test]
    fn a_page_is_preferred_only_if_it_is_named_before_json() {
        let prefers = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().unwrap());
            prefers_html(&headers)
        };
        for page in [
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "text/html",
            "text/html, application/json;q=0.9",
        ] {
            assert!(prefers(page), "{page}");
        }
        for document in [
            "*/*",
            "application/json",
            "text/html, application/json",
            "text/html, application/problem+json",
            "text/html;q=0.5, */*;q=0.8",
            "text/html;q=0",
            "nonsense",
        ] {
            assert!(!prefers(document), "{document}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
