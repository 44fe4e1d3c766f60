//! The state of a recorder for the page on the phone: the received data, and the insight of the
//! newest delivery.

use actix_web::HttpResponse;
use porchlight_actors::service::{InsightState, Recorder};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::{InsightView, statement};
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{push, receiving};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::recorder::ShownRecorder;
use porchlight_http::request_context::{self, RequestContext};

/// The fields of the summary that the page omits: the courier gets the measurements, and only the
/// customer gets a suspicion.
const CUSTOMERS_ONLY: [&str; 2] = [statement::FRAUD_SCORE, statement::SUSPICIOUS_BEHAVIOR];
/// The fields of the insight that the page gets.
const SHOWN: [&str; 5] = ["status", "summary", "reasonCodes", "events", "metrics"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusView {
    /// `waiting`, `receiving`, `silent` or `recorded`.
    activity: &'static str,
    /// The activity as a sentence for people.
    text: String,
    last_heard_at: Option<TimestampMs>,
    /// The recently received values per second, by kind.
    receiving: Map<String, Value>,
    session_id: Option<SessionId>,
    /// The insight of the newest session without the fields for the customer alone.
    insight: Value,
}

/// Returns the state of the recorder whose token is in the path. 401 when it has expired or was
/// removed.
pub(super) async fn status(call: RequestContext) -> Result<HttpResponse, Problem> {
    let recorder = recorder_of(&call).await?;
    let shown = ShownRecorder::of(&call.state, &recorder).await?;
    let view = StatusView {
        activity: shown.activity.as_str(),
        text: shown.sentence(),
        last_heard_at: shown.last_heard_at,
        receiving: receiving(&shown),
        session_id: shown.session_id,
        insight: match shown.session_id {
            Some(session_id) => insight(&call, session_id).await?,
            None => Value::Null,
        },
    };
    request_context::json(HttpResponse::Ok(), &view)
}

/// Returns the recorder whose token is in the path.
///
/// # Errors
///
/// Returns 401 if the token is invalid, or the recorder has expired or was removed.
pub(super) async fn recorder_of(call: &RequestContext) -> Result<Recorder, Problem> {
    let id = push::recorder_of(call).await?;
    let now = call.state.service.now();
    let recorder = call.state.service.recorder(id).await?;
    let recorder = recorder.filter(|recorder| now < recorder.order.expires_at);
    let recorder = recorder.ok_or_else(|| {
        Problem::new(
            Code::CredentialInvalid,
            "This recording link has expired or was removed.",
        )
    })?;
    call.count_request(&call.state.service.usage(recorder.order.tenant))?;
    Ok(recorder)
}

async fn insight(call: &RequestContext, session_id: SessionId) -> Result<Value, Problem> {
    let service = &call.state.service;
    let Some(row) = service.find_shown(session_id).await? else {
        return Ok(Value::Null);
    };
    let state = service.insight(&row).await?;
    let view = match &state {
        InsightState::Processing {
            events,
            pod,
            updated_at,
            ..
        } => InsightView::processing(&row.start, events, pod.as_ref(), *updated_at),
        InsightState::Scored(stored) => InsightView::scored(&row.start, &stored.record, None),
    };
    Ok(shown(json!(view)))
}

/// Removes every field that the page does not show.
fn shown(mut insight: Value) -> Value {
    if let Some(fields) = insight.as_object_mut() {
        fields.retain(|name, _| SHOWN.contains(&name.as_str()));
    }
    if let Some(summary) = insight.get_mut("summary").and_then(Value::as_object_mut) {
        summary.retain(|name, _| !CUSTOMERS_ONLY.contains(&name.as_str()));
    }
    insight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_gets_measurements_and_no_suspicion() {
        let insight = json!({
            "sessionId": "ses_1", "organizationId": "org_1", "status": "ready", "pathImageUrl": "x",
            "summary": { "fraudScore": 0.9, "suspiciousBehavior": true, "frictionScore": 0.1 },
            "reasonCodes": [], "events": [],
        });
        assert_eq!(
            shown(insight),
            json!({ "status": "ready", "summary": { "frictionScore": 0.1 }, "reasonCodes": [], "events": [] })
        );
        assert_eq!(shown(Value::Null), Value::Null);
    }
}
