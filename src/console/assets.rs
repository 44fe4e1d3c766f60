//! The files of the console: the style sheet, the scripts and the icon.

use std::sync::LazyLock;

use actix_web::web::ServiceConfig;
use actix_web::{HttpRequest, HttpResponse};
use porchlight_http::asset::Asset;
use porchlight_http::problem::Problem;

use super::route::ROOT;

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The style sheet.
pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/console.css");
    Asset::new("console", "css", "text/css; charset=utf-8", bytes)
});

/// The script of the console.
pub(super) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| script("console", include_str!("assets/console.js")));

/// The script of pages with a map.
pub(super) static MAP_SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| script("map", include_str!("assets/map.js")));

/// The module that the scripts import.
static SHARED_SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/shared.js");
    Asset::new("shared", "js", JAVASCRIPT, bytes)
});

/// The icon in the browser's tab.
pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", bytes)
});

/// Returns a script that imports the shared module by the name under which the service serves it.
/// The text is kept for the life of the process, like every asset.
fn script(name: &str, text: &str) -> Asset {
    let served = format!("./{}", SHARED_SCRIPT.name());
    let text = text.replace("./shared.js", &served).leak();
    Asset::new(name, "js", JAVASCRIPT, text.as_bytes())
}

/// Returns the path that serves a file of the console.
pub(super) fn address(asset: &Asset) -> String {
    format!("{ROOT}/assets/{}", asset.name())
}

pub(super) fn routes(config: &mut ServiceConfig) {
    super::route::page(config, "/assets/{name}", None, serve);
}

async fn serve(http: HttpRequest) -> Result<HttpResponse, Problem> {
    let name = http.match_info().get("name").unwrap_or_default();
    let all = [&*STYLE, &*SCRIPT, &*MAP_SCRIPT, &*SHARED_SCRIPT, &*ICON];
    let asset = all.into_iter().find(|asset| asset.name() == name);
    asset.map(Asset::response).ok_or_else(Problem::not_found)
}
