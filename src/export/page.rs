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
pub(super) fn index(request: &Request, rows: &[Row]) -> Markup {
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
                @if rows.is_empty() { p { "Nothing is stored." } }
                @for row in rows { (session(row)) }
                @if !request.erased.is_empty() {
                    section {
                        h2 { "Erased before" }
                        p { "These sessions were erased earlier. Copies of them elsewhere should be erased, too." }
                        ul { @for id in &request.erased { li { code { (id) } } } }
                    }
                }
            }
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
            p {
                "Files: " a href=(file("session.json")) { "session" }
                ", " a href=(file("telemetry.ndjson")) { "telemetry (" (row.batches) " batches)" }
                @if row.has_insight { ", " a href=(file("insight.json")) { "insight" } }
                @if row.has_evidence { ", " a href=(file("evidence.json")) { "evidence" } }
            }
        }
    }
}
