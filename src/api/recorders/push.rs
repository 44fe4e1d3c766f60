//! Pushes of the apps, each at its own path. The answer, in the form that the app expects, follows
//! once the data is durable.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use actix_web::web::{self, Bytes};
use actix_web::{HttpMessage, HttpResponse, Resource};
use porchlight_actors::service::{Permit, RecordError};
use porchlight_core::recorder::{
    PayloadError, Push, gpslogger, overland, owntracks, sensor_logger, traccar,
};
use porchlight_observe::http::Route;
use porchlight_schema::ids::RecorderId;
use porchlight_schema::limits::{LARGE_BODY_BYTES, PUSH_FORM_BYTES_MAX};

use super::super::telemetry::{BodyAccount, not_admitted};
use porchlight_http::background;
use porchlight_http::body::{self, Account, Limits};
use porchlight_http::middleware::Report;
use porchlight_http::problem::{Code, Fault, Problem, restricted};
use porchlight_http::request_context::RequestContext;
use porchlight_http::route::resource;

/// A status by which Sensor Logger shows the answer's text to its user, once.
const SHOWN_TO_USER: u16 = 499;
/// The text for a phone's user if the recorder no longer exists.
const GONE: &str = "This recording link has expired or was removed. Ask for a new one.";
const FORM: &str = "application/x-www-form-urlencoded";

/// Returns the resources with their routes. A HEAD is refused, because a push records.
pub(super) fn resources() -> [Resource; 5] {
    [
        resource(Route::PushSensorLogger, "POST").route(web::post().to(sensor_logger_push)),
        resource(Route::PushTraccar, "GET, POST")
            .route(web::get().to(traccar_push))
            .route(web::post().to(traccar_push)),
        resource(Route::PushOwntracks, "POST").route(web::post().to(owntracks_push)),
        resource(Route::PushOverland, "POST").route(web::post().to(overland_push)),
        resource(Route::PushGpslogger, "GET, POST")
            .route(web::get().to(gpslogger_push))
            .route(web::post().to(gpslogger_push)),
    ]
}

/// Answers a push of Sensor Logger, which accepts any 200.
async fn sensor_logger_push(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    match take_sensor_logger(&mut call).await {
        Err(problem) if problem.code() == Code::CredentialInvalid => Ok(shown_to_user(GONE)),
        taken => taken.map(|()| answer("{}")),
    }
}

async fn take_sensor_logger(call: &mut RequestContext) -> Result<(), Problem> {
    let id = recorder_of(call).await?;
    let received = read(call, id).await?;
    let push = received.parse(sensor_logger::read).await?;
    take(call, id, push).await
}

fn shown_to_user(sentence: &'static str) -> HttpResponse {
    let status = StatusCode::from_u16(SHOWN_TO_USER).unwrap_or(StatusCode::UNAUTHORIZED);
    let mut response = HttpResponse::build(status)
        .insert_header((
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        ))
        .body(sentence);
    // The app expects this answer, so the middleware must not replace it with a problem.
    response.extensions_mut().insert(Report);
    response
}

/// Answers a push of Traccar Client, which accepts any 2xx.
async fn traccar_push(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let id = recorder_of(&call).await?;
    let received = read(&mut call, id).await?;
    let mut bytes = received.payload.iter();
    let first = bytes.find(|byte| !byte.is_ascii_whitespace());
    let push = if matches!(first, Some(b'{' | b'[')) {
        received.parse(traccar::read_json).await?
    } else {
        let (text, fields) = form(&call, &received.payload)?;
        traccar::read_form(&text, &fields)
    };
    take(&call, id, push).await.map(|()| answer("{}"))
}

/// Answers a push of OwnTracks with the array of messages that it expects.
async fn owntracks_push(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let id = recorder_of(&call).await?;
    let received = read(&mut call, id).await?;
    let push = received.parse(owntracks::read).await?;
    take(&call, id, push).await.map(|()| answer("[]"))
}

/// Answers a push of Overland, which keeps the sent data unless it gets exactly this answer.
async fn overland_push(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let id = recorder_of(&call).await?;
    let received = read(&mut call, id).await?;
    let push = received.parse(overland::read).await?;
    take(&call, id, push)
        .await
        .map(|()| answer(r#"{"result":"ok"}"#))
}

/// Answers a push of GPSLogger, which accepts any 2xx.
async fn gpslogger_push(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let id = recorder_of(&call).await?;
    let received = read(&mut call, id).await?;
    let (text, fields) = form(&call, &received.payload)?;
    take(&call, id, gpslogger::read(&text, &fields))
        .await
        .map(|()| answer("{}"))
}

/// Returns the recorder whose token is in the path.
///
/// # Errors
///
/// Returns 401 if the token is invalid; 429 if the recorder sends too many requests.
pub(super) async fn recorder_of(call: &RequestContext) -> Result<RecorderId, Problem> {
    let token = call.http.match_info().get("token").unwrap_or_default();
    call.state.auth.recorder(token)
}

/// Reads and unpacks the body of a push to this recorder, and counts it for its tenant. Any media
/// type is accepted, because the apps send different ones.
///
/// # Errors
///
/// Returns 401 for a recorder that has expired or was removed, 429 or 503 if the tenant or the node
/// is full, and the errors of reading a body.
async fn read(call: &mut RequestContext, id: RecorderId) -> Result<Received, Problem> {
    let now = call.state.service.now();
    let recorder = call.state.service.recorder(id).await?;
    let recorder = recorder.filter(|recorder| now < recorder.order.expires_at);
    let gone = || Problem::new(Code::CredentialInvalid, GONE);
    let usage = call
        .state
        .service
        .usage(recorder.ok_or_else(gone)?.order.tenant);
    call.count_request(&usage)?;
    let announced = body::announced(call.headers(), Limits::BATCH)?;
    let permit = call.state.service.reserve(&usage, 0);
    let mut permit = permit.map_err(not_admitted)?;
    let (payload, deadlines) = (call.payload.take(), call.state.config.body_deadlines);
    let account = BodyAccount(&mut permit);
    let payload = announced.read(payload, deadlines, account).await?;
    Ok(Received {
        payload: payload.to_bytes(),
        permit,
    })
}

/// An unpacked payload with the permit that counts its bytes.
struct Received {
    payload: Bytes,
    permit: Permit,
}

impl Received {
    /// Parses the payload, and a large one outside of the worker when it has its permit.
    ///
    /// # Errors
    ///
    /// Returns 429 or 503 if no permit of the tenant or of the node was free in time.
    async fn parse(
        mut self,
        parse: fn(&[u8]) -> Result<Push, PayloadError>,
    ) -> Result<Result<Push, PayloadError>, Problem> {
        if self.payload.len() <= LARGE_BODY_BYTES {
            return Ok(parse(&self.payload));
        }
        BodyAccount(&mut self.permit).begin_large().await?;
        let payload = self.payload;
        let work = move || parse(&payload);
        background::run(work).await.map_err(Problem::internal)
    }
}

/// The text of a form, and its fields.
type Form = (Vec<u8>, Vec<(String, String)>);

/// Returns the fields of the query, then those of the body; and their text.
///
/// # Errors
///
/// Returns 413 for a text of more than [`PUSH_FORM_BYTES_MAX`].
fn form(call: &RequestContext, payload: &[u8]) -> Result<Form, Problem> {
    let mut text = call.http.query_string().as_bytes().to_vec();
    let is_form = call.http.content_type().eq_ignore_ascii_case(FORM) || payload.contains(&b'=');
    if is_form && !payload.is_empty() {
        if !text.is_empty() {
            text.push(b'&');
        }
        text.extend_from_slice(payload);
    }
    if text.len() > PUSH_FORM_BYTES_MAX {
        let sentence = format!("A form must not be longer than {PUSH_FORM_BYTES_MAX} bytes.");
        return Err(Problem::new(Code::BodyTooLarge, sentence));
    }
    let fields = web::Query::<Vec<(String, String)>>::from_query(&String::from_utf8_lossy(&text));
    let fields = fields.map(web::Query::into_inner).unwrap_or_default();
    Ok((text, fields))
}

/// Records a push. The push is durable when the call returns.
async fn take(
    call: &RequestContext,
    id: RecorderId,
    push: Result<Push, PayloadError>,
) -> Result<(), Problem> {
    let push = push.map_err(|error| refused(call, error))?;
    match call.state.service.record(id, &push).await {
        Ok(()) => Ok(()),
        Err(RecordError::Gone) => Err(Problem::new(Code::CredentialInvalid, GONE)),
        Err(RecordError::Busy(error)) => Err(not_admitted(error)),
        Err(RecordError::Suppressed) => Err(Problem::new(
            Code::Suppressed,
            "A privacy request forbids this courier to start sessions.",
        )),
        Err(RecordError::Restricted) => Err(restricted()),
        Err(RecordError::Draining) => Err(Problem::new(Code::Draining, "The service is stopping.")),
        Err(RecordError::Store(error)) => Err(error.into()),
    }
}

/// The form of the time of a push.
const TIME_FORM: &str = "must be a time in seconds or milliseconds since 1970, or ISO 8601";

/// Returns the problem of a payload that cannot be read. A missing field, and a time that cannot be
/// used, are named by their place: in the query of a request that has one, and otherwise in the
/// body.
fn refused(call: &RequestContext, error: PayloadError) -> Problem {
    let sentence = format!("The request does not have the format of the app: {error}.");
    let (field, detail) = match error {
        PayloadError::Malformed(_) => return Problem::new(Code::MalformedBody, sentence),
        PayloadError::TooManyValues => return Problem::new(Code::TooManySamples, sentence),
        PayloadError::Missing(field) => (field, format!("{field} is required")),
        PayloadError::InvalidTime(field) => (field, TIME_FORM.to_owned()),
    };
    let fault = if !call.http.query_string().is_empty() {
        Fault::Parameter {
            parameter: field.into(),
            detail,
        }
    } else {
        let pointer = match field {
            "locations" | "timestamp" | "tst" => format!("/{field}"),
            _ => String::new(),
        };
        Fault::Field { pointer, detail }
    };
    Problem::new(Code::InvalidBody, sentence).with_faults(vec![fault])
}

fn answer(body: &'static str) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .body(body)
}
