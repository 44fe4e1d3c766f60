//! Renders the human-readable page of an archive. It needs no script and loads no external
//! resources.

use maud::{DOCTYPE, Markup, html};
use porchlight_schema::ids::SessionId;
use serde_json::Value;

use super::{ExportedSession, Request};

/// The style sheet, which also prints well.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ccc}\
img{max-width:100%}code{overflow-wrap:anywhere}section{break-inside:avoid}";

/// The page's content about one session.
#[derive(Debug)]
pub(super) struct Row {
    session_id: SessionId,
    facts: Vec<(&'static str, String)>,
    evidence: Vec<String>,
    batches: usize,
    messages: usize,
    review: Option<Value>,
    has_acknowledged: bool,
    has_places: bool,
    has_insight: bool,
    has_evidence: bool,
    has_path: bool,
}

impl Row {
    /// Creates the page's content about one session from its JSON forms `value` and `insight`.
    pub(super) fn new(
        session: &ExportedSession<'_>,
        value: &Value,
        insight: Option<&Value>,
    ) -> Self {
        let lines = session.telemetry_ndjson.split(|&byte| byte == b'\n');
        let evidence = session.evidence.map_or(&[][..], |evidence| evidence.data);
        Self {
            session_id: session.session_id,
            facts: facts(value, insight),
            evidence: evidence.iter().map(|one| one.text.clone()).collect(),
            batches: lines.filter(|line| !line.is_empty()).count(),
            messages: session.messages.len(),
            // A review is plain data, which always serializes.
            review: session
                .review
                .as_ref()
                .and_then(|review| serde_json::to_value(review).ok()),
            has_acknowledged: session.acknowledged.is_some(),
            has_places: !session.places.is_empty(),
            has_insight: session.insight.is_some(),
            has_evidence: session.evidence.is_some(),
            has_path: session.path_png.is_some(),
        }
    }
}

fn facts(session: &Value, insight: Option<&Value>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &'static str, value: &Value| match value {
        Value::Null => {}
        Value::String(text) => facts.push((name, text.clone())),
        Value::Bool(true) => facts.push((name, "yes".to_owned())),
        Value::Bool(false) => facts.push((name, "no".to_owned())),
        other => facts.push((name, other.to_string())),
    };
    add("Delivery", &session["deliveryId"]);
    add("Courier", &session["externalRiderId"]);
    add("Began", &session["startedAt"]);
    add("Ended", &session["endedAt"]);
    add("Status", &session["status"]);
    let address = &session["address"];
    add("Address", &address["line1"]);
    add("City", &address["city"]);
    add("Country", &address["country"]);
    add("Latitude", &address["lat"]);
    add("Longitude", &address["lng"]);
    let summary = insight.map_or(&Value::Null, |insight| &insight["summary"]);
    add("At the right door", &summary["rightDoorstep"]);
    add("Suspicious", &summary["suspiciousBehavior"]);
    add("Fraud score, 0 to 1", &summary["fraudScore"]);
    add("Difficulty, 0 to 1", &summary["frictionScore"]);
    add(
        "Completeness of the data, 0 to 1",
        &summary["visibilityScore"],
    );
    add("Floors climbed", &summary["floorsClimbed"]);
    add("Elevator used", &summary["elevatorUsed"]);
    add("Duration in seconds", &summary["totalDurationSec"]);
    add("Visits to the door", &summary["attemptCycles"]);
    facts
}

/// Renders the page.
pub(super) fn index(request: &Request, rows: &[Row], recorders: &[Value]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Personal data: request " (request.request_id) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { "Personal data" }
                p { "This archive holds the data that is stored about " (request.subject_kind) " " code { (request.subject) } "." }
                table {
                    tr { th scope="row" { "Request" } td { code { (request.request_id) } } }
                    tr { th scope="row" { "Received" } td { (request.received_at) } }
                    tr { th scope="row" { "Data read" } td { (request.read_at) } }
                    tr { th scope="row" { "Sessions" } td { (rows.len()) } }
                }
                @if rows.is_empty() && recorders.is_empty() { p { "Nothing is stored." } }
                @if !recorders.is_empty() { (recorder_list(recorders)) }
                @for row in rows { (session(row)) }
                @if !request.erased.is_empty() {
                    section {
                        h2 { "Erased before" }
                        p { "These sessions were erased earlier; each line is a salted hash of a session's id. Copies of them elsewhere should be erased, too." }
                        ul { @for id in &request.erased { li { code { (id) } } } }
                    }
                }
            }
        }
    }
}

/// Renders the recorders that were created for the person.
fn recorder_list(recorders: &[Value]) -> Markup {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    html! {
        section {
            h2 { "Recorders" }
            p { "Links by which an app on a phone records deliveries. All fields: " a href="recorders.json" { "recorders" } }
            table {
                tr { th { "Recorder" } th { "Courier" } th { "Delivery" } th { "Address" } th { "Created" } }
                @for recorder in recorders {
                    tr {
                        td { code { (text(&recorder["recorderId"])) } }
                        td { (text(&recorder["externalRiderId"])) }
                        td { (text(&recorder["deliveryId"])) }
                        td { (text(&recorder["address"]["line1"])) ", " (text(&recorder["address"]["city"])) }
                        td { (text(&recorder["createdAt"])) }
                    }
                }
            }
        }
    }
}

/// Renders the review of a decision.
fn review(review: &Value) -> Markup {
    let text = |name: &str| review[name].as_str().unwrap_or_default();
    html! {
        h3 { "Review by a person" }
        p {
            (text("state")) " on " (text("reviewedAt"))
            @if !text("by").is_empty() { " by " (text("by")) }
            @if !text("note").is_empty() { ": " (text("note")) }
        }
    }
}

fn session(row: &Row) -> Markup {
    let file = |name: &str| format!("sessions/{}/{name}", row.session_id);
    html! {
        section {
            h2 { "Session " code { (row.session_id) } }
            table { @for (name, value) in &row.facts { tr { th scope="row" { (name) } td { (value) } } } }
            @if row.has_path { p { img src=(file("path.png")) alt="The path of this session"; } }
            @if !row.evidence.is_empty() {
                h3 { "Reasons for the result" }
                ul { @for text in &row.evidence { li { (text) } } }
            }
            @if let Some(one) = &row.review { (review(one)) }
            p {
                "Files: " a href=(file("session.json")) { "session" }
                ", " a href=(file("start.json")) { "address and device" }
                ", " a href=(file("telemetry.ndjson")) { "telemetry (" (row.batches) " batches)" }
                @if row.has_insight { ", " a href=(file("insight.json")) { "insight" } }
                @if row.has_evidence { ", " a href=(file("evidence.json")) { "evidence" } }
                @if row.review.is_some() { ", " a href=(file("review.json")) { "review" } }
                @if row.messages > 0 { ", " a href=(file("messages.json")) { "webhook messages (" (row.messages) ")" } }
                @if row.has_places { ", " a href=(file("places.json")) { "contribution to the place" } }
                @if row.has_acknowledged { ", " a href=(file("acknowledged.json")) { "acknowledged batches" } }
            }
        }
    }
}
