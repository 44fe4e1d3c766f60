//! Examples. A test holds each one against its schema.

use porchlight_schema::ids::{EndpointId, MessageId, OrganizationId, SessionId};
use porchlight_schema::time::TimestampMs;
use serde_json::{Value, json};

/// When the examples happen: 2026-11-20T10:55:00.000Z.
const AT: TimestampMs = TimestampMs(1_795_172_100_000);
const TAIL: u128 = 0x5eed_c0de_cafe;

/// One example under a name.
pub(super) fn one(name: &str, value: Value) -> Value {
    json!({ name: { "value": value } })
}

pub(super) fn session_id() -> String {
    SessionId::new(AT, TAIL).to_string()
}

fn organization_id() -> String {
    OrganizationId::new(AT.plus_ms(-86_400_000), TAIL).to_string()
}

pub(super) fn delivery_id() -> String {
    MessageId::new(AT, TAIL).to_string()
}

/// A time so many seconds after the start.
fn at_sec(seconds: i64) -> String {
    AT.plus_ms(seconds * 1_000).to_string()
}

pub(super) fn start() -> Value {
    let least = json!({
        "deliveryId": "order-4711",
        "externalRiderId": "rider-12",
        "address": { "line1": "Lindenweg 7", "city": "Berlin", "country": "DE", "lat": 52.52, "lng": 13.405 },
    });
    let mut full = least.clone();
    full["sessionType"] = "delivery".into();
    full["address"]["unit"] = "3 left".into();
    full["address"]["floor"] = 3.into();
    full["address"]["accuracyM"] = 8.into();
    full["address"]["entrance"] = json!({ "lat": 52.520_1, "lng": 13.404_9 });
    full["device"] = json!({
        "platform": "android", "model": "Pixel 9", "osVersion": "16", "sdkVersion": "1.4.0",
        "sensors": ["location", "pressure", "steps", "motion"],
    });
    json!({ "least": { "value": least }, "full": { "value": full } })
}

pub(super) fn batch() -> Value {
    json!({ "seq": 17, "samples": [
        { "t": 170.0, "kind": "location", "lat": 52.520_1, "lng": 13.404_9, "accuracyM": 6, "speedMps": 1.3 },
        { "t": 170.2, "kind": "pressure", "hPa": 1_008.42 },
        { "t": 170.4, "kind": "steps", "count": 5_120 },
        { "t": 171.0, "kind": "motion", "accelMean": 9.9, "accelStd": 1.8, "cadenceHz": 1.9 },
        { "t": 179.5, "kind": "mark", "name": "arrived" },
    ] })
}

pub(super) fn session(is_completed: bool) -> Value {
    json!({
        "sessionId": session_id(),
        "deliveryId": "order-4711",
        "organizationId": organization_id(),
        "externalRiderId": "rider-12",
        "sessionType": "delivery",
        "status": if is_completed { "completed" } else { "recording" },
        "env": "sandbox",
        "address": { "line1": "Lindenweg 7", "city": "Berlin", "country": "DE", "lat": 52.52, "lng": 13.405 },
        "createdAt": at_sec(0),
        "endedAt": is_completed.then(|| at_sec(560)),
    })
}

pub(super) fn started() -> Value {
    let mut session = session(false);
    session["sessionToken"] = "st_0123456789abcdef".into();
    session
}

pub(super) fn pod() -> Value {
    json!({ "type": "photo", "url": "https://cdn.example.com/pod/4711.jpg" })
}

fn events() -> Value {
    let event = |kind: &str, from: f64, to: f64, metadata: Value| json!({ "type": kind, "tStart": from, "tEnd": to, "confidence": 0.96, "metadata": metadata });
    let climb = json!({ "floors": 3, "direction": "up", "heightM": 9.2 });
    json!([
        event("DRIVING", 0.0, 162.0, json!({})),
        event("WALKING", 180.0, 241.5, json!({})),
        event("STAIRS", 241.5, 290.0, climb),
        event("STOPPED", 290.0, 352.0, json!({})),
    ])
}

fn summary() -> Value {
    json!({
        "rightDoorstep": true, "fraudScore": 0.001, "suspiciousBehavior": false, "frictionScore": 0.171,
        "visibilityScore": 0.996, "floorsClimbed": 3, "elevatorUsed": false, "totalDurationSec": 560, "attemptCycles": 1,
    })
}

/// The summary as a message carries it.
fn message_summary() -> Value {
    let mut summary = summary();
    if let Some(fields) = summary.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "totalDurationSec" | "attemptCycles"));
    }
    summary
}

pub(super) fn insight() -> Value {
    let id = session_id();
    json!({
        "sessionId": id,
        "organizationId": organization_id(),
        "deliveryId": "order-4711",
        "status": "ready",
        "summary": summary(),
        "reasonCodes": ["FULL_ATTEMPT", "DELIVERED_TO_RIGHT_DOORSTEP"],
        "events": events(),
        "metrics": { "timeFromEntranceToDoorSec": 58, "timeAtDoorSec": 62 },
        "pod": pod(),
        "pathImageUrl": format!("https://api.example.com/v1/sessions/{id}/path.png?signature=9f86d081884c7d659a2feaa0c55ad015"),
        "errorMessage": null,
        "createdAt": at_sec(0),
        "updatedAt": at_sec(561),
    })
}

pub(super) fn evidence() -> Value {
    json!({ "weights": "2026-11-21", "data": [{
        "about": "timeAtDoorSec", "signal": "stay", "points": 62.0, "tStart": 290.0, "tEnd": 352.0,
        "text": "62 s at the door.", "explanation": "A step to the side may end or begin a stay.",
    }] })
}

pub(super) fn webhook() -> Value {
    json!({
        "id": EndpointId::new(AT, TAIL).to_string(),
        "url": "https://hooks.example.com/porchlight",
        "enabled": true,
        "createdAt": at_sec(0),
    })
}

/// A secret of the right form that nobody takes for one.
fn secret() -> String {
    let text: String = "not/a/secret/".chars().cycle().take(43).collect();
    format!("whsec_{text}=")
}

pub(super) fn new_webhook() -> Value {
    let mut webhook = webhook();
    webhook["secret"] = secret().into();
    webhook
}

pub(super) fn rotated_webhook() -> Value {
    let mut webhook = new_webhook();
    webhook["previousSecretExpiresAt"] = at_sec(86_400).into();
    webhook
}

pub(super) fn delivery() -> Value {
    json!({
        "id": delivery_id(), "event": "insight.updated", "sessionId": session_id(), "sequence": 2, "status": "retrying",
        "attempts": 1, "cause": "status", "statusCode": 500, "createdAt": at_sec(561), "deliveredAt": null,
        "nextAttemptAt": at_sec(623),
    })
}

pub(super) fn delivery_detail() -> Value {
    let mut detail = delivery();
    detail["payload"] = message("insight.updated").to_string().into();
    detail["url"] = "https://hooks.example.com/porchlight".into();
    detail["attemptLog"] = json!([{
        "attempt": 1, "at": at_sec(561), "durationMs": 84, "statusCode": 500, "cause": "status", "response": "try later",
    }]);
    detail
}

/// The body of a webhook.
pub(super) fn message(event: &str) -> Value {
    let data = match event {
        "session.started" => session(false),
        "session.stopped" => session(true),
        _ => json!({
            "sessionId": session_id(),
            "deliveryId": "order-4711",
            "organizationId": organization_id(),
            "status": "ready",
            "summary": message_summary(),
            "reasonCodes": ["FULL_ATTEMPT", "DELIVERED_TO_RIGHT_DOORSTEP"],
            "events": events(),
        }),
    };
    json!({ "event": event, "timestamp": at_sec(561), "data": data })
}
