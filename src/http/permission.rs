//! Defines the permission that each route and method needs (contract section 11: the roles of
//! secret keys).

use actix_web::HttpRequest;
use actix_web::http::Method;
use porchlight_observe::http::Route;
use porchlight_schema::key::{KeyRecord, Permission};

use super::problem::{Code, Problem};

/// Returns the permission that a request needs. A route that is not listed here needs the
/// permission to change for every method except GET and HEAD. So a new route is never open to a
/// role by accident.
#[must_use]
pub fn needed(route: Option<Route>, method: &Method) -> Permission {
    match (route, method) {
        // GET opens a WebSocket for sending telemetry.
        (Some(Route::SessionTelemetry), _) => Permission::Change,
        (_, &Method::GET | &Method::HEAD) => Permission::Read,
        (Some(Route::WebhookDeliveryRetry | Route::WebhookDeliveriesRetry), &Method::POST) => {
            Permission::RetryDelivery
        }
        _ => Permission::Change,
    }
}

/// Checks that the key has the permission for the request.
///
/// # Errors
///
/// Returns 403 `role_forbidden`.
pub fn check(key: &KeyRecord, http: &HttpRequest) -> Result<(), Problem> {
    let route = http.app_data::<Route>().copied();
    require(key, needed(route, http.method()))
}

/// Checks that the key has this permission.
///
/// # Errors
///
/// Returns 403 `role_forbidden`.
pub fn require(key: &KeyRecord, permission: Permission) -> Result<(), Problem> {
    if key.may(permission) {
        return Ok(());
    }
    let role = key.role.as_str();
    let detail = match permission {
        Permission::Read => format!("A key with the role {role} cannot read this."),
        Permission::RetryDelivery => format!("A key with the role {role} cannot retry deliveries."),
        Permission::Change => format!("A key with the role {role} cannot make changes here."),
    };
    Err(Problem::new(Code::RoleForbidden, detail))
}
