//! Every error of the public API is a [`Problem`], sent as `application/problem+json` (RFC 9457).

mod code;
mod resources;
mod webhooks;

use std::borrow::Cow;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use actix_web::{HttpResponse, ResponseError};
use porchlight_observe::error_text;
use porchlight_ports::StoreError;
use porchlight_schema::limits::{RETRY_AFTER_SEC, TENANT_LIVE_KEYS_MAX};
use porchlight_schema::sample::FieldError;
use serde::Serialize;

use super::request_id::{REQUEST_ID, RequestId};

pub use code::Code;
pub use resources::{
    check_retry, delivery_not_found, not_scored, privacy_limit_reached, privacy_request_not_found,
    restricted, session_not_found, share_exceeded,
};

/// The media type of every error.
pub const MEDIA_TYPE: &str = "application/problem+json";
/// The maximum number of characters of an unknown name that a problem repeats.
pub(crate) const UNKNOWN_NAME_CHARS_MAX: usize = 64;

/// The position of an error in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fault {
    /// A field of the body.
    Field {
        /// JSON pointer (RFC 6901) from the body's root.
        pointer: String,
        /// The expected value.
        detail: String,
    },
    /// A parameter of the query, or a header.
    Parameter {
        /// The name of the parameter.
        parameter: Cow<'static, str>,
        /// The expected value.
        detail: String,
    },
}

impl From<FieldError> for Fault {
    fn from(error: FieldError) -> Self {
        Self::Field {
            pointer: error.pointer,
            detail: error.detail,
        }
    }
}

/// An error answer.
#[derive(Debug, Clone)]
pub struct Problem(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    code: Code,
    detail: String,
    faults: Vec<Fault>,
    headers: Vec<(HeaderName, HeaderValue)>,
    request_id: Option<RequestId>,
    source: Option<String>,
}

/// The members of RFC 9457 and additional ones.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(rename = "type")]
    about: &'a str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Fault]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    /// Creates a problem; `detail` is a safe sentence about this occurrence.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let mut headers = Vec::new();
        match code.status() {
            StatusCode::UNAUTHORIZED => headers.push((
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"porchlight\""),
            )),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.push((RETRY_AFTER, RETRY_AFTER_SEC.into()))
            }
            _ => {}
        }
        Self(Box::new(Inner {
            code,
            detail: detail.into(),
            faults: Vec::new(),
            headers,
            request_id: None,
            source: None,
        }))
    }

    /// Creates the problem for a JSON body with invalid content.
    #[must_use]
    pub fn invalid_body(faults: Vec<Fault>) -> Self {
        Self::new(
            Code::InvalidBody,
            "The body is valid JSON, but does not match the schema; see errors.",
        )
        .with_faults(faults)
    }

    /// Creates the problem for a body that is not a valid batch.
    #[must_use]
    pub fn invalid_batch(faults: Vec<Fault>) -> Self {
        Self::new(Code::InvalidBody, "The body is not a batch; see errors.").with_faults(faults)
    }

    /// Creates the problem for one invalid field of the body.
    #[must_use]
    pub fn invalid_field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::invalid_body(vec![Fault::Field {
            pointer: pointer.to_owned(),
            detail: detail.into(),
        }])
    }

    /// Creates the problem for invalid query parameters or headers.
    #[must_use]
    pub fn invalid_parameters(faults: Vec<Fault>) -> Self {
        Self::new(
            Code::InvalidParameter,
            "A parameter or header is invalid; see errors.",
        )
        .with_faults(faults)
    }

    /// Creates the problem for an error of the service. The log contains `source`; the response
    /// does not.
    #[must_use]
    pub fn internal(source: impl fmt::Display) -> Self {
        let mut problem = Self::new(Code::Internal, "An internal error occurred. It was logged.");
        problem.0.source = Some(source.to_string());
        problem
    }

    /// Returns the problem for a key beyond the limit of an organization.
    #[must_use]
    pub fn too_many_keys() -> Self {
        let detail = format!(
            "An organization has at most {TENANT_LIVE_KEYS_MAX} valid keys in each environment. Revoke some first."
        );
        Self::new(Code::Conflict, detail)
    }

    /// Creates the problem for a path that does not exist.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "There is no endpoint at this path.")
    }

    /// Creates the problem for a method that the path does not support. `allowed` lists the
    /// supported ones (`GET, HEAD`).
    #[must_use]
    pub fn method_not_allowed(allowed: &'static str) -> Self {
        Self::new(
            Code::MethodNotAllowed,
            format!("This path allows only {allowed}."),
        )
        .with_header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// Adds errors to the problem.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<Fault>) -> Self {
        self.0.faults = faults;
        self
    }

    /// Sets a header, replacing an earlier one with this name.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.retain(|(header, _)| *header != name);
        self.0.headers.push((name, value));
        self
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn retry_after_sec(self, seconds: u64) -> Self {
        self.with_header(RETRY_AFTER, seconds.into())
    }

    /// Sets the id of the request that the problem answers.
    #[must_use]
    pub fn of_request(mut self, request_id: RequestId) -> Self {
        self.0.request_id = Some(request_id);
        self
    }

    /// Returns the code of the problem.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Returns the description of this occurrence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the cause for the log, which the caller must not see.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.0.source.as_deref()
    }

    /// Returns the problem as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let code = self.0.code;
        let body = Body {
            about: code.about(),
            title: code.title(),
            status: code.status().as_u16(),
            detail: &self.0.detail,
            code: code.as_str(),
            request_id: self.0.request_id.as_ref().map(RequestId::as_str),
            errors: &self.0.faults,
        };
        // Strings and numbers always serialize.
        serde_json::to_string(&body).unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.detail)
    }
}

impl std::error::Error for Problem {}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.0.code.status()
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)));
        response.insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")));
        for (name, value) in &self.0.headers {
            response.insert_header((name, value));
        }
        // The middleware knows the request and serializes the problem again, so the first body may
        // be empty.
        let Some(request_id) = &self.0.request_id else {
            return response.finish();
        };
        response.insert_header((REQUEST_ID, request_id.header()));
        response.body(self.to_json())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Overloaded => Self::new(
                Code::Overloaded,
                "The store is overloaded; nothing was changed.",
            ),
            StoreError::Full => Self::new(
                Code::StoreFull,
                "The store has no room for this write; nothing was changed. Repeat it later.",
            ),
            StoreError::Unavailable(source) => {
                let mut problem = Self::new(Code::StoreUnavailable, "The store cannot be reached.");
                problem.0.source = Some(error_text(&*source));
                problem
            }
            StoreError::Newer(_) => {
                let mut problem = Self::new(
                    Code::StoreUnavailable,
                    "A later release of the service wrote this data, and this process cannot read it; nothing was \
                     changed. Repeat the request later.",
                );
                problem.0.source = Some(error.to_string());
                problem
            }
            StoreError::Damaged(_) => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_written_as_in_the_contract() {
        let problem = Problem::invalid_field("/address/lat", "must be a number")
            .of_request(RequestId::given(&HeaderValue::from_static("abc")).unwrap());
        assert_eq!(
            problem.to_json(),
            r#"{"type":"/docs/errors#invalid_body","title":"Invalid body","status":422,"detail":"The body is valid JSON, but does not match the schema; see errors.","code":"invalid_body","requestId":"abc","errors":[{"pointer":"/address/lat","detail":"must be a number"}]}"#
        );
        let problem = Problem::invalid_parameters(vec![Fault::Parameter {
            parameter: "limit".into(),
            detail: "must be 1 to 200".into(),
        }]);
        assert_eq!(
            problem.detail(),
            "A parameter or header is invalid; see errors."
        );
        assert!(
            problem
                .to_json()
                .contains(r#""errors":[{"parameter":"limit","detail":"must be 1 to 200"}]"#)
        );
    }

    #[test]
    fn required_headers_are_set() {
        let headers = |problem: Problem| problem.error_response().headers().clone();
        assert!(headers(Problem::new(Code::CredentialMissing, "")).contains_key(WWW_AUTHENTICATE));
        assert_eq!(
            headers(Problem::method_not_allowed("GET, HEAD"))
                .get(ALLOW)
                .unwrap(),
            "GET, HEAD"
        );
        assert_eq!(
            headers(Problem::new(Code::RateLimited, "").retry_after_sec(3))
                .get(RETRY_AFTER)
                .unwrap(),
            "3"
        );
        for &code in Code::ALL {
            let headers = headers(Problem::new(code, ""));
            let must_wait = matches!(code.status().as_u16(), 429 | 503);
            assert_eq!(headers.contains_key(RETRY_AFTER), must_wait, "{code:?}");
            assert_eq!(headers.get(CONTENT_TYPE).unwrap(), MEDIA_TYPE);
        }
    }

    #[test]
    fn internal_details_are_not_disclosed() {
        let problem = Problem::from(StoreError::Damaged("row 17".into()));
        assert!(
            !problem.to_json().contains("row 17") && problem.source().unwrap().contains("row 17")
        );
    }

    #[test]
    fn data_of_a_later_release_may_be_read_later() {
        let problem = Problem::from(StoreError::Newer("row 17".into()));
        assert_eq!(problem.0.code.status(), 503);
        assert!(problem.error_response().headers().contains_key(RETRY_AFTER));
        assert!(
            !problem.to_json().contains("row 17") && problem.source().unwrap().contains("row 17")
        );
    }
}
