//! `GET /v1/sessions/{id}/explanation` and `PUT /v1/sessions/{id}/review`.

use actix_web::HttpResponse;
use porchlight_actors::service::NewReview;
use porchlight_core::score::explanation::{PlainParameter, explain_plainly};
use porchlight_http::auth::Caller;
use porchlight_http::body::Limits;
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::Problem;
use porchlight_http::request_context::{self, RequestContext, score_of};
use porchlight_schema::limits::{REVIEW_NOTE_CHARS_MAX, TEXT_CHARS_MAX};
use porchlight_schema::review::{ReviewState, ReviewView};
use serde::Serialize;

/// A decision, its main parameters and its review.
#[derive(Serialize)]
struct ExplanationView<'a> {
    decision: &'a str,
    parameters: &'a [PlainParameter],
    review: Option<ReviewView<'a>>,
}

/// Explains the decision about a session in plain sentences. 200 `{decision, parameters, review}`.
///
/// # Errors
///
/// See the module [`super`]; 404 until the session is scored.
pub(super) async fn explanation(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let tenant = caller.require_secret_key()?;
    let row = call.session(&caller, call.session_id()).await?;
    let score = score_of(&call.state.service, &row).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let explanation = explain_plainly(&score);
    let review = call.state.service.of(tenant).review(&row).await?;
    request_context::json(
        HttpResponse::Ok(),
        &ExplanationView {
            decision: &explanation.decision,
            parameters: &explanation.parameters,
            review: review.as_ref().map(ReviewView::from),
        },
    )
}

/// Writes the review of a decision, in place of an earlier one. 200 with the review.
///
/// # Errors
///
/// See the module [`super`]; 404 until the session is scored; 409 `restricted`.
pub(super) async fn review(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let tenant = caller.require_secret_key()?;
    let Caller::Key(key) = &caller else {
        return Err(Problem::internal("a secret key is a key"));
    };
    let row = call.session_to_change(&caller, call.session_id()).await?;
    let scored = score_of(&call.state.service, &row).await;
    // A restriction hides that a session has no scores. Its own check follows those of the content.
    if call.check_may_change(&row).is_ok() {
        scored?;
    }
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    let root = Fields::root(&value)?;
    let mut faults = Faults::default();
    let states = ReviewState::ALL.map(|state| (state.as_str(), state));
    let state = root.closed("state", &states, &mut faults);
    let state = root.need("state", state, &mut faults);
    let note = root.text("note", 1..=REVIEW_NOTE_CHARS_MAX, &mut faults);
    let by = root.text("by", 1..=TEXT_CHARS_MAX, &mut faults);
    root.only(&["state", "note", "by"], &mut faults);
    call.reject_parameters()?;
    let new = NewReview {
        state: faults.into_result(state)?,
        note: note.map(str::to_owned),
        by: by.map(str::to_owned),
    };
    let sessions = call.state.service.of(tenant);
    let review = sessions.put_review(&row, new, key.id).await?;
    request_context::json(HttpResponse::Ok(), &ReviewView::from(&review))
}
