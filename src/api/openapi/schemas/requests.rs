//! What is sent to the service, beside telemetry: ids, starts, stops, proofs of delivery, webhook configuration.

use porchlight_schema::ids::{EndpointId, MessageId, OrganizationId, SessionId};
use porchlight_schema::limits::{
    ADDRESS_ACCURACY_M_MAX, ADDRESS_FLOOR_MAX, ADDRESS_FLOOR_MIN, ADDRESS_GATES_MAX,
    DEVICE_SENSOR_CHARS_MAX, DEVICE_SENSORS_MAX, SECRET_OVERLAP_SEC_DEFAULT,
    SECRET_OVERLAP_SEC_MAX, STOREY_HEIGHT_M_MAX, STOREY_HEIGHT_M_MIN, TEXT_CHARS_MAX,
    URL_CHARS_MAX,
};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Address;
use serde_json::{Value, json};

use super::super::operation::schema;
use super::{number, object, or_null, text, whole, words};

/// Where a delivery of a webhook can stand.
const DELIVERY_STATUSES: [&str; 6] = [
    "pending",
    "retrying",
    "delivered",
    "failed",
    "superseded",
    "cancelled",
];

pub(super) fn all() -> Value {
    json!({
        "SessionId": id(SessionId::PREFIX, "A session."),
        "OrganizationId": id(OrganizationId::PREFIX, "A customer; the same in both environments."),
        "WebhookId": id(EndpointId::PREFIX, "A webhook configuration."),
        "DeliveryId": id(MessageId::PREFIX, "A webhook delivery: the same on every attempt."),
        "SessionType": words(["delivery", "pickup", "return"], "What is done at the address."),
        "WebhookEvent": words(MessageEvent::ALL.iter().map(|event| event.as_str()), "What a webhook tells."),
        "DeliveryStatus": words(DELIVERY_STATUSES, "Where a delivery stands."),
        "Point": object("A place, WGS 84 degrees.", &["lat", "lng"], json!({
            "lat": number(-90.0, 90.0, "Latitude."),
            "lng": number(-180.0, 180.0, "Longitude."),
        })),
        "AddressInput": address(),
        "Device": device(),
        "Start": start(),
        "Stop": object("Ends a session.", &["sessionId"], json!({
            "sessionId": schema("SessionId"),
            "endedAt": moment("When it ended; not before the start, at most 5 minutes ahead. Absent: now."),
            "pod": or_null(schema("Pod")),
        })),
        "Pod": pod(),
        "WebhookRegistration": object("A configuration to be made.", &["url"], json!({ "url": webhook_url() })),
        "WebhookChange": object("What is to be changed.", &[], json!({
            "url": or_null(webhook_url()),
            "enabled": { "type": ["boolean", "null"], "description": "Off: nothing new is queued, and what waits pauses." },
        })),
        "Rotation": rotation(),
        "TestOrder": object("Which event to try.", &[], json!({
            "event": or_null(schema("WebhookEvent")),
        })),
        "RetryOrder": object("Which deliveries to try again, now.", &[], json!({
            "status": or_null(schema("DeliveryStatus")),
            "event": or_null(schema("WebhookEvent")),
            "from": moment("From when, inclusive."),
            "to": moment("Until when, exclusive."),
            "dryRun": { "type": ["boolean", "null"], "description": "Only counts." },
        })),
    })
}

fn id(prefix: &str, description: &str) -> Value {
    json!({
        "type": "string",
        "pattern": format!("^{prefix}[0-7][0-9a-hjkmnp-tv-z]{{25}}$"),
        "description": description,
    })
}

/// A time that a request gives, and may leave out.
fn moment(description: &str) -> Value {
    json!({ "type": ["string", "null"], "format": "date-time", "description": description })
}

fn rotation() -> Value {
    let mut seconds = whole(
        0,
        i64::from(SECRET_OVERLAP_SEC_MAX),
        "How long the secret before goes on signing.",
    );
    seconds["default"] = SECRET_OVERLAP_SEC_DEFAULT.into();
    object(
        "How to change the secret.",
        &[],
        json!({ "overlapSec": or_null(seconds) }),
    )
}

fn webhook_url() -> Value {
    json!({
        "type": "string", "format": "uri", "pattern": "^https://", "maxLength": URL_CHARS_MAX,
        "description": "Where to: https, no user info, no fragment, a host all of whose addresses are public.",
    })
}

fn pod() -> Value {
    object(
        "Proof of delivery.",
        &["type", "url"],
        json!({
            "type": words(["photo", "signature", "note"], "What it is."),
            "url": {
                "type": "string", "format": "uri", "pattern": "^https://[^/\\s\\\\][^\\s\\\\]*$", "maxLength": URL_CHARS_MAX,
                "description": "Where it lies.",
            },
        }),
    )
}

fn address() -> Value {
    let line = |description: &str| text(0, TEXT_CHARS_MAX, description);
    let mut accuracy = number(
        0.0,
        ADDRESS_ACCURACY_M_MAX,
        "How exact `lat` and `lng` are, metres (68 % radius).",
    );
    accuracy["default"] = json!(Address::ACCURACY_M_DEFAULT);
    let storey = number(
        STOREY_HEIGHT_M_MIN,
        STOREY_HEIGHT_M_MAX,
        "Height of a storey, metres.",
    );
    let floor = whole(
        ADDRESS_FLOOR_MIN.into(),
        ADDRESS_FLOOR_MAX.into(),
        "The door's floor; ground is 0.",
    );
    object(
        "Where the parcel goes. What is optional serves scoring and is not answered.",
        &["line1", "city", "country", "lat", "lng"],
        json!({
            "line1": line("Street and number."),
            "city": line("City."),
            "country": line("Country, as you write it."),
            "lat": number(-90.0, 90.0, "Latitude of the door, WGS 84 degrees."),
            "lng": number(-180.0, 180.0, "Longitude of the door, WGS 84 degrees."),
            "unit": or_null(line("Flat or suite.")),
            "floor": or_null(floor),
            "accuracyM": or_null(accuracy),
            "storeyHeightM": or_null(storey),
            "entrance": or_null(schema("Point")),
            "gates": {
                "type": ["array", "null"], "items": schema("Point"), "maxItems": ADDRESS_GATES_MAX,
                "description": "Gates on the way.",
            },
        }),
    )
}

fn device() -> Value {
    let line = |description: &str| or_null(text(0, TEXT_CHARS_MAX, description));
    object(
        "What the phone says of itself.",
        &[],
        json!({
            "platform": line("`ios`, `android`, or whatever the app says."),
            "model": line("Model."),
            "osVersion": line("Version of the operating system."),
            "sdkVersion": line("Version of the SDK."),
            "sensors": {
                "type": ["array", "null"], "maxItems": DEVICE_SENSORS_MAX,
                "items": text(0, DEVICE_SENSOR_CHARS_MAX, "A kind of sample that the phone can send."),
                "description": "Kinds of sample that the phone can send.",
            },
        }),
    )
}

fn start() -> Value {
    let id = |description: &str| text(1, TEXT_CHARS_MAX, description);
    object(
        "Starts a session.",
        &["deliveryId", "externalRiderId", "address"],
        json!({
            "deliveryId": id("Your id of the parcel's delivery."),
            "externalRiderId": id("Your id of the courier."),
            "address": schema("AddressInput"),
            "sessionType": or_null(schema("SessionType")),
            "startedAt": moment("When the phone began, `t` = 0; at most 24 hours back and 5 minutes ahead. Absent: now."),
            "device": or_null(schema("Device")),
        }),
    )
}
