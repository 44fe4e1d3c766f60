//! Records reads and changes through HTTP in the audit log.
//!
//! A request to an audited route gets a ticket as soon as its caller is known: the action, and room
//! for one line in the log. The middleware writes the line when the handler has succeeded, before
//! the answer leaves. A request that finds no room is refused before any work is done.
//!
//! Recording a delivery (start, telemetry, proof of delivery, stop) is not audited: it shows no
//! data to anyone, and it must not wait for the log.

use std::net::IpAddr;

use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::{HttpMessage, HttpRequest};
use porchlight_actors::audit::AuditPermit;
use porchlight_actors::service::Service;
use porchlight_core::audit::{Action, Actor, ActorKind, Line};
use porchlight_observe::http::Route;
use porchlight_schema::key::KeyRecord;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::client_address::TrustedProxies;
use super::problem::{Code, Problem};

/// The reserved room for the line of one request, kept in its extensions.
struct Ticket {
    permit: AuditPermit,
    actor: Actor,
    action: Action,
}

/// The id of the object that a handler has created, to be included in the line of its request.
#[derive(Debug, Clone)]
struct CreatedObject(String);

/// Returns the action of an API request, or `None` if it is not audited.
#[must_use]
pub fn action_of(route: Route, method: &Method) -> Option<Action> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let read = |action| is_read.then_some(action);
    match route {
        Route::Session => read(Action::ReadSession),
        Route::Sessions => read(Action::ListSessions),
        Route::SessionInsights => read(Action::ReadInsight),
        Route::SessionEvidence => read(Action::ReadEvidence),
        Route::SessionExplanation => read(Action::ReadExplanation),
        Route::SessionEvents => read(Action::ReadEvents),
        Route::PathImage => read(Action::ReadImage),
        Route::SessionReview => Some(Action::WriteReview),
        // The answer to GET says only whether there is a hold.
        Route::SessionHold => match *method {
            Method::PUT => Some(Action::PlaceHold),
            Method::DELETE => Some(Action::ReleaseHold),
            _ => None,
        },
        Route::Retention => (!is_read).then_some(Action::ChooseRetention),
        Route::Recorders => Some(Action::CreateRecorder),
        Route::Recorder if is_read => Some(Action::ReadRecorder),
        Route::Recorder => Some(Action::DeleteRecorder),
        Route::Webhooks => match *method {
            Method::POST => Some(Action::CreateWebhook),
            Method::PUT => Some(Action::UpdateWebhook),
            Method::DELETE => Some(Action::DeleteWebhook),
            _ => None,
        },
        Route::WebhookRotate => Some(Action::RotateSecret),
        Route::WebhookPreviousSecret => Some(Action::EndOverlap),
        Route::WebhookTest => Some(Action::TestWebhook),
        Route::WebhookDelivery => read(Action::ReadDelivery),
        Route::WebhookDeliveryRetry => Some(Action::RetryDelivery),
        Route::WebhookDeliveriesRetry => Some(Action::RetryDeliveries),
        Route::PrivacyRequests | Route::PrivacyRequest if is_read => {
            Some(Action::ReadPrivacyRequest)
        }
        Route::PrivacyRequests => Some(Action::CreatePrivacyRequest),
        Route::PrivacyRequest => Some(Action::CancelPrivacyRequest),
        Route::PrivacyArchive => read(Action::DownloadExport),
        // The rows of this list contain no position and no address.
        Route::WebhookDeliveries => None,
        // Requests of phones and gateways.
        Route::SessionStart
        | Route::SessionStop
        | Route::SessionTelemetry
        | Route::Telemetry
        | Route::SessionPod
        | Route::SessionAcknowledged
        | Route::RecorderPage
        | Route::RecorderStatus
        | Route::PushSensorLogger
        | Route::PushTraccar
        | Route::PushOwntracks
        | Route::PushOverland
        | Route::PushGpslogger => None,
        // The log itself, and documents that are the same for all callers.
        Route::Audit
        | Route::OpenApi
        | Route::Schema
        | Route::Docs
        | Route::PhoneAsset
        | Route::Unknown => None,
        // The console decides for each of its pages.
        Route::Console => None,
    }
}

/// Prepares the line of a request by the holder of a key, if its route is audited.
///
/// # Errors
///
/// Returns 503 if the log accepts no line at the moment.
pub async fn begin_with_key(
    http: &HttpRequest,
    service: &Service,
    key: &KeyRecord,
) -> Result<(), Problem> {
    let route = http.app_data::<Route>().copied();
    let action = route.and_then(|route| action_of(route, http.method()));
    match action {
        Some(action) => begin(http, service, key.tenant, actor(key), action).await,
        None => Ok(()),
    }
}

/// Returns the actor that holds this key.
#[must_use]
pub fn actor(key: &KeyRecord) -> Actor {
    Actor {
        kind: ActorKind::Key,
        id: Some(key.id),
        name: key.name.clone(),
    }
}

/// Prepares the line of a request.
///
/// # Errors
///
/// Returns 503 if the log accepts no line at the moment.
pub async fn begin(
    http: &HttpRequest,
    service: &Service,
    tenant: Tenant,
    actor: Actor,
    action: Action,
) -> Result<(), Problem> {
    let log = service.audit();
    let log = log.ok_or_else(|| Problem::internal("the service has no audit log"))?;
    let permit = log
        .reserve(tenant)
        .await
        .map_err(|full| Problem::new(Code::Overloaded, format!("{full}.")).retry_after_sec(1))?;
    http.extensions_mut().insert(Ticket {
        permit,
        actor,
        action,
    });
    Ok(())
}

/// Names the object of a request whose path has no `id`, for its line in the audit log.
pub fn created(http: &HttpRequest, id: impl std::fmt::Display) {
    http.extensions_mut().insert(CreatedObject(id.to_string()));
}

/// Writes the line of an answered request if it has a ticket and has succeeded.
pub(crate) fn finish(response: &ServiceResponse<BoxBody>, now: impl FnOnce() -> TimestampMs) {
    let status = response.status();
    let http = response.request();
    // This takes two statements, because the extensions must not be borrowed twice.
    let ticket = http.extensions_mut().remove::<Ticket>();
    let Some(ticket) = ticket else {
        return;
    };
    // The console answers an action with a redirection. A 304 shows nothing that the caller does
    // not already have.
    if !status.is_success() && status.as_u16() != 303 {
        return;
    }
    let created = http.extensions_mut().remove::<CreatedObject>();
    let object = created.map(|CreatedObject(id)| id);
    let named = ["id", "requestId"];
    let in_path = || named.iter().find_map(|name| http.match_info().get(name));
    let object = object.or_else(|| in_path().map(str::to_owned));
    ticket.permit.record(Line {
        at: now(),
        actor: ticket.actor,
        action: ticket.action.as_str().to_owned(),
        object,
        from: client_address(http),
    });
}

/// Returns the address of the client, which is not that of a trusted proxy.
fn client_address(http: &HttpRequest) -> Option<IpAddr> {
    let peer = http.peer_addr().map(|peer| peer.ip());
    match http.app_data::<TrustedProxies>() {
        Some(proxies) => proxies.client(peer, http.headers()),
        None => peer,
    }
}
