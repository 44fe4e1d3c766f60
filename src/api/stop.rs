//! `POST /v1/sessions/stop` and `POST /v1/sessions/{id}/pod`: the end of a delivery.

use std::str::FromStr;

use actix_web::HttpResponse;
use porchlight_actors::service::{AttachPodError, StopCommand, StopError};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::URL_CHARS_MAX;
use porchlight_schema::session::{Pod, PodType, SessionView};

use porchlight_http::body::Limits;
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::request_context::{self, RequestContext, share_exceeded};

/// Stops a session. 200: the completed session; the same for a completed one.
///
/// The body names the session, so role and object are checked after the body was read and before
/// its other fields are.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn stop(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    caller.may_act()?;
    call.accepts_json()?;
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
            caller.may_act_on(session_id)?;
            Some(call.session_to_change(&caller, session_id).await?)
        }
        None => None,
    };
    call.no_parameters()?;
    let ended_at = root.time("endedAt", &mut faults);
    let pod = root
        .object("pod", &mut faults)
        .and_then(|fields| pod(&fields, &mut faults));
    let row = faults.none(row)?;
    call.may_change(&row)?;
    let stopped = call
        .state
        .service
        .stop(&row, StopCommand { ended_at, pod })
        .await;
    let row = stopped.map_err(|error| match error {
        StopError::EndedAtOutOfRange => Problem::invalid_field(
            "/endedAt",
            "must not lie before the start, and at most 5 minutes ahead",
        ),
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
    caller.may_act_on(session_id)?;
    let row = call.session_to_change(&caller, session_id).await?;
    call.accepts_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    call.no_parameters()?;
    let mut faults = Faults::default();
    let pod = pod(&Fields::root(&value)?, &mut faults);
    let pod = faults.none(pod)?;
    call.may_change(&row)?;
    let attached = call.state.service.attach_pod(&row, pod).await;
    request_context::json(HttpResponse::Ok(), &attached.map_err(not_attached)?)
}

fn not_attached(error: AttachPodError) -> Problem {
    match error {
        AttachPodError::TenantFull(exceeded) => share_exceeded(exceeded),
        AttachPodError::Expired => Problem::new(
            Code::SessionCompleted,
            "Data of the session was deleted after its retention, so it takes no proof of delivery.",
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
        value.as_str().filter(|text| is_https(text))
    });
    let url = fields.need("url", url, faults);
    Some(Pod {
        pod_type: pod_type?,
        url: url?.to_owned(),
    })
}

/// Whether the text is a URL that needs no repair by a parser.
fn is_https(text: &str) -> bool {
    let mended = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\';
    let is_plain = text
        .strip_prefix("https://")
        .is_some_and(|rest| !rest.starts_with('/') && !rest.contains(mended));
    is_plain
        && text.chars().count() <= URL_CHARS_MAX
        && url::Url::parse(text).is_ok_and(|url| url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_https_url_is_accepted() {
        for text in [
            "https://example.com",
            "https://example.com/a?b=c#d",
            "https://cdn.example.com:8443/p%20q.jpg",
            "https://[2001:db8::1]/x",
        ] {
            assert!(is_https(text), "{text}");
        }
        let long = format!("https://example.com/{}", "a".repeat(URL_CHARS_MAX));
        for text in [
            "",
            "http://example.com",
            "https://",
            "https:///x",
            "https://exa mple.com",
            "HTTPS://example.com",
            "https:\\\\example.com",
            "https://example.com/\n",
            &long,
        ] {
            assert!(!is_https(text), "{text}");
        }
    }
}
