//! The paths of the console's pages, and functions to add them.

use actix_web::web::{self, ServiceConfig};
use porchlight_http::route::{at, get};

/// The root path of the console.
pub(crate) const ROOT: &str = "/console";

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
pub(crate) fn act<F, Args>(config: &mut ServiceConfig, path: &str, handler: F)
where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let allowed = at(path, "POST");
    config.service(allowed.route(web::post().to(handler)));
}
