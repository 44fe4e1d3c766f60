//! Every error of the public API is one [`Problem`], written as `application/problem+json` (RFC 9457).

mod code;
mod webhooks;

use std::borrow::Cow;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use actix_web::{HttpResponse, ResponseError};
use porchlight_ports::StoreError;
use porchlight_schema::limits::RETRY_AFTER_SEC;
use porchlight_schema::sample::FieldError;
use serde::Serialize;

use super::request_id::{REQUEST_ID, RequestId};

pub use code::Code;

/// The media type of every error.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Where in a request something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Fault {
    /// In the body.
    Field {
        /// RFC 6901, from the body's root.
        pointer: String,
        /// What it should be.
        detail: String,
    },
    /// In the query or a header.
    Parameter {
        /// Its name.
        parameter: Cow<'static, str>,
        /// What it should be.
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

/// An error as it is answered.
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

/// The members of RFC 9457, and ours.
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
    /// A problem; `detail` is a safe sentence about this occurrence.
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

    /// The body is JSON, but not what is asked for.
    #[must_use]
    pub fn invalid_body(faults: Vec<Fault>) -> Self {
        Self::new(
            Code::InvalidBody,
            "The body is JSON, but not what is asked for; see errors.",
        )
        .with_faults(faults)
    }

    /// The body can be read, but is not a batch.
    #[must_use]
    pub fn invalid_batch(faults: Vec<Fault>) -> Self {
        Self::new(Code::InvalidBody, "The body is not a batch; see errors.").with_faults(faults)
    }

    /// One field of the body is wrong.
    #[must_use]
    pub fn invalid_field(pointer: &str, detail: impl Into<String>) -> Self {
        Self::invalid_body(vec![Fault::Field {
            pointer: pointer.to_owned(),
            detail: detail.into(),
        }])
    }

    /// Parameters in the query or a header are wrong.
    #[must_use]
    pub fn invalid_parameters(faults: Vec<Fault>) -> Self {
        Self::new(
            Code::InvalidParameter,
            "A parameter is not what is asked for; see errors.",
        )
        .with_faults(faults)
    }

    /// Something went wrong on our side; `source` goes to the log and not to the caller.
    #[must_use]
    pub fn internal(source: impl fmt::Display) -> Self {
        let mut problem = Self::new(
            Code::Internal,
            "Something went wrong on our side; it was noted.",
        );
        problem.0.source = Some(source.to_string());
        problem
    }

    /// No path of this service.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "There is nothing at this path.")
    }

    /// The path is known, the method is not; `allowed` are those that are (`GET, HEAD`).
    #[must_use]
    pub fn method_not_allowed(allowed: &'static str) -> Self {
        Self::new(
            Code::MethodNotAllowed,
            format!("This path takes {allowed}."),
        )
        .with_header(ALLOW, HeaderValue::from_static(allowed))
    }

    /// The same with these faults.
    #[must_use]
    pub fn with_faults(mut self, faults: Vec<Fault>) -> Self {
        self.0.faults = faults;
        self
    }

    /// The same with one header; a former one of this name is replaced.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.retain(|(header, _)| *header != name);
        self.0.headers.push((name, value));
        self
    }

    /// The same, asking the client to come again after so many seconds.
    #[must_use]
    pub fn retry_after_sec(self, seconds: u64) -> Self {
        self.with_header(RETRY_AFTER, seconds.into())
    }

    /// The same, of this request.
    #[must_use]
    pub fn of_request(mut self, request_id: RequestId) -> Self {
        self.0.request_id = Some(request_id);
        self
    }

    /// What kind of error it is.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What it says of this occurrence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What the log should know and the caller should not.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.0.source.as_deref()
    }

    /// The problem as JSON.
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
        // Strings and numbers only: there is nothing in it that JSON can't say.
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
        // Whose it is is known at the edge only, which has it written once more: the first time it needs no text.
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
                "The store has too much to do; nothing was changed.",
            ),
            StoreError::Unavailable(source) => {
                let mut problem = Self::new(Code::StoreUnavailable, "The store can't be reached.");
                problem.0.source = Some(source.to_string());
                problem
            }
            StoreError::Corrupt(_) => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_the_contract_says() {
        let problem = Problem::invalid_field("/address/lat", "must be a number")
            .of_request(RequestId::given(&HeaderValue::from_static("abc")).unwrap());
        assert_eq!(
            problem.to_json(),
            r#"{"type":"/docs/errors#invalid_body","title":"Invalid body","status":422,"detail":"The body is JSON, but not what is asked for; see errors.","code":"invalid_body","requestId":"abc","errors":[{"pointer":"/address/lat","detail":"must be a number"}]}"#
        );
        let problem = Problem::invalid_parameters(vec![Fault::Parameter {
            parameter: "limit".into(),
            detail: "must be 1 to 200".into(),
        }]);
        assert!(
            problem
                .to_json()
                .contains(r#""errors":[{"parameter":"limit","detail":"must be 1 to 200"}]"#)
        );
    }

    #[test]
    fn what_must_be_said_in_headers_is() {
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
    fn what_is_ours_to_know_is_not_told() {
        let problem = Problem::from(StoreError::Corrupt("row 17".into()));
        assert!(
            !problem.to_json().contains("row 17") && problem.source().unwrap().contains("row 17")
        );
    }
}
