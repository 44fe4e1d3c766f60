//! The details of an attempt that a customer sees in addition to its cause: the reason of a
//! failure, and the headers of the answer.

use std::error::Error;
use std::io;

use porchlight_schema::limits::{ANSWER_HEADERS_KEPT_BYTES_MAX, ANSWER_HEADERS_KEPT_MAX};
use reqwest::header::HeaderMap;
use rustls::{CertificateError, OtherError};

use super::tls::SelfSigned;

/// The maximum number of characters of a reason.
const REASON_CHARS_MAX: usize = 200;
/// Parts of the names of headers whose values may be secrets.
const SECRET_NAMES: [&str; 9] = [
    "cookie",
    "authorization",
    "authentication-info",
    "token",
    "secret",
    "password",
    "api-key",
    "apikey",
    "credential",
];

/// Returns the reason why a request got no answer, as a short sentence without a full stop, or
/// `None` if its cause is sufficient.
pub(super) fn reason(error: &reqwest::Error) -> Option<String> {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    let mut from_io = None;
    while let Some(error) = source {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(of_tls(tls));
        }
        source = error.source();
        if let Some(error) = error.downcast_ref::<io::Error>() {
            // The inner error of an I/O error is not always its source.
            match error.get_ref() {
                Some(inner) => source = Some(inner),
                None => from_io = from_io.or(Some(error.kind())),
            }
        }
    }
    from_io.map(|kind| kind.to_string())
}

fn of_tls(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(certificate) = error else {
        return error.to_string().chars().take(REASON_CHARS_MAX).collect();
    };
    let reason = of_certificate(certificate);
    reason.unwrap_or("the certificate does not verify").into()
}

/// Returns the reason why a certificate does not verify, as a short sentence without a full stop,
/// or `None` if it is uncommon.
pub(super) fn of_certificate(error: &CertificateError) -> Option<&'static str> {
    Some(match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is for another host name"
        }
        CertificateError::UnknownIssuer => {
            "the certificate's issuer is not trusted, or an intermediate certificate is missing"
        }
        CertificateError::Revoked => "the certificate was revoked",
        CertificateError::BadEncoding => "the certificate cannot be read",
        CertificateError::BadSignature => "the certificate's signature is wrong",
        CertificateError::Other(OtherError(other)) if other.is::<SelfSigned>() => {
            "the certificate is self-signed"
        }
        _ => return None,
    })
}

/// Decodes the beginning of an answer; invalid UTF-8 is replaced. The character in which `is_cut`
/// ends the bytes is left out.
pub(super) fn decode(bytes: &[u8], is_cut: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        let is_incomplete =
            || str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        let ends_in_cut = is_cut && chunks.peek().is_none() && is_incomplete();
        if !invalid.is_empty() && !ends_in_cut {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

/// Returns the headers of an answer to keep: at most [`ANSWER_HEADERS_KEPT_MAX`] with a total of
/// [`ANSWER_HEADERS_KEPT_BYTES_MAX`]. Values of one name are joined by commas, and headers that may
/// hold secrets are left out.
pub(super) fn kept_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut bytes = 0;
    for name in headers.keys() {
        if SECRET_NAMES.iter().any(|part| name.as_str().contains(part)) {
            continue;
        }
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect();
        let (name, value) = (name.as_str().to_owned(), values.join(", "));
        bytes += name.len() + value.len();
        if kept.len() >= ANSWER_HEADERS_KEPT_MAX || bytes > ANSWER_HEADERS_KEPT_BYTES_MAX {
            break;
        }
        kept.push((name, value));
    }
    kept
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn headers_are_kept_without_secrets_and_within_bounds() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("location", "https://example.com/"),
            ("set-cookie", "a=b"),
            ("x-api-key", "c"),
            ("x-refresh-token", "d"),
            ("via", "one"),
            ("via", "two"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let kept = kept_headers(&headers);
        let names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["location", "via"]);
        assert_eq!(kept[1].1, "one, two");
        for number in 0..1_000 {
            let name = HeaderName::try_from(format!("x-{number}")).unwrap();
            headers.append(name, HeaderValue::from_static("v"));
        }
        assert_eq!(kept_headers(&headers).len(), ANSWER_HEADERS_KEPT_MAX);
        let mut large = HeaderMap::new();
        let value = "v".repeat(ANSWER_HEADERS_KEPT_BYTES_MAX);
        large.append("via", HeaderValue::try_from(value).unwrap());
        assert!(kept_headers(&large).is_empty());
    }

    #[test]
    fn an_answer_is_decoded_without_a_character_that_was_cut() {
        let euro = "a€".as_bytes();
        assert_eq!(decode(euro, true), "a€");
        assert_eq!(decode(&euro[..3], true), "a");
        assert_eq!(decode(&euro[..3], false), "a\u{fffd}");
        assert_eq!(decode(&[0xff, b'b', 0xff], true), "\u{fffd}b\u{fffd}");
        assert_eq!(decode(b"", true), "");
    }

    #[test]
    fn common_certificate_faults_have_descriptions() {
        let reason = |error| of_tls(&rustls::Error::InvalidCertificate(error));
        assert_eq!(
            reason(CertificateError::Expired),
            "the certificate has expired"
        );
        assert!(reason(CertificateError::UnknownIssuer).contains("issuer is not trusted"));
        let own = OtherError(std::sync::Arc::new(SelfSigned));
        assert_eq!(
            reason(CertificateError::Other(own)),
            "the certificate is self-signed"
        );
        let uncommon = OtherError(std::sync::Arc::new(std::fmt::Error));
        assert_eq!(
            reason(CertificateError::Other(uncommon)),
            "the certificate does not verify"
        );
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure);
        assert!(of_tls(&alert).contains("HandshakeFailure"));
    }
}
