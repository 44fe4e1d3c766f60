//! The paths of the console's pages, and functions to add them.

use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpRequest, Resource};
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

/// The action under which the audit log records the requests of a resource.
#[derive(Clone, Copy)]
struct Audited {
    action: Action,
    /// Whether it records the reads of the resource, and not its changes.
    is_read: bool,
}

/// Returns the action under which a request is recorded, or `None` if it is not recorded.
pub(crate) fn audited(http: &HttpRequest) -> Option<Action> {
    let audited = http.app_data::<Audited>()?;
    (audited.is_read == http.method().is_safe()).then_some(audited.action)
}

/// Adds a read-only page at `path` below the console's root. `audited` is the action under which
/// its requests are recorded; `None` for a page without personal data.
pub(crate) fn page<F, Args>(
    config: &mut ServiceConfig,
    path: &str,
    audited: Option<Action>,
    handler: F,
) where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let resource = recorded(at(path, "GET, HEAD"), audited, true);
    config.service(resource.route(get().to(handler)));
}

/// Adds an action at `path` below the console's root, recorded as `audited`.
pub(crate) fn action<F, Args>(
    config: &mut ServiceConfig,
    path: &str,
    audited: Option<Action>,
    handler: F,
) where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let resource = recorded(at(path, "POST"), audited, false);
    config.service(resource.route(web::post().to(handler)));
}

/// Adds a page that is not recorded, and an action at the same `path`, recorded as `audited`.
pub(crate) fn page_with_action<P, PageArgs, A, ActionArgs>(
    config: &mut ServiceConfig,
    path: &str,
    page: P,
    audited: Option<Action>,
    action: A,
) where
    P: actix_web::Handler<PageArgs>,
    PageArgs: actix_web::FromRequest + 'static,
    P::Output: actix_web::Responder + 'static,
    A: actix_web::Handler<ActionArgs>,
    ActionArgs: actix_web::FromRequest + 'static,
    A::Output: actix_web::Responder + 'static,
{
    let resource = recorded(at(path, "GET, HEAD, POST"), audited, false);
    let with_page = resource.route(get().to(page));
    config.service(with_page.route(web::post().to(action)));
}

/// Returns the resource with the action under which its reads or its changes are recorded.
fn recorded(resource: Resource, audited: Option<Action>, is_read: bool) -> Resource {
    match audited {
        Some(action) => resource.app_data(Audited { action, is_read }),
        None => resource,
    }
}
