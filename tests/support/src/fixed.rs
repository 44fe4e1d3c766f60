//! Checks every answer and every webhook body that a test sees against the shapes fixed by the
//! contract.
//!
//! `schema/fixed-shapes.schema.json` contains the shapes. JSON Schema accepts `300.0` as an
//! integer, and many clients do not: the raw bytes are checked too.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../schema/fixed-shapes.schema.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
});

/// The names of all fields that the schema declares as integers.
static INTEGERS: LazyLock<Vec<String>> = LazyLock::new(|| {
    fn walk(schema: &Value, found: &mut Vec<String>) {
        let Some(fields) = schema.as_object() else {
            return;
        };
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let kinds = field["type"].as_array().cloned().unwrap_or_default();
            if field["type"] == "integer" || kinds.contains(&json!("integer")) {
                found.push(name.clone());
            }
        }
        for value in fields.values() {
            walk(value, found);
        }
    }
    let mut found = Vec::new();
    walk(&SCHEMA, &mut found);
    found.sort();
    found.dedup();
    assert!(found.len() >= 5, "{found:?}");
    found
});

/// Returns the validator of one of the shapes. Each is compiled once for all tests.
fn validator(shape: &str) -> Arc<jsonschema::Validator> {
    static COMPILED: Mutex<BTreeMap<String, Arc<jsonschema::Validator>>> =
        Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let compile = || {
        let schema =
            json!({ "$ref": format!("#/$defs/{shape}"), "$defs": SCHEMA["$defs"].clone() });
        let options = jsonschema::options().should_validate_formats(true);
        Arc::new(options.build(&schema).unwrap())
    };
    Arc::clone(compiled.entry(shape.to_owned()).or_insert_with(compile))
}

/// Returns the reasons why a value does not have this shape.
fn violations(shape: &str, value: &Value) -> Vec<String> {
    let validator = validator(shape);
    let errors = validator.iter_errors(value);
    errors
        .map(|error| format!("{shape}{}: {error}", error.instance_path()))
        .collect()
}

/// Returns the integers that the raw text writes with a fraction or an exponent.
fn fractions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in INTEGERS.iter() {
        for (offset, key) in text.match_indices(&format!("\"{name}\":")) {
            let value: String = text[offset + key.len()..]
                .trim_start()
                .chars()
                .take_while(|letter| !matches!(letter, ',' | '}' | ']') && !letter.is_whitespace())
                .collect();
            let digits = value.strip_prefix('-').unwrap_or(&value);
            if value != "null" && !digits.chars().all(|letter| letter.is_ascii_digit()) {
                found.push(format!("{name} is written as {value}"));
            }
        }
    }
    found
}

#[track_caller]
fn assert_none(found: &[String], text: &str) {
    assert!(found.is_empty(), "{found:#?}\n{text}");
}

/// Asserts that the text is JSON of this shape, and that its integers have no fraction.
#[track_caller]
pub fn assert_shape(shape: &str, text: &str) {
    let value: Value = serde_json::from_str(text).unwrap();
    let mut found = violations(shape, &value);
    found.extend(fractions(text));
    assert_none(&found, text);
}

/// Asserts that the raw body of a webhook request conforms to the contract.
#[track_caller]
pub fn assert_webhook_body(body: &str) {
    assert_shape("WebhookBody", body);
}

/// Asserts that the body of a raw HTTP request to a receiver conforms to the contract.
#[track_caller]
pub fn assert_webhook_request(request: &str) {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    assert_webhook_body(body);
}

/// Asserts that the data of a message of the event stream conforms to the contract.
#[track_caller]
pub fn assert_stream_message(event: &str, data: &str) {
    let mut value: Value = serde_json::from_str(data).unwrap();
    let mut found = fractions(data);
    match event {
        "event" => {
            // The stream adds this field to the Event, so that an opening and its closing can be
            // matched.
            value.as_object_mut().unwrap().remove("eventId");
            found.extend(violations("Event", &value));
        }
        "insight" => found.extend(violations("Insight", &value)),
        _ => {}
    }
    assert_none(&found, data);
}

/// Returns the violations of the API's own Session: the fixed fields, and the fields that the
/// contract lets start, stop, get and list add.
fn session_violations(session: &Value) -> Vec<String> {
    let mut session = session.clone();
    let Some(fields) = session.as_object_mut() else {
        return violations("Session", &session);
    };
    fields.remove("sessionToken");
    let started_at = fields.remove("startedAt");
    let mut found = violations("Session", &session);
    found.extend(started_at.iter().flat_map(|at| violations("DateTime", at)));
    found
}

/// Asserts that a successful answer has the shape that the contract fixes for its path; other
/// answers are not checked.
#[track_caller]
pub fn assert_answer(method: &str, path: &str, status: u16, text: &str) {
    if !(200..300).contains(&status) || !path.starts_with("/v1/") || method == "HEAD" {
        return;
    }
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
    let read = || -> Value { serde_json::from_str(text).unwrap() };
    let rows = || read()["data"].as_array().cloned().unwrap_or_default();
    let mut found = match (method, parts.as_slice()) {
        ("POST", ["sessions", "start" | "stop"]) => session_violations(&read()),
        ("GET", ["sessions"]) => rows().iter().flat_map(session_violations).collect(),
        ("GET", ["sessions", _]) => session_violations(&read()),
        ("GET", ["sessions", _, "insights"]) => violations("Insight", &read()),
        ("POST", ["sessions", _, "pod"]) => violations("Pod", &read()),
        ("GET" | "POST" | "PUT", ["webhooks"]) | ("POST", ["webhooks", "rotate"]) => {
            violations("WebhookConfiguration", &read())
        }
        ("GET", ["webhooks", "deliveries", _]) => {
            let payload = read()["payload"].as_str().unwrap_or_default().to_owned();
            assert_webhook_body(&payload);
            Vec::new()
        }
        _ => Vec::new(),
    };
    found.extend(fractions(text));
    assert_none(&found, text);
}

#[test]
fn a_fraction_is_detected_in_the_bytes() {
    assert_eq!(
        fractions(r#"{"totalDurationSec": 300.0,"floorsClimbed":-2,"timeAtDoorSec":null}"#),
        ["totalDurationSec is written as 300.0"]
    );
    assert_eq!(fractions(r#"{"attemptCycles":1e2}"#).len(), 1);
}

#[test]
fn extra_and_missing_fields_are_detected() {
    let summary = json!({
        "rightDoorstep": true, "suspiciousBehavior": false, "floorsClimbed": null, "elevatorUsed": null,
        "frictionScore": 0.1, "fraudScore": 0.1, "visibilityScore": 0.9,
    });
    assert!(violations("SummaryInWebhook", &summary).is_empty());
    let mut more = summary.clone();
    more["attemptCycles"] = json!(1);
    assert_eq!(violations("SummaryInWebhook", &more).len(), 1);
    let mut fewer = summary;
    fewer.as_object_mut().unwrap().remove("floorsClimbed");
    assert_eq!(violations("SummaryInWebhook", &fewer).len(), 1);
}
