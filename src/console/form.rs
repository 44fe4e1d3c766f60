//! Reads submitted forms.

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_TYPE;

use porchlight_http::State;
use porchlight_http::body::{self, Limits};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::percent_encode;

/// The name of the field with the CSRF token, which proves that the form is one of the console's
/// own.
pub(super) const CSRF_FIELD: &str = "word";

/// The fields of a form.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Returns a form with these fields.
    #[cfg(test)]
    pub(super) fn of(fields: &[(&str, &str)]) -> Self {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Self(fields.iter().map(owned).collect())
    }

    /// Returns a field, or an empty string if it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }

    /// Returns the fields as a query, without the CSRF token.
    pub(super) fn query(&self) -> String {
        let fields = self
            .0
            .iter()
            .filter(|(name, value)| name != CSRF_FIELD && !value.is_empty());
        encode(fields.map(|(name, value)| (name.as_str(), value.as_str())))
    }
}

/// Encodes fields as a query, or as a form body.
pub(super) fn encode<'f>(fields: impl Iterator<Item = (&'f str, &'f str)>) -> String {
    let mut query = String::new();
    for (name, value) in fields {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(&percent_encode(name));
        query.push('=');
        query.push_str(&percent_encode(value));
    }
    query
}

/// Reads the form in a request's body, within these limits.
///
/// # Errors
///
/// Returns 415 for another media type, 413 for a long body, 408 for a slow one, and 400 for a
/// malformed one.
pub(super) async fn read(
    http: &HttpRequest,
    payload: Payload,
    state: &State,
    limits: Limits,
) -> Result<Form, Problem> {
    let media = http.headers().get(CONTENT_TYPE);
    let media = media
        .and_then(|media| media.to_str().ok())
        .unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Problem::new(
            Code::UnsupportedMediaType,
            "This path accepts form submissions only.",
        ));
    }
    let announced = body::announced(http.headers(), limits)?;
    let body = announced
        .read(payload, state.config.body_deadlines, |_| Ok(()))
        .await?
        .to_bytes();
    let text = std::str::from_utf8(&body)
        .map_err(|_| Problem::new(Code::MalformedBody, "The form is not UTF-8."))?;
    let fields = actix_web::web::Query::<Vec<(String, String)>>::from_query(text)
        .map_err(|_| Problem::new(Code::MalformedBody, "The form cannot be read."))?;
    Ok(Form(fields.into_inner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_forms_round_trip() {
        let fields = [
            ("from", "2026-11-20T10:55+01:00"),
            ("a&b", "ä =%\u{0}"),
            ("e", ""),
        ];
        let query = encode(fields.into_iter());
        assert!(query.bytes().all(|byte| byte.is_ascii_graphic()));
        let read = actix_web::web::Query::<Vec<(String, String)>>::from_query(&query).unwrap();
        let read = read.into_inner();
        let read: Vec<_> = read
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(read, fields);
    }
}
