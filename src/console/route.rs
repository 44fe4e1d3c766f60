//! The paths of the console's pages, and functions to add them.

use actix_web::HttpRequest;
use actix_web::web::{self, ServiceConfig};
use porchlight_core::audit::Action;
use porchlight_http::route::{at, get};
use porchlight_schema::key::Permission;

/// The root path of the console.
pub(crate) const ROOT: &str = "/console";

/// The actions that need less than the permission to change, by their patterns.
const LESSER_ACTIONS: [(&str, Permission); 3] = [
    ("/console/deliveries/retry", Permission::RetryDelivery),
    ("/console/deliveries/{id}/retry", Permission::RetryDelivery),
    ("/console/sign-out", Permission::Read),
];

/// Returns the permission that a request needs: to read for a page, and to change for every action
/// that is not named here.
pub(crate) fn needed(http: &HttpRequest) -> Permission {
    if http.method().is_safe() {
        return Permission::Read;
    }
    let pattern = http.match_pattern().unwrap_or_default();
    let lesser = LESSER_ACTIONS.iter().find(|(lesser, _)| *lesser == pattern);
    lesser.map_or(Permission::Change, |(_, permission)| *permission)
}

/// The actions under which requests are recorded in the audit log, by method and pattern. The other
/// pages show no personal data.
const AUDITED: [(bool, &str, Action); 31] = [
    (true, "/console", Action::ListSessions),
    (true, "/console/sessions", Action::ListSessions),
    (true, "/console/board", Action::ViewConsole),
    (true, "/console/board/live", Action::ReadEvents),
    (true, "/console/sessions/{id}", Action::ViewConsole),
    (true, "/console/sessions/{id}/live", Action::ReadEvents),
    (
        true,
        "/console/sessions/{id}/explanation",
        Action::ReadExplanation,
    ),
    (true, "/console/deliveries/{id}", Action::ReadDelivery),
    (true, "/console/recorders/{id}", Action::ReadRecorder),
    (true, "/console/privacy", Action::ReadPrivacyRequest),
    (
        true,
        "/console/privacy/{id}/receipt",
        Action::ReadPrivacyRequest,
    ),
    (
        false,
        "/console/privacy/confirm",
        Action::ReadPrivacyRequest,
    ),
    (
        false,
        "/console/privacy/create",
        Action::CreatePrivacyRequest,
    ),
    (
        false,
        "/console/privacy/{id}/cancel",
        Action::CancelPrivacyRequest,
    ),
    (false, "/console/recorders/create", Action::CreateRecorder),
    (
        false,
        "/console/recorders/{id}/revoke",
        Action::DeleteRecorder,
    ),
    (false, "/console/sessions/{id}/review", Action::WriteReview),
    (false, "/console/sessions/{id}/hold", Action::PlaceHold),
    (
        false,
        "/console/sessions/{id}/release-hold",
        Action::ReleaseHold,
    ),
    (false, "/console/deliveries/retry", Action::RetryDeliveries),
    (
        false,
        "/console/deliveries/{id}/retry",
        Action::RetryDelivery,
    ),
    (false, "/console/webhook/register", Action::CreateWebhook),
    (false, "/console/webhook/change", Action::UpdateWebhook),
    (false, "/console/webhook/pause", Action::UpdateWebhook),
    (false, "/console/webhook/resume", Action::UpdateWebhook),
    (false, "/console/webhook/rotate", Action::RotateSecret),
    (false, "/console/webhook/end-overlap", Action::EndOverlap),
    (false, "/console/webhook/delete", Action::DeleteWebhook),
    (false, "/console/webhook/test", Action::TestWebhook),
    (false, "/console/keys/create", Action::CreateKey),
    (false, "/console/keys/{id}/revoke", Action::RevokeKey),
];

/// Returns the action under which a request is recorded, or `None` if it is not recorded.
pub(crate) fn audited(http: &HttpRequest) -> Option<Action> {
    let pattern = http.match_pattern().unwrap_or_default();
    let is_read = http.method().is_safe();
    let found = AUDITED
        .iter()
        .find(|(reads, audited, _)| *reads == is_read && *audited == pattern);
    found.map(|(_, _, action)| *action)
}

/// Adds a read-only page at `path` below the console's root.
pub(crate) fn page<F, Args>(config: &mut ServiceConfig, path: &str, handler: F)
where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let allowed = at(path, "GET, HEAD");
    config.service(allowed.route(get().to(handler)));
}

/// Adds an action at `path` below the console's root.
pub(crate) fn action<F, Args>(config: &mut ServiceConfig, path: &str, handler: F)
where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let allowed = at(path, "POST");
    config.service(allowed.route(web::post().to(handler)));
}
