//! A batch and its samples (contract sections 3 and 9).

use porchlight_schema::limits::{
    BATCH_SAMPLES_MAX, BATCH_SEQ_MAX, IMU_VALUES_MAX, MARK_NAME_CHARS_MAX, SAMPLE_T_MS_MAX,
};
use porchlight_schema::sample::{ActivityType, Kind, Provider, SystemName};
use serde_json::{Map, Value, json};

use super::super::operation::schema;
use super::{number, object, or_null, text, whole, words};

/// Acceleration, m/s².
const ACCEL_MPS2_MAX: f64 = 400.0;
/// Turn rate, rad/s.
const TURN_RADPS_MAX: f64 = 100.0;
/// Magnetic field, µT.
const FIELD_UT_MAX: f64 = 10_000.0;

/// The name of a kind's schema.
fn name_of(kind: Kind) -> String {
    let word = kind.as_str();
    format!("{}{}Sample", word[..1].to_uppercase(), &word[1..])
}

pub(super) fn all() -> Value {
    let mut schemas = Map::new();
    for kind in Kind::ALL {
        schemas.insert(name_of(kind), sample(kind));
    }
    let known: Vec<_> = Kind::ALL.map(|kind| schema(&name_of(kind))).into();
    let mut any = known;
    any.push(schema("OtherSample"));
    schemas.insert(
        "Sample".into(),
        json!({
            "oneOf": any,
            "description": "One thing that a phone measured or noticed. Samples of one kind come in time order; kinds may lag \
                each other by up to 12 s. What goes back in time within its kind, or lags by more, is dropped and counted.",
        }),
    );
    schemas.insert("OtherSample".into(), other());
    schemas.insert("Batch".into(), batch());
    schemas.insert("SessionBatch".into(), session_batch());
    schemas.into()
}

/// Of a kind that is not known: skipped and counted.
fn other() -> Value {
    let known: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    object(
        "A kind that this version does not know. It is skipped and counted, not refused.",
        &["kind"],
        json!({
            "kind": { "type": "string", "not": { "enum": known }, "description": "The kind." },
        }),
    )
}

fn time() -> Value {
    let t_max_sec = f64::from(SAMPLE_T_MS_MAX) / 1000.0;
    number(
        0.0,
        t_max_sec,
        "Seconds since the session's start, by the phone's monotonic clock.",
    )
}

fn batch() -> Value {
    object(
        "Some seconds of a session. `seq` numbers a session's batches from 0 without holes; a batch sent again is acknowledged \
         again and changes nothing.",
        &["seq", "samples"],
        json!({
            "seq": whole(0, i64::from(BATCH_SEQ_MAX), "The batch's number within the session."),
            "samples": {
                "type": "array", "maxItems": BATCH_SAMPLES_MAX, "items": schema("Sample"),
                "description": "What was measured; none is a sign of life.",
            },
        }),
    )
}

fn session_batch() -> Value {
    json!({
        "description": "A line of NDJSON: a batch and the session that it belongs to.",
        "allOf": [schema("Batch")],
        "type": "object",
        "required": ["sessionId"],
        "properties": { "sessionId": schema("SessionId") },
    })
}

/// The schema of one kind.
fn sample(kind: Kind) -> Value {
    let (description, required, properties) = match kind {
        Kind::Location => location(),
        Kind::Pressure => (
            "Air pressure; 1 to 5 Hz.",
            vec!["hPa"],
            json!({ "hPa": number(300.0, 1_150.0, "Pressure, hPa.") }),
        ),
        Kind::Steps => (
            "The phone's running step count, on change or once a second. Only its increases matter; a fall is a restart.",
            vec!["count"],
            json!({ "count": whole(0, 100_000_000, "Steps so far.") }),
        ),
        Kind::Imu => imu(),
        Kind::Motion => motion(),
        Kind::Magnetic => {
            let axis = |name: &str| number(-FIELD_UT_MAX, FIELD_UT_MAX, name);
            (
                "Magnetic field, at most 5 Hz.",
                vec!["x", "y", "z"],
                json!({ "x": axis("µT."), "y": axis("µT."), "z": axis("µT.") }),
            )
        }
        Kind::Activity => (
            "The phone's own recogniser; a hint, never needed.",
            vec!["type", "confidence"],
            json!({
                "type": words(ActivityType::ALL.iter().map(|one| one.as_str()), "What it says."),
                "confidence": number(0.0, 1.0, "How sure it is."),
            }),
        ),
        Kind::Mark => (
            "Something the courier or the app did: `arrived`, `pod_captured`, `handed_over`, `left_at_door`, or the app's own.",
            vec!["name"],
            json!({ "name": text(1, MARK_NAME_CHARS_MAX, "What was done.") }),
        ),
        Kind::System => (
            "Something that happened to the phone.",
            vec!["name"],
            json!({ "name": words(SystemName::ALL.iter().map(|one| one.as_str()), "What happened.") }),
        ),
    };
    let mut names = vec!["t", "kind"];
    names.extend(required);
    let mut schema = object(description, &names, properties);
    schema["properties"]["t"] = time();
    schema["properties"]["kind"] = json!({ "const": kind.as_str() });
    schema
}

type Parts = (&'static str, Vec<&'static str>, Value);

fn location() -> Parts {
    // A negative value is what phones send for "none" in these three, and means absent.
    let up_to = |max: f64, description: &str| {
        or_null(json!({ "type": "number", "maximum": max, "description": description }))
    };
    let properties = json!({
        "lat": number(-90.0, 90.0, "Latitude, WGS 84 degrees."),
        "lng": number(-180.0, 180.0, "Longitude, WGS 84 degrees."),
        "accuracyM": up_to(100_000.0, "68 % radius, metres; absent or negative: unknown, taken as 20."),
        "altitudeM": or_null(number(-1_000.0, 20_000.0, "Height above the ellipsoid, metres.")),
        "speedMps": up_to(400.0, "Speed, m/s; negative: unknown."),
        "bearingDeg": up_to(360.0, "Direction of movement, degrees from north, clockwise; negative: unknown."),
        "mock": { "type": ["boolean", "null"], "description": "Whether the platform says that the fix is simulated." },
        "provider": or_null(words(Provider::ALL.iter().map(|one| one.as_str()), "Where the fix came from.")),
    });
    (
        "A position fix; usually 1 Hz.",
        vec!["lat", "lng"],
        properties,
    )
}

fn imu() -> Parts {
    let array = |max: f64, unit: &str| {
        json!({
            "type": "array", "minItems": 1, "maxItems": IMU_VALUES_MAX, "description": unit,
            "items": { "type": "number", "minimum": -max, "maximum": max },
        })
    };
    let accel = || array(ACCEL_MPS2_MAX, "Acceleration, gravity included, m/s².");
    let gyro = || or_null(array(TURN_RADPS_MAX, "Turn rate, rad/s."));
    let properties = json!({
        "hz": number(1.0, 400.0, "Values a second."),
        "ax": accel(), "ay": accel(), "az": accel(),
        "gx": gyro(), "gy": gyro(), "gz": gyro(),
    });
    (
        "Raw acceleration and turn rate, in windows of 1 s at 20 to 100 Hz. `t` is the first value's. All arrays are of the same \
         length, at most 10 s long at this `hz`; a turn rate is of use on all three axes only.",
        vec!["hz", "ax", "ay", "az"],
        properties,
    )
}

fn motion() -> Parts {
    let properties = json!({
        "accelMean": number(0.0, ACCEL_MPS2_MAX, "Mean of the acceleration's norm, m/s²."),
        "accelStd": number(0.0, ACCEL_MPS2_MAX, "Its standard deviation, m/s²."),
        "verticalMean": or_null(number(-ACCEL_MPS2_MAX, ACCEL_MPS2_MAX, "Mean acceleration along gravity, m/s².")),
        "cadenceHz": or_null(number(0.0, 10.0, "Steps a second.")),
        "yawRad": or_null(number(-TURN_RADPS_MAX, TURN_RADPS_MAX, "Turn about the vertical, rad.")),
    });
    (
        "What a phone sends in place of `imu` to save bandwidth, for the second that begins at `t`.",
        vec!["accelMean", "accelStd"],
        properties,
    )
}
