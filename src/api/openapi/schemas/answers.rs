//! What the service says: sessions, events, insights, deliveries, problems.

use porchlight_http::problem::Code;
use porchlight_schema::event::EventType;
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::limits::BATCH_SEQ_MAX;
use serde_json::{Value, json};

use super::super::operation::schema;
use super::{number, object, or_null, text, whole, whole_object, words};

/// Why an attempt failed.
const CAUSES: [&str; 9] = [
    "dns",
    "connect",
    "tls",
    "blocked_address",
    "timeout",
    "status",
    "redirect",
    "protocol",
    "internal",
];
/// The fields of the summary that a message does not carry.
const MESSAGE_LEAVES_OUT: [&str; 2] = ["totalDurationSec", "attemptCycles"];
/// What a count may come to: what a number in JSON holds exactly.
const COUNT_MAX: i64 = u32::MAX as i64;

pub(super) fn all() -> Value {
    let mut all = sessions();
    for part in [insights(), webhooks(), problems()] {
        if let (Some(all), Value::Object(part)) = (all.as_object_mut(), part) {
            all.extend(part);
        }
    }
    all
}

fn moment(description: &str) -> Value {
    json!({
        "type": "string", "format": "date-time",
        "pattern": "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$", "description": description,
    })
}

fn seconds(description: &str) -> Value {
    json!({ "type": "number", "minimum": 0, "description": description })
}

fn page(of: &str) -> Value {
    whole_object(
        "A page of a list.",
        json!({
            "data": { "type": "array", "items": schema(of), "maxItems": 200, "description": "The rows, newest first." },
            "nextCursor": { "type": ["string", "null"], "description": "What the next page is asked with; null at the end." },
        }),
    )
}

fn session_fields() -> Value {
    json!({
        "sessionId": schema("SessionId"),
        "deliveryId": { "type": "string", "description": "Your id of the parcel's delivery." },
        "organizationId": schema("OrganizationId"),
        "externalRiderId": { "type": "string", "description": "Your id of the courier." },
        "sessionType": schema("SessionType"),
        "status": schema("SessionStatus"),
        "env": words(["sandbox", "production"], "The environment, from the key."),
        "address": schema("Address"),
        "createdAt": moment("When the service made it."),
        "endedAt": or_null(moment("When it ended; null while it is recording.")),
    })
}

fn sessions() -> Value {
    let mut started = session_fields();
    started["sessionToken"] = json!({
        "type": "string", "pattern": "^st_",
        "description": "Good for telemetry, proof of delivery and stop of this session, until 24 hours after its end.",
    });
    json!({
        "SessionStatus": words(["recording", "completed"], "Where a session stands."),
        "Address": whole_object("Where the parcel goes.", json!({
            "line1": { "type": "string", "description": "Street and number." },
            "city": { "type": "string", "description": "City." },
            "country": { "type": "string", "description": "Country, as you write it." },
            "lat": number(-90.0, 90.0, "Latitude, WGS 84 degrees."),
            "lng": number(-180.0, 180.0, "Longitude, WGS 84 degrees."),
        })),
        "Session": whole_object("One physical delivery being recorded.", session_fields()),
        "StartedSession": whole_object("A session, and the token by which a phone acts on it.", started),
        "SessionPage": page("Session"),
        "Acknowledgement": whole_object("A batch is durable.", json!({
            "sessionId": schema("SessionId"),
            "ackSeq": whole(0, BATCH_SEQ_MAX.into(), "The batch's own number."),
        })),
        "LineAnswer": object("What became of a line of NDJSON.", &["sessionId", "seq", "status"], json!({
            "sessionId": { "type": ["string", "null"], "description": "As the line said it." },
            "seq": { "type": ["integer", "null"], "description": "As the line said it." },
            "status": whole(202, 599, "What the single call would have answered."),
            "code": { "type": "string", "description": "The code of the problem, where it is one." },
        })),
    })
}

fn insights() -> Value {
    json!({
        "Event": event(),
        "StreamedEvent": json!({
            "description": "An Event in a stream: sent when it opens and again when it closes, with the same id.",
            "type": "object", "allOf": [schema("Event")], "required": ["eventId"],
            "properties": { "eventId": { "type": "string", "description": "By what the two find each other." } },
        }),
        "StreamEnd": whole_object("The last message of a stream.", json!({
            "sessionId": schema("SessionId"),
            "status": schema("SessionStatus"),
            "endedAt": moment("When the session ended."),
        })),
        "Metadata": object("What else is known of an event; empty where nothing is.", &[], json!({
            "floors": { "type": ["integer", "null"], "minimum": 0, "description": "`STAIRS`, `ELEVATOR`: floors passed." },
            "direction": words(["up", "down"], "`STAIRS`, `ELEVATOR`: which way."),
            "heightM": { "type": ["number", "null"], "minimum": 0, "description": "`STAIRS`, `ELEVATOR`: height passed, metres." },
            "retracedM": { "type": "number", "minimum": 0, "description": "`BACKTRACKING`: length of the path gone twice, metres." },
            "waitSec": { "type": "number", "minimum": 0, "description": "`GATE`: the pause, seconds." },
        })),
        "Summary": summary(),
        "Metrics": whole_object("Times at the building; null where entrance or door was not found.", json!({
            "timeFromEntranceToDoorSec": or_null(whole(0, COUNT_MAX, "Whole seconds from the entrance to the door.")),
            "timeAtDoorSec": or_null(whole(0, COUNT_MAX, "Whole seconds at the door.")),
        })),
        "ReasonCode": words(ReasonCode::ALL.iter().map(|code| code.as_str()), "One outcome, or `INSUFFICIENT_DATA` in its place; \
            then whatever else holds."),
        "InsightStatus": words(["processing", "ready", "failed"], "Where an insight stands."),
        "Insight": insight(),
        "Evidence": evidence(),
    })
}

fn event() -> Value {
    whole_object(
        "Something detected.",
        json!({
            "type": words(EventType::ALL.iter().map(|one| one.as_str()), "What. `DRIVING`, `WALKING`, `STOPPED`, `STAIRS` and \
                `ELEVATOR` never overlap each other; the others may overlap anything."),
            "tStart": seconds("When it began, seconds since the session's start."),
            "tEnd": or_null(seconds("When it ended; null while it is open, and for an instant.")),
            "confidence": number(0.0, 1.0, "How sure the detector is."),
            "metadata": schema("Metadata"),
        }),
    )
}

fn summary() -> Value {
    let score = |description: &str| number(0.0, 1.0, description);
    whole_object(
        "The scores.",
        json!({
            "rightDoorstep": { "type": "boolean", "description": "The drop-off was at the address's door; true only on evidence." },
            "fraudScore": score("How likely the telemetry or the claim is untrue."),
            "suspiciousBehavior": { "type": "boolean", "description": "Fraud on two independent grounds, or mock fixes that persist." },
            "frictionScore": score("How hard the delivery was."),
            "visibilityScore": score("How complete the data was, against what the device has."),
            "floorsClimbed": { "type": ["integer", "null"],
                "description": "Floors up from the entrance to the drop-off, negative for down; null when it can't be measured." },
            "elevatorUsed": { "type": ["boolean", "null"], "description": "Null when it can't be told." },
            "totalDurationSec": whole(0, COUNT_MAX, "Whole seconds from start to end."),
            "attemptCycles": whole(0, COUNT_MAX, "Visits to the door."),
        }),
    )
}

fn insight() -> Value {
    object(
        "What is known of a session: while it is `processing` the events so far, then the scores.",
        &[
            "sessionId",
            "organizationId",
            "deliveryId",
            "status",
            "reasonCodes",
            "events",
            "pathImageUrl",
            "errorMessage",
            "createdAt",
            "updatedAt",
        ],
        json!({
            "sessionId": schema("SessionId"),
            "organizationId": schema("OrganizationId"),
            "deliveryId": { "type": "string", "description": "Your id of the parcel's delivery." },
            "status": schema("InsightStatus"),
            "summary": schema("Summary"),
            "reasonCodes": { "type": "array", "items": schema("ReasonCode"), "description": "Empty while processing." },
            "events": { "type": "array", "items": schema("Event"), "description": "By start, then type." },
            "metrics": schema("Metrics"),
            "pod": schema("Pod"),
            "pathImageUrl": { "type": ["string", "null"], "format": "uri",
                "description": "The path drawn, as PNG; with `.svg` in place of `.png` as SVG. A signed link that needs no credential and \
                    holds while the session is kept. Null below two usable fixes." },
            "errorMessage": { "type": ["string", "null"], "description": "Why it could not be scored." },
            "createdAt": moment("When the session was made."),
            "updatedAt": moment("When the insight last changed."),
        }),
    )
}

fn evidence() -> Value {
    let one = whole_object(
        "One reason behind a score, a flag or a reason code.",
        json!({
            "about": { "type": "string", "description": "The field or code that it speaks of." },
            "signal": { "type": "string", "description": "The signal, a stable name." },
            "points": { "type": "number", "description": "What it adds; for `fraudScore` in log-odds." },
            "tStart": or_null(seconds("From when; null when it is of the whole session.")),
            "tEnd": or_null(seconds("Until when.")),
            "text": { "type": "string", "description": "What was seen." },
            "explanation": { "type": "string", "description": "The honest explanation that there may be." },
        }),
    );
    whole_object(
        "Why each score, flag and reason code is what it is.",
        json!({
            "data": { "type": "array", "items": one, "description": "The reasons." },
            "weights": { "type": "string", "description": "Version of the weights." },
        }),
    )
}

/// A configuration; `more` are fields that one answer has beside the usual ones.
fn webhook(description: &str, more: Value) -> Value {
    let mut properties = json!({
        "id": schema("WebhookId"),
        "url": { "type": "string", "format": "uri", "description": "Where to." },
        "enabled": { "type": "boolean", "description": "Off: nothing new is queued, and what waits pauses." },
        "createdAt": moment("When it was made."),
    });
    let mut required: Vec<String> = ["id", "url", "enabled", "createdAt"]
        .map(str::to_owned)
        .into();
    if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
        required.extend(more.keys().cloned());
        properties.extend(more);
    }
    properties["certificateExpiresAt"] = moment(
        "When the receiver's certificate ends; only where that is soon. From then on nothing can be delivered.",
    );
    json!({ "type": "object", "description": description, "required": required, "properties": properties })
}

fn webhooks() -> Value {
    let secret = || {
        json!({
            "type": "string", "pattern": "^whsec_[A-Za-z0-9+/]{43}=$",
            "description": "Shown only here. The key of `X-Service-Signature` is this whole text; the key of `webhook-signature` is \
                what follows `whsec_`, decoded from base64.",
        })
    };
    let row = delivery_fields();
    let mut detail = row.clone();
    detail["payload"] = json!({ "type": "string", "description": "The exact body." });
    detail["url"] = json!({ "type": ["string", "null"], "description": "Where it goes; null without a webhook." });
    detail["attemptLog"] =
        json!({ "type": "array", "items": schema("Attempt"), "description": "Every try." });
    json!({
        "Webhook": webhook("A webhook configuration.", json!({})),
        "NewWebhook": webhook("A webhook configuration with its secret.", json!({ "secret": secret() })),
        "RotatedWebhook": webhook("A webhook configuration with its new secret.", json!({
            "secret": secret(),
            "previousSecretExpiresAt": or_null(moment("Until when the secret before signs too; null where it has ended.")),
        })),
        "TestReport": whole_object("How a test event went.", json!({
            "deliveryId": schema("DeliveryId"),
            "statusCode": or_null(whole(100, 999, "What the receiver answered.")),
            "durationMs": whole(0, COUNT_MAX, "How long it took."),
            "error": or_null(schema("Cause")),
        })),
        "Cause": words(CAUSES, "Why an attempt failed."),
        "Delivery": whole_object("A webhook delivery.", row),
        "DeliveryPage": page("Delivery"),
        "DeliveryDetail": whole_object("A webhook delivery with all that is known of it.", detail),
        "Attempt": whole_object("One try.", json!({
            "attempt": whole(1, COUNT_MAX, "Which one; beyond 6 by hand."),
            "at": moment("When."),
            "durationMs": whole(0, COUNT_MAX, "How long it took."),
            "statusCode": or_null(whole(100, 999, "What the receiver answered.")),
            "cause": or_null(schema("Cause")),
            "response": { "type": ["string", "null"], "description": "The first KiB of the receiver's answer." },
        })),
        "RetryReport": object("How many will be tried.", &["count"], json!({
            "count": whole(0, COUNT_MAX, "How many."),
            "truncated": { "type": "boolean", "description": "Whether there are more; only for a filter." },
        })),
        "InsightMessage": insight_message(),
        "MessageSummary": message_summary(),
    })
}

fn delivery_fields() -> Value {
    json!({
        "id": schema("DeliveryId"),
        "event": schema("WebhookEvent"),
        "sessionId": schema("SessionId"),
        "sequence": whole(0, COUNT_MAX, "0, 1, 2 … within the session."),
        "status": schema("DeliveryStatus"),
        "attempts": whole(0, COUNT_MAX, "Tries so far."),
        "cause": or_null(schema("Cause")),
        "statusCode": or_null(whole(100, 999, "What the receiver answered last.")),
        "createdAt": moment("When it was queued."),
        "deliveredAt": or_null(moment("When it was delivered.")),
        "nextAttemptAt": or_null(moment("When it is tried next.")),
    })
}

fn insight_message() -> Value {
    let mut message = whole_object(
        "What `insight.updated` tells.",
        json!({
            "sessionId": schema("SessionId"),
            "deliveryId": { "type": "string", "description": "Your id of the parcel's delivery." },
            "organizationId": schema("OrganizationId"),
            "status": schema("InsightStatus"),
            "reasonCodes": { "type": "array", "items": schema("ReasonCode"), "description": "The outcome first." },
            "events": { "type": "array", "items": schema("Event"), "description": "By start, then type." },
        }),
    );
    message["properties"]["summary"] = schema("MessageSummary");
    message
}

/// The summary of `insight.updated`: seven of the nine fields and no others.
fn message_summary() -> Value {
    let mut schema = summary();
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !MESSAGE_LEAVES_OUT.contains(&name.as_str()));
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|name| !MESSAGE_LEAVES_OUT.iter().any(|left_out| name == left_out));
    }
    schema["additionalProperties"] = false.into();
    schema
}

fn problems() -> Value {
    let fault = object(
        "One fault: in the body by `pointer`, in the query or a header by `parameter`.",
        &["detail"],
        json!({
            "pointer": { "type": "string", "description": "RFC 6901, from the body's root." },
            "parameter": { "type": "string", "description": "The parameter's name." },
            "detail": text(1, 1_000, "What it should be."),
        }),
    );
    json!({ "Problem": object(
        "An error (RFC 9457).",
        &["type", "title", "status", "detail", "code", "requestId"],
        json!({
            "type": { "type": "string", "format": "uri-reference", "description": "Where it is explained." },
            "title": { "type": "string", "description": "The same words for every occurrence." },
            "status": whole(400, 599, "The status."),
            "detail": { "type": "string", "description": "What is wrong this time." },
            "code": words(Code::ALL.iter().map(|code| code.as_str()), "The kind of error; it never changes its meaning."),
            "requestId": { "type": "string", "description": "As in `X-Request-Id`." },
            "errors": { "type": "array", "items": fault, "description": "Where validation failed." },
        }),
    ) })
}
