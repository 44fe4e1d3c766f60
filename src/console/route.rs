//! Where the console's pages are, and how they are added.

use actix_web::web::{self, ServiceConfig};
use porchlight_http::route::{at, get};

/// Where the console is.
pub(crate) const ROOT: &str = "/console";

/// A page at `path` below the console's root that is only looked at.
pub(crate) fn page<F, Args>(config: &mut ServiceConfig, path: &str, handler: F)
where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let allowed = at(path, "GET, HEAD");
    config.service(allowed.route(get().to(handler)));
}

/// Something at `path` below the console's root that is only done.
pub(crate) fn act<F, Args>(config: &mut ServiceConfig, path: &str, handler: F)
where
    F: actix_web::Handler<Args>,
    Args: actix_web::FromRequest + 'static,
    F::Output: actix_web::Responder + 'static,
{
    let allowed = at(path, "POST");
    config.service(allowed.route(web::post().to(handler)));
}
