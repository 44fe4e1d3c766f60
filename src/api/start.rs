//! `POST /v1/sessions/start`.

use actix_web::HttpResponse;
use actix_web::http::header::{HeaderMap, HeaderName};
use porchlight_actors::service::{StartCommand, StartError};
use porchlight_http::body::{self, Limits};
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::{Code, Fault, Problem, restricted, share_exceeded};
use porchlight_http::request_context::{self, RequestContext};
use porchlight_http::waking::yield_to_payload;
use porchlight_ports::Idempotency;
use porchlight_schema::limits::{
    ADDRESS_ACCURACY_M_MAX, ADDRESS_FLOOR_MAX, ADDRESS_FLOOR_MIN, ADDRESS_GATES_MAX,
    CLOCK_AHEAD_MS_MAX, DEVICE_SENSOR_CHARS_MAX, DEVICE_SENSORS_MAX, IDEMPOTENCY_KEY_CHARS_MAX,
    STARTED_AT_BACK_MS_MAX, STOREY_HEIGHT_M_MAX, STOREY_HEIGHT_M_MIN, TEXT_CHARS_MAX,
};
use porchlight_schema::session::{Address, Device, SessionStart, SessionType, SessionView, Tenant};
use porchlight_schema::time::HOUR_MS;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::telemetry::not_admitted;

/// The header that makes retries safe.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The length of a required text, in characters.
const TEXT: std::ops::RangeInclusive<usize> = 1..=TEXT_CHARS_MAX;
/// The length of a text that may be empty, in characters.
const FREE_TEXT: std::ops::RangeInclusive<usize> = 0..=TEXT_CHARS_MAX;

/// The session, and the token with which a phone uses it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Started<'a> {
    #[serde(flatten)]
    session: SessionView<'a>,
    session_token: String,
}

/// Starts a session. 201: Session plus `sessionToken`; repeating it with the same `Idempotency-Key`
/// returns the same answer.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn start(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.caller().await?.require_key()?;
    call.check_accept_json()?;
    let announced = body::json(call.headers(), Limits::REQUEST)?;
    let usage = call.state.service.usage(tenant);
    let permit = match call.state.service.admit_start(&usage) {
        Ok(permit) => permit,
        Err(error) => {
            yield_to_payload().await;
            return Err(not_admitted(error));
        }
    };
    let body = call.read(announced).await?;
    let value = fields::parse(&body)?;
    call.reject_parameters()?;
    let key = idempotency_key(call.headers())?;
    let mut command = command(tenant, &value)?;
    command.idempotency = key.map(|key| Idempotency {
        key,
        body_hash: Sha256::digest(&body).into(),
    });
    let start = call.state.service.start(command).await.map_err(refused)?;
    drop(permit);
    answer(&start, call.state.auth.token(start.session_id))
}

fn answer(start: &SessionStart, session_token: String) -> Result<HttpResponse, Problem> {
    request_context::json(
        HttpResponse::Created(),
        &Started {
            session: SessionView::answer(start, None),
            session_token,
        },
    )
}

fn refused(error: StartError) -> Problem {
    match error {
        StartError::StartedAtOutOfRange => {
            let (back_h, ahead_min) = (
                STARTED_AT_BACK_MS_MAX / HOUR_MS,
                CLOCK_AHEAD_MS_MAX / 60_000,
            );
            Problem::invalid_field(
                "/startedAt",
                format!(
                    "must be at most {back_h} hours in the past and at most {ahead_min} minutes in the future"
                ),
            )
        }
        StartError::KeyReused => Problem::new(
            Code::IdempotencyKeyReused,
            "This Idempotency-Key was used with another body.",
        ),
        StartError::Suppressed => Problem::new(
            Code::Suppressed,
            "A privacy request forbids this courier to start sessions.",
        ),
        StartError::Restricted => restricted(),
        StartError::TenantFull(exceeded) => share_exceeded(exceeded),
        StartError::Draining => Problem::new(Code::Draining, "The service is stopping."),
        StartError::Store(error) => error.into(),
    }
}

/// Returns the `Idempotency-Key`, if present.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let printable = value
        .to_str()
        .ok()
        .filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
    match (printable, values.next()) {
        (Some(text), None) if (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len()) => {
            Ok(Some(text.to_owned()))
        }
        _ => {
            let detail = format!(
                "must be given once, with 1 to {IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII characters"
            );
            Err(Problem::invalid_parameters(vec![Fault::Parameter {
                parameter: "Idempotency-Key".into(),
                detail,
            }]))
        }
    }
}

fn command(tenant: Tenant, body: &Value) -> Result<StartCommand, Problem> {
    let root = Fields::root(body)?;
    let mut faults = Faults::default();
    let delivery_id = root.text("deliveryId", TEXT, &mut faults);
    let delivery_id = root.need("deliveryId", delivery_id, &mut faults);
    let external_rider_id = root.text("externalRiderId", TEXT, &mut faults);
    let external_rider_id = root.need("externalRiderId", external_rider_id, &mut faults);
    let types = [
        ("delivery", SessionType::Delivery),
        ("pickup", SessionType::Pickup),
        ("return", SessionType::Return),
    ];
    let session_type = root
        .closed("sessionType", &types, &mut faults)
        .unwrap_or_default();
    let fields = root.object("address", &mut faults);
    let address = root
        .need("address", fields, &mut faults)
        .and_then(|fields| address(&fields, &mut faults));
    let device = root
        .object("device", &mut faults)
        .map(|fields| device(&fields, &mut faults));
    let started_at = root.time("startedAt", &mut faults);
    let command = || {
        Some(StartCommand {
            tenant,
            delivery_id: delivery_id?.to_owned(),
            external_rider_id: external_rider_id?.to_owned(),
            session_type,
            address: address?,
            device,
            started_at,
            started_at_back_ms_max: STARTED_AT_BACK_MS_MAX,
            idempotency: None,
        })
    };
    faults.into_result(command())
}

/// The fields of an address.
pub(super) const ADDRESS_FIELDS: [&str; 11] = [
    "line1",
    "city",
    "country",
    "lat",
    "lng",
    "unit",
    "floor",
    "accuracyM",
    "storeyHeightM",
    "entrance",
    "gates",
];

/// Reads an address.
pub(super) fn address(fields: &Fields<'_>, faults: &mut Faults) -> Option<Address> {
    // Lines may be empty: not every place has a street, and the position locates the door.
    let mut line = |name: &'static str| {
        let text = fields.text(name, FREE_TEXT, faults);
        fields.need(name, text, faults).map(str::to_owned)
    };
    let (line1, city, country) = (line("line1"), line("city"), line("country"));
    let point = fields.lat_lng(faults);
    let unit = fields.text("unit", FREE_TEXT, faults).map(str::to_owned);
    let floor = fields.whole("floor", ADDRESS_FLOOR_MIN..=ADDRESS_FLOOR_MAX, faults);
    let accuracy_m = fields.number("accuracyM", 0.0..=ADDRESS_ACCURACY_M_MAX, faults);
    let storey_height_m = fields.number(
        "storeyHeightM",
        STOREY_HEIGHT_M_MIN..=STOREY_HEIGHT_M_MAX,
        faults,
    );
    let entrance = fields.point("entrance", faults);
    let gates = fields.points("gates", ADDRESS_GATES_MAX, faults);
    Some(Address {
        line1: line1?,
        city: city?,
        country: country?,
        point: point?,
        unit,
        floor,
        accuracy_m: accuracy_m.map_or(Address::ACCURACY_M_DEFAULT, |accuracy_m| accuracy_m as f32),
        storey_height_m: storey_height_m.map(|height_m| height_m as f32),
        entrance,
        gates,
    })
}

fn device(fields: &Fields<'_>, faults: &mut Faults) -> Device {
    let mut text = |name: &'static str| fields.text(name, FREE_TEXT, faults).map(str::to_owned);
    let (platform, model, os_version, sdk_version) = (
        text("platform"),
        text("model"),
        text("osVersion"),
        text("sdkVersion"),
    );
    let mut sensors = Vec::new();
    for (index, value) in fields
        .array("sensors", DEVICE_SENSORS_MAX, faults)
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        match value
            .as_str()
            .filter(|text| text.chars().count() <= DEVICE_SENSOR_CHARS_MAX)
        {
            Some(text) => sensors.push(text.to_owned()),
            None => faults.add(
                format!("{}/{index}", fields.pointer("sensors")),
                format!("must be a string of at most {DEVICE_SENSOR_CHARS_MAX} characters"),
            ),
        }
    }
    Device {
        platform,
        model,
        os_version,
        sdk_version,
        sensors,
    }
}
