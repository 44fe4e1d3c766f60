//! The page behind a recorder's link: live status, the recorder in the browser, and the apps with
//! their setup.

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpResponse, ResponseError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, html};
use porchlight_actors::service::Recorder;
use porchlight_observe::http::Route;
use serde_json::json;

use super::assets::{SCRIPT, STYLE, path};
use super::status::recorder_of;
use porchlight_http::middleware::Report;
use porchlight_http::observe::on_problem;
use porchlight_http::problem::Problem;
use porchlight_http::query::percent_encode;
use porchlight_http::recorder::{self, ShownRecorder};
use porchlight_http::request_context::{RequestContext, prefers_html};
use porchlight_http::request_id::{REQUEST_ID, RequestId};

/// Allows only the page's own files, and requests to its own origin.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
/// The sensors that the page may use.
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "geolocation=(self), accelerometer=(self), gyroscope=(self), screen-wake-lock=(self), camera=(), microphone=()",
);
/// The parameters of GPSLogger's custom URL.
const GPSLOGGER_QUERY: &str = "lat=%LAT&lon=%LON&timestamp=%TIMESTAMP&spd=%SPD&alt=%ALT&acc=%ACC&dir=%DIR&prov=%PROV&desc=%DESC";

/// Returns the page. A browser that asks for it gets errors as a page too: 401 when the recorder
/// has expired or was removed.
pub(super) async fn page(call: RequestContext) -> Result<HttpResponse, Problem> {
    match recorder_page(&call).await {
        Err(problem) if prefers_html(call.headers()) => Ok(error_page(&call, &problem)),
        answer => answer,
    }
}

async fn recorder_page(call: &RequestContext) -> Result<HttpResponse, Problem> {
    let recorder = recorder_of(call).await?;
    let shown = ShownRecorder::of(&call.state, &recorder).await?;
    let body = render(
        &recorder::link(&call.state, recorder.id)?,
        &recorder,
        &shown.sentence(),
    );
    Ok(with_body(HttpResponse::Ok().finish(), body))
}

/// Returns the answer with a page as its body, and with the headers of every page.
fn with_body(mut response: HttpResponse, body: Markup) -> HttpResponse {
    let headers = response.headers_mut();
    for (name, value) in [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    ] {
        headers.insert(name, value);
    }
    response.set_body(BoxBody::new(body.into_string()))
}

/// Returns the page that tells a courier about an error.
fn error_page(call: &RequestContext, problem: &Problem) -> HttpResponse {
    let request_id = RequestId::of(call.headers());
    on_problem(problem, &request_id, Route::RecorderPage.as_str());
    let body = render_error(problem.code().status(), &request_id);
    let mut response = with_body(problem.error_response(), body);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, request_id.header());
    // This answer is for a person, so the middleware must not replace it with a problem.
    response.extensions_mut().insert(Report);
    response
}

fn owntracks_link(url: &str) -> String {
    let configuration = json!({
        "_type": "configuration", "mode": 3, "url": format!("{url}/owntracks"), "auth": false,
        "monitoring": 2, "extendedData": true,
    });
    let inline = STANDARD.encode(configuration.to_string());
    format!("owntracks:///config?inline={}", percent_encode(&inline))
}

fn overland_link(url: &str) -> String {
    let url = percent_encode(&format!("{url}/overland"));
    format!("overland://setup?url={url}&token=none&device_id=porchlight")
}

fn render(url: &str, recorder: &Recorder, status: &str) -> Markup {
    let head = html! {
        noscript { meta http-equiv="refresh" content="10"; }
        script type="module" src=(path(&SCRIPT)) {}
    };
    let main = html! {
        (header(recorder))
        p.status #status role="status" { (status) }
        section.card #insight hidden aria-labelledby="insight-title" {
            h2 #insight-title { "What Porchlight found" }
            dl #facts {}
            ol #events aria-label="Events" {}
        }
        (browser_recorder())
        h2 { "Or record with an app" }
        (apps(url))
    };
    document("Record a delivery", head, main)
}

/// Renders the message of an error: its meaning and the next step, in plain words.
fn render_error(status: StatusCode, request_id: &RequestId) -> Markup {
    let (title, text) = match status {
        StatusCode::UNAUTHORIZED => (
            "This link does not work",
            "The recording link has expired, was removed, or is incomplete. Ask for a new one.",
        ),
        StatusCode::TOO_MANY_REQUESTS => (
            "Too many requests",
            "This link was opened too often in a short time. Wait a minute, and load the page again.",
        ),
        _ => (
            "Porchlight cannot answer",
            "Wait a moment, and load the page again. Everything recorded on this phone is kept.",
        ),
    };
    let main = html! {
        h1 { (title) }
        p.status role="alert" { (text) }
        p.faint { "For support: " code { (request_id.as_str()) } }
    };
    document(title, html! {}, main)
}

fn document(title: &str, head: Markup, main: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · Porchlight" }
                link rel="stylesheet" href=(path(&STYLE));
                link rel="icon" href="data:,";
                (head)
            }
            body { main { (main) } }
        }
    }
}

fn header(recorder: &Recorder) -> Markup {
    let address = &recorder.order.address;
    let lines = [address.line1.as_str(), address.city.as_str()];
    let place: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let expires = recorder.order.expires_at.to_string();
    html! {
        h1 { "Record a delivery" }
        p {
            @if !place.is_empty() { "To " b { (place.join(", ")) } ". " }
            "This link works until " time datetime=(expires) { (expires) } "."
        }
    }
}

/// Renders the recorder that runs in the page. The script shows its buttons.
fn browser_recorder() -> Markup {
    html! {
        section.card #recorder aria-labelledby="recorder-title" {
            h2 #recorder-title { "Record in this browser" }
            p #advice { "Recording in the browser needs JavaScript." }
            div.buttons {
                button #start hidden { "Start recording" }
                button.good #delivered hidden { "Delivered" }
                button.quiet #stop hidden { "Stop without delivering" }
            }
            p.notice #notice role="alert" hidden {}
            dl #counts hidden {
                dt { "Positions recorded" } dd #recorded { "0" }
                dt { "Positions stored by Porchlight" } dd #acknowledged { "0" }
                dt { "Messages waiting on this phone" } dd #waiting { "0" }
            }
            p.faint {
                "A browser has no air pressure and no step counter, so no floors are counted. It records only while this page is \
                 open and the screen is on. Without a network it keeps recording and sends later. An app records everything."
            }
        }
    }
}

fn push_url(url: &str) -> Markup {
    html! {
        div.copy {
            code tabindex="0" { (url) }
            button.quiet type="button" data-copy="" hidden { "Copy" }
        }
    }
}

fn apps(url: &str) -> Markup {
    html! {
        details.card open {
            summary { b { "Sensor Logger" } " (iPhone, Android): recommended" }
            p { "Records everything that Porchlight uses: position, air pressure, steps and motion." }
            ol {
                li { "Install " b { "Sensor Logger" } " from the app store. Switch on Location, Barometer, Pedometer, Accelerometer, Gravity, Gyroscope and Annotation." }
                li { "In its settings, switch on HTTP Push and paste this push URL:" (push_url(&format!("{url}/sensor-logger"))) }
                li { "Start recording, deliver, and tap Delivered." }
            }
            p.buttons {
                a.button href="sensorlogger://start" { "Start in Sensor Logger" }
                a.button href="sensorlogger://annotate/delivered" { "Delivered in Sensor Logger" }
            }
        }
        details.card {
            summary { b { "OwnTracks" } " (iPhone, Android)" }
            p { "Records the position; on an iPhone also air pressure, steps and activity. Ends with the point of interest “delivered”." }
            p.buttons { a.button href=(owntracks_link(url)) { "Set up OwnTracks" } }
        }
        details.card {
            summary { b { "Overland" } " (iPhone)" }
            p { "Records the position and the kind of motion. Start a trip; the delivery ends when you stop it." }
            p.buttons { a.button href=(overland_link(url)) { "Set up Overland" } }
        }
        details.card {
            summary { b { "Traccar Client" } " (iPhone, Android)" }
            p { "Records the position. The delivery ends when no more data arrives. Server URL:" }
            (push_url(&format!("{url}/traccar")))
        }
        details.card {
            summary { b { "GPSLogger" } " (Android)" }
            p { "Records the position. Ends with the annotation “delivered”. Custom URL:" }
            (push_url(&format!("{url}/gpslogger?{GPSLOGGER_QUERY}")))
        }
    }
}
