//! `POST /v1/sessions/stop` and `POST /v1/sessions/{id}/pod`: the end of a delivery.

use std::str::FromStr;

use actix_web::HttpResponse;
use porchlight_actors::service::{AttachPodError, StopCommand, StopError};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{CLOCK_AHEAD_MS_MAX, URL_CHARS_MAX};
use porchlight_schema::session::{Pod, PodType, SessionView};
use url::{Position, Url};

use porchlight_http::auth::Caller;
use porchlight_http::body::Limits;
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::{Code, Problem, share_exceeded};
use porchlight_http::request_context::{self, RequestContext};

/// Stops a session. 200: the completed session, also if it was completed before.
///
/// The body names the session, so role and object are checked after the body was read and before
/// its other fields are. A token names its session itself: it is checked, and the request counted,
/// before the body is read.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn stop(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    caller.check_may_act()?;
    if let Caller::Session(own) = caller {
        call.session_to_stop(&caller, Some(own)).await?;
    }
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let session_id = root.read(
        "sessionId",
        "must be a string",
        &mut faults,
        serde_json::Value::as_str,
    );
    let session_id = root.need("sessionId", session_id, &mut faults);
    let named = session_id.map(|text| SessionId::from_str(text).ok());
    let row = match named {
        Some(session_id) => {
            caller.check_may_act_on(session_id)?;
            Some(call.session_to_stop(&caller, session_id).await?)
        }
        None => None,
    };
    call.reject_parameters()?;
    let ended_at = root.time("endedAt", &mut faults);
    let pod = root
        .object("pod", &mut faults)
        .and_then(|fields| pod(&fields, &mut faults));
    let row = faults.into_result(row)?;
    call.check_may_change(&row)?;
    let stopped = call
        .state
        .service
        .stop(&row, StopCommand { ended_at, pod })
        .await;
    let row = stopped.map_err(|error| match error {
        StopError::EndedAtOutOfRange => {
            let ahead_min = CLOCK_AHEAD_MS_MAX / 60_000;
            Problem::invalid_field(
                "/endedAt",
                format!(
                    "must not be before the start or more than {ahead_min} minutes in the future"
                ),
            )
        }
        StopError::Pod(error) => not_attached(error),
        StopError::Store(error) => error.into(),
    })?;
    request_context::json(
        HttpResponse::Ok(),
        &SessionView::answer(&row.start, row.end.as_ref()),
    )
}

/// Attaches a PoD. 200: the Pod.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn attach_pod(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let session_id = call.session_id();
    caller.check_may_act_on(session_id)?;
    let row = call.session_to_change(&caller, session_id).await?;
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    call.reject_parameters()?;
    let mut faults = Faults::default();
    let pod = pod(&Fields::root(&value)?, &mut faults);
    let pod = faults.into_result(pod)?;
    call.check_may_change(&row)?;
    let attached = call.state.service.attach_pod(&row, pod).await;
    request_context::json(HttpResponse::Ok(), &attached.map_err(not_attached)?)
}

fn not_attached(error: AttachPodError) -> Problem {
    match error {
        AttachPodError::TenantFull(exceeded) => share_exceeded(exceeded),
        AttachPodError::Expired => Problem::new(
            Code::SessionCompleted,
            "Data of the session was deleted after its retention, so it accepts no proof of delivery.",
        ),
        AttachPodError::Store(error) => error.into(),
    }
}

fn pod(fields: &Fields<'_>, faults: &mut Faults) -> Option<Pod> {
    let types = [
        ("photo", PodType::Photo),
        ("signature", PodType::Signature),
        ("note", PodType::Note),
    ];
    let pod_type = fields.closed("type", &types, faults);
    let pod_type = fields.need("type", pod_type, faults);
    let detail = format!("must be an https URL of at most {URL_CHARS_MAX} characters");
    let url = fields.read("url", detail, faults, |value| {
        value.as_str().and_then(https_uri)
    });
    let url = fields.need("url", url, faults);
    Some(Pod {
        pod_type: pod_type?,
        url: url?,
    })
}

/// Returns the text as a URI of RFC 3986, if it is an https URL that needs no repair by a parser:
/// characters that a URI cannot contain are percent-encoded, and everything else stays as it was
/// sent.
fn https_uri(text: &str) -> Option<String> {
    const SCHEME: &str = "https://";
    let mended = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\';
    let (scheme, rest) = text.split_at_checked(SCHEME.len())?;
    // The letters of a scheme may be of either case (RFC 3986, section 3.1).
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    if rest.starts_with('/') || rest.contains(mended) {
        return None;
    }
    let url = Url::parse(text).ok().filter(Url::has_host)?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = if authority.is_ascii() {
        authority
    } else {
        &url[Position::BeforeUsername..Position::AfterPort]
    };
    let is_uri = |byte: u8| is_unreserved(byte) || b":@[]%".contains(&byte);
    if !authority.bytes().all(is_uri) {
        return None;
    }
    let uri = format!("{scheme}{authority}{}", encode_tail(tail)?);
    (text.chars().count() <= URL_CHARS_MAX && uri.len() <= URL_CHARS_MAX).then_some(uri)
}

/// Returns whether a byte may stand for itself in every part of a URI: `unreserved` and
/// `sub-delims` of RFC 3986.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

/// Encodes the characters that path, query and fragment cannot contain. Returns `None` if a `%`
/// begins no encoded byte.
fn encode_tail(tail: &str) -> Option<String> {
    let mut uri = String::with_capacity(tail.len());
    let mut has_fragment = false;
    for (index, byte) in tail.bytes().enumerate() {
        let stays = match byte {
            b'%' => {
                let digits = tail.as_bytes().get(index + 1..index + 3)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                true
            }
            b'#' => !std::mem::replace(&mut has_fragment, true),
            byte => is_unreserved(byte) || b":@/?".contains(&byte),
        };
        if stays {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    Some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_https_url_stays_as_it_was_sent() {
        for text in [
            "https://example.com",
            "https://Example.com/a?b=c#d",
            "https://example.com/a?b=c?d/e#f?g",
            "https://cdn.example.com:8443/p%20q.jpg?x-sig=a%2Fb+c~d",
            "https://[2001:db8::1]/x",
            "https://user@example.com/",
            "HTTPS://a.b/c",
            "hTTps://a.b/c",
        ] {
            assert_eq!(https_uri(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn characters_outside_of_a_uri_are_percent_encoded() {
        for (text, uri) in [
            ("https://a.example/é", "https://a.example/%C3%A9"),
            (
                "https://a.example/{}|^`?[b]=\"<>",
                "https://a.example/%7B%7D%7C%5E%60?%5Bb%5D=%22%3C%3E",
            ),
            ("https://a.example/#b#c", "https://a.example/#b%23c"),
            (
                "https://bücher.example:8443/%C3%A9é",
                "https://xn--bcher-kva.example:8443/%C3%A9%C3%A9",
            ),
        ] {
            assert_eq!(https_uri(text).as_deref(), Some(uri));
        }
    }

    #[test]
    fn a_text_that_is_not_an_https_url_is_refused() {
        let long = format!("https://example.com/{}", "a".repeat(URL_CHARS_MAX));
        let long_when_encoded = format!("https://example.com/{}", "é".repeat(URL_CHARS_MAX / 2));
        for text in [
            "",
            "http://example.com",
            "https://",
            "https:///x",
            "HTTPS:///x",
            "HTTP://example.com",
            "https://exa mple.com",
            "https:\\\\example.com",
            "https://example.com/\n",
            "https://example.com/%zz",
            "https://example.com/?a=100%",
            "https://ex{a}mple.com/",
            &long,
            &long_when_encoded,
        ] {
            assert_eq!(https_uri(text), None, "{text}");
        }
    }
}
