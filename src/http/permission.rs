//! Which permission each route and method needs (contract section 11: the roles of secret keys).

use actix_web::HttpRequest;
use actix_web::http::Method;
use porchlight_observe::http::Route;
use porchlight_schema::key::{KeyRecord, Permission};

use super::problem::{Code, Problem};

/// The permission that a request needs. A route that is not named here needs the permission to change for every method
/// but GET and HEAD, so that a new route is never open to a role by accident.
#[must_use]
pub fn needed(route: Option<Route>, method: &Method) -> Permission {
    match (route, method) {
        // GET opens a WebSocket on which telemetry is sent.
        (Some(Route::SessionTelemetry), _) => Permission::Change,
        (_, &Method::GET | &Method::HEAD) => Permission::Read,
        (Some(Route::WebhookDeliveryRetry | Route::WebhookDeliveriesRetry), &Method::POST) => {
            Permission::RetryDelivery
        }
        _ => Permission::Change,
    }
}

/// Checks that the key may do what the request asks for.
///
/// # Errors
///
/// 403 `role_forbidden`.
pub fn check(key: &KeyRecord, http: &HttpRequest) -> Result<(), Problem> {
    let route = http.app_data::<Route>().copied();
    require(key, needed(route, http.method()))
}

/// Checks that the key may do such an act.
///
/// # Errors
///
/// 403 `role_forbidden`.
pub fn require(key: &KeyRecord, permission: Permission) -> Result<(), Problem> {
    if key.may(permission) {
        return Ok(());
    }
    let role = key.role.as_str();
    let detail = match permission {
        Permission::Read => format!("A key of the role {role} can't read this."),
        Permission::RetryDelivery => format!("A key of the role {role} can't retry deliveries."),
        Permission::Change => format!("A key of the role {role} can't change anything here."),
    };
    Err(Problem::new(Code::RoleForbidden, detail))
}
