//! The page behind a recorder's link: the app to install, its setup, and the received data.

use actix_web::HttpResponse;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, html};
use porchlight_actors::service::Recorder;
use porchlight_schema::sample::Kind;
use serde_json::json;

use super::{link, push};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::request_context::RequestContext;

/// The page styles itself, and takes nothing from anywhere.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
const REFERRER_POLICY: (HeaderName, HeaderValue) = (
    HeaderName::from_static("referrer-policy"),
    HeaderValue::from_static("no-referrer"),
);
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:0 auto;padding:1rem;color-scheme:light dark}\
    h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}code{overflow-wrap:anywhere;user-select:all}\
    a.button{display:inline-block;padding:.6rem 1rem;border:1px solid;border-radius:.5rem;text-decoration:none;margin:.25rem .5rem .25rem 0}\
    .status{padding:.75rem 1rem;border:1px solid;border-radius:.5rem}";
/// The parameters of GPSLogger's custom URL.
const GPSLOGGER_QUERY: &str = "lat=%LAT&lon=%LON&timestamp=%TIMESTAMP&spd=%SPD&alt=%ALT&acc=%ACC&dir=%DIR&prov=%PROV&desc=%DESC";

/// The page. 401 when the recorder has expired or was removed.
pub(super) async fn page(call: RequestContext) -> Result<HttpResponse, Problem> {
    let id = push::recorder_of(&call).await?;
    let now = call.state.service.now();
    let recorder = call.state.service.recorder(id).await?;
    let recorder = recorder.filter(|recorder| now < recorder.order.expires_at);
    let recorder = recorder.ok_or_else(|| {
        Problem::new(
            Code::CredentialInvalid,
            "This recording link has expired or was removed.",
        )
    })?;
    let body = render(
        &link(&call, id),
        &recorder,
        &status(&call, &recorder).await?,
    );
    Ok(HttpResponse::Ok()
        .insert_header((
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .insert_header(REFERRER_POLICY)
        .body(body.into_string()))
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Location => "position",
        Kind::Pressure => "pressure",
        Kind::Steps => "steps",
        Kind::Imu | Kind::Motion => "motion",
        Kind::Magnetic => "magnetic field",
        Kind::Activity => "activity",
        Kind::Mark => "marks",
        Kind::System => "phone state",
    }
}

/// Describes the currently received data in a sentence.
async fn status(call: &RequestContext, recorder: &Recorder) -> Result<String, Problem> {
    let service = &call.state.service;
    let newest = recorder.state.newest();
    let session = match newest.and_then(|newest| newest.session_id) {
        Some(session_id) => service.find_shown(session_id).await?,
        None => None,
    };
    if session.is_some_and(|session| session.end.is_some()) {
        return Ok("The delivery is recorded. The next position begins a new one.".to_owned());
    }
    let lately = super::receiving(recorder, service.now());
    if lately.is_empty() {
        return Ok(match recorder.state.last_heard_at {
            Some(_) => "Nothing received in the last minute.".to_owned(),
            None => "Nothing received yet.".to_owned(),
        });
    }
    let rates = recorder.state.rates_hz().into_iter();
    let rates: Vec<String> = rates
        .map(|(kind, hz)| match kind {
            Kind::Mark | Kind::Activity | Kind::Steps => kind_name(kind).to_owned(),
            _ => format!("{} {hz:.1} Hz", kind_name(kind)),
        })
        .collect();
    Ok(format!("Receiving: {}.", rates.join(", ")))
}

fn owntracks_link(url: &str) -> String {
    let configuration = json!({
        "_type": "configuration", "mode": 3, "url": format!("{url}/owntracks"), "auth": false,
        "monitoring": 2, "extendedData": true,
    });
    let inline = STANDARD.encode(configuration.to_string());
    format!("owntracks:///config?inline={}", encoded(&inline))
}

fn overland_link(url: &str) -> String {
    let url = encoded(&format!("{url}/overland"));
    format!("overland://setup?url={url}&token=none&device_id=porchlight")
}

/// Percent-encodes everything but letters, digits and the unreserved marks (RFC 3986, section 2.3).
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

fn render(url: &str, recorder: &Recorder, status: &str) -> Markup {
    let address = &recorder.order.address;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                meta http-equiv="refresh" content="10";
                title { "Record a delivery" }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                h1 { "Record a delivery" }
                p { "To " (address.line1) ", " (address.city) ". This link works until " (recorder.order.expires_at) "." }
                p.status role="status" { (status) }
                h2 { "Sensor Logger (iPhone, Android): recommended" }
                p { "It records everything that is needed: position, air pressure, steps and motion." }
                ol {
                    li { "Install " b { "Sensor Logger" } " from the app store. Switch on Location, Barometer, Pedometer, Accelerometer, Gravity, Gyroscope and Annotation." }
                    li { "Under HTTP Push, paste this push URL: " br; code { (url) "/sensor-logger" } }
                    li { "Start recording, deliver, and end with the annotation " b { "delivered" } "." }
                }
                a.button href="sensorlogger://start" { "Start recording" }
                a.button href="sensorlogger://annotate/delivered" { "Delivered" }
                h2 { "OwnTracks (iPhone, Android)" }
                a.button href=(owntracks_link(url)) { "Set up OwnTracks" }
                p { "Position; on an iPhone also air pressure. Ends with the point of interest “delivered”." }
                h2 { "Overland (iPhone)" }
                a.button href=(overland_link(url)) { "Set up Overland" }
                p { "Position and kind of motion. Ends when you stop the trip." }
                h2 { "Traccar Client (iPhone, Android)" }
                p { "Position only. Server URL: " br; code { (url) "/traccar" } }
                h2 { "GPSLogger (Android)" }
                p { "Position only. Custom URL: " br; code { (url) "/gpslogger?" (GPSLOGGER_QUERY) } }
            }
        }
    }
}
