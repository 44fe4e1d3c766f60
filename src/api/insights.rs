//! `GET /v1/sessions/{id}/insights` and `GET /v1/sessions/{id}/evidence`.

use actix_web::HttpResponse;
use actix_web::http::header::{AGE, CONTENT_TYPE, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use porchlight_actors::service::InsightState;
use porchlight_schema::insight::{DroppedSamples, Evidence, InsightView};
use serde::Serialize;
use sha2::{Digest, Sha256};

use porchlight_http::etag::{PRIVATE, conditional};
use porchlight_http::problem::{Problem, not_scored};
use porchlight_http::request_context::{self, RequestContext};

use super::path_image;

/// Bytes of the body's SHA-256 in its tag: 96 bits distinguish the bodies of one session.
const TAG_BYTES: usize = 12;

/// The evidence for an insight, and the number of samples that it leaves out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EvidenceView<'a> {
    data: &'a [Evidence],
    weights: &'a str,
    dropped_samples: DroppedSamples,
}

/// Returns a session's insight. 200 with `ETag`, or 304.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn insight(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    caller.require_secret_key()?;
    let row = call.session(&caller, call.session_id()).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let state = call.state.service.insight(&row).await?;
    let age_sec = match &state {
        InsightState::Processing { age_sec, .. } => *age_sec,
        InsightState::Scored(_) => None,
    };
    let view = match &state {
        InsightState::Processing {
            events,
            pod,
            updated_at,
            ..
        } => InsightView::processing(&row.start, events, pod.as_ref(), *updated_at),
        InsightState::Scored(stored) => {
            let image = path_image::link(&call, row.start.session_id);
            InsightView::scored(&row.start, &stored.record, image)
        }
    };
    let body = serde_json::to_string(&view).map_err(Problem::internal)?;
    // The tag is computed from the body, so it is right during processing and after upgrades that
    // add fields.
    let tag = format!(
        "\"{}\"",
        URL_SAFE_NO_PAD.encode(&Sha256::digest(&body)[..TAG_BYTES])
    );
    let (mut response, is_known) = conditional(call.headers(), &tag, PRIVATE);
    if let Some(age_sec) = age_sec {
        response.insert_header((AGE, age_sec));
    }
    if is_known {
        return Ok(response.finish());
    }
    Ok(response
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")))
        .body(body))
}

/// Returns the reasons for each score, flag and reason code. 200 `{data, weights, droppedSamples}`.
///
/// # Errors
///
/// See the module [`super`]; 404 until the session is scored.
pub(super) async fn evidence(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    caller.require_secret_key()?;
    let row = call.session(&caller, call.session_id()).await?;
    let state = call.state.service.insight(&row).await?;
    let scored = match &state {
        InsightState::Scored(stored) => stored
            .record
            .score
            .as_ref()
            .map(|score| (score, stored.dropped)),
        InsightState::Processing { .. } => None,
    };
    let (score, dropped_samples) = scored.ok_or_else(not_scored)?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    request_context::json(
        HttpResponse::Ok(),
        &EvidenceView {
            data: &score.evidence,
            weights: &score.weights,
            dropped_samples,
        },
    )
}
