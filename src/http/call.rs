//! One request on its way through the checks, in the contract's order: credential (401, 429), role (403), the thing
//! itself (404), `Accept` (406), media type (415), size (413), and then the body.

use std::future::{Ready, ready};
use std::str::FromStr;

use actix_web::dev::Payload;
use actix_web::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::web::{Bytes, Data};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;
use serde::Serialize;

use super::auth::Caller;
use super::body::{self, Announced, Limits};
use super::problem::{Code, Problem};
use super::state::State;

/// A request and what it needs.
pub struct Call {
    /// The request's head.
    pub http: HttpRequest,
    /// Its body, not read.
    pub payload: Payload,
    /// What the API is made of.
    pub state: Data<State>,
}

impl FromRequest for Call {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(http: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let state = http.app_data::<Data<State>>().cloned();
        let state = state.ok_or_else(|| Problem::internal("the application has no state"));
        ready(state.map(|state| Self {
            http: http.clone(),
            payload: payload.take(),
            state,
        }))
    }
}

impl Call {
    /// The request's headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.http.headers()
    }

    /// Who asks.
    ///
    /// # Errors
    ///
    /// 401, 429, 503.
    pub async fn caller(&self) -> Result<Caller, Problem> {
        self.state
            .auth
            .caller(self.headers(), self.state.service.now())
            .await
    }

    /// The tenant of the secret key that asks.
    ///
    /// # Errors
    ///
    /// 401, 429, 503; 403 for another credential.
    pub async fn secret(&self) -> Result<Tenant, Problem> {
        self.caller().await?.secret()
    }

    /// The session in the path; none where it is no id.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        SessionId::from_str(self.http.match_info().get("id")?).ok()
    }

    /// The session `session_id`, if the caller sees it and its token is still good.
    ///
    /// # Errors
    ///
    /// 404; 401 for an expired token; 503.
    pub async fn session(
        &self,
        caller: &Caller,
        session_id: Option<SessionId>,
    ) -> Result<SessionRow, Problem> {
        let session_id = session_id.ok_or_else(session_not_found)?;
        let row = self.state.service.find(session_id).await?;
        let row = row
            .filter(|row| caller.sees(row.start.tenant))
            .ok_or_else(session_not_found)?;
        caller.still_good(row.end.as_ref(), self.state.service.now())?;
        Ok(row)
    }

    /// Whether `Accept` lets us answer with JSON.
    ///
    /// # Errors
    ///
    /// 406.
    pub fn accepts_json(&self) -> Result<(), Problem> {
        self.accepts("application", "json")
    }

    /// Whether `Accept` lets us answer with this media type.
    ///
    /// # Errors
    ///
    /// 406.
    pub fn accepts(&self, main: &str, sub: &str) -> Result<(), Problem> {
        if accepts(self.headers(), main, sub) {
            Ok(())
        } else {
            Err(Problem::new(
                Code::NotAcceptable,
                format!("This path gives {main}/{sub}."),
            ))
        }
    }

    /// The body, unpacked, which must be JSON by its media type.
    ///
    /// # Errors
    ///
    /// 415, 413, 408, 400.
    pub async fn body(&mut self, limits: Limits) -> Result<Bytes, Problem> {
        let announced = body::json(self.headers(), limits)?;
        self.read(announced).await
    }

    /// The body whose head was checked, unpacked.
    ///
    /// # Errors
    ///
    /// 413, 408, 400.
    pub async fn read(&mut self, announced: Announced) -> Result<Bytes, Problem> {
        announced
            .read(
                self.payload.take(),
                self.state.config.body_deadlines,
                |_| Ok(()),
            )
            .await
    }
}

/// No such session, or none that the caller may know of.
#[must_use]
pub fn session_not_found() -> Problem {
    Problem::new(Code::SessionNotFound, "There is no such session.")
}

/// An answer in JSON that is good for this one request only.
///
/// # Errors
///
/// 500 where it can't be written, which would be a fault of ours.
pub fn json(
    mut response: actix_web::HttpResponseBuilder,
    body: &impl Serialize,
) -> Result<HttpResponse, Problem> {
    let text = serde_json::to_string(body).map_err(Problem::internal)?;
    response.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")));
    response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    Ok(response.body(text))
}

/// Whether `Accept` allows a media type: the most specific range that matches it decides (RFC 9110, section 12.5.1).
/// What can't be read there is passed over; no header, or nothing readable in it, allows all.
pub fn accepts(headers: &HeaderMap, main: &str, sub: &str) -> bool {
    let mut best: Option<(u8, bool)> = None;
    let mut is_readable = false;
    for value in headers.get_all(ACCEPT) {
        if value == "*/*" {
            return true;
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
            let is_allowed = quality.is_none_or(|(_, quality)| {
                quality
                    .trim()
                    .parse()
                    .is_ok_and(|quality: f32| quality > 0.0)
            });
            if best.is_none_or(|(before, _)| before < specific) {
                best = Some((specific, is_allowed));
            }
        }
    }
    best.map_or(!is_readable, |(_, is_allowed)| is_allowed)
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
}
