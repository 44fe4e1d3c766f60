//! The style sheet and the script of the phone's page.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use porchlight_http::asset::Asset;
use porchlight_http::problem::Problem;
use porchlight_http::request_context::RequestContext;

/// The style sheet.
pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/phone.css");
    Asset::new("phone", "css", "text/css; charset=utf-8", bytes)
});

/// The script: live status, and the recorder in the browser.
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/phone.js");
    Asset::new("phone", "js", "text/javascript; charset=utf-8", bytes)
});

/// Returns the path that serves a file of the page.
pub(super) fn path(asset: &Asset) -> String {
    format!("/phone/{}", asset.name())
}

/// Returns a file of the page. 404 for a name that this version does not have.
pub(super) async fn serve(call: RequestContext) -> Result<HttpResponse, Problem> {
    let name = call.http.match_info().get("name").unwrap_or_default();
    let asset = [&*STYLE, &*SCRIPT]
        .into_iter()
        .find(|asset| asset.name() == name);
    asset.map(Asset::response).ok_or_else(Problem::not_found)
}
