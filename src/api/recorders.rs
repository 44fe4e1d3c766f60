//! Recorders (contract section 12): links by which apps on stock phones record deliveries.

mod assets;
mod page;
mod push;
mod status;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, LOCATION};
use actix_web::{HttpResponse, Resource, web};
use porchlight_actors::service::{Recorder, RecorderOrder};
use porchlight_observe::http::Route;
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::key::Permission;
use porchlight_schema::limits::{
    RECORDER_EXPIRES_SEC_DEFAULT, RECORDER_EXPIRES_SEC_MAX, RECORDER_EXPIRES_SEC_MIN,
    TEXT_CHARS_MAX,
};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde_json::{Map, Value};
use std::str::FromStr;

use super::start::address;
use porchlight_http::audit;
use porchlight_http::auth::Caller;
use porchlight_http::body::Limits;
use porchlight_http::fields::{self, Faults, Fields};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::recorder::{self, ShownRecorder};
use porchlight_http::request_context::{self, RequestContext};
use porchlight_http::route::{get, resource};

/// Returns the resources with their routes.
pub(super) fn resources() -> Vec<Resource> {
    let mut resources = vec![
        resource(Route::Recorders, "POST").route(web::post().to(create)),
        resource(Route::Recorder, "DELETE, GET, HEAD")
            .route(get().to(show))
            .route(web::delete().to(remove)),
        resource(Route::RecorderPage, "GET, HEAD").route(get().to(page::page)),
        resource(Route::RecorderStatus, "GET, HEAD").route(get().to(status::status)),
        resource(Route::PhoneAsset, "GET, HEAD").route(get().to(assets::serve)),
    ];
    resources.extend(push::resources());
    resources
}

/// A recorder in a response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecorderView {
    recorder_id: RecorderId,
    /// The link, which is a credential. `None` for a key that may not record deliveries itself.
    #[serde(flatten)]
    link: Option<LinkView>,
    expires_at: TimestampMs,
}

/// The link of a recorder in its three forms.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LinkView {
    url: String,
    qr_svg: String,
    push_urls: Map<String, Value>,
}

/// A recorder as it is answered, with the data that it has received.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRecorderView {
    #[serde(flatten)]
    recorder: RecorderView,
    session_id: Option<SessionId>,
    last_heard_at: Option<TimestampMs>,
    /// The recently received values per second, by kind.
    receiving: Map<String, Value>,
}

/// Creates a recorder. 201 `{recorderId, url, qrSvg, pushUrls, expiresAt}`.
async fn create(mut call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let body = call.body(Limits::REQUEST).await?;
    let value = fields::parse(&body)?;
    call.reject_parameters()?;
    let order = order(tenant, &value, call.state.service.now())?;
    let recorder = call.state.service.create_recorder(order).await?;
    audit::created(&call.http, recorder.id);
    let view = RecorderView {
        recorder_id: recorder.id,
        link: Some(link(&call, &recorder)?),
        expires_at: recorder.order.expires_at,
    };
    let mut response = HttpResponse::Created();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/recorders/{}", recorder.id)) {
        response.insert_header((LOCATION, location));
    }
    request_context::json(response, &view)
}

/// Returns a recorder. 200 `{…, sessionId, lastHeardAt, receiving}`; without the link if the role
/// of the key is not `admin`, because the link itself allows sending telemetry.
async fn show(call: RequestContext) -> Result<HttpResponse, Problem> {
    let caller = call.caller().await?;
    let tenant = caller.require_secret_key()?;
    let recorder = of_path(&call, tenant).await?;
    call.check_accept_json()?;
    call.reject_parameters()?;
    let shown = ShownRecorder::of(&call.state, &recorder).await?;
    let link = match &caller {
        Caller::Key(key) if key.may(Permission::Change) => Some(link(&call, &recorder)?),
        _ => None,
    };
    let shown = ShownRecorderView {
        recorder: RecorderView {
            recorder_id: recorder.id,
            link,
            expires_at: recorder.order.expires_at,
        },
        session_id: shown.session_id,
        last_heard_at: shown.last_heard_at,
        receiving: receiving(&shown),
    };
    request_context::json(HttpResponse::Ok(), &shown)
}

/// Removes a recorder; its sessions stay. 204.
async fn remove(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    let recorder = of_path(&call, tenant).await?;
    call.reject_parameters()?;
    if call.state.service.remove_recorder(recorder.id).await? {
        Ok(HttpResponse::build(StatusCode::NO_CONTENT).finish())
    } else {
        Err(not_found())
    }
}

fn not_found() -> Problem {
    Problem::new(Code::RecorderNotFound, "The recorder does not exist.")
}

/// Returns the recorder in the path, if it is the tenant's.
async fn of_path(call: &RequestContext, tenant: Tenant) -> Result<Recorder, Problem> {
    let id = call.http.match_info().get("id").unwrap_or_default();
    let id = RecorderId::from_str(id).map_err(|_| not_found())?;
    let recorder = call.state.service.recorder(id).await?;
    recorder
        .filter(|recorder| recorder.order.tenant == tenant)
        .ok_or_else(not_found)
}

fn order(tenant: Tenant, body: &Value, now: TimestampMs) -> Result<RecorderOrder, Problem> {
    let root = Fields::root(body)?;
    let mut faults = Faults::default();
    root.only(
        &["externalRiderId", "deliveryId", "address", "expiresInSec"],
        &mut faults,
    );
    let external_rider_id = root.text("externalRiderId", 1..=TEXT_CHARS_MAX, &mut faults);
    let external_rider_id = root.need("externalRiderId", external_rider_id, &mut faults);
    let delivery_id = root.text("deliveryId", 1..=TEXT_CHARS_MAX, &mut faults);
    let fields = root.object("address", &mut faults);
    let address = root
        .need("address", fields, &mut faults)
        .and_then(|fields| {
            fields.only(&super::start::ADDRESS_FIELDS, &mut faults);
            fields.only_positions("entrance", &mut faults);
            fields.only_positions("gates", &mut faults);
            address(&fields, &mut faults)
        });
    let range = RECORDER_EXPIRES_SEC_MIN..=RECORDER_EXPIRES_SEC_MAX;
    let expires_sec = root.whole("expiresInSec", range, &mut faults);
    let expires_sec = expires_sec.unwrap_or(RECORDER_EXPIRES_SEC_DEFAULT);
    let order = || {
        Some(RecorderOrder {
            tenant,
            external_rider_id: external_rider_id?.to_owned(),
            delivery_id: delivery_id.map(str::to_owned),
            address: address?,
            created_at: now,
            expires_at: now.plus_ms(i64::from(expires_sec) * 1_000),
        })
    };
    faults.into_result(order())
}

fn link(call: &RequestContext, recorder: &Recorder) -> Result<LinkView, Problem> {
    let url = recorder::link(&call.state, recorder.id)?;
    let push_urls = recorder::APPS.into_iter().map(|app| {
        let push_url = format!("{url}/{}", app.path_end);
        (app.json_name.to_owned(), push_url.into())
    });
    Ok(LinkView {
        qr_svg: recorder::qr_svg(&url)?,
        push_urls: push_urls.collect(),
        url,
    })
}

/// Returns the recently received values per second by kind, to one decimal.
fn receiving(recorder: &ShownRecorder) -> Map<String, Value> {
    let rates = recorder.rates_hz.iter();
    rates
        .map(|&(kind, hz)| {
            let hz = (hz * 10.0).round() / 10.0;
            (kind.as_str().to_owned(), hz.into())
        })
        .collect()
}
