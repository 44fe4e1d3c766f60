//! The printable explanation of a decision for the person concerned, and the form for a review.

use actix_web::HttpResponse;
use maud::{Markup, html};
use porchlight_actors::service::NewReview;
use porchlight_core::score::explanation::{PlainExplanation, explain_plainly};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::request_context::score_of;
use porchlight_ports::SessionRow;
use porchlight_schema::insight::statement;
use porchlight_schema::limits::{REVIEW_NOTE_CHARS_MAX, TEXT_CHARS_MAX};
use porchlight_schema::review::{Review, ReviewState};

use super::super::guard;
use super::super::layout::{Frame, Section, clock, zone};
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;

/// The fields of evidence and their names for the person concerned.
const NAMES: [(&str, &str); 8] = [
    (statement::RIGHT_DOORSTEP, "Right door"),
    (statement::FRAUD_SCORE, "Doubts about the recording"),
    (statement::SUSPICIOUS_BEHAVIOR, "Marked for a check"),
    (statement::FRICTION_SCORE, "Difficulty of the delivery"),
    (statement::VISIBILITY_SCORE, "Completeness of the recording"),
    (statement::FLOORS_CLIMBED, "Floors"),
    (statement::ELEVATOR_USED, "Elevator"),
    (statement::ATTEMPT_CYCLES, "Visits to the door"),
];

pub(super) async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let row = request.session().await?;
    let score = score_of(&request.state.service, &row).await?;
    let explanation = explain_plainly(&score);
    let review = request.sessions().review(&row).await?;
    let frame = request.frame();
    let body = page(&frame, &row, &explanation, review.as_ref());
    Ok(guard::ok(frame.page(
        Section::Sessions,
        "Explanation",
        body,
    )))
}

fn page(
    frame: &Frame<'_>,
    row: &SessionRow,
    explanation: &PlainExplanation,
    review: Option<&Review>,
) -> Markup {
    let session_id = row.start.session_id;
    html! {
        p.crumbs { a href={ (ROOT) "/sessions/" (session_id) } { (row.start.delivery_id) } }
        header.title { h1 { "Explanation of a decision" } }
        section.card {
            dl.facts {
                dt { "Delivery" } dd { (row.start.delivery_id) }
                dt { "Started" } dd { (clock(row.start.started_at)) " " (zone()) }
            }
            p { (explanation.decision) }
        }
        section.card aria-labelledby="parameters" {
            h2 #parameters { "Observations behind the decision" }
            p.help { "The weight is the observation's share among all observations for the same question. A minus sign marks an observation against it." }
            (parameters(explanation))
        }
        section.card aria-labelledby="review" {
            h2 #review { "Human review" }
            (reviewed(review))
            @if frame.may_change() { (form(frame, row, review)) }
        }
        p.faint { "You can ask for a human review of this decision." }
    }
}

fn parameters(explanation: &PlainExplanation) -> Markup {
    let label = |name: &str| {
        let (about, _) = name.split_once('.').unwrap_or((name, ""));
        let named = NAMES.iter().find(|(known, _)| *known == about);
        named.map_or("Outcome", |(_, label)| *label)
    };
    html! {
        @if explanation.parameters.is_empty() { p.faint { "There are no observations." } } @else {
            div.table { table {
                caption.hidden { "The main parameters of the decision" }
                thead { tr { th scope="col" { "Question" } th.num scope="col" { "Weight" } th scope="col" { "Observation" } } }
                tbody { @for parameter in &explanation.parameters { tr {
                    td { (label(&parameter.name)) }
                    td.num.nobr { (format!("{:+.0} %", parameter.weight * 100.0)) }
                    td { (parameter.text) }
                } } }
            } }
        }
    }
}

fn reviewed(review: Option<&Review>) -> Markup {
    html! {
        @match review {
            None => p.faint { "This decision has not been reviewed." },
            Some(review) => {
                p { @match review.state {
                    ReviewState::Reviewed => "A person reviewed this decision and confirmed it",
                    ReviewState::Overturned => "A person reviewed this decision and overturned it",
                } " on " (clock(review.reviewed_at)) " " (zone()) @if let Some(by) = &review.by { ", " (by) } "." }
                @if let Some(note) = &review.note { p { (note) } }
            }
        }
    }
}

fn form(frame: &Frame<'_>, row: &SessionRow, review: Option<&Review>) -> Markup {
    let is_overturned = review.is_some_and(|review| review.state == ReviewState::Overturned);
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    html! {
        form.stack.screen-only method="post" action={ (ROOT) "/sessions/" (row.start.session_id) "/review" } {
            (frame.field())
            label for="state" { "Result" }
            select #state name="state" {
                option value=(ReviewState::Reviewed.as_str()) selected[!is_overturned] { "confirmed" }
                option value=(ReviewState::Overturned.as_str()) selected[is_overturned] { "overturned" }
            }
            label for="note" { "Reason" }
            textarea #note name="note" rows="3" maxlength=(REVIEW_NOTE_CHARS_MAX) { (text(review.and_then(|review| review.note.as_ref()))) }
            label for="by" { "Reviewed by" }
            input #by name="by" maxlength=(TEXT_CHARS_MAX) value=(text(review.and_then(|review| review.by.as_ref()))) autocomplete="name";
            button.primary { "Save the review" }
        }
    }
}

pub(super) async fn review(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let row = request.session().await?;
    score_of(&request.state.service, &row).await?;
    let text = |name: &str| {
        // Browsers send a line break as two characters, and count it as one.
        let text = form.get(name).replace("\r\n", "\n");
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let state = ReviewState::ALL
        .into_iter()
        .find(|state| state.as_str() == form.get("state"));
    let new = NewReview {
        state: state.ok_or_else(|| {
            Problem::new(Code::InvalidParameter, "Choose the result of the review.")
        })?,
        note: text("note"),
        by: text("by"),
    };
    let key_id = request.key.id;
    request.sessions().put_review(&row, new, key_id).await?;
    let id = row.start.session_id;
    Ok(guard::redirect(&format!(
        "{ROOT}/sessions/{id}/explanation"
    )))
}
